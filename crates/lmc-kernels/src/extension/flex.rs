//! Our kernels on burn's CPU backend.

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, TensorData};

use super::{
    DecoderTensors, FrozenDecoderTensors, FrozenFunctionalTensors, FunctionalTensors, KernelBackend, Kernels,
    PackedOnce, TrainedTensors,
};
use crate::batch_norm::Statistics;
use crate::conv::ConvShape;
use crate::decoder::{Decoder, DecoderShape, FrozenDecoder};
use crate::functional::{FrozenFunctional, Functional};
use crate::instruction_set::InstructionSet;
use crate::pooled_conv::PooledConv;
use crate::scratch::Scratch;
use crate::{decoder, functional, reference, weighted_sum};

/// A tensor of burn's CPU backend.
pub type Primitive = FloatTensor<Flex>;

/// Numbers of a contiguous tensor in logical order. The shapes and types of all tensors were checked before.
pub fn numbers(tensor: &Primitive) -> &[f32] {
    tensor.as_slice::<f32>().unwrap_or_default()
}

/// Images, `[image, channel, row, column]`, or the images of several modules, `[module, image, channel, row, column]`,
/// with the channels last; no copy if they are stored so.
pub fn channels_last(tensor: &Primitive) -> Primitive {
    let order: &[usize] = if tensor.shape().num_dims() == 5 { &[0, 1, 3, 4, 2] } else { &[0, 2, 3, 1] };
    Flex::float_permute(tensor.clone(), order).to_contiguous()
}

/// A tensor `[image, channel, row, column]` over channels-last numbers of shape `[image, row, column, channel]`.
pub fn images(numbers: Scratch, shape: [usize; 4]) -> Primitive {
    Flex::float_permute(recycled(numbers, shape), &[0, 3, 1, 2])
}

/// A tensor `[module, image, channel, row, column]` over channels-last numbers of shape
/// `[module, image, row, column, channel]`.
pub fn module_images(numbers: Scratch, shape: [usize; 5]) -> Primitive {
    Flex::float_permute(recycled(numbers, shape), &[0, 1, 4, 2, 3])
}

/// A tensor whose memory is used again when it is dropped.
fn recycled<const D: usize>(numbers: Scratch, shape: [usize; D]) -> Primitive {
    Primitive::from_data(TensorData::from_bytes(numbers.into_bytes(), shape, DType::F32))
}

/// A tensor over numbers in logical order.
pub fn tensor<const D: usize>(numbers: Vec<f32>, shape: [usize; D]) -> Primitive {
    Primitive::from_data(TensorData::new(numbers, shape))
}

/// A tensor with one axis.
pub fn vector(numbers: Vec<f32>) -> Primitive {
    let length = numbers.len();
    tensor(numbers, [length])
}

/// A functional block and its input, channels-last.
#[derive(Clone, Debug)]
pub struct FunctionalBlock {
    pub shape: ConvShape,
    pub count: usize,
    pub input: Primitive,
    parameters: FunctionalTensors<Flex>,
}

impl FunctionalBlock {
    /// Lays out the input and the parameters.
    pub fn new(input: &Primitive, parameters: &FunctionalTensors<Flex>, padding: usize) -> Self {
        let [images, weight] = [input.shape(), parameters.weight.shape()];
        Self {
            shape: ConvShape::new([images[2], images[3]], [images[1], weight[0]], weight[2], padding),
            count: images[0],
            input: channels_last(input),
            parameters: FunctionalTensors {
                weight: parameters.weight.to_contiguous(),
                bias: parameters.bias.to_contiguous(),
                gamma: parameters.gamma.to_contiguous(),
                beta: parameters.beta.to_contiguous(),
            },
        }
    }

