//! `lmc head-rules`: the ways to choose a head, compared on finished runs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lmc::Error;
use lmc_lab::head_rules::{HeadRule, RuleRow, concerns, measure, rows};
use lmc_lab::report::Spread;
use lmc_lab::{RunRecord, RunRecords};
use lmc_streams::Catalog;

use crate::compute::Compute;
use crate::output::{print, print_json, print_text, say, spinner, table};

/// Compare the ways to choose a head, on the networks of finished runs of LMC.
///
/// Training does not depend on how heads are chosen: one network serves all rules. What is measured of a run is kept in its
/// directory, in head_rules.json; asked again, the command measures only what is missing.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc sweep experiments/head_first/quick.toml --out runs/head-first
  lmc head-rules runs/head-first
  lmc head-rules runs/head-first --json

Means over the tasks of a stream, of single test images unless a column says otherwise; with several
seeds mean ± standard deviation. Answers count by class name; 'paper's count' is the position of the
label in batches of one task, whichever head answered.")]
pub struct Arguments {
    /// Run directories, or folders with run directories anywhere in them.
    #[arg(required = true, value_name = "RUNS")]
    runs: Vec<PathBuf>,
    /// Test images of each task, at most.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    at_most: u32,
    /// Only this rule; repeated for several.
    #[arg(long, value_parser = rule)]
    rule: Vec<HeadRule>,
    /// Print JSON: all runs with all tasks.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: Compute,
}

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    let device = arguments.compute.init()?;
    let rules = if arguments.rule.is_empty() { &HeadRule::ALL[..] } else { &arguments.rule };
    let measured = each_finished(&arguments.runs, concerns, |run, show| {
        Ok(measure(run, rules, arguments.at_most as usize, catalog, &device, show)?)
    })?;
    if arguments.json {
        return print_json(&measured);
    }
    print_text(&table(&TITLES, &TITLES[2..], rows(&measured).iter().map(line).collect()))?;
    let seeds = seeds(measured.iter().map(|run| run.seed));
    print(&format!("seeds {seeds}; up to {} test images of each task", arguments.at_most))
}

/// Measures the finished runs in some folders that a comparison concerns; says which were left out, and what is being done.
pub fn each_finished<T>(
    folders: &[PathBuf],
    concerns: fn(&RunRecord) -> bool,
    measure: impl Fn(&RunRecord, &mut dyn FnMut(&str)) -> Result<T>,
) -> Result<Vec<T>> {
    let mut records = RunRecords::find(folders)?;
    records.finished.retain(concerns);
    if records.finished.is_empty() {
        let problem = "there is no finished run of LMC with a model";
        return Err(Error::setting("runs", problem, "finish some with lmc sweep or lmc run").into());
    }
    for (word, run) in records.incomplete() {
        say(&format!("left out, {word}: {}", run.directory.display()));
    }
    let waiting = spinner("measuring".into());
    let mut show = |text: &str| waiting.set_message(text.to_owned());
    let measured = records.finished.iter().map(|run| measure(run, &mut show)).collect();
    waiting.finish_and_clear();
    measured
}

/// Seeds in order, each once.
pub fn seeds(all: impl Iterator<Item = u64>) -> String {
    let seeds: Vec<String> = all.collect::<BTreeSet<_>>().iter().map(ToString::to_string).collect();
    seeds.join(", ")
}

/// The rule of this name.
fn rule(name: &str) -> std::result::Result<HeadRule, String> {
    let names = HeadRule::ALL.map(HeadRule::name);
    let found = HeadRule::ALL.into_iter().find(|rule| rule.name() == name);
    found.ok_or_else(|| format!("the rules are {}", names.join(", ")))
}

const TITLES: [&str; 10] = [
    "stream",
    "head chosen by",
    "single",
    "mixed batches",
    "batches of one task",
    "task given",
    "task found",
    "paper's count",
    "called new",
    "µs an image",
];

fn line(row: &RuleRow) -> Vec<String> {
    let cell = |spread: Option<Spread>| spread.map_or_else(|| "-".into(), |spread| spread.text());
    let mut cells = vec![row.stream.clone(), row.rule.title().to_owned()];
    cells.extend(row.by_name.map(cell));
    cells.extend([row.task_found, row.paper_count, row.called_new].map(cell));
    cells.push(row.microseconds.map_or_else(|| "-".into(), |spread| format!("{:.0}", spread.mean)));
    cells
}
