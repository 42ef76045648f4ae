//! The metrics of a run: accuracy A, forgetting F, modules M, and the accuracy matrix they come from (specification §4).

use lmc::{Accuracy, Protocol, TaskReport};
use serde::{Deserialize, Serialize};

/// The metrics of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskMetrics {
    /// Name of the task.
    pub task: String,
    /// How the training of the task went, and the modules per layer before and after it.
    #[serde(rename = "learned", alias = "report")]
    pub report: TaskReport,
    /// Accuracy right after the task was learned, by label; mixed with the tasks before it.
    pub after: Accuracy,
    /// The same by class name; runs of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_by_name: Option<Accuracy>,
    /// Accuracy at the end of the stream, by label: the paper's count ([`lmc::Counting`]).
    pub end: Accuracy,
    /// The same by class name, which is what can be compared between methods; runs of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_by_name: Option<Accuracy>,
    /// How often the outputs of the task itself classified its test images, at the end of the stream.
    pub own_head: OwnHead,
    /// Mean weight of each module at the end of the stream, `[layer][module]`, in test batches of the task.
    pub weights: Vec<Vec<f64>>,
}

/// Share of a task's test images that the task's own outputs classified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnHead {
    /// Under [`Protocol::TaskBatch`].
    pub task_batches: f64,
    /// Under [`Protocol::Single`].
    pub single: f64,
}

/// The metrics of a run. Runs of earlier versions lack the fields that have a default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Metrics of each task, in the order of the stream.
    pub tasks: Vec<TaskMetrics>,
    /// Name of the method.
    #[serde(default)]
    pub method: String,
    /// Whether the method is task-agnostic: evaluated without the task ID.
    #[serde(default, rename = "agnostic", alias = "task_agnostic")]
    pub task_agnostic: bool,
    /// Number of parameters at the end of the stream, of trunk and heads.
    #[serde(default)]
    pub parameters: usize,
    /// Multiply-adds of one prediction at the end of the stream.
    #[serde(default)]
    pub multiply_adds: u64,
    /// Accuracy of each task after each task, `[after][task]`, in test batches of one task, without the task ID if the
    /// method is task-agnostic. Whole test sets on the diagonal and in the last row, 1000 images of each elsewhere, or nothing
    /// with [`crate::Evaluate::Ends`].
    pub matrix: Vec<Vec<Option<f64>>>,
    /// The same matrix with the task ID given.
    pub matrix_given: Vec<Vec<Option<f64>>>,
    /// Sentences that say which data stands in for data that is missing.
    pub substitutions: Vec<String>,
    /// [`lmc_streams::Stream::fingerprint`] of the images that were learned; empty for runs of earlier versions.
    #[serde(default)]
    pub images: String,
}

/// Mean of a row of the accuracy matrix; `None` if a cell was not measured.
pub fn mean(row: &[Option<f64>]) -> Option<f64> {
    let measured = row.iter().copied().collect::<Option<Vec<f64>>>().filter(|row| !row.is_empty())?;
    Some(measured.iter().sum::<f64>() / measured.len() as f64)
}

/// Accuracy and forgetting over a stream, under one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// A: mean accuracy at the end of the stream.
    pub accuracy: f64,
    /// F: mean of accuracy at the end less accuracy right after, over all T tasks as in table 1; below 0 is forgetting.
    pub forgetting: f64,
    /// The same sum over T - 1 tasks, as in the paper's formula.
    pub forgetting_paper: f64,
}

impl Metrics {
    /// The metrics of a task-aware method that is derived from this run: trained alike, evaluated with the task given.
    /// It has no module weights, because this run measured them without the task ID.
    pub fn with_task_given(&self, method: &str) -> Self {
        let given = |accuracy: &Accuracy| Accuracy { task_given: accuracy.task_given, ..Accuracy::default() };
        let task = |task: &TaskMetrics| TaskMetrics {
            after: given(&task.after),
            after_by_name: task.after_by_name.as_ref().map(given),
            end: given(&task.end),
            end_by_name: task.end_by_name.as_ref().map(given),
            own_head: OwnHead::default(),
            weights: Vec::new(),
            ..task.clone()
        };
        Self {
            tasks: self.tasks.iter().map(task).collect(),
            method: method.to_owned(),
            task_agnostic: false,
            matrix: self.matrix_given.clone(),
            ..self.clone()
        }
    }

    /// A and F under the protocol with which the paper tests the method.
    pub fn headline(&self) -> Summary {
        self.mean(|accuracy| accuracy.headline(self.task_agnostic))
    }

    /// A and F under a protocol; `None` if some task was not evaluated under it.
    pub fn summary(&self, protocol: Protocol) -> Option<Summary> {
        let measured =
            |task: &TaskMetrics| task.end.of(protocol).is_some() && task.after.of(protocol).is_some();
        let all = self.tasks.iter().all(measured);
        all.then(|| self.mean(|accuracy| accuracy.of(protocol).unwrap_or(0.0)))
    }

    /// A by class name under a protocol; `None` if some task was not counted so.
    pub fn by_name(&self, protocol: Protocol) -> Option<f64> {
        let shares = self.tasks.iter().map(|task| task.end_by_name.as_ref()?.of(protocol));
        let shares = shares.collect::<Option<Vec<f64>>>()?;
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }

    fn mean(&self, share: impl Fn(&Accuracy) -> f64) -> Summary {
        let count = self.tasks.len().max(1) as f64;
        let accuracy = self.tasks.iter().map(|task| share(&task.end)).sum::<f64>() / count;
        let change: f64 = self.tasks.iter().map(|task| share(&task.end) - share(&task.after)).sum();
        Summary { accuracy, forgetting: change / count, forgetting_paper: change / (count - 1.0).max(1.0) }
    }

    /// M: number of modules of all layers at the end of the stream.
    pub fn modules(&self) -> usize {
        self.tasks.last().map_or(0, |task| task.report.modules.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgetting_by_hand() {
        let task = |after: f64, end: f64| TaskMetrics {
            task: "t".into(),
            report: TaskReport { modules: vec![2, 1], ..TaskReport::default() },
            after: Accuracy { single: Some(after), ..Accuracy::default() },
            after_by_name: None,
            end: Accuracy { single: Some(end), ..Accuracy::default() },
            end_by_name: None,
            own_head: OwnHead::default(),
            weights: Vec::new(),
        };
        let metrics = Metrics { tasks: vec![task(0.8, 0.5), task(0.6, 0.6)], ..Metrics::default() };
        let summary = metrics.summary(Protocol::Single).unwrap();
        assert_eq!(metrics.summary(Protocol::Mixed), None);
        assert!((summary.accuracy - 0.55).abs() < 1e-12);
        assert!((summary.forgetting + 0.15).abs() < 1e-12);
        assert!((summary.forgetting_paper + 0.3).abs() < 1e-12);
        assert_eq!(metrics.modules(), 3);
    }
}
