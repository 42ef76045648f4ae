//! The Describable Textures Dataset, release 1.0.1, split 1 (specification §3.1): train = the lists train1
//! and val1, one after the other (80 a class), test = test1 (40 a class).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::intake::read_files;
use super::listing::subfolders;
use super::picture_file::PictureFile;
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::read_report::SkippedFiles;
use crate::regular_file::open_file;

const UNPACK: &str = "unpack dtd-r1.0.1.tar.gz and give the folder 'dtd' that is in it";

/// Reads the unpacked release: the folder `dtd`, which holds `images` and `labels`, or the folder around it.
pub fn read(root: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let root = find_root(root)?;
    let images = root.join("images");
    let classes: Vec<String> = subfolders(&images)?.into_iter().map(|(name, _)| name).collect();
    if classes.is_empty() {
        return Err(Error::bad(&images, "there is no class folder in it", UNPACK));
    }
    let mut files = Vec::new();
    for (split, list) in [(Split::Train, "train1"), (Split::Train, "val1"), (Split::Test, "test1")] {
        let list = root.join("labels").join(list).with_extension("txt");
        read_list(&list, &images, &classes, split, &mut files)?;
    }
    read_files("dtd".to_owned(), &root, classes, &files, SkippedFiles::default(), options)
}

fn find_root(root: &Path) -> Result<PathBuf> {
    let candidates = [root.to_owned(), root.join("dtd")];
    let whole = |root: &PathBuf| root.join("images").is_dir() && root.join("labels").is_dir();
    let missing = || Error::bad(root, "there are no folders 'images' and 'labels' in it", UNPACK);
    candidates.into_iter().find(whole).ok_or_else(missing)
}

fn read_list(
    list: &Path,
    images: &Path,
    classes: &[String],
    split: Split,
    files: &mut Vec<PictureFile>,
) -> Result<()> {
    let file = open_file(list)?;
    let shared: Arc<Path> = Arc::from(list);
    for (line, text) in (1..).zip(BufReader::new(file).lines()) {
        let text = text.map_err(Error::io("read", list))?;
        let name = text.trim();
        if name.is_empty() {
            continue;
        }
        // Exactly `class/file`: a list must not be able to name files elsewhere.
        let label = name.split_once('/').and_then(|(class, file)| {
            let plain = !file.is_empty() && !file.contains(['/', '\\']) && file != "..";
            classes.binary_search_by(|known| known.as_str().cmp(class)).ok().filter(|_| plain)
        });
        let Some(label) = label else {
            let problem = format!("'{name}' is not class/file with a class that 'images' has");
            return Err(Error::bad_at(list, format!("line {line}"), problem, UNPACK));
        };
        let listed = Some((Arc::clone(&shared), line));
        files.push(PictureFile { split, label: label as u32, path: images.join(name), listed });
    }
    Ok(())
}
