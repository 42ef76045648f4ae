//! Gets the official files of a known data set: download, resume, verify, unpack.
//!
//! A file appears under its name only when its SHA-256 is right. Until then it is `<name>.part`, from which
//! the next try goes on; an archive's folder appears whole or not at all.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fetch::fetch;
use super::known::{KnownDataset, SourceFile, Unpack};
use super::transfer::{Failure, agent};
use super::unpack::unpack_tar_gz;
use super::verify::{Condition, inspect, verify, verify_listed};
use crate::error::{Error, Result};

/// What happens while a data set is being got; for a progress bar and a few lines of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// The file is here and right; nothing to do.
    AlreadyThere {
        /// Name of the file.
        file: &'a str,
    },
    /// A file of this name is here but is another one; it will be replaced once the right one is complete.
    Replacing {
        /// Name of the file.
        file: &'a str,
    },
    /// The download of a file begins, or goes on.
    Started {
        /// Name of the file.
        file: &'a str,
        /// Size of the whole file in bytes.
        bytes: u64,
        /// Bytes that an earlier try has brought already.
        bytes_so_far: u64,
    },
    /// More of the file being downloaded has arrived.
    Received {
        /// Bytes of the file that are here now.
        bytes_so_far: u64,
    },
    /// The connection broke; the same address is tried again after a pause.
    Retrying {
        /// The address that is tried again.
        address: &'a str,
        /// Why the connection broke.
        reason: &'a str,
    },
    /// An address failed for good; this is the next one.
    TryingMirror {
        /// The address that is tried now.
        address: &'a str,
        /// Why the address before it failed.
        reason: &'a str,
    },
    /// The file is complete and its checksum is being computed.
    Verifying {
        /// Name of the file.
        file: &'a str,
    },
    /// The downloaded archive is being unpacked.
    Unpacking {
        /// Name of the file.
        file: &'a str,
    },
    /// The file is downloaded, verified and, if it is an archive, unpacked.
    Done {
        /// Name of the file.
        file: &'a str,
    },
}

/// What [`get`] did to the folder of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    /// The folder of the data set.
    pub folder: PathBuf,
    /// Names of the files that were downloaded.
    pub downloaded: Vec<String>,
    /// Names of the files that were here and right before.
    pub already_there: Vec<String>,
    /// The folders that were unpacked.
    pub unpacked: Vec<PathBuf>,
}

/// A file to download: a [`SourceFile`] that owns its texts.
#[derive(Clone, Debug)]
pub struct WantedFile {
    /// Name of the file in the folder of the data set.
    pub name: String,
    /// Addresses of the file, the best first.
    pub addresses: Vec<String>,
    /// SHA-256 of the file in lower-case hexadecimal.
    pub sha256: String,
    /// Exact size of the file in bytes.
    pub bytes: u64,
    /// What to do with the file once it is downloaded.
    pub unpack: Unpack,
}

impl From<&SourceFile> for WantedFile {
    fn from(file: &SourceFile) -> Self {
        Self {
            name: file.name.to_owned(),
            addresses: file.addresses.iter().map(|&address| address.to_owned()).collect(),
            sha256: file.sha256.to_owned(),
            bytes: file.bytes,
            unpack: file.unpack,
        }
    }
}

/// How patient a download is.
#[derive(Clone, Copy, Debug)]
pub struct GetConfig {
    /// Broken connections to one address in a row, with little or nothing gained, before it is given up: 4.
    pub attempts: u32,
    /// Pause after the first broken connection, doubled after each further one: half a second.
    pub back_off: Duration,
    /// The longest wait for a connection: 10 seconds.
    pub connect_timeout: Duration,
    /// The longest wait for the next bytes: 30 seconds.
    pub stall_timeout: Duration,
    /// Fewer bytes a second than these, over the longest wait, are a broken connection: 1024.
    pub lowest_rate: u64,
    /// Whether to go through the proxy that the environment names (`HTTPS_PROXY` and so on): yes.
    pub proxy: bool,
}

impl Default for GetConfig {
    fn default() -> Self {
        Self {
            attempts: 4,
            back_off: Duration::from_millis(500),
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            lowest_rate: 1024,
            proxy: true,
        }
    }
}

