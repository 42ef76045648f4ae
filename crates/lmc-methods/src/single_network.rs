//! A single network that is trained on task after task: what Finetune, EWC, LwF and replay have in common.
//!
//! They differ in their [`Objective`]: the loss of a batch, what is remembered of a task, and what that adds to the state.
//! [`SingleNetwork`] is the [`Method`] made of a network and an objective: it trains, validates, keeps the best epoch,
//! classifies and saves.

use burn::tensor::Device;
use lmc::internals::inference::evaluation::Classify;
use lmc::internals::tensors::plain;
use lmc::internals::training::EpochMetrics;
use lmc::internals::training::checkpoint::State;
use lmc::{NetworkConfig, Result, TaskData, TaskReport};
use lmc_streams::{Batch, Seed};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::{TrainingRecord, damaged, document, fill_model, parse, state_of};
use crate::headed_network::{BatchLoss, HeadedNetwork};
use crate::method::{Capacity, Listen, Method, no_open_task};
use crate::training::{BaselineTraining, TrainingConfig, count_batch, restore_best};
use crate::trunk::LinearHead;

/// What a method trains a single network for. Every hook but the loss has a default that does nothing.
pub trait Objective {
    /// Whether heads of earlier tasks stay trainable; else they are frozen.
    fn trains_old_heads(&self) -> bool {
        false
    }

    /// Whether all heads together are one classifier over the classes of all tasks.
    fn single_head(&self) -> bool {
        false
    }

    /// Prepares for a task, before its head is added, and chooses the head: `network.heads.len()` for a new one.
    fn begin(&mut self, network: &HeadedNetwork, _data: TaskData<'_>) -> Result<usize> {
        Ok(network.heads.len())
    }

    /// Prepares for an epoch (from 0) of the newest task, or for the rest of one that was left after so many steps: what
    /// [`Objective::state`] does not hold is then as after these steps.
    fn begin_epoch(
        &mut self,
        _network: &HeadedNetwork,
        _data: TaskData<'_>,
        _epoch: usize,
        _left_after: Option<usize>,
    ) -> Result<()> {
        Ok(())
    }

    /// The objective of a training batch of the newest task, and its logits.
    fn loss(&mut self, network: &mut HeadedNetwork, batch: &Batch) -> Result<BatchLoss>;

    /// Remembers what it needs of the newest task; the network is frozen in its best state.
    fn finish(&mut self, _network: &HeadedNetwork, _data: TaskData<'_>) -> Result<()> {
        Ok(())
    }

    /// What is not in the configuration: a document, and tensors with names of its own.
    fn state(&self) -> State {
        State::default()
    }

    /// Takes back what [`Objective::state`] gave, among the tensors of the whole method. The network is restored.
    fn restore(&mut self, _network: &HeadedNetwork, _state: &State) -> Result<()> {
        Ok(())
    }
}

/// One network for all tasks, trained for an objective.
#[derive(Clone, Debug)]
pub struct SingleNetwork<O> {
    /// Trunk and heads.
    pub network: HeadedNetwork,
    /// What it is trained for.
    pub objective: O,
    /// The open task.
    training: Option<BaselineTraining>,
}

/// The document of a [`SingleNetwork`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkRecord {
    /// Number of classes of each head.
    heads: Vec<usize>,
    head_of: Vec<usize>,
    #[serde(alias = "lesson")]
    training: Option<TrainingRecord>,
    #[serde(alias = "more")]
    objective: Value,
}

impl<O: Objective> SingleNetwork<O> {
    /// Makes a network that knows no task.
    pub fn new(
        network: &NetworkConfig,
        training: &TrainingConfig,
        objective: O,
        seed: Seed,
        device: &Device,
    ) -> Result<Self> {
        let mut network = HeadedNetwork::new(network, training, seed, device)?;
        network.single_head = objective.single_head();
        network.trains_old_heads = objective.trains_old_heads();
        Ok(Self { network, objective, training: None })
    }

