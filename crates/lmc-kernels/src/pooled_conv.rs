//! Convolution, ReLU and 2x2 max-pool without batch norm as one operation, forward and backward: the controllers of
//! soft gating are made of these.
//!
//! Rows and columns that the pool drops are not computed, and only the winners of the pools are kept for the backward
//! pass.

use crate::conv::{Conv, ConvShape};
use crate::functional::WantedGradients;
use crate::instruction_set::InstructionSet;
use crate::max_pool::{self, PoolShape};
use crate::scratch::Scratch;
use crate::threads::{Images, over_images, slice_of};

/// Parameters of a convolution with ReLU and max-pool: weights `[output, input, row, column]`, bias `[output]`.
#[derive(Clone, Copy, Debug)]
pub struct PooledConv<'a> {
    shape: ConvShape,
    weight: &'a [f32],
    bias: &'a [f32],
}

/// Gradients of a pooled convolution; those that were not wanted are empty.
#[derive(Debug, Default)]
pub struct Gradients {
    /// Gradient of the input, `[image, row, column, input]`.
    pub input: Scratch,
    /// Gradient of the weights, `[output, input, row, column]`.
    pub weight: Vec<f32>,
    /// Gradient of the bias, `[output]`.
    pub bias: Vec<f32>,
}

impl<'a> PooledConv<'a> {
    /// A pooled convolution with these parameters.
    pub fn new(shape: ConvShape, weight: &'a [f32], bias: &'a [f32]) -> Self {
        Self { shape: shape.even(), weight, bias }
    }

    /// Sizes of what is pooled.
    fn pool(&self) -> PoolShape {
        let ConvShape { out_height: height, out_width: width, outputs: channels, .. } = self.shape;
        PoolShape { height, width, channels }
    }

    /// Output, `[image, row, column, output]`, for an input `[image, row, column, input]`; and, if `keep`, the winners
    /// of the pools for the backward pass.
    pub fn forward(
        &self,
        set: InstructionSet,
        input: &[f32],
        images: usize,
        keep: bool,
    ) -> (Scratch, Scratch) {
        let (shape, pool) = (self.shape, self.pool());
        let images = Images::new(images, shape.group());
        let conv = Conv::new(shape, images.group, set);
        let weights = conv.pack(self.weight);
        let mut out = Scratch::take(images.count * pool.pooled_size());
        let mut winners = Scratch::take(if keep { out.len() } else { 0 });
        over_images(images, [&mut out, &mut winners], 0, |images, [out, winners], _| {
            let mut y = Scratch::take(images.len() * shape.out_size());
            conv.forward(slice_of(input, &images, shape.in_size()), &weights, self.bias, &mut y);
            max_pool::relu_max_pool(set, pool, &y, out, keep.then_some(winners));
        });
        (out, winners)
    }

    /// The backward pass of [`PooledConv::forward`], from `gradient`, that of its output.
    pub fn backward(
        &self,
        set: InstructionSet,
        input: &[f32],
        images: usize,
        winners: &[f32],
        gradient: &[f32],
        wanted: WantedGradients,
    ) -> Gradients {
        let (shape, pool) = (self.shape, self.pool());
        let images = Images::new(images, shape.group());
        let conv = Conv::new(shape, images.group, set);
        let weights = wanted.input.then(|| conv.pack_transposed(self.weight));
        let zeros = vec![0.0; shape.inputs];
        let mut into = Scratch::take(if wanted.input { images.count * shape.in_size() } else { 0 });
        let sums = if wanted.parameters { shape.weights() + shape.outputs } else { 0 };
        let sums = over_images(images, [&mut into], sums, |images, [into], sums| {
            let place = |numbers| slice_of(numbers, &images, pool.pooled_size());
            let mut dy = Scratch::take(images.len() * pool.size());
            max_pool::relu_max_pool_backward(set, pool, place(winners), place(gradient), &mut dy);
            if wanted.parameters {
                let (weight, bias) = sums.split_at_mut(shape.weights());
                conv.add_weight_gradient(slice_of(input, &images, shape.in_size()), &dy, weight);
                for pixel in dy.chunks_exact(shape.outputs.max(1)) {
                    bias.iter_mut().zip(pixel).for_each(|(bias, dy)| *bias += dy);
                }
            }
            if let Some(weights) = &weights {
                conv.transposed(&dy, weights, Some(&zeros), into);
            }
        });
        if !wanted.parameters {
            return Gradients { input: into, ..Gradients::default() };
        }
        let (weight, bias) = sums.split_at(shape.weights());
        Gradients { input: into, weight: conv.unpack_gradient(weight), bias: bias.to_vec() }
    }
}
