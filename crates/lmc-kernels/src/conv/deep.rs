//! Many channels: tap by tap. A tap's weights for a block of columns stay in the nearest cache while all pixels that
//! the tap connects pass by.

use pulp::Simd;

use super::pack::PackedWeights;
use super::{Conv, ConvShape, Forward, PIXELS_AT_ONCE, Transposed, WeightGradient, start_from};
use crate::tile::{Channels, Pair, Pixels, Start, channels, most_vectors, pixels};

/// The pairs of each tap, image by image.
pub fn pairs(shape: &ConvShape, group: usize) -> Vec<Vec<Pair>> {
    let tap = |row: usize, column: usize| {
        let columns: Vec<(usize, usize)> = (0..shape.out_width)
            .filter_map(|out| Some((shape.meets(shape.width, out, column)?, out)))
            .collect();
        let mut pairs = Vec::new();
        for image in 0..group {
            for out in 0..shape.out_height {
                let Some(in_row) = shape.meets(shape.height, out, row) else { continue };
                pairs.extend(columns.iter().map(|&(column, out_column)| Pair {
                    input: (image * shape.in_size() + (in_row * shape.width + column) * shape.inputs) as u32,
                    output: (image * shape.out_size() + (out * shape.out_width + out_column) * shape.outputs)
                        as u32,
                }));
            }
        }
        pairs
    };
    (0..shape.kernel * shape.kernel).map(|at| tap(at / shape.kernel, at % shape.kernel)).collect()
}

/// See [`Conv::forward`].
#[inline(always)]
pub fn forward<S: Simd>(simd: S, work: Forward<'_>) {
    let Forward { conv, x, weights, bias, y } = work;
    start_from(bias, y);
    let images = conv.images(y);
    let rows = |pair: &Pair| (pair.input as usize, pair.output as usize);
    // SAFETY: `check` made sure of the lengths of `x` and `y`, and `pairs` of offsets inside them.
    unsafe { all_taps(simd, conv, x, weights, images, rows, y) };
}

/// See [`Conv::transposed`].
#[inline(always)]
pub fn transposed<S: Simd>(simd: S, work: Transposed<'_>) {
    let Transposed { conv, y, weights, bias, x } = work;
    if let Some(bias) = bias {
        start_from(bias, x);
    }
    let images = conv.images(y);
    let rows = |pair: &Pair| (pair.output as usize, pair.input as usize);
    // SAFETY: as in `forward`.
    unsafe { all_taps(simd, conv, y, weights, images, rows, x) };
}

/// Computes `to[row] += from[row] W[tap]` for all taps and the rows that their pairs make.
///
/// # Safety
/// As for [`multiply`], for every row of every tap.
#[inline(always)]
unsafe fn all_taps<S: Simd>(
    simd: S,
    conv: &Conv,
    from: &[f32],
    weights: &PackedWeights,
    images: usize,
    rows: impl Fn(&Pair) -> (usize, usize) + Copy,
    to: &mut [f32],
) {
    for tap in 0..conv.pairs.len() {
        let rows = conv.pairs_of(tap, images).iter().map(rows);
        // SAFETY: the caller's promise.
        unsafe { multiply(simd, from, weights, tap, &rows, Start::Existing, to) };
    }
}

/// Computes `to[row] = start + from[row] W[tap]` for all rows, given as `(offset in from, offset in to)`.
///
/// # Safety
/// `from` holds as many floats as the sums are long, and `to` all columns, from every offset on.
#[inline(always)]
pub unsafe fn multiply<S: Simd>(
    simd: S,
    from: &[f32],
    weights: &PackedWeights,
    tap: usize,
    rows: &(impl ExactSizeIterator<Item = (usize, usize)> + Clone),
    start: Start<'_>,
    to: &mut [f32],
) {
    // 16 kB of weights at a time: they share the nearest cache with the pixels.
    let at_once = 4096 / (most_vectors::<S>() * S::F32_LANES);
    let chunks = weights.steps.div_ceil(at_once);
    for block in weights.blocks() {
        for chunk in 0..chunks {
            let steps = weights.steps * chunk / chunks..weights.steps * (chunk + 1) / chunks;
            let tile = Pixels {
                a: &from[steps.start.min(from.len())..],
                b: weights.rows(tap, block, steps.clone()),
                steps: steps.len(),
                stretches: 1,
                distance: 0,
                first: block.first,
                columns: block.columns,
                start: match start {
                    Start::From(numbers) if chunk == 0 => Start::From(&numbers[..block.columns]),
                    _ => Start::Existing,
                },
            };
            // SAFETY: the caller's promise; `a` starts with the chunk's first channel.
            unsafe { pixels(simd, &tile, rows.clone(), to) };
        }
    }
}

/// See [`Conv::add_weight_gradient`].
#[inline(always)]
pub fn weight_gradient<S: Simd>(simd: S, work: WeightGradient<'_>) {
    let WeightGradient { conv, x, y, gradient } = work;
    let ConvShape { inputs, outputs, .. } = conv.shape;
    let images = conv.images(y);
    for (tap, gradient) in gradient.chunks_exact_mut((inputs * outputs).max(1)).enumerate() {
        for pairs in conv.pairs_of(tap, images).chunks(PIXELS_AT_ONCE) {
            let most = most_vectors::<S>() * S::F32_LANES;
            for first in (0..outputs).step_by(most) {
                let columns = most.min(outputs - first);
                let tile = Channels { a: x, b: y, pairs, first, columns, stride: outputs };
                // SAFETY: `check` made sure of the lengths of `x` and `y`, and `pairs` of offsets inside them.
                unsafe { channels(simd, &tile, inputs, gradient) };
            }
        }
    }
}
