//! ReLU and 2x2 max-pool in one pass, and the backward pass; `max_pool/normalised.rs` has batch norm before them.
//!
//! The last row or column of an odd number is dropped. A pool that is not positive sends no gradient; otherwise the
//! first of its largest pixels gets all of it, as in burn and PyTorch.

mod normalised;

use pulp::{Simd, WithSimd};

use crate::instruction_set::InstructionSet;
pub use normalised::{add_norm_sums, norm_relu_max_pool, norm_relu_max_pool_backward};

/// Sizes of the images that are pooled, `[row, column, channel]`.
#[derive(Clone, Copy, Debug)]
pub struct PoolShape {
    /// Rows before pooling.
    pub height: usize,
    /// Columns before pooling.
    pub width: usize,
    /// Channels, before and after pooling.
    pub channels: usize,
}

impl PoolShape {
    /// Floats of an image before pooling.
    pub fn size(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Floats of a pooled image.
    pub fn pooled_size(&self) -> usize {
        (self.height / 2) * (self.width / 2) * self.channels
    }

    /// Offsets of the four pixels of a pool, row by row. Pools are counted row by row too.
    #[inline(always)]
    fn corners(&self, pool: usize) -> [usize; 4] {
        let stride = self.width * self.channels;
        let width = self.width / 2;
        let corner = 2 * (pool / width) * stride + 2 * (pool % width) * self.channels;
        [corner, corner + self.channels, corner + stride, corner + stride + self.channels]
    }

    /// The channels of the four pixels of a pool.
    #[inline(always)]
    fn window<'a>(&self, image: &'a [f32], pool: usize) -> [&'a [f32]; 4] {
        self.corners(pool).map(|corner| &image[corner..corner + self.channels])
    }

    /// The channels of the four pixels of a pool, to be written.
    #[inline(always)]
    fn window_mut<'a>(&self, image: &'a mut [f32], pool: usize) -> [&'a mut [f32]; 4] {
        let channels = self.channels;
        let corners = self.corners(pool);
        let (upper, lower) = image.split_at_mut(corners[2]);
        let (first, second) = upper[corners[0]..corners[0] + 2 * channels].split_at_mut(channels);
        let (third, fourth) = lower[..2 * channels].split_at_mut(channels);
        [first, second, third, fourth]
    }

    /// Offsets of the pixels that no pool covers: the last row or column of an odd number.
    fn left_over(self) -> impl Iterator<Item = usize> {
        let (rows, columns) = (self.height / 2 * 2, self.width / 2 * 2);
        let last_column =
            (0..rows).flat_map(move |row| (columns..self.width).map(move |column| (row, column)));
        let last_row =
            (rows..self.height).flat_map(move |row| (0..self.width).map(move |column| (row, column)));
        last_column.chain(last_row).map(move |(row, column)| (row * self.width + column) * self.channels)
    }
}

/// The larger of two numbers, or NaN if one of them is.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// ReLU of a number; NaN stays NaN.
#[inline(always)]
pub fn relu(value: f32) -> f32 {
    if value <= 0.0 { 0.0 } else { value }
}

/// Stands for the winner of a pool without a positive pixel, which sends no gradient.
pub const NO_WINNER: f32 = 4.0;

/// Computes `out = maxpool(relu(y))` for some images and, if there is place for them, the winner of each pool: the
/// number 0 to 3 of the pixel that the gradient goes to, or [`NO_WINNER`].
pub fn relu_max_pool(
    set: InstructionSet,
    shape: PoolShape,
    y: &[f32],
    out: &mut [f32],
    winners: Option<&mut [f32]>,
) {
    struct Pool<'a, const KEEP: bool>(PoolShape, &'a [f32], &'a mut [f32], &'a mut [f32]);
    impl<const KEEP: bool> WithSimd for Pool<'_, KEEP> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(shape, y, out, winners) = self;
            let channels = shape.channels;
            let mut winners = winners.chunks_exact_mut(channels);
            for (pool, out) in out.chunks_exact_mut(channels).enumerate() {
                let [a, b, c, d] = shape.window(y, pool);
                let winners = if KEEP { winners.next().unwrap_or_default() } else { &mut [] };
                for k in 0..channels {
                    let (upper, lower) = (larger(a[k], b[k]), larger(c[k], d[k]));
                    out[k] = relu(larger(upper, lower));
                    if KEEP {
                        let upper_winner = if b[k] > a[k] { 1.0 } else { 0.0 };
                        let lower_winner = if d[k] > c[k] { 3.0 } else { 2.0 };
                        let winner = if lower > upper { lower_winner } else { upper_winner };
                        winners[k] = if out[k] == 0.0 { NO_WINNER } else { winner };
                    }
                }
            }
        }
    }
    let images = y.chunks_exact(shape.size()).zip(out.chunks_exact_mut(shape.pooled_size()));
    match winners {
        Some(winners) => {
            for ((y, out), winners) in images.zip(winners.chunks_exact_mut(shape.pooled_size())) {
                set.run(Pool::<true>(shape, y, out, winners));
            }
        }
        None => images.for_each(|(y, out)| set.run(Pool::<false>(shape, y, out, &mut []))),
    }
}

