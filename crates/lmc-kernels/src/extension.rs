//! The kernels as operations of burn: a trait on backends whose default is made of burn's own operations, and our own
//! implementation for the CPU backend `Flex` (`extension/flex.rs`), with backward passes written by hand for its
//! autodiff (`extension/autodiff.rs`).
//!
//! Tensors are `[image, channel, row, column]` to the outside, and `[module, image, channel, row, column]` for outputs
//! of several modules. What our operations give is stored channels-last and seen through a permuted view, so that the
//! next of our operations takes it without a copy.

mod autodiff;
mod flex;
#[cfg(feature = "wgpu")]
mod gpu;
mod recycled;

use std::sync::{Arc, OnceLock};

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};

use crate::reference;
use crate::{decoder, functional};

/// Which implementation of an operation runs; both give the same numbers but for rounding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kernels {
    /// Our fused kernels, on backends that have them (the CPU); burn's own operations elsewhere.
    #[default]
    Fused,
    /// burn's own operations.
    Reference,
}

/// Parameters of a functional block.
#[derive(Clone, Debug, ExtensionType)]
pub struct FunctionalTensors<B: Backend> {
    /// Weights of the convolution, `[output, input, row, column]`.
    pub weight: FloatTensor<B>,
    /// Bias of the convolution, `[output]`.
    pub bias: FloatTensor<B>,
    /// Scale of the batch norm, `[output]`.
    pub gamma: FloatTensor<B>,
    /// Shift of the batch norm, `[output]`.
    pub beta: FloatTensor<B>,
}

/// Parameters of several frozen functional blocks: those of [`FunctionalTensors`] with a first axis for the module.
#[derive(Clone, Debug, ExtensionType)]
pub struct FrozenFunctionalTensors<B: Backend> {
    /// Weights of the convolutions, `[module, output, input, row, column]`.
    pub weight: FloatTensor<B>,
    /// Biases of the convolutions, `[module, output]`.
    pub bias: FloatTensor<B>,
    /// Scales of the batch norms, `[module, output]`.
    pub gamma: FloatTensor<B>,
    /// Shifts of the batch norms, `[module, output]`.
    pub beta: FloatTensor<B>,
    /// Running mean, `[module, output]`.
    pub mean: FloatTensor<B>,
    /// Running variance, `[module, output]`.
    pub variance: FloatTensor<B>,
}

/// Parameters of a decoder.
#[derive(Clone, Debug, ExtensionType)]
pub struct DecoderTensors<B: Backend> {
    /// Weights of the first deconvolution, `[input, hidden, 2, 2]`.
    pub first: FloatTensor<B>,
    /// Bias of the first deconvolution, `[hidden]`.
    pub first_bias: FloatTensor<B>,
    /// Scale of the batch norm, `[hidden]`.
    pub gamma: FloatTensor<B>,
    /// Shift of the batch norm, `[hidden]`.
    pub beta: FloatTensor<B>,
    /// Weights of the second deconvolution, `[hidden, output, row, column]`.
    pub second: FloatTensor<B>,
    /// Bias of the second deconvolution, `[output]`.
    pub second_bias: FloatTensor<B>,
}

/// Parameters of several frozen decoders: those of [`DecoderTensors`] with a first axis for the module.
#[derive(Clone, Debug, ExtensionType)]
pub struct FrozenDecoderTensors<B: Backend> {
    /// Weights of the first deconvolutions, `[module, input, hidden, 2, 2]`.
    pub first: FloatTensor<B>,
    /// Biases of the first deconvolutions, `[module, hidden]`.
    pub first_bias: FloatTensor<B>,
    /// Scales of the batch norms, `[module, hidden]`.
    pub gamma: FloatTensor<B>,
    /// Shifts of the batch norms, `[module, hidden]`.
    pub beta: FloatTensor<B>,
    /// Running mean, `[module, hidden]`.
    pub mean: FloatTensor<B>,
    /// Running variance, `[module, hidden]`.
    pub variance: FloatTensor<B>,
    /// Weights of the second deconvolutions, `[module, hidden, output, row, column]`.
    pub second: FloatTensor<B>,
    /// Biases of the second deconvolutions, `[module, output]`.
    pub second_bias: FloatTensor<B>,
}

