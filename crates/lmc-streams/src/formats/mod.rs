//! Readers, one file per format, all giving a [`crate::Dataset`] or an [`crate::ImageSet`].

pub mod cifar;
pub mod decode;
pub mod dtd;
pub mod folder;
pub mod idx;
mod intake;
pub mod manifest;
pub mod mat;
mod npy;
pub mod npz;
pub mod omniglot;
pub mod parquet;
mod parquet_columns;
mod parquet_pages;
mod raw;

use std::path::Path;

use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};

/// Reads a user's own data, whatever its form: a folder of class folders or of parquet files, a `.csv` list,
/// an `.npz` or a `.parquet` file.
pub fn read_any(path: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    if !path.exists() {
        Err(Error::bad(path, "there is no such file or folder", "check the path"))
    } else if path.is_dir() {
        read_folder(path, options)
    } else if extension == "csv" {
        manifest::read(path, options)
    } else if extension == "npz" {
        npz::read(path, options)
    } else if extension == "parquet" {
        parquet::read(&folder::name_of(path), &[(Split::Train, path.to_owned())], None, options)
    } else {
        Err(not_accepted(path))
    }
}

fn read_folder(path: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    if let Ok(files) = parquet::find_files(path) {
        return parquet::read(&folder::name_of(path), &files, None, options);
    }
    if folder::subfolders(path)?.is_empty() {
        return Err(not_accepted(path));
    }
    folder::read(path, options)
}

fn not_accepted(path: &Path) -> Error {
    Error::bad(
        path,
        "this is not a form of data that we read",
        "give a folder with one subfolder of pictures per class, a folder of .parquet files, \
         a .csv with the columns path,label, a .npz or a .parquet file",
    )
}
