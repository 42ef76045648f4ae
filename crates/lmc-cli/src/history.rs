//! `lmc history`: what a model file went through.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lmc::internals::file::dates::Dates;
use lmc::{Act, HistoryEntry, LearnedFrom, Model};
use serde::Serialize;

use crate::output::{grouped, percent, print, print_json, print_text, table};
use crate::progress::{reason, tested};

/// What a model learned when, from how many pictures, with which settings and which version of lmc.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc history shop.lmc
  lmc history shop.lmc --json | jq '.[0].act.learned.from.config'     all settings of a task
Dates are kept beside the model, in shop.lmc.dates: copy that file too, or they are lost.")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// Print JSON, with all settings.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Dated<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a str>,
    #[serde(flatten)]
    entry: &'a HistoryEntry,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    let model = Model::load(&arguments.model)?;
    let dates = Dates::read(&arguments.model);
    let entries = &model.history.entries;
    let dated: Vec<Dated<'_>> =
        entries.iter().map(|entry| Dated { at: dates.of(&entry.id), entry }).collect();
    if arguments.json {
        return print_json(&dated);
    }
    let rows = dated.iter().map(row).collect();
    let titles = ["when (UTC)", "what", "train", "val", "epochs", "validation", "data", "lmc"];
    print_text(&table(&titles, &["train", "val", "epochs", "validation"], rows))?;
    for entry in entries {
        growth(entry).iter().try_for_each(|line| print(line))?;
    }
    let unknown: Vec<&str> =
        model.tasks().filter(|task| model.history.learned_from(task).next().is_none()).collect();
    if !unknown.is_empty() {
        print(&format!("learned by a version that kept no history: {}", unknown.join(", ")))?;
    }
    Ok(())
}

/// What was tested for expansion while a task was learned, and what was dropped; nothing where no test was of all pictures.
fn growth(entry: &HistoryEntry) -> Vec<String> {
    let (Act::Learned { task, from } | Act::Extended { task, from, .. }) = &entry.act else {
        return Vec::new();
    };
    let tests = from.tests.iter().map(|test| format!("  epoch {}: {}", test.epoch + 1, tested(test)));
    let mut lines: Vec<String> =
        tests.chain(from.dropped.iter().map(|dropped| format!("  {}", reason(dropped)))).collect();
    if !lines.is_empty() {
        lines.insert(0, format!("growth in '{task}':"));
    }
    lines
}

fn row(dated: &Dated<'_>) -> Vec<String> {
    let entry = dated.entry;
    let (what, from) = match &entry.act {
        Act::Learned { task, from } => (format!("learned '{task}', {} classes", from.classes), Some(from)),
        Act::Extended { task, head, new_classes, from } => {
            let more = match new_classes.as_slice() {
                [] => String::new(),
                classes => format!(", new: {}", classes.join(", ")),
            };
            (format!("more for '{task}', version {head} of its head{more}"), Some(from))
        }
        Act::Calibrated { task, .. } => (format!("calibrated '{task}'"), None),
        Act::Merged { models } => (format!("merged {}", models.join(", ")), None),
        Act::Renamed { task, class: true, from, to } => {
            (format!("class '{from}' of '{task}' became '{to}'"), None)
        }
        Act::Renamed { class: false, from, to, .. } => (format!("'{from}' became '{to}'"), None),
        Act::Forgot { modules } => (format!("forgot a task and {modules} modules"), None),
    };
    let what = match &entry.model {
        Some(model) => format!("{what} (in {model})"),
        None => what,
    };
    let mut row = vec![dated.at.unwrap_or("unknown").replace('T', " ").replace('Z', ""), what];
    row.extend(from.map_or(vec![String::new(); 5], |from| numbers(from)));
    row.push(entry.version.clone());
    row
}

fn numbers(from: &LearnedFrom) -> Vec<String> {
    vec![
        grouped(from.train as u64),
        grouped(from.val as u64),
        from.epochs.to_string(),
        from.val_accuracy.map_or(String::new(), percent),
        from.data.chars().take(8).collect(),
    ]
}
