//! Data becomes tasks.

mod dataset;
pub mod datasets;
mod error;
pub mod formats;
pub mod generated;
mod image_set;
mod picture;
mod prepare;
pub mod resize;
mod seed;

pub use dataset::{Dataset, Keep, ReadOptions, Split};
pub use error::{Error, Place, Result, nearest};
pub use image_set::{ImageSet, ImageShape};
pub use picture::Picture;
pub use prepare::{Channels, Fit, Prepare};
pub use seed::{Random, Seed};
