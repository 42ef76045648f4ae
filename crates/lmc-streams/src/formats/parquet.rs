//! Parquet in the Hugging Face layout (the form of most sets of specification §3.1 here): a column `image`
//! or `img` with encoded pictures, a column `label` or `fine_label`, and perhaps `rank`; class names in the
//! key `huggingface` of the footer. Rows are counted from 0.
//!
//! Labels are read before images: they are a few bytes a row, and tell how many images will be kept, so that
//! memory is reserved once and images that nobody wants are skipped, page by page where possible.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::reader::FileReader;

use super::decode::decode;
use super::intake::{Intake, Wanted};
use super::parquet_columns::{
    Columns, RE_EXPORT, Rows, class_names, count_rows, damaged, guarded, open, read_chunk, read_rows,
};
use super::parquet_pages;
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::picture::Picture;

/// What a parquet file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Number of images.
    pub rows: u64,
    /// Class names in label order, if the file names them.
    pub classes: Option<Vec<String>>,
    /// Whether the images carry their ranks.
    pub has_ranks: bool,
}

/// Reads a data set from parquet files, in the order given. `classes` are the class names to use when the
/// files do not tell; without either, classes are called by their numbers.
pub fn read(
    name: &str,
    files: &[(Split, PathBuf)],
    classes: Option<&[String]>,
    options: &ReadOptions<'_>,
) -> Result<Dataset> {
    let mut parts = Vec::new();
    for (split, path) in files {
        let (rows, named) = guarded(path, || read_rows(path))?;
        parts.push(Part { split: *split, path, rows, named });
    }
    let classes = agree_on_classes(&parts, classes)?;
    let train = read_split(Split::Train, &parts, classes.len(), options)?;
    let val = match parts.iter().any(|part| part.split == Split::Val) {
        true => Some(Arc::new(read_split(Split::Val, &parts, classes.len(), options)?)),
        false => None,
    };
    let test = read_split(Split::Test, &parts, classes.len(), options)?;
    Ok(Dataset { name: name.to_owned(), classes, train: Arc::new(train), val, test: Arc::new(test) })
}

/// The parquet files of a folder, or of its subfolder `data`, by name, with the splits that their names
/// begin with. Any other name (`all-...`) counts as training data.
pub fn find_files(dir: &Path) -> Result<Vec<(Split, PathBuf)>> {
    let mut files = list(dir)?;
    if files.is_empty() && dir.join("data").is_dir() {
        files = list(&dir.join("data"))?;
    }
    if files.is_empty() {
        return Err(Error::bad(dir, "there is no .parquet file in this folder", "check the path"));
    }
    files.sort();
    Ok(files.into_iter().map(|path| (split_of(&path), path)).collect())
}

/// What the footer tells: quick, no image is touched.
pub fn describe(path: &Path) -> Result<Description> {
    guarded(path, || {
        let reader = open(path)?;
        let columns = Columns::find(path, reader.metadata())?;
        let rows = count_rows(path, &reader)? as u64;
        let classes = class_names(reader.metadata(), &columns.label.name);
        Ok(Description { rows, classes, has_ranks: columns.rank.is_some() })
    })
}

/// One file: what is known before its images are read.
struct Part<'a> {
    split: Split,
    path: &'a Path,
    rows: Rows,
    named: Option<Vec<String>>,
}

