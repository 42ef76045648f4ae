//! `lmc forget`: a model without one of its tasks.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::merge::NewModelFile;
use crate::output::{print, print_json, print_text, table};

/// Remove a task from a model: its head, the modules that no other task uses, and its name.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc forget shop.lmc --task fruit --out without_fruit.lmc
Modules that later tasks are classified behind stay, or these tasks would change; the table says how many of
them were trained on the task's pictures. MODEL itself is not changed: delete it when the new file is what you
want.")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// Name of the task.
    #[arg(long)]
    task: String,
    /// The model file without the task.
    #[arg(long)]
    out: PathBuf,
    /// Replace the new model file if there is another one already.
    #[arg(long)]
    replace: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut out = NewModelFile::open(&arguments.out, arguments.replace)?;
    let mut model = out.read(&arguments.model)?;
    let report = model.forget(&arguments.task)?;
    out.save(&model)?;
    if arguments.json {
        return print_json(&report);
    }
    let layers = report.modules.iter().zip(&report.removed).zip(&report.kept).enumerate();
    let rows = layers
        .map(|(layer, ((modules, removed), kept))| {
            [layer, *removed, *kept, *modules].map(|n| n.to_string()).to_vec()
        })
        .collect();
    let titles = ["layer", "modules removed", "kept though trained on it", "modules now"];
    print_text(&table(&titles, &titles, rows))?;
    let kept: usize = report.kept.iter().sum();
    if kept > 0 {
        print(&format!(
            "note: {kept} modules that were trained on pictures of '{}' stay, because later tasks are classified behind \
             them",
            report.task
        ))?;
    }
    print(&format!("written: {}", arguments.out.display()))
}
