//! Writing a file so that it is either the old one or the whole new one, never half of it.

use std::fs::{self, Permissions};
use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};

/// Writes `bytes` to a temporary file beside `path`, syncs it, and renames it.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.is_dir() {
        return Err(Error::bad(path, "this is a folder", "name a file"));
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
    builder.prefix(".lmc-");
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

    #[test]
    fn a_folder_and_a_missing_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(replace_file(folder.path(), b"").unwrap_err().to_string().contains("is a folder"));
        let error = replace_file(&folder.path().join("no/a.txt"), b"").unwrap_err().to_string();
        assert!(error.contains("no such folder"), "{error}");
    }
}
