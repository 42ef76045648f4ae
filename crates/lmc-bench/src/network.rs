//! The parts of a measured network: modules with their parameters, and the frozen modules of a layer.

use burn::module::{Module, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Distribution, Tensor};
use lmc_kernels::decoder::DecoderShape;
use lmc_kernels::operations::Result;
use lmc_kernels::{
    DecoderParameters, FrozenDecoders, FrozenFunctionals, FunctionalParameters, RunningStatistics,
};

use crate::workload::{CHANNELS, PADDING, conv_shape, decoder_shape};

/// Parameters of a module: of its functional part, and of its decoder if it has one.
#[derive(Module, Debug)]
pub(crate) struct LocalModule {
    weight: Param<Tensor<4>>,
    bias: Param<Tensor<1>>,
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
    pub(crate) decoder: Option<Decoder>,
}

/// Parameters of a decoder: two transposed convolutions, with batch norm between them.
#[derive(Module, Debug)]
pub(crate) struct Decoder {
    first: Param<Tensor<4>>,
    first_bias: Param<Tensor<1>>,
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
    second: Param<Tensor<4>>,
    second_bias: Param<Tensor<1>>,
}

/// A parameter with random numbers between `-bound` and `bound`.
fn uniform<const D: usize>(shape: [usize; D], bound: f64, device: &Device) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::random(shape, Distribution::Uniform(-bound, bound), device))
}

/// A parameter with one number for all channels.
fn constant(length: usize, value: f64, device: &Device) -> Param<Tensor<1>> {
    Param::from_tensor(Tensor::full([length], value, device))
}

impl LocalModule {
    /// A module for this layer, counted from 0, with random weights.
    pub(crate) fn new(layer: usize, decoder: bool, device: &Device) -> Self {
        let shape = conv_shape(layer);
        let bound = 1.0 / ((shape.inputs * 9) as f64).sqrt();
        Self {
            weight: uniform([CHANNELS, shape.inputs, 3, 3], bound, device),
            bias: uniform([CHANNELS], bound, device),
            gamma: constant(CHANNELS, 1.0, device),
            beta: constant(CHANNELS, 0.0, device),
            decoder: decoder.then(|| Decoder::new(&decoder_shape(layer), device)),
        }
    }

    /// The parameters of the functional part, as the kernels take them.
    pub(crate) fn functional(&self) -> FunctionalParameters {
        FunctionalParameters {
            weight: self.weight.val(),
            bias: self.bias.val(),
            gamma: self.gamma.val(),
            beta: self.beta.val(),
        }
    }
}

impl Decoder {
    fn new(shape: &DecoderShape, device: &Device) -> Self {
        let DecoderShape { inputs, hidden, outputs, kernel, .. } = *shape;
        let first = 1.0 / ((hidden * 4) as f64).sqrt();
        let second = 1.0 / ((outputs * kernel * kernel) as f64).sqrt();
        Self {
            first: uniform([inputs, hidden, 2, 2], first, device),
            first_bias: uniform([hidden], first, device),
            gamma: constant(hidden, 1.0, device),
            beta: constant(hidden, 0.0, device),
            second: uniform([hidden, outputs, kernel, kernel], second, device),
            second_bias: uniform([outputs], second, device),
        }
    }

    /// The parameters as the kernels take them.
    pub(crate) fn parameters(&self) -> DecoderParameters {
        DecoderParameters {
            first: self.first.val(),
            first_bias: self.first_bias.val(),
            gamma: self.gamma.val(),
            beta: self.beta.val(),
            second: self.second.val(),
            second_bias: self.second_bias.val(),
        }
    }
}

/// Running statistics of a batch norm that has seen no batch yet: means 0 and variances 1.
pub(crate) fn running(device: &Device) -> RunningStatistics {
    RunningStatistics { mean: Tensor::zeros([CHANNELS], device), variance: Tensor::ones([CHANNELS], device) }
}

/// The frozen modules of a layer, with their weights packed.
#[derive(Debug)]
pub(crate) struct FrozenLayer {
    pub(crate) functionals: FrozenFunctionals,
    pub(crate) decoders: Option<FrozenDecoders>,
}

impl FrozenLayer {
    /// Freezes these modules.
    pub(crate) fn new(modules: &[LocalModule], device: &Device) -> Result<Self> {
        let functionals: Vec<_> =
            modules.iter().map(|module| (module.functional(), running(device))).collect();
        let decoders: Vec<_> = modules
            .iter()
            .filter_map(|module| Some((module.decoder.as_ref()?.parameters(), running(device))))
            .collect();
        Ok(Self {
            functionals: FrozenFunctionals::new(&functionals, PADDING)?,
            decoders: if decoders.is_empty() { None } else { Some(FrozenDecoders::new(&decoders)?) },
        })
    }
}

/// Weights of the modules for each image, `[module, image]`: a softmax over modules of minus the logarithm of their
/// reconstruction losses, `[module, image]`, or all equal without losses.
pub(crate) fn weights(
    losses: Option<Tensor<2>>,
    modules: usize,
    images: usize,
    device: &Device,
) -> Tensor<2> {
    match losses {
        Some(losses) => softmax(-losses.detach().log(), 0),
        None => Tensor::full([modules, images], 1.0 / modules as f64, device),
    }
}
