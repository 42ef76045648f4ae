//! One decoded picture, before preparation.

use std::path::Path;

use crate::error::Result;
use crate::formats::decode::{self, DecodeProblem};
use crate::formats::picture_file;

/// A picture as 8-bit pixels, interleaved (`row, column, channel`), with 1 (grey) or 3 (RGB) channels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// Width of the picture in pixels.
    pub width: usize,
    /// Height of the picture in pixels.
    pub height: usize,
    /// Number of channels, 1 or 3.
    pub channels: usize,
    /// Pixel values, `height * width * channels` bytes.
    pub pixels: Vec<u8>,
}

impl Picture {
    /// Reads a picture file (PNG, JPEG, WebP, GIF, BMP, TIFF), upright as its EXIF orientation says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        picture_file::open(path.as_ref())
    }

    /// Decodes the bytes of a picture file, upright as its EXIF orientation says. The error knows no place:
    /// [`DecodeProblem::in_file`] and [`DecodeProblem::at_row`] name one.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, DecodeProblem> {
        Ok(decode::decode(bytes, true)?.picture)
    }

    /// Makes a picture of one colour.
    pub fn filled(width: usize, height: usize, colour: [u8; 3]) -> Self {
        Self { width, height, channels: 3, pixels: colour.repeat(width * height) }
    }

    /// Makes a picture from planar pixels (`channel, row, column`), the order in which [`crate::ImageSet`] keeps them.
    pub fn from_planar(width: usize, height: usize, planar: &[u8]) -> Self {
        let area = width * height;
        let channels = planar.len() / area.max(1);
        let pixels = (0..area).flat_map(|at| (0..channels).map(move |c| planar[c * area + at])).collect();
        Self { width, height, channels, pixels }
    }

    /// Gives the planar pixels, `channel, row, column`.
    pub fn to_planar(&self) -> Vec<u8> {
        if self.channels == 1 {
            return self.pixels.clone();
        }
        let mut planar = Vec::with_capacity(self.pixels.len());
        for channel in 0..self.channels {
            planar.extend(self.pixels.iter().skip(channel).step_by(self.channels));
        }
        planar
    }

    /// Gives the picture three channels; grey is replicated.
    pub fn into_rgb(self) -> Self {
        if self.channels == 3 {
            return self;
        }
        Self { channels: 3, pixels: self.pixels.iter().flat_map(|&grey| [grey; 3]).collect(), ..self }
    }

    /// Gives the picture one channel, by the luma of ITU-R 601-2 as Pillow rounds it.
    pub fn into_grey(self) -> Self {
        if self.channels == 1 {
            return self;
        }
        let luma = |rgb: &[u8]| {
            (u32::from(rgb[0]) * 19_595 + u32::from(rgb[1]) * 38_470 + u32::from(rgb[2]) * 7_471 + 0x8000)
                >> 16
        };
        Self { channels: 1, pixels: self.pixels.chunks_exact(3).map(|rgb| luma(rgb) as u8).collect(), ..self }
    }

    /// Cuts out the part with its upper left corner at (`left`, `top`).
    pub fn crop(&self, left: usize, top: usize, width: usize, height: usize) -> Self {
        let mut pixels = Vec::with_capacity(width * height * self.channels);
        for row in top..top + height {
            let start = (row * self.width + left) * self.channels;
            pixels.extend_from_slice(&self.pixels[start..start + width * self.channels]);
        }
        Self { width, height, channels: self.channels, pixels }
    }

    /// Draws `other` with its upper left corner at (`left`, `top`); what falls outside is dropped.
    pub fn paste(&mut self, other: &Picture, left: usize, top: usize) {
        let width = other.width.min(self.width.saturating_sub(left));
        for row in 0..other.height.min(self.height.saturating_sub(top)) {
            for column in 0..width {
                let from = (row * other.width + column) * other.channels;
                let to = ((top + row) * self.width + left + column) * self.channels;
                for channel in 0..self.channels {
                    self.pixels[to + channel] = other.pixels[from + channel.min(other.channels - 1)];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planar_and_back() {
        let picture = Picture { width: 2, height: 1, channels: 3, pixels: vec![1, 2, 3, 4, 5, 6] };
        assert_eq!(picture.to_planar(), [1, 4, 2, 5, 3, 6]);
        assert_eq!(Picture::from_planar(2, 1, &picture.to_planar()), picture);
    }

    #[test]
    fn grey_is_pillows_luma() {
        // Values of Pillow's convert("L").
        let picture =
            Picture { width: 3, height: 1, channels: 3, pixels: vec![255, 0, 0, 0, 255, 0, 12, 200, 77] };
        assert_eq!(picture.into_grey().pixels, [76, 150, 130]);
    }

    #[test]
    fn paste_clips() {
        let mut page = Picture::filled(2, 2, [0; 3]);
        page.paste(&Picture { width: 2, height: 2, channels: 1, pixels: vec![9; 4] }, 1, 1);
        assert_eq!(page.pixels, [0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9]);
        assert_eq!(page.crop(1, 1, 1, 1).pixels, [9, 9, 9]);
    }
}
