//! The paper's table 1: accuracy A, forgetting F and modules M of every method on every stream, our number above the paper's.

use serde::Serialize;

use super::grid::{Cell, Grid, GridRow};
use super::run_table::{CellRuns, RunTable};
use super::spread::{Compared, Spread};
use crate::csv::{csv, number};
use crate::paper::{PaperMetric, is_fixed, published};

/// Table 1, with a row for each method and stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table1 {
    /// The rows, method by method, and of each method stream by stream.
    pub rows: Vec<Table1Row>,
}

/// One method on one stream. A and F are in per cent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table1Row {
    /// Name of the method in experiments.
    pub method: String,
    /// Name of the method in the paper.
    pub title: String,
    /// Settings that distinguish it from the method's other rows.
    pub settings: String,
    /// Name of the stream in experiments.
    pub stream: String,
    /// Number of finished runs.
    pub seeds: usize,
    /// Runs that have no part in the numbers: `1 failed`.
    pub incomplete: String,
    /// Whether all finished runs learned the paper's images, neither generated nor fewer.
    pub papers_images: bool,
    /// A: mean accuracy at the end of the stream.
    pub accuracy: Compared,
    /// F: mean change of accuracy since each task was learned; below 0 is forgetting.
    pub forgetting: Compared,
    /// M: number of modules at the end of the stream.
    pub modules: Compared,
}

/// Mean and deviation of shares, in per cent.
pub(super) fn points(shares: &[f64]) -> Option<Spread> {
    Spread::of(&shares.iter().map(|share| 100.0 * share).collect::<Vec<_>>())
}

impl Table1 {
    /// Makes the table of some runs.
    pub fn new(all: &RunTable<'_>) -> Self {
        let mut rows = Vec::new();
        for row in &all.rows {
            for (stream, cell) in all.streams.iter().zip(&row.cells) {
                rows.push(table_row(&row.method, &row.title, &row.settings, &stream.name, cell));
            }
        }
        Self { rows }
    }

    /// The table for people: a row for each method; A, F, M and the number of seeds for each stream.
    pub fn grid(&self, all: &RunTable<'_>) -> Grid {
        let title = |text: &str, about: &str| (text.to_owned(), about.to_owned());
        let titles = [
            title("A", "mean accuracy at the end, in %"),
            title(
                "F",
                "mean change of accuracy since each task was learned, in points; below 0 is forgetting",
            ),
            title("M", "modules at the end"),
            title("n", "seeds"),
        ];
        let rows = all.rows.iter().zip(self.rows.chunks(all.streams.len().max(1)));
        Grid {
            corner: "method".into(),
            groups: all.streams.iter().map(|stream| (stream.title.clone(), titles.len())).collect(),
            titles: all.streams.iter().flat_map(|_| titles.clone()).collect(),
            rows: rows
                .map(|(row, entries)| {
                    let cells = entries.iter().flat_map(Table1Row::cells).collect();
                    GridRow::Cells(row.title.clone(), row.settings.clone(), cells)
                })
                .collect(),
        }
    }

    /// The table as CSV, a line for each method and stream.
    pub fn csv(&self) -> String {
        let titles = [
            "stream",
            "method",
            "title",
            "settings",
            "seeds",
            "incomplete",
            "papers_images", //
            "A",
            "A_std",
            "A_paper",
            "A_paper_std",
            "A_difference", //
            "F",
            "F_std",
            "F_paper",
            "F_paper_std",
            "F_difference", //
            "M",
            "M_std",
            "M_paper",
            "M_paper_std",
            "M_difference",
        ];
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|entry| {
                let texts = [&entry.stream, &entry.method, &entry.title, &entry.settings];
                let mut row: Vec<String> = texts.into_iter().cloned().collect();
                row.extend([
                    entry.seeds.to_string(),
                    entry.incomplete.clone(),
                    entry.papers_images.to_string(),
                ]);
                for compared in [&entry.accuracy, &entry.forgetting, &entry.modules] {
                    row.extend(numbers(compared));
                }
                row
            })
            .collect();
        csv(&titles, &rows)
    }
}

/// Fields of a CSV file: our mean and deviation, the paper's mean and deviation, and the difference.
pub(super) fn numbers(compared: &Compared) -> [String; 5] {
    let both = |spread: Option<Spread>| {
        [spread.map(|spread| spread.mean), spread.and_then(|spread| spread.deviation)].map(number)
    };
    let ([ours, deviation], [paper, paper_deviation]) = (both(compared.ours), both(compared.paper));
    [ours, deviation, paper, paper_deviation, number(compared.difference)]
}

