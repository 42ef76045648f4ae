//! The network: layers of modules, and heads (paper §3, algorithm 2).
//!
//! [`Network::train`] is the paper's "Forward Model": a training batch passes layer by layer, its modules are scored,
//! weighted and summed, and a layer all of whose modules find the batch unusual grows. A
//! [`crate::prediction::Predictor`] does the same without learning.

use burn::tensor::{Device, Tensor};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};

use crate::composition::{CompositionConfig, PerModule, Selection};
use crate::error::{Error, Result};
use crate::expansion::{ExpansionConfig, Outliers};
use crate::functional::FunctionalConfig;
use crate::head::{Head, HeadConfig, HeadStructuralKind};
use crate::layer::{Known, Layer, Mode};
use crate::learner::LearnerConfig;
use crate::module::{ModuleConfig, Origin};
use crate::projection::Phase;
use crate::structural::{StructuralConfig, StructuralKind};
use crate::tensors::{self, Visitor, Walk, join};

/// Sizes of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Channels of the images, 1 or 3; 3 by default.
    pub channels: usize,
    /// Side of the images in pixels, 16 or more; 32 by default.
    pub size: usize,
    /// Layers of modules, 2 to 6; 4 by default.
    pub depth: usize,
    /// Channels of all maps, 1 or more; 64 by default.
    pub width: usize,
    /// Structural components of the trunk; `decoder` by default.
    pub structural: StructuralKind,
    /// Structural components of the heads; `invertible` by default.
    pub heads: HeadStructuralKind,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            channels: 3,
            size: 32,
            depth: 4,
            width: 64,
            structural: StructuralKind::Decoder,
            heads: HeadStructuralKind::Invertible,
        }
    }
}

impl NetworkConfig {
    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        let fail = |field: &str, value: usize, legal: &str| {
            Err(Error::setting(
                format!("network.{field}"),
                format!("{value} is not possible"),
                format!("use {legal}"),
            ))
        };
        match self {
            Self { channels, .. } if ![1, 3].contains(channels) => fail("channels", *channels, "1 or 3"),
            Self { size, .. } if !(16..=1024).contains(size) => fail("size", *size, "16 to 1024 pixels"),
            Self { depth, .. } if !(2..=6).contains(depth) => fail("depth", *depth, "2 to 6 layers"),
            Self { width, .. } if !(1..=4096).contains(width) => fail("width", *width, "1 to 4096 channels"),
            _ => Ok(()),
        }
    }

    /// Sizes of the modules of each layer.
    pub fn layers(&self) -> Vec<ModuleConfig> {
        let mut side = self.size;
        (0..self.depth)
            .map(|layer| {
                let inputs = if layer == 0 { self.channels } else { self.width };
                let output_side = FunctionalConfig::output_side(side);
                let structural = StructuralConfig {
                    kind: self.structural,
                    input_channels: inputs,
                    input_side: side,
                    output_channels: self.width,
                    output_side,
                };
                side = output_side;
                ModuleConfig { functional: FunctionalConfig { inputs, outputs: self.width }, structural }
            })
            .collect()
    }

    /// Length of the vector that heads see.
    pub fn features(&self) -> usize {
        let side = (0..self.depth).fold(self.size, |side, _| FunctionalConfig::output_side(side));
        self.width * side * side
    }

    /// A network without modules and heads.
    pub fn init(&self, device: &Device) -> Result<Network> {
        self.check()?;
        let layers = self.layers().into_iter().map(|config| Layer::new(config, Vec::new()));
        Ok(Network {
            layers: layers.collect::<Result<_>>()?,
            heads: Vec::new(),
            config: self.clone(),
            device: device.clone(),
        })
    }
}

/// A network that grows.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its sizes.
    pub config: NetworkConfig,
    /// From the input upwards.
    pub layers: Vec<Layer>,
    /// One per task, in order.
    pub heads: Vec<Head>,
    /// Where it computes.
    pub device: Device,
}

/// A module that was added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Addition {
    /// The layer, from 0.
    pub layer: usize,
    /// z of the layer's modules.
    pub z: Vec<f64>,
}

/// What happened in one layer.
#[derive(Clone, Debug, Default)]
pub struct LayerTrace {
    /// Structural losses, `[module][image]`.
    pub losses: PerModule,
    /// Weights, `[module][image]`.
    pub weights: PerModule,
    /// z of each module; empty in evaluation.
    pub z: Vec<f64>,
}

/// What a training batch gives.
#[derive(Debug)]
pub struct Forward {
    /// `[batch, feature]`.
    pub features: Tensor<2>,
    /// Sum over layers of their structural objective, not yet weighted.
    pub structural: Option<Tensor<1>>,
    /// Layer by layer.
    pub trace: Vec<LayerTrace>,
    /// A module that was added; it takes part from the next batch on.
    pub added: Option<Addition>,
}

/// Where training stands when a batch comes.
#[derive(Debug)]
pub struct Moment<'a> {
    /// The method.
    pub config: &'a LearnerConfig,
    /// May become a projection phase.
    pub phase: &'a mut Phase,
    /// How many steps a projection phase takes.
    pub projection_steps: usize,
    /// Whether modules may be added: not in the first task.
    pub may_grow: bool,
    /// The origin of a module that is added now, without what it starts from.
    pub origin: &'a Origin,
    /// For a module that is added now.
    pub seed: &'a Seed,
}

