//! A lesson: one task while it is being learned. Its epochs, phases, optimiser and best state so far.

use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Int, Tensor, TensorData};
use lmc_streams::{Batch, BatchConfig, Seed, TaskSet};

use crate::adam::Adam;
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::layer::{Known, Mode};
use crate::learner::{Learner, LearnerConfig, Material};
use crate::module::{Origin, Training};
use crate::network::{Moment, Network};
use crate::prediction::{Company, images};
use crate::projection::Phase;
use crate::tensors::values;

/// One task while it is being learned.
#[derive(Clone, Debug)]
pub struct Lesson {
    /// The task.
    pub task: String,
    /// Its number in the life of the model.
    pub number: usize,
    /// Epochs that are done.
    pub epoch: usize,
    /// Epochs that it gets; additions late in the task extend it.
    pub epochs: usize,
    /// Steps that are done.
    pub step: usize,
    /// Steps per epoch.
    pub steps: usize,
    /// Projection or accumulation.
    pub phase: Phase,
    /// Memory of gradients.
    pub adam: Adam,
    /// The state with the best validation accuracy.
    pub best: Option<Best>,
    /// Modules per layer before the task.
    pub modules_before: Vec<usize>,
}

/// A state worth keeping.
#[derive(Clone, Debug)]
pub struct Best {
    /// After this epoch, from 0.
    pub epoch: usize,
    /// Validation accuracy with the task given.
    pub accuracy: f64,
    /// The state. Tensors are shared with the network, not copied.
    pub network: Network,
}

/// What does not change during a task and is computed once; not part of the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caches {
    filled: bool,
    train: Option<Cache>,
    val: Option<Cache>,
    /// Features of the validation images, batch by batch, while the trunk has no free module.
    val_features: Option<Vec<(Vec<f32>, usize)>>,
}

/// What one batch gave.
struct Outcome {
    loss: f64,
    cross_entropy: f64,
    right: usize,
    images: usize,
    expanded: Option<(usize, Vec<f64>)>,
}

impl Lesson {
    /// At its beginning.
    pub(crate) fn new(
        config: &LearnerConfig,
        origin: Origin,
        modules_before: Vec<usize>,
        steps: usize,
        first: bool,
    ) -> Self {
        // The first epochs of a network's life count as a projection phase, whose only effect is that they are not
        // validated.
        let phase = match first {
            true => Phase::projection(None, config.projection.epochs * steps),
            false => Phase::Accumulation,
        };
        Self {
            task: origin.task,
            number: origin.number,
            epoch: 0,
            epochs: config.epochs,
            step: 0,
            steps,
            phase,
            adam: config.optimiser.init(),
            best: None,
            modules_before,
        }
    }
}