fn agree_on_classes(parts: &[Part<'_>], given: Option<&[String]>) -> Result<Vec<String>> {
    let mut named = parts.iter().filter_map(|part| Some((part, part.named.as_ref()?)));
    let classes = match named.next() {
        Some((_, first)) => {
            if let Some((part, _)) = named.find(|(_, other)| *other != first) {
                let cure = "read files of one data set only";
                return Err(Error::bad(
                    part.path,
                    "its class names differ from those of the first file",
                    cure,
                ));
            }
            first.clone()
        }
        None => match given {
            Some(given) => given.to_vec(),
            None => numbered(parts)?,
        },
    };
    for part in parts {
        let outside = |&label: &u32| label as usize >= classes.len();
        if let Some(row) = part.rows.labels.iter().position(outside) {
            return Err(Error::bad_at(
                part.path,
                format!("row {row}"),
                format!("label {} is outside the {} classes", part.rows.labels[row], classes.len()),
                "correct the label, or name all classes",
            ));
        }
    }
    Ok(classes)
}

fn numbered(parts: &[Part<'_>]) -> Result<Vec<String>> {
    const MOST: u32 = 100_000;
    let mut classes = 0;
    for part in parts {
        if let Some(row) = part.rows.labels.iter().position(|&label| label >= MOST) {
            let problem = format!("label {} without class names", part.rows.labels[row]);
            let cure = format!("number classes from 0 to at most {}", MOST - 1);
            return Err(Error::bad_at(part.path, format!("row {row}"), problem, cure));
        }
        classes = classes.max(part.rows.labels.iter().max().map_or(0, |&label| label + 1));
    }
    Ok((0..classes).map(|label| label.to_string()).collect())
}

fn read_split(
    split: Split,
    parts: &[Part<'_>],
    classes: usize,
    options: &ReadOptions<'_>,
) -> Result<ImageSet> {
    let mut counts = ImageSet::new(classes);
    let mut files = Vec::new();
    for part in parts.iter().filter(|part| part.split == split) {
        let wanted: Vec<Option<u32>> = part
            .rows
            .labels
            .iter()
            .enumerate()
            .map(|(row, &label)| {
                let counted = counts.count(label);
                let given = part.rows.ranks.as_ref().and_then(|ranks| ranks.get(row));
                let rank = given.copied().unwrap_or(counted);
                (options.keep)(split, label, rank).then_some(rank)
            })
            .collect();
        files.push((part, wanted));
    }
    let expected = files.iter().flat_map(|(_, wanted)| wanted).flatten().count();
    let mut intake = Intake::new(counts, expected, options.prepare);
    for (part, wanted) in &files {
        guarded(part.path, || read_images(part, wanted, &mut intake))?;
    }
    Ok(intake.finish())
}

/// Reads the images of the rows that have a rank in `wanted`.
fn read_images(part: &Part<'_>, wanted: &[Option<u32>], intake: &mut Intake) -> Result<()> {
    if wanted.iter().all(Option::is_none) {
        return Ok(());
    }
    let path = part.path;
    let reader = open(path)?;
    let column = Columns::find(path, reader.metadata())?.image;
    let mut first = 0;
    for (group, metadata) in reader.metadata().row_groups().iter().enumerate() {
        let end = first + usize::try_from(metadata.num_rows()).unwrap_or_default();
        let mut images =
            parquet_pages::column::<ByteArrayType>(&reader, group, column.index).map_err(damaged(path))?;
        let most = rows_at_once(metadata.column(column.index).uncompressed_size(), end - first);
        while first < end {
            let next = end.min(first + intake.appetite().min(most));
            let (Some(labels), Some(ranks)) = (part.rows.labels.get(first..next), wanted.get(first..next))
            else {
                return Err(Error::bad(path, "it changed while being read", "read it again"));
            };
            if ranks.iter().all(Option::is_none) {
                let skipped = images.skip_records(next - first).map_err(damaged(path))?;
                if skipped != next - first {
                    return Err(Error::bad(path, "not an intact parquet file (rows are missing)", RE_EXPORT));
                }
            } else {
                let chunk = read_chunk(path, &mut images, next - first)?;
                let rows = chunk.into_iter().zip(labels).zip(ranks).enumerate();
                let chunk: Vec<_> = rows
                    .filter_map(|(row, ((bytes, &label), &rank))| {
                        Some(Wanted { source: (bytes, first + row), label, rank: rank? })
                    })
                    .collect();
                intake.take(
                    &chunk,
                    |source| decode_row(path, source),
                    |(_, row)| (path.to_owned(), format!("row {row}")),
                )?;
            }
            first = next;
        }
    }
    Ok(())
}

/// Large pictures are read a few at a time, so that their encoded bytes do not pile up.
fn rows_at_once(bytes: i64, rows: usize) -> usize {
    const BYTES: usize = 16 << 20;
    let each = usize::try_from(bytes).unwrap_or_default() / rows.max(1);
    (BYTES / each.max(1)).clamp(8, 512)
}

fn decode_row(path: &Path, (bytes, row): &(Option<ByteArray>, usize)) -> Result<Picture> {
    let Some(bytes) = bytes else {
        let cure = "export the data set with the images embedded in the file";
        return Err(Error::bad_at(path, format!("row {row}"), "no image: its bytes are null", cure));
    };
    decode(bytes.data()).map_err(|problem| problem.at_row(path, format!("row {row}")))
}

fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io("read", dir))? {
        let path = entry.map_err(Error::io("read", dir))?.path();
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")) {
            files.push(path);
        }
    }
    Ok(files)
}

fn split_of(path: &Path) -> Split {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    match name.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default() {
        "test" | "testing" => Split::Test,
        "val" | "valid" | "validation" | "dev" => Split::Val,
        _ => Split::Train,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_by_the_first_word() {
        let split = |name: &str| split_of(Path::new(name));
        assert_eq!(split("data/train-00000-of-00002.parquet"), Split::Train);
        assert_eq!(split("test.parquet"), Split::Test);
        assert_eq!(split("Validation_0.parquet"), Split::Val);
        assert_eq!(split("dev-1.parquet"), Split::Val);
        assert_eq!(split("device.parquet"), Split::Train);
        assert_eq!(split("all-00000-of-00001.parquet"), Split::Train);
    }

    #[test]
    fn large_rows_are_read_a_few_at_a_time() {
        assert_eq!(rows_at_once(2_000 * 1000, 1000), 512);
        assert_eq!(rows_at_once((1 << 20) * 1000, 1000), 16);
        assert_eq!(rows_at_once(i64::MAX, 1), 8);
        assert_eq!(rows_at_once(-1, 0), 512);
    }
}
