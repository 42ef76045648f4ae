//! The networks that benchmarks measure: four layers of modules with 64 channels on 3x32x32 images, and a linear head.
//!
//! - `w1`: one module in each layer, functional parts only;
//! - `w2`: with the decoders and their losses;
//! - `w3`: six modules in each layer, of which five are frozen; the layer's output is their weighted sum;
//! - `w3s`: with all decoders, whose losses give the weights, as LMC really works.
//!
//! A training step is forward, cross-entropy (and 10 times the structural losses), backward and Adam. `forward` has all
//! modules frozen. `benches/pytorch.py` is the same in PyTorch.

use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
pub use burn::tensor::Device;
use burn::tensor::activation::softmax;
use burn::tensor::{Distribution, Int, Tensor};

use crate::conv::ConvShape;
use crate::decoder::DecoderShape;
use crate::operations::{
    DecoderParameters, FrozenDecoders, FrozenFunctionals, FunctionalParameters, Result, RunningStatistics,
    Trained, decoder_train, functional_train, weighted_sum,
};
use crate::{BatchStatistics, Kernels};

/// Channels of all maps but the image.
const CHANNELS: usize = 64;
/// Sides of the inputs of the four layers.
const SIDES: [usize; 4] = [32, 17, 9, 5];
const PADDING: usize = 2;
const CLASSES: usize = 10;
const MOMENTUM: f64 = 0.1;

/// A network to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// Modules in each layer.
    pub modules: usize,
    /// Whether they have decoders.
    pub decoders: bool,
}

/// All of them.
pub const WORKLOADS: [Workload; 4] = [
    Workload { name: "w1", modules: 1, decoders: false },
    Workload { name: "w2", modules: 1, decoders: true },
    Workload { name: "w3", modules: 6, decoders: false },
    Workload { name: "w3s", modules: 6, decoders: true },
];

fn conv_shape(layer: usize) -> ConvShape {
    let inputs = if layer == 0 { 3 } else { CHANNELS };
    ConvShape::new([SIDES[layer]; 2], [inputs, CHANNELS], 3, PADDING)
}

fn decoder_shape(layer: usize) -> DecoderShape {
    let conv = conv_shape(layer);
    DecoderShape {
        side: [conv.out_height / 2; 2],
        inputs: CHANNELS,
        hidden: CHANNELS,
        outputs: conv.inputs,
        kernel: if SIDES[layer].is_multiple_of(2) { 3 } else { 4 },
    }
}

impl Workload {
    /// Floating-point operations of useful work in a training step: multiplications with padding do not count. Weights
    /// of free modules need as many again as the forward pass, and so do inputs above the first layer, of frozen
    /// modules too; the decoders' inputs are detached.
    pub fn train_operations(&self, batch: usize) -> f64 {
        let frozen = self.modules - 1;
        let layer = |layer: usize| {
            let (conv, decoder) = (conv_shape(layer), decoder_shape(layer));
            let input = usize::from(layer > 0);
            let functional =
                conv.multiply_adds() * (2 + input) + frozen * conv.even().multiply_adds() * (1 + input);
            let (first, second) = (decoder.first().multiply_adds(), decoder.second().multiply_adds());
            let decoders = if self.decoders { 2 * first + 3 * second + frozen * (first + second) } else { 0 };
            functional + decoders
        };
        2.0 * (batch * (0..SIDES.len()).map(layer).sum::<usize>()) as f64
    }

    /// The same for a forward pass with all modules frozen.
    pub fn forward_operations(&self, batch: usize) -> f64 {
        let layer = |layer: usize| {
            let decoder = decoder_shape(layer);
            let decoder = decoder.first().multiply_adds() + decoder.second().multiply_adds();
            conv_shape(layer).even().multiply_adds() + if self.decoders { decoder } else { 0 }
        };
        2.0 * (batch * self.modules * (0..SIDES.len()).map(layer).sum::<usize>()) as f64
    }
}

/// Parameters and running statistics of a module.
#[derive(Module, Debug)]
struct LocalModule {
    weight: Param<Tensor<4>>,
    bias: Param<Tensor<1>>,
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
    decoder: Option<Decoder>,
}

#[derive(Module, Debug)]
struct Decoder {
    first: Param<Tensor<4>>,
    first_bias: Param<Tensor<1>>,
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
    second: Param<Tensor<4>>,
    second_bias: Param<Tensor<1>>,
}

