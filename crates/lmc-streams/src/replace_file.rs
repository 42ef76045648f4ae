//! Writing a file so that it is either the old one or the whole new one, never half of it.

use std::fs::{self, Permissions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// How names of temporary files begin; what is left of them was being written by a process that was killed.
pub const TEMPORARY: &str = ".lmc-";

/// Writes `bytes` to a temporary file beside `path`, syncs it, and renames it. A link is followed: what it leads to
/// is replaced. Anything but a regular file (a device, a pipe) is left alone.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let followed = follow(path)?;
    let path = followed.as_path();
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => return Err(Error::bad(path, "this is a folder", "name a file")),
        Ok(metadata) if !metadata.is_file() => {
            return Err(Error::bad(path, "this is a device or a pipe, not a file", "name a file"));
        }
        _ => {}
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(Error::bad(
            folder,
            "there is no such folder to write into",
            "create it, or choose another",
        ));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY);
    // A result is for others to read: the usual permissions (less the umask), not those of a secret.
    let permissions = file_permissions();
    if let Some(permissions) = permissions {
        builder.permissions(permissions);
    }
    let mut file = builder.tempfile_in(folder).map_err(Error::io("write into", folder))?;
    file.write_all(bytes).map_err(Error::io("write", path))?;
    file.as_file().sync_all().map_err(Error::io("write", path))?;
    file.persist(path).map_err(|error| Error::io("write", path)(error.error))?;
    // The rename itself is durable once the folder is synced; not every system can, and then it is no loss.
    if let Ok(folder) = fs::File::open(folder) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// The file that a path leads to, which need not exist.
fn follow(path: &Path) -> Result<PathBuf> {
    const LONGEST_CHAIN: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LONGEST_CHAIN {
        let Ok(target) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(Error::bad(&path, "a chain of links without an end", "name a file"))
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
}
