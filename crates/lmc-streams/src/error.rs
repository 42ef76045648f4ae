//! What can go wrong, and what to do about it.
//!
//! Every message names the thing (file, row, key), the problem, and the next step, in one line.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Any failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, or a place in it, does not hold what it should.
    #[error("{place}: {problem}; {cure}")]
    BadData {
        /// The file and, if known, the row in it.
        place: Place,
        /// What is wrong at that place.
        problem: String,
        /// What the user can do about it.
        cure: String,
    },
    /// The operating system refused to do something to a file.
    #[error("cannot {action} {}: {cause}; {cure}", path.display())]
    Io {
        /// What was tried, as a verb: `read`, `write`, `rename`.
        action: &'static str,
        /// The file to which it was tried.
        path: PathBuf,
        /// What the system said. Not called `source`, because it stands in the message already.
        cause: io::Error,
        /// What the user can do about it.
        cure: String,
    },
    /// A user gave a name that nothing has.
    #[error("there is no {kind} called '{name}'{}; {cure}", did_you_mean(nearest.as_deref()))]
    Unknown {
        /// What kind of thing was looked for: `data set`, `stream`, `class`.
        kind: &'static str,
        /// The name that the user gave.
        name: String,
        /// The most similar name that exists.
        nearest: Option<String>,
        /// Where the right names are listed.
        cure: String,
    },
    /// A known data set is not on this machine.
    #[error("data set '{name}' is not on this machine (looked in {looked_in}); {cure}")]
    NotHere {
        /// Name of the data set.
        name: String,
        /// The folders that were searched, as text.
        looked_in: String,
        /// How the user can get the data set.
        cure: String,
    },
    /// A setting is outside its legal range.
    #[error("{field}: {problem}; {cure}")]
    Setting {
        /// Name of the setting, as the user writes it.
        field: String,
        /// What is wrong with the value.
        problem: String,
        /// Which values are legal.
        cure: String,
    },
    /// A download failed from every address.
    #[error("{0}")]
    Download(String),
}

/// A place in the data: a file and, if known, a row (`row 17`, `line 3`, `image 5`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file or folder that the place is in.
    pub path: PathBuf,
    /// The position in the file, in words: `row 17`.
    pub row: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match &self.row {
            Some(row) => write!(f, ", {row}"),
            None => Ok(()),
        }
    }
}

impl Error {
    /// Makes the error of a file with wrong content.
    pub fn bad(path: &Path, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        let place = Place { path: path.to_owned(), row: None };
        Self::BadData { place, problem: problem.into(), cure: cure.into() }
    }

    /// Makes the error of a file with wrong content at one row.
    pub fn bad_at(
        path: &Path,
        row: impl Into<String>,
        problem: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        let place = Place { path: path.to_owned(), row: Some(row.into()) };
        Self::BadData { place, problem: problem.into(), cure: cure.into() }
    }

    /// Makes the error of a file of a kind that this build does not read, because a cargo feature is off.
    pub fn feature_off(path: &Path, what: &str, feature: &str) -> Self {
        let problem = format!("{what} are not read by this build");
        Self::bad(path, problem, format!("turn on the feature '{feature}' of the crate lmc-streams"))
    }

    /// Makes the error of a failed system call on a file; for `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| {
            let cure = match cause.kind() {
                io::ErrorKind::NotFound => "check the path",
                io::ErrorKind::PermissionDenied => "check its permissions",
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free some space and run it again"
                }
                _ => "check the file and the disk",
            };
            Self::Io { action, path, cause, cure: cure.to_owned() }
        }
    }

    /// Makes the error of an unknown name, with the nearest of the `known` ones.
    pub fn unknown<'a>(
        kind: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        cure: impl Into<String>,
    ) -> Self {
        let nearest = nearest(name, known).map(str::to_owned);
        Self::Unknown { kind, name: name.to_owned(), nearest, cure: cure.into() }
    }

    /// Makes the error of a setting outside its legal range.
    pub fn setting(field: impl Into<String>, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::Setting { field: field.into(), problem: problem.into(), cure: cure.into() }
    }
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|n| format!(" (did you mean '{n}'?)")).unwrap_or_default()
}

/// The known name with the smallest edit distance, if it is near enough to be meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near_enough = name.chars().count() / 3 + 1;
    known
        .into_iter()
        .map(|candidate| (edit_distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|&(distance, _)| distance <= near_enough)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", "abc"), 0);
    }

    #[test]
    fn the_nearest_name_is_offered_only_when_near() {
        assert_eq!(nearest("s_minsu", ["s_minus", "s_plus"]), Some("s_minus"));
        assert_eq!(nearest("CIFAR10", ["cifar10", "cifar100"]), Some("cifar10"));
        assert_eq!(nearest("elephant", ["s_minus", "s_plus"]), None);
    }

    #[test]
    fn a_message_names_file_row_and_cure() {
        let error = Error::bad_at(Path::new("a.csv"), "line 3", "no such image 'x.png'", "correct the path");
        assert_eq!(error.to_string(), "a.csv, line 3: no such image 'x.png'; correct the path");
    }
}
