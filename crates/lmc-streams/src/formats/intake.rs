//! Encoded pictures on their way into an image set: decoded and prepared in parallel, kept in order, with
//! little more memory than the set itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::decode::Decoded;
use super::picture_file::PictureFile;
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::{ImageSet, ImageShape};
use crate::picture::Picture;
use crate::prepare::Prepare;
use crate::read_report::{DamagedPicture, LeftOut, SkippedFiles, damaged_error};

/// Reads picture files into a data set. Ranks are counted in the order of the files. `source` is the folder or
/// list that they come from, for the message when several are damaged.
pub(super) fn read_files(
    name: String,
    source: &Path,
    classes: Vec<String>,
    files: &[PictureFile],
    skipped: SkippedFiles,
    options: &ReadOptions<'_>,
) -> Result<Dataset> {
    let mut damaged = Vec::new();
    let mut read_split = |split: Split| -> Result<ImageSet> {
        let mut counts = ImageSet::new(classes.len());
        let mut wanted = Vec::new();
        for file in files.iter().filter(|file| file.split == split) {
            let rank = counts.count(file.label);
            if (options.keep)(split, file.label, rank) {
                wanted.push(WantedPicture { source: file, label: file.label, rank });
            }
        }
        let mut intake = Intake::new(counts, wanted.len(), options.prepare);
        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(intake.appetite().min(rest.len()));
            intake.take(chunk, |file| file.load(options.upright), |file| file.place(&classes))?;
            rest = later;
        }
        Ok(intake.finish(&mut damaged))
    };
    let train = read_split(Split::Train)?;
    let val = match files.iter().any(|file| file.split == Split::Val) {
        true => Some(Arc::new(read_split(Split::Val)?)),
        false => None,
    };
    let test = read_split(Split::Test)?;
    let damaged = report_damaged(source, damaged, options)?;
    let left_out = LeftOut { skipped, damaged };
    Ok(Dataset { name, train: Arc::new(train), val, test: Arc::new(test), classes, left_out })
}

/// Turns the errors of damaged pictures into the report on them, or into one error if they may not be skipped.
pub(super) fn report_damaged(
    source: &Path,
    errors: Vec<Error>,
    options: &ReadOptions<'_>,
) -> Result<Vec<DamagedPicture>> {
    if errors.is_empty() || options.skip_damaged {
        return Ok(errors.iter().map(DamagedPicture::from_error).collect());
    }
    Err(damaged_error(source, errors))
}

/// A picture that is wanted, and where it comes from.
pub(super) struct WantedPicture<S> {
    /// What the picture is loaded from.
    pub source: S,
    /// The label of the picture.
    pub label: u32,
    /// The rank of the picture within its class.
    pub rank: u32,
}

/// An image set that is being filled.
pub(super) struct Intake {
    set: ImageSet,
    expected: usize,
    prepare: Prepare,
    damaged: Vec<Error>,
}

impl Intake {
    /// Begins with a set that holds counts and no images yet; `expected` images will come.
    pub(super) fn new(set: ImageSet, expected: usize, prepare: Prepare) -> Self {
        Self { set, expected, prepare, damaged: Vec::new() }
    }

    /// How many pictures to hand over at once: enough for all cores, few when pictures are large.
    pub(super) fn appetite(&self) -> usize {
        const BYTES: usize = 8 << 20;
        match self.set.shape().bytes() {
            0 => 16,
            size => (BYTES / size).clamp(8, 512),
        }
    }

    /// Decodes, prepares and keeps pictures, in order. Those that cannot be loaded are set aside, so that all of
    /// them can be named at once; a picture of another size is an error at once.
    pub(super) fn take<S: Sync>(
        &mut self,
        wanted: &[WantedPicture<S>],
        load: impl Fn(&S) -> Result<Decoded> + Sync,
        place: impl Fn(&S) -> (PathBuf, String),
    ) -> Result<()> {
        let prepare = self.prepare;
        let ready: Vec<Result<(ImageShape, Vec<u8>)>> = wanted
            .par_iter()
            .map(|wanted| {
                let Decoded { picture, held: _held } = load(&wanted.source)?;
                let picture = prepare.apply(picture);
                let Picture { width, height, channels, .. } = picture;
                let planar = if channels == 1 { picture.pixels } else { picture.to_planar() };
                Ok((ImageShape { channels, height, width }, planar))
            })
            .collect();
        for (wanted, image) in wanted.iter().zip(ready) {
            let (shape, planar) = match image {
                Ok(image) => image,
                Err(error) => {
                    self.damaged.push(error);
                    continue;
                }
            };
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

    /// Gives the full set, and appends the errors of the pictures that could not be loaded.
    pub(super) fn finish(mut self, damaged: &mut Vec<Error>) -> ImageSet {
        damaged.append(&mut self.damaged);
        self.set.shrink();
        self.set
    }
}
