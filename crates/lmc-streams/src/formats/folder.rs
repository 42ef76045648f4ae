//! A user's folder of pictures: `root/class/anything.png`, or `root/{train,val,test}/class/anything.png`.
//!
//! Class names are the folder names, sorted; pictures of a class (subfolders included) come in the order of
//! their paths, on any file system. Split folders may be written in any case and in the usual spellings
//! ([`Split::from_name`]). Hidden files are ignored; other files that are no pictures by their extension, and
//! files outside the class folders, are counted in [`Dataset::left_out`].

use std::fs;
use std::path::{Path, PathBuf};

use super::decode::EXTENSIONS;
use super::intake::read_files;
use super::listing::{folders_and_files, pictures_below, refuse_way_up, subfolders};
use super::picture_file::PictureFile;
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::read_report::SkippedFiles;

/// Reads a folder of class folders. Its name becomes the name of the data set.
pub fn read(root: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let mut found = FolderPictures::default();
    let mut classes = Vec::new();
    for (split, folder) in find_splits(root, &mut found.skipped)? {
        let folders = class_folders(&folder, &mut found.skipped)?;
        if split == Split::Train {
            classes = folders.iter().map(|(name, _)| name.clone()).collect();
        }
        for (class, path) in folders {
            let Ok(label) = classes.binary_search(&class) else {
                let problem = format!("class '{class}' is not among the training classes");
                return Err(Error::bad(&path, problem, "add training pictures of it, or remove the folder"));
            };
            found.add_class(split, label, &class, &path)?;
        }
    }
    read_files(name_of(root), root, classes, &found.files, found.skipped, options)
}

/// Reads a folder whose `train`, `val` and `test` hold different *classes*, as few-shot sets like miniImageNet
/// do: labels count through the three, and all pictures are in the training split.
pub fn read_class_splits(root: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let mut found = FolderPictures::default();
    let mut classes: Vec<String> = Vec::new();
    for (_, folder) in find_splits(root, &mut found.skipped)? {
        for (class, path) in class_folders(&folder, &mut found.skipped)? {
            if classes.contains(&class) {
                let problem = format!("class '{class}' occurs twice");
                return Err(Error::bad(&path, problem, "every class belongs to one of train, val and test"));
            }
            found.add_class(Split::Train, classes.len(), &class, &path)?;
            classes.push(class);
        }
    }
    read_files(name_of(root), root, classes, &found.files, found.skipped, options)
}

/// The pictures of all classes, and the files that are none.
#[derive(Default)]
struct FolderPictures {
    files: Vec<PictureFile>,
    skipped: SkippedFiles,
}

impl FolderPictures {
    /// Adds the pictures of a class, of which there must be some.
    fn add_class(&mut self, split: Split, label: usize, class: &str, path: &Path) -> Result<()> {
        let listing = pictures_below(path)?;
        if listing.pictures.is_empty() {
            let here =
                if listing.skipped.is_empty() { String::new() } else { format!("; {}", listing.skipped) };
            let problem = format!("class '{class}' has no picture ({}{here})", EXTENSIONS.join(", "));
            return Err(Error::bad(path, problem, "add pictures, or remove the folder"));
        }
        let file = |path| PictureFile { split, label: label as u32, path, listed: None };
        self.files.extend(listing.pictures.into_iter().map(file));
        self.skipped.extend(listing.skipped);
        Ok(())
    }
}

/// The class folders in a folder, of which there must be some; files beside them are counted as skipped.
fn class_folders(folder: &Path, skipped: &mut SkippedFiles) -> Result<Vec<(String, PathBuf)>> {
    let (found, files) = folders_and_files(folder)?;
    skipped.extend(files);
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

/// The name of a data set that a user's file or folder holds.
pub(super) fn name_of(path: &Path) -> String {
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = if absolute.is_dir() { absolute.file_name() } else { absolute.file_stem() };
    name.map_or_else(|| "data".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The folders that hold class folders. Training comes first: it decides which classes there are.
fn find_splits(root: &Path, skipped: &mut SkippedFiles) -> Result<Vec<(Split, PathBuf)>> {
    let folders = subfolders(root)?;
    let train = folders.iter().find(|(name, _)| Split::from_name(name) == Some(Split::Train));
    // Without a folder of training pictures beside it, `test` may well be the name of a class.
    let Some((train, _)) = train.cloned() else {
        return Ok(vec![(Split::Train, root.to_owned())]);
    };
    skipped.extend(folders_and_files(root)?.1);
    let mut splits: Vec<(Split, PathBuf)> = Vec::new();
    for (name, path) in folders {
        let Some(split) = Split::from_name(&name) else {
            let problem = format!("a folder beside '{train}' that is no split (train, val or test)");
            return Err(Error::bad(&path, problem, "rename it, or move it elsewhere"));
        };
        if let Some((_, first)) = splits.iter().find(|(other, _)| *other == split) {
            let first = first.file_name().unwrap_or_default().to_string_lossy();
            let problem = format!("'{first}' and '{name}' are both folders of {split} pictures");
            return Err(Error::bad(root, problem, "join the two, or rename one"));
        }
        splits.push((split, path));
    }
    splits.sort();
    Ok(splits)
}
