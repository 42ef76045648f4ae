//! Colour transforms of the paper's MNIST tasks (specification §3.3, §3.6, §3.7).
//!
//! With a grey value `v` in `[0, 1]` and a colour `c`:
//! rainbow `v + (1 - v) c`, background `(1 - v) c`, digit `v c`.
//! They are computed on bytes, which is exact for the pure colours of the paper.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::seed::Seed;

/// An RGB colour of three bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Colour(pub [u8; 3]);

impl Colour {
    /// The pure red of the paper.
    pub const RED: Self = Self([255, 0, 0]);
    /// The pure green of the paper.
    pub const GREEN: Self = Self([0, 255, 0]);
    /// The pure blue of the paper.
    pub const BLUE: Self = Self([0, 0, 255]);
    /// The three colours of the paper.
    pub const PAPER: [Self; 3] = [Self::RED, Self::GREEN, Self::BLUE];
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::RED => f.write_str("red"),
            Self::GREEN => f.write_str("green"),
            Self::BLUE => f.write_str("blue"),
            Self([red, green, blue]) => write!(f, "#{red:02x}{green:02x}{blue:02x}"),
        }
    }
}

impl FromStr for Colour {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let named = Self::PAPER.into_iter().find(|colour| colour.to_string() == text);
        let hex = || {
            let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
            let channel = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
            Some(Self([channel(0)?, channel(2)?, channel(4)?]))
        };
        named.or_else(hex).ok_or_else(|| {
            Error::setting(
                "transform",
                format!("'{text}' is not a colour"),
                "use red, green, blue or #rrggbb",
            )
        })
    }
}

/// What happens to the colours of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Transform {
    /// Colours stay as they are.
    Identity,
    /// White digit on a coloured background: rainbow MNIST.
    Rainbow(Colour),
    /// Black digit on a coloured background: coloured MNIST.
    Background(Colour),
    /// Coloured digit on black: coloured MNIST.
    Digit(Colour),
}

impl Transform {
    /// The byte `value` of an image's `channel` (0 to 2), transformed.
    fn byte(self, value: u8, channel: usize) -> u8 {
        let times = |a: u8, b: u8| ((u32::from(a) * u32::from(b) + 127) / 255) as u8;
        match self {
            Self::Identity => value,
            Self::Rainbow(Colour(colour)) => value + times(255 - value, colour[channel]),
            Self::Background(Colour(colour)) => times(255 - value, colour[channel]),
            Self::Digit(Colour(colour)) => times(value, colour[channel]),
        }
    }

    /// Writes the planar image `source` (1 or 3 channels) into `target`; grey is replicated where
    /// `target` has three channels.
    pub fn write(self, source: &[u8], area: usize, target: &mut [u8]) {
        for (channel, plane) in target.chunks_exact_mut(area.max(1)).enumerate() {
            let start = if source.len() > area { channel * area } else { 0 };
            let from = &source[start..start + area];
            if self == Self::Identity {
                plane.copy_from_slice(from);
            } else {
                plane.iter_mut().zip(from).for_each(|(to, &value)| *to = self.byte(value, channel));
            }
        }
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("identity"),
            Self::Rainbow(colour) => write!(f, "rainbow {colour}"),
            Self::Background(colour) => write!(f, "background {colour}"),
            Self::Digit(colour) => write!(f, "digit {colour}"),
        }
    }
}

impl FromStr for Transform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("identity"), None, None) => Ok(Self::Identity),
            (Some("rainbow"), Some(colour), None) => colour.parse().map(Self::Rainbow),
            (Some("background"), Some(colour), None) => colour.parse().map(Self::Background),
            (Some("digit"), Some(colour), None) => colour.parse().map(Self::Digit),
            _ => Err(Error::setting(
                "transform",
                format!("'{text}' is not a transform"),
                "use 'identity', 'rainbow green', 'background red' or 'digit #00ff00'",
            )),
        }
    }
}

/// The colour transforms of the images of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Looks {
    /// Every image gets the same transform.
    One(Transform),
    /// The two coloured MNISTs of the plug-and-play pair: of `n` training (or validation) images
    /// `floor(n / 20)` get the second, of the test images half.
    Mixed(Transform, Transform),
}

impl Looks {
    /// The transforms that occur in the task.
    pub fn transforms(&self) -> Vec<Transform> {
        match *self {
            Self::One(transform) => vec![transform],
            Self::Mixed(majority, minority) => vec![majority, minority],
        }
    }

    /// For each of `images` images which of [`Looks::transforms`] it gets.
    pub fn assign(&self, images: usize, test: bool, seed: &Seed) -> Vec<u8> {
        let mut looks = vec![0; images];
        if let Self::Mixed(..) = self {
            // Paper: which images get the minority colour came from torch's global generator and cannot be
            // known; here it comes from the stream's own seed.
            let minority = if test { images / 2 } else { images / 20 };
            let order = seed.random().permutation(images);
            order.iter().take(minority).for_each(|&image| looks[image as usize] = 1);
        }
        looks
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(transform) => write!(f, "{transform}"),
            Self::Mixed(majority, minority) => write!(f, "95 % {majority}, 5 % {minority}; test 50/50"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transformed(transform: Transform, value: u8) -> [u8; 3] {
        let mut target = [0; 3];
        transform.write(&[value], 1, &mut target);
        target
    }

    #[test]
    fn colours_by_hand() {
        assert_eq!(transformed(Transform::Identity, 200), [200; 3]);
        assert_eq!(transformed(Transform::Rainbow(Colour::GREEN), 200), [200, 255, 200]);
        assert_eq!(transformed(Transform::Rainbow(Colour::GREEN), 0), [0, 255, 0]);
        assert_eq!(transformed(Transform::Background(Colour::RED), 200), [55, 0, 0]);
        assert_eq!(transformed(Transform::Digit(Colour::BLUE), 200), [0, 0, 200]);
        assert_eq!(transformed(Transform::Digit(Colour([100, 255, 0])), 51), [20, 51, 0]);
    }

    #[test]
    fn a_colour_image_keeps_its_channels() {
        let mut target = [0; 6];
        Transform::Identity.write(&[1, 2, 3, 4, 5, 6], 2, &mut target);
        assert_eq!(target, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn names_read_back() {
        for text in ["identity", "rainbow green", "background red", "digit blue", "digit #102030"] {
            assert_eq!(text.parse::<Transform>().unwrap().to_string(), text);
        }
        for text in
            ["", "rainbow", "rainbow pink", "digit #12345", "digit #1234567", "digit #ßßß", "digit red red"]
        {
            assert!(text.parse::<Transform>().is_err(), "{text}");
        }
    }

    #[test]
    fn one_in_twenty_and_half_of_the_test_set() {
        let looks = Looks::Mixed(Transform::Background(Colour::RED), Transform::Background(Colour::GREEN));
        let count = |test, n| looks.assign(n, test, &Seed::root(1)).iter().filter(|&&l| l == 1).count();
        assert_eq!((count(false, 100), count(false, 39), count(true, 9786)), (5, 1, 4893));
    }
}