fn table_row(method: &str, title: &str, settings: &str, stream: &str, cell: &CellRuns<'_>) -> Table1Row {
    let compared =
        |ours: Option<Spread>, metric: PaperMetric| Compared::new(ours, published(stream, method, metric));
    let accuracy = cell.each(|run| Some(run.metrics.headline().accuracy));
    let forgetting = cell.each(|run| Some(run.metrics.headline().forgetting));
    let modules = cell.each(|run| Some(run.metrics.modules() as f64));
    Table1Row {
        method: method.to_owned(),
        title: title.to_owned(),
        settings: settings.to_owned(),
        stream: stream.to_owned(),
        seeds: cell.runs.len(),
        incomplete: cell.remark(),
        papers_images: !cell.runs.is_empty() && cell.runs.iter().all(|run| run.is_on_paper_images()),
        accuracy: compared(points(&accuracy), PaperMetric::Accuracy),
        forgetting: compared(points(&forgetting), PaperMetric::Forgetting),
        modules: compared(Spread::of(&modules), PaperMetric::Modules),
    }
}

impl Table1Row {
    fn cells(&self) -> [Cell; 4] {
        let star = if is_fixed(&self.method) { "*" } else { "" };
        let modules = Cell {
            text: self.modules.ours.map(|spread| spread.short()).unwrap_or_default(),
            paper: self.modules.paper.map(|spread| spread.short() + star).unwrap_or_default(),
            ..Cell::default()
        };
        let seeds = if self.seeds == 0 { String::new() } else { self.seeds.to_string() };
        let seeds = Cell { remark: self.incomplete.clone(), ..Cell::text(seeds) };
        let compared = |compared: &Compared| Cell::compared(compared, self.papers_images);
        [compared(&self.accuracy), compared(&self.forgetting), modules, seeds]
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::record;
    use super::*;
    use crate::records::{IncompleteRun, RunRecords};

    #[test]
    fn a_table_by_hand() {
        let lost = record("lmc_a", "s_pl", 3, [0.5, 0.5]);
        let records = RunRecords {
            finished: vec![
                record("lmc_a", "s_minus", 1, [0.6, 0.7]),
                record("lmc_a", "s_minus", 2, [0.7, 0.8]),
                record("slda", "own.toml", 1, [0.2, 0.4]),
            ],
            unfinished: vec![IncompleteRun {
                directory: lost.directory.clone(),
                experiment: Some(lost.experiment),
                why: "stopped".into(),
            }],
            ..RunRecords::default()
        };
        let all = RunTable::new(&records).unwrap();
        let table = Table1::new(&all);
        assert_eq!(table.rows.len(), 2 * 3);
        // A: 65 and 75; their mean is 70, their deviation √50. F: −0.1 over two tasks.
        let lmc = &table.rows[0];
        let accuracy = lmc.accuracy.ours.unwrap();
        assert!((accuracy.mean - 70.0).abs() < 1e-9);
        assert!((accuracy.deviation.unwrap() - 50.0_f64.sqrt()).abs() < 1e-9);
        assert!((lmc.accuracy.difference.unwrap() - (70.0 - 67.2)).abs() < 1e-9);
        assert!((lmc.forgetting.ours.unwrap().mean + 5.0).abs() < 1e-9);
        assert!((lmc.forgetting.difference.unwrap() + 4.5).abs() < 1e-9);
        assert_eq!((lmc.seeds, lmc.modules.ours.unwrap().mean), (2, 2.0));
        // On S_pl there is the paper's number and an unfinished run.
        let missing = &table.rows[1];
        assert_eq!((missing.seeds, missing.accuracy.ours, missing.accuracy.difference), (0, None, None));
        assert_eq!(
            (missing.accuracy.paper.unwrap().mean, missing.incomplete.as_str()),
            (63.5, "1 unfinished")
        );
        // The paper knows neither this stream nor this method.
        assert_eq!(table.rows[5].accuracy.paper, None);
        let text = table.grid(&all).markdown();
        assert!(text.contains("70.0 ± 7.1<br><sub>67.2 ± 1.5 (+2.8)</sub>"), "{text}");
        assert!(text.contains("| –<br><sub>63.5 ± 1.9</sub> |"), "{text}");
        assert!(
            table.csv().contains("s_pl,lmc_a,LMC(A),,0,1 unfinished,false,,,63.5000,1.9000,,"),
            "{}",
            table.csv()
        );
    }
}
