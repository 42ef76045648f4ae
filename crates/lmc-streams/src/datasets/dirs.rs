//! The folders in which data sets are looked for.
//!
//! Search order: the folder that the user names, `$LMC_DATA`, the platform's own data folder. In each, a data set
//! is a sub-folder with its name.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::locate::Located;
use crate::error::{Error, Result};

/// The folders that are searched, in order.
#[derive(Clone, Debug, Default)]
pub struct DataDirs {
    dirs: Vec<PathBuf>,
    /// Whether the user named the first folder. A damaged set there is an error: it is not silently taken from
    /// another folder.
    first_is_named: bool,
}

impl DataDirs {
    /// The search order of the program; `given` is the folder that the user named.
    pub fn search(given: Option<&Path>) -> Result<Self> {
        if let Some(dir) = given
            && !dir.is_dir()
        {
            return Err(Error::bad(dir, "no such data folder", "correct --data-dir, or create the folder"));
        }
        let all = [given.map(Path::to_owned), variable("LMC_DATA"), platform_dir()];
        Ok(Self { dirs: all.into_iter().flatten().collect(), first_is_named: given.is_some() })
    }

    /// Searches one folder alone.
    pub fn only(dir: impl Into<PathBuf>) -> Self {
        Self { dirs: vec![dir.into()], first_is_named: true }
    }

    /// The folder into which `lmc data get` puts data sets: the named one, `$LMC_DATA`, or the platform's own.
    pub fn download_dir(given: Option<&Path>) -> Option<PathBuf> {
        given.map(Path::to_owned).or_else(|| variable("LMC_DATA")).or_else(platform_dir)
    }

    /// The folders in search order.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// The folders as text for messages.
    pub fn describe(&self) -> String {
        match self.dirs.len() {
            0 => "no folder".to_owned(),
            _ => self.dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", "),
        }
    }

    /// Finds a known data set: the first folder that holds it in a layout that we understand. If the folder that
    /// the user named holds something else under that name, that is an error.
    pub fn locate(&self, name: &str) -> Result<Option<Located>> {
        for (number, dir) in self.dirs.iter().enumerate() {
            let path = dir.join(name);
            if let Some(located) = Located::at(&path, name) {
                return Ok(Some(located));
            }
            let held = if number == 0 && self.first_is_named { visible_names(&path) } else { Vec::new() };
            if !held.is_empty() {
                let problem =
                    format!("data set '{name}' is damaged or incomplete here (it holds {})", abridged(&held));
                let cure = format!("get it again with 'lmc data get {name}', or move this folder away");
                return Err(Error::bad(&path, problem, cure));
            }
        }
        Ok(None)
    }
}

/// The names in a folder that are not hidden, sorted; none, if there is no such folder.
fn visible_names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

fn abridged(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

/// A path from the environment; an empty one counts as none.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The platform's folder for application data.
fn platform_dir() -> Option<PathBuf> {
    let base = if cfg!(target_os = "windows") {
        variable("APPDATA")
    } else if cfg!(target_os = "macos") {
        variable("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        variable("XDG_DATA_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/share")))
    };
    base.map(|base| base.join("lmc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVHN: [&str; 2] = ["train_32x32.mat", "test_32x32.mat"];

    /// A data folder in which `svhn` holds these files.
    fn data(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("svhn")).unwrap();
        for file in files {
            fs::write(dir.path().join("svhn").join(file), b"x").unwrap();
        }
        dir
    }

    fn dirs(all: [&Path; 2], first_is_named: bool) -> DataDirs {
        DataDirs { dirs: all.map(Path::to_owned).to_vec(), first_is_named }
    }

    #[test]
    fn a_damaged_set_in_the_named_folder_is_not_taken_from_another() {
        let (whole, damaged, empty) = (data(&SVHN), data(&SVHN[..1]), data(&[]));
        let error = dirs([damaged.path(), whole.path()], true).locate("svhn").unwrap_err().to_string();
        let folder = damaged.path().join("svhn").display().to_string();
        assert!(error.starts_with(&folder) && error.contains("damaged or incomplete"), "{error}");
        assert!(error.contains("train_32x32.mat") && error.contains("lmc data get svhn"), "{error}");
        // Not named, or nothing there: the next folder is looked into.
        for dirs in [dirs([damaged.path(), whole.path()], false), dirs([empty.path(), whole.path()], true)] {
            assert_eq!(dirs.locate("svhn").unwrap().unwrap().path, whole.path().join("svhn"));
        }
        assert!(dirs([whole.path(), damaged.path()], true).locate("mnist").unwrap().is_none());
    }

    #[test]
    fn a_named_folder_must_be_there_and_comes_first() {
        let here = tempfile::tempdir().unwrap();
        assert_eq!(DataDirs::search(Some(here.path())).unwrap().dirs()[0], here.path());
        let error = DataDirs::search(Some(&here.path().join("no"))).unwrap_err().to_string();
        assert!(error.contains("no such data folder"), "{error}");
        assert!(DataDirs::search(None).unwrap().dirs().iter().all(|dir| !dir.ends_with("shared/data")
            || Some(dir.as_os_str()) == env::var_os("LMC_DATA").as_deref()));
    }
}
