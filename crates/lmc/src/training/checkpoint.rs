//! Checkpoints: the exact state of a method in the middle of a task, on disk. A killed run resumes from it, bit for bit.
//!
//! Besides the network, LMC's checkpoint holds the best state so far, the optimiser's moments and the phase. Frozen
//! modules, which the network and its best state share, are stored once.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Device;
use lmc_streams::{Preparation, read_file, replace_file, replace_file_like};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::LearnerConfig;
use super::step::GrowingTask;
use super::{Best, EpochMetrics, TaskTraining};
use crate::error::{Error, Result};
use crate::file::LARGEST_FILE;
use crate::file::history::History;
use crate::file::record::{ModelRecord, NetworkRecord, damaged, plain};
use crate::file::tensor_file::{self, Tensors};
use crate::growth::projection::Phase;
use crate::growth::task_losses::ExpansionTest;
use crate::model::Model;
use crate::network::Network;
use crate::tensors::{NamedTensor, prefixed};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BestRecord {
    epoch: usize,
    accuracy: f64,
    network: NetworkRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskRecord {
    task: String,
    number: usize,
    epoch: usize,
    epochs: usize,
    step: usize,
    steps: usize,
    phase: Phase,
    /// Steps that Adam has taken, by parameter.
    adam: BTreeMap<String, usize>,
    best: Option<BestRecord>,
    modules_before: Vec<usize>,
    /// The epoch under way, and whether it added a module; earlier versions wrote checkpoints between epochs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    under_way: Option<(EpochMetrics, bool)>,
    /// The settings of the task; in files of earlier versions, the model's are the task's.
    #[serde(default)]
    config: Option<LearnerConfig>,
    /// Whether a test for expansion is due, and those that were made; earlier versions tested batches only.
    #[serde(default)]
    test_due: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tests: Vec<ExpansionTest>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointRecord {
    network: NetworkRecord,
    learner: LearnerConfig,
    seed: u64,
    #[serde(default)]
    preparation: Option<Preparation>,
    #[serde(default, skip_serializing_if = "History::is_empty")]
    history: History,
    #[serde(alias = "lesson")]
    training: Option<TaskRecord>,
}

const CHECKPOINT: &str = "checkpoint";

/// The whole state of a method: a document and tensors.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Everything that is not a tensor.
    pub document: Value,
    /// All tensors, each with its name.
    pub tensors: Vec<NamedTensor>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateRecord<T> {
    state: Value,
    /// Whatever the caller needs to resume.
    progress: T,
}

impl State {
    /// Writes the state to a file in one step, with whatever else the caller needs to resume.
    pub fn save(&self, progress: &impl Serialize, path: &Path) -> Result<()> {
        let record = StateRecord { state: self.document.clone(), progress };
        Ok(replace_file(path, &tensor_file::write(CHECKPOINT, &record, &self.tensors, path)?)?)
    }

    /// Writes the state as [`State::save`] does, with the mode and the owner of another file, if that exists.
    pub(crate) fn save_like(&self, progress: &impl Serialize, path: &Path, like: &Path) -> Result<()> {
        let record = StateRecord { state: self.document.clone(), progress };
        Ok(replace_file_like(path, &tensor_file::write(CHECKPOINT, &record, &self.tensors, path)?, like)?)
    }

    /// Reads back what [`State::save`] wrote.
    pub fn load<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<(Self, T)> {
        let bytes = read_file(path, LARGEST_FILE)?;
        let (record, found): (StateRecord<T>, Tensors) = tensor_file::read(CHECKPOINT, &bytes, path)?;
        Ok((Self { document: record.state, tensors: found.into_values().collect() }, record.progress))
    }
}

impl Model {
    /// The whole state of the model, in the middle of a task or between tasks.
    pub fn state(&self) -> Result<State> {
        let mut tensors = prefixed("network", plain(&self.network));
        let training = self.training.as_ref().map(|open| {
            let GrowingTask { training, config, step, steps, phase, grew, test_due, tests, modules_before } =
                open;
            let (moments, adam) = training.adam.plain();
            tensors.extend(prefixed("adam", moments));
            let best = training.best.as_ref().map(|best| {
                let own = plain(&best.state).into_iter();
                tensors.extend(prefixed("best", own.filter(|found| !is_frozen(&best.state, &found.name))));
                let network = NetworkRecord::of(&best.state);
                BestRecord { epoch: best.epoch, accuracy: best.accuracy, network }
            });
            TaskRecord {
                task: training.task.clone(),
                number: training.number,
                epoch: training.epoch,
                epochs: training.epochs,
                step: *step,
                steps: *steps,
                phase: *phase,
                adam,
                best,
                modules_before: modules_before.clone(),
                under_way: training.under_way.clone().map(|metrics| (metrics, *grew)),
                config: Some(config.clone()),
                test_due: *test_due,
                tests: tests.clone(),
            }
        });
        let ModelRecord { network, learner, seed, preparation, history } = ModelRecord::of(self);
        let record = CheckpointRecord { network, learner, seed, preparation, history, training };
        let document = serde_json::to_value(record).map_err(|error| {
            Error::setting("checkpoint", error.to_string(), "report this as a bug of lmc")
        })?;
        Ok(State { document, tensors })
    }

    /// The model in a state that [`Model::state`] gave; `path` is where the state came from, for messages.
    pub fn from_state(state: State, path: &Path, device: &Device) -> Result<Self> {
        let record: CheckpointRecord =
            serde_json::from_value(state.document).map_err(|error| damaged(path, error.to_string()))?;
        let found: Tensors = state.tensors.into_iter().map(|found| (found.name.clone(), found)).collect();
        let take = |prefix: &str, name: &str| {
            let tensor = found.get(&format!("{prefix}.{name}"))?.clone();
            Some(NamedTensor { name: name.to_owned(), ..tensor })
        };
        let CheckpointRecord { network, learner, seed, preparation, history, training } = record;
        let model = ModelRecord { network, learner: learner.clone(), seed, preparation, history };
        let mut model = model.restore(&mut |name| take("network", name), path, device)?;
        let Some(record) = training else { return Ok(model) };
        match model.network.heads.get(record.number) {
            None => return Err(damaged(path, format!("task {} has no head", record.number))),
            Some(head) if head.frozen => {
                let problem = format!("task '{}' is under way, but its head is frozen", head.task);
                return Err(damaged(path, problem));
            }
            Some(_) => {}
        }
        let best = match record.best {
            Some(best) => {
                let mut own = |name: &str| take("best", name).or_else(|| take("network", name));
                let state = best.network.restore(&mut own, path, device)?;
                Some(Best { epoch: best.epoch, accuracy: best.accuracy, state })
            }
            None => None,
        };
        let config = record.config.unwrap_or(learner);
        config.check()?;
        let mut adam = config.optimiser.init();
        adam.restore(|name| take("adam", name), &record.adam, &model.network.device)?;
        let (under_way, grew) = record.under_way.unzip();
        let training = TaskTraining {
            task: record.task,
            number: record.number,
            epoch: record.epoch,
            epochs: record.epochs,
            adam,
            best,
            under_way,
        };
        model.training = Some(GrowingTask {
            training,
            config,
            step: record.step,
            steps: record.steps,
            phase: record.phase,
            grew: grew.unwrap_or_default(),
            test_due: record.test_due,
            tests: record.tests,
            modules_before: record.modules_before,
        });
        Ok(model)
    }

    /// Writes a checkpoint, with whatever else the caller needs to resume.
    pub fn save_checkpoint(&self, progress: &impl Serialize, path: &Path) -> Result<()> {
        self.state()?.save(progress, path)
    }

    /// Reads back what [`Model::save_checkpoint`] wrote.
    pub fn load_checkpoint<T: for<'de> Deserialize<'de>>(path: &Path, device: &Device) -> Result<(Self, T)> {
        let (state, progress) = State::load(path)?;
        Ok((Self::from_state(state, path, device)?, progress))
    }
}

/// Whether a tensor belongs to a frozen module or head.
fn is_frozen(network: &Network, name: &str) -> bool {
    let mut parts = name.split('.');
    let mut number = |prefix: &str| parts.next()?.strip_prefix(prefix)?.parse::<usize>().ok();
    if name.starts_with("head") {
        return number("head").and_then(|at| network.heads.get(at)).is_some_and(|head| head.frozen);
    }
    let Some(layer) = number("layer").and_then(|at| network.layers.get(at)) else { return false };
    number("module").and_then(|at| layer.modules().get(at)).is_some_and(|module| module.frozen)
}
