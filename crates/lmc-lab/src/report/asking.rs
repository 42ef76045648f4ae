//! Task-agnostic methods by how they are asked: in batches of one task, in mixed batches, image by image, and with the
//! task given; and how often the task's own head answered.

use super::arrangement::Arrangement;
use super::grid::{Cell, Grid, Line};
use super::table1::points;
use crate::metrics::{Metrics, TaskMetrics};

/// Title, meaning, share of a run.
type Column = (&'static str, &'static str, fn(&Metrics) -> Option<f64>);

const COLUMNS: [Column; 6] = [
    ("one task", "A in batches of one task, without its ID: as in table 1", |metrics| {
        metrics.summary(|ways| ways.task_batches).map(|summary| summary.accuracy)
    }),
    ("mixed", "A in batches of images of all tasks", |metrics| {
        metrics.summary(|ways| ways.mixed).map(|summary| summary.accuracy)
    }),
    ("single", "A image by image", |metrics| {
        metrics.summary(|ways| ways.single).map(|summary| summary.accuracy)
    }),
    ("task given", "A with the task's ID", |metrics| {
        metrics.summary(|ways| Some(ways.task_given)).map(|summary| summary.accuracy)
    }),
    ("own head", "share of batches of one task that the task's own head answered", |metrics| {
        own_head(metrics, |task| task.own_head.task_batches)
    }),
    ("own head, single", "the same image by image", |metrics| own_head(metrics, |task| task.own_head.single)),
];

/// Mean over tasks.
pub(super) fn own_head(metrics: &Metrics, share: fn(&TaskMetrics) -> f64) -> Option<f64> {
    let asked = metrics.agnostic && !metrics.tasks.is_empty();
    asked.then(|| metrics.tasks.iter().map(share).sum::<f64>() / metrics.tasks.len() as f64)
}

/// To look at: stream by stream. Without rows if no method is task-agnostic.
pub fn grid(all: &Arrangement<'_>) -> Grid {
    let mut rows = Vec::new();
    for (stream, mut cells) in all.by_stream() {
        cells.retain(|(_, cell)| cell.runs.iter().any(|run| run.metrics.agnostic));
        if !cells.is_empty() {
            rows.push(Line::Heading(stream.title.clone()));
        }
        for (row, cell) in cells {
            let cells = COLUMNS.iter().map(|(.., share)| {
                Cell::spread(points(
                    &cell.each(|run| if run.metrics.agnostic { share(&run.metrics) } else { None }),
                ))
            });
            rows.push(Line::Cells(row.title.clone(), row.settings.clone(), cells.collect()));
        }
    }
    let titles = COLUMNS.iter().map(|(title, about, _)| ((*title).to_owned(), (*about).to_owned()));
    Grid { corner: "method".into(), groups: Vec::new(), titles: titles.collect(), rows }
}

#[cfg(test)]
mod tests {
    use super::super::samples::record;
    use super::*;
    use crate::run_record::Records;

    #[test]
    fn agnostic_methods_only() {
        let finished =
            vec![record("finetune", "s_pl", 1, [0.5, 0.5]), record("lmc_a", "s_minus", 1, [0.6, 0.8])];
        let records = Records { finished, ..Records::default() };
        let text = grid(&Arrangement::new(&records)).markdown();
        // Made-up runs have half of their accuracy in mixed batches and a quarter image by image.
        assert!(text.contains("| LMC(A) | 70.0 | 35.0 | 17.5 | 70.0 | 100.0 | 50.0 |"), "{text}");
        assert!(!text.contains("Finetune"), "{text}");
    }
}
