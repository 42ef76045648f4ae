//! The functional component `f(x; θ)` of a module: what computes (paper appendix A).
//!
//! `maxpool 2x2 (relu (batch norm (convolution 3x3, padding 2)))`: a map of side n becomes one of side ⌊(n + 2) / 2⌋.

use burn::tensor::{Device, Tensor};
use lmc_kernels::{FunctionalParameters, Kernels, RunningStatistics, functional_train};
use lmc_streams::Seed;

use crate::error::Result;
use crate::tensors::{Draw, Role, Visitor, Walk, join};

/// Side of the convolution's kernel.
const KERNEL: usize = 3;
/// Zero padding of the convolution. Paper: table 2.
pub const PADDING: usize = 2;
/// Share of the newest batch in the running statistics of batch norms.
pub(crate) const MOMENTUM: f64 = 0.1;

/// Sizes of a functional component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionalConfig {
    /// Channels of the input.
    pub inputs: usize,
    /// Channels of the output.
    pub outputs: usize,
}

/// Convolution, batch norm, ReLU and max-pool.
#[derive(Clone, Debug)]
pub struct Functional {
    /// Weights and biases of the convolution and the batch norm.
    pub parameters: FunctionalParameters,
    /// Mean and variance that the batch norm uses in evaluation.
    pub running: RunningStatistics,
}

impl FunctionalConfig {
    /// Draws random parameters.
    pub fn init(&self, seed: &Seed, device: &Device) -> Functional {
        let mut draw = Draw::new(seed, device);
        let fan_in = self.inputs * KERNEL * KERNEL;
        let parameters = FunctionalParameters {
            weight: draw.uniform(self.weight(), fan_in),
            bias: draw.uniform([self.outputs], fan_in),
            gamma: draw.constant(self.outputs, 1.0),
            beta: draw.constant(self.outputs, 0.0),
        };
        Functional { parameters, running: draw.running(self.outputs) }
    }

    /// Shape of the convolution's weights.
    pub(crate) fn weight(&self) -> [usize; 4] {
        [self.outputs, self.inputs, KERNEL, KERNEL]
    }

    /// Side of the output map.
    pub fn output_side(input_side: usize) -> usize {
        (input_side + 2 * PADDING - KERNEL).div_ceil(2)
    }
}

impl Functional {
    /// Output with the statistics of the batch, which the running ones follow. With `frozen`, parameters get no gradient.
    pub fn forward(&mut self, input: Tensor<4>, frozen: bool) -> Result<Tensor<4>> {
        let mut parameters = self.parameters.clone();
        if frozen {
            let FunctionalParameters { weight, bias, gamma, beta } = parameters;
            parameters = FunctionalParameters {
                weight: weight.detach(),
                bias: bias.detach(),
                gamma: gamma.detach(),
                beta: beta.detach(),
            };
        }
        let trained = functional_train(input, &parameters, PADDING, Kernels::Fused)?;
        self.running = trained.statistics.update(&self.running, MOMENTUM);
        Ok(trained.output) // [batch, outputs, ⌊(h + 2) / 2⌋, ⌊(w + 2) / 2⌋]
    }
}

impl Walk for Functional {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        visitor.visit(&join(path, "conv.weight"), Role::Functional, &mut self.parameters.weight);
        visitor.visit(&join(path, "conv.bias"), Role::Functional, &mut self.parameters.bias);
        visitor.visit(&join(path, "norm.weight"), Role::Functional, &mut self.parameters.gamma);
        visitor.visit(&join(path, "norm.bias"), Role::Functional, &mut self.parameters.beta);
        visitor.visit(&join(path, "norm.running_mean"), Role::Buffer, &mut self.running.mean);
        visitor.visit(&join(path, "norm.running_var"), Role::Buffer, &mut self.running.variance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_of_the_paper() {
        let sides: Vec<usize> = [32, 17, 9, 5].map(FunctionalConfig::output_side).to_vec();
        assert_eq!(sides, [17, 9, 5, 3]);
    }
}
