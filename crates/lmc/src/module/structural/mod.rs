//! The structural component `s(o; φ)` of a module: how well an input fits it (paper §3, appendix A).
//!
//! Its loss is small on inputs like those that the module was trained on; `γ = -log loss` is the module's relatedness
//! score. Two kinds: a [`decoder`] that reconstructs the module's input from its output, and an [`invertible`] map whose
//! output is driven to zero.

pub mod decoder;
pub mod invertible;

use burn::tensor::{Device, Tensor};
use lmc_kernels::{FrozenDecoders, Kernels};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::tensors::{Visitor, Walk};
use decoder::{Decoder, DecoderConfig};
use invertible::{Invertible, InvertibleConfig};

/// Which kind of structural component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum StructuralKind {
    /// Reconstructs the module's input from its output.
    Decoder,
    /// Additive coupling of the module's output.
    Invertible {
        /// Side to which maps are max-pooled first; 0 leaves them whole. Whole maps of a 32x32 image take 171 million
        /// parameters for each module of the first layer.
        #[serde(default)]
        pool: usize,
        /// Whether the vector is brought to length 1 first.
        #[serde(default)]
        normalise: bool,
    },
}

/// Sizes of a trunk module's structural component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructuralConfig {
    /// Decoder or invertible map.
    pub kind: StructuralKind,
    /// Channels of the module's input.
    pub input_channels: usize,
    /// Side of the module's input.
    pub input_side: usize,
    /// Channels of the module's output.
    pub output_channels: usize,
    /// Side of the module's output.
    pub output_side: usize,
}

/// The structural component of a trunk module.
#[derive(Clone, Debug)]
pub enum Structural {
    /// Reconstructs the module's input: [`decoder`].
    Decoder(Box<Decoder>),
    /// Maps the module's output to zero: [`invertible`].
    Invertible(Box<Invertible>),
}

impl StructuralConfig {
    /// Multiply-adds for the score of one image.
    pub fn multiply_adds(&self) -> u64 {
        let (channels, side) = (self.output_channels, self.output_side);
        let count = match self.kind {
            StructuralKind::Decoder => {
                let kernel = self.decoder().kernel();
                let (first, second) = (4 * side * side * channels * channels, kernel * kernel * channels);
                // Every pixel of the first map, of twice the side, is spread over the second kernel.
                first + 4 * side * side * second * self.input_channels
            }
            StructuralKind::Invertible { pool, .. } => {
                let side = if pool == 0 { side } else { side.min(pool) };
                (channels * side * side).pow(2) / 2
            }
        };
        count as u64
    }

    fn decoder(&self) -> DecoderConfig {
        DecoderConfig {
            inputs: self.output_channels,
            input_side: self.output_side,
            outputs: self.input_channels,
            output_side: self.input_side,
        }
    }

    /// Draws random parameters.
    pub fn init(&self, seed: &Seed, device: &Device) -> Structural {
        match self.kind {
            StructuralKind::Decoder => Structural::Decoder(Box::new(self.decoder().init(seed, device))),
            StructuralKind::Invertible { pool, normalise } => {
                let pool = if pool == 0 || pool >= self.output_side { None } else { Some(pool) };
                let side = pool.unwrap_or(self.output_side);
                let config = InvertibleConfig { length: self.output_channels * side * side, normalise, pool };
                Structural::Invertible(Box::new(config.init(seed, device)))
            }
        }
    }
}

impl Structural {
    /// Losses of a batch, `[batch]`: `output` is the module's output, `input` its input, which gets no gradient.
    pub fn losses(&mut self, output: Tensor<4>, input: Tensor<4>) -> Result<Tensor<1>> {
        match self {
            Self::Decoder(decoder) => decoder.losses(output, input),
            Self::Invertible(invertible) => Ok(invertible.map_losses(output)),
        }
    }
}

impl Walk for Structural {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        match self {
            Self::Decoder(decoder) => decoder.walk(path, visitor),
            Self::Invertible(invertible) => invertible.walk(path, visitor),
        }
    }
}

/// The structural components of a layer's modules in evaluation, side by side.
#[derive(Clone, Debug)]
pub enum FrozenStructurals {
    /// Decoders, packed for the fused kernel.
    Decoders(Box<FrozenDecoders>),
    /// Invertible maps, which run one after the other.
    Invertible(Vec<Invertible>),
}

impl FrozenStructurals {
    /// Packs one component or more, all of one kind.
    pub fn new<'a>(components: impl Iterator<Item = &'a Structural>) -> Result<Self> {
        let (mut decoders, mut invertible) = (Vec::new(), Vec::new());
        for component in components {
            match component {
                Structural::Decoder(decoder) => {
                    decoders.push((decoder.parameters.clone(), decoder.running.clone()));
                }
                Structural::Invertible(coupling) => invertible.push((**coupling).clone()),
            }
        }
        match (decoders.is_empty(), invertible.is_empty()) {
            (_, true) => Ok(Self::Decoders(Box::new(FrozenDecoders::new(&decoders)?))),
            (true, false) => Ok(Self::Invertible(invertible)),
            (false, false) => {
                let problem = "a layer has decoders and invertible components";
                Err(Error::setting("structural", problem, "use modules of one kind"))
            }
        }
    }

    /// Losses `[module, batch]` of outputs `[module, batch, channel, row, column]`.
    pub fn losses(&self, outputs: Tensor<5>, input: Tensor<4>) -> Result<Tensor<2>> {
        match self {
            Self::Decoders(decoders) => Ok(decoders.losses(outputs, input, Kernels::Fused)?),
            Self::Invertible(couplings) => {
                let losses = couplings.iter().enumerate().map(|(module, coupling)| {
                    let [_, images, channels, height, width] = outputs.dims();
                    let own = outputs.clone().narrow(0, module, 1);
                    coupling.map_losses(own.reshape([images, channels, height, width]))
                });
                Ok(Tensor::stack(losses.collect(), 0))
            }
        }
    }
}
