//! `lmc tell-apart`: how well tasks can be told apart by how their pictures look.

use anyhow::Result;
use clap::Args;
use lmc::{Error, Preparation};
use lmc_lab::detection::Detection;
use lmc_lab::picture_changes::PictureChange;
use lmc_lab::tell_apart::{TellApart, TellApartConfig, tell_apart};
use lmc_streams::{Catalog, OwnTask, Seed, StreamRequest, Task};

use crate::output::{percent, print, print_json, print_text, spinner, table};

/// How well tasks can be told apart by how their pictures look, before anything is learned.
///
/// A model finds the task of a picture by how it looks (its signature). This makes the signatures of some tasks from their
/// training pictures, assigns other pictures one by one, as they are and with small changes, and leaves out one data set after
/// the other to see whether its pictures are called new.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc tell-apart --task fruit --data fruit/ --task tea --data tea/
  lmc tell-apart --stream s_pl --test")]
pub struct Arguments {
    /// A task; repeated, with a --data each.
    #[arg(long, required_unless_present = "stream")]
    task: Vec<String>,
    /// Pictures of the task, in any form that `lmc learn` reads.
    #[arg(long, required_unless_present = "stream")]
    data: Vec<String>,
    /// Instead of tasks and data: the tasks of a stream. A name or a file, as for `lmc streams`.
    #[arg(long, conflicts_with_all = ["task", "data"])]
    stream: Option<String>,
    /// Assign test pictures instead of validation pictures.
    #[arg(long)]
    test: bool,
    /// Assign at most this many pictures of each task.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    at_most: u32,
    /// Share of known pictures that may be called new.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    false_alarms: f64,
    /// Share of the training pictures to validate on, where the data have no validation split.
    #[arg(long, default_value_t = 0.15)]
    val_fraction: f64,
    /// Seed of the changes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    if !(0.0..1.0).contains(&arguments.false_alarms) {
        let problem = format!("{} is not a share", arguments.false_alarms);
        return Err(
            Error::setting("--false-alarms", problem, "use 0 to below 1, 0.01 for one in a hundred").into()
        );
    }
    let preparation = Preparation::default();
    let tasks = read(arguments, &preparation, catalog)?;
    let split = if arguments.test { "test" } else { "validation" };
    for task in &tasks {
        if (if arguments.test { &task.test } else { &task.val }).is_empty() {
            let cure =
                if arguments.test { "leave out --test" } else { "give a larger --val-fraction, or --test" };
            let problem = format!("it has no {split} pictures");
            return Err(Error::setting(format!("task '{}'", task.name), problem, cure).into());
        }
    }
    let config = TellApartConfig {
        test: arguments.test,
        most: arguments.at_most as usize,
        false_alarms: arguments.false_alarms,
        seed: arguments.seed,
    };
    let waiting = spinner("describing pictures".into());
    let found = tell_apart(&tasks, &preparation, &config, &mut |task| {
        waiting.set_message(format!("describing pictures of {task}"));
    })?;
    waiting.finish_and_clear();
    if arguments.json { print_json(&found) } else { show(&found, split) }
}

fn read(arguments: &Arguments, preparation: &Preparation, catalog: &Catalog) -> Result<Vec<Task>> {
    if let Some(name) = &arguments.stream {
        let waiting = spinner(format!("loading {name}"));
        let stream = catalog.stream(&StreamRequest::named(name))?;
        waiting.finish_and_clear();
        stream.substitutions.iter().for_each(|text| crate::output::say(&format!("note: {text}")));
        return Ok(stream.tasks);
    }
    if arguments.task.len() != arguments.data.len() {
        let problem = format!("{} tasks and {} data", arguments.task.len(), arguments.data.len());
        return Err(Error::setting("--task", problem, "give one --data for each --task").into());
    }
    let mut tasks: Vec<Task> = Vec::with_capacity(arguments.task.len());
    for (name, source) in arguments.task.iter().zip(&arguments.data) {
        if tasks.iter().any(|known| known.name == *name) {
            let problem = format!("'{name}' is given twice");
            return Err(Error::setting("--task", problem, "give each task a name of its own").into());
        }
        let waiting = spinner(format!("reading {source}"));
        let own = OwnTask {
            name: name.clone(),
            preparation: *preparation,
            val_fraction: arguments.val_fraction,
            seed: Seed::root(arguments.seed).named("validation").named(name),
            skip_damaged: false,
        };
        let task = own.read(source, catalog)?;
        waiting.finish_and_clear();
        tasks.push(task);
    }
    Ok(tasks)
}

fn show(found: &TellApart, split: &str) -> Result<()> {
    print(&format!("task found of single {split} pictures:"))?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for task in &found.tasks {
        let mut row = vec![task.task.clone(), task.images.to_string()];
        row.extend(task.found.iter().map(|(_, share)| percent(*share)));
        row.push(percent(task.called_new));
        let others = task.taken_for.iter().filter(|(name, _)| *name != task.task).take(2);
        let others: Vec<String> = others.map(|(name, share)| format!("{name} {}", percent(*share))).collect();
        row.push(others.join(", "));
        rows.push(row);
    }
    let mean = |of: &dyn Fn(usize) -> f64| {
        percent((0..found.tasks.len()).map(of).sum::<f64>() / found.tasks.len().max(1) as f64)
    };
    let mut row = vec!["mean".into(), found.tasks.iter().map(|task| task.images).sum::<usize>().to_string()];
    row.extend((0..PictureChange::ALL.len()).map(|change| mean(&|task| found.tasks[task].found[change].1)));
    row.push(mean(&|task| found.tasks[task].called_new));
    row.push(String::new());
    rows.push(row);
    let mut titles = vec!["task", "pictures"];
    titles.extend(PictureChange::ALL.map(PictureChange::title));
    titles.extend(["called new", "else taken for"]);
    print_text(&table(&titles, &titles[1..titles.len() - 1], rows))?;
    if found.unknown.is_empty() {
        return Ok(());
    }
    print("")?;
    print("pictures of a data set that no known task is of (the others are known):")?;
    let cell = |detection: Option<Detection>, of: fn(Detection) -> f64| {
        detection.map_or_else(|| "?".into(), |detection| percent(of(detection)))
    };
    let row = |unknown: &lmc_lab::tell_apart::UnknownFound| {
        vec![
            unknown.dataset.clone(),
            cell(unknown.detection, |detection| detection.auroc),
            cell(unknown.detection, |detection| detection.hits_at_1),
            cell(unknown.detection, |detection| detection.hits_at_5),
            percent(unknown.called_new),
            percent(unknown.false_alarms),
        ]
    };
    let titles = ["left out", "AUROC", "hits at 1 %", "hits at 5 %", "called new", "false alarms"];
    print_text(&table(&titles, &titles[1..], found.unknown.iter().map(row).collect()))
}
