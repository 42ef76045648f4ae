//! What came out of a run (specification §4).

use lmc::Learned;
use serde::{Deserialize, Serialize};

/// Accuracy of one test set, by how it was asked, in shares of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ways {
    /// In batches of one task, whose ID is given: LMC(¬A).
    pub task_given: f64,
    /// In batches of one task, without its ID: LMC(A) as its authors test it. `None` here and below for methods that
    /// need the ID.
    pub task_batches: Option<f64>,
    /// In batches of images of all tasks, at most 2000 of each.
    pub mixed: Option<f64>,
    /// Image by image, at most 2000 of a task.
    pub single: Option<f64>,
}

impl Ways {
    /// The way in which the paper tests a method: without the task's ID if it can.
    pub fn headline(&self, agnostic: bool) -> f64 {
        if agnostic { self.task_batches.unwrap_or(self.task_given) } else { self.task_given }
    }
}

/// What became of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskMetrics {
    /// Its name.
    pub task: String,
    /// How it was learned.
    pub learned: Learned,
    /// Accuracy right after it was learned. Mixed with the tasks before it.
    pub after: Ways,
    /// Accuracy at the end of the stream.
    pub end: Ways,
    /// Share of test batches and of single images that its own head answered, at the end.
    pub own_head: OwnHead,
    /// Mean weight of each module at the end, `[layer][module]`, in batches of the task.
    pub weights: Vec<Vec<f64>>,
}

/// How often a task's own head answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnHead {
    /// In batches of one task.
    pub task_batches: f64,
    /// Image by image.
    pub single: f64,
}

/// What came out of a run. Runs of earlier versions lack some of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Task by task.
    pub tasks: Vec<TaskMetrics>,
    /// The method's name.
    #[serde(default)]
    pub method: String,
    /// Whether it was asked without the task.
    #[serde(default)]
    pub agnostic: bool,
    /// All parameters at the end.
    #[serde(default)]
    pub parameters: usize,
    /// Multiply-adds for one answer at the end.
    #[serde(default)]
    pub multiply_adds: u64,
    /// Accuracy of each task after each, `[after][task]`, in batches of one task, without its ID if the method is
    /// agnostic. Whole test sets on the diagonal and in the last row, 1000 images of each elsewhere.
    pub matrix: Vec<Vec<f64>>,
    /// The same with the ID.
    pub matrix_given: Vec<Vec<f64>>,
    /// What stands in for what.
    pub substitutions: Vec<String>,
    /// [`lmc_streams::Stream::fingerprint`] of what was learned; empty for runs of earlier versions.
    #[serde(default)]
    pub images: String,
}

/// A number for each way of asking.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// A: mean accuracy at the end.
    pub accuracy: f64,
    /// F: mean of accuracy at the end less accuracy right after, over all T tasks as in table 1; below 0 is forgetting.
    pub forgetting: f64,
    /// The same over T - 1 tasks, as in the paper's formula.
    pub forgetting_paper: f64,
}

impl Metrics {
    /// What a method that learns the same and is told the task would have. Which modules it uses then was not asked.
    pub fn told(&self, method: &str) -> Self {
        let given = |ways: &Ways| Ways { task_given: ways.task_given, ..Ways::default() };
        let task = |task: &TaskMetrics| TaskMetrics {
            after: given(&task.after),
            end: given(&task.end),
            own_head: OwnHead::default(),
            weights: Vec::new(),
            ..task.clone()
        };
        Self {
            tasks: self.tasks.iter().map(task).collect(),
            method: method.to_owned(),
            agnostic: false,
            matrix: self.matrix_given.clone(),
            ..self.clone()
        }
    }

    /// A and F in the way in which the paper tests the method.
    pub fn headline(&self) -> Summary {
        self.mean(|ways| ways.headline(self.agnostic))
    }

    /// A and F for a way of asking; `None` if the method cannot be asked so.
    pub fn summary(&self, way: impl Fn(&Ways) -> Option<f64>) -> Option<Summary> {
        let asked = self.tasks.iter().all(|task| way(&task.end).is_some() && way(&task.after).is_some());
        asked.then(|| self.mean(|ways| way(ways).unwrap_or(0.0)))
    }

    fn mean(&self, way: impl Fn(&Ways) -> f64) -> Summary {
        let count = self.tasks.len().max(1) as f64;
        let accuracy = self.tasks.iter().map(|task| way(&task.end)).sum::<f64>() / count;
        let change: f64 = self.tasks.iter().map(|task| way(&task.end) - way(&task.after)).sum();
        Summary { accuracy, forgetting: change / count, forgetting_paper: change / (count - 1.0).max(1.0) }
    }

    /// M: trunk modules at the end.
    pub fn modules(&self) -> usize {
        self.tasks.last().map_or(0, |task| task.learned.modules.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgetting_by_hand() {
        let task = |after: f64, end: f64| TaskMetrics {
            task: "t".into(),
            learned: Learned {
                task: "t".into(),
                best_epoch: 0,
                epochs: 1,
                val_accuracy: None,
                modules_before: vec![1, 1],
                modules: vec![2, 1],
            },
            after: Ways { single: Some(after), ..Ways::default() },
            end: Ways { single: Some(end), ..Ways::default() },
            own_head: OwnHead::default(),
            weights: Vec::new(),
        };
        let metrics = Metrics { tasks: vec![task(0.8, 0.5), task(0.6, 0.6)], ..Metrics::default() };
        let summary = metrics.summary(|ways| ways.single).unwrap();
        assert_eq!(metrics.summary(|ways| ways.mixed), None);
        assert!((summary.accuracy - 0.55).abs() < 1e-12);
        assert!((summary.forgetting + 0.15).abs() < 1e-12);
        assert!((summary.forgetting_paper + 0.3).abs() < 1e-12);
        assert_eq!(metrics.modules(), 3);
    }
}
