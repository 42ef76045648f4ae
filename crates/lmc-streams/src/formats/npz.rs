//! A user's own arrays: an `.npz` file with images `x` and labels `y` (specification §3.1).
//!
//! `x` is `[image, row, column]`, `[image, row, column, channel]` or `[image, channel, row, column]`, as
//! integers from 0 to 255 or as floats from 0 to 1; `y` is one integer or one text per image. `x_val`,
//! `y_val`, `x_test` and `y_test` are optional, and the training arrays may end in `_train`.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;
use std::sync::Arc;

use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;

use super::npy::{Element, ElementKind, Header};
use super::raw::{Collector, PixelLayout, at_end, read_exactly, skip, unreadable};
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::read_report::LeftOut;
use crate::regular_file::open_file;

/// Reads a file, whose name becomes the name of the data set.
pub fn read(path: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let file = open_file(path)?;
    read_from(BufReader::new(file), path, options)
}

/// Reads the bytes of a file; the path gives the name of the data set, and is for messages.
pub fn read_from(file: impl Read + Seek, path: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let archive = ZipArchive::new(file).map_err(|error| unzip_failed(path, "archive", error))?;
    let mut file = NpzFile { archive, path };
    let sources = file.sources()?;

    // The classes are those of all splits together, so all labels come first.
    let mut names = BTreeMap::new();
    let mut labels = Vec::new();
    for source in &sources {
        labels.push(file.read_labels(source, &mut names)?);
    }
    let mut order = vec![0; names.len()];
    for (sorted, &seen) in (0..).zip(names.values()) {
        if let Some(place) = order.get_mut(seen as usize) {
            *place = sorted;
        }
    }
    let classes: Vec<String> = names.into_keys().map(Label::into_name).collect();

    let (mut train, mut val, mut test) = (None, None, None);
    for (source, mut labels) in sources.iter().zip(labels) {
        for label in &mut labels {
            *label = order.get(*label as usize).copied().unwrap_or_default();
        }
        let set = file.read_images(source, &labels, classes.len(), options)?;
        match source.split {
            Split::Train => train = Some(set),
            Split::Val => val = Some(Arc::new(set)),
            Split::Test => test = Some(set),
        }
    }
    let empty = || ImageSet::new(classes.len());
    let (train, test) = (Arc::new(train.unwrap_or_else(empty)), Arc::new(test.unwrap_or_else(empty)));
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(Dataset { name, classes, train, val, test, left_out: LeftOut::default() })
}

/// The two arrays that a split comes from.
struct SplitArrays {
    split: Split,
    x: &'static str,
    y: &'static str,
    header: Header, // of x
    layout: PixelLayout,
}

const NAMES: [(Split, &str, &str); 4] = [
    (Split::Train, "x", "y"),
    (Split::Train, "x_train", "y_train"),
    (Split::Val, "x_val", "y_val"),
    (Split::Test, "x_test", "y_test"),
];
const AGAIN: &str = "save it again with numpy.savez";
const PIXELS: &str = "save x as uint8, or as float32 between 0 and 1";
const SHAPES: &str = "x must be [images, rows, columns], with 1 or 3 channels last or second";

struct NpzFile<'a, R> {
    archive: ZipArchive<R>,
    path: &'a Path,
}

impl<'a, R: Read + Seek> NpzFile<'a, R> {
    /// Finds the splits that the file holds.
    fn sources(&mut self) -> Result<Vec<SplitArrays>> {
        let mut sources: Vec<SplitArrays> = Vec::new();
        for (split, x, y) in NAMES {
            let there = self.archive.index_for_name(&format!("{x}.npy")).is_some();
            if !there || sources.iter().any(|source| source.split == split) {
                continue;
            }
            let (header, _) = self.open(x)?;
            let layout = image_layout(&header).ok_or_else(|| {
                Error::bad_at(self.path, x, format!("its shape is {:?}", header.shape), SHAPES)
            })?;
            if matches!(header.element.kind, ElementKind::Unicode | ElementKind::Bytes | ElementKind::Other) {
                return Err(Error::bad_at(
                    self.path,
                    x,
                    "its elements are no numbers that can be pixels",
                    PIXELS,
                ));
            }
            if let Some(first) = sources.first().filter(|first| !first.layout.same_size(&layout)) {
                let problem =
                    format!("its shape is {:?}, that of {} {:?}", header.shape, first.x, first.header.shape);
                return Err(Error::bad_at(self.path, x, problem, "make all images one size"));
            }
            sources.push(SplitArrays { split, x, y, header, layout });
        }
        match sources.first() {
            Some(source) if source.split == Split::Train => Ok(sources),
            _ => Err(Error::bad(
                self.path,
                "there is no array 'x' in it",
                "save it with numpy.savez(file, x=images, y=labels)",
            )),
        }
    }

