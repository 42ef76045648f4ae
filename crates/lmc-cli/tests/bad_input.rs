//! Bad input of any kind: one line that names the thing and the next step, exit code 2, nothing written.
#![allow(clippy::unwrap_used)]

mod machine;

use std::fs;
use std::io::Write;
use std::sync::Arc;

use machine::Machine;

/// Runs `lmc data show` on something bad and checks the promise.
fn refused(machine: &Machine, words: &str, parts: &[&str]) {
    let outcome = machine.lmc(&format!("{words} --sheet out.png"));
    assert_eq!(outcome.code, 2, "{words}: {} {}", outcome.out, outcome.err);
    assert_eq!(outcome.err.lines().count(), 1, "{words}: {}", outcome.err);
    assert!(!machine.path("out.png").exists(), "{words}: a picture was written");
    assert_eq!(outcome.out, "", "{words}");
    for part in parts {
        assert!(outcome.err.contains(part), "{words}: '{part}' is not in: {}", outcome.err);
    }
}

/// A whole MNIST in `data/mnist` with `labels` and as many black images.
fn write_mnist(machine: &Machine, labels: &[u8]) {
    let folder = machine.path("data/mnist");
    fs::create_dir_all(&folder).unwrap();
    let count = (labels.len() as u32).to_be_bytes();
    let images =
        [&[0, 0, 8, 3][..], &count, &[0, 0, 0, 28, 0, 0, 0, 28], &vec![0; labels.len() * 784]].concat();
    let labels = [&[0, 0, 8, 1][..], &count, labels].concat();
    for split in ["train", "t10k"] {
        for (kind, bytes) in [("images-idx3", &images), ("labels-idx1", &labels)] {
            let file = fs::File::create(folder.join(format!("{split}-{kind}-ubyte.gz"))).unwrap();
            let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            packed.write_all(bytes).unwrap();
            packed.finish().unwrap();
        }
    }
}

#[test]
fn truncated_gzip() {
    let machine = Machine::new();
    write_mnist(&machine, &[1, 2, 3]);
    let path = machine.path("data/mnist/train-images-idx3-ubyte.gz");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    refused(&machine, "--data-dir data data show mnist", &["train-images-idx3-ubyte.gz", "download"]);
}

#[test]
fn wrong_magic() {
    let machine = Machine::new();
    write_mnist(&machine, &[1, 2, 3]);
    fs::write(machine.path("data/mnist/t10k-labels-idx1-ubyte.gz"), b"hello, I am no IDX file").unwrap();
    refused(&machine, "--data-dir data data show mnist", &["t10k-labels-idx1-ubyte.gz", "not an IDX file"]);
}

#[test]
fn label_outside_the_class_list() {
    let machine = Machine::new();
    write_mnist(&machine, &[1, 2, 30]);
    refused(&machine, "--data-dir data data show mnist", &["labels-idx1", "row 2", "label 30"]);
}

#[test]
fn counts_that_are_not_the_official_ones() {
    let machine = Machine::new();
    write_mnist(&machine, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let outcome = machine.lmc("--data-dir data streams show cmnist_ood_train --variant full");
    assert_eq!(outcome.code, 2, "{}", outcome.out);
    assert!(outcome.err.contains("the official set has 5923"), "{}", outcome.err);
}

#[test]
fn empty_class_folder() {
    let machine = Machine::new();
    machine.png("photos/cat/1.png", 8, 1);
    fs::create_dir_all(machine.path("photos/dog")).unwrap();
    refused(&machine, "data show photos", &["dog", "no picture", "remove"]);
}

#[test]
fn csv_with_a_missing_file() {
    let machine = Machine::new();
    machine.png("cat.png", 8, 1);
    fs::write(machine.path("list.csv"), "path,label\ncat.png,cat\ndog.png,dog\n").unwrap();
    refused(&machine, "data show list.csv", &["list.csv", "line 3", "dog.png"]);
    fs::write(machine.path("blank.csv"), "path,label\ncat.png,cat\n\n\r\n.,dog\n").unwrap();
    refused(&machine, "data show blank.csv", &["blank.csv", "line 5", "cannot be read"]);
}

#[test]
fn parquet_without_an_image_column() {
    use parquet::data_type::Int64Type;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let machine = Machine::new();
    let schema = Arc::new(parse_message_type("message schema { REQUIRED INT64 label; }").unwrap());
    let file = fs::File::create(machine.path("labels.parquet")).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::builder().build())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(&[0, 1], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    refused(&machine, "data show labels.parquet", &["labels.parquet", "image"]);
}

#[test]
fn nan_in_an_npz() {
    let machine = Machine::new();
    let array = |kind: &str, shape: &str, data: &[u8]| {
        let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let length = (header.len() as u16).to_le_bytes();
        [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), data].concat()
    };
    let pixels: Vec<u8> =
        [0.5_f32, 0.0, 1.0, f32::NAN].iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut archive = zip::ZipWriter::new(fs::File::create(machine.path("own.npz")).unwrap());
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in
        [("x.npy", array("<f4", "(2, 2, 1)", &pixels)), ("y.npy", array("|u1", "(2,)", &[0, 1]))]
    {
        archive.start_file(name, stored).unwrap();
        archive.write_all(&bytes).unwrap();
    }
    archive.finish().unwrap();
    refused(&machine, "data show own.npz", &["own.npz", "NaN", "1"]);
}

