//! A file that holds one picture: read within limits, decoded, and explained when it is bad.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::decode::{Decoded, LARGEST_PICTURE, decode};
use crate::dataset::Split;
use crate::error::{Error, Result};
use crate::picture::Picture;
use crate::regular_file::read_file;

/// A picture file that a folder holds or a list names.
#[derive(Clone, Debug)]
pub(super) struct PictureFile {
    /// The split that the picture belongs to.
    pub split: Split,
    /// The label of the picture.
    pub label: u32,
    /// The path of the file.
    pub path: PathBuf,
    /// The list and the line in it that names the file.
    pub listed: Option<(Arc<Path>, u64)>,
}

impl PictureFile {
    /// Reads and decodes the file; `upright` turns the picture as its EXIF orientation says.
    pub(super) fn load(&self, upright: bool) -> Result<Decoded> {
        let bytes = read_file(&self.path, LARGEST_PICTURE).map_err(|error| {
            let Some((list, line)) = &self.listed else { return error };
            let path = self.path.display();
            let problem = match error {
                Error::Io { cause, .. } if cause.kind() == ErrorKind::NotFound => {
                    format!("there is no file '{path}'")
                }
                Error::Io { cause, .. } => format!("'{path}' cannot be read: {cause}"),
                Error::BadData { problem, .. } => format!("'{path}' cannot be read: {problem}"),
                other => format!("'{path}' cannot be read: {other}"),
            };
            Error::bad_at(list, format!("line {line}"), problem, "correct the path or remove the line")
        })?;
        decode(&bytes, upright).map_err(|problem| match &self.listed {
            Some((list, line)) => Error::bad_at(
                list,
                format!("line {line}"),
                format!("'{}': {}", self.path.display(), problem.problem),
                problem.cure,
            ),
            None => problem.in_file(&self.path),
        })
    }

    /// The file and the position in it, for messages.
    pub(super) fn place(&self, classes: &[String]) -> (PathBuf, String) {
        match &self.listed {
            Some((list, line)) => (list.to_path_buf(), format!("line {line}")),
            None => {
                let class = classes.get(self.label as usize).map_or("?", String::as_str);
                (self.path.clone(), format!("class '{class}'"))
            }
        }
    }
}

/// Reads a picture file and turns it upright.
pub(crate) fn open(path: &Path) -> Result<Picture> {
    // No encoding that we read makes a picture larger than its pixels; a file beyond this is not a picture.
    let bytes = read_file(path, LARGEST_PICTURE)?;
    let decoded = decode(&bytes, true).map_err(|problem| problem.in_file(path))?;
    Ok(decoded.picture)
}
