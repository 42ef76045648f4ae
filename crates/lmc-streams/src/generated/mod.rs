//! Generated sets: for machines without any data.
//!
//! Five families of images, drawn by code from a seed, as different from each other as the five data sets
//! of the paper's streams (specification §3.1) for which they stand. An image is a pure function of family, seed,
//! split, label and rank, the same on every machine, whatever else is drawn.

mod canvas;
mod digits;
mod garments;
mod glyphs;
mod mask;
mod objects;
mod parts;
mod plates;
mod textures;

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::Result;
use crate::image_set::{ImageSet, ImageShape};
use crate::picture::Picture;
use crate::read_report::LeftOut;
use crate::seed::Seed;

/// Number of training images of each class of a generated set.
pub const TRAIN_PER_CLASS: u32 = 1500;

/// Number of test images of each class of a generated set.
pub const TEST_PER_CLASS: u32 = 200;

/// A family of generated images: one data set of ten classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Family {
    /// Digits written by hand, white on black, grey.
    Digits,
    /// Clothes laid out on black, grey.
    Garments,
    /// Surfaces of ten kinds, in colour.
    Textures,
    /// Photographed house numbers, in colour.
    Plates,
    /// Things before a cluttered ground, in colour.
    Objects,
}

impl Family {
    /// All five families.
    pub const ALL: [Self; 5] = [Self::Digits, Self::Garments, Self::Textures, Self::Plates, Self::Objects];

    /// The name by which users call the generated set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Digits => "generated-digits",
            Self::Garments => "generated-garments",
            Self::Textures => "generated-textures",
            Self::Plates => "generated-plates",
            Self::Objects => "generated-objects",
        }
    }

    /// The name of the real data set in whose place it can be used.
    pub fn stands_for(self) -> &'static str {
        match self {
            Self::Digits => "mnist",
            Self::Garments => "fashion-mnist",
            Self::Textures => "dtd",
            Self::Plates => "svhn",
            Self::Objects => "cifar10",
        }
    }

    /// Whether its pictures are grey, as those of the real set are.
    pub fn is_grey(self) -> bool {
        matches!(self, Self::Digits | Self::Garments)
    }

    /// Class names in label order.
    pub fn classes(self) -> [&'static str; 10] {
        match self {
            Self::Digits => digits::CLASSES,
            Self::Garments => garments::CLASSES,
            Self::Textures => textures::CLASSES,
            Self::Plates => plates::CLASSES,
            Self::Objects => objects::CLASSES,
        }
    }

    /// Finds the family of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Finds the family that stands in for this real data set.
    pub fn stand_in_for(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.stands_for() == name)
    }
}

/// The seed from which everybody draws the same sets.
pub fn standard_seed() -> Seed {
    Seed::root(0).named("generated sets v1")
}

/// Draws the images that are wanted, class by class.
///
/// The only failure is a preparation that leaves no pixels.
pub fn dataset(family: Family, seed: &Seed, options: &ReadOptions<'_>) -> Result<Dataset> {
    Ok(Dataset {
        name: family.name().to_owned(),
        classes: family.classes().map(str::to_owned).to_vec(),
        train: Arc::new(images(family, seed, Split::Train, options)?),
        val: None,
        test: Arc::new(images(family, seed, Split::Test, options)?),
        left_out: LeftOut::default(),
    })
}

/// Draws one image of 32 x 32 pixels, in grey where the real set is grey.
pub fn draw(family: Family, seed: &Seed, split: Split, label: u32, rank: u32) -> Picture {
    let seed = seed.named(family.name()).named(&split.to_string());
    let mut random = seed.numbered(u64::from(label)).numbered(u64::from(rank)).random();
    match family {
        Family::Digits => digits::draw(label, &mut random),
        Family::Garments => garments::draw(label, &mut random),
        Family::Textures => textures::draw(label, &mut random),
        Family::Plates => plates::draw(label, &mut random),
        Family::Objects => objects::draw(label, &mut random),
    }
}

