//! A CSV file that lists pictures: `path,label[,split]`, with a header; other columns are ignored.
//!
//! Paths are relative to the CSV's folder. Labels are any text; classes are sorted, as numbers if all of
//! them are. An empty split means train; the usual spellings of splits are understood ([`Split::from_name`]).

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use csv::{ErrorKind, ReaderBuilder, StringRecord, Trim};

use super::folder::name_of;
use super::intake::read_files;
use super::picture_file::PictureFile;
use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::read_report::SkippedFiles;
use crate::regular_file::read_file;

/// Most bytes of a list: room for millions of pictures.
const LARGEST_LIST: u64 = 512 << 20;

/// Reads the pictures that a CSV file lists. Its name becomes the name of the data set.
pub fn read(path: &Path, options: &ReadOptions<'_>) -> Result<Dataset> {
    let rows = read_rows(path)?;
    let mut classes: Vec<&String> = rows.iter().map(|row| &row.label).collect();
    classes.sort();
    classes.dedup();
    if let Ok(numbers) =
        classes.iter().map(|class| class.parse()).collect::<std::result::Result<Vec<i64>, _>>()
    {
        let mut numbered: Vec<_> = numbers.into_iter().zip(classes).collect();
        numbered.sort();
        classes = numbered.into_iter().map(|(_, class)| class).collect();
    }
    let labels: HashMap<&String, u32> = classes.iter().copied().zip(0..).collect();
    let list: Arc<Path> = Arc::from(path);
    let folder = path.parent().unwrap_or(Path::new(""));
    let files: Vec<PictureFile> = rows
        .iter()
        .filter_map(|row| {
            let label = *labels.get(&row.label)?;
            let listed = Some((Arc::clone(&list), row.line));
            Some(PictureFile { split: row.split, label, path: folder.join(&row.path), listed })
        })
        .collect();
    let classes = classes.into_iter().cloned().collect();
    read_files(name_of(path), path, classes, &files, SkippedFiles::default(), options)
}

/// A line of the list: one picture.
struct ManifestRow {
    line: u64,
    path: String,
    label: String,
    split: Split,
}

fn read_rows(path: &Path) -> Result<Vec<ManifestRow>> {
    let text = read_file(path, LARGEST_LIST)?;
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(text.as_slice());
    let header = reader.headers().map_err(|error| explain(path, &error))?.clone();
    let find = |wanted: &str| {
        header.iter().position(|name| name.trim_start_matches('\u{feff}').eq_ignore_ascii_case(wanted))
    };
    let (Some(path_column), Some(label_column)) = (find("path"), find("label")) else {
        let missing: Vec<&str> = ["path", "label"].into_iter().filter(|name| find(name).is_none()).collect();
        let problem = format!("the first line has no column {}", missing.join(" and no column "));
        return Err(Error::bad(path, problem, "begin the file with the line path,label or path,label,split"));
    };
    let split_column = find("split");
    let mut rows = Vec::new();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| explain(path, &error))? {
        let line = record.position().map_or(0, |position| first_line(&text, position));
        let bad = |problem: String, cure: &str| Error::bad_at(path, format!("line {line}"), problem, cure);
        let field = |column: usize| record.get(column).unwrap_or_default();
        for (name, column) in [("path", path_column), ("label", label_column)] {
            if field(column).is_empty() {
                return Err(bad(format!("the {name} is empty"), "fill it in or remove the line"));
            }
        }
        let split = match split_column.map(field).unwrap_or_default() {
            "" => Split::Train,
            name => Split::from_name(name)
                .ok_or_else(|| bad(format!("unknown split '{name}'"), "write train, val or test"))?,
        };
        let (path, label) = (field(path_column).to_owned(), field(label_column).to_owned());
        rows.push(ManifestRow { line, path, label, split });
    }
    if rows.is_empty() {
        return Err(Error::bad(path, "it lists no pictures", "add a line for each picture"));
    }
    Ok(rows)
}

/// The line on which a record begins; its position may lie before the blank lines in front of it.
fn first_line(text: &[u8], position: &csv::Position) -> u64 {
    let from = text.get(usize::try_from(position.byte()).unwrap_or(usize::MAX)..).unwrap_or_default();
    let blank =
        from.iter().take_while(|byte| byte.is_ascii_whitespace()).filter(|&&byte| byte == b'\n').count();
    position.line() + blank as u64
}

fn explain(path: &Path, error: &csv::Error) -> Error {
    let line = error.position().map_or_else(|| "some line".to_owned(), |at| format!("line {}", at.line()));
    match error.kind() {
        ErrorKind::Utf8 { .. } => Error::bad_at(path, line, "not valid UTF-8", "save the file as UTF-8"),
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            let problem = format!("{len} fields where the first line has {expected_len}");
            Error::bad_at(path, line, problem, "make it as many; put text with commas in \"quotes\"")
        }
        _ => Error::bad_at(path, line, error.to_string(), "check the file"),
    }
}
