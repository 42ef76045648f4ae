//! CIFAR-10 and CIFAR-100, the *binary version*: unpacked, or (feature `archives`) the archive as it is downloaded
//! (specification §3.1).
//!
//! A file is a row of records without header: the label (CIFAR-100: the coarse label, then the fine one,
//! which is ours) and 3,072 bytes, planar. CIFAR-10's training split is five files, whose order decides
//! the ranks, while the members of the archive come in another order. So a first pass over the source
//! collects labels and names, and later passes take the images in the right order.

use std::collections::BTreeMap;
#[cfg(feature = "archives")]
use std::io::Seek;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use super::raw::{Collector, PixelLayout, unreadable};
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::read_report::LeftOut;
use crate::regular_file::open_file;

/// Which of the two CIFAR sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// CIFAR-10, with its ten classes.
    Ten,
    /// CIFAR-100, with its fine labels.
    Hundred,
}

/// Reads a folder (the one with the `.bin` files or the one around it) or a `.tar.gz`.
pub fn read(path: &Path, kind: Kind, options: &ReadOptions<'_>) -> Result<Dataset> {
    if !path.is_dir() {
        return read_archive(path, kind, options);
    }
    let inner = path.join(kind.folder());
    let folder = if inner.is_dir() { inner } else { path.to_owned() };
    read_source(&mut |visit| visit_folder(&folder, kind, visit), &folder, kind, options)
}

#[cfg(feature = "archives")]
fn read_archive(path: &Path, kind: Kind, options: &ReadOptions<'_>) -> Result<Dataset> {
    let file = open_file(path)?;
    read_from(BufReader::new(file), path, kind, options)
}

#[cfg(not(feature = "archives"))]
fn read_archive(path: &Path, _kind: Kind, _options: &ReadOptions<'_>) -> Result<Dataset> {
    Err(Error::feature_off(path, ".tar.gz files", "archives"))
}

/// Reads the bytes of an archive, packed with gzip or not; the path is for messages.
#[cfg(feature = "archives")]
pub fn read_from(
    mut archive: impl Read + Seek,
    path: &Path,
    kind: Kind,
    options: &ReadOptions<'_>,
) -> Result<Dataset> {
    read_source(&mut |visit| visit_archive(&mut archive, path, kind, visit), path, kind, options)
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Ten => "cifar10",
            Self::Hundred => "cifar100",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Ten => "cifar-10-batches-bin",
            Self::Hundred => "cifar-100-binary",
        }
    }

    fn train_files(self) -> &'static [&'static str] {
        match self {
            Self::Ten => &[
                "data_batch_1.bin",
                "data_batch_2.bin",
                "data_batch_3.bin",
                "data_batch_4.bin",
                "data_batch_5.bin",
            ],
            Self::Hundred => &["train.bin"],
        }
    }

    fn test_file(self) -> &'static str {
        match self {
            Self::Ten => "test_batch.bin",
            Self::Hundred => "test.bin",
        }
    }

    fn names_file(self) -> &'static str {
        match self {
            Self::Ten => "batches.meta.txt",
            Self::Hundred => "fine_label_names.txt",
        }
    }

    fn files(self) -> impl Iterator<Item = &'static str> {
        self.train_files().iter().copied().chain([self.test_file(), self.names_file()])
    }

    fn classes(self) -> usize {
        match self {
            Self::Ten => 10,
            Self::Hundred => 100,
        }
    }

    /// Bytes before the pixels; the last of them is the label.
    fn label_bytes(self) -> usize {
        match self {
            Self::Ten => 1,
            Self::Hundred => 2,
        }
    }
}

const PIXELS: usize = 3 * 32 * 32;
const AGAIN: &str = "download the archive again";

