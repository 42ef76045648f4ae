//! The decoder of a module's structural part: it reconstructs the module's input from its output, with a reconstruction
//! loss for each sample.
//!
//! `u = deconvolution(o)` with 2x2 kernels and stride 2, two pixels cropped on each side; `v = relu(batch norm(u))`;
//! `z = deconvolution(v)` with 3x3 or 4x4 kernels; `loss = mean((sigmoid(z) - target)^2)` over each sample.
//! A deconvolution is the transposed form of a convolution, see [`crate::conv`]. The crop removes just what the outer
//! ring of `o` would produce, so it is never computed.

mod frozen;

use pulp::{Simd, WithSimd};

use crate::batch_norm::{self, Affine, Backward, Statistics};
use crate::conv::{Conv, ConvShape};
use crate::functional::WantedGradients;
use crate::instruction_set::InstructionSet;
use crate::max_pool::relu;
use crate::scratch::Scratch;
use crate::sigmoid;
use crate::threads::{Images, over_images, slice_of};
pub use frozen::FrozenDecoder;

/// Sizes of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderShape {
    /// Rows and columns of the module's output.
    pub side: [usize; 2],
    /// Channels of the module's output.
    pub inputs: usize,
    /// Channels between the two deconvolutions.
    pub hidden: usize,
    /// Channels of the target.
    pub outputs: usize,
    /// Side of the second kernel.
    pub kernel: usize,
}

impl DecoderShape {
    /// Rows and columns between the two deconvolutions.
    pub fn hidden_side(&self) -> [usize; 2] {
        self.side.map(|side| 2 * side - 4)
    }

    /// Rows and columns of the target.
    pub fn target_side(&self) -> [usize; 2] {
        self.hidden_side().map(|side| side + self.kernel - 1)
    }

    /// The convolution whose transposed form is the first deconvolution.
    pub fn first(&self) -> ConvShape {
        ConvShape::new(self.hidden_side(), [self.hidden, self.inputs], 2, 2).with_stride(2)
    }

    /// The convolution whose transposed form is the second deconvolution.
    pub fn second(&self) -> ConvShape {
        ConvShape::new(self.target_side(), [self.outputs, self.hidden], self.kernel, 0)
    }
}

/// Parameters of a decoder. Weights are `[input, output, row, column]`, as burn and PyTorch keep them.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    /// Sizes of the decoder.
    pub shape: DecoderShape,
    /// Weights of the first deconvolution, `[input, hidden, 2, 2]`.
    pub first: &'a [f32],
    /// Bias of the first deconvolution, `[hidden]`.
    pub first_bias: &'a [f32],
    /// Scale of the batch norm, `[hidden]`.
    pub gamma: &'a [f32],
    /// Shift of the batch norm, `[hidden]`.
    pub beta: &'a [f32],
    /// Weights of the second deconvolution, `[hidden, output, row, column]`.
    pub second: &'a [f32],
    /// Bias of the second deconvolution, `[output]`.
    pub second_bias: &'a [f32],
}

/// What the forward pass keeps for the backward pass.
#[derive(Debug)]
pub struct Saved {
    /// Output `u` of the first deconvolution, `[image, row, column, hidden]`.
    hidden: Scratch,
    /// Derivative of each sample's loss by `z`, `[image, row, column, output]`.
    errors: Scratch,
    /// Statistics of the batch, for the running averages.
    pub statistics: Statistics,
}

/// Gradients of a decoder; those that were not wanted are empty. That of the first bias is zero and left out, as batch
/// norm removes every constant.
#[derive(Debug, Default)]
pub struct Gradients {
    /// Gradient of the module's output, `[image, row, column, channel]`.
    pub input: Scratch,
    /// Gradient of the weights of the first deconvolution, `[input, hidden, 2, 2]`.
    pub first: Vec<f32>,
    /// Gradient of the scale of the batch norm, `[hidden]`.
    pub gamma: Vec<f32>,
    /// Gradient of the shift of the batch norm, `[hidden]`.
    pub beta: Vec<f32>,
    /// Gradient of the weights of the second deconvolution, `[hidden, output, row, column]`.
    pub second: Vec<f32>,
    /// Gradient of the bias of the second deconvolution, `[output]`.
    pub second_bias: Vec<f32>,
}

/// The two convolutions whose transposed forms are a decoder's deconvolutions, ready for groups of images.
struct Convs {
    first: Conv,
    second: Conv,
    group: usize,
}

