//! Convolution in channels-last layout, and its two gradients.
//!
//! With weights `W[tap][input][output]`, and pairs of pixels `(i, o)` that a tap connects:
//! - forward: `y[o] = b + sum over taps and pairs of x[i] W[tap]`,
//! - transposed: `x[i] = b + sum of y[o] W[tap]^T`, which is the gradient of the input, and also what others call a
//!   transposed convolution (or deconvolution),
//! - gradient of the weights: `W[tap] += sum over pairs of x[i]^T y[o]`.
//!
//! Pairs that padding would make are not in the lists, so nothing is computed for it.
//!
//! Many channels go tap by tap (`conv/deep.rs`); few, like the three of an image, would make sums too short for that
//! and go by rows of taps (`conv/shallow.rs`).

mod deep;
mod pack;
mod shallow;

use pulp::{Simd, WithSimd};

use crate::instruction_set::InstructionSet;
use crate::tile::Pair;
pub(crate) use deep::multiply;
pub use pack::PackedWeights;
pub(crate) use pack::pack;

/// Sizes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Rows of the input.
    pub height: usize,
    /// Columns of the input.
    pub width: usize,
    /// Input channels.
    pub inputs: usize,
    /// Output channels.
    pub outputs: usize,
    /// Side of the kernel.
    pub kernel: usize,
    /// Distance in the input of two neighbouring output pixels.
    pub stride: usize,
    /// Zeros around the input.
    pub padding: usize,
    /// Rows of the output that are computed.
    pub out_height: usize,
    /// Columns of the output that are computed.
    pub out_width: usize,
}

impl ConvShape {
    /// A convolution of `[height, width]` images from `inputs` to `outputs` channels, with stride 1 and the whole
    /// output.
    pub fn new(
        [height, width]: [usize; 2],
        [inputs, outputs]: [usize; 2],
        kernel: usize,
        padding: usize,
    ) -> Self {
        Self { height, width, inputs, outputs, kernel, stride: 1, padding, out_height: 0, out_width: 0 }
            .with_stride(1)
    }

    /// The same convolution with another stride, and the whole output.
    pub fn with_stride(self, stride: usize) -> Self {
        let out = |side: usize| (side + 2 * self.padding + stride).saturating_sub(self.kernel) / stride;
        Self { stride, out_height: out(self.height), out_width: out(self.width), ..self }
    }

    /// The same convolution for images of another size, `[height, width]`.
    pub fn at(self, [height, width]: [usize; 2]) -> Self {
        Self { height, width, ..self }.with_stride(self.stride)
    }

    /// The same convolution without the last row or column of the output where a 2x2 pool drops it.
    pub fn even(self) -> Self {
        Self { out_height: self.out_height / 2 * 2, out_width: self.out_width / 2 * 2, ..self }
    }

    /// Floats of an input image.
    pub fn in_size(&self) -> usize {
        self.height * self.width * self.inputs
    }

    /// Floats of an output image.
    pub fn out_size(&self) -> usize {
        self.out_height * self.out_width * self.outputs
    }

    /// Numbers in the weights.
    pub fn weights(&self) -> usize {
        self.kernel * self.kernel * self.inputs * self.outputs
    }

    /// How many images are worth working on together, so that a tap's weights are used for a while.
    pub fn group(&self) -> usize {
        (256 / (self.height * self.width).max(1)).max(1)
    }

    /// Multiply-adds of one image, without those with padding.
    pub fn multiply_adds(&self) -> usize {
        let reached = |side: usize, out: usize, tap: usize| {
            (0..out).filter(|&o| self.meets(side, o, tap).is_some()).count()
        };
        let taps = |side, out| (0..self.kernel).map(|tap| reached(side, out, tap)).sum::<usize>();
        taps(self.height, self.out_height) * taps(self.width, self.out_width) * self.inputs * self.outputs
    }

    /// The input row (or column) that output row `o` meets at `tap`, if it is not padding.
    fn meets(&self, side: usize, o: usize, tap: usize) -> Option<usize> {
        (o * self.stride + tap).checked_sub(self.padding).filter(|&i| i < side)
    }

    /// Whether there are few input channels, so that sums go by rows of taps.
    fn is_shallow(&self) -> bool {
        self.inputs < 16
    }
}

/// A convolution that is ready to run on groups of images.
#[derive(Debug)]
pub struct Conv {
    /// Sizes of the convolution.
    pub shape: ConvShape,
    set: InstructionSet,
    /// With many channels a list of pairs for each tap; with few, one list whose inputs are offsets in the frame.
    pairs: Vec<Vec<Pair>>,
    group: usize,
}

impl Conv {
    /// Prepares a convolution for groups of up to `group` images.
    pub fn new(shape: ConvShape, group: usize, set: InstructionSet) -> Self {
        // Pairs hold offsets of 32 bits.
        let largest = shape.in_size().max(shape.out_size()).max(shape.frame_size());
        assert!(
            group.saturating_mul(largest) <= u32::MAX as usize,
            "images too large for the kernels: {shape:?}"
        );
        let pairs =
            if shape.is_shallow() { vec![shallow::pairs(&shape, group)] } else { deep::pairs(&shape, group) };
        Self { shape, set, pairs, group }
    }

