//! The functional block: convolution, batch norm, ReLU and 2x2 max-pool as one operation, forward and backward.
//!
//! Everything is channels-last. A trainable module uses the statistics of the batch and keeps the output of its
//! convolution for the backward pass, which starts from the gradient of the pooled output. Frozen modules, of which
//! many share an input, have their batch norm folded into their weights; rows and columns that the pool drops are not
//! computed, and at most the winners of the pools are kept.

use std::sync::OnceLock;

use crate::batch_norm::{self, Affine, Backward, Statistics};
use crate::conv::{Conv, ConvShape, PackedWeights};
use crate::instruction_set::InstructionSet;
use crate::max_pool::{self, PoolShape};
use crate::scratch::Scratch;
use crate::threads::{Images, over_images, slice_of};
use crate::winograd::Winograd;

/// Parameters of a functional block. Weights are `[output, input, row, column]`, as burn and PyTorch keep them.
#[derive(Clone, Copy, Debug)]
pub struct Functional<'a> {
    /// Sizes of the convolution.
    pub shape: ConvShape,
    /// Weights of the convolution, `[output, input, row, column]`.
    pub weight: &'a [f32],
    /// Bias of the convolution, `[output]`.
    pub bias: &'a [f32],
    /// Scale of the batch norm, `[output]`.
    pub gamma: &'a [f32],
    /// Shift of the batch norm, `[output]`.
    pub beta: &'a [f32],
}

/// What the forward pass keeps for the backward pass.
#[derive(Debug)]
pub struct Saved {
    /// Output of the convolution, `[image, row, column, output]`.
    convolved: Scratch,
    /// Statistics of the batch, for the running averages.
    pub statistics: Statistics,
}

/// Which gradients a backward pass computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedGradients {
    /// Whether that of the input is wanted; at the first layer it is not.
    pub input: bool,
    /// Whether those of the parameters are wanted.
    pub parameters: bool,
}

/// Gradients of a functional block; those that were not wanted are empty.
///
/// That of the bias is zero and left out: batch norm removes every constant.
#[derive(Debug, Default)]
pub struct Gradients {
    /// Gradient of the input, `[image, row, column, input]`.
    pub input: Scratch,
    /// Gradient of the weights, `[output, input, row, column]`.
    pub weight: Vec<f32>,
    /// Gradient of the scale of the batch norm, `[output]`.
    pub gamma: Vec<f32>,
    /// Gradient of the shift of the batch norm, `[output]`.
    pub beta: Vec<f32>,
}

/// Sizes of a convolution's output, which is pooled.
fn pool_shape(shape: &ConvShape) -> PoolShape {
    PoolShape { height: shape.out_height, width: shape.out_width, channels: shape.outputs }
}

