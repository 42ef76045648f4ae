//! Training settings that all baselines share, and one task while a baseline is trained on it.

use burn::tensor::Tensor;
use lmc::internals::tensors::{NamedTensor, Walk, correct, scalar};
use lmc::internals::training::adam::OptimiserConfig;
use lmc::internals::training::config::{LARGE_TASK, LARGEST_BATCH, LARGEST_RATE, MOST_EPOCHS, check_count};
use lmc::internals::training::{EpochMetrics, TaskTraining};
use lmc::{Error, Event, Result, TaskData};
use lmc_streams::{BatchConfig, Normalisation, Seed, TaskSet};
use serde::{Deserialize, Serialize};

use crate::checkpoint::fill_from;
use crate::method::no_open_task;

/// Hyperparameters of training that all baselines have (specification §2, common frame).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainingConfig {
    /// Epochs per task, 1 or more; 100 by default.
    pub epochs: usize,
    /// Epochs instead for tasks of 1000 training images or more; 0, the default, for no difference.
    pub epochs_large: usize,
    /// Images per batch, 1 or more; 64 by default.
    pub batch: usize,
    /// Learning rate of Adam; 0.001 by default.
    pub learning_rate: f64,
    /// L2 penalty, added to the gradient; 0.001 by default.
    pub weight_decay: f64,
    /// Whether images are normalised by the training statistics of their task; true by default, as in the paper.
    pub normalise: bool,
}

impl Default for TrainingConfig {
    fn default() -> Self {
        Self {
            epochs: 100,
            epochs_large: 0,
            batch: 64,
            learning_rate: 1e-3,
            weight_decay: 1e-3,
            normalise: true,
        }
    }
}

impl TrainingConfig {
    /// Settings for a stream of the paper: the authors' commands use a weight decay of 1e-4 on the streams in `light`,
    /// and of 1e-3 on all others.
    pub fn preset(stream: &str, light: &[&str]) -> Self {
        let weight_decay = if light.contains(&stream) { 1e-4 } else { 1e-3 };
        Self { weight_decay, ..Self::default() }
    }

    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        check_count("training.epochs", self.epochs, 1, MOST_EPOCHS)?;
        check_count("training.epochs_large", self.epochs_large, 0, MOST_EPOCHS)?;
        check_count("training.batch", self.batch, 1, LARGEST_BATCH)?;
        for (field, value) in [("learning_rate", self.learning_rate), ("weight_decay", self.weight_decay)] {
            if !(0.0..=LARGEST_RATE).contains(&value) {
                let field = format!("training.{field}");
                let cure = format!("use 0 to {LARGEST_RATE:e}");
                return Err(Error::setting(field, format!("{value} is not possible"), cure));
            }
        }
        Ok(())
    }

    /// Settings of Adam.
    pub fn optimiser(&self) -> OptimiserConfig {
        OptimiserConfig {
            learning_rate: self.learning_rate,
            structural_learning_rate: self.learning_rate,
            weight_decay: self.weight_decay,
        }
    }

    /// Number of epochs for a task.
    pub fn epochs_for(&self, train: &TaskSet) -> usize {
        if train.len() >= LARGE_TASK && self.epochs_large > 0 { self.epochs_large } else { self.epochs }
    }

    /// Opens a task.
    pub fn start(&self, data: TaskData<'_>, number: usize) -> BaselineTraining {
        TaskTraining::new(data, number, self.epochs_for(data.train), self.optimiser().init())
    }

    /// Statistics that the images of a task are normalised with; `None` if they are not normalised.
    pub fn normalisation(&self, train: &TaskSet) -> Option<Normalisation> {
        self.normalise.then(|| Normalisation::of(train))
    }

    /// Batches of a task in random order.
    pub fn shuffled(&self, seed: Seed, normalisation: Option<&Normalisation>) -> BatchConfig {
        let normalisation = normalisation.cloned();
        BatchConfig { normalisation, ..BatchConfig::shuffled(self.batch, seed) }
    }

    /// Batches of a task in stored order.
    pub fn stored(&self, normalisation: Option<&Normalisation>) -> BatchConfig {
        BatchConfig { normalisation: normalisation.cloned(), ..BatchConfig::stored(self.batch) }
    }
}

/// One task while a baseline is trained on it; the best state is kept as a copy of all tensors.
pub type BaselineTraining = TaskTraining<Vec<NamedTensor>>;

/// Fills a component with the best state of its training and forgets the copy; without validation images nothing changes.
pub fn restore_best(training: &mut BaselineTraining, of: &mut impl Walk) -> Result<()> {
    match &mut training.best {
        Some(best) => fill_from(of, std::mem::take(&mut best.state)),
        None => Ok(()),
    }
}

/// Counts a training batch before its backward pass, and gives the event to tell after it, when the step is whole. A loss
/// that is not finite is an error. The events of baselines give the objective as cross-entropy too.
pub fn count_batch(
    epoch: &mut Option<EpochMetrics>,
    loss: &Tensor<1>,
    logits: &Tensor<2>,
    labels: &[u32],
) -> Result<Event> {
    let loss = scalar(loss);
    let epoch = epoch.as_mut().ok_or_else(no_open_task)?;
    epoch.batch(loss, loss, correct(logits, labels), labels.len())
}