    /// The block on slices of floats.
    pub fn functional(&self) -> Functional<'_> {
        let FunctionalTensors { weight, bias, gamma, beta } = &self.parameters;
        Functional {
            shape: self.shape,
            weight: numbers(weight),
            bias: numbers(bias),
            gamma: numbers(gamma),
            beta: numbers(beta),
        }
    }

    /// The output and statistics of the batch, and what the backward pass needs.
    pub fn train(&self) -> (TrainedTensors<Flex>, functional::Saved) {
        let (out, saved) = self.functional().train(InstructionSet::best(), numbers(&self.input), self.count);
        let ConvShape { out_height, out_width, outputs, .. } = self.shape;
        let output = images(out, [self.count, out_height / 2, out_width / 2, outputs]);
        (trained(output, &saved.statistics), saved)
    }
}

/// What a block gives in training, as tensors.
fn trained(output: Primitive, statistics: &Statistics) -> TrainedTensors<Flex> {
    let Statistics { mean, variance } = statistics.clone();
    TrainedTensors { output, mean: vector(mean), variance: vector(variance) }
}

/// A pooled convolution and its input, channels-last.
#[derive(Clone, Debug)]
pub struct PooledBlock {
    pub shape: ConvShape,
    pub count: usize,
    pub input: Primitive,
    weight: Primitive,
    bias: Primitive,
}

impl PooledBlock {
    /// Lays out the input and the parameters.
    pub fn new(input: &Primitive, weight: &Primitive, bias: &Primitive, padding: usize) -> Self {
        let [images, sizes] = [input.shape(), weight.shape()];
        Self {
            shape: ConvShape::new([images[2], images[3]], [images[1], sizes[0]], sizes[2], padding),
            count: images[0],
            input: channels_last(input),
            weight: weight.to_contiguous(),
            bias: bias.to_contiguous(),
        }
    }

    /// The block on slices of floats.
    pub fn conv(&self) -> PooledConv<'_> {
        PooledConv::new(self.shape, numbers(&self.weight), numbers(&self.bias))
    }

    /// The output, `[image, channel, row, column]`, and, if `keep`, the winners of the pools.
    pub fn forward(&self, keep: bool) -> (Primitive, Scratch) {
        let input = numbers(&self.input);
        let (out, winners) = self.conv().forward(InstructionSet::best(), input, self.count, keep);
        let ConvShape { out_height, out_width, outputs, .. } = self.shape;
        (images(out, [self.count, out_height / 2, out_width / 2, outputs]), winners)
    }
}

/// A decoder and its input, channels-last.
#[derive(Clone, Debug)]
pub struct DecoderBlock {
    pub shape: DecoderShape,
    pub count: usize,
    pub input: Primitive,
    parameters: DecoderTensors<Flex>,
}

impl DecoderBlock {
    /// Lays out the input and the parameters.
    pub fn new(input: &Primitive, parameters: &DecoderTensors<Flex>) -> Self {
        let [images, first, second] = [input.shape(), parameters.first.shape(), parameters.second.shape()];
        Self {
            shape: DecoderShape {
                side: [images[2], images[3]],
                inputs: first[0],
                hidden: first[1],
                outputs: second[1],
                kernel: second[2],
            },
            count: images[0],
            input: channels_last(input),
            parameters: DecoderTensors {
                first: parameters.first.to_contiguous(),
                first_bias: parameters.first_bias.to_contiguous(),
                gamma: parameters.gamma.to_contiguous(),
                beta: parameters.beta.to_contiguous(),
                second: parameters.second.to_contiguous(),
                second_bias: parameters.second_bias.to_contiguous(),
            },
        }
    }

    /// The decoder on slices of floats.
    pub fn decoder(&self) -> Decoder<'_> {
        let DecoderTensors { first, first_bias, gamma, beta, second, second_bias } = &self.parameters;
        Decoder {
            shape: self.shape,
            first: numbers(first),
            first_bias: numbers(first_bias),
            gamma: numbers(gamma),
            beta: numbers(beta),
            second: numbers(second),
            second_bias: numbers(second_bias),
        }
    }

    /// The losses and statistics of the batch, and what the backward pass needs.
    pub fn train(&self, target: &Primitive) -> (TrainedTensors<Flex>, decoder::Saved) {
        let target = channels_last(target);
        let set = InstructionSet::best();
        let (losses, saved) = self.decoder().train(set, numbers(&self.input), numbers(&target), self.count);
        (trained(vector(losses), &saved.statistics), saved)
    }
}

