//! A forward pass of a workload.

use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Distribution, Tensor};
use lmc_kernels::operations::Result;
use lmc_kernels::{Kernels, weighted_sum};

use crate::network::{FrozenLayer, LocalModule, weights};
use crate::workload::{CHANNELS, CLASSES, SIDES, Workload};

/// A network all of whose modules are frozen, on one batch.
pub struct Inference {
    layers: Vec<FrozenLayer>,
    head: Linear,
    images: Tensor<4>,
    device: Device,
    kernels: Kernels,
}

impl Inference {
    /// A network with random parameters and a random batch of `[batch, 3, 32, 32]`.
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

    /// Logits of the batch, `[batch, 10]`.
    pub fn forward(&self) -> Result<Tensor<2>> {
        let mut x = self.images.clone(); // [batch, 3, 32, 32]
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
