//! Parquet files in the Hugging Face layout come back as written, and bad ones are explained.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use lmc_streams::formats::{parquet, parquet_files, read_any};
use lmc_streams::{Prepare, ReadOptions, Split};
use proptest::prelude::*;
use tempfile::TempDir;

/// What a test writes; the default is what most files look like.
#[derive(Clone)]
struct Sheet {
    images: Vec<Option<Vec<u8>>>,
    labels: Vec<Option<i64>>,
    ranks: Option<Vec<i32>>,
    image_name: &'static str,
    label_name: &'static str,
    plain_image: bool,
    metadata: Option<String>,
    compression: Compression,
    rows_per_group: usize,
}

impl Sheet {
    fn new(rows: &[([u8; 3], i64)]) -> Self {
        Self {
            images: rows.iter().map(|(colour, _)| Some(picture(*colour, 2, 2))).collect(),
            labels: rows.iter().map(|(_, label)| Some(*label)).collect(),
            ranks: None,
            image_name: "image",
            label_name: "label",
            plain_image: false,
            metadata: Some(names(r#"["cat", "dog"]"#)),
            compression: Compression::UNCOMPRESSED,
            rows_per_group: 1000,
        }
    }

    fn write(&self, path: &Path) {
        let image = match self.plain_image {
            true => format!("required binary {};", self.image_name),
            false => {
                format!(
                    "optional group {} {{ optional binary bytes; optional binary path (UTF8); }}",
                    self.image_name
                )
            }
        };
        let rank = if self.ranks.is_some() { "optional int32 rank;" } else { "" };
        let schema = format!("message schema {{ {image} optional int64 {}; {rank} }}", self.label_name);
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let pair = |text: &String| vec![KeyValue::new("huggingface".to_owned(), text.clone())];
        let properties = WriterProperties::builder()
            .set_compression(self.compression)
            .set_key_value_metadata(self.metadata.as_ref().map(pair))
            .build();
        let mut writer =
            SerializedFileWriter::new(File::create(path).unwrap(), schema, Arc::new(properties)).unwrap();
        for start in (0..self.images.len()).step_by(self.rows_per_group) {
            let rows = start..self.images.len().min(start + self.rows_per_group);
            let mut group = writer.next_row_group().unwrap();
            let images = &self.images[rows.clone()];
            let bytes: Vec<ByteArray> = images.iter().flatten().cloned().map(ByteArray::from).collect();
            let levels: Vec<i16> = images.iter().map(|image| if image.is_some() { 2 } else { 1 }).collect();
            let mut column = group.next_column().unwrap().unwrap();
            let levels = (!self.plain_image).then_some(&levels[..]);
            column.typed::<ByteArrayType>().write_batch(&bytes, levels, None).unwrap();
            column.close().unwrap();
            if !self.plain_image {
                let mut column = group.next_column().unwrap().unwrap();
                column.typed::<ByteArrayType>().write_batch(&[], Some(&vec![1; rows.len()]), None).unwrap();
                column.close().unwrap();
            }
            let labels = &self.labels[rows.clone()];
            let levels: Vec<i16> = labels.iter().map(|label| i16::from(label.is_some())).collect();
            let values: Vec<i64> = labels.iter().flatten().copied().collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&values, Some(&levels), None).unwrap();
            column.close().unwrap();
            if let Some(ranks) = &self.ranks {
                let mut column = group.next_column().unwrap().unwrap();
                let levels = vec![1; rows.len()];
                column.typed::<Int32Type>().write_batch(&ranks[rows], Some(&levels), None).unwrap();
                column.close().unwrap();
            }
            group.close().unwrap();
        }
        writer.close().unwrap();
    }
}

fn picture(colour: [u8; 3], width: u32, height: u32) -> Vec<u8> {
    let image = image::RgbImage::from_pixel(width, height, image::Rgb(colour));
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn names(list: &str) -> String {
    format!(r#"{{"info": {{"features": {{"label": {{"names": {list}, "_type": "ClassLabel"}}}}}}}}"#)
}

fn all() -> ReadOptions<'static> {
    ReadOptions::all(Prepare::AS_IS)
}

fn read_one(path: &Path, classes: Option<&[String]>) -> lmc_streams::Result<lmc_streams::Dataset> {
    parquet::read("set", &[(Split::Train, path.to_owned())], classes, &all())
}

/// Writes the sheet, reads it, and returns the message, which must name the file.
fn message(sheet: &Sheet) -> String {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("bad.parquet");
    sheet.write(&path);
    let text = read_one(&path, None).unwrap_err().to_string();
    assert!(text.contains("bad.parquet") && text.contains("; ") && !text.contains('\n'), "{text}");
    text
}

fn three() -> Sheet {
    Sheet::new(&[([1, 2, 3], 1), ([4, 5, 6], 0), ([7, 8, 9], 1)])
}

#[test]
fn the_usual_layout() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("train-00000-of-00001.parquet");
    three().write(&path);
    let data = read_any(dir.path(), &all()).unwrap();
    assert_eq!(data.classes, ["cat", "dog"]);
    assert_eq!((data.train.len(), data.test.len(), data.val.is_none()), (3, 0, true));
    assert_eq!(data.train.image(1), [4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6]);
    assert_eq!([0, 1, 2].map(|at| (data.train.label(at), data.train.rank(at))), [(1, 0), (0, 0), (1, 1)]);
    let description = parquet::describe(&path).unwrap();
    assert_eq!((description.rows, description.has_ranks), (3, false));
    assert_eq!(description.classes.unwrap(), ["cat", "dog"]);
}

#[test]
fn plain_images_other_names_and_a_map_of_classes() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.parquet");
    let mut sheet = three();
    (sheet.image_name, sheet.label_name, sheet.plain_image) = ("Img", "Fine_Label", true);
    sheet.metadata = Some(names(r#"{"1": "dog", "0": "cat"}"#).replace("label", "Fine_Label"));
    sheet.write(&path);
    let data = read_any(&path, &all()).unwrap();
    assert_eq!((data.name.as_str(), data.len()), ("a", 3));
    assert_eq!(data.classes, ["cat", "dog"]);
}

#[test]
fn class_names_given_or_numbered() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.parquet");
    let mut sheet = three();
    sheet.metadata = None;
    sheet.write(&path);
    assert_eq!(read_one(&path, None).unwrap().classes, ["0", "1"]);
    let given = ["x".to_owned(), "y".to_owned(), "z".to_owned()];
    assert_eq!(read_one(&path, Some(&given)).unwrap().classes, given);
    assert_eq!(parquet::describe(&path).unwrap().classes, None);
}

#[test]
fn ranks_continue_over_files_and_only_what_is_kept_is_decoded() {
    let dir = TempDir::new().unwrap();
    for (at, name) in
        ["train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"].iter().enumerate()
    {
        let mut sheet = three();
        if at == 1 {
            // Not a picture: it must not be looked at unless it is wanted.
            sheet.images[0] = Some(b"broken".to_vec());
        }
        sheet.write(&dir.path().join(name).with_extension("parquet"));
    }
    let files = parquet_files::find_files(dir.path()).unwrap();
    assert_eq!(
        files.iter().map(|(split, _)| *split).collect::<Vec<_>>(),
        [Split::Test, Split::Train, Split::Train]
    );
    let keep = |split, label, rank| split == Split::Train && (label, rank) != (1, 2);
    let data = parquet::read("set", &files, None, &ReadOptions::keeping(Prepare::AS_IS, &keep)).unwrap();
    let ranks: Vec<_> = (0..5).map(|at| (data.train.label(at), data.train.rank(at))).collect();
    assert_eq!(ranks, [(1, 0), (0, 0), (1, 1), (0, 1), (1, 3)]);
    assert_eq!(data.train.source_counts(), [2, 4]);
    assert_eq!((data.test.len(), data.test.source_counts()), (0, &[1, 2][..]));
    let error = parquet::read("set", &files, None, &all()).unwrap_err().to_string();
    assert!(error.contains("train-00001-of-00002.parquet, row 0: this is not a PNG"), "{error}");
}

#[test]
fn no_image_column() {
    let mut sheet = three();
    sheet.image_name = "photo";
    let text = message(&sheet);
    assert!(
        text.contains("no image column among: photo.bytes, photo.path, label; call it 'image'"),
        "{text}"
    );
}

#[test]
fn no_label_column() {
    let mut sheet = three();
    sheet.label_name = "class";
    let text = message(&sheet);
    assert!(text.contains("no label column") && text.contains("'fine_label'"), "{text}");
}

#[test]
fn a_label_outside_the_class_list() {
    let mut sheet = three();
    sheet.labels[2] = Some(2);
    let text = message(&sheet);
    assert!(text.contains("row 2: label 2 is outside the 2 classes; correct the label"), "{text}");
}

#[test]
fn a_negative_label_and_no_label() {
    let mut sheet = three();
    sheet.labels[1] = Some(-1);
    assert!(message(&sheet).contains("row 1: label -1 is not possible; number from 0"));
    sheet.labels[1] = None;
    assert!(message(&sheet).contains("row 1: no label; number from 0"));
}

#[test]
fn a_huge_label_without_names() {
    let mut sheet = three();
    (sheet.labels[0], sheet.metadata) = (Some(4_000_000_000), None);
    assert!(message(&sheet).contains("row 0: label 4000000000 without class names"));
}

#[test]
fn null_and_broken_images() {
    let mut sheet = three();
    sheet.images[1] = None;
    assert!(message(&sheet).contains("row 1: no image: its bytes are null; export"));
    sheet.images = vec![None; 3];
    let text = message(&sheet);
    assert!(
        text.contains("3 damaged pictures: ") && text.contains("row 0 (no image: its bytes are null)"),
        "{text}"
    );
    let whole = picture([1, 1, 1], 9, 9);
    sheet.images = vec![Some(whole.clone()), Some(whole.clone()), Some(whole[..40].to_vec())];
    assert!(message(&sheet).contains("row 2: the PNG picture is damaged"));
}

#[test]
fn images_of_two_sizes() {
    let mut sheet = three();
    sheet.images[2] = Some(picture([0; 3], 3, 2));
    let text = message(&sheet);
    assert!(text.contains("row 2: the image is 3 x 2") && text.contains("ask for a size"), "{text}");
}

#[test]
fn files_that_disagree_about_classes() {
    let dir = TempDir::new().unwrap();
    let (a, b) = (dir.path().join("train.parquet"), dir.path().join("test.parquet"));
    three().write(&a);
    let mut sheet = three();
    sheet.metadata = Some(names(r#"["dog", "cat"]"#));
    sheet.write(&b);
    let error = parquet::read("set", &[(Split::Train, a), (Split::Test, b)], None, &all()).unwrap_err();
    assert!(error.to_string().contains("test.parquet: its class names differ"), "{error}");
}

#[test]
fn not_parquet_at_all_and_missing() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.parquet");
    for content in [&b""[..], b"PAR1", b"hello, I am not parquet at all", b"PAR1\xff\xff\xff\x7fPAR1"] {
        fs::write(&path, content).unwrap();
        let error = read_one(&path, None).unwrap_err().to_string();
        assert!(
            error.contains("a.parquet: not an intact parquet file") && error.contains("again"),
            "{error}"
        );
    }
    let error = read_one(Path::new("none.parquet"), None).unwrap_err().to_string();
    assert!(error.contains("cannot read none.parquet"), "{error}");
    let error = parquet_files::find_files(&PathBuf::from("src")).unwrap_err().to_string();
    assert!(error.contains("no .parquet file"), "{error}");
}

/// Every way in which writers compress pages.
fn codecs() -> [Compression; 6] {
    [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4_RAW,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn what_is_written_comes_back(
        rows in prop::collection::vec((any::<[u8; 3]>(), 0..5_i64), 1..40),
        with_ranks in any::<bool>(),
        codec in 0..6_usize,
        rows_per_group in 1..20_usize,
    ) {
        let mut sheet = Sheet::new(&rows);
        sheet.metadata = None;
        sheet.rows_per_group = rows_per_group;
        sheet.compression = codecs()[codec];
        sheet.ranks = with_ranks.then(|| (0..rows.len() as i32).map(|row| 1000 - row * 3).collect());
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a.parquet");
        sheet.write(&path);
        let set = read_one(&path, None).unwrap().train;
        prop_assert_eq!(set.len(), rows.len());
        let mut counts = [0; 5];
        for (at, (colour, label)) in rows.iter().enumerate() {
            let planar: Vec<u8> = colour.iter().flat_map(|value| [*value; 4]).collect();
            prop_assert_eq!(set.image(at), &planar[..]);
            prop_assert_eq!(i64::from(set.label(at)), *label);
            let counted = counts[*label as usize];
            counts[*label as usize] += 1;
            prop_assert_eq!(set.rank(at), if with_ranks { 1000 - at as u32 * 3 } else { counted });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn mutated_files_never_panic(
        codec in 0..6_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        from_end in any::<bool>(),
    ) {
        let mut sheet = three();
        sheet.compression = codecs()[codec];
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a.parquet");
        sheet.write(&path);
        let mut bytes = fs::read(&path).unwrap();
        for (at, value) in changes {
            // Half of the cases change the footer, where most of the structure is.
            let size = bytes.len();
            let at = if from_end { size - 1 - at.index(size / 3) } else { at.index(size) };
            bytes[at] = value;
        }
        fs::write(&path, bytes).unwrap();
        let _ = read_one(&path, None);
        let _ = parquet::describe(&path);
    }
}