/// The part of stacked numbers, `[module, ...]`, that belongs to a module.
fn part(stack: &[f32], module: usize, modules: usize) -> &[f32] {
    let size = stack.len() / modules.max(1);
    &stack[module * size..(module + 1) * size]
}

impl FrozenFunctional {
    /// Folds and packs the parameters of frozen blocks, for images of `[row, column]` pixels at first.
    fn from_tensors(image: [usize; 2], parameters: &FrozenFunctionalTensors<Flex>, padding: usize) -> Self {
        let weight = parameters.weight.shape();
        let modules = weight[0];
        let shape = ConvShape::new(image, [weight[2], weight[1]], weight[3], padding);
        let FrozenFunctionalTensors { weight, bias, gamma, beta, mean, variance } = parameters;
        let stacks = [weight, bias, gamma, beta, mean, variance].map(Primitive::to_contiguous);
        let block = |module: usize| {
            let [weight, bias, gamma, beta, mean, variance] =
                stacks.each_ref().map(|stack| part(numbers(stack), module, modules));
            let statistics = Statistics { mean: mean.to_vec(), variance: variance.to_vec() };
            (Functional { shape, weight, bias, gamma, beta }, statistics)
        };
        let blocks: Vec<_> = (0..modules).map(block).collect();
        Self::new(shape, InstructionSet::best(), &blocks)
    }
}

impl FrozenDecoder {
    /// Folds and packs the parameters of frozen decoders, for inputs of `[row, column]` pixels at first.
    fn from_tensors(side: [usize; 2], parameters: &FrozenDecoderTensors<Flex>) -> Self {
        let [first, second] = [parameters.first.shape(), parameters.second.shape()];
        let modules = first[0];
        let shape =
            DecoderShape { side, inputs: first[1], hidden: first[2], outputs: second[2], kernel: second[3] };
        let FrozenDecoderTensors { first, first_bias, gamma, beta, mean, variance, second, second_bias } =
            parameters;
        let stacks = [first, first_bias, gamma, beta, mean, variance, second, second_bias]
            .map(Primitive::to_contiguous);
        let decoder = |module: usize| {
            let [first, first_bias, gamma, beta, mean, variance, second, second_bias] =
                stacks.each_ref().map(|stack| part(numbers(stack), module, modules));
            let statistics = Statistics { mean: mean.to_vec(), variance: variance.to_vec() };
            (Decoder { shape, first, first_bias, gamma, beta, second, second_bias }, statistics)
        };
        let decoders: Vec<_> = (0..modules).map(decoder).collect();
        Self::new(shape, InstructionSet::best(), &decoders)
    }
}

/// Outputs of frozen modules, `[module, image, channel, row, column]`, and, if `keep`, the winners of their pools.
pub fn functional_frozen(
    input: &Primitive,
    parameters: &FrozenFunctionalTensors<Flex>,
    packed: &PackedOnce<FrozenFunctional>,
    padding: usize,
    keep: bool,
) -> (Primitive, Scratch) {
    let shape = input.shape();
    let image = [shape[2], shape[3]];
    let frozen = packed.get_or_init(|| FrozenFunctional::from_tensors(image, parameters, padding));
    let (out, winners) = frozen.forward(image, numbers(&channels_last(input)), shape[0], keep);
    let [height, width] = frozen.pooled(image);
    let outputs = parameters.weight.shape()[1];
    (module_images(out, [frozen.modules(), shape[0], height, width, outputs]), winners)
}

/// Reconstruction losses of frozen decoders, `[module, image]`, and, if `keep`, their derivatives.
pub fn decoder_frozen(
    inputs: &Primitive,
    target: &Primitive,
    parameters: &FrozenDecoderTensors<Flex>,
    packed: &PackedOnce<FrozenDecoder>,
    keep: bool,
) -> (Primitive, Scratch) {
    let shape = inputs.shape();
    let side = [shape[3], shape[4]];
    let frozen = packed.get_or_init(|| FrozenDecoder::from_tensors(side, parameters));
    let (inputs, target) = (channels_last(inputs), channels_last(target));
    let (losses, errors) = frozen.losses(side, numbers(&inputs), numbers(&target), shape[1], keep);
    (tensor(losses, [frozen.modules(), shape[1]]), errors)
}

