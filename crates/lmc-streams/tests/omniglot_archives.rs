//! Omniglot as it is published, in zip files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use image::ImageFormat;
use lmc_streams::formats::omniglot::{self, OmniglotPart};
use lmc_streams::{Prepare, ReadOptions};
use tempfile::TempDir;

fn png(grey: u8) -> Vec<u8> {
    let image = image::RgbImage::from_pixel(2, 2, image::Rgb([grey; 3]));
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn write(root: &Path, name: &str, content: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Writes files below a new folder.
fn tree(files: &[(&str, &[u8])]) -> TempDir {
    let dir = TempDir::new().unwrap();
    files.iter().for_each(|(name, content)| write(dir.path(), name, content));
    dir
}

fn all() -> ReadOptions<'static> {
    ReadOptions::all(Prepare::AS_IS)
}

const DRAWINGS: [(&str, u8); 4] = [
    ("images_background/Greek/character02/0394_01.png", 3),
    ("images_background/Greek/character01/0393_02.png", 2),
    ("images_background/Greek/character01/0393_01.png", 1),
    ("images_background/__MACOSX_is_no_alphabet.txt", 0),
];

fn zip_of(files: &[(&str, u8)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, grey) in files {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(&png(*grey)).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn omniglot_as_folders_and_as_zips() {
    let evaluation = zip_of(&[("images_evaluation/Angelic/character01/0965_01.png", 4)]);
    let zipped =
        tree(&[("images_background.zip", &zip_of(&DRAWINGS)), ("images_evaluation.zip", &evaluation)]);
    let mixed = tree(&[("images_evaluation.zip", &evaluation)]);
    for (name, grey) in &DRAWINGS[..3] {
        write(mixed.path(), name, &png(*grey));
    }
    for dir in [zipped, mixed] {
        let data = omniglot::read(dir.path(), &all()).unwrap();
        // The background part first, although Angelic comes before Greek.
        assert_eq!(data.classes, ["Greek/character01", "Greek/character02", "Angelic/character01"]);
        assert_eq!([0, 1, 2, 3].map(|at| data.train.image(at)[0]), [1, 2, 3, 4]);
        assert_eq!([0, 1, 2, 3].map(|at| data.train.rank(at)), [0, 1, 0, 0]);
        let alphabets = omniglot::alphabets(dir.path()).unwrap();
        let parts = [("Greek", OmniglotPart::Background), ("Angelic", OmniglotPart::Evaluation)];
        assert_eq!(alphabets, parts.map(|(name, part)| (name.to_owned(), part)));
    }
}

#[test]
fn damaged_zip_files() {
    let whole = zip_of(&DRAWINGS);
    let cut = tree(&[("images_background.zip", &whole[..whole.len() / 2])]);
    let text = omniglot::read(cut.path(), &all()).unwrap_err().to_string();
    assert!(text.contains("images_background.zip: not an intact zip") && text.contains("again"), "{text}");
}
