//! The one way in for files that others wrote: only regular files are opened, and none is read beyond a size.
//!
//! Opening a pipe waits for whoever writes to it, and `/dev/zero` never ends: neither is data. So a path is looked at
//! before it is opened, and the open file once more, because the path may have changed in between.

use std::fs::{self, File, FileType};
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};

/// Opens a file for reading, if it is a regular one; links are followed.
pub fn open_file(path: &Path) -> Result<File> {
    check(path, fs::metadata(path).map_err(Error::io("read", path))?.file_type())?;
    let file = File::open(path).map_err(Error::io("read", path))?;
    check(path, file.metadata().map_err(Error::io("read", path))?.file_type())?;
    Ok(file)
}

/// Reads a whole regular file of at most `largest` bytes.
pub fn read_file(path: &Path, largest: u64) -> Result<Vec<u8>> {
    let file = open_file(path)?;
    let length = file.metadata().map_err(Error::io("read", path))?.len();
    if length > largest {
        return Err(too_large(path, &size_text(length), largest));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
    // One byte more than allowed shows that a file grew while it was read.
    file.take(largest.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    if bytes.len() as u64 > largest {
        return Err(too_large(path, "it grows while it is read", largest));
    }
    Ok(bytes)
}

/// Reads a whole regular file of at most `largest` bytes as UTF-8 text.
pub fn read_text(path: &Path, largest: u64) -> Result<String> {
    String::from_utf8(read_file(path, largest)?)
        .map_err(|_| Error::bad(path, "the file is not UTF-8 text", "save it as UTF-8"))
}

/// A number of bytes as people say it: `512 bytes`, `1.5 GiB`.
pub fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1 << 10 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while value >= 1023.95
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = Some(next);
    }
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    format!("{text} {}", unit.copied().unwrap_or_default())
}

fn too_large(path: &Path, size: &str, largest: u64) -> Error {
    let problem = format!("{size} is too large, at most {} are read", size_text(largest));
    Error::bad(path, problem, "check that it is the right file")
}

fn check(path: &Path, kind: FileType) -> Result<()> {
    if kind.is_file() {
        return Ok(());
    }
    let problem = format!("this is a {}, not a regular file", name_of(kind));
    Err(Error::bad(path, problem, "name a file"))
}

fn name_of(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "pipe";
        }
        if kind.is_socket() {
            return "socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "device";
        }
    }
    if kind.is_dir() { "folder" } else { "special file" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_words() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (256 << 20, "256 MiB"),
            ((1 << 30) - 1, "1 GiB"),
            (5 << 40, "5 TiB"),
        ] {
            assert_eq!(size_text(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn a_file_is_read_up_to_the_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "hello").unwrap();
        assert_eq!(read_text(&path, 5).unwrap(), "hello");
        let error = read_file(&path, 4).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "a: 5 bytes is too large, at most 4 bytes are read; check that it is the right file"
            )
        );
        fs::write(&path, b"\xff").unwrap();
        assert!(read_text(&path, 5).unwrap_err().to_string().contains("not UTF-8"));
        let absent = read_file(&folder.path().join("b"), 4).unwrap_err().to_string();
        assert!(absent.starts_with("cannot read ") && absent.contains("check the path"), "{absent}");
    }
}
