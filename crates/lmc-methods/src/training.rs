//! Training settings that all rivals share, and a task while it is being learned by one of them.

use std::collections::BTreeMap;

use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Device, Int, Tensor, TensorData};
use lmc::adam::{Adam, OptimiserConfig};
use lmc::checkpoint::State;
use lmc::learner::LARGE;
use lmc::tensors::{self, Plain, Walk, values};
use lmc::{Error, Learned, Material, Result};
use lmc_streams::{BatchConfig, Normalisation, Seed, TaskSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::method::largest;

/// How a rival is trained (specification §2, common frame).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainingConfig {
    /// Epochs per task, 1 or more; 100 by default.
    pub epochs: usize,
    /// Instead, for tasks of 1000 training images or more; 0, the default, for no difference.
    pub epochs_large: usize,
    /// Images per batch, 1 or more; 64 by default.
    pub batch: usize,
    /// Of Adam; 0.001 by default.
    pub learning_rate: f64,
    /// L2 penalty, added to the gradient; 0.001 by default.
    pub weight_decay: f64,
    /// Whether images are normalised by their task's training statistics; true by default, as in the paper.
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
    /// With the weight decay of the authors' commands for a stream.
    pub fn preset(stream: &str, light: &[&str]) -> Self {
        let weight_decay = if light.contains(&stream) { 1e-4 } else { 1e-3 };
        Self { weight_decay, ..Self::default() }
    }

    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        for (field, value) in [("epochs", self.epochs), ("batch", self.batch)] {
            if value == 0 {
                return Err(Error::setting(format!("training.{field}"), "it is 0", "use 1 or more"));
            }
        }
        for (field, value) in [("learning_rate", self.learning_rate), ("weight_decay", self.weight_decay)] {
            if !(value.is_finite() && value >= 0.0) {
                let field = format!("training.{field}");
                return Err(Error::setting(field, format!("{value} is not possible"), "use 0 or more"));
            }
        }
        Ok(())
    }

    /// Adam with these settings.
    pub fn optimiser(&self) -> OptimiserConfig {
        OptimiserConfig {
            learning_rate: self.learning_rate,
            structural_learning_rate: self.learning_rate,
            weight_decay: self.weight_decay,
        }
    }

    /// Epochs for a task.
    pub fn epochs_for(&self, train: &TaskSet) -> usize {
        if train.len() >= LARGE && self.epochs_large > 0 { self.epochs_large } else { self.epochs }
    }

    /// What the images of a task are normalised by.
    pub fn normalisation(&self, train: &TaskSet) -> Option<Normalisation> {
        self.normalise.then(|| Normalisation::of(train))
    }

    /// Shuffled batches of a task.
    pub fn shuffled(&self, seed: Seed, normalisation: Option<&Normalisation>) -> BatchConfig {
        let normalisation = normalisation.cloned();
        BatchConfig { normalisation, ..BatchConfig::shuffled(self.batch, seed) }
    }

    /// Batches in stored order.
    pub fn stored(&self, normalisation: Option<&Normalisation>) -> BatchConfig {
        BatchConfig { normalisation: normalisation.cloned(), ..BatchConfig::stored(self.batch) }
    }
}

/// A task while it is being learned.
#[derive(Clone, Debug)]
pub struct Lesson {
    /// Its name.
    pub task: String,
    /// Its number in the life of the method.
    pub number: usize,
    /// Epochs that are done.
    pub epoch: usize,
    /// Epochs that it gets.
    pub epochs: usize,
    /// Memory of gradients.
    pub adam: Adam,
    /// The state with the best validation accuracy.
    pub best: Option<Best>,
}

/// A state worth keeping.
#[derive(Clone, Debug)]
pub struct Best {
    /// After this epoch, from 0.
    pub epoch: usize,
    /// Its validation accuracy.
    pub accuracy: f64,
    /// All tensors.
    pub tensors: Vec<Plain>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LessonRecord {
    task: String,
    number: usize,
    epoch: usize,
    epochs: usize,
    adam: BTreeMap<String, usize>,
    best: Option<(usize, f64)>,
}

impl Lesson {
    /// At its beginning.
    pub fn new(config: &TrainingConfig, material: Material<'_>, number: usize) -> Self {
        Self {
            task: material.task.to_owned(),
            number,
            epoch: 0,
            epochs: config.epochs_for(material.train),
            adam: config.optimiser().init(),
            best: None,
        }
    }

    /// Keeps the state after an epoch if it is the best so far, and counts the epoch.
    pub fn end_epoch(&mut self, of: &(impl Walk + Clone), accuracy: Option<f64>) {
        if let Some(accuracy) = accuracy
            && self.best.as_ref().is_none_or(|best| accuracy > best.accuracy)
        {
            self.best = Some(Best { epoch: self.epoch, accuracy, tensors: tensors::plain(of) });
        }
        self.epoch += 1;
    }

