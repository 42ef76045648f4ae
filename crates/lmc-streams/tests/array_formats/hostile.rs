//! Whatever the bytes, the readers answer: data or a message, never a panic.

use std::io::Cursor;
use std::path::Path;

use lmc_streams::formats::{cifar, idx, mat, npz};
use lmc_streams::{Prepare, ReadOptions, Split};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::write::{self, Images, MatStyle, gzip};

fn read_all(bytes: &[u8], format: usize) {
    let options = ReadOptions::all(Prepare::rgb_square(4));
    let path = Path::new("file");
    match format {
        0 => {
            let (images, labels) = bytes.split_at(bytes.len() / 2);
            let _ = idx::read_from((images, path), (labels, path), Split::Train, 10, &options);
            let _ = idx::read_from((bytes, path), (bytes, path), Split::Train, 10, &options);
        }
        1 => {
            for kind in [cifar::Kind::Ten, cifar::Kind::Hundred] {
                let _ = cifar::read_from(Cursor::new(bytes), path, kind, &options);
            }
        }
        2 => {
            let _ = mat::read_from(Cursor::new(bytes), path, Split::Test, &options);
        }
        _ => {
            let _ = npz::read_from(Cursor::new(bytes), path, &options);
        }
    }
}

/// One good file of each format, small; of IDX images and labels, split in the middle.
fn good(format: usize, packed: bool) -> Vec<u8> {
    let labels = vec![1, 0, 2, 1, 3, 9];
    let pixels = (0..6).map(|image| (0..12).map(|at| image * 12 + at).collect()).collect();
    let images = Images { channels: 3, height: 2, width: 2, labels, pixels };
    let pack = |bytes: Vec<u8>| if packed { gzip(&bytes) } else { bytes };
    match format {
        0 => {
            let grey = Images {
                channels: 1,
                pixels: images.pixels.iter().map(|pixels| pixels[..4].to_vec()).collect(),
                ..images
            };
            let (mut x, mut y) = (pack(write::idx_images(&grey)), pack(write::idx_labels(&grey)));
            // Both halves have one length, so the shorter one has bytes left over; that is a path too.
            let length = x.len().max(y.len());
            x.resize(length, 0);
            y.resize(length, 0);
            [x, y].concat()
        }
        1 => {
            let one =
                Images { channels: 3, height: 32, width: 32, labels: vec![42], pixels: vec![vec![1; 3072]] };
            let records = write::cifar_records(&one, Some(1));
            let files = vec![
                ("train.bin".to_owned(), records.clone()),
                ("test.bin".to_owned(), records),
                ("fine_label_names.txt".to_owned(), write::cifar_names(100)),
            ];
            pack(write::tar("c", &files))
        }
        2 => write::mat(&images, MatStyle { packed, label_type: 9, big_endian: packed, labels_first: false }),
        _ => {
            let data: Vec<u8> = images.pixels.concat();
            let x = write::npy("|u1", packed, &[6, 3, 2, 2], &data);
            write::npz(&[("x", x), ("y", write::npy("|u1", false, &[6], &images.labels))], packed)
        }
    }
}

#[test]
fn the_unchanged_files_are_good() {
    // Else the mutations below would test nothing but the first line of each reader.
    let options = ReadOptions::all(Prepare::rgb_square(4));
    let path = Path::new("file");
    for packed in [false, true] {
        let hundred = cifar::Kind::Hundred;
        assert!(cifar::read_from(Cursor::new(good(1, packed)), path, hundred, &options).is_ok());
        assert!(mat::read_from(Cursor::new(good(2, packed)), path, Split::Test, &options).is_ok());
        assert!(npz::read_from(Cursor::new(good(3, packed)), path, &options).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..600), format in 0..4_usize) {
        read_all(&bytes, format);
    }

    #[test]
    fn changed_files_never_panic(
        format in 0..4_usize,
        packed: bool,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let mut bytes = good(format, packed);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        read_all(&bytes, format);
    }

    /// The interesting bytes are those of the headers.
    #[test]
    fn changed_headers_never_panic(
        format in prop::sample::select(vec![0_usize, 2, 3]),
        changes in vec((0..64_usize, prop::sample::select(vec![0_u8, 1, 2, 3, 127, 128, 254, 255])), 1..4),
    ) {
        let mut bytes = good(format, false);
        let start = if format == 2 { 120 } else { 0 };
        for (at, value) in changes {
            bytes[start + at] = value;
        }
        read_all(&bytes, format);
    }
}
