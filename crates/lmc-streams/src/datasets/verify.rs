//! Are the files of a data set what they should be?
//!
//! Two lists are trusted: the official one ([`super::known`]) and the table of SHA-256 sums in the
//! `README.md` of a data folder that came with one (`| mnist/classes.txt | 20 | `7427…` |`).

use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::known::{KnownDataset, Unpack};
use crate::error::{Error, Result};
use crate::regular_file::open_file;

/// The condition of one file of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Path at which the file is, or should be.
    pub path: PathBuf,
    /// The size in bytes that the file should have.
    pub bytes: u64,
    /// The SHA-256 that the file should have, in lower-case hexadecimal.
    pub sha256: String,
    /// The condition that the file is in.
    pub condition: Condition,
}

/// The condition of a file, compared with what a list says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The file is there with the listed size and checksum.
    Right,
    /// The bytes are not the official ones, but exactly those that the `README.md` of the data folder lists.
    RightAsListed,
    /// There is no such file.
    Absent,
    /// The archive is not here, but the folder that was unpacked from it is.
    Unpacked,
    /// The file has another size, so certainly other content.
    WrongSize {
        /// The size that the file has, in bytes.
        found: u64,
    },
    /// The file has the right size, but other content.
    WrongChecksum {
        /// The SHA-256 that the file has.
        found: String,
    },
}

impl Verified {
    /// Whether the file can be trusted.
    pub fn is_right(&self) -> bool {
        matches!(self.condition, Condition::Right | Condition::RightAsListed)
    }
}

/// Looks at the official files of `set` in its folder `dir`; one entry for each, in the order of the table.
pub fn verify(set: &KnownDataset, dir: &Path) -> Result<Vec<Verified>> {
    let listed = dir.parent().map_or_else(|| Ok(Vec::new()), |root| list(root, set.name))?;
    set.files
        .par_iter()
        .map(|file| {
            let path = dir.join(file.name);
            let mut condition = inspect(&path, file.bytes, file.sha256)?;
            if let (Condition::Absent, Unpack::TarGz { folder, .. }) = (&condition, file.unpack)
                && dir.join(folder).is_dir()
            {
                condition = Condition::Unpacked;
            }
            // The official data may have been packed again: right, under another checksum that the list vouches for.
            let differs = matches!(condition, Condition::WrongSize { .. } | Condition::WrongChecksum { .. });
            if differs
                && let Some(entry) = listed.iter().find(|entry| entry.path == path)
                && inspect(&path, entry.bytes, &entry.sha256)? == Condition::Right
            {
                condition = Condition::RightAsListed;
            }
            Ok(Verified { path, bytes: file.bytes, sha256: file.sha256.to_owned(), condition })
        })
        .collect()
}

/// Looks at the files that the `README.md` of the data folder `root` lists for a set; none, when there is
/// no such list.
pub fn verify_listed(root: &Path, set_name: &str) -> Result<Vec<Verified>> {
    list(root, set_name)?
        .into_par_iter()
        .map(|entry| {
            let condition = inspect(&entry.path, entry.bytes, &entry.sha256)?;
            Ok(Verified { path: entry.path, bytes: entry.bytes, sha256: entry.sha256, condition })
        })
        .collect()
}

/// Compares a file with the size and the checksum that it should have.
pub fn inspect(path: &Path, bytes: u64, sha256: &str) -> Result<Condition> {
    let found = match path.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            return Err(Error::bad(path, "is a folder where a file should be", "move it away"));
        }
        Ok(metadata) => metadata.len(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Condition::Absent);
        }
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    if found != bytes {
        return Ok(Condition::WrongSize { found });
    }
    let found = sha256_of(path)?;
    Ok(if found == sha256 { Condition::Right } else { Condition::WrongChecksum { found } })
}

