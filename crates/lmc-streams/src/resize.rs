//! The two ways of resizing behind the paper's data (specification §3.1), reproduced bit by bit.
//!
//! - [`torch_bilinear`]: what CTrL did to MNIST, PyTorch's `interpolate(mode="bilinear",
//!   align_corners=False)` on 0..255 floats, then truncated to 8 bits. No anti-aliasing.
//! - [`pillow`]: what torchvision did to DTD, Pillow's `Image.resize`: the filter is widened when
//!   shrinking, and each of its two passes (columns first) is rounded to 8 bits.
//!
//! Resizing crates do the second with other precisions and so differ by one here and there; "image for
//! image" is the point of these streams, hence our own.

use crate::picture::Picture;

/// The filters of Pillow that the project needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// Triangle weights with support 1.
    Bilinear,
    /// Catmull-Rom weights (a = -0.5) with support 2.
    Bicubic,
}

impl Filter {
    fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        let x = x.abs();
        const A: f64 = -0.5;
        match self {
            Self::Bilinear => (1.0 - x).max(0.0),
            Self::Bicubic if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
            Self::Bicubic if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
            Self::Bicubic => 0.0,
        }
    }
}

/// Resizes to `width` x `height` pixels as Pillow does.
pub fn pillow(picture: &Picture, width: usize, height: usize, filter: Filter) -> Picture {
    let across = |picture: &Picture| shrink_rows(picture, width, filter);
    let down = |picture: &Picture| transpose(&shrink_rows(&transpose(picture), height, filter));
    match (width != picture.width, height != picture.height) {
        (true, true) => down(&across(picture)),
        (true, false) => across(picture),
        (false, true) => down(picture),
        (false, false) => picture.clone(),
    }
}

/// Resizes as PyTorch's bilinear interpolation does, truncating to 8 bits.
pub fn torch_bilinear(picture: &Picture, width: usize, height: usize) -> Picture {
    let columns = bilinear_taps(picture.width, width);
    let rows = bilinear_taps(picture.height, height);
    let channels = picture.channels;
    // Every input row is interpolated across once, and then serves several output rows.
    let across = |row: &[u8]| -> Vec<f32> {
        let mut wide = Vec::with_capacity(width * channels);
        for &(left, right, weight) in &columns {
            for channel in 0..channels {
                let at = |column: usize| f32::from(row[column * channels + channel]);
                wide.push((1.0 - weight) * at(left) + weight * at(right));
            }
        }
        wide
    };
    let stride = (picture.width * channels).max(1);
    let wide: Vec<Vec<f32>> = picture.pixels.chunks_exact(stride).map(across).collect();
    let mut pixels = Vec::with_capacity(width * height * channels);
    for &(top, bottom, weight) in &rows {
        let pairs = wide[top].iter().zip(&wide[bottom]);
        pixels.extend(pairs.map(|(upper, lower)| ((1.0 - weight) * upper + weight * lower) as u8));
    }
    Picture { width, height, channels, pixels }
}

/// The two input positions of every output position, and the weight of the second.
fn bilinear_taps(from: usize, to: usize) -> Vec<(usize, usize, f32)> {
    let scale = from as f32 / to as f32;
    (0..to)
        .map(|i| {
            let position = ((i as f32 + 0.5) * scale - 0.5).max(0.0);
            let low = (position as usize).min(from - 1);
            (low, (low + 1).min(from - 1), position - low as f32)
        })
        .collect()
}

/// Pillow keeps its weights as integers with 22 fractional bits.
const PRECISION: u32 = 22;

fn shrink_rows(picture: &Picture, width: usize, filter: Filter) -> Picture {
    let taps = pillow_taps(picture.width, width, filter);
    let channels = picture.channels;
    let mut pixels = Vec::with_capacity(width * picture.height * channels);
    for row in picture.pixels.chunks_exact((picture.width * channels).max(1)) {
        for (first, weights) in &taps {
            for channel in 0..channels {
                let from = row[first * channels + channel..].iter().step_by(channels);
                let sum: i64 = from.zip(weights).map(|(&pixel, &weight)| i64::from(pixel) * weight).sum();
                pixels.push(((sum + (1 << (PRECISION - 1))) >> PRECISION).clamp(0, 255) as u8);
            }
        }
    }
    Picture { width, height: picture.height, channels, pixels }
}

