//! The decoder: reconstructs a module's input from its output (the structural component of the paper's trunk modules).
//!
//! ```text
//! loss = mean over channels and pixels of (sigmoid(deconv(relu(norm(deconv(o))))) - x)²
//! ```
//!
//! The target, the raw input, gets no gradient. By default the module detaches its output first, so that a decoder learns to
//! invert whatever `f` produces and does not train it ([`ModuleMode`](crate::module::ModuleMode)); values above 1, which layers above the first have, cannot be reconstructed and are part of the score.
//!
//! Paper: table 2 gives the last deconvolution 3 channels and a 3x3 kernel in all layers. The parameter counts beside it,
//! and the authors' code, have as many channels as the module's input and a kernel of 3 where the side of that is even,
//! 4 where it is odd.

use burn::tensor::{Device, Tensor};
use lmc_kernels::{DecoderParameters, Kernels, RunningStatistics, decoder_train};
use lmc_streams::Seed;

use crate::error::Result;
use crate::module::functional::MOMENTUM;
use crate::tensors::{Draw, Role, Visitor, Walk, join};

/// Side of the first kernel.
const FIRST_KERNEL: usize = 2;

/// Sizes of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderConfig {
    /// Channels of the module's output.
    pub inputs: usize,
    /// Side of the module's output in pixels.
    pub input_side: usize,
    /// Channels of the module's input.
    pub outputs: usize,
    /// Side of the module's input in pixels.
    pub output_side: usize,
}

/// Two deconvolutions with a batch norm between them.
#[derive(Clone, Debug)]
pub struct Decoder {
    /// Weights and biases of the deconvolutions and the batch norm.
    pub parameters: DecoderParameters,
    /// Mean and variance that the batch norm uses in evaluation.
    pub running: RunningStatistics,
}

impl DecoderConfig {
    /// Side of the second kernel: what the first deconvolution (stride 2, two pixels cut off on each side) leaves over.
    /// A map of 2x2 is too small to lose two; it loses one.
    pub fn kernel(&self) -> usize {
        let cut = if self.input_side > 2 { 4 } else { 2 };
        self.output_side + cut + 1 - 2 * self.input_side
    }

    /// Draws random parameters. PyTorch takes the fan-in of a transposed convolution from its *output* channels.
    pub fn init(&self, seed: &Seed, device: &Device) -> Decoder {
        let mut draw = Draw::new(seed, device);
        let (channels, kernel) = (self.inputs, self.kernel());
        let (first, second) = (channels * FIRST_KERNEL * FIRST_KERNEL, self.outputs * kernel * kernel);
        let parameters = DecoderParameters {
            first: draw.uniform([channels, channels, FIRST_KERNEL, FIRST_KERNEL], first),
            first_bias: draw.uniform([channels], first),
            gamma: draw.constant(channels, 1.0),
            beta: draw.constant(channels, 0.0),
            second: draw.uniform([channels, self.outputs, kernel, kernel], second),
            second_bias: draw.uniform([self.outputs], second),
        };
        Decoder { parameters, running: draw.running(channels) }
    }
}

impl Decoder {
    /// Reconstruction losses `[batch]` with the statistics of the batch, which the running ones follow.
    pub fn losses(&mut self, output: Tensor<4>, input: Tensor<4>) -> Result<Tensor<1>> {
        let trained = decoder_train(output, input, &self.parameters, Kernels::Fused)?;
        self.running = trained.statistics.update(&self.running, MOMENTUM);
        Ok(trained.output)
    }
}

impl Walk for Decoder {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        let parameters = &mut self.parameters;
        visitor.visit(&join(path, "deconv1.weight"), Role::Structural, &mut parameters.first);
        visitor.visit(&join(path, "deconv1.bias"), Role::Structural, &mut parameters.first_bias);
        visitor.visit(&join(path, "norm.weight"), Role::Structural, &mut parameters.gamma);
        visitor.visit(&join(path, "norm.bias"), Role::Structural, &mut parameters.beta);
        visitor.visit(&join(path, "norm.running_mean"), Role::Buffer, &mut self.running.mean);
        visitor.visit(&join(path, "norm.running_var"), Role::Buffer, &mut self.running.variance);
        visitor.visit(&join(path, "deconv2.weight"), Role::Structural, &mut parameters.second);
        visitor.visit(&join(path, "deconv2.bias"), Role::Structural, &mut parameters.second_bias);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::functional::FunctionalConfig;

    #[test]
    fn even_sides_have_kernels_of_3_and_odd_ones_of_4() {
        let kernel = |side: usize| {
            let input_side = FunctionalConfig::output_side(side);
            DecoderConfig { inputs: 4, input_side, outputs: 3, output_side: side }.kernel()
        };
        assert_eq!([32, 17, 9, 5, 16, 4].map(kernel), [3, 4, 4, 4, 3, 3]);
        assert_eq!([3, 2].map(kernel), [2, 1], "the smallest maps of deep networks");
    }
}
