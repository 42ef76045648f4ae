//! The controller: the weight of each module of a layer, image by image.

use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor};
use lmc::internals::module::functional::PADDING;
use lmc::internals::tensors::{Draw, Role, Visitor, Walk, join};
use lmc::{NetworkConfig, Result};
use lmc_kernels::{Kernels, pooled_conv};
use lmc_streams::Seed;

use crate::trunk::LinearHead;

/// Computes the weight of each module from the input of its layer.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    /// Convolutions that all layers share.
    blocks: Vec<Block>,
    /// One linear map per layer, to a number per module.
    pub(super) gates: Vec<LinearHead>,
}

#[derive(Clone, Debug)]
struct Block {
    weight: Tensor<4>,
    bias: Tensor<1>,
}

impl Walk for Controller {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, block) in self.blocks.iter_mut().enumerate() {
            visitor.visit(&join(path, &format!("block{number}.weight")), Role::Functional, &mut block.weight);
            visitor.visit(&join(path, &format!("block{number}.bias")), Role::Functional, &mut block.bias);
        }
        for (number, gate) in self.gates.iter_mut().enumerate() {
            gate.walk(&join(path, &format!("gate{number}")), visitor);
        }
    }
}

impl Controller {
    /// Draws random parameters, for so many modules per layer.
    pub(super) fn new(network: &NetworkConfig, modules: &[usize], seed: &Seed, device: &Device) -> Self {
        let mut draw = Draw::new(&seed.named("blocks"), device);
        let width = network.width;
        let blocks = (0..network.depth).map(|_| Block {
            weight: draw.uniform([width, width, 3, 3], 9 * width),
            bias: draw.uniform([width], 9 * width),
        });
        let blocks = blocks.collect();
        let gate = |(layer, &modules): (usize, &usize)| {
            LinearHead::new(network.features(), modules, &seed.named("gate").numbered(layer as u64), device)
        };
        Self { blocks, gates: modules.iter().enumerate().map(gate).collect() }
    }

    /// The controller with room for more modules, whose parameters are drawn at random.
    pub(super) fn grown(&self, modules: &[usize], seed: &Seed, device: &Device) -> Self {
        let grow = |(layer, (gate, &modules)): (usize, (&LinearHead, &usize))| {
            let more = modules.saturating_sub(gate.classes());
            if more == 0 {
                return gate.clone();
            }
            let features = gate.weight.dims()[1];
            let new = LinearHead::new(features, more, &seed.named("gate").numbered(layer as u64), device);
            LinearHead {
                weight: Tensor::cat(vec![gate.weight.clone(), new.weight], 0),
                bias: Tensor::cat(vec![gate.bias.clone(), new.bias], 0),
            }
        };
        let gates = self.gates.iter().zip(modules).enumerate().map(grow).collect();
        Self { blocks: self.blocks.clone(), gates }
    }

    /// Weights `[module, image]` for the input of a layer.
    pub(super) fn weights(&self, layer: usize, input: &Tensor<4>) -> Result<Tensor<2>> {
        if self.gates[layer].classes() == 1 {
            // Nothing to choose: the softmax of one number is 1, whatever it is, and has no gradient.
            return Ok(Tensor::ones([1, input.dims()[0]], &input.device()));
        }
        let mut x = input.clone();
        for block in &self.blocks[..self.blocks.len() - layer] {
            let [outputs, _, height, width] = block.weight.dims();
            let channels = x.dims()[1];
            let weight = block.weight.clone().slice([0..outputs, 0..channels, 0..height, 0..width]);
            x = pooled_conv(x, weight, block.bias.clone(), PADDING, Kernels::Fused)?;
        }
        Ok(softmax(self.gates[layer].logits(x.flatten(1, 3)), 1).transpose())
    }
}

#[cfg(test)]
mod tests {
    use lmc::internals::tensors::values;

    use super::*;

    #[test]
    fn a_grown_controller_keeps_what_it_knew() -> Result<()> {
        let network = NetworkConfig { width: 4, depth: 2, ..NetworkConfig::default() };
        let (seed, device) = (Seed::root(1), Device::flex());
        let small = Controller::new(&network, &[1, 2], &seed, &device);
        let grown = small.grown(&[2, 2], &seed.named("more"), &device);
        for (before, after) in small.blocks.iter().zip(&grown.blocks) {
            assert_eq!(values(&before.weight), values(&after.weight));
        }
        for (before, after) in small.gates.iter().zip(&grown.gates) {
            let before = values(&before.weight);
            assert_eq!(before, values(&after.weight)[..before.len()]);
        }
        assert_eq!(grown.gates.iter().map(LinearHead::classes).collect::<Vec<_>>(), [2, 2]);
        // One module has weight 1 without any computation; of two, both have some.
        let image = Tensor::<4>::ones([3, 3, 32, 32], &device);
        assert_eq!(values(&small.weights(0, &image)?), [1.0; 3]);
        let weights = values(&grown.weights(0, &image)?);
        assert!(weights.iter().all(|weight| (0.0..1.0).contains(weight)), "{weights:?}");
        Ok(())
    }
}
