//! Which parquet files a folder holds, and which split each belongs to. Nothing is read.

use std::fs;
use std::path::{Path, PathBuf};

use crate::dataset::Split;
use crate::error::{Error, Result};

/// The parquet files of a folder, or of its subfolder `data`, by name, with the splits that their names
/// begin with. Any other name (`all-...`) counts as training data.
pub fn find_files(dir: &Path) -> Result<Vec<(Split, PathBuf)>> {
    let mut files = list(dir)?;
    if files.is_empty() && dir.join("data").is_dir() {
        files = list(&dir.join("data"))?;
    }
    if files.is_empty() {
        return Err(Error::bad(dir, "there is no .parquet file in this folder", "check the path"));
    }
    files.sort();
    Ok(files.into_iter().map(|path| (split_of(&path), path)).collect())
}

fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io("read", dir))? {
        let path = entry.map_err(Error::io("read", dir))?.path();
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")) {
            files.push(path);
        }
    }
    Ok(files)
}

fn split_of(path: &Path) -> Split {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let first_word = name.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    Split::from_name(first_word).unwrap_or(Split::Train)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_by_the_first_word() {
        let split = |name: &str| split_of(Path::new(name));
        assert_eq!(split("data/train-00000-of-00002.parquet"), Split::Train);
        assert_eq!(split("test.parquet"), Split::Test);
        assert_eq!(split("Validation_0.parquet"), Split::Val);
        assert_eq!(split("dev-1.parquet"), Split::Val);
        assert_eq!(split("device.parquet"), Split::Train);
        assert_eq!(split("all-00000-of-00001.parquet"), Split::Train);
    }
}
