//! A user's folder of pictures: `root/class/anything.png`, or `root/{train,val,test}/class/anything.png`.
//!
//! Class names are the folder names, sorted; pictures of a class (subfolders included) come in the order of
//! their paths, on any file system. Hidden files, and files that are no PNG, JPEG or WebP by their extension,
//! are ignored. A folder that links lead to twice is read once, so a loop of links ends.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use super::intake::{Entry, read_files};
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};

/// Reads a folder of class folders. Its name becomes the name of the data set.
pub fn read(root: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let splits = find_splits(root)?;
    let mut classes = Vec::new();
    let mut entries = Vec::new();
    for (split, folder) in splits {
        let found = class_folders(&folder)?;
        if split == Split::Train {
            classes = found.iter().map(|(name, _)| name.clone()).collect();
        }
        for (class, path) in found {
            let Ok(label) = classes.binary_search(&class) else {
                let problem = format!("class '{class}' is not among the training classes");
                return Err(Error::bad(&path, problem, "add training pictures of it, or remove the folder"));
            };
            entries.extend(class_entries(split, label, &class, &path)?);
        }
    }
    read_files(name_of(root), classes, &entries, options)
}

/// Reads a folder whose `train`, `val` and `test` hold different *classes*, as few-shot sets like miniImageNet
/// do: labels count through the three, and all pictures are in the training split.
pub fn read_class_splits(root: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let mut classes: Vec<String> = Vec::new();
    let mut entries = Vec::new();
    for (_, folder) in find_splits(root)? {
        for (class, path) in class_folders(&folder)? {
            if classes.contains(&class) {
                let problem = format!("class '{class}' occurs twice");
                return Err(Error::bad(&path, problem, "every class belongs to one of train, val and test"));
            }
            entries.extend(class_entries(Split::Train, classes.len(), &class, &path)?);
            classes.push(class);
        }
    }
    read_files(name_of(root), classes, &entries, options)
}

/// The class folders in a folder, of which there must be some.
fn class_folders(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let found = subfolders(folder)?;
    let real = fs::canonicalize(folder).map_err(Error::io("read", folder))?;
    for (_, path) in &found {
        refuse_way_up(path, &real)?;
    }
    if found.is_empty() {
        let cure = "make one subfolder per class and put the class's pictures there";
        return Err(Error::bad(folder, "there is no class folder in it", cure));
    }
    Ok(found)
}

/// The pictures of a class, of which there must be some.
fn class_entries(split: Split, label: usize, class: &str, path: &Path) -> Result<Vec<Entry>> {
    let pictures = pictures_below(path)?;
    if pictures.is_empty() {
        let problem = format!("class '{class}' has no picture (png, jpg, jpeg or webp)");
        return Err(Error::bad(path, problem, "add pictures, or remove the folder"));
    }
    let entry = |path| Entry { split, label: label as u32, path, listed: None };
    Ok(pictures.into_iter().map(entry).collect())
}

/// The name of a data set that a user's file or folder holds.
pub(super) fn name_of(path: &Path) -> String {
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = if absolute.is_dir() { absolute.file_name() } else { absolute.file_stem() };
    name.map_or_else(|| "data".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The folders that hold class folders. Training comes first: it decides which classes there are.
fn find_splits(root: &Path) -> Result<Vec<(Split, PathBuf)>> {
    let folders = subfolders(root)?;
    // Without a `train` beside it, `test` may well be the name of a class.
    if !folders.iter().any(|(name, _)| name == "train") {
        return Ok(vec![(Split::Train, root.to_owned())]);
    }
    let mut splits = Vec::new();
    for (name, path) in folders {
        let split = match name.as_str() {
            "train" => Split::Train,
            "val" | "valid" | "validation" => Split::Val,
            "test" => Split::Test,
            _ => {
                let problem = "a folder beside 'train' that is none of val, valid, validation, test";
                return Err(Error::bad(&path, problem, "rename it, or move it elsewhere"));
            }
        };
        if splits.iter().any(|(other, _)| *other == split) {
            return Err(Error::bad(&path, "a second folder of validation pictures", "join the two"));
        }
        splits.push((split, path));
    }
    splits.sort();
    Ok(splits)
}

/// The folders in a folder, by name.
pub(super) fn subfolders(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut folders = Vec::new();
    for (path, metadata) in visible(folder)? {
        if metadata.is_dir() {
            folders.push((text_name(&path)?, path));
        }
    }
    folders.sort();
    Ok(folders)
}

/// All pictures in a folder and below it, by path.
pub fn pictures_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut pictures = Vec::new();
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
                pictures.push(path);
            }
        }
        // The last is looked into first: which of two links is followed depends on names alone.
        open.sort_by(|a, b| b.cmp(a));
    }
    pictures.sort();
    Ok(pictures)
}

/// A link that leads to a folder, or above it, would put the pictures of all classes into one.
fn refuse_way_up(path: &Path, folder: &Path) -> Result<()> {
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
    ["png", "jpg", "jpeg", "webp"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}
