//! Runs sorted into a table: a row for each method and its settings, a column for each stream, and all seeds in a cell.

use std::collections::BTreeMap;

use lmc_streams::PAPER_STREAMS;

use super::settings::{deviations, differing, label, order};
use crate::error::Result;
use crate::experiment::Experiment;
use crate::paper::stream_title;
use crate::records::{RunRecord, RunRecords};

/// All runs, sorted by method and stream.
#[derive(Debug)]
pub struct RunTable<'a> {
    /// Columns: the paper's streams in its order, then other streams.
    pub streams: Vec<StreamColumn>,
    /// Rows: methods in the order of the registry; a method that was run with several settings has several rows.
    pub rows: Vec<MethodRow<'a>>,
}

/// A column of the table: one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamColumn {
    /// Name of the stream in experiments.
    pub name: String,
    /// Name of the stream as the paper writes it.
    pub title: String,
}

/// A row of the table: one method with its settings.
#[derive(Debug)]
pub struct MethodRow<'a> {
    /// Name of the method in experiments.
    pub method: String,
    /// Name of the method in tables.
    pub title: String,
    /// Settings that distinguish the row from the method's other rows, `epochs=10`; empty for those of the preset.
    pub settings: String,
    /// The runs on each stream.
    pub cells: Vec<CellRuns<'a>>,
}

/// A cell of the table: the runs of a row on one stream.
#[derive(Debug, Default)]
pub struct CellRuns<'a> {
    /// Finished runs, in the order of their seeds.
    pub runs: Vec<&'a RunRecord>,
    /// Finished runs that repeat the settings and the seed of another; they do not count twice.
    pub repeated: Vec<&'a RunRecord>,
    /// The state of each run without results: `unfinished`, `failed` or `damaged`.
    pub incomplete: Vec<&'static str>,
}

impl<'a> RunTable<'a> {
    /// Sorts runs into a table.
    pub fn new(records: &'a RunRecords) -> Result<Self> {
        let finished: Vec<&'a RunRecord> = records.finished.iter().chain(&records.derived).collect();
        let mut experiments: Vec<&Experiment> = finished.iter().map(|run| &run.experiment).collect();
        experiments.extend(records.incomplete().filter_map(|(_, run)| run.experiment.as_ref()));
        let mut names: Vec<&str> = experiments.iter().map(|experiment| experiment.stream.as_str()).collect();
        let place = |name: &str| PAPER_STREAMS.iter().position(|stream| stream.name == name);
        names.sort_by_key(|name| (place(name).unwrap_or(usize::MAX), *name));
        names.dedup();
        let streams: Vec<StreamColumn> = names.iter().map(|name| column(name, &names)).collect();
        let mut methods: Vec<&str> =
            experiments.iter().map(|experiment| experiment.method.as_str()).collect();
        let registry = lmc_methods::registry::methods();
        let place = |name: &str| registry.iter().position(|entry| entry.name == name);
        methods.sort_by_key(|name| (place(name).unwrap_or(usize::MAX), *name));
        methods.dedup();
        let mut rows = Vec::new();
        for method in methods {
            let title = place(method).map_or(method, |at| registry[at].title);
            let keys =
                differing(experiments.iter().copied().filter(|experiment| experiment.method == method))?;
            let mut found: BTreeMap<Vec<String>, MethodRow<'a>> = BTreeMap::new();
            let mut cell = |experiment: &Experiment, put: &mut dyn FnMut(&mut CellRuns<'a>)| -> Result<()> {
                let Some(at) = names.iter().position(|name| *name == experiment.stream) else {
                    return Ok(());
                };
                let values = deviations(experiment, &keys)?;
                let row = found.entry(order(&values)).or_insert_with(|| MethodRow {
                    method: method.to_owned(),
                    title: title.to_owned(),
                    settings: label(&keys, &values),
                    cells: names.iter().map(|_| CellRuns::default()).collect(),
                });
                put(&mut row.cells[at]);
                Ok(())
            };
            for run in finished.iter().copied().filter(|run| run.experiment.method == method) {
                cell(&run.experiment, &mut |cell| {
                    let known = cell.runs.iter().any(|other| other.experiment.seed == run.experiment.seed);
                    if known { cell.repeated.push(run) } else { cell.runs.push(run) }
                })?;
            }
            for (word, run) in records.incomplete() {
                if let Some(experiment) = run.experiment.as_ref().filter(|found| found.method == method) {
                    cell(experiment, &mut |cell| cell.incomplete.push(word))?;
                }
            }
            rows.extend(found.into_values());
        }
        for cell in rows.iter_mut().flat_map(|row| &mut row.cells) {
            cell.runs.sort_by_key(|run| run.experiment.seed);
        }
        Ok(Self { streams, rows })
    }

    /// The cells that have finished runs, stream by stream.
    pub fn by_stream(&self) -> impl Iterator<Item = (&StreamColumn, Vec<(&MethodRow<'a>, &CellRuns<'a>)>)> {
        self.streams.iter().enumerate().map(|(at, stream)| {
            let cells = self.rows.iter().map(move |row| (row, &row.cells[at]));
            (stream, cells.filter(|(_, cell)| !cell.runs.is_empty()).collect())
        })
    }

