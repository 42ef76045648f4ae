//! The sections of a report: tables beside the paper's, figures, costs, and runs that are left out.

use std::collections::BTreeMap;

use lmc_methods::MethodEntry;

use super::curve::{self, Scale, Series};
use super::document::Block;
use super::run_table::{CellRuns, MethodRow, RunTable, StreamColumn};
use super::settings::unlike_presets;
use super::table1::Table1;
use super::transfer::Transfer;
use super::{cost as costs, matrix, module_usage as usage, protocols as protocol_table};
use crate::error::Result;
use crate::metrics::{Metrics, mean};
use crate::records::{IncompleteRun, RunRecords};

/// A title, and a sentence that says how to read the section.
pub(super) fn section(title: &str, about: &str) -> Block {
    Block::Section(title.to_owned(), about.to_owned())
}

/// Table 1, with the settings that are not the paper's.
pub(super) fn table1(records: &RunRecords, all: &RunTable<'_>, table: &Table1) -> Result<Vec<Block>> {
    let mut blocks = vec![section(
        "Table 1",
        "A: mean accuracy at the end, in per cent. F: mean change of accuracy since each task was learned, in points; \
         below zero is forgetting. M: modules. n: seeds. Mean ± standard deviation over seeds.",
    )];
    let other = records.finished.iter().filter(|run| !run.is_on_paper_images()).count();
    if other > 0 {
        blocks.push(Block::Warning(format!(
            "{other} of {} runs learned generated images, or a tenth of the paper's. Their differences from the paper say little \
             and have no colour.",
            records.finished.len()
        )));
    }
    blocks.push(Block::Grid(table.grid(all)));
    blocks.push(Block::Legend(
        "Above: our number. Below: the paper's, over 6 runs (* fixed number of modules). A dash is a missing run."
            .to_owned(),
    ));
    let unlike = unlike_presets(all)?;
    if !unlike.is_empty() {
        blocks.push(Block::Paragraph("Settings that differ from the paper's presets:".to_owned()));
        blocks.push(Block::List(unlike));
    }
    let methods = lmc_methods::methods();
    let is_derived =
        |entry: &&MethodEntry| records.derived.iter().any(|run| run.experiment.method == entry.name);
    for entry in methods.iter().filter(is_derived) {
        let Some(other) = methods.iter().find(|other| Some(other.name) == entry.derived_from) else {
            continue;
        };
        blocks.push(Block::Paragraph(format!(
            "{0} trains as {1} does. Where it has no run of its own, its numbers are derived from {1}'s runs, evaluated with \
             the task given.",
            entry.title, other.title
        )));
    }
    let absent: Vec<&str> = methods
        .iter()
        .filter(|entry| all.rows.iter().all(|row| row.method != entry.name))
        .map(|entry| entry.title)
        .collect();
    if !absent.is_empty() {
        blocks.push(Block::Paragraph(format!("Methods without any run: {}.", absent.join(", "))));
    }
    Ok(blocks)
}

/// The transfer table.
pub(super) fn transfer(all: &RunTable<'_>, transfer: &Transfer) -> Vec<Block> {
    let about = "Accuracy of the first and of the last task, each right after it was learned, in per cent. T: accuracy of \
                 the last task less that of Experts, which learn it alone on the same images. Beneath: the paper's.";
    vec![section("Transfer", about), Block::Grid(transfer.grid(all))]
}

/// Task-agnostic methods under every test protocol.
pub(super) fn protocols(all: &RunTable<'_>) -> Vec<Block> {
    let grid = protocol_table::grid(all);
    if grid.rows.is_empty() {
        return Vec::new();
    }
    let about = "Accuracy A of task-agnostic methods by class name, in per cent: in test batches of one task, in mixed \
                 batches of all tasks, on single images, and with the task given. Paper's count: label positions in \
                 batches of one task, whichever head answered, as in table 1. Own head: share of images that the head of \
                 their own task classified. A dash: a run of an earlier version, which did not count by name.";
    vec![section("Test protocols", about), Block::Grid(grid)]
}

