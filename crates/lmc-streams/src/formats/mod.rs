//! Readers, one file per format, all giving a [`crate::Dataset`] or an [`crate::ImageSet`].
//!
//! Parquet needs the feature `parquet`; `.npz`, `.zip` and `.tar.gz` need the feature `archives`. Without them the
//! same calls give an error that names the feature.

pub mod cifar;
pub mod decode;
pub mod dtd;
pub mod folder;
pub mod idx;
mod intake;
mod jpeg_markers;
mod jpeg_scans;
pub mod listing;
pub mod manifest;
pub mod mat;
#[cfg(feature = "archives")]
mod npy;
#[cfg(feature = "archives")]
pub mod npz;
pub mod omniglot;
mod omniglot_zip;
mod orientation;
#[cfg(feature = "parquet")]
pub mod parquet;
#[cfg(feature = "parquet")]
mod parquet_columns;
pub mod parquet_files;
#[cfg(feature = "parquet")]
mod parquet_pages;
pub(crate) mod picture_file;
mod raw;

use std::path::{Path, PathBuf};

use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};

/// Reads a user's own data, whatever its form: a folder of class folders or of parquet files, a `.csv` list,
/// an `.npz` or a `.parquet` file.
pub fn read_any(path: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    if !path.exists() {
        Err(no_such_path(path))
    } else if path.is_dir() {
        read_folder(path, options)
    } else if extension == "csv" {
        manifest::read(path, options)
    } else if extension == "npz" {
        read_npz(path, options)
    } else if extension == "parquet" {
        read_parquet(&folder::name_of(path), &[(Split::Train, path.to_owned())], options)
    } else {
        Err(not_accepted(path))
    }
}

/// The error for a path that leads nowhere.
pub(crate) fn no_such_path(path: &Path) -> Error {
    let cure = if path.starts_with("~") {
        "only a shell knows '~': write the path of your home folder instead"
    } else {
        "check the path"
    };
    Error::bad(path, "there is no such folder or file", cure)
}

/// Reads parquet files, or says that the feature for it is off.
#[cfg(feature = "parquet")]
pub(crate) fn read_parquet(
    name: &str,
    files: &[(Split, PathBuf)],
    options: &ReadOptions<'_>,
) -> Result<Dataset> {
    parquet::read(name, files, None, options)
}

/// Says that the feature for reading parquet files is off.
#[cfg(not(feature = "parquet"))]
pub(crate) fn read_parquet(
    _name: &str,
    files: &[(Split, PathBuf)],
    _options: &ReadOptions<'_>,
) -> Result<Dataset> {
    let first = files.first().map_or(Path::new("parquet"), |(_, path)| path.as_path());
    Err(Error::feature_off(first, "parquet files", "parquet"))
}

/// Number of images and class names that a parquet file states, if it can be read.
#[cfg(feature = "parquet")]
pub(crate) fn describe_parquet(path: &Path) -> Option<(u64, Option<Vec<String>>)> {
    parquet::describe(path).ok().map(|description| (description.rows, description.classes))
}

/// Nothing is known about parquet files while the feature is off.
#[cfg(not(feature = "parquet"))]
pub(crate) fn describe_parquet(_path: &Path) -> Option<(u64, Option<Vec<String>>)> {
    None
}

#[cfg(feature = "archives")]
fn read_npz(path: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    npz::read(path, options)
}

#[cfg(not(feature = "archives"))]
fn read_npz(path: &Path, _options: &ReadOptions<'_>) -> Result<Dataset> {
    Err(Error::feature_off(path, ".npz files", "archives"))
}

fn read_folder(path: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    if let Ok(files) = parquet_files::find_files(path) {
        return read_parquet(&folder::name_of(path), &files, options);
    }
    if listing::subfolders(path)?.is_empty() {
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

#[cfg(all(test, not(feature = "parquet"), not(feature = "archives")))]
mod tests {
    use super::*;
    use crate::prepare::Prepare;

    #[test]
    fn a_form_whose_feature_is_off_names_the_feature() {
        let folder = tempfile::tempdir().unwrap();
        for (file, feature) in [("a.parquet", "parquet"), ("a.npz", "archives")] {
            let path = folder.path().join(file);
            std::fs::write(&path, b"x").unwrap();
            let error = read_any(&path, &ReadOptions::all(Prepare::AS_IS)).unwrap_err().to_string();
            assert!(error.contains(file) && error.contains(&format!("feature '{feature}'")), "{error}");
            assert!(!error.contains('\n'));
        }
        // A folder of parquet files, too.
        let error = read_any(folder.path(), &ReadOptions::all(Prepare::AS_IS)).unwrap_err().to_string();
        assert!(error.contains("a.parquet") && error.contains("feature 'parquet'"), "{error}");
    }

    #[test]
    fn published_archives_name_the_feature() {
        let folder = tempfile::tempdir().unwrap();
        let options = ReadOptions::all(Prepare::AS_IS);
        for file in ["cifar-10-binary.tar.gz", "images_background.zip"] {
            std::fs::write(folder.path().join(file), b"x").unwrap();
        }
        let archive = folder.path().join("cifar-10-binary.tar.gz");
        for error in [
            cifar::read(&archive, cifar::Kind::Ten, &options).unwrap_err(),
            omniglot::read(folder.path(), &options).unwrap_err(),
        ] {
            assert!(error.to_string().contains("feature 'archives'"), "{error}");
        }
    }
}