impl Convs {
    fn new(shape: &DecoderShape, set: InstructionSet) -> Self {
        let group = shape.first().group();
        Self {
            first: Conv::new(shape.first(), group, set),
            second: Conv::new(shape.second(), group, set),
            group,
        }
    }

    /// Floats of a sample's module output, hidden map and target.
    fn sizes(&self) -> [usize; 3] {
        let (first, second) = (self.first.shape, self.second.shape);
        [first.out_size(), first.in_size(), second.in_size()]
    }
}

impl Decoder<'_> {
    /// Reconstruction losses, `[image]`, with the statistics of the batch. The input and the target are
    /// `[image, row, column, channel]`.
    pub fn train(
        &self,
        set: InstructionSet,
        input: &[f32],
        target: &[f32],
        images: usize,
    ) -> (Vec<f32>, Saved) {
        let convs = Convs::new(&self.shape, set);
        let [in_size, hidden_size, target_size] = convs.sizes();
        let images = Images::new(images, convs.group);
        let channels = self.shape.hidden;
        let weights = convs.first.pack_transposed(self.first);
        let mut hidden = Scratch::take(images.count * hidden_size);
        let mut moments = Scratch::take(images.count * 2 * channels);
        over_images(images, [&mut hidden, &mut moments], 0, |images, [u, moments], _| {
            convs.first.transposed(slice_of(input, &images, in_size), &weights, Some(self.first_bias), u);
            batch_norm::moments(set, u, hidden_size, channels, moments);
        });
        let statistics = Statistics::combine(&moments, hidden_size / channels, channels);
        let affine = Affine::new(self.gamma, self.beta, &statistics);
        let weights = convs.second.pack_transposed(self.second);
        let mut errors = Scratch::take(images.count * target_size);
        let mut losses = vec![0.0; images.count];
        over_images(images, [&mut errors, &mut losses], 0, |images, [z, losses], _| {
            let u = slice_of(&hidden, &images, hidden_size);
            let mut v = Scratch::take(u.len());
            set.run(Activate { affine: &affine, u, v: &mut v });
            convs.second.transposed(&v, &weights, Some(self.second_bias), z);
            errors_and_losses(set, z, slice_of(target, &images, target_size), losses);
        });
        (losses, Saved { hidden, errors, statistics })
    }

    /// The backward pass of [`Decoder::train`], from `gradient`, `[image]`, of the losses.
    pub fn backward(
        &self,
        set: InstructionSet,
        input: &[f32],
        saved: &Saved,
        gradient: &[f32],
        wanted: WantedGradients,
    ) -> Gradients {
        let convs = Convs::new(&self.shape, set);
        let [in_size, hidden_size, target_size] = convs.sizes();
        let images = Images::new(gradient.len(), convs.group);
        let DecoderShape { hidden: channels, outputs, .. } = self.shape;
        let Saved { hidden, errors, statistics } = saved;
        let affine = Affine::new(self.gamma, self.beta, statistics);

        // Down to the hidden map, with the sums for the backward pass of batch norm.
        let weights = convs.second.pack(self.second);
        let zeros = vec![0.0; channels];
        let mut dv = Scratch::take(images.count * hidden_size);
        let size = self.second.len();
        let sums = over_images(images, [&mut dv], size + outputs + 2 * channels, |images, [dv], sums| {
            let u = slice_of(hidden, &images, hidden_size);
            let mut dz = Scratch::take(images.len() * target_size);
            scale_errors(&gradient[images.clone()], slice_of(errors, &images, target_size), &mut dz);
            let (second, sums) = sums.split_at_mut(size);
            let (bias, sums) = sums.split_at_mut(outputs);
            if wanted.parameters {
                let mut v = Scratch::take(u.len());
                set.run(Activate { affine: &affine, u, v: &mut v });
                convs.second.add_weight_gradient(&dz, &v, second);
                batch_norm::add_pixels(set, &dz, bias);
            }
            convs.second.forward(&dz, &weights, &zeros, dv);
            set.run(MaskAndSum { affine: &affine, mean: &statistics.mean, u, dv, sums });
        });
        let (second, sums) = sums.split_at(size);
        let (second_bias, sums) = sums.split_at(outputs);
        let back = Backward::new(&affine, statistics, sums, images.count * hidden_size / channels);

        // Through batch norm and the first deconvolution.
        let weights = wanted.input.then(|| convs.first.pack(self.first));
        let zeros = vec![0.0; self.shape.inputs];
        let mut into = Scratch::take(if wanted.input { images.count * in_size } else { 0 });
        let first = if wanted.parameters { self.first.len() } else { 0 };
        let first = over_images(images, [&mut into], first, |images, [into], first| {
            let mut du = Scratch::take(images.len() * hidden_size);
            let (u, dv) = (slice_of(hidden, &images, hidden_size), slice_of(&dv, &images, hidden_size));
            set.run(ThroughNorm { back: &back, u, dv, du: &mut du });
            if wanted.parameters {
                convs.first.add_weight_gradient(&du, slice_of(input, &images, in_size), first);
            }
            if let Some(weights) = &weights {
                convs.first.forward(&du, weights, &zeros, into);
            }
        });
        match wanted.parameters {
            true => Gradients {
                input: into,
                first: convs.first.unpack_gradient(&first),
                second: convs.second.unpack_gradient(second),
                second_bias: second_bias.to_vec(),
                gamma: back.gamma,
                beta: back.beta,
            },
            false => Gradients { input: into, ..Gradients::default() },
        }
    }
}

