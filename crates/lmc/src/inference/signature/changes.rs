//! Changes that a picture suffers on its way without becoming another picture: light, noise, other sizes, compression.
//!
//! The descriptor of a changed copy differs from that of the picture. In which directions, and how much, is the *nuisance*
//! of a task; the discriminant gives little weight to what lies in these directions.

use std::f64::consts::PI;

use lmc_streams::{Random, Seed};

use super::planes::{PIXELS, SIDE};
use super::resample::Resample;

/// Largest change of the light.
const GAIN: f64 = 0.2;
/// Largest standard deviation of noise.
const NOISE: f64 = 8.0 / 255.0;
/// Smallest side to which a picture is shrunk, and how many sides there are.
const SMALLEST: usize = 22;
const SIZES: usize = 10;
/// Qualities of compression.
const QUALITIES: (f64, f64) = (40.0, 95.0);
/// Side of the blocks of compression.
const BLOCK: usize = 8;

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Another light, and noise.
    Noise,
    /// Another light; shrunk and enlarged again.
    Soft,
    /// Another light; compressed in blocks, as JPEG files are.
    Blocks,
}

impl Change {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Noise, Self::Soft, Self::Blocks];

    /// How much the differences that a kind makes count, beside those between images of a class.
    pub fn weight(self) -> f64 {
        match self {
            Self::Noise => 0.1,
            Self::Soft => 0.15,
            Self::Blocks => 0.05,
        }
    }

    /// A changed copy of three planes with values from 0 to 1.
    pub fn apply(self, planes: &[Vec<f32>; 3], seed: &Seed) -> [Vec<f32>; 3] {
        let mut random = seed.numbered(self as u64).random();
        let gain = random.between(1.0 - GAIN, 1.0 + GAIN);
        let mut changed = planes.clone().map(|plane| -> Vec<f32> {
            plane.into_iter().map(|value| byte(f64::from(value) * gain)).collect()
        });
        match self {
            Self::Noise => noise(&mut changed, &mut random),
            Self::Soft => {
                let side = SMALLEST + random.below(SIZES);
                let (shrink, enlarge) = (Resample::new(SIDE, side), Resample::new(side, SIDE));
                for plane in &mut changed {
                    *plane = enlarge.apply(&shrink.apply(plane));
                }
            }
            Self::Blocks => compress(&mut changed, random.between(QUALITIES.0, QUALITIES.1)),
        }
        changed.map(|plane| plane.into_iter().map(|value| byte(f64::from(value))).collect())
    }
}

/// The nearest of 256 values from 0 to 1.
fn byte(value: f64) -> f32 {
    ((value * 255.0).round().clamp(0.0, 255.0) / 255.0) as f32
}

fn noise(planes: &mut [Vec<f32>; 3], random: &mut Random) {
    let deviation = random.between(0.0, NOISE);
    for value in planes.iter_mut().flatten() {
        *value = (f64::from(*value) + deviation * random.normal()) as f32;
    }
}

/// Quantises the cosine coefficients of luminance and chroma, block by block.
fn compress(planes: &mut [Vec<f32>; 3], quality: f64) {
    // What libjpeg makes of a quality: the step of the lowest frequencies is 16 at quality 50.
    let scale = if quality < 50.0 { 50.0 / quality } else { 2.0 - quality / 50.0 };
    let [red, green, blue] = planes;
    for at in 0..PIXELS {
        let (r, g, b) = (red[at], green[at], blue[at]);
        let luminance = 0.299 * r + 0.587 * g + 0.114 * b;
        (red[at], green[at], blue[at]) = (luminance, 0.564 * (b - luminance), 0.713 * (r - luminance));
    }
    quantise(red, |sum| scale * (8.0 + 7.0 * sum as f64) / 255.0);
    quantise(green, |sum| scale * (14.0 + 17.0 * sum as f64).min(99.0) / 255.0);
    quantise(blue, |sum| scale * (14.0 + 17.0 * sum as f64).min(99.0) / 255.0);
    for at in 0..PIXELS {
        let (luminance, u, v) = (red[at], green[at], blue[at]);
        let (r, b) = (luminance + v / 0.713, luminance + u / 0.564);
        (red[at], green[at], blue[at]) = (r, (luminance - 0.299 * r - 0.114 * b) / 0.587, b);
    }
}

