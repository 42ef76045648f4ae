//! What can go wrong, and what to do about it.

use std::path::{Path, PathBuf};

use lmc_kernels::ShapeError;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Any failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Bad data, bad settings, or a system that refuses.
    #[error(transparent)]
    Input(#[from] lmc_streams::Error),
    /// Tensors that do not fit together.
    #[error("{0}; the images do not have the shape that this network was made for")]
    Shape(#[from] ShapeError),
    /// A training loss that is not finite.
    #[error(
        "training of task '{task}' diverged in epoch {epoch}: the loss is {loss}; use a smaller learning_rate"
    )]
    Diverged {
        /// Name of the task.
        task: String,
        /// The epoch, counted from 1.
        epoch: usize,
        /// The loss: not a number, or infinite.
        loss: f64,
    },
    /// A model file that another process works on.
    #[error("{}: {holder} works on it; wait until that is done, or name another file", path.display())]
    Locked {
        /// The model file.
        path: PathBuf,
        /// The process that holds the lock, in words.
        holder: String,
    },
    /// A model file that another program changed meanwhile. Nothing is lost: the new model lies beside it.
    #[error(
        "{}: another program changed it meanwhile; it is left as it is, and the new model is written to {}; \
         compare them with `lmc history`, then keep one or merge both",
        path.display(),
        beside.display()
    )]
    Changed {
        /// The model file, as the other program left it.
        path: PathBuf,
        /// Where the new model is.
        beside: PathBuf,
    },
    /// A model whose results are not finite numbers.
    #[error(
        "the model gives {what} that is no finite number; check it with `lmc verify`, or take it from a backup"
    )]
    NotFinite {
        /// The result.
        what: &'static str,
    },
    /// An observer stopped the training; what was reached is saved.
    #[error("stopped after {done}; run the same command again to go on")]
    Stopped {
        /// What is done and saved.
        done: String,
    },
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
}
