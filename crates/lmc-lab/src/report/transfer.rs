//! The paper's transfer table: accuracy of the first and of the last task, and
//! T = accuracy of the last task − that of an expert that learned it alone.
//!
//! Paper: it does not say when the first task is evaluated. It must be right after the task was learned: LMC(A) and LMC(¬A)
//! have the same number on S⁻ and on Sⁱⁿ, and on S⁺ no gain by the last task, though F says that there is one.

use super::grid::{Cell, Grid, GridRow};
use super::run_table::{CellRuns, RunTable};
use super::spread::{Compared, Spread};
use super::table1::{numbers, points};
use crate::csv::csv;
use crate::metrics::Metrics;
use crate::paper::{PaperMetric, published};
use crate::records::RunRecord;

/// The method that T is measured against.
const EXPERTS: &str = "experts";

/// The transfer table, with a row for each method and stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// The rows, method by method, and of each method stream by stream.
    pub rows: Vec<TransferRow>,
}

/// One method on one stream, in per cent.
#[derive(Clone, Debug, PartialEq)]
pub struct TransferRow {
    /// Number of the method's row in the run table.
    row: usize,
    /// Number of the stream's column in the run table.
    column: usize,
    /// Accuracy of the first task, right after it was learned.
    pub first: Compared,
    /// Accuracy of the last task.
    pub last: Compared,
    /// Whether all finished runs learned the paper's images.
    papers_images: bool,
    /// T; `None` without an expert on the same images.
    pub transfer: Compared,
}

/// Accuracy of the first task, right after it was learned.
fn first(metrics: &Metrics) -> Option<f64> {
    metrics.tasks.first().map(|task| task.after.headline(metrics.task_agnostic))
}

fn last(metrics: &Metrics) -> Option<f64> {
    metrics.tasks.last().map(|task| task.end.headline(metrics.task_agnostic))
}

impl Transfer {
    /// Makes the table of some runs.
    pub fn new(all: &RunTable<'_>) -> Self {
        let mut rows = Vec::new();
        for (row, found) in all.rows.iter().enumerate() {
            for (column, stream) in all.streams.iter().enumerate() {
                let cell = &found.cells[column];
                let ours =
                    |metric: fn(&Metrics) -> Option<f64>| points(&cell.each(|run| metric(&run.metrics)));
                let expert =
                    expert(all, row, column).and_then(|cell| points(&cell.each(|run| last(&run.metrics))));
                // Seeds of the expert are not paired with ours: T has no deviation, as in the paper.
                let transfer = ours(last).zip(expert).map(|(ours, expert)| Spread {
                    mean: ours.mean - expert.mean,
                    deviation: None,
                    runs: ours.runs,
                });
                let compared =
                    |ours, metric| Compared::new(ours, published(&stream.name, &found.method, metric));
                rows.push(TransferRow {
                    row,
                    column,
                    first: compared(ours(first), PaperMetric::First),
                    last: compared(ours(last), PaperMetric::Last),
                    transfer: compared(transfer, PaperMetric::Transfer),
                    papers_images: !cell.runs.is_empty()
                        && cell.runs.iter().all(|run| run.is_on_paper_images()),
                });
            }
        }
        Self { rows }
    }

    /// The table for people: a row for each method; first, last and T for each stream.
    pub fn grid(&self, all: &RunTable<'_>) -> Grid {
        let title = |text: &str, about: &str| (text.to_owned(), about.to_owned());
        let titles = [
            title("first", "accuracy of the first task right after it was learned, in %"),
            title("last", "accuracy of the last task, in %"),
            title("T", "accuracy of the last task less that of an expert, in points"),
        ];
        let rows = all.rows.iter().zip(self.rows.chunks(all.streams.len().max(1)));
        let finished = |rows: &[TransferRow]| rows.iter().any(|entry| entry.last.ours.is_some());
        let cells = |entry: &TransferRow| {
            [&entry.first, &entry.last, &entry.transfer]
                .map(|compared| Cell::compared(compared, entry.papers_images))
        };
        Grid {
            corner: "method".into(),
            groups: all.streams.iter().map(|stream| (stream.title.clone(), titles.len())).collect(),
            titles: all.streams.iter().flat_map(|_| titles.clone()).collect(),
            rows: rows
                .filter(|(_, rows)| finished(rows))
                .map(|(row, rows)| {
                    GridRow::Cells(
                        row.title.clone(),
                        row.settings.clone(),
                        rows.iter().flat_map(cells).collect(),
                    )
                })
                .collect(),
        }
    }