    /// Reads labels as numbers in the order in which they are first seen; `names` says which is which.
    fn read_labels(&mut self, source: &SplitArrays, names: &mut BTreeMap<Label, u32>) -> Result<Vec<u32>> {
        let (path, y) = (self.path, source.y);
        let (header, mut data) = self.open(y)?;
        let images = source.header.shape.first().copied().unwrap_or_default();
        match header.shape[..] {
            [count] | [count, 1] if count == images => {}
            [count] | [count, 1] => {
                let problem = format!("{count} labels, but {images} images in {}", source.x);
                return Err(Error::bad_at(path, y, problem, "give one label per image"));
            }
            _ => {
                let problem = format!("its shape is {:?}", header.shape);
                return Err(Error::bad_at(path, y, problem, "y must be one label per image"));
            }
        }
        if matches!(header.element.kind, ElementKind::Float | ElementKind::Other) {
            let problem = "its elements are neither integers nor texts";
            return Err(Error::bad_at(path, y, problem, "save y as int64 or as texts"));
        }
        let mut labels = Vec::new();
        for row in 0..images {
            let failed = |error| unreadable(path, &format!("{y}, row {row}"), error, AGAIN);
            let bytes = read_exactly(&mut data, header.element.bytes).map_err(failed)?;
            let label = Label::read(header.element, &bytes);
            if names.keys().next().is_some_and(|first| !first.same_kind(&label)) {
                let problem = "some labels are integers, others are texts";
                return Err(Error::bad_at(path, y, problem, "save all labels as one type"));
            }
            let seen = names.len() as u32;
            labels.push(*names.entry(label).or_insert(seen));
        }
        expect_end(&mut data, path, y)?;
        labels.shrink_to_fit();
        Ok(labels)
    }

    fn read_images(
        &mut self,
        source: &SplitArrays,
        labels: &[u32],
        classes: usize,
        options: &ReadOptions<'_>,
    ) -> Result<ImageSet> {
        let path = self.path;
        let labels_here = labels.iter().copied();
        let mut collector = Collector::new(path, source.split, classes, labels_here, source.layout, options);
        if source.header.fortran {
            self.read_fortran(source, labels.len(), &mut collector)?;
            return collector.finish();
        }
        let (header, mut data) = self.open(source.x)?;
        let pixels = source.layout.bytes();
        let size = pixels.saturating_mul(header.element.bytes);
        let mut at = 0;
        loop {
            let row = collector.next_row().unwrap_or(labels.len());
            let failed = |error| unreadable(path, &format!("{}, row {row}", source.x), error, AGAIN);
            skip(&mut data, (size as u64).saturating_mul(row.saturating_sub(at) as u64)).map_err(failed)?;
            if row >= labels.len() {
                break;
            }
            let raw = read_exactly(&mut data, size).map_err(failed)?;
            collector.add(to_pixels(header.element, raw, path, source.x, |_| row)?)?;
            at = row + 1;
        }
        expect_end(&mut data, path, source.x)?;
        collector.finish()
    }

    /// In Fortran's order the first pixels of all images come first, then all second ones. To hold only a
    /// part of the images at a time, the array is read several times, each time for some of them.
    fn read_fortran(
        &mut self,
        source: &SplitArrays,
        images: usize,
        collector: &mut Collector<'_>,
    ) -> Result<()> {
        let path = self.path;
        let pixels = source.layout.bytes();
        while let Some(start) = collector.next_row() {
            let part = (images / PARTS).max(PART_BYTES / pixels).max(1);
            let end = start.saturating_add(part).min(images);
            let (header, mut data) = self.open(source.x)?;
            let failed = |error| unreadable(path, source.x, error, AGAIN);
            let size = header.element.bytes;
            let mut all: Vec<u8> = Vec::new(); // [pixel, image]
            for _ in 0..pixels {
                skip(&mut data, size.saturating_mul(start) as u64).map_err(failed)?;
                let raw = read_exactly(&mut data, size.saturating_mul(end - start)).map_err(failed)?;
                all.extend(to_pixels(header.element, raw, path, source.x, |at| start + at)?);
                skip(&mut data, size.saturating_mul(images - end) as u64).map_err(failed)?;
            }
            expect_end(&mut data, path, source.x)?;
            while let Some(row) = collector.next_row().filter(|&row| row < end) {
                collector.add(all.iter().skip(row - start).step_by(end - start).copied().collect())?;
            }
        }
        Ok(())
    }

