//! `lmc run`: an experiment, from its file to its metrics.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lmc::Protocol;
use lmc_lab::run_directory::RunDirectory;
use lmc_lab::{Experiment, Metrics, Run};
use lmc_streams::Catalog;

use crate::compute::Compute;
use crate::interrupt;
use crate::output::{print, print_json, print_text, spinner, table};
use crate::progress::Progress;
use crate::streams::generated_instead;

/// Run an experiment: learn a stream, evaluate the method, and write a run directory. A run that was stopped resumes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc run experiments/ctrl/lmc_a/s_minus.toml                            the paper's S- by LMC(A)
  lmc run experiments/ctrl/lmc_a/s_minus.toml --set learner.epochs=10    shorter
  lmc run experiments/ctrl/lmc_a/s_minus.toml --set method=ewc           by a baseline
  lmc run experiments/ctrl/lmc_a/s_minus.toml --set seed=7 --out runs/7  another seed")]
pub struct Arguments {
    /// The experiment, a .toml file.
    experiment: PathBuf,
    /// Replace a setting of the file: `key=value`, `learner.epochs=10`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// The run directory; by default runs/NAME-HASH, where the hash is that of the configuration.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Delete what an earlier run left in the run directory, and start anew.
    #[arg(long)]
    fresh: bool,
    /// Write event files for TensorBoard into the run directory too.
    #[arg(long)]
    tensorboard: bool,
    /// Save and stop when standard input ends: for programs that start runs.
    #[arg(long, hide = true)]
    stop_at_end_of_input: bool,
    /// Print the metrics as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: Compute,
}

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    let device = arguments.compute.init()?;
    let experiment = Experiment::read(&arguments.experiment, &arguments.changes)?;
    let directory = match &arguments.out {
        Some(directory) => directory.clone(),
        None => PathBuf::from("runs").join(format!("{}-{}", name(&arguments.experiment), experiment.hash()?)),
    };
    RunDirectory::new(&directory).refuse_foreign()?;
    let waiting = spinner(format!("loading {}", experiment.stream));
    let request = experiment.request()?;
    let stream = catalog.stream(&request)?;
    waiting.finish_and_clear();
    interrupt::listen()?;
    if arguments.stop_at_end_of_input {
        interrupt::listen_to_input();
    }
    let mut progress = Progress::new(false);
    if let Some(note) = generated_instead(&request, stream.variant, catalog) {
        progress.say(&format!("note: {note}"));
    }
    for substitution in &stream.substitutions {
        progress.say(&format!("note: {substitution}"));
    }
    progress.say(&format!("run directory: {}", directory.display()));
    let was_finished = RunDirectory::new(&directory).is_finished() && !arguments.fresh;
    let job = Run {
        experiment: &experiment,
        stream: &stream,
        directory: &directory,
        fresh: arguments.fresh,
        tensorboard: arguments.tensorboard,
        device: &device,
        stop: interrupt::flag(),
    };
    let metrics = lmc_lab::run(&job, &mut |notice| progress.follow(&notice))?;
    if was_finished {
        progress.say("this run was done already; --fresh does it again");
    }
    if arguments.json {
        return print_json(&metrics);
    }
    report(&metrics)
}

/// `lmc_a-s_minus` for `experiments/ctrl/lmc_a/s_minus.toml`.
pub fn name(path: &std::path::Path) -> String {
    let part = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let folder = part(path.parent().and_then(std::path::Path::file_name));
    [folder, part(path.file_stem())].into_iter().flatten().collect::<Vec<_>>().join("-")
}

fn report(metrics: &Metrics) -> Result<()> {
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let measured = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    let mut rows: Vec<Vec<String>> = metrics
        .tasks
        .iter()
        .map(|task| {
            let modules: Vec<String> = task.report.modules.iter().map(ToString::to_string).collect();
            vec![
                task.task.clone(),
                modules.join(" "),
                percent(task.after.headline(metrics.task_agnostic)),
                percent(task.end.headline(metrics.task_agnostic)),
                percent(task.end.task_given),
                measured(task.end.mixed),
                measured(task.end.single),
                if metrics.task_agnostic { percent(task.own_head.task_batches) } else { "-".into() },
            ]
        })
        .collect();
    let mean = |protocol: Protocol| measured(metrics.summary(protocol).map(|summary| summary.accuracy));
    rows.push(vec![
        "mean (A)".into(),
        metrics.modules().to_string(),
        String::new(),
        percent(metrics.headline().accuracy),
        mean(Protocol::TaskGiven),
        mean(Protocol::Mixed),
        mean(Protocol::Single),
        String::new(),
    ]);
    let titles =
        ["task", "modules", "right after", "at the end", "task given", "mixed", "single", "own head"];
    print_text(&table(&titles, &titles[2..], rows))?;
    let protocol = if metrics.task_agnostic { "the task not given" } else { "the task given" };
    print(&format!(
        "F {:+.1}; accuracies in %, {protocol}, in test batches of one task unless the title says otherwise",
        100.0 * metrics.headline().forgetting
    ))
}
