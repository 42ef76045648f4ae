//! The model file, and everything that belongs to it.
//!
//! | file | idea |
//! | --- | --- |
//! | [`model_file`] | one owner per model file: lock, fingerprint, compare and rename |
//! | [`lock`] | the lock |
//! | [`partial`] | the state of a task that is being learned, and what it belongs to |
//! | [`history`], [`dates`] | what a model went through, and when |
//! | [`record`] | the content of a model file |
//! | [`tensor_file`] | the container that it shares with checkpoints |
//! | [`verify`] | checksum, bounds and laws of a model file |

pub mod dates;
pub mod history;
pub mod lock;
pub mod model_file;
pub mod partial;
pub(crate) mod record;
pub(crate) mod tensor_file;
pub mod verify;

use std::path::{Path, PathBuf};

/// Largest file that is read: far more than any model of ours takes.
pub(crate) const LARGEST_FILE: u64 = 64 << 30;

/// The name of a file with something behind it.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(extension);
    PathBuf::from(name)
}