    /// Opens an array, whose length is checked against the bytes that are there.
    fn open(&mut self, name: &str) -> Result<(Header, ZipFile<'_, R>)> {
        let path = self.path;
        let mut data = match self.archive.by_name(&format!("{name}.npy")) {
            Ok(data) => data,
            Err(ZipError::FileNotFound) => {
                let problem = format!("there is no array '{name}' in it");
                return Err(Error::bad(path, problem, "save it with numpy.savez(file, x=images, y=labels)"));
            }
            Err(error) => return Err(unzip_failed(path, name, error)),
        };
        let (packed, unpacked) = (data.compressed_size(), data.size());
        let bad = |problem: String, cure: &str| Error::bad_at(path, name, problem, cure);
        if unpacked > HARMLESS && unpacked / BOMB > packed {
            let problem = format!("{packed} bytes unpack to {unpacked}: this looks like a zip bomb");
            return Err(bad(problem, "save it with numpy.savez, which does not pack, if it is none"));
        }
        let header = Header::read(&mut data).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => bad(error.to_string(), AGAIN),
            _ => unreadable(path, name, error, AGAIN),
        })?;
        let needed = header.len().and_then(|length| length.checked_mul(header.element.bytes));
        if needed.is_none_or(|needed| needed as u64 > unpacked) {
            let problem = format!("its shape is {:?}, but it has only {unpacked} bytes", header.shape);
            return Err(bad(problem, AGAIN));
        }
        Ok((header, data))
    }
}

/// A big array that was packed this tightly holds nothing worth learning.
const BOMB: u64 = 200;
const HARMLESS: u64 = 64 << 20;
/// Fortran order: the images are read in this many parts, or in parts of so many bytes if that is more.
const PARTS: usize = 16;
const PART_BYTES: usize = 4 << 20;

/// A label as it stands in the file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Number(i128),
    Text(String),
}

impl Label {
    fn read(element: Element, bytes: &[u8]) -> Self {
        match element.kind {
            ElementKind::Unicode | ElementKind::Bytes => Self::Text(element.text(bytes)),
            _ => Self::Number(element.integer(bytes)),
        }
    }

    fn same_kind(&self, other: &Self) -> bool {
        matches!(self, Self::Text(_)) == matches!(other, Self::Text(_))
    }

    fn into_name(self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text,
        }
    }
}

/// How one image of `x` lies; in Fortran's order the same dimensions run the other way.
fn image_layout(header: &Header) -> Option<PixelLayout> {
    let (height, width, channels, last) = match header.shape[..] {
        [_, height, width] => (height, width, 1, true),
        [_, height, width, channels @ (1 | 3)] => (height, width, channels, true),
        [_, channels @ (1 | 3), height, width] => (height, width, channels, false),
        _ => return None,
    };
    let layout = match (last, header.fortran) {
        (true, false) => PixelLayout::interleaved(height, width, channels),
        (false, false) => PixelLayout::planar(height, width, channels),
        (true, true) => PixelLayout::column_major(height, width, channels),
        (false, true) => PixelLayout::column_major_interleaved(height, width, channels),
    };
    layout.filter(|_| header.shape.first() != Some(&0))
}

/// Turns numbers into bytes; `row` says to which image the i-th number belongs.
fn to_pixels(
    element: Element,
    raw: Vec<u8>,
    path: &Path,
    x: &str,
    row: impl Fn(usize) -> usize,
) -> Result<Vec<u8>> {
    if element.kind == ElementKind::Unsigned && element.bytes == 1 {
        return Ok(raw);
    }
    let numbers = raw.chunks_exact(element.bytes).enumerate();
    numbers
        .map(|(at, bytes)| {
            element.pixel(bytes).map_err(|value| {
                let range = if element.kind == ElementKind::Float { "0 to 1" } else { "0 to 255" };
                let problem = format!("the value {value} is outside {range}");
                Error::bad_at(path, format!("{x}, row {}", row(at)), problem, PIXELS)
            })
        })
        .collect()
}

fn expect_end(data: &mut dyn Read, path: &Path, name: &str) -> Result<()> {
    if at_end(data).map_err(|error| unreadable(path, name, error, AGAIN))? {
        return Ok(());
    }
    Err(Error::bad_at(path, name, "more bytes than its shape needs", AGAIN))
}

fn unzip_failed(path: &Path, name: &str, error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => unreadable(path, name, error, AGAIN),
        error => Error::bad_at(path, name, format!("cannot be unpacked ({error})"), AGAIN),
    }
}
