//! What happens while a task is learned. Learning prints nothing; whoever observes it renders these.

use serde::{Deserialize, Serialize};

use crate::growth::gain::DroppedModules;
use crate::growth::task_losses::ExpansionTest;

/// One event of learning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The training of a task begins, or resumes at `epoch`.
    TaskStarted {
        /// Name of the task.
        task: String,
        /// Number of the task in the life of the model, from 0.
        number: usize,
        /// Epochs that the task gets, unless modules are added late.
        epochs: usize,
        /// Epochs that are done already.
        epoch: usize,
        /// Modules per layer.
        modules: Vec<usize>,
    },
    /// A training step is done.
    Step {
        /// Epoch, from 0.
        epoch: usize,
        /// Step in the epoch, from 0.
        step: usize,
        /// Steps of the epoch.
        steps: usize,
        /// The objective of the batch.
        loss: f64,
    },
    /// The layers were tested for expansion by all images of the task.
    ExpansionTested(ExpansionTest),
    /// A module was added to a layer.
    Expanded {
        /// The layer, from 0.
        layer: usize,
        /// z-scores of the layer's modules.
        z: Vec<f64>,
        /// Epoch, from 0.
        epoch: usize,
        /// Step in the epoch, from 0.
        step: usize,
    },
    /// A projection phase begins: the new module is fitted to those above it.
    ProjectionStarted {
        /// The layer that grew.
        layer: usize,
        /// Steps of the phase.
        steps: usize,
    },
    /// A projection phase is over: modules may be added again.
    ProjectionEnded {
        /// Epoch, from 0.
        epoch: usize,
    },
    /// An epoch is done: every training image was seen once more.
    EpochEnded {
        /// Epoch, from 0.
        epoch: usize,
        /// Epochs that the task gets.
        epochs: usize,
        /// Mean objective over the training images.
        loss: f64,
        /// Mean cross-entropy over the training images.
        cross_entropy: f64,
        /// Share of training images that were classified correctly while learning.
        train_accuracy: f64,
        /// Share of validation images that were classified correctly, if there was a validation.
        val_accuracy: Option<f64>,
        /// Modules per layer.
        modules: Vec<usize>,
    },
    /// The training of a task is over.
    TaskLearned {
        /// Name of the task.
        task: String,
        /// The epoch whose state was kept, from 0.
        best_epoch: usize,
        /// Validation accuracy of that state.
        val_accuracy: Option<f64>,
        /// Modules per layer.
        modules: Vec<usize>,
        /// Modules that were added and not kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropped: Option<DroppedModules>,
    },
}
