//! SVHN's cropped digits: MATLAB 5 files, `train_32x32.mat` and `test_32x32.mat` (specification §3.1).
//!
//! After a header of 128 bytes a file is a row of elements, each a tag (type, length) and data; a variable
//! is a matrix element, alone or packed with zlib. `X` is uint8 `[row, column, channel, image]` with the
//! row fastest, so each image is one block, to be transposed. `y` holds 1 to 10, where 10 means digit 0.
//! `y` comes after `X` and is needed first: packed elements have a length, so `X` is jumped over.

use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::ZlibDecoder;

use super::raw::{Collector, PixelLayout, read_exactly, unreadable};
use crate::dataset::{ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::regular_file::open_file;

/// Reads the file of one split.
pub fn read(path: &Path, split: Split, options: &ReadOptions<'_>) -> Result<ImageSet> {
    let file = open_file(path)?;
    read_from(BufReader::new(file), path, split, options)
}

/// Reads the bytes of a file; the path is for messages.
pub fn read_from(
    file: impl Read + Seek,
    path: &Path,
    split: Split,
    options: &ReadOptions<'_>,
) -> Result<ImageSet> {
    let mut file = MatFile::open(file, path)?;
    let (x, y) = (file.find("X")?, file.find("y")?);

    let (layout, count) = file.open_matrix(x)?.images(path)?;
    let labels = file.open_matrix(y)?.labels(path, count)?;
    let mut x = file.open_matrix(x)?;
    let mut collector = Collector::new(path, split, DIGITS, labels, layout, options);
    let failed = |row, error| unreadable(path, &format!("X, image {row}"), error, AGAIN);
    collector.add_rows(&mut x.data, 0..count, 0, failed)?;
    // Behind the data, and up to seven bytes that round it up, zlib has its checksum.
    skip_some(x.data.into_inner(), 8).map_err(|error| unreadable(path, "X", error, AGAIN))?;
    collector.finish()
}

const DIGITS: usize = 10;
const AGAIN: &str = "download the file again";
const HEADER: u64 = 128;

// MatElement types and array classes of the format.
const MATRIX: u32 = 14;
const PACKED: u32 = 15;
const UINT8: u32 = 2;
const CLASS_UINT8: u32 = 9;
const COMPLEX: u32 = 0x0800;

struct MatFile<'a, R> {
    file: R,
    path: &'a Path,
    big_endian: bool,
    length: u64,
}

/// An element of the file that holds a variable.
#[derive(Clone, Copy)]
struct MatElement {
    kind: u32,
    start: u64, // of the data, behind the tag
    bytes: u64,
}

impl<'a, R: Read + Seek> MatFile<'a, R> {
    fn open(mut file: R, path: &'a Path) -> Result<Self> {
        let failed = |error| unreadable(path, "header", error, AGAIN);
        let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let header = read_exactly(&mut file, HEADER as usize).map_err(failed)?;
        let newer = header.starts_with(b"MATLAB 7.3");
        let big_endian = match header.get(124..128) {
            Some(&[0, 1, b'I', b'M']) if !newer => false,
            Some(&[1, 0, b'M', b'I']) if !newer => true,
            _ => {
                let cure =
                    if newer { "save it in MATLAB with -v7" } else { "give an original SVHN .mat file" };
                return Err(Error::bad(path, "not a MATLAB 5 file", cure));
            }
        };
        Ok(Self { file, path, big_endian, length })
    }

