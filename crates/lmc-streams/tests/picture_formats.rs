//! Pictures of every format that we read: upright by their EXIF orientation, and within limits.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod picture_tree;

use std::fs;
use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::webp::WebPEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageFormat};
use lmc_streams::formats::{folder, manifest};
use lmc_streams::{Picture, ReadOptions, pictures_below};
use picture_tree::{all, encode, tree};
use tempfile::TempDir;

/// A TIFF structure with the orientation as its only entry: what EXIF is.
fn exif(orientation: u8) -> Vec<u8> {
    let mut bytes = b"II*\0\x08\0\0\0\x01\0".to_vec();
    bytes.extend([0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0]);
    bytes.extend([0; 4]);
    bytes
}

/// Six grey squares of 8 x 8 pixels, three beside each other in two rows, as the values of their pixels.
const SQUARES: [u8; 6] = [20, 60, 100, 140, 180, 220];

fn squares() -> Vec<u8> {
    (0..16).flat_map(|y| (0..24).map(move |x| SQUARES[y / 8 * 3 + x / 8])).collect()
}

/// Which of the six squares lie where, and how many beside each other.
fn arrangement(picture: &Picture) -> (usize, Vec<usize>) {
    let across = picture.width / 8;
    let value = |at: usize| {
        let (x, y) = (at % across * 8 + 4, at / across * 8 + 4);
        picture.pixels[(y * picture.width + x) * picture.channels]
    };
    let nearest = |value: u8| SQUARES.iter().position(|&square| square.abs_diff(value) < 10).unwrap() + 1;
    (across, (0..6).map(|at| nearest(value(at))).collect())
}

/// The squares 1 2 3 / 4 5 6 after each of the eight orientations.
const TURNED: [(usize, [usize; 6]); 8] = [
    (3, [1, 2, 3, 4, 5, 6]),
    (3, [3, 2, 1, 6, 5, 4]),
    (3, [6, 5, 4, 3, 2, 1]),
    (3, [4, 5, 6, 1, 2, 3]),
    (2, [1, 4, 2, 5, 3, 6]),
    (2, [4, 1, 5, 2, 6, 3]),
    (2, [6, 3, 5, 2, 4, 1]),
    (2, [3, 6, 2, 5, 1, 4]),
];

fn jpeg(orientation: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 95)
        .write_image(&squares(), 24, 16, ExtendedColorType::L8)
        .unwrap();
    let mut note = b"Exif\0\0".to_vec();
    note.extend(exif(orientation));
    let length = (note.len() as u16 + 2).to_be_bytes();
    let marker = [&[0xff, 0xe1], &length[..], &note].concat();
    bytes.splice(2..2, marker);
    bytes
}

/// A PNG with an `eXIf` chunk right behind its header.
fn png_with_exif(orientation: u8) -> Vec<u8> {
    let image = image::GrayImage::from_raw(24, 16, squares()).unwrap();
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png).unwrap();
    let mut bytes = bytes.into_inner();
    let content = [b"eXIf", &exif(orientation)[..]].concat();
    let mut crc = flate2::Crc::new();
    crc.update(&content);
    let length = (content.len() as u32 - 4).to_be_bytes();
    bytes.splice(33..33, [&length[..], &content, &crc.sum().to_be_bytes()].concat());
    bytes
}

fn webp_with_exif(orientation: u8) -> Vec<u8> {
    let rgb: Vec<u8> = squares().into_iter().flat_map(|grey| [grey; 3]).collect();
    let mut bytes = Vec::new();
    let mut encoder = WebPEncoder::new_lossless(&mut bytes);
    encoder.set_exif_metadata(exif(orientation)).unwrap();
    encoder.write_image(&rgb, 24, 16, ExtendedColorType::Rgb8).unwrap();
    bytes
}

/// An uncompressed grey TIFF, written by hand because the encoder notes no orientation.
fn tiff_with_orientation(orientation: u8) -> Vec<u8> {
    const DATA: u16 = 8 + 2 + 10 * 12 + 4;
    let mut bytes = b"II*\0\x08\0\0\0\x0a\0".to_vec();
    let entries: [(u16, u16); 10] = [
        (256, 24),   // width
        (257, 16),   // height
        (258, 8),    // bits a sample
        (259, 1),    // not compressed
        (262, 1),    // black is zero
        (273, DATA), // where the pixels begin
        (274, u16::from(orientation)),
        (277, 1),   // samples a pixel
        (278, 16),  // rows a strip
        (279, 384), // bytes of the strip
    ];
    for (tag, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend([3, 0, 1, 0, 0, 0]);
        bytes.extend(value.to_le_bytes());
        bytes.extend([0, 0]);
    }
    bytes.extend([0; 4]);
    bytes.extend(squares());
    bytes
}

