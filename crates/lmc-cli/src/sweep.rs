//! `lmc sweep`: a grid of experiments, in several processes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use lmc_lab::report::{ReportFiles, check_folder};
use lmc_lab::sweep::{PlannedRun, Sweep};
use lmc_lab::worker_pool::{self, ActiveRun, Notice, Outcome, PoolConfig};
use lmc_lab::{Experiment, RunRecords};
use lmc_streams::names::shown;
use lmc_streams::{Catalog, DataDirs, LEAST_BUDGET, MemoryBudget};
use serde::Serialize;
use serde_json::json;

use crate::compute::{DeviceName, MemorySize};
use crate::interrupt;
use crate::output::{print, print_json, print_text, say, table};
use crate::report;
use crate::run::name;
use crate::streams::generated_instead;

/// Folder of the report, below that of the runs.
const REPORT: &str = "report";

/// Run a grid of experiments, several at a time. What is finished is skipped; what was stopped resumes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc sweep experiments/table1/generated.toml                    the paper's table 1 on generated pictures
  lmc sweep experiments/table1/quick.toml --only stream=s_minus  one stream of it, on real data
  lmc sweep experiments/table1/full.toml --plan                  the runs, without running them

Written into DIR: manifest.json, a run directory for each run, and report/ with what came out, as by lmc report.")]
pub struct Arguments {
    /// The sweep, a .toml file.
    sweep: PathBuf,
    /// Runs at a time; by default one per core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Where the runs go; by default runs/NAME.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace a setting in all runs: `key=value`, `network.width=32`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Only runs that have one of these: `method=lmc_a,finetune`, `stream=s_*`.
    #[arg(long, value_name = "KEY=VALUES")]
    only: Vec<String>,
    /// Write the manifest, say what would be run, and stop.
    #[arg(long)]
    plan: bool,
    /// Write event files for TensorBoard into every run directory.
    #[arg(long)]
    tensorboard: bool,
    /// Print the outcome of each run as JSON.
    #[arg(long)]
    json: bool,
    /// Threads of each run; by default its share of the cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory of all runs together for pictures, batches and caches, as 2G; by default half of what there is.
    #[arg(long, value_name = "SIZE")]
    memory: Option<MemorySize>,
    /// Where to compute: cpu, or gpu in a build with `--features wgpu`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu", hide_possible_values = true)]
    device: DeviceName,
}

/// One run in the output.
#[derive(Serialize)]
struct RunResult<'a> {
    name: &'a str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    /// A and F in per cent, and M, under the protocol with which the paper tests the method.
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forgetting: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modules: Option<usize>,
}

/// Runs the verb.
pub fn run(arguments: &Arguments, data_dir: Option<&Path>) -> Result<()> {
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(name(&arguments.sweep)));
    let sweep = Sweep::read(&arguments.sweep, &out, &arguments.changes, &arguments.only)?;
    for note in stand_ins(&sweep.runs, &Catalog::new(DataDirs::search(data_dir)?))? {
        say(&format!("note: {note}"));
    }
    check_folder(&out.join(REPORT))?;
    sweep.write(&out)?;
    if arguments.plan {
        return plan(&sweep, &out, arguments.json);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.map_or(cores, usize::from).min(sweep.runs.len()).max(1);
    let threads = arguments.threads.map_or((cores / jobs).max(1), usize::from);
    // A device that is not there is an error before any run is begun.
    arguments.device.init()?;
    let mut words =
        ["--threads", &threads.to_string(), "--device", arguments.device.name()].map(str::to_owned).to_vec();
    let memory =
        arguments.memory.map_or_else(|| MemoryBudget::of_process().bytes(), |MemorySize(bytes)| bytes);
    let share = (memory / jobs as u64).max(LEAST_BUDGET) >> 10;
    words.extend(["--memory".into(), format!("{share}K")]);
    if arguments.tensorboard {
        words.push("--tensorboard".into());
    }
    if let Some(folder) = data_dir {
        words.extend(["--data-dir".into(), folder.display().to_string()]);
    }
    interrupt::listen()?;
    let config =
        PoolConfig { program: std::env::current_exe()?, jobs, arguments: words, stop: interrupt::flag() };
    let mut screen = Screen::new(&sweep.runs);
    let outcomes = worker_pool::work(&config, &sweep.runs, &mut |notice| screen.show(notice))?;
    screen.bars.clear()?;
    let lines: Vec<RunResult<'_>> =
        sweep.runs.iter().zip(&outcomes).map(|(run, outcome)| line(run, outcome)).collect();
    if arguments.json {
        print_json(&lines)?;
    } else {
        let failed =
            lines.iter().filter_map(|line| Some(vec![line.name.to_owned(), line.problem?.to_owned()]));
        let failed: Vec<Vec<String>> = failed.collect();
        if !failed.is_empty() {
            print_text(&table(&["failed", "why"], &[], failed))?;
        }
    }
    if lines.iter().any(|line| line.accuracy.is_some()) {
        let written = written(&out)?;
        if !arguments.json {
            report::show(&written)?;
        }
    }
    if outcomes.contains(&Outcome::Stopped) {
        let is_over = |outcome: &&Outcome| matches!(outcome, Outcome::FinishedBefore | Outcome::Finished);
        let done = format!("{} of {} runs", outcomes.iter().filter(is_over).count(), outcomes.len());
        return Err(lmc::Error::Stopped { done }.into());
    }
    let failed = lines.iter().filter(|line| line.status == "failed").count();
    if failed > 0 {
        return Err(Failed { failed, runs: lines.len() }.into());
    }
    Ok(())
}

