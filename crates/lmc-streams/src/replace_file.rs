//! Writing a file so that it is either the old one or the whole new one, never half of it.
//!
//! The new content goes into a temporary file beside the target, which is synced and renamed. The new file has the mode
//! and the owner of the old one; a read-only file is refused. While a temporary file is being written it is locked, so
//! that whoever finds one that is not locked knows that its writer was killed ([`remove_leftovers`]).

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// How names of temporary files begin, in all versions; in a folder of ours, these are files that a killed process left.
pub const TEMPORARY: &str = ".lmc-";

/// How names of temporary files begin since they are locked while they are written.
const LOCKED_TEMPORARY: &str = ".lmc-tmp-";

/// Replaces a file, or makes it. A link is followed: what it leads to is replaced. Anything but a regular file (a
/// device, a pipe) is left alone.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    PreparedFile::new(path, bytes)?.replace()
}

/// New content of a file, written and synced beside it, and not yet in its place. Dropped, it is removed.
#[derive(Debug)]
pub struct PreparedFile {
    path: PathBuf,
    temporary: NamedTempFile,
}

impl PreparedFile {
    /// Writes the content beside the file that a path leads to, with the mode and the owner of the old one.
    pub fn new(path: &Path, bytes: &[u8]) -> Result<Self> {
        let path = followed(path)?;
        let old = replaceable(&path)?;
        let temporary = write(&path, bytes, old.as_ref())?;
        Ok(Self { path, temporary })
    }

    /// Takes permissions away that another file does not give. Systems without such modes have nothing to take.
    pub fn restrict_to(&self, other: &Path) -> Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |metadata: Metadata| metadata.permissions().mode() & 0o777;
            let file = self.temporary.as_file();
            let given = mode(fs::metadata(other).map_err(Error::io("read", other))?);
            let own = mode(file.metadata().map_err(Error::io("write", &self.path))?);
            // Its owner can always replace it.
            let both = fs::Permissions::from_mode(own & given | 0o600);
            file.set_permissions(both).map_err(Error::io("keep mode and owner of", &self.path))?;
        }
        Ok(())
    }

    /// Replaces the file: one rename.
    pub fn replace(self) -> Result<()> {
        let Self { path, temporary } = self;
        temporary.persist(&path).map_err(|error| Error::io("write", &path)(error.error))?;
        sync_folder(&path);
        Ok(())
    }
}

/// Replaces a file as [`replace_file`] does, with the mode and the owner of another file, if that exists.
pub fn replace_file_like(path: &Path, bytes: &[u8], like: &Path) -> Result<()> {
    let path = followed(path)?;
    let old = replaceable(&path)?;
    let like = fs::metadata(like).ok().or(old);
    write(&path, bytes, like.as_ref())?
        .persist(&path)
        .map_err(|error| Error::io("write", &path)(error.error))?;
    sync_folder(&path);
    Ok(())
}

/// Writes a file that is not there yet, with the mode and the owner of another one; false if it is there.
pub fn create_file_like(path: &Path, bytes: &[u8], like: &Path) -> Result<bool> {
    let like = fs::metadata(like).ok();
    match write(path, bytes, like.as_ref())?.persist_noclobber(path) {
        Ok(_) => {
            sync_folder(path);
            Ok(true)
        }
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("write", path)(error.error)),
    }
}

/// Removes temporary files that killed processes left in a folder. Those that are being written are locked and stay; so
/// do all of them where the file system has no locks.
pub fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(LOCKED_TEMPORARY);
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        if let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            // A file that cannot be removed does no harm.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The file that a path leads to, which need not exist.
pub fn followed(path: &Path) -> Result<PathBuf> {
    const LONGEST_CHAIN: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LONGEST_CHAIN {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(Error::bad(&path, "a chain of links without an end", "name a file"))
}

/// The folder that a file is in.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// What is known of a file that may be replaced; `None` if there is none. Complains about what may not be replaced.
pub fn replaceable(path: &Path) -> Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => Err(Error::bad(path, "this is a folder", "name a file")),
        Ok(metadata) if !metadata.is_file() => {
            Err(Error::bad(path, "this is a device or a pipe, not a file", "name a file"))
        }
        Ok(metadata) if metadata.permissions().readonly() => {
            Err(Error::bad(path, "this file is read-only", "make it writable (chmod u+w), or name another"))
        }
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}

