//! Per-task normalisation: channel means and deviations of the training images.
//!
//! The paper's baselines see normalised images, LMC itself does not (specification §3.1, §7.1).

use crate::task::TaskSet;

/// Mean and deviation of every channel; an image becomes `(value - mean) / deviation`.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalisation {
    /// Mean of each channel, of values in `[0, 1]`.
    pub mean: Vec<f32>,
    /// Standard deviation of each channel (with `n - 1`); 1 where the channel is constant.
    pub deviation: Vec<f32>,
}

impl Normalisation {
    /// The statistics of a set, normally a task's training set.
    pub fn of(set: &TaskSet) -> Self {
        let shape = set.shape();
        let area = (shape.height * shape.width).max(1);
        // Sums of bytes are exact in integers, whatever the order.
        let mut sums = vec![0_u64; shape.channels];
        let mut squares = vec![0_u64; shape.channels];
        let mut bytes = vec![0; shape.bytes()];
        for position in 0..set.len() {
            set.write(position, &mut bytes);
            for (channel, plane) in bytes.chunks_exact(area).enumerate() {
                sums[channel] += plane.iter().map(|&b| u64::from(b)).sum::<u64>();
                squares[channel] += plane.iter().map(|&b| u64::from(b) * u64::from(b)).sum::<u64>();
            }
        }
        let count = (set.len() * area) as f64;
        let mean = sums.iter().map(|&sum| if sum == 0 { 0.0 } else { (sum as f64 / count / 255.0) as f32 });
        let deviation = sums.iter().zip(&squares).map(|(&sum, &square)| {
            let variance =
                (square as f64 - sum as f64 * sum as f64 / count.max(1.0)) / (count - 1.0).max(1.0);
            // Constant channels (rainbow MNIST has one) come out as 0 and not as a division by 0.
            if variance <= 1e-9 { 1.0 } else { (variance.sqrt() / 255.0) as f32 }
        });
        Self { mean: mean.collect(), deviation: deviation.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{TaskSet, counting_set};
    use crate::transform::{Colour, Transform};

    #[test]
    fn statistics_by_hand() {
        // Bytes 0, 1, 2, 3: mean 1.5, deviation with n - 1: sqrt(5 / 3).
        let set = TaskSet::of_all(counting_set(2), 1, Transform::Identity);
        let statistics = Normalisation::of(&set);
        assert!((statistics.mean[0] - 1.5 / 255.0).abs() < 1e-7);
        assert!((statistics.deviation[0] - (5.0_f32 / 3.0).sqrt() / 255.0).abs() < 1e-7);
    }

    #[test]
    fn constant_channels_have_deviation_one() {
        let set = TaskSet::of_all(counting_set(2), 3, Transform::Rainbow(Colour::GREEN));
        let statistics = Normalisation::of(&set);
        assert_eq!((statistics.mean[1], statistics.deviation[1]), (1.0, 1.0));
        let black = TaskSet::of_all(counting_set(2), 3, Transform::Digit(Colour::GREEN));
        assert_eq!((Normalisation::of(&black).mean[0], Normalisation::of(&black).deviation[0]), (0.0, 1.0));
    }
}
