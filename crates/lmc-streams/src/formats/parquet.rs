//! Parquet in the Hugging Face layout (the form of most sets of specification §3.1 here): a column `image`
//! or `img` with encoded pictures, a column `label` or `fine_label`, and perhaps `rank`; class names in the
//! key `huggingface` of the footer. Rows are counted from 0.
//!
//! Labels are read before images: they are a few bytes a row, and say how many images will be kept, so that
//! memory is reserved once and images that nobody wants are skipped, page by page where possible.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::reader::FileReader;

use super::decode::{Decoded, decode};
use super::intake::{Intake, WantedPicture, report_damaged};
use super::parquet_columns::{
    Columns, RE_EXPORT, RowNumbers, class_names, count_rows, damaged, guarded, open, read_chunk, read_rows,
};
use super::parquet_pages;
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::read_report::LeftOut;

/// What the footer of a parquet file says about its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Number of rows, one for each image.
    pub rows: u64,
    /// Class names in label order, if the file names them.
    pub classes: Option<Vec<String>>,
    /// Whether the images carry their ranks.
    pub has_ranks: bool,
}

/// Reads a data set from parquet files, in the order given. `classes` are the class names to use when the
/// files name none; without either, classes are called by their numbers.
pub fn read(
    name: &str,
    files: &[(Split, PathBuf)],
    classes: Option<&[String]>,
    options: &ReadOptions<'_>,
) -> Result<Dataset> {
    let mut parts = Vec::new();
    for (split, path) in files {
        let (rows, named) = guarded(path, || read_rows(path))?;
        parts.push(ParquetPart { split: *split, path, rows, named });
    }
    let classes = agree_on_classes(&parts, classes)?;
    let mut damaged = Vec::new();
    let mut read = |split| read_split(split, &parts, classes.len(), options, &mut damaged);
    let train = Arc::new(read(Split::Train)?);
    let val = match parts.iter().any(|part| part.split == Split::Val) {
        true => Some(Arc::new(read(Split::Val)?)),
        false => None,
    };
    let test = Arc::new(read(Split::Test)?);
    let source = files.first().map_or(Path::new(name), |(_, path)| path.as_path());
    let damaged = report_damaged(source, damaged, options)?;
    let left_out = LeftOut { damaged, ..LeftOut::default() };
    Ok(Dataset { name: name.to_owned(), classes, train, val, test, left_out })
}

/// Describes a file by its footer; no image is touched.
pub fn describe(path: &Path) -> Result<Description> {
    guarded(path, || {
        let reader = open(path)?;
        let columns = Columns::find(path, reader.metadata())?;
        let rows = count_rows(path, &reader)? as u64;
        let classes = class_names(reader.metadata(), &columns.label.name);
        Ok(Description { rows, classes, has_ranks: columns.rank.is_some() })
    })
}

/// What is known about one file before its images are read.
struct ParquetPart<'a> {
    split: Split,
    path: &'a Path,
    rows: RowNumbers,
    named: Option<Vec<String>>,
}

fn agree_on_classes(parts: &[ParquetPart<'_>], given: Option<&[String]>) -> Result<Vec<String>> {
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

fn numbered(parts: &[ParquetPart<'_>]) -> Result<Vec<String>> {
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
    parts: &[ParquetPart<'_>],
    classes: usize,
    options: &ReadOptions<'_>,
    damaged: &mut Vec<Error>,
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
        guarded(part.path, || read_images(part, wanted, options.upright, &mut intake))?;
    }
    Ok(intake.finish(damaged))
}

/// Reads the images of the rows that have a rank in `wanted`.
fn read_images(
    part: &ParquetPart<'_>,
    wanted: &[Option<u32>],
    upright: bool,
    intake: &mut Intake,
) -> Result<()> {
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
                        Some(WantedPicture { source: (bytes, first + row), label, rank: rank? })
                    })
                    .collect();
                intake.take(
                    &chunk,
                    |source| decode_row(path, source, upright),
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

fn decode_row(path: &Path, (bytes, row): &(Option<ByteArray>, usize), upright: bool) -> Result<Decoded> {
    let Some(bytes) = bytes else {
        let cure = "export the data set with the images embedded in the file";
        return Err(Error::bad_at(path, format!("row {row}"), "no image: its bytes are null", cure));
    };
    decode(bytes.data(), upright).map_err(|problem| problem.at_row(path, format!("row {row}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_rows_are_read_a_few_at_a_time() {
        assert_eq!(rows_at_once(2_000 * 1000, 1000), 512);
        assert_eq!(rows_at_once((1 << 20) * 1000, 1000), 16);
        assert_eq!(rows_at_once(i64::MAX, 1), 8);
        assert_eq!(rows_at_once(-1, 0), 512);
    }
}