/// What a block gives in training: its result, and the statistics of the batch for the running averages.
#[derive(Clone, Debug, ExtensionType)]
pub struct TrainedTensors<B: Backend> {
    /// The block's output, `[image, channel, row, column]`, or the decoder's losses, `[image]`.
    pub output: FloatTensor<B>,
    /// Mean of each channel over the batch, `[channel]`; carries no gradient.
    pub mean: FloatTensor<B>,
    /// Biased variance of each channel over the batch, `[channel]`; carries no gradient.
    pub variance: FloatTensor<B>,
}

/// Frozen parameters folded and packed for our kernels, which is done at their first use; other backends leave it
/// empty.
pub type PackedOnce<T> = Arc<OnceLock<T>>;

/// Fused operations. A backend without an implementation of its own uses burn's operations.
#[backend_extension(Flex, Cube: cfg(feature = "wgpu"), Autodiff)]
pub trait KernelBackend: Backend {
    /// Convolution, batch norm with the statistics of the batch, ReLU and 2x2 max-pool of
    /// `[image, channel, row, column]`.
    fn functional_train(
        input: FloatTensor<Self>,
        #[extension_type] parameters: FunctionalTensors<Self>,
        padding: usize,
        kernels: Kernels,
    ) -> TrainedTensors<Self> {
        let _ = kernels;
        reference::functional_train::<Self>(input, parameters, padding)
    }

    /// Convolution, batch norm with running statistics, ReLU and 2x2 max-pool of frozen modules that share an input:
    /// `[module, image, channel, row, column]`. Their parameters get no gradient, the input does.
    fn functional_frozen(
        input: FloatTensor<Self>,
        #[extension_type] parameters: FrozenFunctionalTensors<Self>,
        packed: PackedOnce<functional::FrozenFunctional>,
        padding: usize,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        let _ = (packed, kernels);
        reference::functional_frozen::<Self>(&input, &parameters, padding)
    }

    /// Convolution, ReLU and 2x2 max-pool of `[image, channel, row, column]`.
    fn pooled_conv(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        padding: usize,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        let _ = kernels;
        reference::pooled_conv::<Self>(input, weight, bias, padding)
    }

    /// Reconstruction losses, `[image]`, of a decoder that uses the statistics of the batch. The target gets no
    /// gradient.
    fn decoder_train(
        input: FloatTensor<Self>,
        target: FloatTensor<Self>,
        #[extension_type] parameters: DecoderTensors<Self>,
        kernels: Kernels,
    ) -> TrainedTensors<Self> {
        let _ = kernels;
        reference::decoder_train::<Self>(input, target, parameters)
    }

    /// Reconstruction losses, `[module, image]`, of frozen decoders, one for each module of `inputs`,
    /// `[module, image, channel, row, column]`. Parameters and target get no gradient, the inputs do.
    fn decoder_frozen(
        inputs: FloatTensor<Self>,
        target: FloatTensor<Self>,
        #[extension_type] parameters: FrozenDecoderTensors<Self>,
        packed: PackedOnce<decoder::FrozenDecoder>,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        let _ = (packed, kernels);
        reference::decoder_frozen::<Self>(&inputs, &target, &parameters)
    }

    /// A layer's output, `sum over modules of weights[module, image] outputs[module, image]`.
    fn weighted_sum(
        outputs: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        let _ = kernels;
        reference::weighted_sum::<Self>(outputs, weights)
    }

    /// A layer's output where `last`, `[image, channel, row, column]`, is the output of one more module than those in
    /// `outputs`.
    fn weighted_sum_with(
        outputs: FloatTensor<Self>,
        last: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        let _ = kernels;
        reference::weighted_sum_with::<Self>(outputs, last, weights)
    }
}