/// The SHA-256 of a file in lower-case hexadecimal.
pub fn sha256_of(path: &Path) -> Result<String> {
    let mut file = open_file(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => hasher.update(buffer.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", path)(error)),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A file that the table in `README.md` lists.
struct ListedFile {
    path: PathBuf,
    bytes: u64,
    sha256: String,
}

/// The lines of the table about one set.
fn list(root: &Path, set_name: &str) -> Result<Vec<ListedFile>> {
    const LONGEST: u64 = 1 << 20; // a README, not whatever else has that name
    let readme = root.join("README.md");
    let Ok(file) = open_file(&readme) else { return Ok(Vec::new()) };
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).map_err(Error::io("read", &readme))?;
    let text = String::from_utf8_lossy(&text);
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [name, bytes, sha256] = cells[..] else { continue };
        if name.strip_prefix(set_name).is_none_or(|rest| !rest.starts_with('/')) {
            continue;
        }
        let sha256 = sha256.trim_matches('`');
        let hexadecimal = sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit());
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        let (Ok(bytes), true, true) = (bytes.parse(), hexadecimal, inside) else {
            let cure = "write | set/file | bytes | `sha256` |, or remove the line";
            let problem = format!("'{name}' has no plain path, size and SHA-256");
            return Err(Error::bad_at(&readme, format!("line {}", number + 1), problem, cure));
        };
        entries.push(ListedFile { path: root.join(name), bytes, sha256: sha256.to_lowercase() });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::super::known::SourceFile;
    use super::*;
    use std::fs;

    // SHA-256 of "abc", from FIPS 180-2.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    const FILES: &[SourceFile] =
        &[SourceFile { name: "a.bin", addresses: &[], sha256: ABC, bytes: 3, unpack: Unpack::Keep }];

    fn set() -> KnownDataset {
        KnownDataset { name: "tiny", files: FILES, ..*super::super::known::find("mnist").unwrap() }
    }

    #[test]
    fn every_condition_of_an_official_file_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("tiny");
        let look = || verify(&set(), &dir).unwrap().remove(0).condition;
        assert_eq!(look(), Condition::Absent);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a.bin"), "abc").unwrap();
        assert_eq!(look(), Condition::Right);
        fs::write(dir.join("a.bin"), "abcd").unwrap();
        assert_eq!(look(), Condition::WrongSize { found: 4 });
        fs::write(dir.join("a.bin"), "abd").unwrap();
        let Condition::WrongChecksum { found } = look() else { panic!("not reported") };
        assert_eq!(found, sha256_of(&dir.join("a.bin")).unwrap());
        // The same bytes are right once the README of the data folder vouches for them.
        fs::write(root.path().join("README.md"), format!("| tiny/a.bin | 3 | `{found}` |\n")).unwrap();
        assert_eq!(look(), Condition::RightAsListed);
    }

    #[test]
    fn the_listed_files_of_one_set_are_verified() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(verify_listed(root.path(), "tiny").unwrap(), []);
        let table = format!(
            "# Data\n| file | bytes | sha256 |\n| --- | --- | --- |\n| tiny/a | 3 | `{ABC}` |\n\
             | tiny/b | 3 | `{ABC}` |\n| tiny10/c | 3 | `{ABC}` |\n"
        );
        fs::write(root.path().join("README.md"), table).unwrap();
        fs::create_dir(root.path().join("tiny")).unwrap();
        fs::write(root.path().join("tiny/a"), "abc").unwrap();
        let looks = verify_listed(root.path(), "tiny").unwrap();
        let conditions: Vec<_> = looks.iter().map(|look| look.condition.clone()).collect();
        assert_eq!(conditions, [Condition::Right, Condition::Absent]);
    }

    #[test]
    fn a_list_that_leaves_the_folder_is_refused_with_its_line() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("README.md"), format!("hello\n| tiny/../../x | 3 | `{ABC}` |\n")).unwrap();
        let error = verify_listed(root.path(), "tiny").unwrap_err().to_string();
        assert!(error.contains("README.md, line 2") && error.contains("remove the line"), "{error}");
    }

    #[test]
    #[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
    fn the_real_data_are_as_listed() {
        let root = std::env::var_os("LMC_DATA").expect("LMC_DATA names the folder of the real data");
        let root = Path::new(&root);
        let looks = verify_listed(root, "mnist").unwrap();
        assert_eq!(looks.len(), 5);
        assert!(looks.iter().all(Verified::is_right), "{looks:?}");
        let mnist = super::super::known::find("mnist").unwrap();
        let looks = verify(mnist, &root.join("mnist")).unwrap();
        assert!(looks.iter().all(Verified::is_right), "{looks:?}");
    }
}
