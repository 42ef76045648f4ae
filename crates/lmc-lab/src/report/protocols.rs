//! Task-agnostic methods under every test protocol, and how often the head of an image's own task classified it.
//!
//! Accuracies are by class name, which means the same for all methods. The paper's count, by which heads are right for labels
//! of other tasks and class-incremental methods are not, has a column of its own.

use lmc::Protocol;

use super::grid::{Cell, Grid, GridRow};
use super::run_table::RunTable;
use super::table1::points;
use crate::metrics::{Metrics, TaskMetrics};

/// Title of a column, its meaning, and its share of a run.
type Column = (&'static str, &'static str, fn(&Metrics) -> Option<f64>);

const COLUMNS: [Column; 7] = [
    ("one task", "A by class name in batches of one task, without its ID", |metrics| {
        metrics.by_name(Protocol::TaskBatch)
    }),
    ("mixed", "A by class name in mixed batches of all tasks", |metrics| metrics.by_name(Protocol::Mixed)),
    ("single", "A by class name on single images", |metrics| metrics.by_name(Protocol::Single)),
    ("task given", "A by class name with the task ID given", |metrics| metrics.by_name(Protocol::TaskGiven)),
    (
        "paper's count",
        "A in batches of one task as in table 1: label positions, whichever head answered",
        |metrics| metrics.summary(Protocol::TaskBatch).map(|summary| summary.accuracy),
    ),
    (
        "own head",
        "share of images that their own task's head classified, in batches of one task",
        |metrics| own_head(metrics, |task| task.own_head.task_batches),
    ),
    ("own head, single", "the same for single images", |metrics| {
        own_head(metrics, |task| task.own_head.single)
    }),
];

/// Mean over tasks of how often a task's own head classified its images; `None` for task-aware methods.
pub(super) fn own_head(metrics: &Metrics, share: fn(&TaskMetrics) -> f64) -> Option<f64> {
    let measured = metrics.task_agnostic && !metrics.tasks.is_empty();
    measured.then(|| metrics.tasks.iter().map(share).sum::<f64>() / metrics.tasks.len() as f64)
}

/// The table of test protocols, stream by stream. It has no rows if no method is task-agnostic.
pub fn grid(all: &RunTable<'_>) -> Grid {
    let mut rows = Vec::new();
    for (stream, mut cells) in all.by_stream() {
        cells.retain(|(_, cell)| cell.runs.iter().any(|run| run.metrics.task_agnostic));
        if !cells.is_empty() {
            rows.push(GridRow::Heading(stream.title.clone()));
        }
        for (row, cell) in cells {
            let cells = COLUMNS.iter().map(|(.., share)| {
                Cell::spread(points(
                    &cell.each(|run| if run.metrics.task_agnostic { share(&run.metrics) } else { None }),
                ))
            });
            rows.push(GridRow::Cells(row.title.clone(), row.settings.clone(), cells.collect()));
        }
    }
    let titles = COLUMNS.iter().map(|(title, about, _)| ((*title).to_owned(), (*about).to_owned()));
    Grid { corner: "method".into(), groups: Vec::new(), titles: titles.collect(), rows }
}

#[cfg(test)]
mod tests {
    use super::super::samples::record;
    use super::*;
    use crate::records::RunRecords;

    #[test]
    fn task_agnostic_methods_only() {
        let finished =
            vec![record("finetune", "s_pl", 1, [0.5, 0.5]), record("lmc_a", "s_minus", 1, [0.6, 0.8])];
        let records = RunRecords { finished, ..RunRecords::default() };
        let text = grid(&RunTable::new(&records).unwrap()).markdown();
        // Sample runs have half of their accuracy in mixed batches and a quarter on single images.
        assert!(text.contains("| LMC(A) | 60.0 | 30.0 | 15.0 | 60.0 | 70.0 | 100.0 | 50.0 |"), "{text}");
        assert!(!text.contains("Finetune"), "{text}");
    }
}
