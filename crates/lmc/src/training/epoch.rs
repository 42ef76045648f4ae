//! One epoch of a task: all training batches once, then, outside projection phases, validation with the task given.

use burn::tensor::Device;
use lmc_streams::{Batch, BatchConfig, MemoryBudget};

use super::TaskData;
use super::cache::ResponseCache;
use super::step::{GrowingTask, StepOutcome};
use crate::error::{Error, Result};
use crate::events::Event;
use crate::growth::expansion::ExpansionTiming;
use crate::growth::projection::Phase;
use crate::inference::BatchPrior;
use crate::model::Model;
use crate::network::layer::CachedResponses;
use crate::tensors::{correct, images, tensor, values};

/// What does not change during a task and is computed once; not part of the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskCaches {
    filled: bool,
    train: Option<ResponseCache>,
    val: Option<ResponseCache>,
    /// Features of the validation images and their length, batch by batch, while the network has no trainable module.
    val_features: Option<Vec<(Vec<f32>, usize)>>,
}

impl TaskCaches {
    /// Responses to the training images.
    pub(crate) fn train(&self) -> Option<&ResponseCache> {
        self.train.as_ref()
    }

    /// Responses to the validation images.
    pub(crate) fn val(&self) -> Option<&ResponseCache> {
        self.val.as_ref()
    }
}

fn responses(cache: Option<&ResponseCache>, batch: &Batch, device: &Device) -> CachedResponses {
    cache.map(|cache| cache.responses(&batch.positions, device)).unwrap_or_default()
}

impl Model {
    /// Trains the open task for one epoch, or to the end of the epoch under way, and validates. `listen` hears of every step.
    pub fn epoch(
        &mut self,
        data: TaskData<'_>,
        listen: &mut dyn FnMut(&Self, Event) -> Result<()>,
    ) -> Result<()> {
        self.check_open(data)?;
        self.fill_caches(data)?;
        let Some(mut task) = self.training.take() else { return Err(Self::nothing_open()) };
        // The task stays open whatever happens, and with it the epoch under way: an observer that fails must not lose it.
        let ended = self.train_once(&mut task, data, listen);
        self.training = Some(task);
        listen(self, ended?)
    }

    /// Trains all batches once and validates; gives the event of the epoch's end.
    fn train_once(
        &mut self,
        task: &mut GrowingTask,
        data: TaskData<'_>,
        listen: &mut dyn FnMut(&Self, Event) -> Result<()>,
    ) -> Result<Event> {
        let (number, epoch) = (task.training.number, task.training.epoch);
        let seed = self.task_seed(number);
        if task.training.under_way.is_none() {
            self.test_layers(task, data, listen)?;
        }
        let batches_seed = seed.named("batches").numbered(epoch as u64);
        let done = task.training.begin_epoch(task.steps);
        let batches = BatchConfig::shuffled(task.config.batch, batches_seed);
        let mut batches = batches.init(data.train)?.after(done);
        let mut batch = Batch::default();
        for step in done.. {
            if !batches.fill(&mut batch) {
                break;
            }
            let in_phase = task.phase.is_projection();
            let device = self.network.device.clone().inner();
            let cached = responses(self.caches.train.as_ref(), &batch, &device);
            let outcome = task.learn_batch(&mut self.network, &batch, cached, &seed.named("added"))?;
            let StepOutcome { loss, cross_entropy, correct, added } = outcome;
            let event = task.training.count(loss, cross_entropy, correct, batch.labels.len())?;
            task.grew |= !added.is_empty();
            // The batch is wholly done: whatever the observer returns from here on, training goes on with the next one.
            for added in added {
                let layer = added.layer;
                listen(self, Event::Expanded { layer, z: added.z, epoch, step })?;
                if let Phase::Projection { left, .. } = task.phase {
                    listen(self, Event::ProjectionStarted { layer, steps: left + 1 })?;
                }
            }
            if in_phase && !task.phase.is_projection() {
                listen(self, Event::ProjectionEnded { epoch })?;
            }
            listen(self, event)?;
        }
        let skip = task.grew && task.config.projection.skip_validation_on_addition;
        let mut val_accuracy = None;
        if !task.phase.is_projection() && !skip && !data.val.is_empty() {
            val_accuracy = Some(self.validate(number, data)?);
        }
        task.grew = false;
        let metrics = task.training.end_epoch(val_accuracy, || self.network.clone());
        Ok(metrics.end(task.training.epochs, val_accuracy, self.network.modules()))
    }

