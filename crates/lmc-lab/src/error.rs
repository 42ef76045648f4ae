//! Errors of experiments: those of learning, and a run directory that another process works in.

use std::path::{Path, PathBuf};

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Any failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A failure of learning or of reading data; [`lmc::Error::Stopped`] if the run was asked to stop.
    #[error(transparent)]
    Lmc(#[from] lmc::Error),
    /// A run directory that another process works in.
    #[error(
        "run directory {}: another process is working on it; wait for it, or choose another directory",
        directory.display()
    )]
    Locked {
        /// The run directory.
        directory: PathBuf,
    },
}

impl From<lmc_streams::Error> for Error {
    fn from(error: lmc_streams::Error) -> Self {
        Self::Lmc(error.into())
    }
}

impl Error {
    /// A setting outside its legal range.
    pub fn setting(field: impl Into<String>, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        lmc_streams::Error::setting(field, problem, cure).into()
    }

    /// Wrong content in a file.
    pub fn bad(path: &Path, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        lmc_streams::Error::bad(path, problem, cure).into()
    }

    /// A value that cannot be written as JSON or TOML, which no user can cause.
    pub(crate) fn unwritable(what: &str, problem: impl std::fmt::Display) -> Self {
        Self::setting(what, format!("it cannot be written ({problem})"), "report this as a bug of lmc")
    }
}