impl Learner {
    /// Learns the material once through, and validates.
    pub fn epoch(
        &mut self,
        material: Material<'_>,
        listen: &mut dyn FnMut(&Self, Event) -> Result<()>,
    ) -> Result<()> {
        let Some(mut lesson) = self.lesson.take() else {
            return Err(Error::setting("learner", "no task is being learned", "begin one"));
        };
        self.fill_caches(material)?;
        let seed = self.task_seed(lesson.number).named("batches").numbered(lesson.epoch as u64);
        let epoch = lesson.epoch;
        let (mut loss, mut cross_entropy, mut right, mut seen) = (0.0, 0.0, 0, 0);
        let mut grew = false;
        let mut batches = BatchConfig::shuffled(self.config.batch, seed).init(material.train)?;
        let mut batch = Batch::default();
        let mut step = 0;
        while batches.fill(&mut batch) {
            let in_phase = lesson.phase.is_projection();
            let outcome = self.step(&mut lesson, &batch)?;
            if !outcome.loss.is_finite() {
                let (task, loss) = (lesson.task, outcome.loss);
                return Err(Error::Diverged { task, epoch: epoch + 1, loss });
            }
            if let Some((layer, z)) = outcome.expanded {
                grew = true;
                listen(self, Event::Expanded { layer, z, epoch, step })?;
                if let Phase::Projection { left, .. } = lesson.phase {
                    listen(self, Event::ProjectionStarted { layer, steps: left + 1 })?;
                }
            }
            if in_phase && !lesson.phase.is_projection() {
                listen(self, Event::ProjectionEnded { epoch })?;
            }
            let share = outcome.images as f64;
            loss += outcome.loss * share;
            cross_entropy += outcome.cross_entropy * share;
            right += outcome.right;
            seen += outcome.images;
            listen(self, Event::Step { epoch, step, steps: lesson.steps, loss: outcome.loss })?;
            step += 1;
        }
        lesson.epoch += 1;
        let skip = grew && self.config.projection.skip_validation_on_addition;
        let mut val_accuracy = None;
        if !lesson.phase.is_projection() && !skip && !material.val.is_empty() {
            let accuracy = self.validate(lesson.number, material.val)?;
            val_accuracy = Some(accuracy);
            if lesson.best.as_ref().is_none_or(|best| accuracy > best.accuracy) {
                lesson.best = Some(Best { epoch, accuracy, network: self.network.clone() });
            }
        }
        let (epochs, seen) = (lesson.epochs, seen.max(1) as f64);
        self.lesson = Some(lesson);
        let event = Event::EpochEnded {
            epoch,
            epochs,
            loss: loss / seen,
            cross_entropy: cross_entropy / seen,
            train_accuracy: right as f64 / seen,
            val_accuracy,
            modules: self.network.modules(),
        };
        listen(self, event)
    }

    /// Learns one batch.
    fn step(&mut self, lesson: &mut Lesson, batch: &Batch) -> Result<Outcome> {
        let device = self.network.device.clone();
        let (number, config) = (lesson.number, &self.config);
        let seed = Seed::root(self.seed).named("task").numbered(number as u64).named("added");
        let origin = Origin {
            task: lesson.task.clone(),
            number,
            epoch: lesson.epoch,
            step: lesson.step,
            from: String::new(),
            model: None,
        };
        let mut moment = Moment {
            config,
            phase: &mut lesson.phase,
            projection_steps: config.projection.epochs * lesson.steps,
            may_grow: self.network.layers.iter().all(|layer| layer.learned() > 0),
            origin: &origin,
            seed: &seed,
        };
        let known =
            self.caches.train.as_ref().map(|cache| cache.known(&batch.positions, &device.clone().inner()));
        let forward = self.network.train(images(batch, &device), known.unwrap_or_default(), &mut moment)?;
        let head = &self.network.heads[number];
        let mut features = forward.features;
        if lesson.phase.is_projection() && !config.projection.functional_signal {
            features = features.detach();
        }
        let logits = head.logits(features.clone());
        let labels: Vec<i32> = batch.labels.iter().map(|&label| label as i32).collect();
        let targets: Tensor<1, Int> =
            Tensor::from_data(TensorData::new(labels, [batch.labels.len()]), &device);
        let cross_entropy = CrossEntropyLossConfig::new().init(&device).forward(logits.clone(), targets);
        let mut structural = head.losses(features).mean();
        if let Some(trunk) = forward.structural {
            structural = structural + trunk;
        }
        let loss = cross_entropy.clone() + structural.mul_scalar(config.structural_weight);
        if let Some(addition) = &forward.added {
            lesson.adam = config.optimiser.init();
            // The last layer has nothing above it to be fitted to.
            let last = addition.layer + 1 == self.network.layers.len();
            let phase = if last { 0 } else { config.projection.epochs };
            lesson.epochs = lesson.epochs.max(lesson.epoch + phase + config.projection.epochs_after);
        }
        let mut gradients = loss.backward();
        lesson.adam.step(&mut self.network, &mut gradients);
        lesson.phase = lesson.phase.step();
        lesson.step += 1;
        let rows: Vec<f64> = values(&logits).into_iter().map(f64::from).collect();
        let rows = rows.chunks(self.network.heads[number].classes.len().max(1));
        let right = rows.zip(&batch.labels).filter(|(row, label)| is_right(row, **label));
        let scalar = |tensor: &Tensor<1>| values(tensor).first().map_or(f64::NAN, |&value| f64::from(value));
        Ok(Outcome {
            loss: scalar(&loss),
            cross_entropy: scalar(&cross_entropy),
            right: right.count(),
            images: batch.labels.len(),
            expanded: forward.added.map(|addition| (addition.layer, addition.z)),
        })
    }