/// Writes a temporary file beside `path`, synced, with the mode and the owner of another file.
fn write(path: &Path, bytes: &[u8], like: Option<&Metadata>) -> Result<NamedTempFile> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(Error::bad(
            folder,
            "there is no such folder to write into",
            "create it, or choose another",
        ));
    }
    let mut file = locked_temporary(folder, like.is_none())?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    if let Some(like) = like {
        keep_access(file.as_file(), like).map_err(Error::io("keep mode and owner of", path))?;
    }
    file.as_file().sync_all().map_err(Error::io("write", path))?;
    Ok(file)
}

/// A temporary file that is locked, unless the file system has no locks. One that was taken for a leftover between
/// its making and its locking is made again.
fn locked_temporary(folder: &Path, public: bool) -> Result<NamedTempFile> {
    const TRIES: usize = 8;
    let mut builder = tempfile::Builder::new();
    builder.prefix(LOCKED_TEMPORARY);
    // A new result is for others to read: the usual permissions (less the umask). What replaces a file is private until
    // it has the mode of that file.
    if let Some(permissions) = public.then(file_permissions).flatten() {
        builder.permissions(permissions);
    }
    let make = || builder.tempfile_in(folder).map_err(Error::io("write into", folder));
    for _ in 0..TRIES {
        let file = make()?;
        match file.as_file().try_lock() {
            Err(fs::TryLockError::WouldBlock) => {}
            _ if file.path().exists() => return Ok(file),
            _ => {}
        }
    }
    make()
}

/// The rename itself is durable once the folder is synced; not every system can, and then it is no loss.
fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(folder_of(path)) {
        let _ = folder.sync_all();
    }
}

/// Gives a file the mode and the owner of another one. Where the group cannot be kept, the new group gets no access.
#[cfg(unix)]
fn keep_access(file: &File, like: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let mine = file.metadata()?;
    let mut mode = like.mode() & 0o777;
    if mine.uid() != like.uid() {
        fchown(file, Some(like.uid()), None)?;
    }
    if mine.gid() != like.gid() && fchown(file, None, Some(like.gid())).is_err() {
        mode &= !0o070;
    }
    file.set_permissions(Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep_access(file: &File, like: &Metadata) -> io::Result<()> {
    file.set_permissions(like.permissions())
}

#[cfg(unix)]
fn file_permissions() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn file_permissions() -> Option<Permissions> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_file_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        replace_file(&path, b"old").unwrap();
        replace_file(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_left_alone() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (link, target) = (folder.path().join("link"), folder.path().join("target"));
        symlink("target", &link).unwrap();
        replace_file(&link, b"through").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"through");
        assert!(link.is_symlink());
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(replace_file(&socket, b"x").unwrap_err().to_string().contains("not a file"));
        assert!(fs::symlink_metadata(&socket).unwrap().file_type().is_socket());
        symlink("circle", folder.path().join("circle")).unwrap();
        assert!(replace_file(&folder.path().join("circle"), b"x").is_err());
    }

    #[test]
    fn a_folder_and_a_missing_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(replace_file(folder.path(), b"").unwrap_err().to_string().contains("is a folder"));
        let error = replace_file(&folder.path().join("no/a.txt"), b"").unwrap_err().to_string();
        assert!(error.contains("no such folder"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn modes_are_kept_and_read_only_files_refused() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let (path, beside) = (folder.path().join("a"), folder.path().join("b"));
        replace_file(&path, b"old").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        for wanted in [0o600, 0o640, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(wanted)).unwrap();
            replace_file(&path, b"new").unwrap();
            assert_eq!(mode(&path), wanted);
            replace_file_like(&beside, b"new", &path).unwrap();
            assert_eq!(mode(&beside), wanted);
        }
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        let error = replace_file(&path, b"newer").unwrap_err().to_string();
        assert!(error.contains("read-only") && error.contains("chmod"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_is_there_is_not_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(create_file_like(&path, b"first", Path::new("nothing")).unwrap());
        assert!(!create_file_like(&path, b"second", Path::new("nothing")).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn leftovers_go_and_files_that_are_being_written_stay() {
        let folder = tempfile::tempdir().unwrap();
        let writing = locked_temporary(folder.path(), true).unwrap();
        let left = locked_temporary(folder.path(), true).unwrap().into_temp_path();
        let others = [".lmc-config", "lmc-tmp-1", ".lmc-tmp"].map(|name| folder.path().join(name));
        for path in &others {
            fs::write(path, "a user's own").unwrap();
        }
        remove_leftovers(folder.path());
        assert!(writing.path().exists() && !left.exists());
        assert!(others.iter().all(|path| path.exists()));
    }
}