fn uniform<const D: usize>(shape: [usize; D], bound: f64, device: &Device) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::random(shape, Distribution::Uniform(-bound, bound), device))
}

fn constant(length: usize, value: f64, device: &Device) -> Param<Tensor<1>> {
    Param::from_tensor(Tensor::full([length], value, device))
}

impl LocalModule {
    fn new(layer: usize, decoder: bool, device: &Device) -> Self {
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

    fn functional(&self) -> FunctionalParameters {
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

    fn parameters(&self) -> DecoderParameters {
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

fn running(device: &Device) -> RunningStatistics {
    RunningStatistics { mean: Tensor::zeros([CHANNELS], device), variance: Tensor::ones([CHANNELS], device) }
}

/// What is trained: the newest module of each layer, and the head.
#[derive(Module, Debug)]
struct Free {
    layers: Vec<LocalModule>,
    head: Linear,
}

/// The frozen modules of a layer.
#[derive(Debug)]
struct FrozenLayer {
    functionals: FrozenFunctionals,
    decoders: Option<FrozenDecoders>,
}

impl FrozenLayer {
    fn new(modules: &[LocalModule], device: &Device) -> Result<Self> {
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

/// `[module, image]` weights: by the losses if there are any, else all equal.
fn weights(losses: Option<Tensor<2>>, modules: usize, images: usize, device: &Device) -> Tensor<2> {
    match losses {
        Some(losses) => softmax(-losses.detach().log(), 0),
        None => Tensor::full([modules, images], 1.0 / modules as f64, device),
    }
}

/// A network that is trained, on one batch.
pub struct Training {
    free: Free,
    frozen: Vec<Option<FrozenLayer>>,
    /// Of each layer's free module: functional part and decoder.
    running: Vec<[RunningStatistics; 2]>,
    optimiser: ModuleOptimizer,
    images: Tensor<4>,
    labels: Tensor<1, Int>,
    device: Device,
    kernels: Kernels,
}

impl Training {
    /// A network with random parameters and a random batch, on a device without autodiff.
    pub fn new(
        workload: Workload,
        batch: usize,
        kernels: Kernels,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        device.seed(seed);
        let device = device.clone().autodiff();
        let module = |layer: usize| LocalModule::new(layer, workload.decoders, &device);
        let frozen = |layer: usize| {
            let modules: Vec<_> = (1..workload.modules).map(|_| module(layer)).collect();
            if modules.is_empty() { Ok(None) } else { FrozenLayer::new(&modules, &device).map(Some) }
        };
        let labels: Vec<i32> = (0..batch).map(|image| (image % CLASSES) as i32).collect();
        Ok(Self {
            frozen: (0..SIDES.len()).map(frozen).collect::<Result<_>>()?,
            free: Free {
                layers: (0..SIDES.len()).map(module).collect(),
                head: LinearConfig::new(CHANNELS * 9, CLASSES).init(&device),
            },
            running: SIDES.iter().map(|_| [running(&device), running(&device)]).collect(),
            optimiser: AdamConfig::new().with_weight_decay(Some(WeightDecayConfig::new(1e-3))).init(),
            images: Tensor::random([batch, 3, 32, 32], Distribution::Uniform(0.0, 1.0), &device),
            labels: Tensor::from_data(labels.as_slice(), &device),
            device,
            kernels,
        })
    }

    /// One step; gives the loss before it.
    pub fn step(&mut self) -> Result<Tensor<1>> {
        let (logits, structural) = self.forward()?;
        let cross_entropy =
            CrossEntropyLossConfig::new().init(&self.device).forward(logits, self.labels.clone());
        let loss = match structural {
            Some(structural) => cross_entropy + structural.mul_scalar(10.0),
            None => cross_entropy,
        };
        let gradients = GradientsParams::from_grads(loss.backward(), &self.free);
        self.free = self.optimiser.step(1e-3, self.free.clone(), gradients);
        Ok(loss.detach())
    }

    /// Logits, and the sum of the free modules' structural losses.
    fn forward(&mut self) -> Result<(Tensor<2>, Option<Tensor<1>>)> {
        let mut x = self.images.clone(); // [batch, 3, 32, 32]
        let [images, ..] = x.dims();
        let mut structural: Option<Tensor<1>> = None;
        for ((module, frozen), running) in self.free.layers.iter().zip(&self.frozen).zip(&mut self.running) {
            let own = functional_train(x.clone(), &module.functional(), PADDING, self.kernels)?;
            update(&mut running[0], &own.statistics);
            let mut losses = None;
            if let Some(decoder) = &module.decoder {
                let Trained { output, statistics } = decoder_train(
                    own.output.clone().detach(),
                    x.clone(),
                    &decoder.parameters(),
                    self.kernels,
                )?;
                update(&mut running[1], &statistics);
                let mean = output.clone().mean();
                structural = Some(structural.map_or(mean.clone(), |sum| sum + mean));
                losses = Some(output.detach().unsqueeze_dim::<2>(0));
            }
            x = match frozen {
                None => own.output,
                Some(frozen) => {
                    let outputs = frozen.functionals.forward(x.clone(), self.kernels)?;
                    if let (Some(own), Some(decoders)) = (losses.take(), &frozen.decoders) {
                        let others = decoders.losses(outputs.clone().detach(), x, self.kernels)?;
                        losses = Some(Tensor::cat(vec![others, own], 0));
                    }
                    let modules = outputs.dims()[0] + 1;
                    let weights = weights(losses, modules, images, &self.device);
                    weighted_sum(outputs, Some(own.output), weights, self.kernels)?
                }
            };
        }
        Ok((self.free.head.forward(x.flatten(1, 3)), structural)) // [batch, 64, 3, 3] -> [batch, 10]
    }
}

fn update(running: &mut RunningStatistics, batch: &BatchStatistics) {
    *running = batch.update(running, MOMENTUM);
}

/// A network all of whose modules are frozen, on one batch.
pub struct Inference {
    layers: Vec<FrozenLayer>,
    head: Linear,
    images: Tensor<4>,
    device: Device,
    kernels: Kernels,
}

impl Inference {
    /// A network with random parameters and a random batch.
    pub fn new(
        workload: Workload,
        batch: usize,
        kernels: Kernels,
        seed: u64,
        device: &Device,
    ) -> Result<Self> {
        device.seed(seed);
        let layer = |layer: usize| {
            let module = |_| LocalModule::new(layer, workload.decoders, device);
            FrozenLayer::new(&(0..workload.modules).map(module).collect::<Vec<_>>(), device)
        };
        Ok(Self {
            layers: (0..SIDES.len()).map(layer).collect::<Result<_>>()?,
            head: LinearConfig::new(CHANNELS * 9, CLASSES).init(device),
            images: Tensor::random([batch, 3, 32, 32], Distribution::Uniform(0.0, 1.0), device),
            device: device.clone(),
            kernels,
        })
    }

    /// Logits of the batch.
    pub fn forward(&self) -> Result<Tensor<2>> {
        let mut x = self.images.clone();
        let [images, ..] = x.dims();
        for layer in &self.layers {
            let outputs = layer.functionals.forward(x.clone(), self.kernels)?;
            let modules = outputs.dims()[0];
            let losses =
                layer.decoders.as_ref().map(|decoders| decoders.losses(outputs.clone(), x, self.kernels));
            let weights = weights(losses.transpose()?, modules, images, &self.device);
            x = weighted_sum(outputs, None, weights, self.kernels)?;
        }
        Ok(self.head.forward(x.flatten(1, 3)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn useful_work_as_counted_by_hand() {
        // Million multiply-adds per image, forward, from docs/performance.md.
        let functional: Vec<f64> =
            (0..4).map(|layer| conv_shape(layer).multiply_adds() as f64 / 1e6).collect();
        let expected =
            [32.0 * 32.0 * 3.0, 17.0 * 17.0 * 64.0, 81.0 * 64.0, 25.0 * 64.0].map(|n| n * 9.0 * 64.0 / 1e6);
        assert_eq!(functional, expected);
        let first: Vec<usize> = (0..4).map(|layer| decoder_shape(layer).first().multiply_adds()).collect();
        assert_eq!(first, [225, 49, 9, 1].map(|pixels| pixels * 4 * 64 * 64));
        assert_eq!(decoder_shape(1).second().multiply_adds(), 14 * 14 * 16 * 64 * 64);
    }
}
