//! What is broken is refused in one line that names the file, the place and the cure.

use std::io::Cursor;
use std::path::Path;

use lmc_streams::formats::{cifar, idx, mat, npz};
use lmc_streams::{Error, Prepare, ReadOptions, Split};

use crate::write::{self, Images, MatStyle, PLAIN, gzip};

fn all() -> ReadOptions<'static> {
    ReadOptions::all(Prepare::AS_IS)
}

/// Three images of 2 x 2.
fn three(channels: usize) -> Images {
    let pixels = (0..3).map(|image| vec![image; channels * 4]).collect();
    Images { channels, height: 2, width: 2, labels: vec![1, 0, 2], pixels }
}

fn assert_says<T>(result: Result<T, Error>, parts: &[&str]) {
    let message = result.err().expect("this must be refused").to_string();
    assert!(!message.contains('\n'), "{message}");
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

fn read_idx(images: &[u8], labels: &[u8], classes: usize) -> Result<(), Error> {
    let (x, y) = (Path::new("x.gz"), Path::new("y.gz"));
    idx::read_from((images, x), (labels, y), Split::Train, classes, &all()).map(|_| ())
}

#[test]
fn idx_truncated_gzip() {
    let images = gzip(&write::idx_images(&three(1)));
    let labels = gzip(&write::idx_labels(&three(1)));
    let cut = &images[..images.len() - 12];
    assert_says(
        read_idx(cut, &labels, 3),
        &["x.gz, image ", "ends in the middle", "download the file again"],
    );
    let cut = &labels[..labels.len() - 9];
    assert_says(read_idx(&images, cut, 3), &["y.gz, ", "ends in the middle", "download the file again"]);
}

#[test]
fn idx_gzip_with_a_wrong_checksum() {
    let mut images = gzip(&write::idx_images(&three(1)));
    let end = images.len() - 6;
    images[end] ^= 1;
    let labels = write::idx_labels(&three(1));
    assert_says(read_idx(&images, &labels, 3), &["x.gz", "damaged", "download the file again"]);
}

#[test]
fn idx_truncated_plain() {
    let images = write::idx_images(&three(1));
    let cut = &images[..images.len() - 3];
    assert_says(
        read_idx(cut, &write::idx_labels(&three(1)), 3),
        &["x.gz, image 2", "download the file again"],
    );
}

#[test]
fn idx_with_bytes_left_over() {
    let mut images = write::idx_images(&three(1));
    images.push(0);
    assert_says(
        read_idx(&images, &write::idx_labels(&three(1)), 3),
        &["x.gz", "more bytes than its 3 images need", "download"],
    );
    let mut labels = write::idx_labels(&three(1));
    labels.push(0);
    assert_says(
        read_idx(&write::idx_images(&three(1)), &labels, 3),
        &["y.gz", "more bytes than its 3 labels need", "download"],
    );
}

#[test]
fn idx_wrong_magic() {
    let labels = write::idx_labels(&three(1));
    assert_says(
        read_idx(b"PK\x03\x04 this is a zip file", &labels, 3),
        &["x.gz: not an IDX file of images: it starts with 50 4b 03 04", "original IDX files"],
    );
    let images = write::idx_images(&three(1));
    assert_says(read_idx(&labels, &images, 3), &["x.gz", "image file first and the label file second"]);
}

#[test]
fn idx_label_outside_the_class_list() {
    let (images, labels) = (write::idx_images(&three(1)), write::idx_labels(&three(1)));
    assert_says(
        read_idx(&images, &labels, 2),
        &["y.gz, row 2: label 2, but there are 2 classes (0 to 1); correct the label"],
    );
}

#[test]
fn idx_counts_that_disagree() {
    let mut fewer = three(1);
    fewer.labels.pop();
    assert_says(
        read_idx(&write::idx_images(&three(1)), &write::idx_labels(&fewer), 3),
        &["x.gz: 3 images, but 2 labels in y.gz", "of the same split"],
    );
}

#[test]
fn idx_header_that_lies_takes_no_memory() {
    // 4,294,967,295 images of 65,535 x 65,535 pixels in 20 bytes, and as many labels in 3.
    let images = [&[0, 0, 8, 3][..], &[255; 4], &[0, 0, 255, 255, 0, 0, 255, 255], &[1; 20]].concat();
    let labels = [&[0, 0, 8, 1][..], &[255; 4], &[0; 3]].concat();
    assert_says(read_idx(&images, &labels, 3), &["y.gz, labels", "ends in the middle", "download"]);
}

/// Files of CIFAR-100 with two training images and one for test.
fn cifar_files() -> Vec<(String, Vec<u8>)> {
    let images = |labels: &[u8]| Images {
        channels: 3,
        height: 32,
        width: 32,
        labels: labels.to_vec(),
        pixels: vec![vec![5; 3072]; labels.len()],
    };
    vec![
        ("train.bin".to_owned(), write::cifar_records(&images(&[99, 4]), Some(3))),
        ("test.bin".to_owned(), write::cifar_records(&images(&[7]), Some(3))),
        ("fine_label_names.txt".to_owned(), write::cifar_names(100)),
    ]
}

fn read_cifar(files: &[(String, Vec<u8>)], kind: cifar::Kind) -> Result<(), Error> {
    let archive = gzip(&write::tar("cifar-100-binary", files));
    cifar::read_from(Cursor::new(archive), Path::new("c.tar.gz"), kind, &all()).map(|_| ())
}

#[test]
fn cifar_half_a_record() {
    let mut files = cifar_files();
    files[0].1.truncate(3074 + 1500);
    assert_says(
        read_cifar(&files, cifar::Kind::Hundred),
        &["c.tar.gz", "train.bin, record 1: 1500 bytes of 3074", "download the archive again"],
    );
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in &files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    assert_says(
        cifar::read(folder.path(), cifar::Kind::Hundred, &all()),
        &["train.bin, record 1: 1500 bytes of 3074", "download the archive again"],
    );
}

#[test]
fn cifar_missing_batch() {
    let mut files = cifar_files();
    files.remove(1);
    assert_says(
        read_cifar(&files, cifar::Kind::Hundred),
        &["c.tar.gz: test.bin is missing", "get the binary version of cifar100 with all its files"],
    );
    assert_says(read_cifar(&files, cifar::Kind::Ten), &["c.tar.gz: data_batch_1.bin is missing"]);
    let folder = tempfile::tempdir().unwrap();
    assert_says(cifar::read(folder.path(), cifar::Kind::Ten, &all()), &["data_batch_1.bin is missing"]);
    assert_says(
        cifar::read(&folder.path().join("no-such-file"), cifar::Kind::Ten, &all()),
        &["cannot read", "no-such-file"],
    );
}

#[test]
fn cifar_missing_or_wrong_names() {
    let mut files = cifar_files();
    files[2].1 = write::cifar_names(99);
    assert_says(read_cifar(&files, cifar::Kind::Hundred), &["fine_label_names.txt: 99 class names, not 100"]);
    files.pop();
    assert_says(read_cifar(&files, cifar::Kind::Hundred), &["c.tar.gz: fine_label_names.txt is missing"]);
}

#[test]
fn cifar_label_out_of_range() {
    let mut files = cifar_files();
    files[0].1[3074 + 1] = 100;
    assert_says(
        read_cifar(&files, cifar::Kind::Hundred),
        &["train.bin, record 1: label 100, but cifar100 has 100 classes", "check that it is this data set"],
    );
}

#[test]
fn cifar_truncated_archive_and_doubled_member() {
    let archive = gzip(&write::tar("c", &cifar_files()));
    let cut = Cursor::new(&archive[..archive.len() / 2]);
    assert_says(
        cifar::read_from(cut, Path::new("c.tar.gz"), cifar::Kind::Hundred, &all()),
        &["c.tar.gz", "download the archive again"],
    );
    let mut files = cifar_files();
    files.push(files[0].clone());
    assert_says(read_cifar(&files, cifar::Kind::Hundred), &["c.tar.gz: holds train.bin twice"]);
}

fn read_mat(bytes: &[u8]) -> Result<(), Error> {
    mat::read_from(Cursor::new(bytes), Path::new("train.mat"), Split::Train, &all()).map(|_| ())
}

#[test]
fn mat_truncated() {
    let plain = write::mat(&three(3), PLAIN);
    for length in [50, 130, plain.len() - 8] {
        assert_says(
            read_mat(&plain[..length]),
            &["train.mat, ", "ends in the middle", "download the file again"],
        );
    }
    // The packed stream of X ends early, though its element has the length it claims.
    let packed = write::mat(&three(3), MatStyle { packed: true, labels_first: true, ..PLAIN });
    let mut damaged = packed.clone();
    let end = damaged.len() - 2;
    damaged[end] ^= 0x55;
    assert_says(read_mat(&damaged), &["train.mat, X", "download the file again"]);
}

#[test]
fn mat_wrong_magic() {
    assert_says(read_mat(&[b'x'; 500]), &["train.mat: not a MATLAB 5 file", "original SVHN .mat file"]);
    let mut newer = b"MATLAB 7.3 MAT-file".to_vec();
    newer.resize(600, 0);
    assert_says(read_mat(&newer), &["train.mat: not a MATLAB 5 file; save it in MATLAB with -v7"]);
}

#[test]
fn mat_x_of_wrong_type_or_shape() {
    let y = write::mat_matrix("y", 6, 2, &[1, 1], &[1], PLAIN);
    let with_x = |x: Vec<u8>| write::mat_file(&[x, y.clone()].concat(), false);
    let x = write::mat_matrix("X", 6, 9, &[1, 1, 3, 1], &[0; 24], PLAIN);
    assert_says(
        read_mat(&with_x(x)),
        &["train.mat, X: its numbers are double, not uint8", "SVHN's 32x32 files"],
    );
    let x = write::mat_matrix("X", 9, 2, &[1, 3, 1], &[0; 3], PLAIN);
    assert_says(read_mat(&with_x(x)), &["train.mat, X: its shape is [1, 3, 1]"]);
    let x = write::mat_matrix("X", 9, 2, &[1, 1, 3, 2], &[0; 5], PLAIN);
    assert_says(read_mat(&with_x(x)), &["train.mat, X: its shape is [1, 1, 3, 2], but it has 5 bytes"]);
    assert_says(read_mat(&write::mat_file(&y, false)), &["train.mat: there is no variable 'X'"]);
}

#[test]
fn mat_labels_that_do_not_fit() {
    let x = write::mat_matrix("X", 9, 2, &[1, 1, 3, 2], &[0; 6], PLAIN);
    let with_y = |y: &[u8]| {
        let y = write::mat_matrix("y", 9, 2, &[y.len(), 1], y, PLAIN);
        write::mat_file(&[x.clone(), y].concat(), false)
    };
    assert_says(read_mat(&with_y(&[1, 2, 3])), &["train.mat, y: 3 labels, but 2 images in X"]);
    for label in [0, 11] {
        let says = format!("train.mat, y, row 1: label {label} is none of SVHN's labels, 1 to 10");
        assert_says(read_mat(&with_y(&[10, label])), &[&says, "correct the label"]);
    }
}

fn read_npz(arrays: &[(&str, Vec<u8>)]) -> Result<(), Error> {
    let bytes = Cursor::new(write::npz(arrays, true));
    npz::read_from(bytes, Path::new("own.npz"), &all()).map(|_| ())
}

fn floats(values: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    write::npy("<f4", false, &[values.len(), 1, 1], &data)
}

fn labels(values: &[u8]) -> Vec<u8> {
    write::npy("|u1", false, &[values.len()], values)
}

#[test]
fn npz_with_nan_or_out_of_range() {
    let y = || labels(&[0, 1]);
    for (value, shown) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (-0.5, "-0.5"), (127.0, "127")] {
        let says = format!("own.npz, x, row 1: the value {shown} is outside 0 to 1");
        assert_says(read_npz(&[("x", floats(&[0.5, value])), ("y", y())]), &[&says, "save x as uint8"]);
    }
    let wide: Vec<u8> = [3_i16, 300].iter().flat_map(|value| value.to_le_bytes()).collect();
    let x = write::npy("<i2", true, &[2, 1, 1], &wide);
    assert_says(
        read_npz(&[("x", x), ("y", y())]),
        &["own.npz, x, row 1: the value 300 is outside 0 to 255", "save x as uint8"],
    );
}

