//! States of baselines in parts: a document with typed records, and tensors by name.
//!
//! Documents that were written before a field got its present name have an alias in their record.

use std::collections::BTreeMap;

use burn::tensor::Device;
use lmc::internals::tensors::{self, NamedTensor, Walk, below, prefixed};
use lmc::internals::training::checkpoint::State;
use lmc::internals::training::{Best, EpochMetrics, TaskTraining};
use lmc::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::training::{BaselineTraining, TrainingConfig};

/// One open task in a document. Its tensors are `adam.*`, the optimiser's moments, and `best.*`, the best state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingRecord {
    task: String,
    number: usize,
    epoch: usize,
    epochs: usize,
    /// Steps that Adam has taken, by parameter.
    adam: BTreeMap<String, usize>,
    /// Epoch and validation accuracy of the best state.
    best: Option<(usize, f64)>,
    /// The epoch under way; earlier versions wrote checkpoints between epochs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    under_way: Option<EpochMetrics>,
}

impl TrainingRecord {
    /// Records an open task; its tensors are appended to `tensors`.
    pub fn of(training: &BaselineTraining, tensors: &mut Vec<NamedTensor>) -> Self {
        let (moments, adam) = training.adam.plain();
        tensors.extend(prefixed("adam", moments));
        let best = training.best.as_ref().map(|best| {
            tensors.extend(prefixed("best", best.state.clone()));
            (best.epoch, best.accuracy)
        });
        Self {
            task: training.task.clone(),
            number: training.number,
            epoch: training.epoch,
            epochs: training.epochs,
            adam,
            best,
            under_way: training.under_way.clone(),
        }
    }

    /// Restores the open task from the record and its tensors.
    pub fn restore(
        self,
        tensors: &[NamedTensor],
        config: &TrainingConfig,
        device: &Device,
    ) -> Result<BaselineTraining> {
        let mut adam = config.optimiser().init();
        let moments = below("adam", tensors);
        adam.restore(|name| moments.get(name).cloned(), &self.adam, device)?;
        let best = self.best.map(|(epoch, accuracy)| Best {
            epoch,
            accuracy,
            state: below("best", tensors).into_values().collect(),
        });
        let Self { task, number, epoch, epochs, under_way, .. } = self;
        Ok(TaskTraining { task, number, epoch, epochs, adam, best, under_way })
    }
}

/// Reads a part of a document.
pub fn parse<T: for<'de> Deserialize<'de>>(document: &Value) -> Result<T> {
    T::deserialize(document).map_err(|error| damaged(error.to_string()))
}

/// Makes a document of a record.
pub fn document(record: &impl Serialize) -> Result<Value> {
    serde_json::to_value(record)
        .map_err(|error| Error::setting("checkpoint", error.to_string(), "report this as a bug of lmc"))
}

/// The error for a checkpoint that cannot be resumed from.
pub fn damaged(problem: impl Into<String>) -> Error {
    Error::setting("checkpoint", problem, "start the run anew")
}

/// Fills all tensors of a component by name.
pub fn fill_from(of: &mut impl Walk, tensors: Vec<NamedTensor>) -> Result<()> {
    let mut found: BTreeMap<String, NamedTensor> =
        tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
    tensors::fill(of, &mut |name| found.remove(name))
}

/// A state with the tensors of a component as `model.*`, behind those in `tensors`.
pub fn state_of(document: Value, of: &(impl Walk + Clone), mut tensors: Vec<NamedTensor>) -> State {
    tensors.extend(prefixed("model", tensors::plain(of)));
    State { document, tensors }
}

/// Fills a component from the tensors `model.*` that [`state_of`] wrote.
pub fn fill_model(of: &mut impl Walk, tensors: &[NamedTensor]) -> Result<()> {
    fill_from(of, below("model", tensors).into_values().collect())
}