    /// The table as CSV, a line for each method and stream with a finished run.
    pub fn csv(&self, all: &RunTable<'_>) -> String {
        let titles = [
            "stream",
            "method",
            "title",
            "settings",
            "seeds", //
            "first",
            "first_std",
            "first_paper",
            "first_paper_std",
            "first_difference", //
            "last",
            "last_std",
            "last_paper",
            "last_paper_std",
            "last_difference", //
            "T",
            "T_std",
            "T_paper",
            "T_paper_std",
            "T_difference",
        ];
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .filter_map(|entry| {
                let seeds = entry.last.ours?.runs.to_string();
                let (row, stream) = (&all.rows[entry.row], &all.streams[entry.column]);
                let texts = [&stream.name, &row.method, &row.title, &row.settings, &seeds];
                let mut fields: Vec<String> = texts.into_iter().cloned().collect();
                for compared in [&entry.first, &entry.last, &entry.transfer] {
                    fields.extend(numbers(compared));
                }
                Some(fields)
            })
            .collect();
        csv(&titles, &rows)
    }
}

/// The experts that learned the images of a cell: those with the settings of its row if there are any, else those with
/// the most seeds.
fn expert<'a, 'b>(all: &'b RunTable<'a>, row: usize, column: usize) -> Option<&'b CellRuns<'a>> {
    let images = |run: &RunRecord| (run.experiment.variant.clone(), run.experiment.stream_seed);
    let wanted = all.rows[row].cells[column].runs.first().map(|run| images(run))?;
    let rows = all.rows.iter().filter(|row| row.method == EXPERTS);
    let fits = |cell: &CellRuns<'_>| cell.runs.first().is_some_and(|run| images(run) == wanted);
    let fitting = rows.filter(|row| fits(&row.cells[column]));
    let settings = |experts: &str| experts == all.rows[row].settings;
    fitting
        .max_by_key(|row| (settings(&row.settings), row.cells[column].runs.len()))
        .map(|row| &row.cells[column])
}

#[cfg(test)]
mod tests {
    use super::super::samples::{record, with_epochs};
    use super::*;
    use crate::records::RunRecords;

    #[test]
    fn transfer_by_hand() {
        let mut other_images = record("experts", "s_pl", 1, [0.5, 0.5]);
        other_images.experiment.variant = "mini".into();
        let records = RunRecords {
            finished: vec![
                record("experts", "s_minus", 1, [0.6, 0.40]),
                record("experts", "s_minus", 2, [0.6, 0.44]),
                other_images,
                record("lmc_a", "s_minus", 1, [0.65, 0.62]),
                record("lmc_a", "s_pl", 1, [0.65, 0.62]),
            ],
            ..RunRecords::default()
        };
        let all = RunTable::new(&records).unwrap();
        let table = Transfer::new(&all);
        let [experts, _, lmc, elsewhere] = &table.rows[..] else { panic!("{table:?}") };
        assert!(experts.transfer.ours.unwrap().mean.abs() < 1e-9);
        // 62 less the mean of 40 and 44; the paper has 21.2.
        assert!((lmc.transfer.ours.unwrap().mean - 20.0).abs() < 1e-9);
        assert!((lmc.transfer.difference.unwrap() + 1.2).abs() < 1e-9);
        // Sample runs lose 10 points of the first task later.
        assert!((lmc.first.ours.unwrap().mean - 75.0).abs() < 1e-9);
        // The experts on S_pl learned other images.
        assert_eq!(elsewhere.transfer.ours, None);
        assert_eq!(table.csv(&all).lines().count(), 5);
    }

    #[test]
    fn experts_with_the_same_settings_first() {
        let records = RunRecords {
            finished: vec![
                record("experts", "s_minus", 1, [0.6, 0.4]),
                record("experts", "s_minus", 2, [0.6, 0.4]),
                with_epochs(record("experts", "s_minus", 1, [0.6, 0.3]), 9),
                record("finetune", "s_minus", 1, [0.6, 0.5]),
                with_epochs(record("finetune", "s_minus", 1, [0.6, 0.5]), 9),
            ],
            ..RunRecords::default()
        };
        let all = RunTable::new(&records).unwrap();
        let found: Vec<f64> =
            Transfer::new(&all).rows.iter().map(|entry| entry.transfer.ours.unwrap().mean.round()).collect();
        // Finetune of 100 and of 9 epochs, then the experts themselves.
        assert_eq!(found, [10.0, 20.0, 0.0, 0.0]);
    }
}
