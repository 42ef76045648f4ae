//! The numbers of a run by name: columns of `runs.csv`, and what `lmc report --metric` shows.

use lmc::Result;
use lmc_streams::Error;
use serde::Serialize;

use super::arrangement::{Arrangement, Cell};
use super::asking::own_head;
use super::spread::Spread;
use crate::csv;
use crate::metrics::{TaskMetrics, Ways};
use crate::run_record::Record;

/// A number that every run has, or that some lack.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    number: Number,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Count(fn(&Record) -> Option<usize>),
    Real(fn(&Record) -> Option<f64>),
}

/// All of them. Accuracies and shares in per cent.
pub const METRICS: [Metric; 24] = [
    count("tasks", "tasks learned", |run| Some(run.metrics.tasks.len())),
    real("A", "mean accuracy at the end, asked as in the paper", |run| {
        percent(Some(run.metrics.headline().accuracy))
    }),
    real("F", "mean change of accuracy since each task was learned, over all tasks", |run| {
        percent(Some(run.metrics.headline().forgetting))
    }),
    real("F_paper_formula", "F over all tasks but the last, as the paper's formula has it", |run| {
        percent(Some(run.metrics.headline().forgetting_paper))
    }),
    count("M", "modules at the end", |run| Some(run.metrics.modules())),
    real("A_task_given", "A with the task given", |run| accuracy(run, |ways| Some(ways.task_given))),
    real("F_task_given", "F with the task given", |run| forgetting(run, |ways| Some(ways.task_given))),
    real("A_task_batches", "A in batches of one task", |run| accuracy(run, |ways| ways.task_batches)),
    real("F_task_batches", "F in batches of one task", |run| forgetting(run, |ways| ways.task_batches)),
    real("A_mixed", "A in batches of all tasks", |run| accuracy(run, |ways| ways.mixed)),
    real("F_mixed", "F in batches of all tasks", |run| forgetting(run, |ways| ways.mixed)),
    real("A_single", "A one by one", |run| accuracy(run, |ways| ways.single)),
    real("F_single", "F one by one", |run| forgetting(run, |ways| ways.single)),
    real("first_task_after", "accuracy of the first task right after it was learned", |run| {
        of_task(run, run.metrics.tasks.first(), |task| task.after)
    }),
    real("first_task_end", "accuracy of the first task at the end", |run| {
        of_task(run, run.metrics.tasks.first(), |task| task.end)
    }),
    real("last_task", "accuracy of the last task", |run| {
        of_task(run, run.metrics.tasks.last(), |task| task.end)
    }),
    real("own_head_task_batches", "answers by the task's own head, in batches of one task", |run| {
        percent(own_head(&run.metrics, |task| task.own_head.task_batches))
    }),
    real("own_head_single", "answers by the task's own head, one by one", |run| {
        percent(own_head(&run.metrics, |task| task.own_head.single))
    }),
    count("parameters", "all parameters at the end", |run| known(run.metrics.parameters)),
    count("multiply_adds", "multiply-adds of one prediction at the end", |run| {
        known(usize::try_from(run.metrics.multiply_adds).unwrap_or(usize::MAX))
    }),
    real("learning_seconds", "seconds of learning", |run| Some(run.cost?.learning_seconds)),
    real("learning_cpu_seconds", "processor seconds of learning", |run| run.cost?.learning_cpu_seconds),
    real("testing_seconds", "seconds of testing", |run| Some(run.cost?.testing_seconds)),
    real("peak_mib", "most memory that the process used, in MiB", |run| Some(run.cost?.peak_mib)),
];

const fn count(name: &'static str, about: &'static str, number: fn(&Record) -> Option<usize>) -> Metric {
    Metric { name, about, number: Number::Count(number) }
}

const fn real(name: &'static str, about: &'static str, number: fn(&Record) -> Option<f64>) -> Metric {
    Metric { name, about, number: Number::Real(number) }
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| 100.0 * share)
}