fn images(family: Family, seed: &Seed, split: Split, options: &ReadOptions<'_>) -> Result<ImageSet> {
    const CHUNK: usize = 512; // pictures in memory besides those kept
    let mut set = ImageSet::new(family.classes().len());
    let per_class = if split == Split::Train { TRAIN_PER_CLASS } else { TEST_PER_CLASS };
    let mut wanted = Vec::new();
    for label in 0..family.classes().len() as u32 {
        for _ in 0..per_class {
            let rank = set.count(label);
            if (options.keep)(split, label, rank) {
                wanted.push((label, rank));
            }
        }
    }
    for chunk in wanted.chunks(CHUNK) {
        let prepared =
            |&(label, rank): &(u32, u32)| options.prepare.apply(draw(family, seed, split, label, rank));
        let pictures: Vec<Picture> = chunk.par_iter().map(prepared).collect();
        if let (true, Some(first)) = (set.is_empty(), pictures.first()) {
            let shape = ImageShape { channels: first.channels, height: first.height, width: first.width };
            set.reserve(wanted.len(), shape);
        }
        for (picture, &(label, rank)) in pictures.iter().zip(chunk) {
            set.push(picture, label, rank, (Path::new(family.name()), "image"))?;
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prepare;

    /// Written down once: a change here is a new version of the sets, and then of `standard_seed`.
    const PINNED: [&str; 5] = [
        "afd4e1025da61fd9e5f0c6f408ab4c45",
        "041035c199f1e80d97bed3467dfb6de8",
        "5905438b8176e64203296a6badf63ae4",
        "5c10d6c0fc80d762c6bff3aa7566d41b",
        "a225b1dce6035fcdbaf9d0a63d0735a0",
    ];

    #[test]
    fn images_are_the_same_on_every_machine() {
        for (family, pinned) in Family::ALL.into_iter().zip(PINNED) {
            let mut hasher = blake3::Hasher::new();
            for label in 0..10 {
                for split in [Split::Train, Split::Test] {
                    hasher.update(&draw(family, &standard_seed(), split, label, 7).pixels);
                }
            }
            assert_eq!(&hasher.finalize().to_hex()[..32], pinned, "{}", family.name());
        }
    }

    #[test]
    fn what_is_kept_is_what_draw_draws_and_everything_is_counted() {
        let keep = |split, label, rank| split == Split::Test && label == 3 && rank % 50 == 1;
        let options = ReadOptions::keeping(Prepare::AS_IS, &keep);
        for family in Family::ALL {
            let set = dataset(family, &standard_seed(), &options).unwrap();
            assert!(set.train.is_empty());
            assert_eq!(set.train.source_counts(), [TRAIN_PER_CLASS; 10]);
            assert_eq!(set.test.source_counts(), [TEST_PER_CLASS; 10]);
            let ranks: Vec<u32> = (0..set.test.len()).map(|i| set.test.rank(i)).collect();
            assert_eq!(ranks, [1, 51, 101, 151]);
            assert_eq!(set.test.picture(2), draw(family, &standard_seed(), Split::Test, 3, 101));
        }
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let keep = |_, _, rank| rank < 60; // 600 training images: more than one chunk
        let options = ReadOptions::keeping(Prepare::AS_IS, &keep);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| dataset(Family::Digits, &standard_seed(), &options).unwrap().train)
        };
        assert_eq!(with(1), with(3));
    }

    #[test]
    fn images_splits_and_seeds_all_differ() {
        let mut seen = std::collections::HashSet::new();
        for family in Family::ALL {
            for (label, rank) in (0..10).flat_map(|label| (0..5).map(move |rank| (label, rank))) {
                for (seed, split) in [(0, Split::Train), (0, Split::Test), (1, Split::Train)] {
                    assert!(seen.insert(draw(family, &Seed::root(seed), split, label, rank).pixels));
                }
            }
        }
    }

    #[test]
    fn grey_where_the_original_is_grey() {
        for family in Family::ALL {
            let picture = draw(family, &standard_seed(), Split::Train, 0, 0);
            let grey = matches!(family.stands_for(), "mnist" | "fashion-mnist");
            assert_eq!(family.is_grey(), grey);
            assert_eq!(picture.channels, if grey { 1 } else { 3 });
            assert_eq!((picture.width, picture.height), (32, 32));
            assert_eq!(picture.pixels.len(), 1024 * picture.channels);
        }
    }

    #[test]
    fn names_lead_back_to_their_family() {
        for family in Family::ALL {
            assert_eq!(Family::from_name(family.name()), Some(family));
            assert_eq!(Family::stand_in_for(family.stands_for()), Some(family));
            let classes: std::collections::HashSet<_> = family.classes().into_iter().collect();
            assert_eq!(classes.len(), 10);
        }
        assert_eq!(Family::from_name("mnist"), None);
        assert_eq!(Family::stand_in_for("generated-digits"), None);
    }

    #[test]
    fn a_label_that_no_class_has_does_no_harm() {
        for family in Family::ALL {
            assert_eq!(draw(family, &standard_seed(), Split::Train, u32::MAX, 0).width, 32);
        }
    }

    #[test]
    fn a_preparation_that_leaves_nothing_is_an_error() {
        let keep = |_, label, rank| label == 0 && rank == 0;
        let options = ReadOptions::keeping(Prepare::rgb_square(0), &keep);
        assert!(dataset(Family::Digits, &standard_seed(), &options).is_err());
    }
}
