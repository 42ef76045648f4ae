//! The report of many runs: tables beside the paper's, pictures, costs, and what is missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lmc::Result;
use lmc_methods::registry::Entry;
use lmc_streams::{Error, replace_file};

use super::arrangement::{Arrangement, Cell, Column, Row};
use super::curve::{self, Line, Scale};
use super::document::{Attachment, Block, Document, FIGURES};
use super::picture::Picture;
use super::settings::unlike_presets;
use super::table1::Table1;
use super::transfer::Transfer;
use super::{asking, cost, matrix, runs, selection};
use crate::metrics::Metrics;
use crate::run_record::Records;

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// Table 1.
    pub table: Table1,
    /// The files, the page first.
    pub files: Vec<PathBuf>,
}

/// Writes the report into a folder. `command` is what makes it again.
pub fn write(records: &Records, out: &Path, command: &str) -> Result<Written> {
    let all = Arrangement::new(records);
    let table = Table1::new(&all);
    let transfer = Transfer::new(&all);
    let document = document(records, &all, &table, &transfer, command);
    let mut files =
        vec![("index.html".to_owned(), document.html()), ("report.md".to_owned(), document.markdown())];
    files.extend(document.attachments().map(|file| (file.name.to_owned(), file.content.clone())));
    files.extend(document.figures().into_iter().map(|(name, svg)| (format!("{FIGURES}/{name}.svg"), svg)));
    let figures = out.join(FIGURES);
    fs::create_dir_all(&figures).map_err(Error::io("create", &figures))?;
    let mut written = Vec::new();
    for (name, content) in files {
        let path = out.join(name);
        replace_file(&path, content.as_bytes())?;
        written.push(path);
    }
    Ok(Written { table, files: written })
}

fn document(
    records: &Records,
    all: &Arrangement<'_>,
    table: &Table1,
    transfer: &Transfer,
    command: &str,
) -> Document {
    let mut blocks = Vec::new();
    table1_section(records, all, table, &mut blocks);
    transfer_section(all, transfer, &mut blocks);
    asking_section(all, &mut blocks);
    time_sections(all, &mut blocks);
    matrix_section(all, &mut blocks);
    selection_section(all, &mut blocks);
    cost_section(all, &mut blocks);
    data_section(records, all, &mut blocks);
    missing_section(records, all, &mut blocks);
    blocks.push(section("Files and commands", "All numbers of this report, and how to make them again."));
    let file = |name, about, content| Attachment { name, about, content };
    blocks.push(Block::Files(vec![
        file("table1.csv", "table 1, a line for each method and stream", table.csv()),
        file("transfer.csv", "the transfer table", transfer.csv(all)),
        file("cost.csv", "the cost table", cost::file(all)),
        file("runs.csv", "every run with all its metrics", runs::file(records, all)),
    ]));
    blocks.push(commands(records, command));
    Document { title: "Results".into(), about: about(records, all), blocks }
}

fn about(records: &Records, all: &Arrangement<'_>) -> String {
    let counted = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    };
    let mut methods: Vec<&str> = all.rows.iter().map(|row| row.method.as_str()).collect();
    methods.dedup();
    let mut text = format!(
        "{}: {} on {}",
        counted(records.finished.len(), "finished run"),
        counted(methods.len(), "method"),
        counted(all.streams.len(), "stream")
    );
    let rest =
        [("unfinished", &records.unfinished), ("failed", &records.failed), ("damaged", &records.damaged)];
    for (word, runs) in rest.iter().filter(|(_, runs)| !runs.is_empty()) {
        text += &format!(", {} {word}", runs.len());
    }
    text + ". Made by lmc report."
}

fn section(title: &str, about: &str) -> Block {
    Block::Section(title.to_owned(), about.to_owned())
}

