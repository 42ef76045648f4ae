//! A file that holds one picture: read within limits, decoded, and explained when it is bad.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::decode::{LARGEST_PICTURE, decode};
use crate::dataset::Split;
use crate::error::{Error, Result};
use crate::picture::Picture;

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
    pub(super) fn load(&self, upright: bool) -> Result<Picture> {
        let bytes = read_bytes(&self.path).map_err(|error| match (&self.listed, error.kind()) {
            (Some((list, line)), kind) => {
                let problem = match kind {
                    ErrorKind::NotFound => format!("there is no file '{}'", self.path.display()),
                    _ => format!("'{}' cannot be read: {error}", self.path.display()),
                };
                let cure = "correct the path or remove the line";
                Error::bad_at(list, format!("line {line}"), problem, cure)
            }
            (None, _) => Error::io("read", &self.path)(error),
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
    let bytes = read_bytes(path).map_err(Error::io("read", path))?;
    decode(&bytes, true).map_err(|problem| problem.in_file(path))
}

/// The bytes of a file, if it is one and not larger than any picture.
fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a file"));
    }
    // No encoding that we read makes a picture larger; a file beyond this is not a picture.
    if metadata.len() > LARGEST_PICTURE {
        return Err(io::Error::other("larger than 256 MiB, too large for a picture"));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(LARGEST_PICTURE).read_to_end(&mut bytes)?;
    Ok(bytes)
}
