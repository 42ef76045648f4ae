//! The lock of a model file: one process at a time may change it.
//!
//! The lock is an advisory one on a file of its own beside the model (`shop.lmc.lock`), because the model file itself is
//! replaced by every save. The lock file names its holder for whoever comes second. It is removed when the holder is done;
//! a killed holder leaves it, unlocked, and the next one takes it over. A process that locks a file which its holder was
//! just removing sees that the name no longer leads to it, and tries again.
//!
//! Some network file systems have no locks. Then there is none, and only the fingerprint of the model file
//! ([`super::model_file`]) tells that somebody else has written it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};

/// A lock that is held until it is dropped or the process ends.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    /// `None` where the file system has no locks.
    file: Option<File>,
}

/// Longest text of a lock file that is read.
const LONGEST_HOLDER: u64 = 200;

/// A holder that does not say who it is.
const SOMEBODY: &str = "another process";

impl FileLock {
    /// Locks `path` for work on `model`; [`Error::Locked`] if another process has it.
    pub(crate) fn acquire(path: PathBuf, model: &Path) -> Result<Self> {
        const TRIES: usize = 1000;
        // A holder writes its name right after it has locked the file, or is about to remove it.
        const NAMELESS: usize = 40;
        const PAUSE: Duration = Duration::from_millis(5);
        for tried in 0..TRIES {
            let mut file = open(&path, model)?;
            match file.try_lock() {
                Ok(()) if leads_to(&path, &file) => {
                    // The name of the holder is for people; the lock holds without it.
                    let _ = file.set_len(0).and_then(|()| file.write_all(own_name().as_bytes()));
                    return Ok(Self { path, file: Some(file) });
                }
                // The holder before us has just removed it.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => match holder(&mut file) {
                    None if tried < NAMELESS => thread::sleep(PAUSE),
                    name => {
                        let holder = name.unwrap_or_else(|| SOMEBODY.into());
                        return Err(Error::Locked { path: model.to_owned(), holder });
                    }
                },
                // No sign that there are no locks.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(_)) => {
                    let _ = fs::remove_file(&path);
                    return Ok(Self { path, file: None });
                }
            }
        }
        Err(Error::Locked { path: model.to_owned(), holder: SOMEBODY.into() })
    }

    /// Whether there is a lock: some network file systems have none.
    pub fn is_held(&self) -> bool {
        self.file.is_some()
    }

    /// The locked file.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Removed while it is locked: nobody can have taken it over yet.
        if let Some(file) = &self.file
            && cfg!(unix)
            && leads_to(&self.path, file)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn open(path: &Path, model: &Path) -> Result<File> {
    if let Ok(metadata) = path.symlink_metadata()
        && !metadata.is_file()
    {
        return Err(Error::bad(path, "this is not a regular file, but a lock must be", "remove it"));
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    let file = open_like(&mut options, path, model).map_err(lmc_streams::Error::io("write", path))?;
    Ok(file)
}

/// Opens a file that is no more open to others than the model, and that its owner can take over.
#[cfg(unix)]
fn open_like(options: &mut OpenOptions, path: &Path, model: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    let Ok(metadata) = fs::metadata(model) else { return options.open(path) };
    let mode = metadata.permissions().mode() & 0o666 | 0o600;
    let file = options.mode(mode).open(path)?;
    // Who does not own the file left by another may still lock it.
    let _ = file.set_permissions(fs::Permissions::from_mode(mode));
    Ok(file)
}

#[cfg(not(unix))]
fn open_like(options: &mut OpenOptions, path: &Path, _model: &Path) -> std::io::Result<File> {
    options.open(path)
}

/// Whether a path still leads to an open file.
#[cfg(unix)]
fn leads_to(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (path.symlink_metadata(), file.metadata()) {
        (Ok(there), Ok(here)) => identity(there) == identity(here),
        _ => false,
    }
}

#[cfg(not(unix))]
fn leads_to(path: &Path, _: &File) -> bool {
    path.exists()
}

/// This process, in words.
fn own_name() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    let program =
        program.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { String::new() } else { format!(" on {}", host.trim()) };
    format!("process {} ({program}){host}", std::process::id())
}

/// What a lock file says of its holder; `None` if that is nothing yet.
fn holder(file: &mut File) -> Option<String> {
    let mut text = Vec::new();
    let _ = file.take(LONGEST_HOLDER).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (path, model) = (folder.path().join("m.lock"), folder.path().join("m"));
        let lock = FileLock::acquire(path.clone(), &model).unwrap();
        assert!(lock.is_held());
        let error = FileLock::acquire(path.clone(), &model).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(lock);
        assert!(!path.exists());
        // What a killed process left is taken over.
        fs::write(&path, "process 1").unwrap();
        drop(FileLock::acquire(path.clone(), &model).unwrap());
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        assert!(FileLock::acquire(path, &model).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn a_holder_that_has_not_written_its_name_yet_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (path, model) = (folder.path().join("m.lock"), folder.path().join("m"));
        let mut other = File::create(&path).unwrap();
        other.lock().unwrap();
        let named = thread::scope(|scope| {
            let second = scope.spawn(|| FileLock::acquire(path.clone(), &model).unwrap_err().to_string());
            thread::sleep(Duration::from_millis(30));
            other.write_all(b"process 7").unwrap();
            second.join().unwrap()
        });
        assert!(named.contains("process 7"), "{named}");
        other.set_len(0).unwrap();
        let nameless = FileLock::acquire(path, &model).unwrap_err().to_string();
        assert!(nameless.contains("another process"), "{nameless}");
    }

    #[test]
    fn threads_that_lock_and_unlock_never_hold_it_together() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let (path, model) = (folder.path().join("m.lock"), folder.path().join("m"));
        let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..400 {
                        let Ok(_lock) = FileLock::acquire(path.clone(), &model) else { continue };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        entered.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(entered.load(Ordering::SeqCst) > 8);
    }
}