    /// The row of a finished run.
    pub fn row_of(&self, record: &RunRecord) -> Option<&MethodRow<'a>> {
        self.rows.iter().filter(|row| row.method == record.experiment.method).find(|row| {
            let mut runs = row.cells.iter().flat_map(|cell| cell.runs.iter().chain(&cell.repeated));
            runs.any(|run| run.directory == record.directory)
        })
    }
}

impl MethodRow<'_> {
    /// Title of the method, with the settings of the row.
    pub fn name(&self) -> String {
        if self.settings.is_empty() {
            self.title.clone()
        } else {
            format!("{}, {}", self.title, self.settings)
        }
    }

    /// Name for files, of letters, digits and dashes.
    pub fn file_name(&self) -> String {
        let settings = if self.settings.is_empty() { String::new() } else { format!("-{}", self.settings) };
        file_name(&format!("{}{settings}", self.method))
    }
}

impl StreamColumn {
    /// Name for files, of letters, digits and dashes.
    pub fn file_name(&self) -> String {
        file_name(self.name.strip_suffix(".toml").unwrap_or(&self.name))
    }
}

impl CellRuns<'_> {
    /// A number of each finished run that has it.
    pub fn each(&self, number: impl Fn(&RunRecord) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(|run| number(run)).collect()
    }

    /// Counts of runs that have no part in the numbers, `2 unfinished, 1 failed`; empty if there are none.
    pub fn remark(&self) -> String {
        let count = |word: &str| self.incomplete.iter().filter(|other| **other == word).count();
        let mut counts = ["unfinished", "failed", "damaged"].map(|word| (count(word), word)).to_vec();
        counts.push((self.repeated.len(), "repeated"));
        counts.retain(|(count, _)| *count > 0);
        counts.iter().map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }
}

/// The column of a stream. Two streams with the same title are distinguished by their whole names.
fn column(name: &str, names: &[&str]) -> StreamColumn {
    let title = stream_title(name);
    let alone = names.iter().filter(|other| stream_title(other) == title).count() == 1;
    StreamColumn { name: name.to_owned(), title: if alone { title } else { name.to_owned() } }
}

/// Replaces all but letters and digits by single dashes.
fn file_name(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
    let text: String = text.chars().map(|letter| if plain(letter) { letter } else { '-' }).collect();
    text.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::super::samples::{record, with_epochs};
    use super::*;
    use crate::records::IncompleteRun;

    #[test]
    fn rows_and_columns_in_the_papers_order() {
        let finished = vec![
            record("lmc_a", "s_pl", 1, [0.5, 0.5]),
            record("finetune", "s_minus", 2, [0.5, 0.5]),
            record("finetune", "own/two.toml", 2, [0.5, 0.5]),
            record("finetune", "s_minus", 1, [0.5, 0.5]),
        ];
        let records = RunRecords { finished, ..RunRecords::default() };
        let all = RunTable::new(&records).unwrap();
        let titles: Vec<&str> = all.streams.iter().map(|stream| stream.title.as_str()).collect();
        assert_eq!(titles, ["S⁻", "Sᵖˡ", "two"]);
        let names: Vec<String> = all.rows.iter().map(MethodRow::name).collect();
        assert_eq!(names, ["Finetune", "LMC(A)"]);
        let seeds: Vec<u64> = all.rows[0].cells[0].runs.iter().map(|run| run.experiment.seed).collect();
        assert_eq!(seeds, [1, 2]);
        assert!(all.rows[1].cells[0].runs.is_empty());
    }

    #[test]
    fn other_settings_are_other_rows() {
        let short = with_epochs(record("finetune", "s_minus", 3, [0.5, 0.5]), 9);
        let failed = IncompleteRun {
            directory: "gone".into(),
            experiment: Some(short.experiment.clone()),
            why: "no memory".into(),
        };
        let finished = vec![
            record("finetune", "s_minus", 1, [0.5, 0.5]),
            record("finetune", "s_minus", 2, [0.5, 0.5]),
            record("finetune", "s_pl", 1, [0.5, 0.5]),
            short,
        ];
        let records = RunRecords { finished, failed: vec![failed], ..RunRecords::default() };
        let all = RunTable::new(&records).unwrap();
        let found: Vec<(String, Vec<usize>, String)> = all
            .rows
            .iter()
            .map(|row| {
                (row.name(), row.cells.iter().map(|cell| cell.runs.len()).collect(), row.cells[0].remark())
            })
            .collect();
        assert_eq!(
            found,
            [
                ("Finetune".into(), vec![2, 1], String::new()),
                ("Finetune, epochs=9".into(), vec![1, 0], "1 failed".into()),
            ]
        );
        assert_eq!(all.rows[1].file_name(), "finetune-epochs-9");
    }

    #[test]
    fn a_run_that_was_copied_counts_once() {
        let mut copy = record("finetune", "s_minus", 1, [0.5, 0.5]);
        copy.directory = "copy".into();
        let finished = vec![record("finetune", "s_minus", 1, [0.5, 0.5]), copy];
        let records = RunRecords { finished, ..RunRecords::default() };
        let all = RunTable::new(&records).unwrap();
        let cell = &all.rows[0].cells[0];
        assert_eq!((cell.runs.len(), cell.remark().as_str()), (1, "1 repeated"));
        assert!(all.row_of(&records.finished[1]).is_some());
    }
}
