//! The report of many runs: all sections in order, as a page, as Markdown, and as files of numbers.

use std::fs;
use std::path::{Path, PathBuf};

use lmc_streams::{Error, read_text, replace_file};

use super::document::{Attachment, Block, Document, FIGURES};
use super::run_table::RunTable;
use super::sections;
use super::table1::Table1;
use super::transfer::Transfer;
use super::{cost, runs};
use crate::error::Result;
use crate::records::RunRecords;
use crate::run_directory::LARGEST_TEXT;

/// Name of the page.
const PAGE: &str = "index.html";

/// Stands in every page, and says whose folder it is in.
const MADE_BY: &str = "Made by lmc report.";

/// A report that was written.
#[derive(Debug)]
pub struct ReportFiles {
    /// Table 1.
    pub table: Table1,
    /// Paths of the files, the page first.
    pub files: Vec<PathBuf>,
}

/// Writes the report into a folder. `command` is the command that makes it again.
pub fn write(records: &RunRecords, out: &Path, command: &str) -> Result<ReportFiles> {
    let all = RunTable::new(records)?;
    let table = Table1::new(&all);
    let transfer = Transfer::new(&all);
    let document = document(records, &all, &table, &transfer, command)?;
    let mut files = vec![(PAGE.to_owned(), document.html()), ("report.md".to_owned(), document.markdown())];
    files.extend(document.attachments().map(|file| (file.name.to_owned(), file.content.clone())));
    let figures = document.figure_files().into_iter();
    files.extend(figures.map(|(name, svg)| (format!("{FIGURES}/{name}.svg"), svg)));
    refuse_foreign(out, files.iter().map(|(name, _)| name.as_str()))?;
    let figures = out.join(FIGURES);
    fs::create_dir_all(&figures).map_err(Error::io("create", &figures))?;
    let mut written = Vec::new();
    for (name, content) in files {
        let path = out.join(name);
        replace_file(&path, content.as_bytes())?;
        written.push(path);
    }
    Ok(ReportFiles { table, files: written })
}

/// Complains about a folder that a report cannot be written into, before there is one.
pub fn check_folder(out: &Path) -> Result<()> {
    if out.symlink_metadata().is_ok() && !out.is_dir() {
        let problem = "it is in the way of the report's folder";
        return Err(Error::bad(out, problem, "move it away, or choose another folder").into());
    }
    refuse_foreign(out, [PAGE, "report.md"].into_iter())
}

/// Complains about a folder that holds a file of a name that a report writes, and whose page no report made.
fn refuse_foreign<'a>(out: &Path, mut names: impl Iterator<Item = &'a str>) -> Result<()> {
    let page = out.join(PAGE);
    let is_ours = read_text(&page, LARGEST_TEXT).is_ok_and(|page| page.contains(MADE_BY));
    match names.find(|name| out.join(name).symlink_metadata().is_ok()) {
        Some(name) if !is_ours => {
            let problem = "no report of lmc made this file, and a report would replace it";
            Err(Error::bad(&out.join(name), problem, "choose another folder with --out, or move it away")
                .into())
        }
        _ => Ok(()),
    }
}

fn document(
    records: &RunRecords,
    all: &RunTable<'_>,
    table: &Table1,
    transfer: &Transfer,
    command: &str,
) -> Result<Document> {
    let mut blocks = sections::table1(records, all, table)?;
    blocks.extend(sections::transfer(all, transfer));
    blocks.extend(sections::protocols(all));
    blocks.extend(sections::over_time(all));
    blocks.extend(sections::matrices(all));
    blocks.extend(sections::module_usage(all));
    blocks.extend(sections::cost(all));
    blocks.extend(sections::data(records, all));
    blocks.extend(sections::left_out(records, all));
    blocks.push(sections::section(
        "Files and commands",
        "All numbers of this report, and the commands that make them again.",
    ));
    let file = |name, about, content| Attachment { name, about, content };
    blocks.push(Block::Files(vec![
        file("table1.csv", "table 1, a line for each method and stream", table.csv()),
        file("transfer.csv", "the transfer table", transfer.csv(all)),
        file("cost.csv", "the cost table", cost::csv_file(all)),
        file("runs.csv", "every run with all its metrics", runs::csv_file(records, all)),
    ]));
    blocks.push(commands(records, command));
    Ok(Document { title: "Results".into(), about: about(records, all), blocks })
}

/// The sentence beneath the title: how many runs there are, of how many methods on how many streams.
fn about(records: &RunRecords, all: &RunTable<'_>) -> String {
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
    text + ". " + MADE_BY
}

/// The commands that make the report and its runs again.
fn commands(records: &RunRecords, command: &str) -> Block {
    let mut text = format!("# this report\n{command}\n\n# each run\n");
    for run in &records.finished {
        let config = shell_quoted(&run.directory.join("config.toml").display().to_string());
        let name = run.directory.file_name().map_or("run".into(), |name| name.to_string_lossy());
        text += &format!("lmc run {config} --out {}\n", shell_quoted(&format!("again/{name}")));
    }
    Block::Commands(text)
}

/// Quotes a text for a shell, if it must be.
pub fn shell_quoted(text: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=:,+@%".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::super::samples::records;
    use super::*;

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
    fn paths_as_a_shell_reads_them() {
        assert_eq!(["runs/a", "my runs", "it's"].map(shell_quoted), ["runs/a", "'my runs'", "'it'\\''s'"]);
    }
}
