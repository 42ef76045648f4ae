//! One training step: a batch passes forward, its objective backward, and the network grows where it must.
//!
//! ```text
//! objective = cross-entropy + λ (structural loss of the head + sum over layers of their structural objective)
//! ```
//!
//! The forward pass only *requests* a module ([`ExpansionRequest`]); the step adds it afterwards and switches to the
//! projection phase. The new module takes part from the next batch on.

use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Device, Int, Tensor, TensorData};
use lmc_streams::{Batch, Seed};

use super::TaskTraining;
use super::config::LearnerConfig;
use crate::error::Result;
use crate::growth::expansion::ExpansionTiming;
use crate::growth::projection::Phase;
use crate::growth::task_losses::ExpansionTest;
use crate::module::{ModuleMode, Origin};
use crate::network::Network;
use crate::network::composition::PerModule;
use crate::network::forward::{ForwardTrace, Weighing, forward};
use crate::network::layer::{CachedResponses, Layer, LayerMode, Responses};
use crate::tensors::{self, correct, images, scalar};

/// One task while LMC is trained on it.
#[derive(Clone, Debug)]
pub struct GrowingTask {
    /// Epochs, optimiser and best state.
    pub training: TaskTraining<Network>,
    /// The settings for this task: the model's, with phases scaled to the task's epochs.
    pub config: LearnerConfig,
    /// Training steps that are done.
    pub step: usize,
    /// Training steps per epoch.
    pub steps: usize,
    /// Projection or accumulation.
    pub phase: Phase,
    /// Whether a module was added in the epoch that is under way.
    pub grew: bool,
    /// Whether the layers are to be tested for expansion before the next epoch, by all images of the task.
    pub test_due: bool,
    /// The tests so far.
    pub tests: Vec<ExpansionTest>,
    /// Modules per layer before the task.
    pub modules_before: Vec<usize>,
}

/// A layer's request for a new module.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpansionRequest {
    /// The layer, from 0.
    pub layer: usize,
    /// z-scores of the layer's modules.
    pub z: Vec<f64>,
    /// Logarithms of the modules' priors for the batch.
    pub prior: Vec<f64>,
}

/// State handed to one training step.
#[derive(Clone, Copy, Debug)]
pub struct StepContext<'a> {
    /// The hyperparameters.
    pub config: &'a LearnerConfig,
    /// Projection or accumulation.
    pub phase: Phase,
    /// Steps of the projection phase that a new module starts.
    pub projection_steps: usize,
    /// Whether layers may request modules in a batch: not in a network's first task, nor if they are tested between phases.
    pub may_grow: bool,
}

/// Result of a training batch's forward pass, before any parameter moves.
#[derive(Debug)]
pub struct TrainingPass {
    /// The forward pass.
    pub trace: ForwardTrace,
    /// z-scores of the modules, `[layer][module]`.
    pub z: Vec<Vec<f64>>,
    /// Sum over layers of their structural objective, not yet weighted by λ.
    pub structural: Option<Tensor<1>>,
    /// Layers that want a new module: at most one, unless there is no projection phase.
    pub requests: Vec<ExpansionRequest>,
}

impl Network {
    /// The forward pass of a training batch: scores, weights, statistics and the structural objective.
    pub fn training_pass(
        &mut self,
        images: Tensor<4>,
        cached: CachedResponses,
        context: StepContext<'_>,
    ) -> Result<TrainingPass> {
        let device = self.device.clone();
        let layers = &mut self.layers;
        let mut weighing = TrainingWeighing {
            layers,
            context,
            device: &device,
            z: Vec::new(),
            structural: None,
            requests: Vec::new(),
        };
        let trace = forward(images, cached, &mut weighing, &device)?;
        let TrainingWeighing { z, structural, requests, .. } = weighing;
        Ok(TrainingPass { trace, z, structural, requests })
    }