    /// The state of the network, with that of the objective or of whatever else is built on it.
    pub fn state_with(&self, objective: State) -> Result<State> {
        let State { document: objective, mut tensors } = objective;
        let record = NetworkRecord {
            heads: self.network.heads.iter().map(LinearHead::classes).collect(),
            head_of: self.network.head_of.clone(),
            training: self.training.as_ref().map(|training| TrainingRecord::of(training, &mut tensors)),
            objective,
        };
        Ok(state_of(document(&record)?, &self.network, tensors))
    }

    /// Restores the network, and gives back the document that [`SingleNetwork::state_with`] was given.
    pub fn restore_network(&mut self, state: &State) -> Result<Value> {
        let NetworkRecord { heads, head_of, training, objective } = parse(&state.document)?;
        if head_of.iter().any(|&head| head >= heads.len()) {
            return Err(damaged("a task has no head"));
        }
        let network = &mut self.network;
        network.set_heads(&heads);
        network.head_of = head_of;
        fill_model(network, &state.tensors)?;
        let restore =
            |record: TrainingRecord| record.restore(&state.tensors, &network.training, &network.device);
        self.training = training.map(restore).transpose()?;
        if self.training.is_some() {
            network.make_trainable();
        }
        Ok(objective)
    }
}

impl<O: Objective> Method for SingleNetwork<O> {
    fn begin(&mut self, data: TaskData<'_>) -> Result<()> {
        let head = self.objective.begin(&self.network, data)?;
        self.training = Some(self.network.training.start(data, self.network.head_of.len()));
        self.network.add_task(head, data.classes.len());
        Ok(())
    }

    fn epoch(&mut self, data: TaskData<'_>, listen: Listen<'_>) -> Result<bool> {
        let Self { network, objective, training } = self;
        let training = training.as_mut().ok_or_else(no_open_task)?;
        let epoch = training.epoch;
        let left_after = training.under_way.as_ref().map(EpochMetrics::step);
        objective.begin_epoch(network, data, epoch, left_after)?;
        let normalisation = network.training.normalisation(data.train);
        let seed = network.seed.named("batches").numbered(training.number as u64).numbered(epoch as u64);
        let batches = network.training.shuffled(seed, normalisation.as_ref()).init(data.train)?;
        let done = training.begin_epoch(batches.len());
        for batch in batches.after(done) {
            let BatchLoss { loss, logits } = objective.loss(network, &batch)?;
            let event = count_batch(&mut training.under_way, &loss, &logits, &batch.labels)?;
            training.adam.step(network, &mut loss.backward());
            listen(event)?;
        }
        let val_accuracy = match data.val.is_empty() {
            true => None,
            false => Some(network.accuracy(training.number, data, normalisation.as_ref())?),
        };
        let metrics = training.end_epoch(val_accuracy, || plain(network));
        listen(metrics.end(training.epochs, val_accuracy, network.modules()))?;
        Ok(!training.is_done())
    }

    fn finish(&mut self, data: TaskData<'_>) -> Result<TaskReport> {
        let mut training = self.training.take().ok_or_else(no_open_task)?;
        restore_best(&mut training, &mut self.network)?;
        self.network.freeze();
        self.objective.finish(&self.network, data)?;
        Ok(training.report(self.network.modules(), self.network.modules()))
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.training.as_ref().map(BaselineTraining::progress)
    }

    fn classifier(&self) -> Result<Box<dyn Classify>> {
        Ok(Box::new(self.network.classifier()?))
    }

    fn normalises(&self) -> bool {
        self.network.training.normalise
    }

    fn outputs_of(&self, task: usize) -> usize {
        let of = &self.network.head_of;
        of.get(task).and_then(|head| of.iter().position(|other| other == head)).unwrap_or(task)
    }

    fn is_class_incremental(&self) -> bool {
        self.network.single_head
    }

    fn capacity(&self) -> Capacity {
        self.network.capacity()
    }

    fn state(&self) -> Result<State> {
        self.state_with(self.objective.state())
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let document = self.restore_network(&state)?;
        self.objective.restore(&self.network, &State { document, tensors: state.tensors })
    }
}