#[test]
fn an_enormous_png_is_refused_by_its_header() {
    let machine = Machine::new();
    machine.png("photos/cat/a.png", 8, 1);
    // Signature and IHDR of a 60,000 x 60,000 picture, then an IDAT that holds next to nothing.
    let chunk = |kind: &[u8; 4], data: &[u8]| {
        let body = [&kind[..], data].concat();
        let mut checksum = flate2::Crc::new();
        checksum.update(&body);
        [&(data.len() as u32).to_be_bytes()[..], &body, &checksum.sum().to_be_bytes()].concat()
    };
    let side = 60_000_u32.to_be_bytes();
    let header = chunk(b"IHDR", &[&side[..], &side, &[8, 2, 0, 0, 0]].concat());
    let data = chunk(b"IDAT", &[0x78, 0x9c, 3, 0, 0, 0, 0, 1]);
    let png = [&b"\x89PNG\r\n\x1a\n"[..], &header, &data, &chunk(b"IEND", &[])].concat();
    fs::write(machine.path("photos/cat/huge.png"), png).unwrap();
    refused(&machine, "data show photos", &["huge.png", "16384", "smaller"]);
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let machine = Machine::new();
    machine.png("photos/cat/a.png", 8, 1);
    let name = std::ffi::OsStr::from_bytes(b"c\xffow.png");
    if fs::copy(machine.path("photos/cat/a.png"), machine.path("photos/cat").join(name)).is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: this file system refuses such names itself");
        return;
    }
    refused(&machine, "data show photos", &["ow.png", "UTF-8", "rename"]);
}

#[cfg(unix)]
#[test]
fn a_broken_symlink() {
    let machine = Machine::new();
    machine.png("photos/cat/a.png", 8, 1);
    std::os::unix::fs::symlink("nowhere.png", machine.path("photos/cat/b.png")).unwrap();
    refused(&machine, "data show photos", &["b.png", "link"]);
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_back_up() {
    let machine = Machine::new();
    for (root, link) in [("inside", "inside/cat/up"), ("beside", "beside/all")] {
        machine.png(&format!("{root}/cat/a.png"), 8, 1);
        machine.png(&format!("{root}/dog/a.png"), 8, 1);
        let target = if root == "inside" { ".." } else { "." };
        std::os::unix::fs::symlink(target, machine.path(link)).unwrap();
        refused(&machine, &format!("data show {root}"), &[link, "leads back up", "remove the link"]);
    }
}

#[test]
fn nothing_readable_at_all() {
    let machine = Machine::new();
    refused(
        &machine,
        "data show nowhere",
        &["no data set, folder or file called 'nowhere'", "lmc data list"],
    );
    fs::write(machine.path("notes.txt"), "hello").unwrap();
    refused(&machine, "data show notes.txt", &["notes.txt", ".csv"]);
    machine.png("one/cat/a.png", 8, 1);
    fs::write(machine.path("one/cat/b.png"), "this is no picture").unwrap();
    refused(&machine, "data show one", &["b.png"]);
}