/// Rounds the cosine coefficients of the blocks of a plane to multiples of a step, by the sum of both frequencies.
fn quantise(plane: &mut [f32], step: impl Fn(usize) -> f64) {
    let cosine = |frequency: usize, at: usize| {
        let scale = if frequency == 0 { 1.0 } else { 2.0 } / BLOCK as f64;
        scale.sqrt() * libm::cos(PI * (2 * at + 1) as f64 * frequency as f64 / (2 * BLOCK) as f64)
    };
    let cosines: [[f64; BLOCK]; BLOCK] =
        std::array::from_fn(|frequency| std::array::from_fn(|at| cosine(frequency, at)));
    for block in 0..(SIDE / BLOCK) * (SIDE / BLOCK) {
        let (top, left) = (block / (SIDE / BLOCK) * BLOCK, block % (SIDE / BLOCK) * BLOCK);
        let place = |row: usize, column: usize| (top + row) * SIDE + left + column;
        let mut half = [[0.0; BLOCK]; BLOCK];
        for (row, half) in half.iter_mut().enumerate() {
            for (sum, cosines) in half.iter_mut().zip(&cosines) {
                *sum = (0..BLOCK).map(|at| f64::from(plane[place(row, at)]) * cosines[at]).sum();
            }
        }
        let mut coefficients = [[0.0; BLOCK]; BLOCK];
        for (down, coefficients) in coefficients.iter_mut().enumerate() {
            for (across, to) in coefficients.iter_mut().enumerate() {
                let sum: f64 = (0..BLOCK).map(|row| half[row][across] * cosines[down][row]).sum();
                let step = step(down + across);
                *to = (sum / step).round() * step;
            }
        }
        for (row, half) in half.iter_mut().enumerate() {
            for (across, to) in half.iter_mut().enumerate() {
                *to = (0..BLOCK).map(|down| coefficients[down][across] * cosines[down][row]).sum();
            }
        }
        for (row, half) in half.iter().enumerate() {
            for column in 0..BLOCK {
                let value: f64 = (0..BLOCK).map(|across| half[across] * cosines[across][column]).sum();
                plane[place(row, column)] = value as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp() -> [Vec<f32>; 3] {
        [0, 1, 2].map(|channel| {
            (0..PIXELS).map(|at| ((at * (channel + 3)) % 256) as f32 / 255.0).collect::<Vec<f32>>()
        })
    }

    #[test]
    fn the_same_seed_makes_the_same_copy_and_values_stay_in_range() {
        for change in Change::ALL {
            let (a, b) = (change.apply(&ramp(), &Seed::root(1)), change.apply(&ramp(), &Seed::root(1)));
            assert_eq!(a, b);
            assert_ne!(a, change.apply(&ramp(), &Seed::root(2)), "{change:?}");
            assert!(a.iter().flatten().all(|value| (0.0..=1.0).contains(value)));
        }
    }

    #[test]
    fn a_flat_block_stays_flat_and_its_value_moves_by_half_a_step_at_most() {
        let mut planes = [vec![0.3; PIXELS], vec![0.3; PIXELS], vec![0.3; PIXELS]];
        compress(&mut planes, 50.0);
        // The step of the mean is 8 / 255 / 8 of the coefficient's scale.
        assert!(planes.iter().flatten().all(|value| (value - 0.3).abs() <= 0.5 / 255.0 + 1e-5));
        assert!(planes[0].iter().all(|value| (value - planes[0][0]).abs() < 1e-6));
    }
}
