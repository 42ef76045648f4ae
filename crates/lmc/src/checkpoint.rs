//! The exact state of a learner in the middle of a task, on disk: what a killed run goes on from, bit for bit.
//!
//! Besides the network it holds the best state so far, the optimiser's memory and the phase. What learned modules share
//! between the network and its best state is stored once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::tensor::Device;
use lmc_streams::replace_file;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::learner::{Learner, LearnerConfig};
use crate::lesson::{Best, Lesson};
use crate::network::Network;
use crate::projection::Phase;
use crate::record::{NetworkRecord, damaged};
use crate::tensor_file::{self, Tensors};
use crate::tensors::{self, Plain};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BestRecord {
    epoch: usize,
    accuracy: f64,
    network: NetworkRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LessonRecord {
    task: String,
    number: usize,
    epoch: usize,
    epochs: usize,
    step: usize,
    steps: usize,
    phase: Phase,
    /// Steps of the optimiser, by tensor.
    adam: BTreeMap<String, usize>,
    best: Option<BestRecord>,
    modules_before: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointRecord {
    network: NetworkRecord,
    learner: LearnerConfig,
    seed: u64,
    lesson: Option<LessonRecord>,
}

const CHECKPOINT: &str = "checkpoint";

/// Writes the whole state of a learner, and what else the caller needs to go on.
pub fn save(learner: &Learner, progress: &impl Serialize, path: &Path) -> Result<()> {
    state(learner)?.save(progress, path)
}

/// Reads back what [`save`] wrote.
pub fn load<T: for<'de> Deserialize<'de>>(path: &Path, device: &Device) -> Result<(Learner, T)> {
    let (state, progress) = State::load(path)?;
    Ok((restore(state, path, device)?, progress))
}

/// The whole state of a learner, of LMC or of a rival: a document and tensors.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// All that is not a tensor.
    pub document: Value,
    /// By name.
    pub tensors: Vec<Plain>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateRecord<T> {
    state: Value,
    /// Whatever the caller needs to go on.
    progress: T,
}

impl State {
    /// Writes it in one step, with what else the caller needs to go on.
    pub fn save(&self, progress: &impl Serialize, path: &Path) -> Result<()> {
        let record = StateRecord { state: self.document.clone(), progress };
        Ok(replace_file(path, &tensor_file::write(CHECKPOINT, &record, &self.tensors, path)?)?)
    }

    /// Reads back what [`State::save`] wrote.
    pub fn load<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<(Self, T)> {
        let bytes = fs::read(path).map_err(lmc_streams::Error::io("read", path))?;
        let (record, found): (StateRecord<T>, Tensors) = tensor_file::read(CHECKPOINT, &bytes, path)?;
        Ok((Self { document: record.state, tensors: found.into_values().collect() }, record.progress))
    }
}

/// The whole state of a learner.
pub fn state(learner: &Learner) -> Result<State> {
    let mut tensors = prefixed("network", tensors::plain(&learner.network));
    let mut lesson_record = None;
    if let Some(lesson) = &learner.lesson {
        let (moments, adam) = lesson.adam.plain();
        tensors.extend(prefixed("adam", moments));
        let best = lesson.best.as_ref().map(|best| {
            let own = tensors::plain(&best.network);
            tensors.extend(prefixed(
                "best",
                own.into_iter().filter(|plain| !is_learned(&best.network, &plain.name)),
            ));
            BestRecord {
                epoch: best.epoch,
                accuracy: best.accuracy,
                network: NetworkRecord::of(&best.network),
            }
        });
        lesson_record = Some(LessonRecord {
            task: lesson.task.clone(),
            number: lesson.number,
            epoch: lesson.epoch,
            epochs: lesson.epochs,
            step: lesson.step,
            steps: lesson.steps,
            phase: lesson.phase,
            adam,
            best,
            modules_before: lesson.modules_before.clone(),
        });
    }
    let record = CheckpointRecord {
        network: NetworkRecord::of(&learner.network),
        learner: learner.config.clone(),
        seed: learner.seed,
        lesson: lesson_record,
    };
    let document = serde_json::to_value(record)
        .map_err(|error| Error::setting("checkpoint", error.to_string(), "report this as a bug of lmc"))?;
    Ok(State { document, tensors })
}

/// A learner in this state; `path` is where it came from.
pub fn restore(state: State, path: &Path, device: &Device) -> Result<Learner> {
    let record: CheckpointRecord =
        serde_json::from_value(state.document).map_err(|error| damaged(path, error.to_string()))?;
    let mut found: Tensors = state.tensors.into_iter().map(|plain| (plain.name.clone(), plain)).collect();
    let take = |found: &mut Tensors, prefix: &str, name: &str| {
        let plain = found.get(&format!("{prefix}.{name}"))?.clone();
        Some(Plain { name: name.to_owned(), ..plain })
    };
    let network = record.network.restore(&mut |name| take(&mut found, "network", name), path, device)?;
    let mut learner = Learner::with(network, record.learner, record.seed);
    learner.config.check()?;
    let Some(lesson) = record.lesson else { return Ok(learner) };
    if lesson.number >= learner.network.heads.len() {
        return Err(damaged(path, format!("task {} has no head", lesson.number)));
    }
    let best = match lesson.best {
        Some(best) => {
            let mut own =
                |name: &str| take(&mut found, "best", name).or_else(|| take(&mut found, "network", name));
            let network = best.network.restore(&mut own, path, device)?;
            Some(Best { epoch: best.epoch, accuracy: best.accuracy, network })
        }
        None => None,
    };
    let mut adam = learner.config.optimiser.init();
    adam.restore(|name| take(&mut found, "adam", name), &lesson.adam, &learner.network.device);
    learner.lesson = Some(Lesson {
        task: lesson.task,
        number: lesson.number,
        epoch: lesson.epoch,
        epochs: lesson.epochs,
        step: lesson.step,
        steps: lesson.steps,
        phase: lesson.phase,
        adam,
        best,
        modules_before: lesson.modules_before,
    });
    Ok(learner)
}

fn prefixed(prefix: &str, tensors: impl IntoIterator<Item = Plain>) -> Vec<Plain> {
    let named = |plain: Plain| Plain { name: format!("{prefix}.{}", plain.name), ..plain };
    tensors.into_iter().map(named).collect()
}

/// Whether a tensor belongs to a module or head that was learned in an earlier task.
fn is_learned(network: &Network, name: &str) -> bool {
    let mut parts = name.split('.');
    let mut number = |prefix: &str| parts.next()?.strip_prefix(prefix)?.parse::<usize>().ok();
    if name.starts_with("head") {
        return number("head").and_then(|at| network.heads.get(at)).is_some_and(|head| head.learned);
    }
    let Some(layer) = number("layer").and_then(|at| network.layers.get(at)) else { return false };
    number("module").and_then(|at| layer.modules().get(at)).is_some_and(|module| module.learned)
}
