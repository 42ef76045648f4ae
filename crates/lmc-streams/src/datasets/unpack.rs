//! Unpacks a downloaded archive: the whole folder appears at once, or not at all.
//!
//! Archives come here only after their checksum was right. Even so nothing in them is trusted: no entry may
//! leave the folder, only plain files and folders are made, and the size is limited.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};

use super::get::disk_error;
use crate::error::{Error, Result};
use crate::regular_file::open_file;

/// Unpacks the folder `folder` of the `.tar.gz` file `archive` to a folder of that name beside it.
/// More than `limit` unpacked bytes are refused.
pub(super) fn unpack_tar_gz(archive: &Path, folder: &str, limit: u64) -> Result<PathBuf> {
    let target = archive.with_file_name(folder);
    let draft = archive.with_file_name(format!(".{folder}.unpacking"));
    // A run that was killed may have left its draft.
    remove_draft(&draft)?;
    let done = fill(archive, &draft, limit).and_then(|()| {
        let whole = draft.join(folder);
        if !whole.is_dir() {
            let problem = format!("there is no folder '{folder}' in it");
            return Err(Error::bad(archive, problem, "delete the file and get it again"));
        }
        fs::rename(&whole, &target).map_err(disk_error("write", &target))
    });
    let removed = remove_draft(&draft);
    done.and(removed).map(|()| target)
}

fn remove_draft(draft: &Path) -> Result<()> {
    match fs::remove_dir_all(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk_error("delete", draft)(error)),
        _ => Ok(()),
    }
}

fn fill(archive: &Path, draft: &Path, limit: u64) -> Result<()> {
    fs::create_dir(draft).map_err(disk_error("create", draft))?;
    let packed = open_file(archive)?;
    let mut unpacked = MultiGzDecoder::new(BufReader::new(packed)).take(limit);
    let filled = fill_from(&mut unpacked, archive, draft);
    // At the limit the reader only says that the archive ends: that is not its fault, nor its end.
    if unpacked.limit() == 0 {
        let problem = format!("it unpacks to more than {limit} bytes");
        return Err(Error::bad(archive, problem, "delete the file and get it again"));
    }
    filled
}

fn fill_from(unpacked: &mut impl Read, archive: &Path, draft: &Path) -> Result<()> {
    let broken = |error: io::Error| {
        Error::bad(archive, format!("cannot be unpacked ({error})"), "delete the file and get it again")
    };
    let mut tar = Archive::new(&mut *unpacked);
    for entry in tar.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let Some(path) = safe_path(&entry, archive)? else { continue };
        let path = draft.join(path);
        if entry.header().entry_type() == EntryType::Directory {
            fs::create_dir_all(&path).map_err(disk_error("create", &path))?;
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(disk_error("create", parent))?;
        }
        // `create_new`: an entry that comes twice is an error, never a silent overwrite.
        let mut file = File::create_new(&path).map_err(disk_error("create", &path))?;
        copy(&mut entry, &mut file, &path, broken)?;
    }
    // Reading to the end makes gzip compare its own checksum, too.
    io::copy(unpacked, &mut io::sink()).map(|_| ()).map_err(broken)
}

/// Where in the folder an entry belongs; `None` for entries that are no file (archive-wide remarks).
fn safe_path(entry: &Entry<'_, impl Read>, archive: &Path) -> Result<Option<PathBuf>> {
    let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
    let refuse = |problem: &str| {
        let cure = "the archive is not what it should be: delete it";
        Err(Error::bad_at(archive, format!("entry '{}'", name.escape_default()), problem, cure))
    };
    match entry.header().entry_type() {
        EntryType::XGlobalHeader => return Ok(None),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse | EntryType::Directory => {}
        EntryType::Symlink | EntryType::Link => return refuse("is a link"),
        _ => return refuse("is neither a file nor a folder"),
    }
    let Ok(path) = entry.path() else { return refuse("has a name that is no path here") };
    if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return refuse("leads out of the folder");
    }
    let plain: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    // `./` is the folder itself, which is there already.
    Ok(Some(plain).filter(|path| !path.as_os_str().is_empty()))
}

