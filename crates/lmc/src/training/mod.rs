//! Training: one task while it is learned (paper algorithm 1).
//!
//! | file | idea |
//! | --- | --- |
//! | [`config`] | hyperparameters, and how many epochs a task gets |
//! | [`step`] | one batch: forward pass, objective, backward pass, growth |
//! | [`epoch`] | all batches once, then validation |
//! | [`estimate`] | how long a task will take |
//! | [`cache`] | responses of frozen first-layer modules, computed once a task |
//! | [`adam`] | the optimiser, with a state that can be saved |
//! | [`extension`] | more pictures or classes for a task: a new version of its head |
//! | [`checkpoint`] | the exact state in the middle of a task, on disk |
//!
//! What every method has while it trains on a task, LMC and baselines alike, is [`TaskTraining`]: epochs that are done,
//! the optimiser, the state with the best validation accuracy, and the epoch that is under way. [`EpochMetrics`] are the
//! running sums of one epoch: with them in the state, training goes on after any of its steps.

pub mod adam;
pub mod cache;
pub mod checkpoint;
pub mod config;
pub mod epoch;
pub mod estimate;
pub mod extension;
pub mod step;

use std::sync::atomic::{AtomicBool, Ordering};

use lmc_streams::{Task, TaskSet, content_hash};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::events::Event;
use crate::growth::gain::DroppedModules;
use crate::growth::task_losses::ExpansionTest;
use adam::Adam;

/// The data of a task to learn from.
#[derive(Clone, Copy, Debug)]
pub struct TaskData<'a> {
    /// Name of the task, unique in the model.
    pub name: &'a str,
    /// Class names in label order.
    pub classes: &'a [String],
    /// Images to learn from.
    pub train: &'a TaskSet,
    /// Images to choose the best epoch by, and to estimate the distribution of scores from; may be empty, and then the last
    /// epoch is kept and novelty is unknown.
    pub val: &'a TaskSet,
    /// Set by whoever wants the work to end soon; see [`TaskData::check_stop`].
    pub stop: Option<&'a AtomicBool>,
}

impl<'a> TaskData<'a> {
    /// The same data, with a flag that ends the work on them.
    pub fn until(self, stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// [`Error::Stopped`] once the flag is set. Long passes over images outside of training steps ask at every batch; after
    /// a step the listener decides.
    pub fn check_stop(&self) -> Result<()> {
        match self.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => {
                Err(Error::Stopped { done: format!("what was saved of task '{}'", self.name) })
            }
            _ => Ok(()),
        }
    }
}

impl<'a> From<&'a Task> for TaskData<'a> {
    fn from(task: &'a Task) -> Self {
        Self { name: &task.name, classes: &task.classes, train: &task.train, val: &task.val, stop: None }
    }
}

impl TaskData<'_> {
    /// Hash of class names, labels and pixels.
    pub fn content_hash(&self) -> String {
        content_hash(self.classes, [self.train, self.val])
    }
}

/// How the training of a task went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Name of the task.
    pub task: String,
    /// The epoch whose state was kept, from 0.
    pub best_epoch: usize,
    /// Epochs that were run.
    pub epochs: usize,
    /// Validation accuracy of the state that was kept, with the task given.
    pub val_accuracy: Option<f64>,
    /// Modules per layer before the task.
    pub modules_before: Vec<usize>,
    /// Modules per layer after the task.
    pub modules: Vec<usize>,
    /// Tests for expansion on all images of the task, in their order; empty if batches are tested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<ExpansionTest>,
    /// Modules that were added and not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DroppedModules>,
}

impl TaskReport {
    /// The [`Event::TaskLearned`] of the report.
    pub fn event(&self) -> Event {
        Event::TaskLearned {
            task: self.task.clone(),
            best_epoch: self.best_epoch,
            val_accuracy: self.val_accuracy,
            modules: self.modules.clone(),
            dropped: self.dropped.clone(),
        }
    }
}

/// One task while it is trained; `S` is a copy of the state of the epoch with the best validation accuracy.
#[derive(Clone, Debug)]
pub struct TaskTraining<S> {
    /// Name of the task.
    pub task: String,
    /// Number of the task in the life of the method, from 0.
    pub number: usize,
    /// Epochs that are done.
    pub epoch: usize,
    /// Epochs that the task gets. For LMC, modules that are added late extend it.
    pub epochs: usize,
    /// The optimiser with its state.
    pub adam: Adam,
    /// The state with the best validation accuracy so far.
    pub best: Option<Best<S>>,
    /// The epoch that has begun and is not over: what is counted of it so far. `None` between epochs.
    pub under_way: Option<EpochMetrics>,
}