/// The report of all runs in the sweep's folder.
fn written(out: &Path) -> Result<ReportFiles> {
    let runs = [out.to_owned()];
    report::make(&RunRecords::find(&runs)?, &runs, &out.join(REPORT))
}

/// The streams of runs to do for which generated images stand in, and why. A stream that is not to be had is an error before
/// any run is begun.
fn stand_ins(runs: &[PlannedRun], catalog: &Catalog) -> Result<Vec<String>> {
    let to_do = runs.iter().filter(|run| !run.directory.is_finished()).map(|run| &run.experiment);
    let mut streams: Vec<&Experiment> = Vec::new();
    for experiment in to_do {
        let same = |other: &&Experiment| {
            (&other.stream, &other.variant, other.stream_seed)
                == (&experiment.stream, &experiment.variant, experiment.stream_seed)
        };
        if !streams.iter().any(same) {
            streams.push(experiment);
        }
    }
    let mut notes = Vec::new();
    for experiment in streams {
        let request = experiment.request()?;
        let found = catalog.plan(&request)?.variant;
        if let Some(note) = generated_instead(&request, found, catalog) {
            notes.push(format!("{}: {note}", experiment.stream));
        }
    }
    Ok(notes)
}

/// Not all runs came to their end.
#[derive(Debug)]
pub struct Failed {
    failed: usize,
    runs: usize,
}

impl std::error::Error for Failed {}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { failed, runs } = self;
        write!(
            f,
            "{failed} of {runs} runs failed, see above; the same command tries them again, but for damaged ones"
        )
    }
}

fn plan(sweep: &Sweep, out: &Path, json: bool) -> Result<()> {
    let status = |run: &PlannedRun| if run.directory.is_finished() { "finished" } else { "to do" };
    if json {
        let line = |run: &PlannedRun| {
            let PlannedRun { name, experiment, .. } = run;
            let (method, stream, seed) = (&experiment.method, &experiment.stream, experiment.seed);
            json!({ "name": name, "method": method, "stream": stream, "seed": seed, "status": status(run) })
        };
        return print_json(&sweep.runs.iter().map(line).collect::<Vec<_>>());
    }
    let row = |run: &PlannedRun| {
        let PlannedRun { experiment, .. } = run;
        vec![
            experiment.method.clone(),
            experiment.stream.clone(),
            experiment.seed.to_string(),
            status(run).into(),
            run.name.clone(),
        ]
    };
    print_text(&table(
        &["method", "stream", "seed", "status", "run"],
        &["seed"],
        sweep.runs.iter().map(row).collect(),
    ))?;
    print(&format!("{} runs; manifest: {}", sweep.runs.len(), out.join("manifest.json").display()))
}

fn line<'a>(run: &'a PlannedRun, outcome: &'a Outcome) -> RunResult<'a> {
    let (status, problem) = match outcome {
        Outcome::FinishedBefore => ("finished before", None),
        Outcome::Finished => ("finished", None),
        Outcome::Failed(why) => ("failed", Some(why.as_str())),
        Outcome::Stopped => ("stopped", None),
    };
    let mut line =
        RunResult { name: &run.name, status, problem, accuracy: None, forgetting: None, modules: None };
    if problem.is_none() && *outcome != Outcome::Stopped {
        match run.directory.finished() {
            Ok(metrics) => {
                let headline = metrics.as_ref().map(lmc_lab::Metrics::headline);
                line.accuracy = headline.map(|headline| 100.0 * headline.accuracy);
                line.forgetting = headline.map(|headline| 100.0 * headline.forgetting);
                line.modules = metrics.map(|metrics| metrics.modules());
            }
            Err(_) => {
                let problem = "its metrics.json is damaged; run it alone with --fresh";
                (line.status, line.problem) = ("failed", Some(problem));
            }
        }
    }
    line
}