    /// Goes from element to element until a variable has this name.
    fn find(&mut self, name: &str) -> Result<MatElement> {
        let mut at = HEADER;
        while at < self.length {
            let failed = |error| unreadable(self.path, &format!("byte {at}"), error, AGAIN);
            self.file.seek(SeekFrom::Start(at)).map_err(failed)?;
            let tag = Tag::read(&mut self.file, self.big_endian).map_err(failed)?;
            let element = MatElement { kind: tag.kind, start: at + 8, bytes: tag.bytes };
            let end = element.start + tag.stored();
            if end > self.length {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
            if self.open_variable(element).map_err(failed)?.is_some_and(|v| v.name == name.as_bytes()) {
                return Ok(element);
            }
            // Packed elements alone are not rounded up to eight bytes.
            at = if element.kind == PACKED { end } else { end.next_multiple_of(8) };
        }
        let problem = format!("there is no variable '{name}' in it");
        Err(Error::bad(self.path, problem, "give one of SVHN's 32x32 files, with X and y"))
    }

    fn open_matrix(&mut self, element: MatElement) -> Result<Variable<'_>> {
        let path = self.path;
        let failed = |error| unreadable(path, &format!("byte {}", element.start), error, AGAIN);
        let variable = self.open_variable(element).map_err(failed)?;
        variable.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))
    }

    /// `None` if the element is no numeric array.
    fn open_variable(&mut self, element: MatElement) -> io::Result<Option<Variable<'_>>> {
        self.file.seek(SeekFrom::Start(element.start))?;
        let content = (&mut self.file).take(element.bytes);
        let big_endian = self.big_endian;
        match element.kind {
            MATRIX => Variable::read(Box::new(content), element.bytes, big_endian),
            PACKED => {
                let mut content: Box<dyn Read + '_> = Box::new(ZlibDecoder::new(content));
                if Tag::read(&mut content, big_endian)?.kind != MATRIX {
                    return Ok(None);
                }
                // Deflate cannot pack tighter than 1 : 1032: a longer array is a lie.
                let most = element.bytes.saturating_mul(1032);
                Variable::read(content, most, big_endian)
            }
            _ => Ok(None),
        }
    }
}

/// A matrix whose values are about to be read.
struct Variable<'a> {
    name: Vec<u8>,
    class: u32,
    dimensions: Vec<usize>,
    kind: u32, // of the values as they are stored, often a smaller type than the class
    bytes: u64,
    big_endian: bool,
    data: io::Take<Box<dyn Read + 'a>>,
}

impl<'a> Variable<'a> {
    fn read(mut content: Box<dyn Read + 'a>, most: u64, big_endian: bool) -> io::Result<Option<Self>> {
        let Some(flags) = read_small(&mut content, big_endian)? else { return Ok(None) };
        let Some(dimensions) = read_small(&mut content, big_endian)? else { return Ok(None) };
        let Some(name) = read_small(&mut content, big_endian)? else { return Ok(None) };
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.chunks_exact(4).map(|word| number(word, big_endian) as u32).collect()
        };
        let flags = words(&flags).first().copied().unwrap_or_default();
        let class = flags & 0xff;
        // 6 to 15: double, single and the integers. Cells, structs and texts hold no numbers of ours.
        if !(6..=15).contains(&class) || flags & COMPLEX != 0 {
            return Ok(None);
        }
        let tag = Tag::read(&mut content, big_endian)?;
        if tag.bytes > most {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its length is impossible"));
        }
        let dimensions = words(&dimensions).into_iter().map(|d| d as usize).collect();
        let content: Box<dyn Read + 'a> = Box::new(Cursor::new(tag.within).chain(content));
        let data = content.take(tag.bytes);
        Ok(Some(Self { name, class, dimensions, kind: tag.kind, bytes: tag.bytes, big_endian, data }))
    }

    /// What `X` must be: the layout of an image, and how many there are.
    fn images(&self, path: &Path) -> Result<(PixelLayout, usize)> {
        let bad = |problem: String| {
            Error::bad_at(
                path,
                "X",
                problem,
                "give one of SVHN's 32x32 files, where X is uint8 [32, 32, 3, images]",
            )
        };
        if self.class != CLASS_UINT8 || self.kind != UINT8 {
            return Err(bad(format!("its numbers are {}, not uint8", class_name(self.class))));
        }
        let shape = || bad(format!("its shape is {:?}", self.dimensions));
        let (height, width, count) = match self.dimensions[..] {
            [height, width, 3, count] => (height, width, count),
            [height, width, 3] => (height, width, 1), // MATLAB drops a last dimension of one
            _ => return Err(shape()),
        };
        let layout = PixelLayout::column_major(height, width, 3).filter(|_| count > 0).ok_or_else(shape)?;
        if (layout.bytes() as u64).checked_mul(count as u64) != Some(self.bytes) {
            return Err(bad(format!("its shape is {:?}, but it has {} bytes", self.dimensions, self.bytes)));
        }
        Ok((layout, count))
    }

    /// Reads the labels; 10 becomes digit 0.
    fn labels(mut self, path: &Path, images: usize) -> Result<Vec<u32>> {
        let size = match self.kind {
            1 | 2 => 1,
            3 | 4 => 2,
            5..=7 => 4,
            9 | 12 | 13 => 8,
            kind => {
                let problem = format!("its numbers have the unknown type {kind}");
                return Err(Error::bad_at(path, "y", problem, AGAIN));
            }
        };
        let count = self.bytes / size;
        if count != images as u64 || !self.bytes.is_multiple_of(size) {
            let problem = format!("{count} labels, but {images} images in X");
            return Err(Error::bad_at(path, "y", problem, AGAIN));
        }
        let mut labels = Vec::new();
        let mut value = vec![0; size as usize];
        for row in 0..images {
            let failed = |error| unreadable(path, &format!("y, row {row}"), error, AGAIN);
            self.data.read_exact(&mut value).map_err(failed)?;
            let bits = number(&value, self.big_endian);
            let label = match self.kind {
                7 => f64::from(f32::from_bits(bits as u32)),
                9 => f64::from_bits(bits),
                _ => bits as f64,
            };
            // Negative integers are huge here, and refused all the same.
            if !(1.0..=10.0).contains(&label) || label.fract() != 0.0 {
                let shown = if label.abs() < 1e6 { format!("{label}") } else { "a number".to_owned() };
                let problem = format!("label {shown} is none of SVHN's labels, 1 to 10 (10 is digit 0)");
                return Err(Error::bad_at(path, format!("y, row {row}"), problem, "correct the label"));
            }
            labels.push(label as u32 % DIGITS as u32);
        }
        labels.shrink_to_fit();
        Ok(labels)
    }
}