fn read_source(
    visit_files: &mut VisitFiles<'_>,
    path: &Path,
    kind: Kind,
    options: &ReadOptions<'_>,
) -> Result<Dataset> {
    let mut labels: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let mut classes = None;
    visit_files(&mut |file, place, reader| {
        let twice = if file == kind.names_file() {
            classes.replace(read_names(reader, place, kind)?).is_some()
        } else {
            labels.insert(file, read_labels(reader, place, kind)?).is_some()
        };
        if twice { Err(Error::bad(path, format!("holds {file} twice"), AGAIN)) } else { Ok(()) }
    })?;
    let missing = |file: &str| {
        let cure = format!("get the binary version of {} with all its files", kind.name());
        Error::bad(path, format!("{file} is missing"), cure)
    };
    if let Some(file) = kind.files().find(|&file| file != kind.names_file() && !labels.contains_key(file)) {
        return Err(missing(file));
    }
    let classes = classes.ok_or_else(|| missing(kind.names_file()))?;
    let layout = PixelLayout::planar(32, 32, 3).ok_or_else(|| missing(kind.test_file()))?;
    let collect = |split, files: &[&str]| {
        let labels =
            files.iter().filter_map(|&file| labels.get(file)).flatten().map(|&label| u32::from(label));
        Collector::new(path, split, kind.classes(), labels, layout, options)
    };
    let mut train = collect(Split::Train, kind.train_files());
    let mut test = collect(Split::Test, &[kind.test_file()]);

    let (mut next, mut row, mut tested) = (0, 0, false);
    while next < kind.train_files().len() || !tested {
        let before = (next, tested);
        visit_files(&mut |file, place, reader| {
            let count = labels.get(file).map_or(0, Vec::len);
            let failed = |record, error| unreadable(place, &format!("record {record}"), error, AGAIN);
            if file == kind.test_file() && !tested {
                tested = true;
                test.add_rows(reader, 0..count, kind.label_bytes(), failed)
            } else if kind.train_files().get(next) == Some(&file) {
                let rows = row..row + count;
                (next, row) = (next + 1, rows.end);
                train.add_rows(reader, rows, kind.label_bytes(), failed)
            } else {
                Ok(())
            }
        })?;
        if before == (next, tested) {
            return Err(Error::bad(path, "changed while it was read", "read it again"));
        }
    }
    let (train, test) = (Arc::new(train.finish()?), Arc::new(test.finish()?));
    let left_out = LeftOut::default();
    Ok(Dataset { name: kind.name().to_owned(), classes, train, val: None, test, left_out })
}

/// What is done with a file: its name, its path for messages, its content.
type Visit<'a> = dyn FnMut(&'static str, &Path, &mut dyn Read) -> Result<()> + 'a;

/// Visits the files of a set that are there, in whatever order they come.
type VisitFiles<'a> = dyn FnMut(&mut Visit<'_>) -> Result<()> + 'a;

fn visit_folder(folder: &Path, kind: Kind, visit: &mut Visit<'_>) -> Result<()> {
    for file in kind.files() {
        let place = folder.join(file);
        match open_file(&place) {
            Ok(content) => visit(file, &place, &mut BufReader::new(content))?,
            Err(Error::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(feature = "archives")]
fn visit_archive(
    archive: &mut (impl Read + Seek),
    path: &Path,
    kind: Kind,
    visit: &mut Visit<'_>,
) -> Result<()> {
    let failed = |error| unreadable(path, "archive", error, AGAIN);
    archive.seek(io::SeekFrom::Start(0)).map_err(failed)?;
    let mut members = tar::Archive::new(super::raw::unpack(archive).map_err(failed)?);
    for member in members.entries().map_err(failed)? {
        let mut member = member.map_err(failed)?;
        let Some(file) = file_of(&member, kind) else { continue };
        visit(file, &path.join(file), &mut member)?;
    }
    Ok(())
}

/// The file of the set that a member of the archive is, if it is one.
#[cfg(feature = "archives")]
fn file_of(member: &tar::Entry<'_, impl Read>, kind: Kind) -> Option<&'static str> {
    let path = member.path().ok().filter(|_| member.header().entry_type().is_file())?;
    kind.files().find(|&file| path.file_name() == Some(file.as_ref()))
}

fn read_names(reader: &mut dyn Read, place: &Path, kind: Kind) -> Result<Vec<String>> {
    // A hundred names need two kilobytes; a long file is another file.
    let mut bytes = Vec::new();
    reader.take(1 << 16).read_to_end(&mut bytes).map_err(|e| unreadable(place, "names", e, AGAIN))?;
    let text = String::from_utf8_lossy(&bytes);
    let names: Vec<String> =
        text.lines().map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if names.len() == kind.classes() {
        return Ok(names);
    }
    Err(Error::bad(place, format!("{} class names, not {}", names.len(), kind.classes()), AGAIN))
}

/// The labels of all records; also the check that the file is whole.
fn read_labels(reader: &mut dyn Read, place: &Path, kind: Kind) -> Result<Vec<u8>> {
    let length = kind.label_bytes() + PIXELS;
    let mut labels = Vec::new();
    let mut record = Vec::with_capacity(length);
    loop {
        let row = format!("record {}", labels.len());
        record.clear();
        let got = reader
            .take(length as u64)
            .read_to_end(&mut record)
            .map_err(|error| unreadable(place, &row, error, AGAIN))?;
        if got == 0 && !labels.is_empty() {
            return Ok(labels);
        }
        if got < length {
            return Err(Error::bad_at(place, row, format!("{got} bytes of {length}"), AGAIN));
        }
        let label = record.get(kind.label_bytes() - 1).copied().unwrap_or(u8::MAX);
        if usize::from(label) >= kind.classes() {
            let problem = format!("label {label}, but {} has {} classes", kind.name(), kind.classes());
            return Err(Error::bad_at(
                place,
                row,
                problem,
                "check that it is this data set, or download it again",
            ));
        }
        labels.push(label);
    }
}
