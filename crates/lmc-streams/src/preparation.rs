//! How the pictures of one model are prepared; the model file keeps it, so that pictures are prepared for
//! predictions as they were for training.
//!
//! A [`Preparation`] is what users choose and what is stored; [`Prepare`] is what the readers carry out.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::picture::Picture;
use crate::prepare::{Channels, Fit, Prepare};

/// Size, channels, framing and resampling of a model's pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Preparation {
    /// Side of the square image in pixels, 16 to 1024; 32 by default.
    pub size: usize,
    /// Channels of the image: 1 (grey) or 3 (RGB, the default).
    pub channels: usize,
    /// How a picture that is not square becomes one; the centre is cut out by default.
    pub fit: FitKind,
    /// The filter that resizes; bicubic by default.
    pub resampling: Resampling,
}

/// How a picture that is not square becomes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FitKind {
    /// The shorter side is resized to the wanted size and the centre square is cut out.
    #[default]
    Crop,
    /// Both sides are resized to the wanted size, so proportions change and nothing is lost.
    Stretch,
}

/// The filter that resizes pictures, computed as Pillow does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resampling {
    /// Catmull-Rom splines: sharper, and may overshoot at edges.
    #[default]
    Bicubic,
    /// Triangle weights: softer, and never leaves the range of its input.
    Bilinear,
}

impl Default for Preparation {
    fn default() -> Self {
        Self { size: 32, channels: 3, fit: FitKind::default(), resampling: Resampling::default() }
    }
}

impl Preparation {
    /// The smallest side in pixels.
    pub const SMALLEST: usize = 16;
    /// The largest side in pixels.
    pub const LARGEST: usize = 1024;

    /// Checks that every field is in its legal range; the error names the field.
    pub fn check(&self) -> Result<()> {
        if !(Self::SMALLEST..=Self::LARGEST).contains(&self.size) {
            let problem = format!("{} pixels is out of range", self.size);
            return Err(Error::setting("size", problem, "use 16 to 1024 pixels"));
        }
        if !matches!(self.channels, 1 | 3) {
            let problem = format!("images cannot have {} channels", self.channels);
            return Err(Error::setting("channels", problem, "use 1 for grey or 3 for colour"));
        }
        Ok(())
    }

    /// The steps that readers carry out for every picture. Any number of channels but 1 means RGB.
    pub fn prepare(&self) -> Prepare {
        let fit = match (self.fit, self.resampling) {
            (FitKind::Crop, Resampling::Bicubic) => Fit::CentreSquare(self.size),
            (FitKind::Crop, Resampling::Bilinear) => Fit::CentreSquareBilinear(self.size),
            (FitKind::Stretch, Resampling::Bicubic) => Fit::PillowSquareBicubic(self.size),
            (FitKind::Stretch, Resampling::Bilinear) => Fit::PillowSquare(self.size),
        };
        let channels = if self.channels == 1 { Channels::Grey } else { Channels::Rgb };
        Prepare { fit, channels, invert: false }
    }

    /// Prepares one picture: resized, cropped and converted.
    pub fn apply(&self, picture: Picture) -> Picture {
        self.prepare().apply(picture)
    }
}

impl FitKind {
    /// Both ways of making a picture square.
    pub const ALL: [Self; 2] = [Self::Crop, Self::Stretch];
    /// The names of both kinds, in the order of [`Self::ALL`].
    pub const NAMES: [&'static str; 2] = ["crop", "stretch"];
}

impl Resampling {
    /// Both filters that resize.
    pub const ALL: [Self; 2] = [Self::Bicubic, Self::Bilinear];
    /// The names of both filters, in the order of [`Self::ALL`].
    pub const NAMES: [&'static str; 2] = ["bicubic", "bilinear"];
}

impl fmt::Display for FitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

impl fmt::Display for Resampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

impl FromStr for FitKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        by_name("fit", text, Self::ALL, Self::NAMES)
    }
}

impl FromStr for Resampling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        by_name("resampling", text, Self::ALL, Self::NAMES)
    }
}