/// The tag of an element; a small element has its four bytes of data within.
struct Tag {
    kind: u32,
    bytes: u64,
    within: Vec<u8>,
}

impl Tag {
    fn read(reader: &mut dyn Read, big_endian: bool) -> io::Result<Self> {
        let mut words = [0; 8];
        reader.read_exact(&mut words)?;
        let (first, second) = words.split_at(4);
        let (kind, bytes) = (number(first, big_endian), number(second, big_endian));
        let (small, kind) = (kind >> 16, (kind & 0xffff) as u32);
        Ok(match small {
            0 => Self { kind, bytes, within: Vec::new() },
            _ => Self { kind, bytes: small.min(4), within: second.to_vec() },
        })
    }

    /// Number of bytes of data that are stored behind the tag.
    fn stored(&self) -> u64 {
        if self.within.is_empty() { self.bytes } else { 0 }
    }
}

/// A short element with what rounds it up; `None` if it is long, and so not what it should be.
fn read_small(reader: &mut dyn Read, big_endian: bool) -> io::Result<Option<Vec<u8>>> {
    const LONGEST: u64 = 256;
    let tag = Tag::read(reader, big_endian)?;
    if tag.bytes > LONGEST {
        return Ok(None);
    }
    let mut bytes = if tag.stored() > 0 {
        read_exactly(reader, tag.bytes.next_multiple_of(8) as usize)?
    } else {
        tag.within
    };
    bytes.truncate(tag.bytes as usize);
    Ok(Some(bytes))
}

fn skip_some(reader: impl Read, most: u64) -> io::Result<u64> {
    io::copy(&mut reader.take(most), &mut io::sink())
}

/// Reads up to eight bytes as an unsigned number.
fn number(bytes: &[u8], big_endian: bool) -> u64 {
    let join = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    if big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) }
}

fn class_name(class: u32) -> &'static str {
    match class {
        6 => "double",
        7 => "single",
        8 => "int8",
        CLASS_UINT8 => "uint8 but packed as another type",
        _ => "wider integers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_by_hand() {
        let tag = |bytes: [u8; 8], big_endian| {
            let tag = Tag::read(&mut &bytes[..], big_endian).unwrap();
            (tag.kind, tag.bytes, tag.within)
        };
        assert_eq!(tag([14, 0, 0, 0, 0, 1, 0, 0], false), (14, 256, vec![]));
        assert_eq!(tag([0, 0, 0, 14, 0, 0, 1, 0], true), (14, 256, vec![]));
        // A small element: one byte of type 1, the letter X, within the tag.
        assert_eq!(tag([1, 0, 1, 0, b'X', 0, 0, 0], false), (1, 1, vec![b'X', 0, 0, 0]));
        assert_eq!(tag([0, 1, 0, 1, b'X', 0, 0, 0], true), (1, 1, vec![b'X', 0, 0, 0]));
    }

    #[test]
    fn numbers_by_hand() {
        assert_eq!(number(&[1, 2], false), 0x0201);
        assert_eq!(number(&[1, 2], true), 0x0102);
    }
}
