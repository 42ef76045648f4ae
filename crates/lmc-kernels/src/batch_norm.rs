//! Batch norm: statistics of a batch, the affine map per channel that they make, and the backward pass.
//!
//! With mean `m` and variance `v` of each channel over all pixels of all images, `z = scale y + shift` where
//! `scale = gamma / sqrt(v + eps)` and `shift = beta - scale m`.

use pulp::{Simd, WithSimd};

use crate::instruction_set::InstructionSet;

/// Added to variances, as PyTorch and burn do.
pub const EPSILON: f32 = 1e-5;

/// Mean and biased variance of each channel over all pixels of all images.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Mean of each channel.
    pub mean: Vec<f32>,
    /// Biased variance of each channel.
    pub variance: Vec<f32>,
}

impl Statistics {
    /// Combines the [`moments`] of images of `pixels` pixels each, `[image, 2, channel]`, in order (Chan et al.).
    pub fn combine(moments: &[f32], pixels: usize, channels: usize) -> Self {
        let pixels = pixels as f64;
        let (mut mean, mut squares) = (vec![0.0_f64; channels], vec![0.0_f64; channels]);
        let mut before = 0.0;
        for moments in moments.chunks_exact(2 * channels.max(1)) {
            let total = before + pixels;
            for c in 0..channels {
                let delta = f64::from(moments[c]) - mean[c];
                mean[c] += delta * pixels / total;
                squares[c] += f64::from(moments[channels + c]) + delta * delta * before * pixels / total;
            }
            before = total;
        }
        let variance = squares.iter().map(|square| (square / before) as f32).collect();
        Self { mean: mean.iter().map(|&mean| mean as f32).collect(), variance }
    }
}

/// Batch norm with fixed statistics: `z = scale y + shift` for each channel.
#[derive(Clone, Debug)]
pub struct Affine {
    /// Factor of each channel, `gamma / sqrt(variance + eps)`.
    pub scale: Vec<f32>,
    /// Summand of each channel, `beta - scale mean`.
    pub shift: Vec<f32>,
}

impl Affine {
    /// Batch norm with these parameters and statistics, `[channel]` each.
    pub fn new(gamma: &[f32], beta: &[f32], statistics: &Statistics) -> Self {
        let scale: Vec<f32> = gamma
            .iter()
            .zip(&statistics.variance)
            .map(|(gamma, variance)| gamma / (variance + EPSILON).sqrt())
            .collect();
        let shift =
            beta.iter().zip(&scale).zip(&statistics.mean).map(|((beta, scale), mean)| beta - scale * mean);
        Self { shift: shift.collect(), scale }
    }
}

/// The backward pass of batch norm with the statistics of the batch: `dy = scale dz + constant - slope y` for each
/// channel, and the gradients of the parameters.
#[derive(Clone, Debug)]
pub struct Backward {
    /// Gradient of `gamma`, `[channel]`.
    pub gamma: Vec<f32>,
    /// Gradient of `beta`, `[channel]`.
    pub beta: Vec<f32>,
    /// Factor of `dz`, the gradient of batch norm's output.
    pub scale: Vec<f32>,
    /// Summand of every pixel.
    pub constant: Vec<f32>,
    /// Factor of `y`, batch norm's input.
    pub slope: Vec<f32>,
}

impl Backward {
    /// From `sums`, `[2, channel]`, of `dz` and of `dz (y - m)` over `count` pixels.
    ///
    /// `dy = scale (dz - mean(dz) - xhat mean(dz xhat))` with `xhat = (y - m) / sqrt(v + eps)`.
    pub fn new(affine: &Affine, statistics: &Statistics, sums: &[f32], count: usize) -> Self {
        let channels = affine.scale.len();
        let (beta, products) = sums.split_at(channels);
        let inverse: Vec<f32> =
            statistics.variance.iter().map(|variance| 1.0 / (variance + EPSILON).sqrt()).collect();
        let gamma: Vec<f32> = products.iter().zip(&inverse).map(|(sum, inverse)| sum * inverse).collect();
        let count = count as f32;
        let scale = &affine.scale;
        let slope: Vec<f32> = (0..channels).map(|c| scale[c] * gamma[c] / count * inverse[c]).collect();
        let constant =
            (0..channels).map(|c| slope[c] * statistics.mean[c] - scale[c] * beta[c] / count).collect();
        Self { gamma, beta: beta.to_vec(), scale: scale.clone(), constant, slope }
    }
}

/// Computes for each image of `size` floats the mean of each channel and then the sum of squared deviations from it, in
/// two passes: `[image, 2, channel]`.
pub fn moments(set: InstructionSet, images: &[f32], size: usize, channels: usize, out: &mut [f32]) {
    for (image, out) in images.chunks_exact(size).zip(out.chunks_exact_mut(2 * channels)) {
        set.run(Moments { image, channels, out });
    }
}

struct Moments<'a> {
    image: &'a [f32],
    channels: usize,
    out: &'a mut [f32],
}

impl WithSimd for Moments<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.out.fill(0.0);
        let (mean, squares) = self.out.split_at_mut(self.channels);
        for pixel in self.image.chunks_exact(self.channels) {
            mean.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
        }
        let pixels = (self.image.len() / self.channels) as f32;
        mean.iter_mut().for_each(|sum| *sum /= pixels);
        for pixel in self.image.chunks_exact(self.channels) {
            for ((square, value), mean) in squares.iter_mut().zip(pixel).zip(mean.iter()) {
                *square += (value - mean) * (value - mean);
            }
        }
    }
}

/// Adds the pixels of some images, `[image, row, column, channel]`, to `sums`, `[channel]`: the gradient of a bias.
pub fn add_pixels(set: InstructionSet, images: &[f32], sums: &mut [f32]) {
    struct Add<'a>(&'a [f32], &'a mut [f32]);
    impl WithSimd for Add<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            for pixel in self.0.chunks_exact(self.1.len()) {
                self.1.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += value);
            }
        }
    }
    set.run(Add(images, sums));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_two_images_combine_to_those_of_all_pixels() {
        // One channel: 1, 2, 3 and 4, 5, 9: mean 4, squared deviations 9 + 4 + 1 + 0 + 1 + 25 = 40.
        let mut out = [0.0; 4];
        moments(InstructionSet::best(), &[1.0, 2.0, 3.0, 4.0, 5.0, 9.0], 3, 1, &mut out);
        assert_eq!(out, [2.0, 2.0, 6.0, 14.0]);
        let statistics = Statistics::combine(&out, 3, 1);
        assert_eq!(statistics, Statistics { mean: vec![4.0], variance: vec![40.0 / 6.0] });
    }

    #[test]
    fn an_affine_map_per_channel() {
        let statistics = Statistics { mean: vec![2.0], variance: vec![4.0 - EPSILON] };
        let affine = Affine::new(&[3.0], &[1.0], &statistics);
        assert_eq!((affine.scale[0], affine.shift[0]), (1.5, -2.0));
    }
}