/// Outputs of modules as slices: of those in `stack`, channels-last, and of `last`.
pub fn outputs<'a>(stack: &'a Primitive, last: Option<&'a Primitive>) -> Vec<&'a [f32]> {
    let modules = stack.shape()[0];
    let numbers_of = numbers(stack);
    (0..modules).map(|module| part(numbers_of, module, modules)).chain(last.map(numbers)).collect()
}

/// The weighted sum of channels-last outputs: `[image, channel, row, column]`.
pub fn sum(stack: &Primitive, last: Option<&Primitive>, weights: &Primitive) -> Primitive {
    let shape = stack.shape();
    let weights = weights.to_contiguous();
    let out = weighted_sum::weighted_sum(
        InstructionSet::best(),
        &outputs(stack, last),
        numbers(&weights),
        shape[1],
    );
    images(out, [shape[1], shape[2], shape[3], shape[4]])
}

impl KernelBackend for Flex {
    fn functional_train(
        input: Primitive,
        parameters: FunctionalTensors<Self>,
        padding: usize,
        kernels: Kernels,
    ) -> TrainedTensors<Self> {
        match kernels {
            Kernels::Fused => FunctionalBlock::new(&input, &parameters, padding).train().0,
            Kernels::Reference => reference::functional_train::<Self>(input, parameters, padding),
        }
    }

    fn functional_frozen(
        input: Primitive,
        parameters: FrozenFunctionalTensors<Self>,
        packed: PackedOnce<FrozenFunctional>,
        padding: usize,
        kernels: Kernels,
    ) -> Primitive {
        match kernels {
            Kernels::Fused => functional_frozen(&input, &parameters, &packed, padding, false).0,
            Kernels::Reference => reference::functional_frozen::<Self>(&input, &parameters, padding),
        }
    }

    fn pooled_conv(
        input: Primitive,
        weight: Primitive,
        bias: Primitive,
        padding: usize,
        kernels: Kernels,
    ) -> Primitive {
        match kernels {
            Kernels::Fused => PooledBlock::new(&input, &weight, &bias, padding).forward(false).0,
            Kernels::Reference => reference::pooled_conv::<Self>(input, weight, bias, padding),
        }
    }

    fn decoder_train(
        input: Primitive,
        target: Primitive,
        parameters: DecoderTensors<Self>,
        kernels: Kernels,
    ) -> TrainedTensors<Self> {
        match kernels {
            Kernels::Fused => DecoderBlock::new(&input, &parameters).train(&target).0,
            Kernels::Reference => reference::decoder_train::<Self>(input, target, parameters),
        }
    }

    fn decoder_frozen(
        inputs: Primitive,
        target: Primitive,
        parameters: FrozenDecoderTensors<Self>,
        packed: PackedOnce<FrozenDecoder>,
        kernels: Kernels,
    ) -> Primitive {
        match kernels {
            Kernels::Fused => decoder_frozen(&inputs, &target, &parameters, &packed, false).0,
            Kernels::Reference => reference::decoder_frozen::<Self>(&inputs, &target, &parameters),
        }
    }

    fn weighted_sum(outputs: Primitive, weights: Primitive, kernels: Kernels) -> Primitive {
        match kernels {
            Kernels::Fused => sum(&channels_last(&outputs), None, &weights),
            Kernels::Reference => reference::weighted_sum::<Self>(outputs, weights),
        }
    }

    fn weighted_sum_with(
        outputs: Primitive,
        last: Primitive,
        weights: Primitive,
        kernels: Kernels,
    ) -> Primitive {
        match kernels {
            Kernels::Fused => sum(&channels_last(&outputs), Some(&channels_last(&last)), &weights),
            Kernels::Reference => reference::weighted_sum_with::<Self>(outputs, last, weights),
        }
    }
}