    /// Lets the batch norms of all modules follow a batch of unlabelled images; nothing else changes.
    pub fn adaptation_pass(&mut self, images: Tensor<4>, config: &LearnerConfig) -> Result<ForwardTrace> {
        let device = self.device.clone();
        forward(
            images,
            CachedResponses::default(),
            &mut Adaptation { layers: &mut self.layers, config },
            &device,
        )
    }
}

/// Modules in training mode; weights by composition, where `expansion.outliers` may take weight from frozen modules.
struct TrainingWeighing<'a> {
    layers: &'a mut [Layer],
    context: StepContext<'a>,
    device: &'a Device,
    z: Vec<Vec<f64>>,
    structural: Option<Tensor<1>>,
    requests: Vec<ExpansionRequest>,
}

impl TrainingWeighing<'_> {
    /// The phase as the layers above see it: a request starts the projection phase within the batch.
    fn phase(&self) -> Phase {
        match self.requests.last() {
            Some(request) => Phase::projection(Some(request.layer), self.context.projection_steps),
            None => self.context.phase,
        }
    }
}

impl Weighing for TrainingWeighing<'_> {
    fn depth(&self) -> usize {
        self.layers.len()
    }

    fn respond(&mut self, layer: usize, input: &Tensor<4>, cached: CachedResponses) -> Result<Responses> {
        let (config, phase) = (self.context.config, self.phase());
        let mode = LayerMode {
            signal_from_frozen: phase.signals_from_frozen(&config.projection),
            trainable: phase.trainable_module(layer, config.joint_autoencoder),
            adapt: config.adapt_batch_norm,
        };
        self.layers[layer].respond(input, mode, cached)
    }

    fn weigh(&mut self, number: usize, responses: &Responses, losses: &PerModule) -> PerModule {
        let (config, phase) = (self.context.config, self.phase());
        let layer = &mut self.layers[number];
        let mut z = layer.z_scores(losses, &config.statistics);
        if config.statistics.scale_partial_batches {
            let images = losses.first().map_or(0, Vec::len) as f64;
            let scale = (images / config.batch.max(1) as f64).sqrt();
            z.iter_mut().for_each(|z| *z *= scale);
        }
        let weights = config.expansion.training_weights(layer, losses, &z, &config.composition);
        if let Some(module) = layer.trainable_mut() {
            let own = losses[losses.len() - 1].iter().zip(&weights[weights.len() - 1]);
            let used: Vec<f64> = own.filter(|(_, weight)| **weight > 0.0).map(|(loss, _)| *loss).collect();
            module.statistics.push(&used, &config.statistics);
        } else if self.context.may_grow && !phase.is_projection() && config.expansion.wants_module(layer, &z)
        {
            let prior = config.composition.prior(losses);
            self.requests.push(ExpansionRequest { layer: number, z: z.clone(), prior });
        }
        let term = if self.phase().counts_all_modules(&config.projection) {
            responses.weighted_loss(&weights, self.device)
        } else {
            responses.trainable_loss(&weights, self.device)
        };
        if let Some(term) = term {
            self.structural = Some(self.structural.take().map_or(term.clone(), |sum| sum + term));
        }
        self.z.push(z);
        weights
    }
}

/// Modules with batch norms in training mode and all parameters frozen; weights as in evaluation.
struct Adaptation<'a> {
    layers: &'a mut [Layer],
    config: &'a LearnerConfig,
}

impl Weighing for Adaptation<'_> {
    fn depth(&self) -> usize {
        self.layers.len()
    }

    fn respond(&mut self, layer: usize, input: &Tensor<4>, cached: CachedResponses) -> Result<Responses> {
        let trainable = ModuleMode { frozen: true, attached: false };
        let mode = LayerMode { signal_from_frozen: false, trainable, adapt: true };
        self.layers[layer].respond(&input.clone().detach(), mode, cached)
    }

    fn weigh(&mut self, _: usize, _: &Responses, losses: &PerModule) -> PerModule {
        self.config.composition.weights(losses)
    }
}

