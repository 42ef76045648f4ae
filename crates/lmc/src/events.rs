//! What happens while a task is learned. Learning prints nothing; whoever listens renders these.

use serde::{Deserialize, Serialize};

/// Something happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A stream begins.
    StreamStarted {
        /// How many tasks it has.
        tasks: usize,
    },
    /// A task begins, or goes on after a break at `epoch`.
    TaskStarted {
        /// Its name.
        task: String,
        /// Its number in the life of the model.
        number: usize,
        /// Epochs that it gets, unless modules are added late.
        epochs: usize,
        /// Epochs that are done already.
        epoch: usize,
        /// Modules per layer.
        modules: Vec<usize>,
    },
    /// A batch was learned.
    Step {
        /// Epoch, from 0.
        epoch: usize,
        /// Step in the epoch, from 0.
        step: usize,
        /// Steps of the epoch.
        steps: usize,
        /// The objective.
        loss: f64,
    },
    /// A layer grew.
    Expanded {
        /// The layer, from 0.
        layer: usize,
        /// z of its modules.
        z: Vec<f64>,
        /// Epoch, from 0.
        epoch: usize,
        /// Step in the epoch, from 0.
        step: usize,
    },
    /// The new module is being fitted to those above it.
    ProjectionStarted {
        /// The layer that grew.
        layer: usize,
        /// Steps of the phase.
        steps: usize,
    },
    /// Modules may be added again.
    ProjectionEnded {
        /// Epoch, from 0.
        epoch: usize,
    },
    /// All batches were seen once more.
    EpochEnded {
        /// Epoch, from 0.
        epoch: usize,
        /// Epochs that the task gets.
        epochs: usize,
        /// Mean objective.
        loss: f64,
        /// Mean cross-entropy.
        cross_entropy: f64,
        /// Share of training images told right while learning.
        train_accuracy: f64,
        /// Share of validation images told right, if they were asked.
        val_accuracy: Option<f64>,
        /// Modules per layer.
        modules: Vec<usize>,
    },
    /// The state is on disk.
    Checkpointed {
        /// Epochs that are done.
        epoch: usize,
    },
    /// A task is over.
    TaskLearned {
        /// Its name.
        task: String,
        /// The epoch whose state was kept, from 0.
        best_epoch: usize,
        /// Its validation accuracy.
        val_accuracy: Option<f64>,
        /// Modules per layer.
        modules: Vec<usize>,
    },
}
