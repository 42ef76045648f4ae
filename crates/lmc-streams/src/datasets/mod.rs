//! The data sets that we know by name: what they are, where they come from, where they lie.
//!
//! Getting them from the network needs the feature `download`.

pub mod dirs;
#[cfg(feature = "download")]
mod fetch;
#[cfg(feature = "download")]
pub mod get;
pub mod known;
pub mod locate;
mod official_files;
#[cfg(feature = "download")]
mod transfer;
#[cfg(feature = "download")]
mod unpack;
pub mod verify;

/// The classes of miniImageNet for meta-training, meta-validation and meta-test, in label order; the same for
/// what stands in for it (specification §3.8, README of the data).
pub const MINI_IMAGENET_CLASSES: [std::ops::Range<usize>; 3] = [0..64, 64..80, 80..100];
