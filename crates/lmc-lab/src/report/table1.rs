//! The paper's table 1: accuracy A, forgetting F and modules M of every method on every stream, ours above the paper's.

use serde::Serialize;

use super::arrangement::{Arrangement, Cell as Runs};
use super::grid::{Cell, Grid, Line};
use super::spread::{Compared, Spread};
use crate::csv::{csv, number};
use crate::paper::{Metric, is_fixed, published};

/// The table, a line for each method and stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table1 {
    /// Method by method, in each stream by stream.
    pub lines: Vec<Entry>,
}

/// A method on a stream. A and F in per cent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The method's name in experiments.
    pub method: String,
    /// Its name in the paper.
    pub title: String,
    /// What tells it from the method's other rows.
    pub settings: String,
    /// The stream's name in experiments.
    pub stream: String,
    /// Finished runs.
    pub seeds: usize,
    /// Runs without results: `1 failed`.
    pub incomplete: String,
    /// Whether all finished runs are on the paper's images, neither generated nor fewer.
    pub papers_images: bool,
    /// A: mean accuracy at the end.
    pub accuracy: Compared,
    /// F: mean change of accuracy since each task was learned; below 0 is forgetting.
    pub forgetting: Compared,
    /// M: modules at the end.
    pub modules: Compared,
}

/// Per cent.
pub(super) fn points(shares: &[f64]) -> Option<Spread> {
    Spread::of(&shares.iter().map(|share| 100.0 * share).collect::<Vec<_>>())
}

impl Table1 {
    /// The table of these runs.
    pub fn new(all: &Arrangement<'_>) -> Self {
        let mut lines = Vec::new();
        for row in &all.rows {
            for (stream, cell) in all.streams.iter().zip(&row.cells) {
                lines.push(entry(&row.method, &row.title, &row.settings, &stream.name, cell));
            }
        }
        Self { lines }
    }

    /// To look at: a row for each method, three columns and the number of seeds for each stream.
    pub fn grid(&self, all: &Arrangement<'_>) -> Grid {
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
        let rows = all.rows.iter().zip(self.lines.chunks(all.streams.len().max(1)));
        Grid {
            corner: "method".into(),
            groups: all.streams.iter().map(|stream| (stream.title.clone(), titles.len())).collect(),
            titles: all.streams.iter().flat_map(|_| titles.clone()).collect(),
            rows: rows
                .map(|(row, entries)| {
                    let cells = entries.iter().flat_map(Entry::cells).collect();
                    Line::Cells(row.title.clone(), row.settings.clone(), cells)
                })
                .collect(),
        }
    }

    /// A line for each method and stream.
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
            .lines
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

/// Mean and deviation of ours and of the paper's, and the difference.
pub(super) fn numbers(compared: &Compared) -> [String; 5] {
    let both = |spread: Option<Spread>| {
        [spread.map(|spread| spread.mean), spread.and_then(|spread| spread.deviation)].map(number)
    };
    let ([ours, deviation], [paper, paper_deviation]) = (both(compared.ours), both(compared.paper));
    [ours, deviation, paper, paper_deviation, number(compared.difference)]
}

fn entry(method: &str, title: &str, settings: &str, stream: &str, cell: &Runs<'_>) -> Entry {
    let compared =
        |ours: Option<Spread>, metric: Metric| Compared::new(ours, published(stream, method, metric));
    let accuracy = cell.each(|run| Some(run.metrics.headline().accuracy));
    let forgetting = cell.each(|run| Some(run.metrics.headline().forgetting));
    let modules = cell.each(|run| Some(run.metrics.modules() as f64));
    Entry {
        method: method.to_owned(),
        title: title.to_owned(),
        settings: settings.to_owned(),
        stream: stream.to_owned(),
        seeds: cell.runs.len(),
        incomplete: cell.remark(),
        papers_images: !cell.runs.is_empty() && cell.runs.iter().all(|run| run.is_on_the_papers_images()),
        accuracy: compared(points(&accuracy), Metric::Accuracy),
        forgetting: compared(points(&forgetting), Metric::Forgetting),
        modules: compared(Spread::of(&modules), Metric::Modules),
    }
}

impl Entry {
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
    use crate::run_record::{Incomplete, Records};

    #[test]
    fn a_table_by_hand() {
        let lost = record("lmc_a", "s_pl", 3, [0.5, 0.5]);
        let records = Records {
            finished: vec![
                record("lmc_a", "s_minus", 1, [0.6, 0.7]),
                record("lmc_a", "s_minus", 2, [0.7, 0.8]),
                record("slda", "own.toml", 1, [0.2, 0.4]),
            ],
            unfinished: vec![Incomplete {
                directory: lost.directory.clone(),
                experiment: Some(lost.experiment),
                why: "stopped".into(),
            }],
            ..Records::default()
        };
        let all = Arrangement::new(&records);
        let table = Table1::new(&all);
        assert_eq!(table.lines.len(), 2 * 3);
        // A: 65 and 75; their mean is 70, their deviation √50. F: −0.1 over two tasks.
        let lmc = &table.lines[0];
        let accuracy = lmc.accuracy.ours.unwrap();
        assert!((accuracy.mean - 70.0).abs() < 1e-9);
        assert!((accuracy.deviation.unwrap() - 50.0_f64.sqrt()).abs() < 1e-9);
        assert!((lmc.accuracy.difference.unwrap() - (70.0 - 67.2)).abs() < 1e-9);
        assert!((lmc.forgetting.ours.unwrap().mean + 5.0).abs() < 1e-9);
        assert!((lmc.forgetting.difference.unwrap() + 4.5).abs() < 1e-9);
        assert_eq!((lmc.seeds, lmc.modules.ours.unwrap().mean), (2, 2.0));
        // On S_pl there is the paper's number and an unfinished run.
        let missing = &table.lines[1];
        assert_eq!((missing.seeds, missing.accuracy.ours, missing.accuracy.difference), (0, None, None));
        assert_eq!(
            (missing.accuracy.paper.unwrap().mean, missing.incomplete.as_str()),
            (63.5, "1 unfinished")
        );
        // The paper knows neither this stream nor this method.
        assert_eq!(table.lines[5].accuracy.paper, None);
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