    /// Tests the layers by all images of the task, if that is due and the settings say so; one of them may grow.
    fn test_layers(
        &mut self,
        task: &mut GrowingTask,
        data: TaskData<'_>,
        listen: &mut dyn FnMut(&Self, Event) -> Result<()>,
    ) -> Result<()> {
        let (number, epoch) = (task.training.number, task.training.epoch);
        let between_phases = task.config.expansion.timing == ExpansionTiming::BetweenPhases;
        if !between_phases || !task.test_due || task.phase.is_projection() {
            return Ok(());
        }
        let tested = self.test_expansion(number, epoch, data)?;
        task.test_due = false;
        let Some((test, request)) = tested else { return Ok(()) };
        task.tests.push(test.clone());
        if let Some(request) = &request {
            let seed = self.task_seed(number).named("added");
            task.grow(&mut self.network, request, &seed)?;
            task.grew = true;
        }
        // All of this is done, whatever the observer returns: the task goes on with the first step of the epoch.
        listen(self, Event::ExpansionTested(test))?;
        if let Some(request) = request {
            let layer = request.layer;
            listen(self, Event::Expanded { layer, z: request.z, epoch, step: 0 })?;
            if let Phase::Projection { left, .. } = task.phase {
                listen(self, Event::ProjectionStarted { layer, steps: left })?;
            }
        }
        Ok(())
    }

    /// Accuracy on the validation images, with the task given.
    fn validate(&mut self, head: usize, data: TaskData<'_>) -> Result<f64> {
        let val = data.val;
        let predictor = self.predictor()?;
        let device = predictor.device();
        let mut right = 0;
        let constant = !self.network.has_trainable_modules() && !self.config.adapt_batch_norm;
        if !constant {
            self.caches.val_features = None;
        }
        let mut features = Vec::new();
        for (number, batch) in BatchConfig::stored(self.config.batch).init(val)?.enumerate() {
            data.check_stop()?;
            let found = match self.caches.val_features.as_ref().and_then(|kept| kept.get(number)) {
                Some((kept, length)) => tensor(kept.clone(), [batch.labels.len(), *length], device),
                None => {
                    let cached = responses(self.caches.val.as_ref(), &batch, device);
                    predictor.trace(head, images(&batch, device), cached, BatchPrior::Shared)?.features
                }
            };
            if constant && self.caches.val_features.is_none() {
                features.push((values(&found), found.dims()[1]));
            }
            right += correct(&predictor.logits(head, found)?, &batch.labels);
        }
        if constant && self.caches.val_features.is_none() {
            self.caches.val_features = Some(features);
        }
        Ok(right as f64 / val.len().max(1) as f64)
    }

    /// Computes the responses of the first layer's frozen modules to all images, unless they are known already.
    fn fill_caches(&mut self, data: TaskData<'_>) -> Result<()> {
        if self.caches.filled || self.config.adapt_batch_norm {
            return Ok(());
        }
        let Some(layer) = self.network.layers.first() else { return Ok(()) };
        let device = self.network.device.clone().inner();
        let budget = usize::try_from(MemoryBudget::of_process().bytes() / 2).unwrap_or(usize::MAX);
        let limit = self.config.cache_mib.saturating_mul(1 << 20).min(budget);
        let size = self.config.batch;
        // The training images come first: they are needed in every step.
        let train = ResponseCache::new(layer, data, data.train, size, limit, &device)?;
        let left = limit.saturating_sub(train.as_ref().map_or(0, ResponseCache::bytes));
        let val = ResponseCache::new(layer, data, data.val, size, left, &device)?;
        self.caches = TaskCaches { filled: true, train, val, val_features: None };
        Ok(())
    }

    /// Complains unless the open task is the one of these data.
    pub(crate) fn check_open(&self, data: TaskData<'_>) -> Result<()> {
        let Some(open) = &self.training else { return Err(Self::nothing_open()) };
        let field = || format!("task '{}'", data.name);
        if open.training.task != data.name {
            let problem = format!("task '{}' is open", open.training.task);
            return Err(Error::setting(field(), problem, "go on with the data of that task, or finish it"));
        }
        let head = &self.network.heads[open.training.number];
        if head.classes != data.classes || open.steps != open.config.steps_per_epoch(data.train) {
            let problem = format!(
                "it was begun with {} classes and {} steps per epoch, and these data have {} and {}",
                head.classes.len(),
                open.steps,
                data.classes.len(),
                open.config.steps_per_epoch(data.train)
            );
            return Err(Error::setting(field(), problem, "go on with the data that it was begun with"));
        }
        Ok(())
    }

    pub(crate) fn nothing_open() -> Error {
        Error::setting("model", "no task is open", "begin one")
    }
}