#[test]
fn npz_without_x_or_y() {
    assert_says(
        read_npz(&[("images", floats(&[0.5]))]),
        &["own.npz: there is no array 'x' in it", "numpy.savez(file, x=images, y=labels)"],
    );
    assert_says(read_npz(&[("x", floats(&[0.5]))]), &["own.npz: there is no array 'y' in it", "numpy.savez"]);
    assert_says(
        read_npz(&[("x", floats(&[0.5])), ("y", labels(&[0])), ("x_test", floats(&[0.5]))]),
        &["own.npz: there is no array 'y_test' in it"],
    );
}

#[test]
fn npz_lengths_that_differ() {
    assert_says(
        read_npz(&[("x", floats(&[0.5, 0.5])), ("y", labels(&[0]))]),
        &["own.npz, y: 1 labels, but 2 images in x; give one label per image"],
    );
}

#[test]
fn npz_of_a_wrong_type() {
    let x = write::npy("<c8", false, &[1, 1, 1], &[0; 8]);
    assert_says(
        read_npz(&[("x", x), ("y", labels(&[0]))]),
        &["own.npz, x: its elements are no numbers that can be pixels", "save x as uint8"],
    );
    let y = write::npy("<f8", false, &[1], &[0; 8]);
    assert_says(
        read_npz(&[("x", floats(&[0.5])), ("y", y)]),
        &["own.npz, y: its elements are neither integers nor texts", "save y as int64"],
    );
    assert_says(
        read_npz(&[("x", b"no array at all".to_vec()), ("y", labels(&[0]))]),
        &["own.npz, x: not a NumPy array", "numpy.savez"],
    );
}

