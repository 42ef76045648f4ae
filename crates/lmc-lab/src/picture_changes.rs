//! Changes of pictures for tests: what a picture may suffer between the camera and the model. They are made by other means
//! than the changes that signatures are learned with.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::imageops::{FilterType, resize};
use image::{DynamicImage, ImageFormat, RgbImage};
use lmc_streams::Seed;
use serde::Serialize;

use crate::error::{Error, Result};

/// Standard deviation of noise.
const NOISE: f64 = 2.0 / 255.0;
/// Quality of JPEG files.
const QUALITY: u8 = 60;
/// Share of the side that pictures are shrunk to.
const SHRUNK: (usize, usize) = (7, 8);

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureChange {
    /// None.
    None,
    /// Noise of 2/255.
    Noise,
    /// A JPEG file of quality 60.
    Jpeg,
    /// Shrunk to 7/8 of the side and enlarged again, cubic.
    Resized,
}

impl PictureChange {
    /// All, the picture as it is first.
    pub const ALL: [Self; 4] = [Self::None, Self::Noise, Self::Jpeg, Self::Resized];

    /// A heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::None => "as it is",
            Self::Noise => "noise 2/255",
            Self::Jpeg => "JPEG 60",
            Self::Resized => "via 7/8",
        }
    }

    /// Changes a planar picture of `channels` (1 or 3) and `side`, with values from 0 to 1.
    pub fn apply(self, picture: &[f32], channels: usize, side: usize, seed: &Seed) -> Result<Vec<f32>> {
        let rgb = || {
            RgbImage::from_fn(side as u32, side as u32, |x, y| {
                let at = y as usize * side + x as usize;
                let value = |channel: usize| picture[channel.min(channels - 1) * side * side + at];
                image::Rgb([0, 1, 2].map(|channel| (value(channel) * 255.0).round().clamp(0.0, 255.0) as u8))
            })
        };
        let planar = |image: &RgbImage| -> Vec<f32> {
            let plane = |channel: usize| image.pixels().map(move |pixel| f32::from(pixel.0[channel]) / 255.0);
            match channels {
                1 => image
                    .pixels()
                    .map(|pixel| pixel.0.iter().map(|&byte| f32::from(byte)).sum::<f32>() / 765.0)
                    .collect(),
                _ => (0..3).flat_map(plane).collect(),
            }
        };
        Ok(match self {
            Self::None => picture.to_vec(),
            Self::Noise => {
                let mut random = seed.random();
                let noisy = |&value: &f32| (f64::from(value) + NOISE * random.normal()).clamp(0.0, 1.0);
                picture.iter().map(noisy).map(|value| ((value * 255.0).round() / 255.0) as f32).collect()
            }
            Self::Jpeg => {
                let mut file = Vec::new();
                let bad = |error: image::ImageError| Error::unwritable("JPEG picture", error);
                JpegEncoder::new_with_quality(&mut file, QUALITY).encode_image(&rgb()).map_err(bad)?;
                let image = image::load(Cursor::new(file), ImageFormat::Jpeg).map_err(bad)?;
                planar(&DynamicImage::into_rgb8(image))
            }
            Self::Resized => {
                let (image, small) = (rgb(), (side * SHRUNK.0 / SHRUNK.1).max(1) as u32);
                let shrunk = resize(&image, small, small, FilterType::CatmullRom);
                planar(&resize(&shrunk, side as u32, side as u32, FilterType::CatmullRom))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_stay_what_they_are_and_nearly_look_it() {
        let side = 32;
        for channels in [1, 3] {
            let at = |at: usize| (at % side) as f32 / (side - 1) as f32;
            let picture: Vec<f32> = (0..channels * side * side).map(at).collect();
            for change in PictureChange::ALL {
                let changed = change.apply(&picture, channels, side, &Seed::root(1)).unwrap();
                assert_eq!(changed.len(), picture.len());
                assert!(changed.iter().all(|value| (0.0..=1.0).contains(value)), "{change:?}");
                let most = changed.iter().zip(&picture).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(most < 0.1, "{change:?}: {most}");
                assert_eq!(changed == picture, change == PictureChange::None, "{change:?}");
            }
        }
    }
}