    /// Accuracy on the validation images, with the task given.
    fn validate(&mut self, head: usize, val: &TaskSet) -> Result<f64> {
        let predictor = self.predictor()?;
        let device = predictor.device();
        let (mut right, mut seen) = (0, 0);
        let constant = !self.network.has_free_modules() && !self.config.adapt_batch_norm;
        if !constant {
            self.caches.val_features = None;
        }
        let mut features = Vec::new();
        for (number, batch) in BatchConfig::stored(self.config.batch).init(val)?.enumerate() {
            let found = match self.caches.val_features.as_ref().and_then(|kept| kept.get(number)) {
                Some((kept, length)) => {
                    crate::tensors::tensor(kept.clone(), [batch.labels.len(), *length], device)
                }
                None => {
                    let known = self.caches.val.as_ref().map(|cache| cache.known(&batch.positions, device));
                    let known = known.unwrap_or_default();
                    predictor.see(head, images(&batch, device), known, Company::Batch)?.features
                }
            };
            if constant && self.caches.val_features.is_none() {
                features.push((values(&found), found.dims()[1]));
            }
            let rows = predictor.logits(head, found)?;
            right += rows.iter().zip(&batch.labels).filter(|(row, label)| is_right(row, **label)).count();
            seen += batch.labels.len();
        }
        if constant && self.caches.val_features.is_none() {
            self.caches.val_features = Some(features);
        }
        Ok(right as f64 / seen.max(1) as f64)
    }

    /// Computes what learned modules of the first layer say about all images, unless that is known already.
    fn fill_caches(&mut self, material: Material<'_>) -> Result<()> {
        if self.caches.filled || self.config.adapt_batch_norm {
            return Ok(());
        }
        let Some(layer) = self.network.layers.first() else { return Ok(()) };
        let device = self.network.device.clone().inner();
        let to_tensor = move |batch: &Batch| images(batch, &device);
        let limit = self.config.cache_mib.saturating_mul(1 << 20);
        let size = self.config.batch;
        // The training images come first: they are asked for in every step.
        let train = Cache::new(layer, material.train, size, limit, &to_tensor)?;
        let left = limit.saturating_sub(train.as_ref().map_or(0, Cache::bytes));
        let val = Cache::new(layer, material.val, size, left, &to_tensor)?;
        self.caches = Caches { filled: true, train, val, val_features: None };
        Ok(())
    }
}

/// Whether the largest logit is the label's.
fn is_right(row: &[f64], label: u32) -> bool {
    let label = label as usize;
    row.iter().enumerate().all(|(class, logit)| class == label || *logit < row[label])
}

pub(crate) fn warm_up(learner: &mut Learner, set: &TaskSet, batches: usize, seed: &Seed) -> Result<()> {
    let Learner { network, config, .. } = learner;
    let mode =
        Mode { signal_from_learned: false, free: Training { held: true, attached: false }, adapt: true };
    for batch in BatchConfig::shuffled(config.batch, *seed).init(set)?.take(batches) {
        let mut x = images(&batch, &network.device);
        for layer in &mut network.layers {
            let responses = layer.train(&x, mode, Known::default())?;
            let weights = config.composition.weights(&responses.losses());
            x = responses.combine(&weights, &network.device)?.detach();
        }
    }
    Ok(())
}