/// Turns `z` of some samples into derivatives of their losses, and gives the losses.
fn errors_and_losses(set: InstructionSet, z: &mut [f32], target: &[f32], losses: &mut [f32]) {
    let size = (z.len() / losses.len().max(1)).max(1);
    for ((z, target), loss) in z.chunks_exact_mut(size).zip(target.chunks_exact(size)).zip(losses) {
        *loss = sigmoid::error(set, z, target);
    }
}

/// Computes `dz`, the gradient of `z`: each sample's derivative, times the gradient of its loss.
fn scale_errors(gradient: &[f32], errors: &[f32], dz: &mut [f32]) {
    let size = (errors.len() / gradient.len().max(1)).max(1);
    for ((errors, dz), gradient) in errors.chunks_exact(size).zip(dz.chunks_exact_mut(size)).zip(gradient) {
        dz.iter_mut().zip(errors).for_each(|(dz, error)| *dz = gradient * error);
    }
}

/// Computes `v = relu(scale u + shift)`.
struct Activate<'a> {
    affine: &'a Affine,
    u: &'a [f32],
    v: &'a mut [f32],
}

impl WithSimd for Activate<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Affine { scale, shift } = self.affine;
        let channels = scale.len();
        for (v, u) in self.v.chunks_exact_mut(channels).zip(self.u.chunks_exact(channels)) {
            for (((v, u), scale), shift) in v.iter_mut().zip(u).zip(scale).zip(shift) {
                *v = relu(scale * u + shift);
            }
        }
    }
}

/// Sets `dv` to zero where ReLU gave zero, and adds to `sums`, `[2, channel]`, the sums of `dv` and of `dv (u - mean)`.
struct MaskAndSum<'a> {
    affine: &'a Affine,
    mean: &'a [f32],
    u: &'a [f32],
    dv: &'a mut [f32],
    sums: &'a mut [f32],
}

impl WithSimd for MaskAndSum<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let channels = self.mean.len();
        let (scale, shift) = (&self.affine.scale[..channels], &self.affine.shift[..channels]);
        let (beta, gamma) = self.sums.split_at_mut(channels);
        for (dv, u) in self.dv.chunks_exact_mut(channels).zip(self.u.chunks_exact(channels)) {
            let gamma = &mut gamma[..channels];
            for k in 0..channels {
                let masked = if scale[k] * u[k] + shift[k] <= 0.0 { 0.0 } else { dv[k] };
                dv[k] = masked;
                beta[k] += masked;
                gamma[k] += masked * (u[k] - self.mean[k]);
            }
        }
    }
}

/// The backward pass of batch norm, `du = scale dv + constant - slope u`.
struct ThroughNorm<'a> {
    back: &'a Backward,
    u: &'a [f32],
    dv: &'a [f32],
    du: &'a mut [f32],
}

impl WithSimd for ThroughNorm<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let channels = self.back.scale.len();
        let (scale, slope) = (&self.back.scale[..channels], &self.back.slope[..channels]);
        let constant = &self.back.constant[..channels];
        let pixels = self.u.chunks_exact(channels).zip(self.dv.chunks_exact(channels));
        for ((u, dv), du) in pixels.zip(self.du.chunks_exact_mut(channels)) {
            for k in 0..channels {
                du[k] = scale[k] * dv[k] + constant[k] - slope[k] * u[k];
            }
        }
    }
}
