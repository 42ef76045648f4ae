//! The sizes of the measured networks, and the useful work of a training step and of a forward pass.

use lmc_kernels::conv::ConvShape;
use lmc_kernels::decoder::DecoderShape;

/// Channels of all feature maps but the image, which has three.
pub(crate) const CHANNELS: usize = 64;
/// Rows, and columns, of the inputs of the four layers.
pub(crate) const SIDES: [usize; 4] = [32, 17, 9, 5];
/// Zeros around the input of each convolution.
pub(crate) const PADDING: usize = 2;
/// Outputs of the head.
pub(crate) const CLASSES: usize = 10;

/// A network to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Name on the command line and in tables.
    pub name: &'static str,
    /// Number of modules in each layer; in training, all but one are frozen.
    pub modules: usize,
    /// Whether the modules have decoders.
    pub decoders: bool,
}

/// The four networks, from the smallest to what LMC trains.
pub const WORKLOADS: [Workload; 4] = [
    Workload { name: "w1", modules: 1, decoders: false },
    Workload { name: "w2", modules: 1, decoders: true },
    Workload { name: "w3", modules: 6, decoders: false },
    Workload { name: "w3s", modules: 6, decoders: true },
];

impl Workload {
    /// Floating-point operations of useful work in a training step: multiplications with padding do not count. The
    /// gradients of trainable modules' weights need as many again as the forward pass, and so do the gradients of
    /// inputs above the first layer, of frozen modules too; the decoders' inputs are detached.
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

    /// Floating-point operations of useful work in a forward pass with all modules frozen, where rows and columns that
    /// the max-pool drops do not count either.
    pub fn forward_operations(&self, batch: usize) -> f64 {
        let layer = |layer: usize| {
            let decoder = decoder_shape(layer);
            let decoder = decoder.first().multiply_adds() + decoder.second().multiply_adds();
            conv_shape(layer).even().multiply_adds() + if self.decoders { decoder } else { 0 }
        };
        2.0 * (batch * self.modules * (0..SIDES.len()).map(layer).sum::<usize>()) as f64
    }
}

/// Sizes of the convolution in a layer's functional parts.
pub(crate) fn conv_shape(layer: usize) -> ConvShape {
    let inputs = if layer == 0 { 3 } else { CHANNELS };
    ConvShape::new([SIDES[layer]; 2], [inputs, CHANNELS], 3, PADDING)
}

/// Sizes of a layer's decoders. Their output has the size of the layer's input: an odd side needs a kernel of 4.
pub(crate) fn decoder_shape(layer: usize) -> DecoderShape {
    let conv = conv_shape(layer);
    DecoderShape {
        side: [conv.out_height / 2; 2],
        inputs: CHANNELS,
        hidden: CHANNELS,
        outputs: conv.inputs,
        kernel: if SIDES[layer].is_multiple_of(2) { 3 } else { 4 },
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
