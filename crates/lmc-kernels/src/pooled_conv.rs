//! Convolution, ReLU and 2x2 max-pool without batch norm as one operation, forward and backward: what gates modules in
//! soft gating is made of these.
//!
//! Rows and columns that the pool drops are not computed, and only the winners of the pools are kept for the way back.

use crate::conv::{Conv, ConvShape};
use crate::functional::Wanted;
use crate::instruction_set::InstructionSet;
use crate::pool::{self, PoolShape};
use crate::scratch::Scratch;
use crate::threads::{Images, of, over_images};

/// Parameters of a block. Weights are `[output, input, row, column]`.
#[derive(Clone, Copy, Debug)]
pub struct PooledConv<'a> {
    shape: ConvShape,
    weight: &'a [f32],
    bias: &'a [f32],
}

/// Gradients; those that were not asked for are empty.
#[derive(Debug, Default)]
pub struct Gradients {
    /// With respect to the input.
    pub input: Scratch,
    /// With respect to the weights.
    pub weight: Vec<f32>,
    /// With respect to the bias.
    pub bias: Vec<f32>,
}

impl<'a> PooledConv<'a> {
    /// With these parameters.
    pub fn new(shape: ConvShape, weight: &'a [f32], bias: &'a [f32]) -> Self {
        Self { shape: shape.even(), weight, bias }
    }

    fn pool(&self) -> PoolShape {
        let ConvShape { out_height: height, out_width: width, outputs: channels, .. } = self.shape;
        PoolShape { height, width, channels }
    }

    /// Outputs, and the winners of the pools if `keep`.
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
            conv.forward(of(input, &images, shape.in_size()), &weights, self.bias, &mut y);
            pool::pool_frozen(set, pool, &y, out, keep.then_some(winners));
        });
        (out, winners)
    }

    /// The way back from [`PooledConv::forward`].
    pub fn backward(
        &self,
        set: InstructionSet,
        input: &[f32],
        images: usize,
        winners: &[f32],
        gradient: &[f32],
        wanted: Wanted,
    ) -> Gradients {
        let (shape, pool) = (self.shape, self.pool());
        let images = Images::new(images, shape.group());
        let conv = Conv::new(shape, images.group, set);
        let weights = wanted.input.then(|| conv.pack_transposed(self.weight));
        let zeros = vec![0.0; shape.inputs];
        let mut into = Scratch::take(if wanted.input { images.count * shape.in_size() } else { 0 });
        let sums = if wanted.parameters { shape.weights() + shape.outputs } else { 0 };
        let sums = over_images(images, [&mut into], sums, |images, [into], sums| {
            let place = |numbers| of(numbers, &images, pool.pooled_size());
            let mut dy = Scratch::take(images.len() * pool.size());
            pool::unpool_frozen(set, pool, place(winners), place(gradient), &mut dy);
            if wanted.parameters {
                let (weight, bias) = sums.split_at_mut(shape.weights());
                conv.add_weight_gradient(of(input, &images, shape.in_size()), &dy, weight);
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
