//! Encoded pictures on their way into an image set: decoded and prepared in parallel, kept in order, with
//! little more memory than the set itself.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::decode::{LARGEST_PICTURE, decode};
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::{ImageSet, ImageShape};
use crate::picture::Picture;
use crate::prepare::Prepare;

/// A picture file that some list or folder names.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub split: Split,
    pub label: u32,
    pub path: PathBuf,
    /// The list and the line in it that names the file.
    pub listed: Option<(Arc<Path>, u64)>,
}

/// Reads the files of all entries. Ranks are counted in the order of the entries.
pub(super) fn read_files(
    name: String,
    classes: Vec<String>,
    entries: &[Entry],
    options: &ReadOptions<'_>,
) -> Result<Dataset> {
    let read_split = |split: Split| {
        let mut counts = ImageSet::new(classes.len());
        let mut wanted = Vec::new();
        for entry in entries.iter().filter(|entry| entry.split == split) {
            let rank = counts.count(entry.label);
            if (options.keep)(split, entry.label, rank) {
                wanted.push(Wanted { source: entry, label: entry.label, rank });
            }
        }
        let mut intake = Intake::new(counts, wanted.len(), options.prepare);
        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(intake.appetite().min(rest.len()));
            intake.take(chunk, |entry| entry.load(), |entry| entry.place(&classes))?;
            rest = later;
        }
        Ok(intake.finish())
    };
    let train = read_split(Split::Train)?;
    let val = match entries.iter().any(|entry| entry.split == Split::Val) {
        true => Some(Arc::new(read_split(Split::Val)?)),
        false => None,
    };
    let test = read_split(Split::Test)?;
    Ok(Dataset { name, train: Arc::new(train), val, test: Arc::new(test), classes })
}

impl Entry {
    fn load(&self) -> Result<Picture> {
        let bytes = self.read().map_err(|error| match (&self.listed, error.kind()) {
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
        decode(&bytes).map_err(|problem| match &self.listed {
            Some((list, line)) => Error::bad_at(
                list,
                format!("line {line}"),
                format!("'{}': {}", self.path.display(), problem.problem),
                problem.cure,
            ),
            None => problem.in_file(&self.path),
        })
    }

    fn read(&self) -> std::io::Result<Vec<u8>> {
        let file = File::open(&self.path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(std::io::Error::other("not a file"));
        }
        // No encoding that we read makes a picture larger; a file beyond this is not a picture.
        if metadata.len() > LARGEST_PICTURE {
            return Err(std::io::Error::other("larger than 256 MiB, too large for a picture"));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        file.take(LARGEST_PICTURE).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn place(&self, classes: &[String]) -> (PathBuf, String) {
        match &self.listed {
            Some((list, line)) => (list.to_path_buf(), format!("line {line}")),
            None => {
                let class = classes.get(self.label as usize).map_or("?", String::as_str);
                (self.path.clone(), format!("class '{class}'"))
            }
        }
    }
}

/// A picture that is wanted, and where it comes from.
pub(super) struct Wanted<S> {
    pub source: S,
    pub label: u32,
    pub rank: u32,
}

/// An image set that is being filled.
pub(super) struct Intake {
    set: ImageSet,
    expected: usize,
    prepare: Prepare,
}

impl Intake {
    /// `set` holds the counts and no images yet; `expected` images will come.
    pub(super) fn new(set: ImageSet, expected: usize, prepare: Prepare) -> Self {
        Self { set, expected, prepare }
    }

    /// How many pictures to hand over at once: enough for all cores, few when pictures are large.
    pub(super) fn appetite(&self) -> usize {
        const BYTES: usize = 8 << 20;
        match self.set.shape().bytes() {
            0 => 16,
            size => (BYTES / size).clamp(8, 512),
        }
    }

    /// Decodes, prepares and keeps pictures, in order. Of several bad ones, the first is reported.
    pub(super) fn take<S: Sync>(
        &mut self,
        wanted: &[Wanted<S>],
        load: impl Fn(&S) -> Result<Picture> + Sync,
        place: impl Fn(&S) -> (PathBuf, String),
    ) -> Result<()> {
        let prepare = self.prepare;
        let ready: Vec<Result<(ImageShape, Vec<u8>)>> = wanted
            .par_iter()
            .map(|wanted| {
                let picture = prepare.apply(load(&wanted.source)?);
                let Picture { width, height, channels, .. } = picture;
                let planar = if channels == 1 { picture.pixels } else { picture.to_planar() };
                Ok((ImageShape { channels, height, width }, planar))
            })
            .collect();
        for (wanted, image) in wanted.iter().zip(ready) {
            let (shape, planar) = image?;
            if self.set.is_empty() {
                self.set.reserve(self.expected, shape);
            }
            if shape == self.set.shape() && shape.bytes() > 0 {
                self.set.push_planar(&planar, shape, wanted.label, wanted.rank, (Path::new(""), ""))?;
            } else {
                // The first image, or one of another size: only now the place is worth its string.
                let (path, row) = place(&wanted.source);
                self.set.push_planar(&planar, shape, wanted.label, wanted.rank, (&path, &row))?;
            }
        }
        Ok(())
    }

    /// The full set.
    pub(super) fn finish(mut self) -> ImageSet {
        self.set.shrink();
        self.set
    }
}
