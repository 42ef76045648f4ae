//! The network: layers of modules, and a head per task (paper §3).
//!
//! | file | idea |
//! | --- | --- |
//! | [`layer`] | modules side by side, and the weighted sum of their outputs |
//! | [`composition`] | from structural losses to weights |
//! | [`forward`] | the forward pass, the only loop over layers |
//! | [`head`] | a classifier per task, with a structural component of its own |

pub mod composition;
pub mod forward;
pub mod head;
pub mod layer;

use burn::tensor::Device;
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::module::functional::FunctionalConfig;
use crate::module::structural::{StructuralConfig, StructuralKind};
use crate::module::{ModuleConfig, Origin};
use crate::tensors::{self, Visitor, Walk, join};
use head::{Head, HeadConfig, HeadStructuralKind};
use layer::Layer;

/// Sizes of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Channels of the images, 1 or 3; 3 by default.
    pub channels: usize,
    /// Side of the images in pixels, 16 to 1024; 32 by default.
    pub size: usize,
    /// Layers of modules, 2 to 6; 4 by default.
    pub depth: usize,
    /// Channels of all maps, 1 to 4096; 64 by default.
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
            _ => self.check_features(),
        }
    }

    /// Complains about heads that no memory holds. An invertible one has about half the square of the features as
    /// parameters: 2 GiB at most.
    fn check_features(&self) -> Result<()> {
        let most = match self.heads {
            HeadStructuralKind::Invertible => 32_768,
            _ => 1 << 22,
        };
        let features = self.features();
        if features <= most {
            return Ok(());
        }
        let problem =
            format!("heads would see {features} features (width × side × side), and {most} are the most");
        Err(Error::setting("network", problem, "use more layers (depth), a smaller width or a smaller size"))
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

    /// Makes a network without modules and heads.
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

/// Layers of modules, and a head per task. It grows.
#[derive(Clone, Debug)]
pub struct Network {
    /// Sizes of images, maps and layers.
    pub config: NetworkConfig,
    /// Layers of modules, from the input upwards.
    pub layers: Vec<Layer>,
    /// Heads, one per task, in the order in which the tasks were learned.
    pub heads: Vec<Head>,
    /// Device that holds the parameters; gradients are recorded on it.
    pub device: Device,
}

impl Network {
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

    /// Adds a trainable head for a task.
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
        self.heads.iter_mut().filter(|head| !head.frozen).for_each(Head::freeze);
        self.layers.iter_mut().try_for_each(Layer::freeze)
    }

    /// Number of modules of each layer.
    pub fn modules(&self) -> Vec<usize> {
        self.layers.iter().map(|layer| layer.modules().len()).collect()
    }

    /// Whether any layer has a trainable module.
    pub fn has_trainable_modules(&self) -> bool {
        self.layers.iter().any(|layer| layer.trainable().is_some())
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
