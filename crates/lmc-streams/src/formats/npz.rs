//! To be written; this stands in until it is.

use std::path::Path;

use crate::dataset::{Dataset, ReadOptions};
use crate::error::{Error, Result};

/// Reads nothing yet.
pub fn read(path: &Path, _options: &ReadOptions<'_>) -> Result<Dataset> {
    Err(Error::bad(path, "npz files are not read yet", "use another format"))
}
