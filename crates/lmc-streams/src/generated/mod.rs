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
use crate::seed::Seed;

/// Training images of each class.
pub const TRAIN_PER_CLASS: u32 = 1500;

/// Test images of each class.
pub const TEST_PER_CLASS: u32 = 200;

/// A kind of generated images.
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
    /// All five.
    pub const ALL: [Self; 5] = [Self::Digits, Self::Garments, Self::Textures, Self::Plates, Self::Objects];

    /// The name of the data set.
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

    /// The family with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// The family that stands for this real data set.
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
