//! A data set: class names and the images of its splits.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::image_set::{ImageSet, ImageShape};
use crate::prepare::Prepare;

/// Which part of a data set or of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// To learn from.
    Train,
    /// To choose by.
    Val,
    /// To measure with, once.
    Test,
}

impl Split {
    /// All three, in order.
    pub const ALL: [Self; 3] = [Self::Train, Self::Val, Self::Test];
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

/// A data set in memory. What every reader gives, whatever the format.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// A short name: `cifar10`, or the name of the user's folder.
    pub name: String,
    /// Class names in label order.
    pub classes: Vec<String>,
    /// Training images; everything, when the source has no split.
    pub train: Arc<ImageSet>,
    /// Validation images, when the source has such a split of its own.
    pub val: Option<Arc<ImageSet>>,
    /// Test images; empty, when the source has no split.
    pub test: Arc<ImageSet>,
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

    /// The shape of its images.
    pub fn shape(&self) -> ImageShape {
        if self.train.is_empty() { self.test.shape() } else { self.train.shape() }
    }

    /// Number of images in all splits.
    pub fn len(&self) -> usize {
        Split::ALL.into_iter().filter_map(|split| self.split(split)).map(|set| set.len()).sum()
    }

    /// No images at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Which images a reader keeps: `(split, label, rank)`. What is not kept is not decoded.
pub type Keep<'a> = dyn Fn(Split, u32, u32) -> bool + Sync + 'a;

/// What every reader is told.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// How pictures are prepared.
    pub prepare: Prepare,
    /// Which images are kept; all by default.
    pub keep: &'a Keep<'a>,
}

impl ReadOptions<'static> {
    /// Everything, prepared in this way.
    pub fn all(prepare: Prepare) -> Self {
        Self { prepare, keep: &|_, _, _| true }
    }
}

impl<'a> ReadOptions<'a> {
    /// Only the images that `keep` names.
    pub fn keeping(prepare: Prepare, keep: &'a Keep<'a>) -> Self {
        Self { prepare, keep }
    }
}

impl fmt::Debug for ReadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadOptions").field("prepare", &self.prepare).finish_non_exhaustive()
    }
}
