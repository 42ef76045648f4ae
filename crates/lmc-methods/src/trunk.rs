//! The network of the baselines: functional components of LMC's modules, one per layer, and a linear head per task.

use burn::tensor::{Device, Tensor};
use lmc::internals::inference::evaluation::Classification;
use lmc::internals::module::FrozenFunctional;
use lmc::internals::module::functional::Functional;
use lmc::internals::tensors::{Draw, Role, Visitor, Walk, argmax, join, values, without_gradients};
use lmc::{NetworkConfig, Result};
use lmc_streams::Seed;

/// Layers of a network that does not grow: one functional component each.
#[derive(Clone, Debug)]
pub struct Trunk(pub Vec<Functional>);

impl Trunk {
    /// Draws random parameters.
    pub fn new(network: &NetworkConfig, seed: &Seed, device: &Device) -> Self {
        let layers = network.layers().into_iter().enumerate();
        Self(layers.map(|(at, layer)| layer.functional.init(&seed.numbered(at as u64), device)).collect())
    }

    /// Features `[batch, feature]` of a training batch: batch norms use its statistics, which the running ones follow.
    pub fn training_pass(&mut self, images: Tensor<4>) -> Result<Tensor<2>> {
        let mut x = images;
        for functional in &mut self.0 {
            x = functional.forward(x, false)?;
        }
        Ok(x.flatten(1, 3))
    }

    /// The trunk in evaluation mode, without gradients.
    pub fn frozen(&self) -> Result<FrozenTrunk> {
        without_gradients(self).0.iter().map(FrozenFunctional::new).collect::<Result<_>>().map(FrozenTrunk)
    }
}

impl Walk for Trunk {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, functional) in self.0.iter_mut().enumerate() {
            functional.walk(&join(path, &format!("layer{number}")), visitor);
        }
    }
}

/// A trunk in evaluation mode.
#[derive(Clone, Debug)]
pub struct FrozenTrunk(Vec<FrozenFunctional>);

impl FrozenTrunk {
    /// Features `[batch, feature]` of images.
    pub fn features(&self, images: Tensor<4>) -> Result<Tensor<2>> {
        let mut x = images;
        for layer in &self.0 {
            x = layer.forward(x)?;
        }
        Ok(x.flatten(1, 3))
    }
}

/// A linear map from features to the classes of a task.
#[derive(Clone, Debug)]
pub struct LinearHead {
    /// Weights, `[class, feature]`.
    pub weight: Tensor<2>,
    /// Biases, `[class]`.
    pub bias: Tensor<1>,
}

impl LinearHead {
    /// Draws random parameters.
    pub fn new(features: usize, classes: usize, seed: &Seed, device: &Device) -> Self {
        let mut draw = Draw::new(seed, device);
        Self { weight: draw.uniform([classes, features], features), bias: draw.uniform([classes], features) }
    }

    /// Logits `[batch, class]` of features `[batch, feature]`.
    pub fn logits(&self, features: Tensor<2>) -> Tensor<2> {
        features.matmul(self.weight.clone().transpose()) + self.bias.clone().unsqueeze()
    }

    /// Classifies images by their features `[batch, feature]`, as images of a task.
    pub fn classify(&self, features: Tensor<2>, task: usize) -> Vec<Classification> {
        let labels = labels(&self.logits(features)).into_iter();
        labels.map(|label| Classification { task, label, weights: Vec::new() }).collect()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.bias.dims()[0]
    }
}

impl Walk for LinearHead {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        visitor.visit(&join(path, "weight"), Role::Functional, &mut self.weight);
        visitor.visit(&join(path, "bias"), Role::Functional, &mut self.bias);
    }
}

/// The label of each row of logits `[batch, class]`.
pub fn labels(logits: &Tensor<2>) -> Vec<u32> {
    let [_, classes] = logits.dims();
    values(logits).chunks(classes.max(1)).map(|row| argmax(row) as u32).collect()
}

/// Multiply-adds of each layer's functional component for one image.
pub fn layer_multiply_adds(network: &NetworkConfig) -> Vec<u64> {
    let layers = network.layers();
    layers
        .iter()
        .map(|layer| {
            // A convolution with a 3x3 kernel and padding 2 gives a map of side n + 2.
            let side = layer.structural.input_side + 2;
            (side * side * 9 * layer.functional.inputs * layer.functional.outputs) as u64
        })
        .collect()
}

/// Largest width of a network.
pub const WIDEST: usize = 4096;

/// The width at which a network of one module per layer has nearest to the parameters of this many modules of `network`,
/// which are evenly spread over its layers.
pub fn width_of_modules(network: &NetworkConfig, modules: usize) -> usize {
    let count = |width: usize| -> usize {
        let sized = NetworkConfig { width, ..network.clone() };
        let layers = sized.layers();
        layers.iter().map(|layer| layer.functional.outputs * (9 * layer.functional.inputs + 3)).sum()
    };
    let wanted = count(network.width) * modules / network.depth;
    (1..=WIDEST).min_by_key(|&width| count(width).abs_diff(wanted)).unwrap_or(network.width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_width_by_hand() {
        let network = NetworkConfig { depth: 2, width: 4, ..NetworkConfig::default() };
        assert_eq!(layer_multiply_adds(&network), [34 * 34 * 9 * 3 * 4, 19 * 19 * 9 * 4 * 4]);
        assert_eq!(width_of_modules(&network, 2), 4);
        let paper = NetworkConfig::default();
        // 24 modules: six times 27 * 64 + 3 * 64 + 3 * (9 * 64 * 64 + 3 * 64) = 113,088 parameters.
        let width = width_of_modules(&paper, 24);
        let count = width * 30 + 3 * (width * (9 * width + 3));
        assert!(count.abs_diff(6 * 113_088) < 5000, "{width}: {count}");
    }
}