impl Network {
    /// A training batch: scores, weights, statistics, structural objective and, where needed, a new module.
    pub fn train(&mut self, images: Tensor<4>, known: Known, moment: &mut Moment<'_>) -> Result<Forward> {
        let config = moment.config;
        let mut x = images;
        let mut known = Some(known);
        let mut structural: Option<Tensor<1>> = None;
        let mut trace = Vec::with_capacity(self.layers.len());
        let mut added = None;
        for (number, layer) in self.layers.iter_mut().enumerate() {
            let mode = Mode {
                signal_from_learned: moment.phase.signals_from_learned(&config.projection),
                free: moment.phase.free_module(number, config.joint_autoencoder),
                adapt: config.adapt_batch_norm,
            };
            let responses = layer.train(&x, mode, known.take().unwrap_or_default())?;
            let losses = responses.losses();
            let z: Vec<f64> = layer
                .modules()
                .iter()
                .zip(&losses)
                .map(|(module, losses)| module.statistics.z(losses, &config.statistics))
                .collect();
            let weights = training_weights(layer, &losses, &z, &config.composition, &config.expansion);
            if let Some(free) = layer.free_mut() {
                let (losses, weights) = (&losses[losses.len() - 1], &weights[weights.len() - 1]);
                let used = losses.iter().zip(weights).filter(|(_, weight)| **weight > 0.0);
                let used: Vec<f64> = used.map(|(loss, _)| *loss).collect();
                free.statistics.push(&used, &config.statistics);
            } else if moment.may_grow
                && !moment.phase.is_projection()
                && config.expansion.asks_for_module(layer, &z)
            {
                let prior = config.composition.prior(&losses);
                let origin = |from| Origin { from, ..moment.origin.clone() };
                let seed = moment.seed.numbered(number as u64);
                let mut module = config.expansion.new_module(
                    layer,
                    &prior,
                    origin,
                    &config.statistics,
                    &seed,
                    &self.device,
                );
                tensors::train(&mut module);
                layer.add(module)?;
                *moment.phase = Phase::projection(Some(number), moment.projection_steps);
                added = Some(Addition { layer: number, z: z.clone() });
            }
            let term = if moment.phase.counts_all_modules(&config.projection) {
                responses.weighted_loss(&weights, &self.device)
            } else {
                responses.free_loss(&weights, &self.device)
            };
            if let Some(term) = term {
                structural = Some(structural.map_or(term.clone(), |sum| sum + term));
            }
            x = responses.combine(&weights, &self.device)?;
            trace.push(LayerTrace { losses, weights, z });
        }
        Ok(Forward { features: x.flatten(1, 3), structural, trace, added })
    }

    /// Gives every layer that has none a first module with random parameters.
    pub fn add_first_modules(&mut self, origin: &Origin, seed: &Seed) -> Result<()> {
        for (number, layer) in self.layers.iter_mut().enumerate() {
            if layer.modules().is_empty() {
                let seed = seed.named("layer").numbered(number as u64);
                let mut module = layer.config.init(origin.clone(), &seed, &self.device);
                tensors::train(&mut module);
                layer.add(module)?;
            }
        }
        Ok(())
    }

    /// Adds a head for a task.
    pub fn add_head(&mut self, task: &str, classes: &[String], seed: &Seed) {
        let config = HeadConfig {
            features: self.config.features(),
            classes: classes.len(),
            structural: self.config.heads,
        };
        let mut head = config.init(task, classes.to_vec(), seed, &self.device);
        tensors::train(&mut head);
        self.heads.push(head);
    }

    /// Freezes all modules and heads.
    pub fn freeze(&mut self) -> Result<()> {
        self.heads.iter_mut().filter(|head| !head.learned).for_each(Head::freeze);
        self.layers.iter_mut().try_for_each(Layer::freeze)
    }

    /// Modules per layer.
    pub fn modules(&self) -> Vec<usize> {
        self.layers.iter().map(|layer| layer.modules().len()).collect()
    }

    /// Whether any layer has a free module.
    pub fn has_free_modules(&self) -> bool {
        self.layers.iter().any(|layer| layer.free().is_some())
    }
}

/// Weights of a training batch. Once a layer has a free module, old ones that find the batch unusual stand back.
fn training_weights(
    layer: &Layer,
    losses: &PerModule,
    z: &[f64],
    composition: &CompositionConfig,
    expansion: &ExpansionConfig,
) -> PerModule {
    let learned = layer.learned();
    let unusual: Vec<bool> = z.iter().take(learned).map(|&z| z > expansion.threshold).collect();
    let stand_back = layer.free().is_some() && learned > 0 && composition.selection == Selection::Soft;
    match expansion.outliers {
        Outliers::AllOrNone if stand_back && unusual.iter().all(|&unusual| unusual) => {
            let chosen: Vec<bool> = (0..losses.len()).map(|module| module >= learned).collect();
            composition.weights_choosing(losses, &chosen)
        }
        Outliers::Each if stand_back && unusual.iter().any(|&unusual| unusual) => {
            let mut weights = composition.weights(losses);
            for (module, unusual) in unusual.iter().enumerate() {
                if *unusual {
                    weights[module].fill(0.0);
                }
            }
            for image in 0..losses.first().map_or(0, Vec::len) {
                let sum: f64 = weights.iter().map(|weights| weights[image]).sum();
                match sum > 0.0 {
                    true => weights.iter_mut().for_each(|weights| weights[image] /= sum),
                    false => weights[learned][image] = 1.0,
                }
            }
            weights
        }
        _ => composition.weights(losses),
    }
}

impl Walk for Network {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, layer) in self.layers.iter_mut().enumerate() {
            layer.walk(&join(path, &format!("layer{number}")), visitor);
        }
        for (number, head) in self.heads.iter_mut().enumerate() {
            head.walk(&join(path, &format!("head{number}")), visitor);
        }
    }
}
