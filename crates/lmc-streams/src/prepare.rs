//! From a decoded [`Picture`] to the image that a task sees (specification §3.1).

use crate::picture::Picture;
use crate::resize::{Filter, pillow, torch_bilinear};

/// How pictures are brought to one size and one number of channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prepare {
    /// How a picture is brought to the wanted size.
    pub fit: Fit,
    /// How many channels the image gets.
    pub channels: Channels,
    /// Whether black and white are swapped first (Omniglot's ink is black at the source, white in the paper).
    pub invert: bool,
}

/// How a picture is brought to size. Sides are in pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Pictures keep their size, so all of them must have one size already.
    AsIs,
    /// The shorter side becomes this long with Pillow's bicubic filter, then the centre square is cut out; the
    /// rule for photos and textures.
    CentreSquare(usize),
    /// As [`Fit::CentreSquare`], but with Pillow's bilinear filter.
    CentreSquareBilinear(usize),
    /// Both sides become this long with PyTorch's bilinear interpolation; the paper's rule for MNIST and
    /// Fashion-MNIST.
    TorchSquare(usize),
    /// Both sides become this long with Pillow's bilinear filter; the rule for Omniglot.
    PillowSquare(usize),
    /// As [`Fit::PillowSquare`], but with Pillow's bicubic filter.
    PillowSquareBicubic(usize),
}

/// How many channels a picture gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channels {
    /// Pictures keep their channels, and all of them must agree.
    AsIs,
    /// One channel; colours become their luma.
    Grey,
    /// Three channels; grey is replicated.
    Rgb,
}

impl Prepare {
    /// Keeps pictures as they are.
    pub const AS_IS: Self = Self { fit: Fit::AsIs, channels: Channels::AsIs, invert: false };

    /// Brings pictures of any size and colour mode to RGB squares of this side.
    pub fn rgb_square(side: usize) -> Self {
        Self { fit: Fit::CentreSquare(side), channels: Channels::Rgb, invert: false }
    }

    /// The same preparation for sources whose pictures are all grey: they stay grey where RGB is wanted, because a
    /// [`crate::TaskSet`] replicates channels when it is read.
    pub(crate) fn keeping_grey(self) -> Self {
        if self.channels == Channels::Rgb { Self { channels: Channels::AsIs, ..self } } else { self }
    }

    /// Prepares one picture: inverted, resized, cropped and converted.
    pub fn apply(&self, picture: Picture) -> Picture {
        let mut picture = match self.channels {
            Channels::Grey => picture.into_grey(),
            // Grey becomes RGB at the end: three equal channels resize to three equal channels, with thrice the work.
            Channels::AsIs | Channels::Rgb => picture,
        };
        if self.invert {
            picture.pixels.iter_mut().for_each(|pixel| *pixel = 255 - *pixel);
        }
        if picture.width == 0 || picture.height == 0 {
            return picture;
        }
        let fitted = match self.fit {
            Fit::AsIs => picture,
            Fit::CentreSquare(side) => centre_square(&picture, side, Filter::Bicubic),
            Fit::CentreSquareBilinear(side) => centre_square(&picture, side, Filter::Bilinear),
            Fit::TorchSquare(side) => torch_bilinear(&picture, side, side),
            Fit::PillowSquare(side) => pillow(&picture, side, side, Filter::Bilinear),
            Fit::PillowSquareBicubic(side) => pillow(&picture, side, side, Filter::Bicubic),
        };
        if self.channels == Channels::Rgb { fitted.into_rgb() } else { fitted }
    }
}

/// torchvision's `Resize(side)` followed by `CenterCrop(side)`: the long side is truncated to an
/// integer, the crop offset rounded half to even.
fn centre_square(picture: &Picture, side: usize, filter: Filter) -> Picture {
    let (width, height) = (picture.width, picture.height);
    let (to_width, to_height) =
        if width <= height { (side, side * height / width) } else { (side * width / height, side) };
    // A strip 1 pixel high and 50,000 wide would be resized to 32 x 1,600,000 for the sake of its middle:
    // of such shapes, which no data set of the paper has, the middle is cut out before resizing.
    const STRIP: usize = 64;
    let longest = width.min(height).saturating_mul(STRIP);
    if width.max(height) > longest {
        let (part_width, part_height) = (width.min(longest), height.min(longest));
        let middle =
            picture.crop((width - part_width) / 2, (height - part_height) / 2, part_width, part_height);
        return centre_square(&middle, side, filter);
    }
    let resized = pillow(picture, to_width, to_height, filter);
    let offset = |long: usize| ((long - side) as f64 / 2.0).round_ties_even() as usize;
    resized.crop(offset(to_width), offset(to_height), side, side)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(width: usize, height: usize, pixels: Vec<u8>) -> Picture {
        Picture { width, height, channels: 1, pixels }
    }

    #[test]
    fn the_centre_is_cut_out() {
        // 5 x 2 to side 2: nothing to resize, offset (5 - 2) / 2 = 1.5 rounds to the even 2.
        let picture = grey(5, 2, vec![0, 1, 2, 3, 4, 10, 11, 12, 13, 14]);
        assert_eq!(centre_square(&picture, 2, Filter::Bicubic).pixels, [2, 3, 12, 13]);
    }

    #[test]
    fn the_long_side_is_truncated() {
        // 300 x 640 (a DTD size) to 32: 32 * 640 / 300 = 68.27 -> 68, offset 18.
        let picture = grey(640, 300, (0..300).flat_map(|_| (0..640).map(|x| (x / 3) as u8)).collect());
        let square = centre_square(&picture, 32, Filter::Bicubic);
        assert_eq!((square.width, square.height), (32, 32));
        assert_eq!(square, pillow(&picture, 68, 32, Filter::Bicubic).crop(18, 0, 32, 32));
    }

    #[test]
    fn a_thin_strip_does_not_explode() {
        let square = centre_square(&grey(50_000, 1, vec![7; 50_000]), 32, Filter::Bicubic);
        assert_eq!(square, grey(32, 32, vec![7; 1024]));
    }

    #[test]
    fn invert_and_channels() {
        let prepare = Prepare { fit: Fit::AsIs, channels: Channels::Rgb, invert: true };
        assert_eq!(prepare.apply(grey(1, 1, vec![5])).pixels, [250, 250, 250]);
    }
}