#[test]
fn npz_of_a_wrong_shape() {
    for shape in [&[4][..], &[1, 2, 2, 1, 1], &[1, 2, 1, 2], &[0, 2, 2]] {
        let x = write::npy("|u1", false, shape, &[0; 4]);
        assert_says(read_npz(&[("x", x), ("y", labels(&[0]))]), &["own.npz, x: its shape is [", "x must be"]);
    }
    let test = write::npy("|u1", false, &[1, 2, 1], &[0; 2]);
    assert_says(
        read_npz(&[("x", floats(&[0.5])), ("y", labels(&[0])), ("x_test", test), ("y_test", labels(&[0]))]),
        &["own.npz, x_test: its shape is [1, 2, 1], that of x [1, 1, 1]", "make all images one size"],
    );
}

#[test]
fn npz_header_that_lies() {
    let x = write::npy("|u1", false, &[1 << 40, 1, 1], &[0; 4]);
    assert_says(
        read_npz(&[("x", x), ("y", labels(&[0]))]),
        &["own.npz, x: its shape is [1099511627776, 1, 1], but"],
    );
    let x = write::npy("|u1", false, &[1 << 62, 1 << 62, 3], &[0; 4]);
    assert_says(read_npz(&[("x", x), ("y", labels(&[0]))]), &["own.npz, x: its shape is [", "save it again"]);
}

#[test]
fn npz_bomb() {
    // 80 MB of zeros pack to 80 kB.
    let x = write::npy("|u1", false, &[80, 1000, 1000], &vec![0; 80_000_000]);
    assert_says(
        read_npz(&[("x", x), ("y", labels(&[0; 80]))]),
        &["own.npz, x", "this looks like a zip bomb", "save it with numpy.savez, which does not pack"],
    );
}

#[test]
fn npz_that_is_no_zip_or_is_damaged() {
    let read = |bytes: &[u8]| npz::read_from(Cursor::new(bytes), Path::new("own.npz"), &all());
    assert_says(
        read(b"nothing"),
        &["own.npz, archive: cannot be unpacked", "save it again with numpy.savez"],
    );
    let pixels: Vec<u8> = (0..200).collect();
    let x = write::npy("|u1", false, &[2, 10, 10], &pixels);
    let mut bytes = write::npz(&[("x", x), ("y", labels(&[0, 1]))], false);
    let at = bytes.windows(4).position(|four| four == [100, 101, 102, 103]).unwrap();
    bytes[at] ^= 1;
    assert_says(read(&bytes), &["own.npz, x", "damaged", "save it again with numpy.savez"]);
}