fn table1_section(records: &Records, all: &Arrangement<'_>, table: &Table1, blocks: &mut Vec<Block>) {
    blocks.push(section(
        "Table 1",
        "A: mean accuracy at the end, in per cent. F: mean change of accuracy since each task was learned, in points; \
         below zero is forgetting. M: modules. n: seeds. Mean ± standard deviation over seeds.",
    ));
    let other = records.finished.iter().filter(|run| !run.is_on_the_papers_images()).count();
    if other > 0 {
        blocks.push(Block::Warning(format!(
            "{other} of {} runs are not on the paper's images: generated ones stand in for them, or a tenth of them was \
             used. How far these runs are from the paper means little; the differences are without colour.",
            records.finished.len()
        )));
    }
    blocks.push(Block::Grid(table.grid(all)));
    blocks.push(Block::Legend(
        "Above ours, below the paper's over 6 runs (* fixed in number); a dash is a missing run.".to_owned(),
    ));
    let unlike = unlike_presets(all);
    if !unlike.is_empty() {
        blocks.push(Block::Paragraph("Settings that are not those of the paper's presets:".to_owned()));
        blocks.push(Block::List(unlike));
    }
    let methods = lmc_methods::methods();
    let is_told = |entry: &&Entry| records.told.iter().any(|run| run.experiment.method == entry.name);
    for entry in methods.iter().filter(is_told) {
        let Some(other) = methods.iter().find(|other| Some(other.name) == entry.learns_as) else { continue };
        blocks.push(Block::Paragraph(format!(
            "{0} learns as {1} does: where it has no run of its own, its numbers are those of {1}'s runs with the task given.",
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
}

fn transfer_section(all: &Arrangement<'_>, transfer: &Transfer, blocks: &mut Vec<Block>) {
    blocks.push(section(
        "Transfer",
        "Accuracy of the first and of the last task, each right after it was learned, in per cent, and T: accuracy of the \
         last task less that of Experts on the same images, which learn it alone. Beneath: the paper's.",
    ));
    blocks.push(Block::Grid(transfer.grid(all)));
}

fn asking_section(all: &Arrangement<'_>, blocks: &mut Vec<Block>) {
    let grid = asking::grid(all);
    if grid.rows.is_empty() {
        return;
    }
    blocks.push(section(
        "Ways of asking",
        "Methods that need no task ID, by how their test images come: in batches of one task (as in table 1), in batches \
         of all tasks mixed, one by one, and with the task given. Own head: how often the head of the image's own task \
         answered. Accuracies A and shares in per cent.",
    ));
    blocks.push(Block::Grid(grid));
}

/// Names of the tasks of a stream, as the first run has them.
fn tasks(cells: &[(&Row<'_>, &Cell<'_>)]) -> Vec<String> {
    let longest = cells.iter().flat_map(|(_, cell)| &cell.runs).max_by_key(|run| run.metrics.tasks.len());
    longest.map_or(Vec::new(), |run| run.metrics.tasks.iter().map(|task| task.task.clone()).collect())
}

/// Means over seeds of a number after each task.
fn over_time(cell: &Cell<'_>, after: &dyn Fn(&Metrics, usize) -> Option<f64>) -> Vec<(usize, f64)> {
    let mut points = Vec::new();
    loop {
        let numbers = cell.each(|run| after(&run.metrics, points.len()));
        if numbers.is_empty() {
            return points;
        }
        points.push((points.len(), numbers.iter().sum::<f64>() / numbers.len() as f64));
    }
}

/// Mean accuracy over the tasks seen so far.
fn accuracy_after(metrics: &Metrics, after: usize) -> Option<f64> {
    let row = metrics.matrix.get(after).filter(|row| !row.is_empty())?;
    Some(row.iter().sum::<f64>() / row.len() as f64)
}

fn modules_after(metrics: &Metrics, after: usize) -> Option<f64> {
    metrics.tasks.get(after).map(|task| task.learned.modules.iter().sum::<usize>() as f64)
}

fn time_sections(all: &Arrangement<'_>, blocks: &mut Vec<Block>) {
    // LMC has the first colours.
    let mut coloured: Vec<&Row<'_>> = all.rows.iter().collect();
    coloured.sort_by_key(|row| !row.method.starts_with("lmc"));
    let place = |row: &Row<'_>| coloured.iter().position(|other| std::ptr::eq(*other, row)).unwrap_or(0);
    let lines =
        |cells: &[(&Row<'_>, &Cell<'_>)], after: &dyn Fn(&Metrics, usize) -> Option<f64>| -> Vec<Line> {
            let line = |(row, cell): &(&Row<'_>, &Cell<'_>)| Line {
                name: row.name(),
                points: over_time(cell, after),
                colour: place(row),
                faint: false,
            };
            cells.iter().map(line).collect()
        };
    let (mut accuracy, mut growth) = (Vec::new(), Vec::new());
    for (stream, cells) in all.by_stream().filter(|(_, cells)| !cells.is_empty()) {
        let names = tasks(&cells);
        let about = format!("mean accuracy over the tasks so far on {}", stream.title);
        let picture = curve::picture(&names, &lines(&cells, &accuracy_after), Scale::Percent, &about);
        accuracy.push((
            titled(stream, "accuracy in per cent"),
            picture,
            format!("accuracy-{}", stream.file_name()),
        ));
        let mut grown = lines(&cells, &modules_after);
        grown.retain(|line| line.points.windows(2).any(|pair| pair[0].1 < pair[1].1));
        if !grown.is_empty() {
            let about = format!("modules over time on {}", stream.title);
            let picture = curve::picture(&names, &grown, Scale::Count, &about);
            growth.push((titled(stream, "modules"), picture, format!("modules-{}", stream.file_name())));
        }
    }
    blocks.push(section(
        "Accuracy over time",
        "Mean accuracy over the tasks learned so far, mean over seeds. Point at a dot for its number.",
    ));
    blocks.push(Block::Charts(accuracy));
    if !growth.is_empty() {
        blocks.push(section("Modules over time", "Methods that grow, mean over seeds."));
        blocks.push(Block::Charts(growth));
    }
}

fn titled(stream: &Column, what: &str) -> String {
    format!("{}: {what}", stream.title)
}

fn matrix_section(all: &Arrangement<'_>, blocks: &mut Vec<Block>) {
    blocks.push(section(
        "Accuracy of each task after each",
        "Rows: after learning this task. Columns: the task asked. First seed of each method, in per cent; a column that \
         fades downwards is forgetting.",
    ));
    for (stream, cells) in all.by_stream().filter(|(_, cells)| !cells.is_empty()) {
        let named: Vec<String> =
            tasks(&cells).iter().enumerate().map(|(number, task)| format!("{} {task}", number + 1)).collect();
        blocks.push(Block::Heading(stream.title.clone()));
        blocks.push(Block::Paragraph(format!("Tasks: {}.", named.join(", "))));
        let mut pictures = Vec::new();
        for (row, cell) in cells {
            let Some(run) = cell.runs.first() else { continue };
            let names: Vec<String> = run.metrics.tasks.iter().map(|task| task.task.clone()).collect();
            let about = format!("accuracy matrix of {} on {}", row.name(), stream.title);
            pictures.push((row.name(), matrix::picture(&names, &run.metrics.matrix, &about)));
        }
        blocks.push(Block::Pictures(String::new(), pictures, format!("matrix-{}", stream.file_name())));
    }
}

fn selection_section(all: &Arrangement<'_>, blocks: &mut Vec<Block>) {
    let mut found = Vec::new();
    for (stream, cells) in all.by_stream() {
        let mut of_stream = Vec::new();
        for (row, cell) in cells {
            let pictures = cell.runs.first().map(|run| maps(&run.metrics)).unwrap_or_default();
            if !pictures.is_empty() {
                let file = format!("selection-{}-{}", stream.file_name(), row.file_name());
                of_stream.push(Block::Pictures(row.name(), pictures, file));
            }
        }
        if !of_stream.is_empty() {
            found.push(Block::Heading(stream.title.clone()));
            found.extend(of_stream);
        }
    }
    if found.is_empty() {
        return;
    }
    blocks.push(section(
        "Which modules each task uses",
        "At the end of the stream, first seed. One column per layer, from the input on the left; one square per module, \
         oldest on top; the fuller, the more used.",
    ));
    blocks.extend(found);
}

/// A map per task; none if the method does not weigh modules.
fn maps(metrics: &Metrics) -> Vec<(String, Picture)> {
    let height = metrics.tasks.iter().flat_map(|task| task.weights.iter().map(Vec::len)).max().unwrap_or(0);
    let weighed = metrics.tasks.iter().filter(|task| !task.weights.is_empty());
    let map = |task: &crate::TaskMetrics| {
        (task.task.clone(), selection::picture(&task.task, &task.weights, height))
    };
    if height == 0 { Vec::new() } else { weighed.map(map).collect() }
}

fn cost_section(all: &Arrangement<'_>, blocks: &mut Vec<Block>) {
    blocks.push(section(
        "Cost",
        "Means over seeds. Parameters are all that are kept; multiply-adds are those of one prediction. Seconds depend \
         on the machine and on what else it did, processor seconds (all threads together) hardly on the latter.",
    ));
    blocks.push(Block::Grid(cost::grid(all)));
}

fn data_section(records: &Records, all: &Arrangement<'_>, blocks: &mut Vec<Block>) {
    blocks.push(section("Data", "What stands in for what, by stream and variant."));
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
    blocks.push(Block::List(items.collect()));
}

fn missing_section(records: &Records, all: &Arrangement<'_>, blocks: &mut Vec<Block>) {
    let item = |(word, run): (&str, &crate::Incomplete)| {
        (run.directory.display().to_string(), format!("{word}: {}", run.why))
    };
    let mut items: Vec<(String, String)> = records.incomplete().map(item).collect();
    for run in all.rows.iter().flat_map(|row| &row.cells).flat_map(|cell| &cell.repeated) {
        let text = "repeated: another run has the same settings and seed; it does not count twice";
        items.push((run.directory.display().to_string(), text.to_owned()));
    }
    if !items.is_empty() {
        blocks.push(section("Runs left out", "They are not part of any number above."));
        blocks.push(Block::List(items));
    }
}

/// What makes the report and its runs again.
fn commands(records: &Records, command: &str) -> Block {
    let mut text = format!("# this report\n{command}\n\n# each run\n");
    for run in &records.finished {
        let config = quoted(&run.directory.join("config.toml").display().to_string());
        let name = run.directory.file_name().map_or("run".into(), |name| name.to_string_lossy());
        text += &format!("lmc run {config} --out {}\n", quoted(&format!("again/{name}")));
    }
    Block::Commands(text)
}

/// As a shell reads it.
pub fn quoted(text: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::super::samples::record;
    use super::*;
    use crate::run_record::Incomplete;

    fn records() -> Records {
        let damaged = Incomplete {
            directory: "runs/broken".into(),
            experiment: None,
            why: "runs/broken/metrics.json: expected value at line 1; delete it".into(),
        };
        let finished = vec![
            record("experts", "s_minus", 1, [0.6, 0.4]),
            record("lmc_a", "s_minus", 1, [0.6, 0.7]),
            record("lmc_a", "s_minus", 2, [0.8, 0.5]),
        ];
        Records { finished, damaged: vec![damaged], ..Records::default() }
    }

    #[test]
    fn all_files_are_written_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let written = write(&records(), folder.path(), "lmc report runs --out report").unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let html = read("index.html");
        assert!(html.contains("&lt;first&gt; &amp; co") && !html.contains("<first>"));
        assert!(html.contains("runs/broken/metrics.json: expected value"));
        assert!(!html.contains("<script") && !html.contains("src="));
        assert!(html.contains("3 finished runs: 2 methods on 1 stream, 1 damaged."));
        let markdown = read("report.md");
        assert!(markdown.contains("(figures/accuracy-s_minus.svg)") && !markdown.contains("<first>"));
        assert_eq!(read("runs.csv").lines().count(), 1 + 4);
        let columns = |line: &str| line.matches(',').count();
        let runs = read("runs.csv");
        assert!(runs.lines().all(|line| columns(line) == columns(runs.lines().next().unwrap())), "{runs}");
        for name in ["accuracy-s_minus", "modules-s_minus", "matrix-s_minus", "selection-s_minus-lmc_a"] {
            let svg = read(&format!("figures/{name}.svg"));
            assert!(svg.starts_with("<svg xmlns=") && svg.contains("<style>"), "{name}");
        }
        assert_eq!(written.files.len(), 6 + 5);
    }

    #[test]
    fn means_over_seeds_and_time() {
        let records = records();
        let all = Arrangement::new(&records);
        let cell = &all.rows[1].cells[0];
        // After the first task 0.7 and 0.9; at the end the means of (0.6, 0.7) and (0.8, 0.5).
        let points = over_time(cell, &accuracy_after);
        assert!((points[0].1 - 0.8).abs() < 1e-12 && (points[1].1 - 0.65).abs() < 1e-12, "{points:?}");
        assert_eq!(over_time(cell, &modules_after), [(0, 1.0), (1, 2.0)]);
    }

    #[test]
    fn paths_as_a_shell_reads_them() {
        assert_eq!(["runs/a", "my runs", "it's"].map(quoted), ["runs/a", "'my runs'", "'it'\\''s'"]);
    }
}
