//! Folders of small pictures, written for a test.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::fs;
use std::io::Cursor;

use image::ImageFormat;
use lmc_streams::{Prepare, ReadOptions};
use tempfile::TempDir;

/// A picture of one grey value, encoded.
pub fn encode(grey: u8, width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let image = image::RgbImage::from_pixel(width, height, image::Rgb([grey; 3]));
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// A PNG of 2 x 2 pixels.
pub fn png(grey: u8) -> Vec<u8> {
    encode(grey, 2, 2, ImageFormat::Png)
}

/// Writes files below a new folder.
pub fn tree(files: &[(&str, &[u8])]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

/// Reads all pictures as they are.
pub fn all() -> ReadOptions<'static> {
    ReadOptions::all(Prepare::AS_IS)
}