/// Gets a known data set into its folder in `data_dir`. What is here and right stays as it is.
pub fn get(set: &KnownDataset, data_dir: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Got> {
    let folder = data_dir.join(set.name);
    if set.files.is_empty() {
        let looks = verify_listed(data_dir, set.name)?;
        if looks.is_empty() || !looks.iter().all(|look| look.condition == Condition::Right) {
            return Err(Error::Download(format!("'{}' cannot be downloaded: {}", set.name, set.about)));
        }
        let already_there = looks.iter().filter_map(|look| name_of(&look.path)).collect();
        return Ok(Got { folder, downloaded: Vec::new(), already_there, unpacked: Vec::new() });
    }
    // Files that the data folder's own list vouches for are as good as the official ones.
    let (mut files, mut right) = (Vec::new(), Vec::new());
    for (file, look) in set.files.iter().zip(verify(set, &folder)?) {
        if look.is_right() && file.unpack == Unpack::Keep {
            progress(Progress::AlreadyThere { file: file.name });
            right.push(file.name.to_owned());
        } else {
            files.push(WantedFile::from(file));
        }
    }
    let mut got = get_files(set.name, &files, &folder, &GetConfig::default(), progress)?;
    got.already_there.extend(right);
    Ok(got)
}

/// Gets `files` of the data set `name` into `folder`. What is here and right stays as it is.
pub fn get_files(
    name: &str,
    files: &[WantedFile],
    folder: &Path,
    config: &GetConfig,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Got> {
    let mut got = Got {
        folder: folder.to_owned(),
        downloaded: Vec::new(),
        already_there: Vec::new(),
        unpacked: Vec::new(),
    };
    let mut missing = Vec::new();
    for file in files {
        if is_ready(file, folder)? {
            progress(Progress::AlreadyThere { file: &file.name });
            got.already_there.push(file.name.clone());
        } else {
            missing.push(file);
        }
    }
    // Only now is anything written: a complete set may lie on a disk that is read-only.
    if missing.is_empty() {
        return Ok(got);
    }
    let _lock = DownloadLock::take(name, folder)?;
    let agent = agent(config);
    for (index, file) in missing.iter().enumerate() {
        let target = folder.join(&file.name);
        let here = inspect(&target, file.bytes, &file.sha256)?;
        if here != Condition::Right {
            if here != Condition::Absent {
                progress(Progress::Replacing { file: &file.name });
            }
            if let Err(failures) = fetch(&agent, file, &target, config, progress)? {
                let left = missing.get(index..).unwrap_or_default();
                return Err(give_up(name, file, &failures, left, folder));
            }
            got.downloaded.push(file.name.clone());
        }
        if let Unpack::TarGz { folder: top, limit } = file.unpack {
            progress(Progress::Unpacking { file: &file.name });
            got.unpacked.push(unpack_tar_gz(&target, top, limit)?);
        }
        progress(Progress::Done { file: &file.name });
    }
    Ok(got)
}

/// A failed system call on our own disk, with what to do about it; for `map_err`.
pub(super) fn disk_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |error| {
        let cure = match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "choose a data folder that you may write to"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                "free some space and run it again, it goes on from where it stopped"
            }
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
                "a file or folder of that name is in the way: move it, or choose another data folder"
            }
            _ => "check the disk and run it again",
        };
        Error::Io { action, path, cause: error, cure: cure.to_owned() }
    }
}

/// The file is here and right, or what was unpacked from it is here.
fn is_ready(file: &WantedFile, folder: &Path) -> Result<bool> {
    match file.unpack {
        // The folder was renamed into place whole, so it is complete even without its archive.
        Unpack::TarGz { folder: top, .. } => Ok(folder.join(top).is_dir()),
        Unpack::Keep => Ok(inspect(&folder.join(&file.name), file.bytes, &file.sha256)? == Condition::Right),
    }
}

/// One line: what failed, and how to do it by hand.
fn give_up(
    name: &str,
    file: &WantedFile,
    failures: &[(&str, Failure)],
    left: &[&WantedFile],
    folder: &Path,
) -> Error {
    let offline = failures.iter().all(|(_, failure)| matches!(failure, Failure::Unreachable(_)));
    let what = if offline {
        "this machine seems to be offline"
    } else if failures.iter().any(|(_, failure)| matches!(failure, Failure::Cut(_))) {
        "the connection keeps breaking, what has arrived is kept"
    } else {
        "no address has the right file"
    };
    // Offline, every address fails in the same way: one of them is enough to read.
    let reasons: Vec<String> = failures
        .iter()
        .take(if offline { 1 } else { failures.len() })
        .map(|(address, failure)| format!("{}: {}", host(address), failure.reason()))
        .collect();
    let addresses: Vec<&str> =
        left.iter().filter_map(|wanted| wanted.addresses.first().map(String::as_str)).collect();
    Error::Download(format!(
        "cannot download {} of '{name}': {what} ({}); run it again later, or fetch {} by hand into the folder {} \
         and run it again",
        file.name,
        reasons.join(", "),
        addresses.join(" and "),
        folder.display()
    ))
}

/// The name of the server in an address.
fn host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

/// Keeps a second `get` of the same set out; the system frees it even when we are killed.
struct DownloadLock {
    path: PathBuf,
    folder: PathBuf,
    _file: File,
}

impl DownloadLock {
    fn take(name: &str, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(disk_error("create the folder", folder))?;
        let path = folder.join(".getting");
        let file = File::create(&path).map_err(disk_error("write", &path))?;
        let busy = match file.try_lock() {
            // Its last owner may have deleted it between our two calls.
            Ok(()) => !path.exists(),
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => false, // a file system without locks: go on without
        };
        if busy {
            let folder = folder.display();
            let problem = format!("another lmc is getting '{name}' into {folder}; wait until it is done");
            return Err(Error::Download(problem));
        }
        Ok(Self { path, folder: folder.to_owned(), _file: file })
    }
}

impl Drop for DownloadLock {
    fn drop(&mut self) {
        // Also the folder, when nothing came: an empty one would look like a data set. If either stays,
        // nothing is lost.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::super::known::find;
    use super::*;

    #[test]
    fn a_set_without_a_download_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let error = get(find("mini-imagenet").unwrap(), dir.path(), &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("mini-imagenet") && error.contains("put class folders"), "{error}");
        assert!(!error.contains('\n') && !dir.path().join("mini-imagenet").exists());
    }

    #[test]
    fn the_host_of_an_address() {
        assert_eq!(host("https://a.org:80/b/c"), "a.org:80");
        assert_eq!(host("a.org"), "a.org");
    }

    #[test]
    fn disk_errors_name_the_path_and_the_cure() {
        for (kind, cure) in [
            (ErrorKind::PermissionDenied, "may write to"),
            (ErrorKind::StorageFull, "free some space"),
            (ErrorKind::NotADirectory, "in the way"),
            (ErrorKind::Other, "check the disk"),
        ] {
            let error = disk_error("write", Path::new("data/x.part"))(kind.into()).to_string();
            assert!(error.starts_with("cannot write data/x.part: ") && error.contains(cure), "{error}");
        }
    }
}
