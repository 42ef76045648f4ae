//! `lmc rename`: another name for a task or a class.

use std::path::PathBuf;

use anyhow::Result;
use burn::tensor::Device;
use clap::Args;
use lmc::{Error, ModelFile};

use crate::output::print;

/// Give a task, or a class of it, another name.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc rename shop.lmc --task fruit --to obst
  lmc rename shop.lmc --task fruit --class apple --to apfel")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// Name of the task.
    #[arg(long)]
    task: String,
    /// Name of the class, if a class gets another name.
    #[arg(long)]
    class: Option<String>,
    /// The new name.
    #[arg(long)]
    to: String,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut file = ModelFile::open(&arguments.model)?;
    let Some(mut model) = file.load_to_change(&Device::flex())? else {
        return Err(Error::bad(&arguments.model, "there is no such model file", "check the path").into());
    };
    let Arguments { task, to, .. } = arguments;
    match &arguments.class {
        Some(class) => model.rename_class(task, class, to)?,
        None => model.rename_task(task, to)?,
    }
    file.save(&model)?;
    print(&format!("'{}' is now '{to}'", arguments.class.as_ref().unwrap_or(task)))?;
    print(&format!("written: {}", arguments.model.display()))
}
