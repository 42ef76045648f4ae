//! A model file and everything that belongs to it, owned by one process at a time.
//!
//! | beside `shop.lmc` | what it is |
//! | --- | --- |
//! | `shop.lmc.lock` | locked by the process that changes the model, and gone when it is done ([`super::lock`]) |
//! | `shop.lmc.partial` | the state of a task that is being learned ([`super::partial`]) |
//! | `shop.lmc.dates` | when each act in its history happened ([`super::dates`]) |
//! | `.lmc-tmp-…` | a file that is being written, or that a killed process left; then it is removed here |
//!
//! [`ModelFile::open`] takes the lock and the fingerprint of the content. [`ModelFile::save`] compares the fingerprint
//! before it renames the new file over the old one: programs that know nothing of locks (`cp`), and file systems that
//! have none, lose nothing either. Mode and owner stay; a read-only file is refused at the beginning.

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use lmc_streams::{
    PreparedFile, create_file_like, folder_of, followed, read_file, remove_leftovers, replaceable,
};

use super::dates::Dates;
use super::lock::FileLock;
use super::{LARGEST_FILE, beside};
use crate::error::{Error, Result};
use crate::model::Model;

/// A model file that this process may change, until it is dropped.
#[derive(Debug)]
pub struct ModelFile {
    path: PathBuf,
    lock: FileLock,
    /// Hash of the content when it was opened or saved; `None` if there was no file.
    fingerprint: Option<String>,
    /// The content, until it is loaded.
    bytes: Option<Vec<u8>>,
    /// When the acts in its history happened.
    dates: Dates,
    /// The models that it is made of: it is no more open to others than they are.
    made_of: Vec<PathBuf>,
}

impl ModelFile {
    /// Opens a model file, which need not exist, for this process alone; [`Error::Locked`] if another one has it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = followed(path.as_ref())?;
        let folder = folder_of(&path);
        if !folder.is_dir() {
            let problem = "there is no such folder to write into";
            return Err(Error::bad(folder, problem, "create it, or choose another"));
        }
        replaceable(&path)?;
        let lock = FileLock::acquire(beside(&path, ".lock"), &path)?;
        // Only now: the file may have been replaced while we waited.
        if let Some(old) = replaceable(&path)? {
            check_owner(&path, &old, &lock)?;
        }
        remove_leftovers(folder);
        let bytes = content(&path)?;
        let fingerprint = bytes.as_deref().map(hash);
        let dates = Dates::read(&path);
        Ok(Self { path, lock, fingerprint, bytes, dates, made_of: Vec::new() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hash of the content when the file was opened or saved; `None` if there was no file.
    pub fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// Whether other processes are kept out: some network file systems have no locks.
    pub fn is_locked(&self) -> bool {
        self.lock.is_held()
    }

    /// The file that holds the state of a task that is being learned.
    pub fn partial(&self) -> PathBuf {
        beside(&self.path, ".partial")
    }

    /// Reads the model, to compute on a device; `None` if there is no file yet.
    pub fn load(&mut self, device: &Device) -> Result<Option<Model>> {
        let bytes = match self.bytes.take() {
            Some(bytes) => Some(bytes),
            None => content(&self.path)?,
        };
        bytes.map(|bytes| Model::from_bytes(&bytes, &self.path, device)).transpose()
    }

    /// Reads the model as [`ModelFile::load`] does, to change it otherwise than by going on with a half-learned task.
    pub fn load_to_change(&mut self, device: &Device) -> Result<Option<Model>> {
        let model = self.load(device)?;
        if let Some(model) = &model {
            self.drop_spent_partial(model)?;
        }
        self.check_no_partial()?;
        Ok(model)
    }

    /// Whether a path leads to this file.
    pub fn is_at(&self, path: &Path) -> bool {
        let real = |path: &Path| fs::canonicalize(path).ok();
        real(path).is_some_and(|path| real(&self.path) == Some(path))
    }

    /// Says that the model is made of another: it takes over the dates of its history, and a new file is no more open to
    /// others than that one.
    pub fn made_of(&mut self, other: &Path) {
        self.dates.extend(Dates::read(other));
        self.made_of.push(other.to_owned());
    }

    /// Replaces the file by a model. If another program has changed the file meanwhile, that stays, and the model is
    /// written beside it: [`Error::Changed`] says where.
    pub fn save(&mut self, model: &Model) -> Result<()> {
        let bytes = model.to_bytes(&self.path)?;
        let new = hash(&bytes);
        let prepared = PreparedFile::new(&self.path, &bytes)?;
        if self.fingerprint.is_none() {
            self.made_of.iter().try_for_each(|other| prepared.restrict_to(other))?;
        }
        // Dates first: entries that the model does not have after all do no harm.
        self.dates.write(&self.path, &model.history)?;
        // Compared when all that takes time is done: only the rename is left.
        let found = content(&self.path)?.as_deref().map(hash);
        // Nothing is lost where a file has been removed, or is the new one already.
        let unchanged = found.is_none() || found == self.fingerprint || found.as_deref() == Some(&new);
        if !unchanged {
            drop(prepared);
            let beside = self.write_beside(&bytes, model)?;
            return Err(Error::Changed { path: self.path.clone(), beside });
        }
        if found.as_deref() != Some(&new) {
            prepared.replace()?;
        }
        self.fingerprint = Some(new);
        self.bytes = None;
        self.dates = Dates::read(&self.path);
        Ok(())
    }

    /// Whether the file holds exactly this model already.
    pub fn holds(&self, model: &Model) -> Result<bool> {
        Ok(self.fingerprint.as_deref() == Some(&hash(&model.to_bytes(&self.path)?)))
    }

    /// Writes the content to the first free name beside the file: `shop-2.lmc` and so on.
    fn write_beside(&self, bytes: &[u8], model: &Model) -> Result<PathBuf> {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let extension =
            self.path.extension().map_or(String::new(), |found| format!(".{}", found.to_string_lossy()));
        for number in 2_u64.. {
            let name = self.path.with_file_name(format!("{stem}-{number}{extension}"));
            if create_file_like(&name, bytes, &self.path)? {
                self.dates.write(&name, &model.history)?;
                return Ok(name);
            }
        }
        Err(Error::bad(&self.path, "there is no free name beside it", "tidy up the folder"))
    }
}

/// Refuses a file of another user's at the beginning, because only root can give the new one to that user.
#[cfg(unix)]
fn check_owner(path: &Path, old: &fs::Metadata, lock: &FileLock) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    // A lock file may be one that another user left.
    let own = fs::metadata("/proc/self").ok().or_else(|| lock.file()?.metadata().ok());
    let own = own.map(|metadata| metadata.uid());
    match own {
        Some(own) if own != 0 && own != old.uid() => {
            let problem =
                format!("it belongs to user {}, and would belong to user {own} afterwards", old.uid());
            Err(Error::bad(path, problem, "work on a copy, or let its owner do it"))
        }
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn check_owner(_: &Path, _: &fs::Metadata, _: &FileLock) -> Result<()> {
    Ok(())
}

/// Content of a file; `None` if there is none.
fn content(path: &Path) -> Result<Option<Vec<u8>>> {
    match replaceable(path)? {
        Some(_) => Ok(Some(read_file(path, LARGEST_FILE)?)),
        None => Ok(None),
    }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
