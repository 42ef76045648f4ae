//! What lies in a folder: pictures, other folders, and files that are no pictures.
//!
//! Hidden files and folders are not looked at. A folder that links lead to twice is listed once, so a loop of
//! links ends.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use super::decode::EXTENSIONS;
use crate::error::{Error, Result};
use crate::read_report::SkippedFiles;

/// The pictures below a folder, and the files that are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PictureListing {
    /// Paths of the pictures, sorted.
    pub pictures: Vec<PathBuf>,
    /// Files that are no pictures by their extension.
    pub skipped: SkippedFiles,
}

/// Lists the pictures in a folder and below it, by path, and counts the other files.
pub fn pictures_below(folder: &Path) -> Result<PictureListing> {
    let mut listing = PictureListing::default();
    let mut seen = HashSet::new();
    let mut open = vec![folder.to_owned()];
    let above = fs::canonicalize(folder).map_err(Error::io("read", folder))?.parent().map(Path::to_owned);
    while let Some(folder) = open.pop() {
        let real = fs::canonicalize(&folder).map_err(Error::io("read", &folder))?;
        if let Some(above) = &above {
            refuse_way_up(&folder, above)?;
        }
        if !seen.insert(real) {
            continue;
        }
        for (path, metadata) in visible(&folder)? {
            if metadata.is_dir() {
                text_name(&path)?;
                open.push(path);
            } else if metadata.is_file() && is_picture(&path) {
                text_name(&path)?;
                listing.pictures.push(path);
            } else {
                listing.skipped.add(&path);
            }
        }
        // The last is looked into first: which of two links is followed depends on names alone.
        open.sort_by(|a, b| b.cmp(a));
    }
    listing.pictures.sort();
    Ok(listing)
}

/// The folders in a folder, by name.
pub(super) fn subfolders(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    Ok(folders_and_files(folder)?.0)
}

/// The folders in a folder, by name, and a count of the files beside them.
pub(super) fn folders_and_files(folder: &Path) -> Result<(Vec<(String, PathBuf)>, SkippedFiles)> {
    let (mut folders, mut files) = (Vec::new(), SkippedFiles::default());
    for (path, metadata) in visible(folder)? {
        if metadata.is_dir() {
            folders.push((text_name(&path)?, path));
        } else {
            files.add(&path);
        }
    }
    folders.sort();
    Ok((folders, files))
}

/// Refuses a link that leads to a folder or above it: it would put the pictures of all classes into one.
pub(super) fn refuse_way_up(path: &Path, folder: &Path) -> Result<()> {
    let real = fs::canonicalize(path).map_err(Error::io("read", path))?;
    if folder.starts_with(&real) {
        let problem = format!("a link that leads back up to {}", real.display());
        return Err(Error::bad(path, problem, "remove the link"));
    }
    Ok(())
}

/// What a folder holds and does not hide; links are followed.
fn visible(folder: &Path) -> Result<Vec<(PathBuf, Metadata)>> {
    let listing = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    let mut found = Vec::new();
    for entry in listing {
        let entry = entry.map_err(Error::io("read", folder))?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        let metadata = fs::metadata(&path).map_err(|error| {
            if path.is_symlink() {
                Error::bad(&path, format!("a link that leads nowhere ({error})"), "repair or remove the link")
            } else {
                Error::io("read", &path)(error)
            }
        })?;
        found.push((path, metadata));
    }
    Ok(found)
}

fn text_name(path: &Path) -> Result<String> {
    let name = path.file_name().unwrap_or_default();
    name.to_str().map(str::to_owned).ok_or_else(|| {
        let problem = format!("the name '{}' is not valid UTF-8", name.to_string_lossy());
        Error::bad(path, problem, "rename it")
    })
}

fn is_picture(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
}
