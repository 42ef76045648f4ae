//! The operations of [`crate::extension`] made of burn's own: for all backends without fused kernels, and what the
//! fused ones are compared with.

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{Shape, Slice};

use crate::batch_norm::EPSILON;
use crate::extension::{
    DecoderTensors, FrozenDecoderTensors, FrozenFunctionalTensors, FunctionalTensors, TrainedTensors,
};

/// See [`crate::extension::KernelBackend::functional_train`].
pub fn functional_train<B: Backend>(
    input: FloatTensor<B>,
    parameters: FunctionalTensors<B>,
    padding: usize,
) -> TrainedTensors<B> {
    let FunctionalTensors { weight, bias, gamma, beta } = parameters;
    let convolved = B::conv2d(input, weight, Some(bias), convolution(padding));
    let (normal, mean, variance) = normalise_batch::<B>(convolved, gamma, beta);
    TrainedTensors { output: pool::<B>(B::relu(normal)), mean, variance }
}

/// See [`crate::extension::KernelBackend::functional_frozen`].
pub fn functional_frozen<B: Backend>(
    input: &FloatTensor<B>,
    parameters: &FrozenFunctionalTensors<B>,
    padding: usize,
) -> FloatTensor<B> {
    let modules = parameters.weight.shape()[0];
    let output = |module: usize| {
        let of = |tensor: &FloatTensor<B>| frozen::<B>(tensor, module);
        let FrozenFunctionalTensors { weight, bias, gamma, beta, mean, variance } = parameters;
        let convolved = B::conv2d(input.clone(), of(weight), Some(of(bias)), convolution(padding));
        let normal = normalise::<B>(
            convolved,
            of(gamma),
            of(beta),
            channels::<B>(of(mean)),
            channels::<B>(of(variance)),
        );
        unsqueeze::<B>(pool::<B>(B::relu(normal)))
    };
    B::float_cat((0..modules).map(output).collect(), 0)
}

/// See [`crate::extension::KernelBackend::pooled_conv`].
pub fn pooled_conv<B: Backend>(
    input: FloatTensor<B>,
    weight: FloatTensor<B>,
    bias: FloatTensor<B>,
    padding: usize,
) -> FloatTensor<B> {
    pool::<B>(B::relu(B::conv2d(input, weight, Some(bias), convolution(padding))))
}

/// See [`crate::extension::KernelBackend::decoder_train`].
pub fn decoder_train<B: Backend>(
    input: FloatTensor<B>,
    target: FloatTensor<B>,
    parameters: DecoderTensors<B>,
) -> TrainedTensors<B> {
    let DecoderTensors { first, first_bias, gamma, beta, second, second_bias } = parameters;
    let options = first_deconvolution(&input.shape());
    let hidden = B::conv_transpose2d(input, first, Some(first_bias), options);
    let (normal, mean, variance) = normalise_batch::<B>(hidden, gamma, beta);
    let output = losses::<B>(B::relu(normal), second, second_bias, target);
    TrainedTensors { output, mean, variance }
}

/// See [`crate::extension::KernelBackend::decoder_frozen`].
pub fn decoder_frozen<B: Backend>(
    inputs: &FloatTensor<B>,
    target: &FloatTensor<B>,
    parameters: &FrozenDecoderTensors<B>,
) -> FloatTensor<B> {
    let modules = parameters.first.shape()[0];
    let output = |module: usize| {
        let of = |tensor: &FloatTensor<B>| frozen::<B>(tensor, module);
        let FrozenDecoderTensors { first, first_bias, gamma, beta, mean, variance, second, second_bias } =
            parameters;
        let input = module_of::<B>(inputs, module);
        let options = first_deconvolution(&input.shape());
        let hidden = B::conv_transpose2d(input, of(first), Some(of(first_bias)), options);
        let (mean, variance) = (channels::<B>(of(mean)), channels::<B>(of(variance)));
        let normal = normalise::<B>(hidden, of(gamma), of(beta), mean, variance);
        unsqueeze::<B>(losses::<B>(B::relu(normal), of(second), of(second_bias), target.clone()))
    };
    B::float_cat((0..modules).map(output).collect(), 0)
}

/// See [`crate::extension::KernelBackend::weighted_sum`].
pub fn weighted_sum<B: Backend>(outputs: FloatTensor<B>, weights: FloatTensor<B>) -> FloatTensor<B> {
    let shape = outputs.shape();
    let weights = B::float_reshape(weights, Shape::from([shape[0], shape[1], 1, 1, 1]));
    let sum = B::float_sum_dim(B::float_mul(outputs, weights), 0);
    B::float_reshape(sum, Shape::from(shape[1..].to_vec()))
}