impl Functional<'_> {
    /// Output of the block with the statistics of the batch: `[image, row, column, output]` for an input
    /// `[image, row, column, input]`.
    pub fn train(&self, set: InstructionSet, input: &[f32], images: usize) -> (Scratch, Saved) {
        let shape = self.shape;
        let images = Images::new(images, shape.group());
        let conv = Conv::new(shape, images.group, set);
        let weights = conv.pack(self.weight);
        let pool = pool_shape(&shape);
        let mut convolved = Scratch::take(images.count * shape.out_size());
        let mut moments = Scratch::take(images.count * 2 * shape.outputs);
        over_images(images, [&mut convolved, &mut moments], 0, |images, [y, moments], _| {
            conv.forward(slice_of(input, &images, shape.in_size()), &weights, self.bias, y);
            batch_norm::moments(set, y, shape.out_size(), shape.outputs, moments);
        });
        let statistics = Statistics::combine(&moments, shape.out_height * shape.out_width, shape.outputs);
        let affine = Affine::new(self.gamma, self.beta, &statistics);
        let mut out = Scratch::take(images.count * pool.pooled_size());
        over_images(images, [&mut out], 0, |images, [out], _| {
            max_pool::norm_relu_max_pool(
                set,
                pool,
                &affine,
                slice_of(&convolved, &images, shape.out_size()),
                out,
            );
        });
        (out, Saved { convolved, statistics })
    }

    /// The backward pass of [`Functional::train`], from `gradient`, that of its output.
    pub fn backward(
        &self,
        set: InstructionSet,
        input: &[f32],
        images: usize,
        saved: &Saved,
        gradient: &[f32],
        wanted: WantedGradients,
    ) -> Gradients {
        let shape = self.shape;
        let images = Images::new(images, shape.group());
        let pool = pool_shape(&shape);
        let Saved { convolved, statistics } = saved;
        let affine = Affine::new(self.gamma, self.beta, statistics);
        let sums = over_images(images, [], 2 * shape.outputs, |images, [], sums| {
            let (y, gradient) =
                (slice_of(convolved, &images, pool.size()), slice_of(gradient, &images, pool.pooled_size()));
            max_pool::add_norm_sums(set, pool, &affine, &statistics.mean, y, gradient, sums);
        });
        let back =
            Backward::new(&affine, statistics, &sums, images.count * shape.out_height * shape.out_width);

        let conv = Conv::new(shape, images.group, set);
        let weights = wanted.input.then(|| conv.pack_transposed(self.weight));
        let zeros = vec![0.0; shape.inputs];
        let mut into = Scratch::take(if wanted.input { images.count * shape.in_size() } else { 0 });
        let sums = if wanted.parameters { shape.weights() } else { 0 };
        let sums = over_images(images, [&mut into], sums, |images, [into], sums| {
            let (y, gradient) =
                (slice_of(convolved, &images, pool.size()), slice_of(gradient, &images, pool.pooled_size()));
            let mut dy = Scratch::take(y.len());
            max_pool::norm_relu_max_pool_backward(set, pool, &affine, &back, y, gradient, &mut dy);
            if wanted.parameters {
                conv.add_weight_gradient(slice_of(input, &images, shape.in_size()), &dy, sums);
            }
            if let Some(weights) = &weights {
                conv.transposed(&dy, weights, Some(&zeros), into);
            }
        });
        match wanted.parameters {
            true => Gradients {
                input: into,
                weight: conv.unpack_gradient(&sums),
                gamma: back.gamma,
                beta: back.beta,
            },
            false => Gradients { input: into, ..Gradients::default() },
        }
    }
}

/// Frozen blocks of the same shape that share their input, packed once.
#[derive(Debug)]
pub struct FrozenFunctional {
    shape: ConvShape,
    set: InstructionSet,
    modules: Vec<Folded>,
}

/// A functional block with batch norm folded into its weights.
#[derive(Debug)]
struct Folded {
    weight: Vec<f32>,
    bias: Vec<f32>,
    /// Weights packed for the forward pass: for [`Winograd`] if it suits, else for [`Conv`].
    forward: PackedWeights,
    /// Weights packed for the backward pass, which only modules above a trainable one need.
    transposed: OnceLock<PackedWeights>,
}

