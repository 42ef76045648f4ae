//! `lmc report`: runs become tables beside the paper's, pictures and a page.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use lmc_lab::RunRecords;
use lmc_lab::report::metric::Metric;
use lmc_lab::report::run_table::RunTable;
use lmc_lab::report::table1::Table1Row;
use lmc_lab::report::{Compared, ReportFiles, shell_quoted, signed, write};

use crate::output::{print, print_json, print_text, say, table};

/// Report runs: tables beside the paper's numbers, pictures, costs, as a page and as Markdown.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc report runs --out report              all runs below a folder; then open report/index.html
  lmc report runs/a runs/b --out report     these two
  lmc report runs --out report --json       table 1 for a script
  lmc report runs --metric A_single         one number of every method on every stream; runs.csv has all of them

ReportFiles into DIR: index.html, report.md, table1.csv, transfer.csv, cost.csv, runs.csv, figures/*.svg.")]
pub struct Arguments {
    /// Run directories, or folders with run directories anywhere in them.
    #[arg(required = true, value_name = "RUNS")]
    runs: Vec<PathBuf>,
    /// Where the report goes.
    #[arg(long, value_name = "DIR", required_unless_present = "metric")]
    out: Option<PathBuf>,
    /// Show this number instead of table 1: A, F_single, parameters or another column of runs.csv.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Table 1, or the metric, as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    let metric = arguments.metric.as_deref().map(Metric::find).transpose()?;
    let records = RunRecords::find(&arguments.runs)?;
    let written = arguments.out.as_ref().map(|out| make(&records, &arguments.runs, out)).transpose()?;
    match (metric, &written) {
        (Some(metric), _) => show_metric(metric, &records, arguments.json)?,
        (None, Some(written)) if arguments.json => print_json(&written.table.rows)?,
        (None, Some(written)) if !records.finished.is_empty() => show(written)?,
        _ => {}
    }
    for (word, run) in records.incomplete() {
        say(&format!("{word}: {}: {}", run.directory.display(), run.why));
    }
    if records.finished.is_empty() {
        bail!("none of the {} runs is finished; go on with them (lmc run, lmc sweep)", records.len());
    }
    Ok(())
}

/// Writes the report of the runs that were found below some folders.
pub fn make(records: &RunRecords, runs: &[PathBuf], out: &Path) -> Result<ReportFiles> {
    let mut words: Vec<String> = runs.iter().map(|path| shell_quoted(&path.display().to_string())).collect();
    words.push(format!("--out {}", shell_quoted(&out.display().to_string())));
    Ok(write(records, out, &format!("lmc report {}", words.join(" ")))?)
}

/// Prints a metric: a row for each method, a column for each stream.
fn show_metric(metric: Metric, records: &RunRecords, json: bool) -> Result<()> {
    let all = RunTable::new(records)?;
    let lines = metric.table(&all);
    if json {
        return print_json(&lines);
    }
    let mut titles = vec!["method"];
    titles.extend(all.streams.iter().map(|stream| stream.name.as_str()));
    let rows = all.rows.iter().zip(lines.chunks(all.streams.len().max(1))).map(|(row, lines)| {
        let mut cells = vec![row.name()];
        cells.extend(lines.iter().map(|line| line.value.map_or("-".into(), |value| value.text())));
        cells
    });
    print_text(&table(&titles, &titles[1..], rows.collect()))?;
    print(&format!("{}: {}; mean ± standard deviation over seeds", metric.name, metric.about))
}

/// Prints table 1 and what was written.
pub fn show(written: &ReportFiles) -> Result<()> {
    let titles = ["stream", "method", "seeds", "A", "paper", "diff", "F", "paper ", "diff ", "M", "paper  "];
    let mut entries: Vec<&Table1Row> = written.table.rows.iter().filter(|entry| entry.seeds > 0).collect();
    // Stream by stream, methods as they come.
    let mut streams: Vec<&str> = Vec::new();
    for entry in &written.table.rows {
        if !streams.contains(&entry.stream.as_str()) {
            streams.push(&entry.stream);
        }
    }
    entries.sort_by_key(|entry| streams.iter().position(|stream| *stream == entry.stream));
    print_text(&table(&titles, &titles[2..], entries.into_iter().map(row).collect()))?;
    print("A in %, F in points; paper: the paper's number; diff: ours less the paper's")?;
    for file in written.files.iter().filter(|file| file.extension().is_none_or(|kind| kind != "svg")) {
        print(&format!("wrote {}", file.display()))?;
    }
    let figures = written.files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "svg"));
    let folder = written.files[0].with_file_name("figures");
    print(&format!("wrote {} figures into {}", figures.count(), folder.display()))
}

fn row(entry: &Table1Row) -> Vec<String> {
    let method = match entry.settings.as_str() {
        "" => entry.title.clone(),
        settings => format!("{}, {settings}", entry.title),
    };
    let mut row = vec![entry.stream.clone(), method, entry.seeds.to_string()];
    for compared in [&entry.accuracy, &entry.forgetting] {
        row.extend(cells(compared));
    }
    let short = |spread: Option<lmc_lab::report::Spread>| spread.map_or("-".into(), |spread| spread.short());
    row.extend([short(entry.modules.ours), short(entry.modules.paper)]);
    row
}

fn cells(compared: &Compared) -> [String; 3] {
    let text = |spread: Option<lmc_lab::report::Spread>| spread.map_or("-".into(), |spread| spread.text());
    [text(compared.ours), text(compared.paper), compared.difference.map_or("-".into(), signed)]
}