#[test]
fn every_orientation_of_every_format_that_notes_one_is_turned_upright() {
    let writers: [fn(u8) -> Vec<u8>; 4] = [jpeg, png_with_exif, webp_with_exif, tiff_with_orientation];
    for (format, write) in writers.into_iter().enumerate() {
        for (orientation, expected) in (1..).zip(TURNED) {
            let picture = Picture::decode(&write(orientation)).unwrap();
            let (across, order) = arrangement(&picture);
            assert_eq!((across, &order[..]), (expected.0, &expected.1[..]), "format {format}: {orientation}");
        }
        // Numbers that mean nothing, and none at all.
        for orientation in [0, 9] {
            assert_eq!(arrangement(&Picture::decode(&write(orientation)).unwrap()).1, [1, 2, 3, 4, 5, 6]);
        }
    }
}

#[test]
fn folders_and_lists_are_turned_upright_unless_the_options_say_no() {
    let dir = tree(&[("a/1.jpg", &jpeg(6)), ("list.csv", b"path,label\na/1.jpg,x\n")]);
    let list = dir.path().join("list.csv");
    let stored = ReadOptions { upright: false, ..all() };
    for data in [folder::read(dir.path(), &all()).unwrap(), manifest::read(&list, &all()).unwrap()] {
        assert_eq!(arrangement(&data.train.picture(0)), (2, TURNED[5].1.to_vec()));
    }
    for data in [folder::read(dir.path(), &stored).unwrap(), manifest::read(&list, &stored).unwrap()] {
        assert_eq!(arrangement(&data.train.picture(0)), (3, TURNED[0].1.to_vec()));
    }
}

#[test]
fn six_formats_are_read_and_a_file_is_opened() {
    let formats = [
        ("a.png", ImageFormat::Png),
        ("b.jpg", ImageFormat::Jpeg),
        ("c.webp", ImageFormat::WebP),
        ("d.gif", ImageFormat::Gif),
        ("e.bmp", ImageFormat::Bmp),
        ("f.tif", ImageFormat::Tiff),
        ("g.TIFF", ImageFormat::Tiff),
    ];
    let dir = TempDir::new().unwrap();
    for (name, format) in formats {
        fs::write(dir.path().join(name), encode(77, 5, 3, format)).unwrap();
    }
    let listing = pictures_below(dir.path()).unwrap();
    assert_eq!(listing.pictures.len(), 7);
    assert!(listing.skipped.is_empty());
    for path in listing.pictures {
        let picture = Picture::open(&path).unwrap();
        assert_eq!((picture.width, picture.height), (5, 3), "{}", path.display());
        assert!(picture.pixels.iter().all(|&value| value.abs_diff(77) <= 1), "{}", path.display());
    }
    let error = Picture::open(dir.path().join("no.png")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read") && error.contains("no.png"), "{error}");
    let error = Picture::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("this is a folder, not a regular file"), "{error}");
}

#[test]
fn of_an_animation_the_first_frame_is_read() {
    let mut bytes = Vec::new();
    let mut encoder = image::codecs::gif::GifEncoder::new(&mut bytes);
    for grey in [10, 200] {
        let frame = image::RgbaImage::from_pixel(3, 3, image::Rgba([grey, grey, grey, 255]));
        encoder.encode_frame(image::Frame::new(frame)).unwrap();
    }
    drop(encoder);
    let picture = Picture::decode(&bytes).unwrap();
    assert!(picture.pixels.iter().all(|&value| value.abs_diff(10) <= 1), "{:?}", picture.pixels);
}

#[test]
fn giants_are_refused_in_every_format() {
    // Headers that claim 60,000 x 60,000 pixels, with next to nothing behind them.
    let side = 60_000_u32;
    let mut gif = encode(0, 1, 1, ImageFormat::Gif);
    gif[6..10].copy_from_slice(&[0x60, 0xea, 0x60, 0xea]);
    let mut bmp = encode(0, 1, 1, ImageFormat::Bmp);
    bmp[18..22].copy_from_slice(&side.to_le_bytes());
    bmp[22..26].copy_from_slice(&side.to_le_bytes());
    let mut tiff = tiff_with_orientation(1);
    // Width, height and rows a strip: the first, second and ninth entry of 12 bytes.
    for entry in [0, 1, 8] {
        tiff[10 + 12 * entry + 8..][..2].copy_from_slice(&(side as u16).to_le_bytes());
    }
    for (name, bytes) in [("gif", gif), ("bmp", bmp), ("tiff", tiff)] {
        let error = Picture::decode(&bytes).unwrap_err();
        assert!(error.problem.contains("larger than 16384 pixels"), "{name}: {error}");
    }
    // A small GIF whose only frame is a giant.
    let mut frame = b"GIF89a\x02\0\x02\0\0\0\0,\0\0\0\0".to_vec();
    frame.extend([0xff, 0xff, 0xff, 0xff, 0, 2, 1, 0, 0, 0x3b]);
    assert!(Picture::decode(&frame).is_err());
}
