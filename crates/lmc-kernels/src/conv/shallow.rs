//! Few channels: by rows of taps. In a frame, an image with its padding around it, the taps of a kernel row are
//! neighbours in memory: one sum per kernel row.

use pulp::Simd;

use super::{ConvShape, Forward, PIXELS_AT_ONCE, Transposed, WeightGradient, start_from};
use crate::scratch::Scratch;
use crate::tile::{Channels, Pair, Pixels, Start, channels, most_vectors, pixels};

/// All output pixels, with the offset in the frame of their first tap.
pub fn pairs(shape: &ConvShape, group: usize) -> Vec<Pair> {
    let pixels = shape.out_height * shape.out_width;
    let pair = |at: usize| {
        let (image, pixel) = (at / pixels, at % pixels);
        let (row, column) = (pixel / shape.out_width, pixel % shape.out_width);
        let corner = (row * shape.frame_width() + column) * shape.stride * shape.inputs;
        Pair { input: (image * shape.frame_size() + corner) as u32, output: (at * shape.outputs) as u32 }
    };
    (0..group * pixels).map(pair).collect()
}

/// Floats of a patch, everything that an output pixel sees, filled up to whole vectors.
pub fn patch_size(shape: &ConvShape) -> usize {
    (shape.kernel * shape.kernel * shape.inputs).next_multiple_of(16)
}

impl ConvShape {
    /// Columns of an image with its padding.
    fn frame_width(&self) -> usize {
        self.width + 2 * self.padding
    }

    /// Floats of an image with its padding.
    pub(super) fn frame_size(&self) -> usize {
        (self.height + 2 * self.padding) * self.frame_width() * self.inputs
    }

    /// Offsets of the rows of the images in their frames.
    fn row_offsets(self, images: usize) -> impl Iterator<Item = usize> {
        let offset = move |image: usize, row: usize| {
            let row = (row + self.padding) * self.frame_width() + self.padding;
            image * self.frame_size() + row * self.inputs
        };
        (0..images * self.height).map(move |at| offset(at / self.height, at % self.height))
    }

    /// Puts images into their frames, in `memory`; without padding the images are their own frames.
    fn frames<'a>(&self, x: &'a [f32], images: usize, memory: &'a mut Scratch) -> &'a [f32] {
        if self.padding == 0 {
            return x;
        }
        *memory = Scratch::zeros(images * self.frame_size());
        let length = self.width * self.inputs;
        for (start, line) in self.row_offsets(images).zip(x.chunks_exact(length)) {
            memory[start..start + length].copy_from_slice(line);
        }
        memory
    }
}

/// See [`Conv::forward`](super::Conv::forward).
#[inline(always)]
pub fn forward<S: Simd>(simd: S, work: Forward<'_>) {
    let Forward { conv, x, weights, bias, y } = work;
    let shape = &conv.shape;
    let images = conv.images(y);
    let mut memory = Scratch::default();
    let frames = shape.frames(x, images, &mut memory);
    for block in weights.blocks() {
        let tile = Pixels {
            a: frames,
            b: weights.rows(0, block, 0..weights.steps),
            steps: shape.kernel * shape.inputs,
            stretches: shape.kernel,
            distance: shape.frame_width() * shape.inputs,
            first: block.first,
            columns: block.columns,
            start: Start::From(&bias[block.first..block.first + block.columns]),
        };
        let rows = conv.pairs_of(0, images).iter().map(|pair| (pair.input as usize, pair.output as usize));
        // SAFETY: frames hold all taps of all output pixels, `y` all their channels (`check`, `pairs`).
        unsafe { pixels(simd, &tile, rows, y) };
    }
}

/// See [`Conv::transposed`](super::Conv::transposed). What an output pixel sends to each of its taps is computed as one
/// row, a patch, and then added where it belongs.
#[inline(always)]
pub fn transposed<S: Simd>(simd: S, work: Transposed<'_>) {
    let Transposed { conv, y, weights, bias, x } = work;
    let shape = &conv.shape;
    let images = conv.images(y);
    let size = patch_size(shape);
    let zeros = [0.0; 64];
    let mut patches = Scratch::take(PIXELS_AT_ONCE * size);
    let mut frames = Scratch::zeros(images * shape.frame_size());
    let steps = shape.kernel * shape.inputs;
    let distance = shape.frame_width() * shape.inputs;
    for pairs in conv.pairs_of(0, images).chunks(PIXELS_AT_ONCE) {
        for block in weights.blocks() {
            let tile = Pixels {
                a: y,
                b: weights.rows(0, block, 0..weights.steps),
                steps: weights.steps,
                stretches: 1,
                distance: 0,
                first: block.first,
                columns: block.columns,
                start: Start::From(&zeros[..block.columns]),
            };
            let rows = pairs.iter().enumerate().map(|(at, pair)| (pair.output as usize, at * size));
            // SAFETY: `y` holds all channels of its pixels, `patches` a patch for each pair of the chunk.
            unsafe { pixels(simd, &tile, rows, &mut patches) };
        }
        for (pair, patch) in pairs.iter().zip(patches.chunks_exact(size)) {
            for (row, taps) in patch.chunks_exact(steps).take(shape.kernel).enumerate() {
                let start = pair.input as usize + row * distance;
                frames[start..start + steps].iter_mut().zip(taps).for_each(|(sum, tap)| *sum += tap);
            }
        }
    }
    if let Some(bias) = bias {
        start_from(bias, x);
    }
    let length = shape.width * shape.inputs;
    for (start, line) in shape.row_offsets(images).zip(x.chunks_exact_mut(length.max(1))) {
        line.iter_mut().zip(&frames[start..start + length]).for_each(|(value, sum)| *value += sum);
    }
}

/// See [`Conv::add_weight_gradient`](super::Conv::add_weight_gradient).
#[inline(always)]
pub fn weight_gradient<S: Simd>(simd: S, work: WeightGradient<'_>) {
    let WeightGradient { conv, x, y, gradient } = work;
    let shape = &conv.shape;
    let images = conv.images(y);
    let mut memory = Scratch::default();
    let frames = shape.frames(x, images, &mut memory);
    let rows = shape.kernel * shape.inputs;
    let most = most_vectors::<S>() * S::F32_LANES;
    for pairs in conv.pairs_of(0, images).chunks(PIXELS_AT_ONCE) {
        for (row, gradient) in gradient.chunks_exact_mut((rows * shape.outputs).max(1)).enumerate() {
            for first in (0..shape.outputs).step_by(most) {
                let columns = most.min(shape.outputs - first);
                let a = &frames[row * shape.frame_width() * shape.inputs..];
                let tile = Channels { a, b: y, pairs, first, columns, stride: shape.outputs };
                // SAFETY: frames hold all taps of all output pixels, `y` all their channels (`check`, `pairs`).
                unsafe { channels(simd, &tile, rows, gradient) };
            }
        }
    }
}