impl FrozenFunctional {
    /// Folds and packs blocks of one shape with their running statistics.
    pub fn new(shape: ConvShape, set: InstructionSet, blocks: &[(Functional<'_>, Statistics)]) -> Self {
        let pack = |weight: &[f32]| match Winograd::forward(&shape, set) {
            Some(winograd) => winograd.pack(weight),
            None => Conv::new(shape, 1, set).pack(weight),
        };
        let fold = |(block, statistics): &(Functional<'_>, Statistics)| {
            let affine = Affine::new(block.gamma, block.beta, statistics);
            let mut weight = block.weight.to_vec();
            let per_output = (weight.len() / shape.outputs.max(1)).max(1);
            for (weights, scale) in weight.chunks_exact_mut(per_output).zip(&affine.scale) {
                weights.iter_mut().for_each(|weight| *weight *= scale);
            }
            let bias = block.bias.iter().zip(&affine.scale).zip(&affine.shift);
            let bias = bias.map(|((bias, scale), shift)| bias * scale + shift).collect();
            Folded { forward: pack(&weight), bias, weight, transposed: OnceLock::new() }
        };
        Self { shape, set, modules: blocks.iter().map(fold).collect() }
    }

    /// How many blocks there are, one for each module.
    pub fn modules(&self) -> usize {
        self.modules.len()
    }

    /// Rows and columns of the outputs for images of `[row, column]` pixels.
    pub fn pooled(&self, image: [usize; 2]) -> [usize; 2] {
        let shape = self.shape.at(image);
        [shape.out_height / 2, shape.out_width / 2]
    }

    /// Outputs, `[module, image, row, column, output]`, for an input `[image, row, column, input]` with `image` rows
    /// and columns; and, if `keep`, the winners of the pools for the backward pass.
    pub fn forward(&self, image: [usize; 2], input: &[f32], images: usize, keep: bool) -> (Scratch, Scratch) {
        let (shape, set) = (self.shape.at(image).even(), self.set);
        let pool = pool_shape(&shape);
        let group = shape.group();
        let count = self.modules.len() * images;
        let all = Images { count, group, per_module: images };
        let convolve = Convolve::new(Winograd::forward(&shape, set), shape, group, set);
        let mut out = Scratch::take(count * pool.pooled_size());
        let mut winners = Scratch::take(if keep { out.len() } else { 0 });
        over_images(all, [&mut out, &mut winners], 0, |at, [out, winners], _| {
            let module = &self.modules[at.start / images];
            let start = at.start % images;
            let mut y = Scratch::take(at.len() * shape.out_size());
            let input = slice_of(input, &(start..start + at.len()), shape.in_size());
            convolve.forward(input, module, &mut y);
            max_pool::relu_max_pool(set, pool, &y, out, keep.then_some(winners));
        });
        (out, winners)
    }

    /// The backward pass: the gradient of the shared input from that of all outputs.
    pub fn backward(&self, image: [usize; 2], images: usize, winners: &[f32], gradient: &[f32]) -> Scratch {
        let (shape, set) = (self.shape.at(image).even(), self.set);
        let pool = pool_shape(&shape);
        let group = shape.group();
        let convolve = Convolve::new(Winograd::transposed(&shape, set), shape, group, set);
        let mut into = Scratch::take(images * shape.in_size());
        over_images(Images::new(images, group), [&mut into], 0, |at, [into], _| {
            let size = at.len() * shape.out_size();
            let gradients = (0..self.modules.len()).map(|number| {
                let place = number * images + at.start..number * images + at.end;
                let (winners, gradient) = (
                    slice_of(winners, &place, pool.pooled_size()),
                    slice_of(gradient, &place, pool.pooled_size()),
                );
                let mut dy = Scratch::take(size);
                max_pool::relu_max_pool_backward(set, pool, winners, gradient, &mut dy);
                dy
            });
            convolve.transposed(self.modules.iter().zip(gradients), into);
        });
        into
    }
}

/// How frozen modules convolve groups of images.
enum Convolve {
    Direct(Conv),
    Winograd(Winograd),
}

impl Convolve {
    /// By Winograd's algorithm if it suits, else directly.
    fn new(winograd: Option<Winograd>, shape: ConvShape, group: usize, set: InstructionSet) -> Self {
        winograd.map_or_else(|| Self::Direct(Conv::new(shape, group, set)), Self::Winograd)
    }

    /// Computes the convolution of one module.
    fn forward(&self, input: &[f32], module: &Folded, y: &mut [f32]) {
        match self {
            Self::Direct(conv) => conv.forward(input, &module.forward, &module.bias, y),
            Self::Winograd(winograd) => {
                let images = winograd.images(input);
                let mut patches = Scratch::take(winograd.patches_size(images));
                let mut products = Scratch::take(winograd.products_size(images));
                winograd.transform(input, &mut patches);
                winograd.multiply(&patches, &module.forward, true, &mut products);
                winograd.finish(&products, &module.bias, y);
            }
        }
    }

    /// Gradient of the shared input: the sum over all modules of the transposed convolution of their gradients `dy`.
    fn transposed<'a>(&self, modules: impl Iterator<Item = (&'a Folded, Scratch)>, into: &mut [f32]) {
        match self {
            Self::Direct(conv) => {
                let zeros = vec![0.0; conv.shape.inputs];
                for (number, (module, dy)) in modules.enumerate() {
                    let weights = module.transposed.get_or_init(|| conv.pack_transposed(&module.weight));
                    conv.transposed(&dy, weights, (number == 0).then_some(&zeros), into);
                }
            }
            Self::Winograd(winograd) => {
                let (mut patches, mut products) = (Scratch::default(), Scratch::default());
                for (number, (module, dy)) in modules.enumerate() {
                    if number == 0 {
                        patches = Scratch::take(winograd.patches_size(winograd.images(&dy)));
                        products = Scratch::take(winograd.products_size(winograd.images(&dy)));
                    }
                    let weights = module.transposed.get_or_init(|| winograd.pack_transposed(&module.weight));
                    winograd.transform(&dy, &mut patches);
                    winograd.multiply(&patches, weights, number == 0, &mut products);
                }
                winograd.finish(&products, &vec![0.0; winograd.outputs()], into);
            }
        }
    }
}