/// Names of the tasks of a stream, from the longest run.
fn tasks(cells: &[(&MethodRow<'_>, &CellRuns<'_>)]) -> Vec<String> {
    let longest = cells.iter().flat_map(|(_, cell)| &cell.runs).max_by_key(|run| run.metrics.tasks.len());
    longest.map_or(Vec::new(), |run| run.metrics.tasks.iter().map(|task| task.task.clone()).collect())
}

/// Means over seeds of a number after each task.
fn means(cell: &CellRuns<'_>, after: &dyn Fn(&Metrics, usize) -> Option<f64>) -> Vec<(usize, f64)> {
    let tasks = cell.runs.iter().map(|run| run.metrics.tasks.len()).max().unwrap_or(0);
    let mean = |number: usize| {
        let numbers = cell.each(|run| after(&run.metrics, number));
        (!numbers.is_empty()).then(|| (number, numbers.iter().sum::<f64>() / numbers.len() as f64))
    };
    (0..tasks).filter_map(mean).collect()
}

/// Mean accuracy over the tasks seen so far.
fn accuracy_after(metrics: &Metrics, after: usize) -> Option<f64> {
    mean(metrics.matrix.get(after)?)
}

fn modules_after(metrics: &Metrics, after: usize) -> Option<f64> {
    metrics.tasks.get(after).map(|task| task.report.modules.iter().sum::<usize>() as f64)
}

/// Curves of accuracy and of the number of modules over each stream.
pub(super) fn over_time(all: &RunTable<'_>) -> Vec<Block> {
    // LMC has the first colours.
    let mut coloured: Vec<&MethodRow<'_>> = all.rows.iter().collect();
    coloured.sort_by_key(|row| !row.method.starts_with("lmc"));
    let place =
        |row: &MethodRow<'_>| coloured.iter().position(|other| std::ptr::eq(*other, row)).unwrap_or(0);
    let curves = |cells: &[(&MethodRow<'_>, &CellRuns<'_>)],
                  after: &dyn Fn(&Metrics, usize) -> Option<f64>|
     -> Vec<Series> {
        let curve = |(row, cell): &(&MethodRow<'_>, &CellRuns<'_>)| Series {
            name: row.name(),
            points: means(cell, after),
            colour: place(row),
            faint: false,
        };
        cells.iter().map(curve).collect()
    };
    let titled = |stream: &StreamColumn, what: &str| format!("{}: {what}", stream.title);
    let (mut accuracy, mut modules) = (Vec::new(), Vec::new());
    for (stream, cells) in all.by_stream().filter(|(_, cells)| !cells.is_empty()) {
        let names = tasks(&cells);
        let about = format!("mean accuracy over the tasks so far on {}", stream.title);
        let figure = curve::figure(&names, &curves(&cells, &accuracy_after), Scale::Percent, &about);
        let file = format!("accuracy-{}", stream.file_name());
        accuracy.push((titled(stream, "accuracy in per cent"), figure, file));
        let mut growing = curves(&cells, &modules_after);
        growing.retain(|series| series.points.windows(2).any(|pair| pair[0].1 < pair[1].1));
        if !growing.is_empty() {
            let about = format!("number of modules over time on {}", stream.title);
            let figure = curve::figure(&names, &growing, Scale::Count, &about);
            modules.push((titled(stream, "modules"), figure, format!("modules-{}", stream.file_name())));
        }
    }
    let about =
        "Mean accuracy over the tasks learned so far, mean over seeds. Point at a dot for its number.";
    let mut blocks = vec![section("Accuracy over time", about), Block::Charts(accuracy)];
    if !modules.is_empty() {
        blocks.push(section("Modules over time", "Number of modules of methods that grow, mean over seeds."));
        blocks.push(Block::Charts(modules));
    }
    blocks
}

/// Accuracy matrices, of the first seed of each method.
pub(super) fn matrices(all: &RunTable<'_>) -> Vec<Block> {
    let mut blocks = vec![section(
        "Accuracy matrices",
        "Rows: after this task was learned. Columns: the task that is evaluated. First seed of each method, in per cent; a \
         column that fades downwards is forgetting.",
    )];
    for (stream, cells) in all.by_stream().filter(|(_, cells)| !cells.is_empty()) {
        let named: Vec<String> =
            tasks(&cells).iter().enumerate().map(|(number, task)| format!("{} {task}", number + 1)).collect();
        blocks.push(Block::Heading(stream.title.clone()));
        blocks.push(Block::Paragraph(format!("Tasks: {}.", named.join(", "))));
        let mut figures = Vec::new();
        for (row, cell) in cells {
            let Some(run) = cell.runs.first() else { continue };
            let names: Vec<String> = run.metrics.tasks.iter().map(|task| task.task.clone()).collect();
            let about = format!("accuracy matrix of {} on {}", row.name(), stream.title);
            figures.push((row.name(), matrix::figure(&names, &run.metrics.matrix, &about)));
        }
        blocks.push(Block::Figures(String::new(), figures, format!("matrix-{}", stream.file_name())));
    }
    blocks
}

