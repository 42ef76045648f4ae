//! What can go wrong, and what to do about it.

use std::path::Path;

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