/// The backward pass of [`relu_max_pool`]: `dy` is the gradient at the winners and zero at the other pixels of a pool.
/// Pixels that no pool covers are not written: callers compute even numbers of rows and columns only.
pub fn relu_max_pool_backward(
    set: InstructionSet,
    shape: PoolShape,
    winners: &[f32],
    gradient: &[f32],
    dy: &mut [f32],
) {
    struct Unpool<'a>(PoolShape, &'a [f32], &'a [f32], &'a mut [f32]);
    impl WithSimd for Unpool<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(shape, winners, gradient, dy) = self;
            let channels = shape.channels;
            let pools = winners.chunks_exact(channels).zip(gradient.chunks_exact(channels));
            for (pool, (winners, gradient)) in pools.enumerate() {
                for (number, dy) in shape.window_mut(dy, pool).into_iter().enumerate() {
                    for ((dy, &winner), &gradient) in dy.iter_mut().zip(winners).zip(gradient) {
                        *dy = if winner == number as f32 { gradient } else { 0.0 };
                    }
                }
            }
        }
    }
    let size = shape.pooled_size();
    let images = winners.chunks_exact(size).zip(gradient.chunks_exact(size));
    for ((winners, gradient), dy) in images.zip(dy.chunks_exact_mut(shape.size())) {
        set.run(Unpool(shape, winners, gradient, dy));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch_norm::Affine;

    const SHAPE: PoolShape = PoolShape { height: 3, width: 3, channels: 1 };
    #[rustfmt::skip]
    const IMAGE: [f32; 9] = [
        1.0, 3.0, 9.0,
        3.0, 2.0, 9.0,
        9.0, 9.0, 9.0,
    ];

    #[test]
    fn the_largest_wins_the_first_of_equals_gets_the_gradient_and_the_rest_is_dropped() {
        let (mut out, mut winners, mut dy) = ([0.0], [0.0], [0.0; 9]);
        let set = InstructionSet::best();
        relu_max_pool(set, SHAPE, &IMAGE, &mut out, Some(&mut winners));
        assert_eq!((out, winners), ([3.0], [1.0]));
        relu_max_pool_backward(set, SHAPE, &winners, &[5.0], &mut dy);
        assert_eq!(dy[..5], [0.0, 5.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_pool_that_is_not_positive_sends_nothing() {
        let (mut out, mut winners) = ([1.0], [0.0]);
        relu_max_pool(InstructionSet::best(), SHAPE, &[-1.0; 9], &mut out, Some(&mut winners));
        assert_eq!((out, winners), ([0.0], [NO_WINNER]));
    }

    #[test]
    fn nan_stays_nan_wherever_it_is() {
        for at in [0, 1, 3, 4] {
            let mut image = IMAGE;
            image[at] = f32::NAN;
            let (mut frozen, mut trained) = ([0.0], [0.0]);
            relu_max_pool(InstructionSet::best(), SHAPE, &image, &mut frozen, None);
            let identity = Affine { scale: vec![1.0], shift: vec![0.0] };
            norm_relu_max_pool(InstructionSet::best(), SHAPE, &identity, &image, &mut trained);
            assert!(frozen[0].is_nan() && trained[0].is_nan(), "at {at}");
        }
    }
}