/// See [`crate::extension::KernelBackend::weighted_sum_with`].
pub fn weighted_sum_with<B: Backend>(
    outputs: FloatTensor<B>,
    last: FloatTensor<B>,
    weights: FloatTensor<B>,
) -> FloatTensor<B> {
    weighted_sum::<B>(B::float_cat(vec![outputs, unsqueeze::<B>(last)], 0), weights)
}

/// Options of a convolution with stride 1.
fn convolution(padding: usize) -> ConvOptions<2> {
    ConvOptions::new([1, 1], [padding, padding], [1, 1], 1)
}

/// Options of the first deconvolution: two pixels are cut off on each side, or one where the shorter side has only two,
/// which would vanish.
fn first_deconvolution(input: &Shape) -> ConvTransposeOptions<2> {
    let cut = if input[2].min(input[3]) > 2 { 2 } else { 1 };
    ConvTransposeOptions::new([2, 2], [cut, cut], [0, 0], [1, 1], 1)
}

/// Mean squared error of each sample, `[image]`, after the second deconvolution and a sigmoid.
fn losses<B: Backend>(
    hidden: FloatTensor<B>,
    second: FloatTensor<B>,
    bias: FloatTensor<B>,
    target: FloatTensor<B>,
) -> FloatTensor<B> {
    let options = ConvTransposeOptions::new([1, 1], [0, 0], [0, 0], [1, 1], 1);
    let decoded = B::sigmoid(B::conv_transpose2d(hidden, second, Some(bias), options));
    let difference = B::float_sub(decoded, B::float_detach(target));
    let shape = difference.shape();
    let squares = B::float_mul(difference.clone(), difference);
    let flat = B::float_reshape(squares, Shape::from([shape[0], shape[1] * shape[2] * shape[3]]));
    B::float_reshape(B::float_mean_dim(flat, 1), Shape::from([shape[0]]))
}

/// Batch norm with the statistics of the batch; gives its output, means and biased variances.
fn normalise_batch<B: Backend>(
    values: FloatTensor<B>,
    gamma: FloatTensor<B>,
    beta: FloatTensor<B>,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let average =
        |tensor: FloatTensor<B>| [0, 2, 3].into_iter().fold(tensor, |t, dim| B::float_mean_dim(t, dim));
    let mean = average(values.clone());
    let centred = B::float_sub(values.clone(), mean.clone());
    let variance = average(B::float_mul(centred.clone(), centred));
    let length = Shape::from([values.shape()[1]]);
    let normal = normalise::<B>(values, gamma, beta, mean.clone(), variance.clone());
    let flat = |tensor| B::float_detach(B::float_reshape(tensor, length.clone()));
    (normal, flat(mean), flat(variance))
}

/// Batch norm with these means and variances, `[1, channel, 1, 1]`.
fn normalise<B: Backend>(
    values: FloatTensor<B>,
    gamma: FloatTensor<B>,
    beta: FloatTensor<B>,
    mean: FloatTensor<B>,
    variance: FloatTensor<B>,
) -> FloatTensor<B> {
    let deviation = B::float_sqrt(B::float_add_scalar(variance, EPSILON.into()));
    let normal = B::float_div(B::float_sub(values, mean), deviation);
    B::float_add(B::float_mul(normal, channels::<B>(gamma)), channels::<B>(beta))
}

/// Max-pool over 2x2 pixels.
fn pool<B: Backend>(values: FloatTensor<B>) -> FloatTensor<B> {
    B::max_pool2d(values, [2, 2], [2, 2], [0, 0], [1, 1], false)
}

/// A vector `[channel]` as `[1, channel, 1, 1]`.
fn channels<B: Backend>(vector: FloatTensor<B>) -> FloatTensor<B> {
    let length = vector.shape().num_elements();
    B::float_reshape(vector, Shape::from([1, length, 1, 1]))
}

/// A tensor with a first axis of length 1 added.
fn unsqueeze<B: Backend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    let shape: Vec<usize> = std::iter::once(1).chain(tensor.shape().iter().copied()).collect();
    B::float_reshape(tensor, Shape::from(shape))
}

/// The part of a tensor, `[module, ...]`, that belongs to a module.
fn module_of<B: Backend>(tensor: &FloatTensor<B>, module: usize) -> FloatTensor<B> {
    let shape = tensor.shape();
    let slices: Vec<Slice> = std::iter::once(Slice::from(module..module + 1))
        .chain(shape[1..].iter().map(|&length| Slice::from(0..length)))
        .collect();
    B::float_reshape(B::float_slice(tensor.clone(), &slices), Shape::from(shape[1..].to_vec()))
}

/// The part of a tensor that belongs to a module, without a gradient.
fn frozen<B: Backend>(tensor: &FloatTensor<B>, module: usize) -> FloatTensor<B> {
    B::float_detach(module_of::<B>(tensor, module))
}