    /// Takes back the best state.
    pub fn restore_best(&mut self, of: &mut impl Walk) -> Result<()> {
        match self.best.take() {
            Some(best) => {
                let found = fill_from(of, best.tensors.clone());
                self.best = Some(Best { tensors: Vec::new(), ..best });
                found
            }
            None => Ok(()),
        }
    }

    /// What became of the task.
    pub fn learned(&self, before: Vec<usize>, modules: Vec<usize>) -> Learned {
        Learned {
            task: self.task.clone(),
            best_epoch: self.best.as_ref().map_or(self.epoch.saturating_sub(1), |best| best.epoch),
            epochs: self.epoch,
            val_accuracy: self.best.as_ref().map(|best| best.accuracy),
            modules_before: before,
            modules,
        }
    }

    /// Its document; its tensors go to `tensors`.
    pub fn save(&self, tensors: &mut Vec<Plain>) -> Value {
        let (moments, adam) = self.adam.plain();
        tensors.extend(prefixed("adam", moments));
        let best = self.best.as_ref().map(|best| {
            tensors.extend(prefixed("best", best.tensors.clone()));
            (best.epoch, best.accuracy)
        });
        let record = LessonRecord {
            task: self.task.clone(),
            number: self.number,
            epoch: self.epoch,
            epochs: self.epochs,
            adam,
            best,
        };
        serde_json::to_value(record).unwrap_or_default()
    }

    /// From what [`Lesson::save`] gave.
    pub fn load(
        document: &Value,
        tensors: &[Plain],
        config: &TrainingConfig,
        device: &Device,
    ) -> Result<Self> {
        let record: LessonRecord = parse(document)?;
        let mut adam = config.optimiser().init();
        let named = below("adam", tensors);
        adam.restore(|name| named.get(name).cloned(), &record.adam, device);
        let best = record.best.map(|(epoch, accuracy)| Best {
            epoch,
            accuracy,
            tensors: below("best", tensors).into_values().collect(),
        });
        Ok(Self {
            task: record.task,
            number: record.number,
            epoch: record.epoch,
            epochs: record.epochs,
            adam,
            best,
        })
    }
}

/// A part of a document.
pub fn parse<T: for<'de> Deserialize<'de>>(document: &Value) -> Result<T> {
    T::deserialize(document)
        .map_err(|error| Error::setting("checkpoint", error.to_string(), "start the run anew"))
}

/// Tensors with a prefix in front of their names.
pub fn prefixed(prefix: &str, tensors: impl IntoIterator<Item = Plain>) -> Vec<Plain> {
    let named = |plain: Plain| Plain { name: format!("{prefix}.{}", plain.name), ..plain };
    tensors.into_iter().map(named).collect()
}

/// Tensors that have this prefix, without it.
pub fn below(prefix: &str, tensors: &[Plain]) -> BTreeMap<String, Plain> {
    let strip = |plain: &Plain| {
        let name = plain.name.strip_prefix(prefix)?.strip_prefix('.')?.to_owned();
        Some((name.clone(), Plain { name, ..plain.clone() }))
    };
    tensors.iter().filter_map(strip).collect()
}

/// Fills all tensors of a component.
pub fn fill_from(of: &mut impl Walk, tensors: Vec<Plain>) -> Result<()> {
    let mut found: BTreeMap<String, Plain> =
        tensors.into_iter().map(|plain| (plain.name.clone(), plain)).collect();
    tensors::fill(of, &mut |name| found.remove(name))
}

/// A document and the tensors of a component below `model`.
pub fn state_of(document: Value, of: &(impl Walk + Clone), mut more: Vec<Plain>) -> State {
    more.extend(prefixed("model", tensors::plain(of)));
    State { document, tensors: more }
}

/// Fills a component from what [`state_of`] gave.
pub fn fill_model(of: &mut impl Walk, tensors: &[Plain]) -> Result<()> {
    fill_from(of, below("model", tensors).into_values().collect())
}

/// Mean cross-entropy of logits `[batch, class]`.
pub fn cross_entropy(logits: Tensor<2>, labels: &[u32]) -> Tensor<1> {
    let device = logits.device();
    let labels: Vec<i32> = labels.iter().map(|&label| label as i32).collect();
    let count = labels.len();
    let targets: Tensor<1, Int> = Tensor::from_data(TensorData::new(labels, [count]), &device);
    CrossEntropyLossConfig::new().init(&device).forward(logits, targets)
}

/// How many rows of logits are largest at their label.
pub fn right(logits: &Tensor<2>, labels: &[u32]) -> usize {
    let [_, classes] = logits.dims();
    let rows = values(logits);
    rows.chunks(classes.max(1)).zip(labels).filter(|(row, label)| largest(row) == **label as usize).count()
}

/// The first number of a tensor.
pub fn scalar(tensor: &Tensor<1>) -> f64 {
    values(tensor).first().map_or(f64::NAN, |&value| f64::from(value))
}