/// What is seen while runs go on: a bar per run on a terminal, a line per event elsewhere.
struct Screen {
    bars: MultiProgress,
    total: ProgressBar,
    each: Vec<(String, ProgressBar)>,
    watched: bool,
    runs: usize,
    over: usize,
    /// Runs that this session has worked off.
    worked: usize,
    started: Instant,
    said: Instant,
}

impl Screen {
    fn new(runs: &[PlannedRun]) -> Self {
        let over = runs.iter().filter(|run| run.directory.is_finished()).count();
        let bars = MultiProgress::new();
        let total = bars.add(ProgressBar::new(1000));
        if let Ok(style) = ProgressStyle::with_template("{prefix:34!} {bar:10} {percent:>3} % {wide_msg}") {
            total.set_style(style);
        }
        total.set_prefix(format!("{over} of {} runs", runs.len()));
        let watched = std::io::IsTerminal::is_terminal(&std::io::stderr());
        if !watched && over > 0 {
            say(&format!("{over} of {} runs were finished before", runs.len()));
        }
        let (started, said) = (Instant::now(), Instant::now());
        Self { bars, total, each: Vec::new(), watched, runs: runs.len(), over, worked: 0, started, said }
    }

    fn say(&self, line: &str) {
        if self.watched {
            let _ = self.bars.println(shown(line));
        } else {
            say(line);
        }
    }

    fn show(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Started(run) => {
                let bar = self.bars.insert_before(&self.total, ProgressBar::new(1000));
                bar.set_style(self.total.style());
                bar.set_prefix(run.name.clone());
                self.each.push((run.name.clone(), bar));
                if !self.watched {
                    self.say(&format!("started  {}", run.name));
                }
            }
            Notice::Ended(run, outcome, took) => {
                if let Some(at) = self.each.iter().position(|(name, _)| *name == run.name) {
                    self.each.remove(at).1.finish_and_clear();
                }
                self.over += 1;
                self.worked += 1;
                let what = match outcome {
                    Outcome::Finished | Outcome::FinishedBefore => "finished",
                    Outcome::Failed(_) => "failed  ",
                    Outcome::Stopped => "stopped ",
                };
                let why = if let Outcome::Failed(why) = outcome { format!(": {why}") } else { String::new() };
                self.say(&format!("{what} {} after {}{why}", run.name, duration(*took)));
            }
            Notice::Active(active) => self.active(active),
        }
    }

    fn active(&mut self, active: &[ActiveRun<'_>]) {
        // A run that resumes from an earlier session is taken as if it were begun in this one: the estimate is rough.
        let reached: f64 = active.iter().map(|run| run.progress.share()).sum();
        let left = self.runs as f64 - self.over as f64 - reached;
        let done = self.worked as f64 + reached;
        let eta = if done > 0.05 {
            format!(", about {} left", duration(self.started.elapsed().mul_f64(left.max(0.0) / done)))
        } else {
            String::new()
        };
        self.total.set_prefix(format!("{} of {} runs", self.over, self.runs));
        self.total.set_position(((self.over as f64 + reached) / self.runs.max(1) as f64 * 1000.0) as u64);
        self.total.set_message(eta.trim_start_matches(", ").to_owned());
        let text = |run: &ActiveRun<'_>| {
            let reached = run.progress;
            match reached.epochs {
                0 => "loading".to_owned(),
                _ => format!(
                    "task {} of {}, epoch {} of {}",
                    reached.task + 1,
                    reached.tasks,
                    reached.epoch,
                    reached.epochs
                ),
            }
        };
        for run in active {
            if let Some((_, bar)) = self.each.iter().find(|(name, _)| *name == run.run.name) {
                bar.set_position((run.progress.share() * 1000.0) as u64);
                bar.set_message(text(run));
            }
        }
        const SAY_EVERY: Duration = Duration::from_secs(60);
        if !self.watched && self.said.elapsed() >= SAY_EVERY {
            self.said = Instant::now();
            let each: Vec<String> =
                active.iter().map(|run| format!("{} ({})", run.run.name, text(run))).collect();
            self.say(&format!("{} of {} runs{eta}; now {}", self.over, self.runs, each.join(", ")));
        }
    }
}

/// 75 s, 12 min, 3 h 20 min.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let text = [5, 150, 12_000].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(text, ["5 s", "2 min", "3 h 20 min"]);
    }
}
