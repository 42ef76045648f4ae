//! The paper's transfer table: accuracy of the first and of the last task, and
//! T = accuracy of the last task − that of an expert that learned it alone.
//!
//! Paper: when the first task is asked is not said. It must be right after it was learned: LMC(A) and LMC(¬A) have the same
//! number on S⁻ and on Sⁱⁿ, and on S⁺ no gain by the last task, though F says that there is one.

use super::arrangement::{Arrangement, Cell as Runs};
use super::grid::{Cell, Grid, Line};
use super::spread::{Compared, Spread};
use super::table1::{numbers, points};
use crate::csv::csv;
use crate::metrics::Metrics;
use crate::paper::{Metric, published};
use crate::run_record::Record;

/// The method that T is measured against.
const EXPERTS: &str = "experts";

/// The table.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Method by method, in each stream by stream.
    pub entries: Vec<Entry>,
}

/// A method on a stream, in per cent.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Row of the arrangement.
    row: usize,
    /// Column of the arrangement.
    column: usize,
    /// Accuracy of the first task.
    pub first: Compared,
    /// Accuracy of the last task.
    pub last: Compared,
    /// Whether all finished runs are on the paper's images.
    papers_images: bool,
    /// T; none without an expert on the same images.
    pub transfer: Compared,
}

/// The first task, right after it was learned.
fn first(metrics: &Metrics) -> Option<f64> {
    metrics.tasks.first().map(|task| task.after.headline(metrics.agnostic))
}

fn last(metrics: &Metrics) -> Option<f64> {
    metrics.tasks.last().map(|task| task.end.headline(metrics.agnostic))
}

impl Transfer {
    /// The table of these runs.
    pub fn new(all: &Arrangement<'_>) -> Self {
        let mut entries = Vec::new();
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
                entries.push(Entry {
                    row,
                    column,
                    first: compared(ours(first), Metric::First),
                    last: compared(ours(last), Metric::Last),
                    transfer: compared(transfer, Metric::Transfer),
                    papers_images: !cell.runs.is_empty()
                        && cell.runs.iter().all(|run| run.is_on_the_papers_images()),
                });
            }
        }
        Self { entries }
    }

    /// To look at.
    pub fn grid(&self, all: &Arrangement<'_>) -> Grid {
        let title = |text: &str, about: &str| (text.to_owned(), about.to_owned());
        let titles = [
            title("first", "accuracy of the first task right after it was learned, in %"),
            title("last", "accuracy of the last task, in %"),
            title("T", "accuracy of the last task less that of an expert, in points"),
        ];
        let rows = all.rows.iter().zip(self.entries.chunks(all.streams.len().max(1)));
        let finished = |entries: &[Entry]| entries.iter().any(|entry| entry.last.ours.is_some());
        let cells = |entry: &Entry| {
            [&entry.first, &entry.last, &entry.transfer]
                .map(|compared| Cell::compared(compared, entry.papers_images))
        };
        Grid {
            corner: "method".into(),
            groups: all.streams.iter().map(|stream| (stream.title.clone(), titles.len())).collect(),
            titles: all.streams.iter().flat_map(|_| titles.clone()).collect(),
            rows: rows
                .filter(|(_, entries)| finished(entries))
                .map(|(row, entries)| {
                    Line::Cells(
                        row.title.clone(),
                        row.settings.clone(),
                        entries.iter().flat_map(cells).collect(),
                    )
                })
                .collect(),
        }
    }

    /// A line for each method and stream with a finished run.
    pub fn csv(&self, all: &Arrangement<'_>) -> String {
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
            .entries
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

/// The experts on the images of a cell: those with the settings of its row if there are any, else the row of experts with
/// the most seeds.
fn expert<'a, 'b>(all: &'b Arrangement<'a>, row: usize, column: usize) -> Option<&'b Runs<'a>> {
    let images = |run: &Record| (run.experiment.variant.clone(), run.experiment.stream_seed);
    let wanted = all.rows[row].cells[column].runs.first().map(|run| images(run))?;
    let rows = all.rows.iter().filter(|row| row.method == EXPERTS);
    let fits = |cell: &Runs<'_>| cell.runs.first().is_some_and(|run| images(run) == wanted);
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
    use crate::run_record::Records;

    #[test]
    fn transfer_by_hand() {
        let mut other_images = record("experts", "s_pl", 1, [0.5, 0.5]);
        other_images.experiment.variant = "mini".into();
        let records = Records {
            finished: vec![
                record("experts", "s_minus", 1, [0.6, 0.40]),
                record("experts", "s_minus", 2, [0.6, 0.44]),
                other_images,
                record("lmc_a", "s_minus", 1, [0.65, 0.62]),
                record("lmc_a", "s_pl", 1, [0.65, 0.62]),
            ],
            ..Records::default()
        };
        let all = Arrangement::new(&records);
        let table = Transfer::new(&all);
        let [experts, _, lmc, elsewhere] = &table.entries[..] else { panic!("{table:?}") };
        assert!(experts.transfer.ours.unwrap().mean.abs() < 1e-9);
        // 62 less the mean of 40 and 44; the paper has 21.2.
        assert!((lmc.transfer.ours.unwrap().mean - 20.0).abs() < 1e-9);
        assert!((lmc.transfer.difference.unwrap() + 1.2).abs() < 1e-9);
        // Made-up runs lose 10 points of the first task later.
        assert!((lmc.first.ours.unwrap().mean - 75.0).abs() < 1e-9);
        // The experts on S_pl learned other images.
        assert_eq!(elsewhere.transfer.ours, None);
        assert_eq!(table.csv(&all).lines().count(), 5);
    }

    #[test]
    fn experts_with_the_same_settings_first() {
        let records = Records {
            finished: vec![
                record("experts", "s_minus", 1, [0.6, 0.4]),
                record("experts", "s_minus", 2, [0.6, 0.4]),
                with_epochs(record("experts", "s_minus", 1, [0.6, 0.3]), 9),
                record("finetune", "s_minus", 1, [0.6, 0.5]),
                with_epochs(record("finetune", "s_minus", 1, [0.6, 0.5]), 9),
            ],
            ..Records::default()
        };
        let all = Arrangement::new(&records);
        let found: Vec<f64> = Transfer::new(&all)
            .entries
            .iter()
            .map(|entry| entry.transfer.ours.unwrap().mean.round())
            .collect();
        // Finetune of 100 and of 9 epochs, then the experts themselves.
        assert_eq!(found, [10.0, 20.0, 0.0, 0.0]);
    }
}