/// Module usage by task, of the first seed of each modular method.
pub(super) fn module_usage(all: &RunTable<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (stream, cells) in all.by_stream() {
        let mut of_stream = Vec::new();
        for (row, cell) in cells {
            let figures = cell.runs.first().map_or(Vec::new(), |run| usage::figures(&run.metrics));
            if !figures.is_empty() {
                let file = format!("selection-{}-{}", stream.file_name(), row.file_name());
                of_stream.push(Block::Figures(row.name(), figures, file));
            }
        }
        if !of_stream.is_empty() {
            blocks.push(Block::Heading(stream.title.clone()));
            blocks.extend(of_stream);
        }
    }
    if !blocks.is_empty() {
        let about = "At the end of the stream, first seed. One column per layer, from the input on the left; one square per \
                     module, oldest on top; the fuller, the more used.";
        blocks.insert(0, section("Module usage by task", about));
    }
    blocks
}

/// The cost table.
pub(super) fn cost(all: &RunTable<'_>) -> Vec<Block> {
    let about = "Means over seeds. Parameters are all that are kept; multiply-adds are those of one prediction. Seconds \
                 depend on the machine and on its other work; processor seconds (of all threads) hardly on the latter.";
    vec![section("Cost", about), Block::Grid(costs::grid(all))]
}

/// The data that stands in for missing data.
pub(super) fn data(records: &RunRecords, all: &RunTable<'_>) -> Vec<Block> {
    let mut found: BTreeMap<(usize, &str), Vec<&str>> = BTreeMap::new();
    for run in &records.finished {
        let place = all.streams.iter().position(|stream| stream.name == run.experiment.stream);
        let texts = found.entry((place.unwrap_or(0), &run.experiment.variant)).or_default();
        for text in &run.metrics.substitutions {
            if !texts.contains(&text.as_str()) {
                texts.push(text);
            }
        }
    }
    let items = found.iter().map(|((place, variant), texts)| {
        let text = if texts.is_empty() { "nothing: the paper's data".to_owned() } else { texts.join("; ") };
        (format!("{} {variant}", all.streams[*place].title), text)
    });
    vec![
        section("Data", "Data sets that stand in for those of the paper, by stream and variant."),
        Block::List(items.collect()),
    ]
}

/// Runs that have no part in any number.
pub(super) fn left_out(records: &RunRecords, all: &RunTable<'_>) -> Vec<Block> {
    let item = |(word, run): (&str, &IncompleteRun)| {
        (run.directory.display().to_string(), format!("{word}: {}", run.why))
    };
    let mut items: Vec<(String, String)> = records.incomplete().map(item).collect();
    for run in all.rows.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.repeated) {
        let text = "repeated: another run has the same settings and seed; it does not count twice";
        items.push((run.directory.display().to_string(), text.to_owned()));
    }
    if items.is_empty() {
        return Vec::new();
    }
    vec![section("Runs left out", "They are not part of any number above."), Block::List(items)]
}

#[cfg(test)]
mod tests {
    use super::super::samples::records;
    use super::*;

    #[test]
    fn means_over_seeds_and_time() {
        let records = records();
        let all = RunTable::new(&records).unwrap();
        let cell = &all.rows[1].cells[0];
        // After the first task 0.7 and 0.9; at the end the means of (0.6, 0.7) and (0.8, 0.5).
        let points = means(cell, &accuracy_after);
        assert!((points[0].1 - 0.8).abs() < 1e-12 && (points[1].1 - 0.65).abs() < 1e-12, "{points:?}");
        assert_eq!(means(cell, &modules_after), [(0, 1.0), (1, 2.0)]);
    }
}
