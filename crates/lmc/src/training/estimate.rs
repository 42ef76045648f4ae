//! How long a task will take: a few training steps on a copy of the model, timed.

use std::time::{Duration, Instant};

use lmc_streams::BatchConfig;

use super::TaskData;
use crate::error::Result;
use crate::model::Model;
use crate::network::layer::CachedResponses;

/// Epochs, steps and time of a task before it is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingPlan {
    /// Epochs that the task gets, unless modules are added late.
    pub epochs: usize,
    /// Training steps per epoch.
    pub steps: usize,
    /// Estimated time of all epochs that are left; modules that are added make it longer.
    pub time: Duration,
}

/// Share of a training step's time that the forward pass of a validation batch takes.
const VALIDATION_SHARE: f64 = 0.3;

impl Model {
    /// Plans a task: for this many epochs, or as many as the settings give it. The model does not change.
    pub fn plan(&self, data: TaskData<'_>, epochs: Option<usize>) -> Result<TrainingPlan> {
        let mut copy = self.clone();
        if copy.training.is_none() {
            copy.begin_for(data, epochs)?;
        }
        copy.check_open(data)?;
        let Some(mut open) = copy.training.take() else { return Err(Self::nothing_open()) };
        let seed = copy.task_seed(open.training.number);
        let batches = BatchConfig::shuffled(open.config.batch, seed.named("plan")).init(data.train)?;
        // The first step warms up caches and memory.
        let mut fastest: Option<Duration> = None;
        for batch in batches.take(3) {
            let started = Instant::now();
            open.learn_batch(&mut copy.network, &batch, CachedResponses::default(), &seed.named("plan"))?;
            let time = started.elapsed();
            fastest = Some(fastest.map_or(time, |fastest| fastest.min(time)));
        }
        let (done, epochs) = open.training.progress();
        let steps = open.steps;
        let validation = data.val.len() as f64 / open.config.batch.max(1) as f64 * VALIDATION_SHARE;
        let time = fastest.unwrap_or_default().mul_f64((steps as f64 + validation) * (epochs - done) as f64);
        Ok(TrainingPlan { epochs, steps, time })
    }
}