    /// Packs weights, `[output, input, row, column]`, in the order in which [`Conv::forward`] reads them.
    pub fn pack(&self, weight: &[f32]) -> PackedWeights {
        pack::forward(&self.shape, self.set, weight)
    }

    /// Packs weights, `[output, input, row, column]`, in the order in which [`Conv::transposed`] reads them.
    pub fn pack_transposed(&self, weight: &[f32]) -> PackedWeights {
        pack::transposed(&self.shape, self.set, weight)
    }

    /// Computes `y = bias + conv(x)` for a group of images: `[image, row, column, channel]`, with `bias` `[output]`.
    pub fn forward(&self, x: &[f32], weights: &PackedWeights, bias: &[f32], y: &mut [f32]) {
        self.check(x, y);
        assert_eq!(bias.len(), self.shape.outputs, "a bias per output channel");
        self.set.run(Forward { conv: self, x, weights, bias, y });
    }

    /// Computes `x = bias + the transposed convolution of y` for a group of images, with `bias` `[input]`; without a
    /// bias it is added to `x`.
    pub fn transposed(&self, y: &[f32], weights: &PackedWeights, bias: Option<&[f32]>, x: &mut [f32]) {
        self.check(x, y);
        assert!(bias.is_none_or(|bias| bias.len() == self.shape.inputs), "a bias per input channel");
        self.set.run(Transposed { conv: self, y, weights, bias, x });
    }

    /// Adds to `gradient`, `[row, column, input, output]`, what a group of images contributes.
    pub fn add_weight_gradient(&self, x: &[f32], y: &[f32], gradient: &mut [f32]) {
        self.check(x, y);
        assert_eq!(gradient.len(), self.shape.weights(), "a gradient per weight");
        self.set.run(WeightGradient { conv: self, x, y, gradient });
    }

    /// Reorders a gradient of [`Conv::add_weight_gradient`] as `[output, input, row, column]`.
    pub fn unpack_gradient(&self, gradient: &[f32]) -> Vec<f32> {
        let ConvShape { inputs, outputs, kernel, .. } = self.shape;
        let mut out = vec![0.0; gradient.len()];
        for (at, row) in gradient.chunks_exact(outputs.max(1)).enumerate() {
            let (tap, input) = (at / inputs, at % inputs);
            for (output, &value) in row.iter().enumerate() {
                out[(output * inputs + input) * kernel * kernel + tap] = value;
            }
        }
        out
    }

    /// The pairs of a list that belong to the first `images` images.
    fn pairs_of(&self, list: usize, images: usize) -> &[Pair] {
        &self.pairs[list][..self.pairs[list].len() / self.group * images]
    }

    /// How many images the outputs hold.
    fn images(&self, y: &[f32]) -> usize {
        y.len() / self.shape.out_size().max(1)
    }

    /// Panics if inputs and outputs are not of the same number of images, or of more than the group.
    fn check(&self, x: &[f32], y: &[f32]) {
        let images = self.images(y);
        assert!(images <= self.group, "{images} images in a group of {}", self.group);
        assert_eq!(x.len(), images * self.shape.in_size(), "inputs of {images} images of {:?}", self.shape);
        assert_eq!(y.len(), images * self.shape.out_size(), "outputs of {images} images of {:?}", self.shape);
    }
}

/// A call of [`Conv::forward`].
struct Forward<'a> {
    conv: &'a Conv,
    x: &'a [f32],
    weights: &'a PackedWeights,
    bias: &'a [f32],
    y: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.conv.shape.is_shallow() {
            true => shallow::forward(simd, self),
            false => deep::forward(simd, self),
        }
    }
}

/// A call of [`Conv::transposed`].
struct Transposed<'a> {
    conv: &'a Conv,
    y: &'a [f32],
    weights: &'a PackedWeights,
    bias: Option<&'a [f32]>,
    x: &'a mut [f32],
}

impl WithSimd for Transposed<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.conv.shape.is_shallow() {
            true => shallow::transposed(simd, self),
            false => deep::transposed(simd, self),
        }
    }
}

/// A call of [`Conv::add_weight_gradient`].
struct WeightGradient<'a> {
    conv: &'a Conv,
    x: &'a [f32],
    y: &'a [f32],
    gradient: &'a mut [f32],
}

impl WithSimd for WeightGradient<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.conv.shape.is_shallow() {
            true => shallow::weight_gradient(simd, self),
            false => deep::weight_gradient(simd, self),
        }
    }
}

/// How many pixels a gradient of weights is summed over at a time: their channels stay in the nearest cache.
const PIXELS_AT_ONCE: usize = 48;

/// Sets every pixel to the bias.
#[inline(always)]
fn start_from(bias: &[f32], out: &mut [f32]) {
    if bias.is_empty() {
        return;
    }
    out.chunks_exact_mut(bias.len()).for_each(|pixel| pixel.copy_from_slice(bias));
}