fn accuracy(run: &Record, way: fn(&Ways) -> Option<f64>) -> Option<f64> {
    percent(run.metrics.summary(way).map(|summary| summary.accuracy))
}

fn forgetting(run: &Record, way: fn(&Ways) -> Option<f64>) -> Option<f64> {
    percent(run.metrics.summary(way).map(|summary| summary.forgetting))
}

fn of_task(run: &Record, task: Option<&TaskMetrics>, when: fn(&TaskMetrics) -> Ways) -> Option<f64> {
    percent(task.map(|task| when(task).headline(run.metrics.agnostic)))
}

/// Older runs have zeros for what they did not count.
fn known(count: usize) -> Option<usize> {
    Some(count).filter(|&count| count > 0)
}

impl Metric {
    /// The metric of that name.
    pub fn find(name: &str) -> Result<Self> {
        let names = || METRICS.iter().map(|metric| metric.name);
        METRICS.into_iter().find(|metric| metric.name == name).ok_or_else(|| {
            let all: Vec<&str> = names().collect();
            Error::unknown("metric", name, names(), format!("use one of {}", all.join(", "))).into()
        })
    }

    /// Of a run, if it has it.
    pub fn of(&self, run: &Record) -> Option<f64> {
        match self.number {
            Number::Count(count) => count(run).map(|count| count as f64),
            Number::Real(number) => number(run),
        }
    }

    /// The same as a field of a file.
    pub(super) fn field(&self, run: &Record) -> String {
        match self.number {
            Number::Count(count) => count(run).map(|count| count.to_string()).unwrap_or_default(),
            Number::Real(number) => csv::number(number(run)),
        }
    }

    /// Over the runs of a cell.
    pub fn over(&self, cell: &Cell<'_>) -> Option<Spread> {
        Spread::of(&cell.each(|run| self.of(run)))
    }

    /// Of all methods on all streams: a line for each.
    pub fn table(&self, all: &Arrangement<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        for row in &all.rows {
            for (stream, cell) in all.streams.iter().zip(&row.cells) {
                lines.push(Line {
                    method: row.method.clone(),
                    title: row.title.clone(),
                    settings: row.settings.clone(),
                    stream: stream.name.clone(),
                    metric: self.name,
                    value: self.over(cell),
                });
            }
        }
        lines
    }
}

/// A metric of a method on a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The method's name in experiments.
    pub method: String,
    /// Its name in tables.
    pub title: String,
    /// What tells it from the method's other rows.
    pub settings: String,
    /// The stream's name in experiments.
    pub stream: String,
    /// The metric's name.
    pub metric: &'static str,
    /// Mean over seeds; `None` if no run has it.
    pub value: Option<Spread>,
}

#[cfg(test)]
mod tests {
    use super::super::samples::record;
    use super::*;
    use crate::run_record::Records;

    #[test]
    fn a_metric_of_every_method_on_every_stream() -> Result<()> {
        let finished = vec![
            record("finetune", "s_minus", 1, [0.5, 0.25]),
            record("finetune", "s_minus", 2, [0.5, 0.75]),
            record("lmc_a", "s_pl", 1, [0.25, 0.75]),
        ];
        let records = Records { finished, ..Records::default() };
        let all = Arrangement::new(&records);
        let lines = Metric::find("last_task")?.table(&all);
        let values: Vec<(&str, &str, Option<f64>)> = lines
            .iter()
            .map(|line| (line.method.as_str(), line.stream.as_str(), line.value.map(|value| value.mean)))
            .collect();
        assert_eq!(
            values,
            [
                ("finetune", "s_minus", Some(50.0)),
                ("finetune", "s_pl", None),
                ("lmc_a", "s_minus", None),
                ("lmc_a", "s_pl", Some(75.0)),
            ]
        );
        Ok(())
    }

    #[test]
    fn an_unknown_metric_lists_the_nearest() {
        let error = Metric::find("A_singel").unwrap_err().to_string();
        assert!(error.contains("did you mean 'A_single'") && error.contains("peak_mib"), "{error}");
    }
}
