//! Batch norm, ReLU and 2x2 max-pool in one pass, and the backward pass through all three.
//!
//! The pass forward keeps nothing: the backward pass finds the winners again from `y`, what batch norm was given.

use pulp::{Simd, WithSimd};

use super::{PoolShape, larger, relu};
use crate::batch_norm::{Affine, Backward};
use crate::instruction_set::InstructionSet;

/// Computes `out = maxpool(relu(scale y + shift))` for some images: `[image, row, column, channel]`, of half as many
/// rows and columns in `out`.
pub fn norm_relu_max_pool(
    set: InstructionSet,
    shape: PoolShape,
    affine: &Affine,
    y: &[f32],
    out: &mut [f32],
) {
    struct Pool<'a>(PoolShape, &'a Affine, &'a [f32], &'a mut [f32]);
    impl WithSimd for Pool<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(shape, affine, y, out) = self;
            let channels = shape.channels;
            let (scale, shift) = (&affine.scale[..channels], &affine.shift[..channels]);
            for (pool, out) in out.chunks_exact_mut(channels).enumerate() {
                let [a, b, c, d] = shape.window(y, pool);
                for k in 0..channels {
                    let [a, b, c, d] = [a[k], b[k], c[k], d[k]].map(|y| scale[k] * y + shift[k]);
                    out[k] = relu(larger(larger(a, b), larger(c, d)));
                }
            }
        }
    }
    for (y, out) in y.chunks_exact(shape.size()).zip(out.chunks_exact_mut(shape.pooled_size())) {
        set.run(Pool(shape, affine, y, out));
    }
}

/// Adds to `sums`, `[2, channel]`, what the backward pass of batch norm needs: for each channel the sum of `dz`, then
/// that of `dz (y - mean)`. Here `gradient` is that of the pooled output, and `dz` that of batch norm's output.
pub fn add_norm_sums(
    set: InstructionSet,
    shape: PoolShape,
    affine: &Affine,
    mean: &[f32],
    y: &[f32],
    gradient: &[f32],
    sums: &mut [f32],
) {
    struct Sums<'a>(PoolShape, &'a Affine, &'a [f32], &'a [f32], &'a [f32], &'a mut [f32]);
    impl WithSimd for Sums<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(shape, affine, mean, y, gradient, sums) = self;
            let channels = shape.channels;
            let (scale, shift, mean) =
                (&affine.scale[..channels], &affine.shift[..channels], &mean[..channels]);
            let (beta, gamma) = sums.split_at_mut(channels);
            for (pool, gradient) in gradient.chunks_exact(channels).enumerate() {
                let [a, b, c, d] = shape.window(y, pool);
                let gamma = &mut gamma[..channels];
                for k in 0..channels {
                    let (mut y, mut value) = (a[k], scale[k] * a[k] + shift[k]);
                    for other in [b[k], c[k], d[k]] {
                        let candidate = scale[k] * other + shift[k];
                        y = if candidate > value { other } else { y };
                        value = if candidate > value { candidate } else { value };
                    }
                    let dz = if value > 0.0 { gradient[k] } else { 0.0 };
                    beta[k] += dz;
                    gamma[k] += dz * (y - mean[k]);
                }
            }
        }
    }
    for (y, gradient) in y.chunks_exact(shape.size()).zip(gradient.chunks_exact(shape.pooled_size())) {
        set.run(Sums(shape, affine, mean, y, gradient, sums));
    }
}

/// The backward pass through max-pool, ReLU and batch norm: from `gradient`, that of the pooled output, to `dy`, that
/// of `y`, for all pixels of some images.
pub fn norm_relu_max_pool_backward(
    set: InstructionSet,
    shape: PoolShape,
    affine: &Affine,
    back: &Backward,
    y: &[f32],
    gradient: &[f32],
    dy: &mut [f32],
) {
    struct Spread<'a>(PoolShape, &'a Affine, &'a Backward, &'a [f32], &'a [f32], &'a mut [f32]);
    impl WithSimd for Spread<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(shape, affine, back, y, gradient, dy) = self;
            let channels = shape.channels;
            let (scale, shift) = (&affine.scale[..channels], &affine.shift[..channels]);
            let (outer, slope) = (&back.scale[..channels], &back.slope[..channels]);
            let constant = &back.constant[..channels];
            for (pool, gradient) in gradient.chunks_exact(channels).enumerate() {
                let [a, b, c, d] = shape.window(y, pool);
                let [to_a, to_b, to_c, to_d] = shape.window_mut(dy, pool);
                for k in 0..channels {
                    let y = [a[k], b[k], c[k], d[k]];
                    let z = y.map(|y| scale[k] * y + shift[k]);
                    let larger = |a: f32, b: f32| if a > b { a } else { b };
                    let largest = larger(larger(z[0], z[1]), larger(z[2], z[3]));
                    let rest = y.map(|y| constant[k] - slope[k] * y);
                    let left = if largest > 0.0 { outer[k] * gradient[k] } else { 0.0 };
                    to_a[k] = rest[0] + if z[0] == largest { left } else { 0.0 };
                    let left = if z[0] == largest { 0.0 } else { left };
                    to_b[k] = rest[1] + if z[1] == largest { left } else { 0.0 };
                    let left = if z[1] == largest { 0.0 } else { left };
                    to_c[k] = rest[2] + if z[2] == largest { left } else { 0.0 };
                    let left = if z[2] == largest { 0.0 } else { left };
                    to_d[k] = rest[3] + left;
                }
            }
            for start in shape.left_over() {
                let (y, dy) = (&y[start..start + channels], &mut dy[start..start + channels]);
                for k in 0..channels {
                    dy[k] = constant[k] - slope[k] * y[k];
                }
            }
        }
    }
    let images = y.chunks_exact(shape.size()).zip(gradient.chunks_exact(shape.pooled_size()));
    for ((y, gradient), dy) in images.zip(dy.chunks_exact_mut(shape.size())) {
        set.run(Spread(shape, affine, back, y, gradient, dy));
    }
}
