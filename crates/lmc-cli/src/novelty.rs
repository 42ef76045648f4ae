//! `lmc novelty`: how well images of no learned task are told from known ones, on finished runs.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lmc_lab::novelty::{NoveltyRow, concerns, measure, rows};
use lmc_lab::report::Spread;
use lmc_streams::Catalog;

use crate::compute::Compute;
use crate::head_rules::{each_finished, seeds};
use crate::output::{print, print_json, print_text, table};

/// How well images of no learned task are told from known ones, on finished runs of LMC.
///
/// Unknown are: each data set of the stream, after its tasks were forgotten; tiny-imagenet, where it is on this machine;
/// generated families; noise; single colours; digits, inverted and turned. What is measured of a run is kept in its directory,
/// in novelty.json.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc sweep experiments/head_first/quick.toml --out runs/head-first --only stream=s_pl,s_in
  lmc novelty runs/head-first
  lmc demo && lmc novelty lmc-demo

AUROC: how often an unknown image is more novel than a known one. Hits: unknown images that are more
novel than all but 1 % or 5 % of the known ones. Called new and false alarms: at the model's own limit.
'Looks' is the signature's rule, 'scores' that of structural losses; models use both. Test images, means
over seeds.")]
pub struct Arguments {
    /// Run directories, or folders with run directories anywhere in them.
    #[arg(required = true, value_name = "RUNS")]
    runs: Vec<PathBuf>,
    /// Test images of each task, and images of each unknown kind, at most.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    at_most: u32,
    /// Print JSON: all runs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: Compute,
}

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    let device = arguments.compute.init()?;
    let measured = each_finished(&arguments.runs, concerns, |run, show| {
        Ok(measure(run, arguments.at_most as usize, catalog, &device, show)?)
    })?;
    if arguments.json {
        return print_json(&measured);
    }
    print_text(&table(&TITLES, &TITLES[2..], rows(&measured).iter().map(line).collect()))?;
    let seeds = seeds(measured.iter().map(|run| run.seed));
    print(&format!("seeds {seeds}; up to {} images of each task and kind", arguments.at_most))
}

const TITLES: [&str; 9] = [
    "stream",
    "unknown",
    "AUROC",
    "by looks",
    "by scores",
    "hits at 1 %",
    "hits at 5 %",
    "called new",
    "false alarms",
];

fn line(row: &NoveltyRow) -> Vec<String> {
    let cell = |spread: Option<Spread>| spread.map_or_else(|| "-".into(), |spread| spread.text());
    let [looks, scores, both] = row.auroc.map(cell);
    let mut cells = vec![row.stream.clone(), row.unknown.clone(), both, looks, scores];
    cells.extend([row.hits_at_1, row.hits_at_5, row.called_new, row.false_alarms].map(cell));
    cells
}