/// Result of one training step.
#[derive(Debug)]
pub struct StepOutcome {
    /// The objective.
    pub loss: f64,
    /// Cross-entropy alone.
    pub cross_entropy: f64,
    /// Images that were classified correctly before the parameters moved.
    pub correct: usize,
    /// Modules that were added.
    pub added: Vec<ExpansionRequest>,
}

impl GrowingTask {
    /// Learns one batch.
    pub fn learn_batch(
        &mut self,
        network: &mut Network,
        batch: &Batch,
        cached: CachedResponses,
        seed: &Seed,
    ) -> Result<StepOutcome> {
        let (device, number) = (network.device.clone(), self.training.number);
        let config = &self.config;
        let context = StepContext {
            config,
            phase: self.phase,
            projection_steps: config.projection.epochs * self.steps,
            may_grow: config.expansion.timing == ExpansionTiming::EveryBatch
                && network.layers.iter().all(|layer| layer.frozen_count() > 0),
        };
        let pass = network.training_pass(images(batch, &device), cached, context)?;
        for request in &pass.requests {
            self.grow(network, request, seed)?;
        }
        let config = &self.config;
        let head = &network.heads[number];
        let mut features = pass.trace.features;
        if self.phase.is_projection() && !config.projection.functional_signal {
            features = features.detach();
        }
        let logits = head.logits(features.clone());
        let cross_entropy = cross_entropy(logits.clone(), &batch.labels);
        let mut structural = head.losses(features).mean();
        if let Some(layers) = pass.structural {
            structural = structural + layers;
        }
        let loss = cross_entropy.clone() + structural.mul_scalar(config.structural_weight);
        let mut gradients = loss.backward();
        self.training.adam.step(network, &mut gradients);
        let in_phase = self.phase.is_projection();
        self.phase = self.phase.step();
        self.test_due |= in_phase && !self.phase.is_projection();
        self.step += 1;
        Ok(StepOutcome {
            loss: scalar(&loss),
            cross_entropy: scalar(&cross_entropy),
            correct: correct(&logits, &batch.labels),
            added: pass.requests,
        })
    }

    /// Adds the module that a layer requests, and starts its projection phase.
    pub(super) fn grow(
        &mut self,
        network: &mut Network,
        request: &ExpansionRequest,
        seed: &Seed,
    ) -> Result<()> {
        let (config, training) = (&self.config, &mut self.training);
        let origin = Origin {
            epoch: training.epoch,
            step: self.step,
            ..Origin::first(&training.task, training.number)
        };
        let layer = &mut network.layers[request.layer];
        let seed = seed.numbered(request.layer as u64);
        let (expansion, statistics) = (&config.expansion, &config.statistics);
        let mut module =
            expansion.new_module(layer, &request.prior, &origin, statistics, &seed, &network.device);
        tensors::train(&mut module);
        layer.add(module)?;
        self.phase = Phase::projection(Some(request.layer), config.projection.epochs * self.steps);
        // Without phases, the next test is after one epoch.
        self.test_due |= !self.phase.is_projection();
        training.adam = config.optimiser.init();
        if config.expansion.restart_best_epoch {
            training.best = None;
        }
        // The last layer has nothing above it to be fitted to.
        let last = request.layer + 1 == network.layers.len();
        let phase = if last { 0 } else { config.projection.epochs };
        training.epochs = training.epochs.max(training.epoch + phase + config.projection.epochs_after);
        Ok(())
    }
}

/// Mean cross-entropy of logits `[batch, class]` against labels `[batch]`.
pub fn cross_entropy(logits: Tensor<2>, labels: &[u32]) -> Tensor<1> {
    let device = logits.device();
    let labels: Vec<i32> = labels.iter().map(|&label| label as i32).collect();
    let count = labels.len();
    let targets: Tensor<1, Int> = Tensor::from_data(TensorData::new(labels, [count]), &device);
    CrossEntropyLossConfig::new().init(&device).forward(logits, targets)
}