/// Copies as `io::copy` does, but distinguishes a broken archive from a full disk.
fn copy(
    from: &mut impl Read,
    to: &mut impl io::Write,
    path: &Path,
    broken: impl Fn(io::Error) -> Error,
) -> Result<()> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => to.write_all(buffer.get(..n).unwrap_or_default()).map_err(disk_error("write", path))?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use tar::{Builder, Header};

    /// An archive of (name, kind, content) in a new folder. Names are written raw, as an attacker would.
    fn packed(entries: &[(&str, EntryType, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.tar.gz");
        let mut tar = Builder::new(GzEncoder::new(File::create(&path).unwrap(), Compression::fast()));
        for (name, kind, content) in entries {
            let mut header = Header::new_ustar();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.set_size(content.len() as u64);
            if matches!(kind, EntryType::Symlink | EntryType::Link) {
                header.as_old_mut().linkname[..2].copy_from_slice(b"..");
            }
            header.set_cksum();
            tar.append(&header, content.as_bytes()).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap();
        (dir, path)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    const FILE: EntryType = EntryType::Regular;

    #[test]
    fn files_and_folders_arrive_and_the_draft_goes() {
        let (dir, path) = packed(&[
            ("./", EntryType::Directory, ""),
            ("./dtd/", EntryType::Directory, ""),
            ("dtd/images/a.jpg", FILE, "picture"),
            ("dtd/empty/", EntryType::Directory, ""),
        ]);
        fs::create_dir(dir.path().join(".dtd.unpacking")).unwrap(); // of a run that was killed
        let target = unpack_tar_gz(&path, "dtd", 1 << 20).unwrap();
        assert_eq!(target, dir.path().join("dtd"));
        assert_eq!(fs::read_to_string(target.join("images/a.jpg")).unwrap(), "picture");
        assert!(target.join("empty").is_dir());
        assert_eq!(names(dir.path()), ["dtd", "x.tar.gz"]);
    }

    #[test]
    fn hostile_entries_are_refused_and_nothing_is_left() {
        for (name, kind, problem) in [
            ("../evil", FILE, "leads out of the folder"),
            ("dtd/../../evil", FILE, "leads out of the folder"),
            ("/tmp/evil", FILE, "leads out of the folder"),
            ("dtd/link", EntryType::Symlink, "is a link"),
            ("dtd/link", EntryType::Link, "is a link"),
            ("dtd/tty", EntryType::Char, "is neither a file nor a folder"),
            ("dtd/good", FILE, "cannot create"), // comes twice
        ] {
            let (dir, path) = packed(&[("dtd/good", FILE, "fine"), (name, kind, "")]);
            let error = unpack_tar_gz(&path, "dtd", 1 << 20).unwrap_err().to_string();
            assert!(error.contains(problem) && !error.contains('\n'), "{name}: {error}");
            assert_eq!(names(dir.path()), ["x.tar.gz"], "{name}");
        }
    }

    #[test]
    fn too_much_too_little_and_the_wrong_thing_are_refused() {
        let long = "0".repeat(10_000);
        let (dir, path) = packed(&[("dtd/a", FILE, &long), ("dtd/b", FILE, &long)]);
        let error = unpack_tar_gz(&path, "dtd", 12_000).unwrap_err().to_string();
        assert!(error.contains("more than 12000 bytes"), "{error}");
        let error = unpack_tar_gz(&path, "other", 1 << 20).unwrap_err().to_string();
        assert!(error.contains("no folder 'other'"), "{error}");
        let whole = fs::read(&path).unwrap();
        for length in [0, 5, whole.len() / 2, whole.len() - 4] {
            fs::write(&path, &whole[..length]).unwrap();
            let error = unpack_tar_gz(&path, "dtd", 1 << 20).unwrap_err().to_string();
            assert!(error.contains("x.tar.gz") && error.contains("get it again"), "{length}: {error}");
            assert_eq!(names(dir.path()), ["x.tar.gz"], "{length}");
        }
    }
}