/// The first input position of every output position, and the weights from there on.
fn pillow_taps(from: usize, to: usize, filter: Filter) -> Vec<(usize, Vec<i64>)> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let support = filter.support() * stretch;
    (0..to)
        .map(|i| {
            let centre = (i as f64 + 0.5) * scale;
            let first = (centre - support + 0.5).max(0.0) as usize;
            let end = ((centre + support + 0.5) as usize).min(from);
            let weights: Vec<f64> =
                (first..end).map(|x| filter.weight((x as f64 - centre + 0.5) * (1.0 / stretch))).collect();
            let total: f64 = weights.iter().sum();
            let fixed = |weight: &f64| (weight / total * f64::from(1 << PRECISION)).round() as i64;
            (first, weights.iter().map(fixed).collect())
        })
        .collect()
}

fn transpose(picture: &Picture) -> Picture {
    let Picture { width, height, channels, .. } = *picture;
    let mut pixels = Vec::with_capacity(picture.pixels.len());
    for column in 0..width {
        for row in 0..height {
            let at = (row * width + column) * channels;
            pixels.extend_from_slice(&picture.pixels[at..at + channels]);
        }
    }
    Picture { width: height, height: width, channels, pixels }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A picture that anyone can make again: value = (37x + 101y + 59c + xy) mod 256.
    pub(crate) fn test_picture(width: usize, height: usize) -> Picture {
        let value = |x: usize, y: usize, c: usize| ((x * 37 + y * 101 + c * 59 + x * y) % 256) as u8;
        let pixels = (0..height)
            .flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| value(x, y, c))))
            .collect();
        Picture { width, height, channels: 3, pixels }
    }

    #[test]
    fn pillow_golden() {
        // Computed with Pillow 13.0.0 on the picture above (11 x 9): first 15 bytes and the sum of all.
        let cases: [(usize, usize, Filter, [u8; 15], u64); 3] = [
            (
                5,
                4,
                Filter::Bicubic,
                [97, 119, 115, 144, 131, 125, 147, 141, 99, 94, 119, 129, 127, 145, 135],
                7_611,
            ),
            (
                5,
                4,
                Filter::Bilinear,
                [105, 122, 113, 141, 127, 125, 139, 142, 102, 103, 121, 128, 124, 141, 132],
                7_617,
            ),
            (
                13,
                9,
                Filter::Bicubic,
                [0, 58, 117, 27, 86, 145, 60, 119, 178, 91, 150, 224, 122, 181, 172],
                44_459,
            ),
        ];
        for (width, height, filter, start, sum) in cases {
            let result = pillow(&test_picture(11, 9), width, height, filter);
            assert_eq!(result.pixels[..15], start, "{filter:?} to {width} x {height}");
            assert_eq!(result.pixels.iter().map(|&p| u64::from(p)).sum::<u64>(), sum);
        }
    }

    #[test]
    fn torch_bilinear_by_hand() {
        // 2 -> 4: positions -0.25 (clamped to 0), 0.25, 0.75, 1.25 (clamped to the last pixel).
        let picture = Picture { width: 2, height: 1, channels: 1, pixels: vec![0, 255] };
        assert_eq!(torch_bilinear(&picture, 4, 1).pixels, [0, 63, 191, 255]);
        // 28 -> 32 keeps a constant picture constant: the weights are sixteenths, exact in f32.
        let flat = Picture { width: 28, height: 28, channels: 1, pixels: vec![255; 784] };
        assert!(torch_bilinear(&flat, 32, 32).pixels.iter().all(|&p| p == 255));
    }

    #[test]
    fn resizing_to_the_same_size_changes_nothing() {
        let picture = test_picture(7, 5);
        assert_eq!(pillow(&picture, 7, 5, Filter::Bicubic), picture);
        assert_eq!(torch_bilinear(&picture, 7, 5), picture);
    }
}