/// The value of this name; the error names the field and both names.
fn by_name<T: Copy>(field: &'static str, text: &str, all: [T; 2], names: [&'static str; 2]) -> Result<T> {
    let found = all.into_iter().zip(names).find(|(_, name)| *name == text);
    found.map(|(value, _)| value).ok_or_else(|| {
        Error::setting(field, format!("'{text}' is not known"), format!("use {}", names.join(" or ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resize::tests::test_picture;
    use crate::resize::{Filter, pillow};

    #[test]
    fn the_default_is_the_centre_square_bit_for_bit() {
        for channels in [Channels::Grey, Channels::Rgb] {
            let old = Prepare { fit: Fit::CentreSquare(32), channels, invert: false };
            let new = Preparation {
                channels: if channels == Channels::Grey { 1 } else { 3 },
                ..Default::default()
            };
            assert_eq!(new.apply(test_picture(70, 41)), old.apply(test_picture(70, 41)));
            assert_eq!(new.prepare(), old);
        }
    }

    #[test]
    fn every_combination_resizes_in_its_own_way() {
        // 60 x 40 to 20: cropped, 20 * 60 / 40 = 30 wide and 5 cut off at each side; stretched, 20 x 20.
        let from = test_picture(60, 40);
        let with = |fit, resampling| {
            Preparation { size: 20, fit, resampling, ..Default::default() }.apply(from.clone())
        };
        for (resampling, filter) in
            [(Resampling::Bicubic, Filter::Bicubic), (Resampling::Bilinear, Filter::Bilinear)]
        {
            let cropped = pillow(&from, 30, 20, filter).crop(5, 0, 20, 20);
            assert_eq!(with(FitKind::Crop, resampling), cropped, "{resampling}");
            assert_eq!(with(FitKind::Stretch, resampling), pillow(&from, 20, 20, filter), "{resampling}");
        }
        assert_ne!(with(FitKind::Crop, Resampling::Bicubic), with(FitKind::Crop, Resampling::Bilinear));
    }

    #[test]
    fn a_picture_of_the_right_size_stays_as_it_is() {
        for (fit, resampling) in FitKind::ALL.into_iter().zip(Resampling::ALL) {
            let preparation = Preparation { fit, resampling, ..Default::default() };
            assert_eq!(preparation.apply(test_picture(32, 32)), test_picture(32, 32));
        }
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let fails = |preparation: Preparation| preparation.check().unwrap_err().to_string();
        for size in [0, 15, 1025] {
            let text = fails(Preparation { size, ..Default::default() });
            assert_eq!(text, format!("size: {size} pixels is out of range; use 16 to 1024 pixels"));
        }
        let text = fails(Preparation { channels: 4, ..Default::default() });
        assert_eq!(text, "channels: images cannot have 4 channels; use 1 for grey or 3 for colour");
        for size in [16, 1024] {
            assert!(Preparation { size, channels: 1, ..Default::default() }.check().is_ok());
        }
    }

    #[test]
    fn names_and_files_read_back() {
        for (fit, resampling) in FitKind::ALL.into_iter().zip(Resampling::ALL) {
            assert_eq!(fit.to_string().parse::<FitKind>().unwrap(), fit);
            assert_eq!(resampling.to_string().parse::<Resampling>().unwrap(), resampling);
            let stored = Preparation { size: 64, channels: 1, fit, resampling };
            let text = serde_json::to_string(&stored).unwrap();
            assert_eq!(serde_json::from_str::<Preparation>(&text).unwrap(), stored);
        }
        let text = serde_json::to_string(&Preparation::default()).unwrap();
        assert_eq!(text, r#"{"size":32,"channels":3,"fit":"crop","resampling":"bicubic"}"#);
        assert_eq!(serde_json::from_str::<Preparation>("{}").unwrap(), Preparation::default());
        assert!(serde_json::from_str::<Preparation>(r#"{"sise":32}"#).is_err());
        let text = "squeeze".parse::<FitKind>().unwrap_err().to_string();
        assert_eq!(text, "fit: 'squeeze' is not known; use crop or stretch");
    }
}
