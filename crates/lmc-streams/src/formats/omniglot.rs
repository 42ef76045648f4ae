//! Omniglot as published (specification §3.8): `images_background` and `images_evaluation`, unpacked or as
//! zip files, holding `Alphabet/character01/0709_01.png`.
//!
//! Classes are `Alphabet/character01`: first the background alphabets by name, then those of the evaluation
//! part. There is no official split of drawings: everything is training data. The rank of a drawing is its
//! place in the order of the 20 drawers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::decode::{LARGEST_PICTURE, decode};
use super::intake::{Intake, WantedPicture, report_damaged};
use super::listing::{pictures_below, subfolders};
use super::omniglot_zip::{DOWNLOAD, ZipFiles, ZippedDrawing};
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::read_report::LeftOut;
use crate::regular_file::read_file;

/// The two parts of the publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum OmniglotPart {
    /// The 30 alphabets to learn from.
    Background,
    /// The 20 alphabets to be tested on.
    Evaluation,
}

/// Reads the parts that are in `dir`.
pub fn read(dir: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let Contents { characters, mut zip_files } = list(dir)?;
    let classes: Vec<String> =
        characters.keys().map(|(_, alphabet, character)| format!("{alphabet}/{character}")).collect();
    let mut counts = ImageSet::new(classes.len());
    let mut kept = Vec::new();
    for (label, drawings) in (0..).zip(characters.values()) {
        for source in drawings {
            let rank = counts.count(label);
            if (options.keep)(Split::Train, label, rank) {
                kept.push(WantedPicture { source, label, rank });
            }
        }
    }
    let mut intake = Intake::new(counts, kept.len(), options.prepare);
    let mut rest = kept.as_slice();
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(intake.appetite().min(rest.len()));
        // Reading stays in one thread, because a zip file has one reader; the work is in decoding.
        let mut loaded = Vec::with_capacity(chunk.len());
        for &WantedPicture { source, label, rank } in chunk {
            loaded.push(WantedPicture { source: (source, source.read(&mut zip_files)?), label, rank });
        }
        let decode_one = |(drawing, bytes): &(&Drawing, Vec<u8>)| {
            decode(bytes, options.upright).map_err(|problem| match drawing.place() {
                (path, None) => problem.in_file(path),
                (path, Some(name)) => problem.at_row(path, name),
            })
        };
        intake.take(&loaded, decode_one, |(drawing, _)| {
            let (path, name) = drawing.place();
            (path.to_owned(), name.unwrap_or("drawing").to_owned())
        })?;
        rest = later;
    }
    let mut damaged = Vec::new();
    let train = Arc::new(intake.finish(&mut damaged));
    let left_out = LeftOut { damaged: report_damaged(dir, damaged, options)?, ..LeftOut::default() };
    let test = Arc::new(ImageSet::new(classes.len()));
    Ok(Dataset { name: "omniglot".to_owned(), classes, train, val: None, test, left_out })
}

/// The alphabets in class order, each with the part it belongs to.
pub fn alphabets(dir: &Path) -> Result<Vec<(String, OmniglotPart)>> {
    let keys = list(dir)?.characters.into_keys();
    let mut alphabets: Vec<(String, OmniglotPart)> =
        keys.map(|(part, alphabet, _)| (alphabet, part)).collect();
    alphabets.dedup();
    Ok(alphabets)
}

/// All drawings, and the zip files that some of them are in.
struct Contents {
    /// Drawings in drawer order, by part, alphabet and character.
    characters: BTreeMap<(OmniglotPart, String, String), Vec<Drawing>>,
    zip_files: ZipFiles,
}

/// Where a drawing is.
enum Drawing {
    File(PathBuf),
    Zipped(ZippedDrawing),
}

impl Drawing {
    fn place(&self) -> (&Path, Option<&str>) {
        match self {
            Self::File(path) => (path, None),
            Self::Zipped(drawing) => (&drawing.archive, Some(&drawing.name)),
        }
    }

    fn read(&self, zip_files: &mut ZipFiles) -> Result<Vec<u8>> {
        match self {
            Self::File(path) => read_file(path, LARGEST_PICTURE),
            Self::Zipped(drawing) => zip_files.read(drawing),
        }
    }
}

fn list(dir: &Path) -> Result<Contents> {
    let mut contents = Contents { characters: BTreeMap::new(), zip_files: ZipFiles::default() };
    let parts =
        [(OmniglotPart::Background, "images_background"), (OmniglotPart::Evaluation, "images_evaluation")];
    for (part, name) in parts {
        let (folder, archive) = (dir.join(name), dir.join(name).with_extension("zip"));
        if folder.is_dir() {
            list_folder(part, &folder, &mut contents)?;
        } else if archive.is_file() {
            for (alphabet, character, drawing) in contents.zip_files.open(&archive)? {
                let class = (part, alphabet, character);
                contents.characters.entry(class).or_default().push(Drawing::Zipped(drawing));
            }
        }
    }
    if contents.characters.is_empty() {
        let problem = "there is no drawing in images_background or images_evaluation (folder or .zip)";
        return Err(Error::bad(dir, problem, "put the two zip files of Omniglot there"));
    }
    Ok(contents)
}

fn list_folder(part: OmniglotPart, folder: &Path, contents: &mut Contents) -> Result<()> {
    for (alphabet, path) in subfolders(folder)? {
        for (character, path) in subfolders(&path)? {
            let drawings: Vec<Drawing> =
                pictures_below(&path)?.pictures.into_iter().map(Drawing::File).collect();
            if drawings.is_empty() {
                return Err(Error::bad(&path, "a character without drawings", DOWNLOAD));
            }
            contents.characters.insert((part, alphabet.clone(), character), drawings);
        }
    }
    Ok(())
}
