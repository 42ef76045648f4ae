//! What was written is read back, image for image.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use lmc_streams::formats::{cifar, idx, mat, npz};
use lmc_streams::{Dataset, ImageSet, Prepare, ReadOptions, Split};
use proptest::prelude::*;

use crate::write::{self, Images, MatStyle, gzip, images, sized_images};

fn all() -> ReadOptions<'static> {
    ReadOptions::all(Prepare::AS_IS)
}

/// Every image, label and rank is as it was written.
fn assert_same(set: &ImageSet, images: &Images) {
    let shape = (set.shape().channels, set.shape().height, set.shape().width);
    assert_eq!(shape, (images.channels, images.height, images.width));
    assert_eq!(set.len(), images.len());
    let mut seen = [0; 256];
    for row in 0..images.len() {
        let label = images.labels[row];
        assert_eq!(set.label(row), u32::from(label), "label of row {row}");
        assert_eq!(set.rank(row), seen[usize::from(label)], "rank of row {row}");
        assert_eq!(set.image(row), images.pixels[row], "row {row}");
        seen[usize::from(label)] += 1;
    }
    assert!(set.source_counts().iter().zip(seen).all(|(&count, seen)| count == seen));
}

/// What is kept under a condition is what a full read has there.
fn assert_kept(kept: &ImageSet, full: &ImageSet, keep: impl Fn(u32, u32) -> bool) {
    let rows = (0..full.len()).filter(|&row| keep(full.label(row), full.rank(row)));
    let full_rows: Vec<_> = rows.map(|row| (full.label(row), full.rank(row), full.image(row))).collect();
    let kept_rows: Vec<_> =
        (0..kept.len()).map(|row| (kept.label(row), kept.rank(row), kept.image(row))).collect();
    assert_eq!(kept_rows, full_rows);
    assert_eq!(kept.source_counts(), full.source_counts());
}

fn write_file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Five training batches of CIFAR-10 and the test batch, or CIFAR-100's two files.
fn cifar_files(batches: &[Images], kind: cifar::Kind) -> Vec<(String, Vec<u8>)> {
    let (names, classes, coarse): (Vec<&str>, _, _) = match kind {
        cifar::Kind::Ten => (
            vec![
                "data_batch_1.bin",
                "data_batch_2.bin",
                "data_batch_3.bin",
                "data_batch_4.bin",
                "data_batch_5.bin",
                "test_batch.bin",
                "batches.meta.txt",
            ],
            10,
            None,
        ),
        cifar::Kind::Hundred => (vec!["train.bin", "test.bin", "fine_label_names.txt"], 100, Some(7)),
    };
    let mut contents: Vec<Vec<u8>> =
        batches.iter().map(|batch| write::cifar_records(batch, coarse)).collect();
    contents.push(write::cifar_names(classes));
    names.into_iter().map(str::to_owned).zip(contents).collect()
}

fn joined(batches: &[Images]) -> Images {
    let mut all = batches[0].clone();
    for batch in &batches[1..] {
        all.labels.extend(&batch.labels);
        all.pixels.extend(batch.pixels.clone());
    }
    all
}

fn check_cifar(data: &Dataset, batches: &[Images], name: &str) {
    let (test, train) = batches.split_last().unwrap();
    assert_same(&data.train, &joined(train));
    assert_same(&data.test, test);
    assert_eq!(data.name, name);
    assert_eq!(data.classes[3], "class 3");
}

/// How the elements of `x` are written.
#[derive(Clone, Copy, Debug)]
struct NpzStyle {
    descr: &'static str,
    fortran: bool,
    channels_first: bool,
}

