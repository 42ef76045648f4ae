//! The columns of a parquet file in the Hugging Face layout: which they are, and their values.

use std::path::Path;

use parquet::basic::Type;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::FileReader;
use serde_json::Value;

use super::decode::catch_panic;
use super::parquet_pages::{self, ParquetReader};
use crate::error::{Error, Result};
use crate::regular_file::open_file;

pub(super) const RE_EXPORT: &str = "get the file again, or export it again";

pub(super) fn damaged(path: &Path) -> impl Fn(ParquetError) -> Error {
    move |error| {
        let text = error.to_string();
        let text = text.lines().next().unwrap_or_default().trim_start_matches("Parquet error: ");
        Error::bad(path, format!("not an intact parquet file ({text})"), RE_EXPORT)
    }
}

pub(super) fn guarded<T>(path: &Path, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let gave_up = || Error::bad(path, "not an intact parquet file (the reader gave up)", RE_EXPORT);
    catch_panic(run).unwrap_or_else(|| Err(gave_up()))
}

pub(super) fn open(path: &Path) -> Result<ParquetReader> {
    parquet_pages::open(open_file(path)?).map_err(damaged(path))
}

/// The number of rows, if it is one that a file of this size can have.
pub(super) fn count_rows(path: &Path, reader: &ParquetReader) -> Result<usize> {
    let mut rows = 0_u64;
    for group in reader.metadata().row_groups() {
        rows = rows.saturating_add(u64::try_from(group.num_rows()).unwrap_or(u64::MAX));
    }
    // A row of pictures takes at least dozens of bytes. Equal rows may share them, hence the generous bound;
    // without one, a header of a few bytes could make us reserve room for 2^63 labels.
    let length = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
    if rows > length.saturating_mul(8) {
        return Err(Error::bad(path, format!("{rows} rows in a file of {length} bytes"), RE_EXPORT));
    }
    usize::try_from(rows).map_err(|_| Error::bad(path, "too many rows", "split the file"))
}

/// The numbers of every row of a file.
pub(super) struct RowNumbers {
    pub(super) labels: Vec<u32>,
    pub(super) ranks: Option<Vec<u32>>,
}

/// A column of the file: where it is, and the type of its values.
pub(super) struct Column {
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) kind: Type,
}

/// The columns of a file that are read: pictures, labels and perhaps ranks.
pub(super) struct Columns {
    pub(super) image: Column,
    pub(super) label: Column,
    pub(super) rank: Option<Column>,
}

impl Columns {
    pub(super) fn find(path: &Path, metadata: &ParquetMetaData) -> Result<Self> {
        let schema = metadata.file_metadata().schema_descr();
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        let column = |wanted: &str, kinds: &[Type]| {
            let fits = |(index, name): (usize, &String)| {
                let column = schema.column(index);
                (name.eq_ignore_ascii_case(wanted)
                    && kinds.contains(&column.physical_type())
                    && column.max_rep_level() == 0)
                    .then(|| Column { index, name: name.clone(), kind: column.physical_type() })
            };
            names.iter().enumerate().find_map(fits)
        };
        let bytes = |wanted| column(wanted, &[Type::BYTE_ARRAY]);
        let integers = |wanted| column(wanted, &[Type::INT64, Type::INT32]);
        let missing = |what: &str, cure: &str| {
            Error::bad(path, format!("no {what} column among: {}", names.join(", ")), cure)
        };
        let image = ["image.bytes", "img.bytes", "image", "img"].into_iter().find_map(bytes);
        let label = ["fine_label", "label"].into_iter().find_map(integers);
        Ok(Self {
            image: image.ok_or_else(|| {
                missing(
                    "image",
                    "call it 'image' or 'img' and fill it with the bytes of pictures (PNG, JPEG, ...)",
                )
            })?,
            label: label.ok_or_else(|| {
                let is_label =
                    |name: &String| ["fine_label", "label"].iter().any(|l| name.eq_ignore_ascii_case(l));
                if names.iter().any(is_label) {
                    let cure = "number the classes from 0, or use a folder or a .csv list, which take words";
                    return Error::bad(path, "its label column holds no integers", cure);
                }
                missing("label", "call it 'label' or 'fine_label' and fill it with integers")
            })?,
            rank: integers("rank"),
        })
    }
}

