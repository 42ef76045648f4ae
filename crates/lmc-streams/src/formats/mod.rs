//! Readers, one file per format, all giving a [`crate::Dataset`] or an [`crate::ImageSet`].

pub mod cifar;
pub mod decode;
pub mod dtd;
pub mod folder;
pub mod idx;
pub mod manifest;
pub mod mat;
mod npy;
pub mod npz;
pub mod omniglot;
pub mod parquet;
mod raw;
