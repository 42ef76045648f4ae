//! A training step of a workload.

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Int, Tensor};
use lmc_kernels::operations::Result;
use lmc_kernels::{
    BatchStatistics, Kernels, RunningStatistics, Trained, decoder_train, functional_train, weighted_sum,
};

use crate::network::{FrozenLayer, LocalModule, running, weights};
use crate::workload::{CHANNELS, CLASSES, PADDING, SIDES, Workload};

/// Share of a new batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// The trainable part of a network: the newest module of each layer, and the head.
#[derive(Module, Debug)]
struct Trainable {
    layers: Vec<LocalModule>,
    head: Linear,
}

/// A network that is trained on one batch, again and again.
pub struct Training {
    trainable: Trainable,
    frozen: Vec<Option<FrozenLayer>>,
    /// Running statistics of each layer's trainable module: of its functional part, and of its decoder.
    running: Vec<[RunningStatistics; 2]>,
    optimiser: ModuleOptimizer,
    images: Tensor<4>,
    labels: Tensor<1, Int>,
    device: Device,
    kernels: Kernels,
}

impl Training {
    /// A network with random parameters and a random batch of `[batch, 3, 32, 32]`. The device comes without autodiff,
    /// which is added here.
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
            trainable: Trainable {
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

    /// Makes one training step, and gives the loss before it.
    pub fn step(&mut self) -> Result<Tensor<1>> {
        let (logits, structural) = self.forward()?;
        let cross_entropy =
            CrossEntropyLossConfig::new().init(&self.device).forward(logits, self.labels.clone());
        let loss = match structural {
            Some(structural) => cross_entropy + structural.mul_scalar(10.0),
            None => cross_entropy,
        };
        let gradients = GradientsParams::from_grads(loss.backward(), &self.trainable);
        self.trainable = self.optimiser.step(1e-3, self.trainable.clone(), gradients);
        Ok(loss.detach())
    }

    /// Logits `[batch, 10]`, and the sum over layers of the trainable modules' mean reconstruction losses.
    fn forward(&mut self) -> Result<(Tensor<2>, Option<Tensor<1>>)> {
        let mut x = self.images.clone(); // [batch, 3, 32, 32]
        let [images, ..] = x.dims();
        let mut structural: Option<Tensor<1>> = None;
        for ((module, frozen), running) in
            self.trainable.layers.iter().zip(&self.frozen).zip(&mut self.running)
        {
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
        Ok((self.trainable.head.forward(x.flatten(1, 3)), structural)) // [batch, 64, 3, 3] -> [batch, 10]
    }
}

/// Moves running statistics towards those of a batch.
fn update(running: &mut RunningStatistics, batch: &BatchStatistics) {
    *running = batch.update(running, MOMENTUM);
}