fn npz_x(images: &Images, style: NpzStyle) -> Vec<u8> {
    let Images { channels, height, width, .. } = *images;
    let shape = match (channels, style.channels_first) {
        (_, true) => vec![images.len(), channels, height, width],
        (1, false) => vec![images.len(), height, width],
        (_, false) => vec![images.len(), height, width, channels],
    };
    let total: usize = shape.iter().product();
    let mut data = Vec::new();
    for flat in 0..total {
        // The index of the flat-th element, first dimension slowest or fastest.
        let mut index = vec![0; shape.len()];
        let mut rest = flat;
        let order: Vec<usize> =
            if style.fortran { (0..shape.len()).collect() } else { (0..shape.len()).rev().collect() };
        for dimension in order {
            index[dimension] = rest % shape[dimension];
            rest /= shape[dimension];
        }
        let value = match (index[..].try_into() as Result<[usize; 4], _>, style.channels_first) {
            (Ok([image, channel, row, column]), true) => images.at(image, channel, row, column),
            (Ok([image, row, column, channel]), false) => images.at(image, channel, row, column),
            (Err(_), _) => images.at(index[0], 0, index[1], index[2]),
        };
        match style.descr {
            "|u1" => data.push(value),
            "<f4" => data.extend((f32::from(value) / 255.0).to_le_bytes()),
            ">f8" => data.extend((f64::from(value) / 255.0).to_be_bytes()),
            "<i2" => data.extend(i16::from(value).to_le_bytes()),
            ">i4" => data.extend(i32::from(value).to_be_bytes()),
            _ => data.extend(i64::from(value).to_le_bytes()),
        }
    }
    write::npy(style.descr, style.fortran, &shape, &data)
}

