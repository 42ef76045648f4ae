//! A data set: class names and the images of its splits.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::image_set::{ImageSet, ImageShape};
use crate::prepare::Prepare;
use crate::read_report::LeftOut;

/// One of the three parts of a data set or of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Images that parameters are fitted to.
    Train,
    /// Images by which epochs and settings are chosen.
    Val,
    /// Images on which the result is measured.
    Test,
}

impl Split {
    /// All three splits, in order.
    pub const ALL: [Self; 3] = [Self::Train, Self::Val, Self::Test];

    /// The split that a user calls so, in any case: train, training; val, valid, validation, dev; test, testing.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_lowercase().as_str() {
            "train" | "training" => Some(Self::Train),
            "val" | "valid" | "validation" | "dev" => Some(Self::Val),
            "test" | "testing" => Some(Self::Test),
            _ => None,
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Val => "val",
            Self::Test => "test",
        })
    }
}

/// A data set in memory, which every reader gives, whatever the format.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// A short name: `cifar10`, or the name of the user's folder.
    pub name: String,
    /// Class names in label order.
    pub classes: Vec<String>,
    /// Training images; all images, when the source has no splits.
    pub train: Arc<ImageSet>,
    /// Validation images, when the source has such a split of its own.
    pub val: Option<Arc<ImageSet>>,
    /// Test images; none, when the source has no splits.
    pub test: Arc<ImageSet>,
    /// Files and pictures that the reader came across and did not read.
    pub left_out: LeftOut,
}

impl Dataset {
    /// The images of a split, if there are any.
    pub fn split(&self, split: Split) -> Option<&Arc<ImageSet>> {
        match split {
            Split::Train => Some(&self.train),
            Split::Val => self.val.as_ref(),
            Split::Test => Some(&self.test),
        }
        .filter(|set| !set.is_empty())
    }

    /// The shape of every image.
    pub fn shape(&self) -> ImageShape {
        if self.train.is_empty() { self.test.shape() } else { self.train.shape() }
    }

    /// Number of images in all splits.
    pub fn len(&self) -> usize {
        Split::ALL.into_iter().filter_map(|split| self.split(split)).map(|set| set.len()).sum()
    }

    /// Whether there are no images at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which images a reader keeps: `(split, label, rank)`. Images that are not kept are not decoded.
pub type Keep<'a> = dyn Fn(Split, u32, u32) -> bool + Sync + 'a;

/// What every reader needs to know besides the path.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// How pictures are prepared.
    pub prepare: Prepare,
    /// Which images are kept; all by default.
    pub keep: &'a Keep<'a>,
    /// Whether pictures that cannot be read are left out and reported instead of being an error.
    pub skip_damaged: bool,
    /// Whether pictures are turned upright by their EXIF orientation. True by default; the paper's data sets are
    /// read as they are stored, because the authors' tools ignored the orientation.
    pub upright: bool,
}

impl ReadOptions<'static> {
    /// Keeps all images, prepared in this way.
    pub fn all(prepare: Prepare) -> Self {
        Self::keeping(prepare, &|_, _, _| true)
    }
}

impl<'a> ReadOptions<'a> {
    /// Keeps only the images that `keep` names.
    pub fn keeping(prepare: Prepare, keep: &'a Keep<'a>) -> Self {
        Self { prepare, keep, skip_damaged: false, upright: true }
    }
}

impl fmt::Debug for ReadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOptions")
            .field("prepare", &self.prepare)
            .field("skip_damaged", &self.skip_damaged)
            .field("upright", &self.upright)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spellings_of_splits_are_understood() {
        for (names, split) in [
            (&["train", "Training", "TRAIN"][..], Some(Split::Train)),
            (&["val", "Valid", "validation", "DEV"], Some(Split::Val)),
            (&["test", "TESTING"], Some(Split::Test)),
            (&["tests", "trains", "holdout", ""], None),
        ] {
            assert!(names.iter().all(|name| Split::from_name(name) == split), "{names:?}");
        }
    }
}