/// Labels, ranks and class names of a file.
pub(super) fn read_rows(path: &Path) -> Result<(RowNumbers, Option<Vec<String>>)> {
    let reader = open(path)?;
    let columns = Columns::find(path, reader.metadata())?;
    let labels = read_integers(path, &reader, &columns.label)?;
    let ranks = columns.rank.map(|column| read_integers(path, &reader, &column)).transpose()?;
    Ok((RowNumbers { labels, ranks }, class_names(reader.metadata(), &columns.label.name)))
}

fn read_integers(path: &Path, reader: &ParquetReader, column: &Column) -> Result<Vec<u32>> {
    match column.kind {
        Type::INT32 => read_column::<Int32Type>(path, reader, column, i64::from),
        _ => read_column::<Int64Type>(path, reader, column, |value| value),
    }
}

fn read_column<T: DataType>(
    path: &Path,
    reader: &ParquetReader,
    column: &Column,
    widen: impl Fn(T::T) -> i64,
) -> Result<Vec<u32>> {
    let mut all = Vec::with_capacity(count_rows(path, reader)?);
    for (group, metadata) in reader.metadata().row_groups().iter().enumerate() {
        let mut values = parquet_pages::column::<T>(reader, group, column.index).map_err(damaged(path))?;
        let mut left = usize::try_from(metadata.num_rows()).unwrap_or_default();
        while left > 0 {
            let chunk = read_chunk(path, &mut values, left.min(8192))?;
            left -= chunk.len();
            for value in chunk {
                let bad = |problem: String| {
                    let cure = "number from 0 up, or remove the row (unlabelled images often have -1)";
                    Error::bad_at(path, format!("row {}", all.len()), problem, cure)
                };
                let value = widen(value.ok_or_else(|| bad(format!("no {}", column.name)))?);
                let number = u32::try_from(value);
                all.push(number.map_err(|_| bad(format!("{} {value} is not possible", column.name)))?);
            }
        }
    }
    Ok(all)
}

/// Exactly `count` values; `None` where there is none.
pub(super) fn read_chunk<T: DataType>(
    path: &Path,
    column: &mut ColumnReaderImpl<T>,
    count: usize,
) -> Result<Vec<Option<T::T>>> {
    let mut values = Vec::with_capacity(count);
    let mut levels: Vec<i16> = Vec::new();
    let (records, present, _) =
        column.read_records(count, Some(&mut levels), None, &mut values).map_err(damaged(path))?;
    if records != count {
        return Err(Error::bad(path, "not an intact parquet file (rows are missing)", RE_EXPORT));
    }
    let mut values = values.into_iter();
    if present == count {
        return Ok(values.map(Some).collect());
    }
    if levels.len() != count {
        return Err(Error::bad(path, "not an intact parquet file (levels are missing)", RE_EXPORT));
    }
    // A value is there where the definition level is the deepest; which that is follows from the counts.
    let deepest = levels.iter().copied().max().unwrap_or_default();
    let none = present == 0;
    Ok(levels.iter().map(|&level| if none || level < deepest { None } else { values.next() }).collect())
}

/// `info.features.<label>.names` of the footer's `huggingface` key: a list, or a map from number to name.
pub(super) fn class_names(metadata: &ParquetMetaData, label: &str) -> Option<Vec<String>> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    let text = pairs.iter().find(|pair| pair.key == "huggingface")?.value.as_ref()?;
    let json: Value = serde_json::from_str(text).ok()?;
    let feature = json.get("info")?.get("features")?.get(label)?;
    let name = |value: &Value| value.as_str().map(str::to_owned);
    match feature.get("names").or_else(|| feature.get("class_label")?.get("names"))? {
        Value::Array(names) => names.iter().map(name).collect(),
        Value::Object(names) => (0..names.len()).map(|at| name(names.get(&at.to_string())?)).collect(),
        _ => None,
    }
}