fn npz_y(images: &Images) -> Vec<u8> {
    write::npy("|u1", false, &[images.len()], &images.labels)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn idx_files_read_back(images in images(1, 7), packed: bool) {
        let folder = tempfile::tempdir().unwrap();
        let pack = |bytes: Vec<u8>| if packed { gzip(&bytes) } else { bytes };
        // The names say nothing about gzip.
        let x = write_file(folder.path(), "images", &pack(write::idx_images(&images)));
        let y = write_file(folder.path(), "labels.gz", &pack(write::idx_labels(&images)));
        let full = idx::read(&x, &y, Split::Train, 7, &all()).unwrap();
        assert_same(&full, &images);
        let keep = |_: Split, label: u32, rank: u32| (label + rank) % 3 == 1;
        let options = ReadOptions::keeping(Prepare::AS_IS, &keep);
        let kept = idx::read(&x, &y, Split::Train, 7, &options).unwrap();
        assert_kept(&kept, &full, |label, rank| keep(Split::Train, label, rank));
    }

    #[test]
    fn npz_files_read_back(
        images in prop_oneof![images(1, 5), images(3, 5)],
        descr in prop::sample::select(vec!["|u1", "<f4", ">f8", "<i2", ">i4", "<i8"]),
        fortran: bool,
        channels_first: bool,
        packed: bool,
    ) {
        // A last dimension of one or three is taken for channels; that case has its own test.
        let mut images = images;
        if channels_first && (images.width == 1 || images.width == 3) {
            images.pixels.iter_mut().for_each(|pixels| pixels.extend(pixels.clone().iter().cycle().take(pixels.len())));
            images.width *= 2;
        }
        images.labels = (0..images.len()).map(|row| (row % 5.min(images.len())) as u8).collect();
        let style = NpzStyle { descr, fortran, channels_first };
        let bytes = write::npz(&[("x", npz_x(&images, style)), ("y", npz_y(&images))], packed);
        let path = Path::new("digits.npz");
        let data = npz::read_from(Cursor::new(&bytes), path, &all()).unwrap();
        prop_assert_eq!(&data.name, "digits");
        prop_assert_eq!(data.classes.len(), 5.min(images.len()));
        assert_same(&data.train, &images);
        prop_assert!(data.test.is_empty() && data.val.is_none());
        let keep = |_: Split, label: u32, rank: u32| (label + rank) % 3 == 1;
        let kept = npz::read_from(Cursor::new(&bytes), path, &ReadOptions::keeping(Prepare::AS_IS, &keep)).unwrap();
        assert_kept(&kept.train, &data.train, |label, rank| keep(Split::Train, label, rank));
    }

    #[test]
    fn mat_files_read_back(
        images in images(3, 10),
        big_endian: bool,
        packed: bool,
        labels_first: bool,
        label_type in prop::sample::select(vec![1_u32, 2, 3, 4, 5, 6, 7, 9, 12, 13]),
    ) {
        let style = MatStyle { big_endian, packed, label_type, labels_first };
        let bytes = write::mat(&images, style);
        let path = Path::new("train_32x32.mat");
        let full = mat::read_from(Cursor::new(&bytes), path, Split::Train, &all()).unwrap();
        assert_same(&full, &images);
        let keep = |_: Split, label: u32, rank: u32| (label + rank) % 3 == 1;
        let options = ReadOptions::keeping(Prepare::AS_IS, &keep);
        let kept = mat::read_from(Cursor::new(&bytes), path, Split::Train, &options).unwrap();
        assert_kept(&kept, &full, |label, rank| keep(Split::Train, label, rank));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn cifar10_reads_back_whatever_the_order_in_the_archive(
        batches in (1..5_usize).prop_flat_map(|count| prop::collection::vec(sized_images(3, 32, 32, 10, count), 6)),
        order in Just((0..7_usize).collect::<Vec<_>>()).prop_shuffle(),
        packed: bool,
    ) {
        let files = cifar_files(&batches, cifar::Kind::Ten);
        let shuffled: Vec<_> = order.iter().map(|&file| files[file].clone()).collect();
        let archive = write::tar("cifar-10-batches-bin", &shuffled);
        let archive = if packed { gzip(&archive) } else { archive };
        let folder = tempfile::tempdir().unwrap();
        let path = write_file(folder.path(), "cifar-10-binary.tar.gz", &archive);
        let data = cifar::read(&path, cifar::Kind::Ten, &all()).unwrap();
        check_cifar(&data, &batches, "cifar10");

        // Unpacked, from the folder and from the one around it.
        let inner = folder.path().join("cifar-10-batches-bin");
        std::fs::create_dir(&inner).unwrap();
        for (name, content) in &files {
            write_file(&inner, name, content);
        }
        for place in [&inner, folder.path()] {
            check_cifar(&cifar::read(place, cifar::Kind::Ten, &all()).unwrap(), &batches, "cifar10");
        }
        let keep = |split: Split, label: u32, rank: u32| split == Split::Test || label + rank == 5;
        let options = ReadOptions::keeping(Prepare::AS_IS, &keep);
        let kept = cifar::read(&path, cifar::Kind::Ten, &options).unwrap();
        assert_kept(&kept.train, &data.train, |label, rank| keep(Split::Train, label, rank));
        assert_same(&kept.test, &batches[5]);
    }

    #[test]
    fn cifar100_reads_back_with_its_fine_labels(
        batches in (1..5_usize).prop_flat_map(|count| prop::collection::vec(sized_images(3, 32, 32, 100, count), 2)),
        test_first: bool,
    ) {
        let mut files = cifar_files(&batches, cifar::Kind::Hundred);
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in &files {
            write_file(folder.path(), name, content);
        }
        check_cifar(&cifar::read(folder.path(), cifar::Kind::Hundred, &all()).unwrap(), &batches, "cifar100");
        if test_first {
            files.reverse();
        }
        let archive = gzip(&write::tar("cifar-100-binary", &files));
        let data = cifar::read_from(Cursor::new(archive), Path::new("a"), cifar::Kind::Hundred, &all()).unwrap();
        check_cifar(&data, &batches, "cifar100");
    }
}

#[test]
fn npz_splits_texts_and_keras_names() {
    let text = |words: &[&str]| {
        let units: Vec<u8> = words
            .iter()
            .flat_map(|word| {
                let mut units: Vec<u32> = word.chars().map(u32::from).collect();
                units.resize(4, 0);
                units.into_iter().flat_map(u32::to_le_bytes)
            })
            .collect();
        write::npy("<U4", false, &[words.len(), 1], &units)
    };
    let pixels = |values: &[u8]| write::npy("|u1", false, &[values.len(), 1, 1], values);
    let arrays = [
        ("x_train", pixels(&[1, 2, 3])),
        ("y_train", text(&["bär", "ape", "bär"])),
        ("x_val", pixels(&[4])),
        ("y_val", text(&["cat"])),
        ("x_test", pixels(&[5, 6])),
        ("y_test", text(&["aa", "cat"])),
    ];
    let data = npz::read_from(Cursor::new(write::npz(&arrays, true)), Path::new("zoo.npz"), &all()).unwrap();
    assert_eq!(data.classes, ["aa", "ape", "bär", "cat"]);
    let rows = |set: &ImageSet| -> Vec<(u8, u32, u32)> {
        (0..set.len()).map(|row| (set.image(row)[0], set.label(row), set.rank(row))).collect()
    };
    assert_eq!(rows(&data.train), [(1, 2, 0), (2, 1, 0), (3, 2, 1)]);
    assert_eq!(rows(data.val.as_ref().unwrap()), [(4, 3, 0)]);
    assert_eq!(rows(&data.test), [(5, 0, 0), (6, 3, 0)]);
}

#[test]
fn npz_classes_are_sorted_as_numbers() {
    let y: Vec<u8> = [10_i64, -1, 9].iter().flat_map(|label| label.to_be_bytes()).collect();
    let arrays =
        [("x", write::npy("|u1", false, &[3, 1, 1], &[1, 2, 3])), ("y", write::npy(">i8", false, &[3], &y))];
    let data = npz::read_from(Cursor::new(write::npz(&arrays, false)), Path::new("a.npz"), &all()).unwrap();
    assert_eq!(data.classes, ["-1", "9", "10"]);
    assert_eq!((0..3).map(|row| data.train.label(row)).collect::<Vec<_>>(), [2, 0, 1]);
}

#[test]
fn npz_channels_are_last_when_in_doubt() {
    // [1, 3, 2, 3]: three rows of two colours, not three channels of 2 x 3.
    let x: Vec<u8> = (0..18).collect();
    let arrays =
        [("x", write::npy("|u1", false, &[1, 3, 2, 3], &x)), ("y", write::npy("|i1", false, &[1], &[0]))];
    let data = npz::read_from(Cursor::new(write::npz(&arrays, false)), Path::new("a.npz"), &all()).unwrap();
    assert_eq!((data.shape().height, data.shape().width, data.shape().channels), (3, 2, 3));
    assert_eq!(data.train.image(0)[..6], [0, 3, 6, 9, 12, 15]);
}

#[test]
fn npz_arrays_of_another_writer_are_understood() {
    // npyz wrote these headers, not our own test code.
    use npyz::WriterBuilder;
    let array = |shape: &[u64], order: npyz::Order, values: &[f64]| {
        let mut bytes = Vec::new();
        let options = npyz::WriteOptions::new().default_dtype().shape(shape).order(order);
        let mut writer = options.writer(&mut bytes).begin_nd().unwrap();
        writer.extend(values).unwrap();
        writer.finish().unwrap();
        bytes
    };
    let mut labels = Vec::new();
    let mut writer =
        npyz::WriteOptions::new().default_dtype().shape(&[2]).writer(&mut labels).begin_nd().unwrap();
    writer.extend([4_i32, 2]).unwrap();
    writer.finish().unwrap();
    // Fortran's order: both first pixels, then both second ones.
    let x = array(&[2, 1, 2], npyz::Order::Fortran, &[0.0, 1.0, 0.2, 0.4]);
    let data =
        npz::read_from(Cursor::new(write::npz(&[("x", x), ("y", labels)], true)), Path::new("a.npz"), &all())
            .unwrap();
    assert_eq!((data.train.image(0), data.train.image(1)), (&[0, 51][..], &[255, 102][..]));
    assert_eq!((data.train.label(0), data.train.label(1)), (1, 0));
}

#[test]
fn a_mat_file_with_one_image_has_three_dimensions() {
    let x: Vec<u8> = (0..12).collect();
    let content = [
        write::mat_matrix("X", 9, 2, &[2, 2, 3], &x, write::PLAIN),
        write::mat_matrix("y", 6, 2, &[1, 1], &[10], write::PLAIN),
    ]
    .concat();
    let file = Cursor::new(write::mat_file(&content, false));
    let set = mat::read_from(file, Path::new("a.mat"), Split::Test, &all()).unwrap();
    assert_eq!(set.image(0), [0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11]);
    assert_eq!(set.label(0), 0);
}
