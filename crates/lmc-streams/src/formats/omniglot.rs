//! Omniglot as published (specification §3.8): `images_background` and `images_evaluation`, unpacked or as
//! zip files, holding `Alphabet/character01/0709_01.png`.
//!
//! Classes are `Alphabet/character01`: first the background alphabets by name, then those of the evaluation
//! part. There is no official split of drawings: everything is training data. The rank of a drawing is its
//! place in the order of the 20 drawers.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zip::ZipArchive;

use super::decode::{LARGEST_PICTURE, catch_panic, decode};
use super::folder::{pictures_below, subfolders};
use super::intake::{Intake, Wanted};
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::ImageSet;

/// The two parts of the publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Part {
    /// 30 alphabets to learn from.
    Background,
    /// 20 alphabets to be tested on.
    Evaluation,
}

/// Reads the parts that are in `dir`.
pub fn read(dir: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let Contents { characters, mut archives } = list(dir)?;
    let classes: Vec<String> =
        characters.keys().map(|(_, alphabet, character)| format!("{alphabet}/{character}")).collect();
    let mut counts = ImageSet::new(classes.len());
    let mut kept = Vec::new();
    for (label, drawings) in (0..).zip(characters.values()) {
        for source in drawings {
            let rank = counts.count(label);
            if (options.keep)(Split::Train, label, rank) {
                kept.push(Wanted { source, label, rank });
            }
        }
    }
    let mut intake = Intake::new(counts, kept.len(), options.prepare);
    let mut rest = kept.as_slice();
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(intake.appetite().min(rest.len()));
        // Reading stays in one thread, because a zip file has one reader; the work is in decoding.
        let mut loaded = Vec::with_capacity(chunk.len());
        for &Wanted { source, label, rank } in chunk {
            loaded.push(Wanted { source: (source, source.read(&mut archives)?), label, rank });
        }
        let decode_one = |(source, bytes): &(&Source, Vec<u8>)| {
            decode(bytes).map_err(|problem| match source.place() {
                (path, None) => problem.in_file(path),
                (path, Some(name)) => problem.at_row(path, name),
            })
        };
        intake.take(&loaded, decode_one, |(source, _)| {
            let (path, name) = source.place();
            (path.to_owned(), name.unwrap_or("drawing").to_owned())
        })?;
        rest = later;
    }
    let test = Arc::new(ImageSet::new(classes.len()));
    Ok(Dataset { name: "omniglot".to_owned(), classes, train: Arc::new(intake.finish()), val: None, test })
}

/// The alphabets in class order, each with the part it belongs to.
pub fn alphabets(dir: &Path) -> Result<Vec<(String, Part)>> {
    let keys = list(dir)?.characters.into_keys();
    let mut alphabets: Vec<(String, Part)> = keys.map(|(part, alphabet, _)| (alphabet, part)).collect();
    alphabets.dedup();
    Ok(alphabets)
}

type Archive = ZipArchive<BufReader<File>>;

struct Contents {
    /// Drawings in drawer order, by part, alphabet and character.
    characters: BTreeMap<(Part, String, String), Vec<Source>>,
    archives: BTreeMap<PathBuf, Archive>,
}

/// Where a drawing is.
enum Source {
    File(PathBuf),
    Zipped { archive: PathBuf, index: usize, name: String },
}

impl Source {
    fn place(&self) -> (&Path, Option<&str>) {
        match self {
            Self::File(path) => (path, None),
            Self::Zipped { archive, name, .. } => (archive, Some(name)),
        }
    }

    fn read(&self, archives: &mut BTreeMap<PathBuf, Archive>) -> Result<Vec<u8>> {
        let (archive, index, name) = match self {
            Self::File(path) => return fs::read(path).map_err(Error::io("read", path)),
            Self::Zipped { archive, index, name } => (archive, *index, name),
        };
        let reader = archives.get_mut(archive);
        let bytes = catch_panic(|| {
            let mut bytes = Vec::new();
            let drawing = reader?.by_index(index).ok()?;
            drawing.take(LARGEST_PICTURE).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        });
        bytes.flatten().ok_or_else(|| Error::bad_at(archive, name, "it cannot be unpacked", DOWNLOAD))
    }
}

const DOWNLOAD: &str = "download images_background.zip and images_evaluation.zip again";

fn list(dir: &Path) -> Result<Contents> {
    let mut contents = Contents { characters: BTreeMap::new(), archives: BTreeMap::new() };
    for (part, name) in [(Part::Background, "images_background"), (Part::Evaluation, "images_evaluation")] {
        let (folder, archive) = (dir.join(name), dir.join(name).with_extension("zip"));
        if folder.is_dir() {
            list_folder(part, &folder, &mut contents)?;
        } else if archive.is_file() {
            let listed = catch_panic(|| list_archive(part, &archive, &mut contents));
            listed.unwrap_or_else(|| Err(Error::bad(&archive, "not an intact zip file", DOWNLOAD)))?;
        }
    }
    if contents.characters.is_empty() {
        let problem = "there is no drawing in images_background or images_evaluation (folder or .zip)";
        return Err(Error::bad(dir, problem, "put the two zip files of Omniglot there"));
    }
    Ok(contents)
}

fn list_folder(part: Part, folder: &Path, contents: &mut Contents) -> Result<()> {
    for (alphabet, path) in subfolders(folder)? {
        for (character, path) in subfolders(&path)? {
            let drawings: Vec<Source> = pictures_below(&path)?.into_iter().map(Source::File).collect();
            if drawings.is_empty() {
                return Err(Error::bad(&path, "a character without drawings", DOWNLOAD));
            }
            contents.characters.insert((part, alphabet.clone(), character), drawings);
        }
    }
    Ok(())
}

fn list_archive(part: Part, path: &Path, contents: &mut Contents) -> Result<()> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let archive = ZipArchive::new(BufReader::new(file))
        .map_err(|error| Error::bad(path, format!("not an intact zip file ({error})"), DOWNLOAD))?;
    let names = archive.file_names().map(|name| name.map(std::borrow::Cow::into_owned).unwrap_or_default());
    let mut names: Vec<(String, usize)> = names.zip(0..).collect();
    names.sort();
    for (name, index) in names {
        // The last three steps count; Macs add folders of their own to zip files, with hidden files in them.
        let mut steps = name.rsplit('/');
        let (file, character, alphabet) = (steps.next(), steps.next(), steps.next());
        let (Some(file), Some(character), Some(alphabet)) = (file, character, alphabet) else { continue };
        if !file.ends_with(".png") || file.starts_with('.') || name.starts_with("__MACOSX") {
            continue;
        }
        let class = (part, alphabet.to_owned(), character.to_owned());
        let source = Source::Zipped { archive: path.to_owned(), index, name: name.clone() };
        contents.characters.entry(class).or_default().push(source);
    }
    contents.archives.insert(path.to_owned(), archive);
    Ok(())
}