/// The state of the epoch with the best validation accuracy.
#[derive(Clone, Debug)]
pub struct Best<S> {
    /// The epoch after which the state was kept, from 0.
    pub epoch: usize,
    /// Validation accuracy of the state, with the task given.
    pub accuracy: f64,
    /// Copy of the state.
    pub state: S,
}

impl<S> TaskTraining<S> {
    /// Opens a task of so many epochs.
    pub fn new(data: TaskData<'_>, number: usize, epochs: usize, adam: Adam) -> Self {
        Self { task: data.name.to_owned(), number, epoch: 0, epochs, adam, best: None, under_way: None }
    }

    /// Begins an epoch of so many steps, or goes on with the one under way; gives the number of steps that are done.
    pub fn begin_epoch(&mut self, steps: usize) -> usize {
        self.metrics(steps).step()
    }

    /// Counts a training batch and gives its [`Event::Step`]; see [`EpochMetrics::batch`].
    pub fn count(&mut self, loss: f64, cross_entropy: f64, correct: usize, images: usize) -> Result<Event> {
        self.metrics(0).batch(loss, cross_entropy, correct, images)
    }

    fn metrics(&mut self, steps: usize) -> &mut EpochMetrics {
        let (task, epoch) = (&self.task, self.epoch);
        self.under_way.get_or_insert_with(|| EpochMetrics::new(task, epoch, steps))
    }

    /// Counts the epoch under way, whose sums it gives, and keeps its state if its validation accuracy is the best so far.
    pub fn end_epoch(&mut self, accuracy: Option<f64>, state: impl FnOnce() -> S) -> EpochMetrics {
        let metrics = self.metrics(0).clone();
        self.under_way = None;
        if let Some(accuracy) = accuracy
            && self.best.as_ref().is_none_or(|best| accuracy > best.accuracy)
        {
            self.best = Some(Best { epoch: self.epoch, accuracy, state: state() });
        }
        self.epoch += 1;
        metrics
    }

    /// Whether all epochs are done.
    pub fn is_done(&self) -> bool {
        self.epoch >= self.epochs
    }

    /// Epochs that are done, and epochs that the task gets.
    pub fn progress(&self) -> (usize, usize) {
        (self.epoch, self.epochs)
    }

    /// The report of the task, from modules per layer before and after it.
    pub fn report(&self, modules_before: Vec<usize>, modules: Vec<usize>) -> TaskReport {
        TaskReport {
            task: self.task.clone(),
            best_epoch: self.best.as_ref().map_or(self.epoch.saturating_sub(1), |best| best.epoch),
            epochs: self.epoch,
            val_accuracy: self.best.as_ref().map(|best| best.accuracy),
            modules_before,
            modules,
            tests: Vec::new(),
            dropped: None,
        }
    }
}

/// Running sums of an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochMetrics {
    task: String,
    epoch: usize,
    step: usize,
    steps: usize,
    loss: f64,
    cross_entropy: f64,
    correct: usize,
    images: usize,
}

impl EpochMetrics {
    /// Begins an epoch (from 0) of so many steps.
    pub fn new(task: &str, epoch: usize, steps: usize) -> Self {
        Self {
            task: task.to_owned(),
            epoch,
            step: 0,
            steps,
            loss: 0.0,
            cross_entropy: 0.0,
            correct: 0,
            images: 0,
        }
    }

    /// Number of images so far.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Number of the next step, from 0.
    pub fn step(&self) -> usize {
        self.step
    }

    /// Counts a batch and gives its [`Event::Step`]. A loss that is not finite is an error.
    pub fn batch(&mut self, loss: f64, cross_entropy: f64, correct: usize, images: usize) -> Result<Event> {
        if !loss.is_finite() {
            return Err(Error::Diverged { task: self.task.clone(), epoch: self.epoch + 1, loss });
        }
        self.loss += loss * images as f64;
        self.cross_entropy += cross_entropy * images as f64;
        self.correct += correct;
        self.images += images;
        let event = Event::Step { epoch: self.epoch, step: self.step, steps: self.steps, loss };
        self.step += 1;
        Ok(event)
    }

    /// The [`Event::EpochEnded`] of the epoch, in a task of `epochs` epochs.
    pub fn end(self, epochs: usize, val_accuracy: Option<f64>, modules: Vec<usize>) -> Event {
        let images = self.images.max(1) as f64;
        Event::EpochEnded {
            epoch: self.epoch,
            epochs,
            loss: self.loss / images,
            cross_entropy: self.cross_entropy / images,
            train_accuracy: self.correct as f64 / images,
            val_accuracy,
            modules,
        }
    }
}
