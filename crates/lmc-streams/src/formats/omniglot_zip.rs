//! The zip files in which Omniglot is published. Reading them needs the feature `archives`.

use std::path::{Path, PathBuf};

use crate::error::Result;

/// A drawing within a zip file.
#[derive(Clone, Debug)]
pub(super) struct ZippedDrawing {
    /// The zip file that holds the drawing.
    pub archive: PathBuf,
    /// Name of the drawing in the zip file, for messages.
    pub name: String,
    index: usize,
}

/// A drawing that a zip file lists: alphabet, character, and where it is.
pub(super) type ListedDrawing = (String, String, ZippedDrawing);

pub(super) use archives::ZipFiles;

/// What users do about a damaged or incomplete download.
pub(super) const DOWNLOAD: &str = "download images_background.zip and images_evaluation.zip again";

#[cfg(feature = "archives")]
mod archives {
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::io::{BufReader, Read};

    use zip::ZipArchive;

    use super::{DOWNLOAD, ListedDrawing, Path, PathBuf, Result, ZippedDrawing};
    use crate::error::Error;
    use crate::formats::decode::{LARGEST_PICTURE, catch_panic};
    use crate::regular_file::open_file;

    /// The zip files that are open.
    #[derive(Default)]
    pub(in crate::formats) struct ZipFiles(BTreeMap<PathBuf, ZipArchive<BufReader<File>>>);

    impl ZipFiles {
        /// Opens a zip file and lists its drawings, sorted by name.
        pub(in crate::formats) fn open(&mut self, path: &Path) -> Result<Vec<ListedDrawing>> {
            let listed = catch_panic(|| self.list(path));
            listed.unwrap_or_else(|| Err(Error::bad(path, "not an intact zip file", DOWNLOAD)))
        }

        fn list(&mut self, path: &Path) -> Result<Vec<ListedDrawing>> {
            let file = open_file(path)?;
            let archive = ZipArchive::new(BufReader::new(file))
                .map_err(|error| Error::bad(path, format!("not an intact zip file ({error})"), DOWNLOAD))?;
            let names =
                archive.file_names().map(|name| name.map(std::borrow::Cow::into_owned).unwrap_or_default());
            let mut names: Vec<(String, usize)> = names.zip(0..).collect();
            names.sort();
            let mut drawings = Vec::new();
            for (name, index) in names {
                // The last three steps count; Macs add folders of their own to zip files, with hidden files in them.
                let mut steps = name.rsplit('/');
                let (file, character, alphabet) = (steps.next(), steps.next(), steps.next());
                let (Some(file), Some(character), Some(alphabet)) = (file, character, alphabet) else {
                    continue;
                };
                if !file.ends_with(".png") || file.starts_with('.') || name.starts_with("__MACOSX") {
                    continue;
                }
                let (alphabet, character) = (alphabet.to_owned(), character.to_owned());
                drawings.push((alphabet, character, ZippedDrawing { archive: path.to_owned(), index, name }));
            }
            self.0.insert(path.to_owned(), archive);
            Ok(drawings)
        }

        /// The encoded bytes of a drawing.
        pub(in crate::formats) fn read(&mut self, drawing: &ZippedDrawing) -> Result<Vec<u8>> {
            let reader = self.0.get_mut(&drawing.archive);
            let bytes = catch_panic(|| {
                let mut bytes = Vec::new();
                let drawing = reader?.by_index(drawing.index).ok()?;
                drawing.take(LARGEST_PICTURE).read_to_end(&mut bytes).ok()?;
                Some(bytes)
            });
            let failed = || Error::bad_at(&drawing.archive, &drawing.name, "it cannot be unpacked", DOWNLOAD);
            bytes.flatten().ok_or_else(failed)
        }
    }
}

#[cfg(not(feature = "archives"))]
mod archives {
    use super::{ListedDrawing, Path, Result, ZippedDrawing};
    use crate::error::Error;

    /// Stands for the zip files where this build cannot open any.
    #[derive(Default)]
    pub(in crate::formats) struct ZipFiles {}

    impl ZipFiles {
        /// Says that the feature is off.
        pub(in crate::formats) fn open(&mut self, path: &Path) -> Result<Vec<ListedDrawing>> {
            Err(Error::feature_off(path, ".zip files", "archives"))
        }

        /// Says that the feature is off.
        pub(in crate::formats) fn read(&mut self, drawing: &ZippedDrawing) -> Result<Vec<u8>> {
            let what = format!("drawing {} of .zip files", drawing.index);
            Err(Error::feature_off(&drawing.archive, &what, "archives"))
        }
    }
}
