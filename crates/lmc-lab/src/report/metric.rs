//! Metrics of a run by name: the columns of `runs.csv`, and the choices of `lmc report --metric`.

use lmc::{Accuracy, Protocol};
use lmc_streams::Error;
use serde::Serialize;

use super::protocols::own_head;
use super::run_table::{CellRuns, RunTable};
use super::spread::Spread;
use crate::csv;
use crate::error::Result;
use crate::metrics::TaskMetrics;
use crate::records::RunRecord;

/// A number of a run; runs of earlier versions and of some methods lack some.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name in files and commands.
    pub name: &'static str,
    /// Description for people.
    pub about: &'static str,
    number: Number,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Count(fn(&RunRecord) -> Option<usize>),
    Real(fn(&RunRecord) -> Option<f64>),
}

/// All metrics. Accuracies and shares are in per cent.
pub const METRICS: [Metric; 24] = [
    count("tasks", "tasks learned", |run| Some(run.metrics.tasks.len())),
    real("A", "mean accuracy at the end, under the paper's protocol", |run| {
        percent(Some(run.metrics.headline().accuracy))
    }),
    real("F", "mean change of accuracy since each task was learned, over all tasks", |run| {
        percent(Some(run.metrics.headline().forgetting))
    }),
    real("F_paper_formula", "F over all tasks but the last, as the paper's formula has it", |run| {
        percent(Some(run.metrics.headline().forgetting_paper))
    }),
    count("M", "modules at the end", |run| Some(run.metrics.modules())),
    real("A_task_given", "A with the task given", |run| accuracy(run, Protocol::TaskGiven)),
    real("F_task_given", "F with the task given", |run| forgetting(run, Protocol::TaskGiven)),
    real("A_task_batches", "A in batches of one task, without its ID", |run| {
        accuracy(run, Protocol::TaskBatch)
    }),
    real("F_task_batches", "F in batches of one task, without its ID", |run| {
        forgetting(run, Protocol::TaskBatch)
    }),
    real("A_mixed", "A in mixed batches of all tasks", |run| accuracy(run, Protocol::Mixed)),
    real("F_mixed", "F in mixed batches of all tasks", |run| forgetting(run, Protocol::Mixed)),
    real("A_single", "A on single images", |run| accuracy(run, Protocol::Single)),
    real("F_single", "F on single images", |run| forgetting(run, Protocol::Single)),
    real("first_task_after", "accuracy of the first task right after it was learned", |run| {
        of_task(run, run.metrics.tasks.first(), |task| task.after)
    }),
    real("first_task_end", "accuracy of the first task at the end", |run| {
        of_task(run, run.metrics.tasks.first(), |task| task.end)
    }),
    real("last_task", "accuracy of the last task", |run| {
        of_task(run, run.metrics.tasks.last(), |task| task.end)
    }),
    real(
        "own_head_task_batches",
        "images classified by the head of their own task, in batches of one task",
        |run| percent(own_head(&run.metrics, |task| task.own_head.task_batches)),
    ),
    real("own_head_single", "images classified by the head of their own task, single images", |run| {
        percent(own_head(&run.metrics, |task| task.own_head.single))
    }),
    count("parameters", "all parameters at the end", |run| counted(run.metrics.parameters)),
    count("multiply_adds", "multiply-adds of one prediction at the end", |run| {
        counted(usize::try_from(run.metrics.multiply_adds).unwrap_or(usize::MAX))
    }),
    real("learning_seconds", "seconds of learning", |run| Some(run.cost?.learning_seconds)),
    real("learning_cpu_seconds", "processor seconds of learning", |run| run.cost?.learning_cpu_seconds),
    real("testing_seconds", "seconds of evaluation", |run| Some(run.cost?.testing_seconds)),
    real("peak_mib", "largest memory of the process, in MiB", |run| Some(run.cost?.peak_mib)),
];

const fn count(name: &'static str, about: &'static str, number: fn(&RunRecord) -> Option<usize>) -> Metric {
    Metric { name, about, number: Number::Count(number) }
}

const fn real(name: &'static str, about: &'static str, number: fn(&RunRecord) -> Option<f64>) -> Metric {
    Metric { name, about, number: Number::Real(number) }
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| 100.0 * share)
}

fn accuracy(run: &RunRecord, protocol: Protocol) -> Option<f64> {
    percent(run.metrics.summary(protocol).map(|summary| summary.accuracy))
}

fn forgetting(run: &RunRecord, protocol: Protocol) -> Option<f64> {
    percent(run.metrics.summary(protocol).map(|summary| summary.forgetting))
}

fn of_task(run: &RunRecord, task: Option<&TaskMetrics>, when: fn(&TaskMetrics) -> Accuracy) -> Option<f64> {
    percent(task.map(|task| when(task).headline(run.metrics.task_agnostic)))
}

/// Turns 0 into `None`: runs of earlier versions have zeros for numbers that they did not count.
fn counted(count: usize) -> Option<usize> {
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

    /// The number of a run, if it has it.
    pub fn of(&self, run: &RunRecord) -> Option<f64> {
        match self.number {
            Number::Count(count) => count(run).map(|count| count as f64),
            Number::Real(number) => number(run),
        }
    }

    /// The number of a run as a field of a CSV file; empty if the run lacks it.
    pub(super) fn field(&self, run: &RunRecord) -> String {
        match self.number {
            Number::Count(count) => count(run).map(|count| count.to_string()).unwrap_or_default(),
            Number::Real(number) => csv::number(number(run)),
        }
    }

    /// Mean and deviation over the runs of a cell.
    pub fn over(&self, cell: &CellRuns<'_>) -> Option<Spread> {
        Spread::of(&cell.each(|run| self.of(run)))
    }

    /// The metric of every method on every stream.
    pub fn table(&self, all: &RunTable<'_>) -> Vec<MetricRow> {
        let mut rows = Vec::new();
        for row in &all.rows {
            for (stream, cell) in all.streams.iter().zip(&row.cells) {
                rows.push(MetricRow {
                    method: row.method.clone(),
                    title: row.title.clone(),
                    settings: row.settings.clone(),
                    stream: stream.name.clone(),
                    metric: self.name,
                    value: self.over(cell),
                });
            }
        }
        rows
    }
}

/// A metric of one method on one stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricRow {
    /// Name of the method in experiments.
    pub method: String,
    /// Name of the method in tables.
    pub title: String,
    /// Settings that distinguish it from the method's other rows.
    pub settings: String,
    /// Name of the stream in experiments.
    pub stream: String,
    /// Name of the metric.
    pub metric: &'static str,
    /// Mean and deviation over seeds; `None` if no run has the metric.
    pub value: Option<Spread>,
}

#[cfg(test)]
mod tests {
    use super::super::samples::record;
    use super::*;
    use crate::records::RunRecords;

    #[test]
    fn a_metric_of_every_method_on_every_stream() -> Result<()> {
        let finished = vec![
            record("finetune", "s_minus", 1, [0.5, 0.25]),
            record("finetune", "s_minus", 2, [0.5, 0.75]),
            record("lmc_a", "s_pl", 1, [0.25, 0.75]),
        ];
        let records = RunRecords { finished, ..RunRecords::default() };
        let all = RunTable::new(&records)?;
        let rows = Metric::find("last_task")?.table(&all);
        let values: Vec<(&str, &str, Option<f64>)> = rows
            .iter()
            .map(|row| (row.method.as_str(), row.stream.as_str(), row.value.map(|value| value.mean)))
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
