//! The files of the makers, as they come, are found by the name of their set.

use std::fs;
use std::path::Path;

use lmc_streams::{Catalog, DataDirs, Dataset, Survey};
use tempfile::TempDir;

use super::write::{self, Images};

/// Twenty images of `channels` x `side` x `side`, two of each of ten classes; the first byte of each is its number.
fn twenty(channels: usize, side: usize) -> Images {
    let image = |number: u8| {
        let mut pixels = vec![0; channels * side * side];
        pixels[0] = number;
        pixels
    };
    let (labels, pixels) = ((0..20).map(|n| n % 10).collect(), (0..20).map(image).collect());
    Images { channels, height: side, width: side, labels, pixels }
}

fn put(root: &Path, name: &str, bytes: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn read(root: &Path, name: &str) -> (Dataset, Survey) {
    let catalog = Catalog::new(DataDirs::only(root));
    (catalog.read(name, 32, &|_, _, _| true).unwrap(), catalog.survey(name, 32).unwrap())
}

#[test]
fn idx_packed_and_plain() {
    let data = TempDir::new().unwrap();
    let images = twenty(1, 28);
    let (pictures, labels) = (write::idx_images(&images), write::idx_labels(&images));
    for split in ["train", "t10k"] {
        put(data.path(), &format!("mnist/{split}-images-idx3-ubyte.gz"), &write::gzip(&pictures));
        put(data.path(), &format!("mnist/{split}-labels-idx1-ubyte"), &labels);
    }
    let (mnist, survey) = read(data.path(), "mnist");
    assert_eq!((mnist.train.len(), mnist.test.len(), mnist.classes[3].as_str()), (20, 20, "3 - three"));
    assert_eq!((mnist.shape().channels, mnist.shape().height), (1, 32), "28 pixels become 32");
    assert_eq!(survey.ranks[0][4], [0, 1]);
}

#[test]
fn cifar_archive_and_folder() {
    let records = write::cifar_records(&twenty(3, 32), None);
    let mut files: Vec<(String, Vec<u8>)> =
        (1..=5).map(|n| (format!("data_batch_{n}.bin"), records.clone())).collect();
    files.push(("test_batch.bin".into(), records.clone()));
    files.push(("batches.meta.txt".into(), write::cifar_names(10)));
    let packed = TempDir::new().unwrap();
    let archive = write::gzip(&write::tar("cifar-10-batches-bin", &files));
    put(packed.path(), "cifar10/cifar-10-binary.tar.gz", &archive);
    let unpacked = TempDir::new().unwrap();
    for (name, bytes) in &files {
        put(unpacked.path(), &format!("cifar10/cifar-10-batches-bin/{name}"), bytes);
    }
    for root in [packed.path(), unpacked.path()] {
        let (cifar10, survey) = read(root, "cifar10");
        assert_eq!((cifar10.train.len(), cifar10.test.len()), (100, 20));
        assert_eq!(survey.ranks[0][9].len(), 10);
    }
    let fine = write::cifar_records(&twenty(3, 32), Some(0));
    for file in ["train.bin", "test.bin"] {
        put(unpacked.path(), &format!("cifar100/cifar-100-binary/{file}"), &fine);
    }
    put(unpacked.path(), "cifar100/cifar-100-binary/fine_label_names.txt", &write::cifar_names(100));
    assert_eq!(read(unpacked.path(), "cifar100").0.classes.len(), 100);
}

#[test]
fn matlab_files() {
    let data = TempDir::new().unwrap();
    let images = twenty(3, 32);
    put(data.path(), "svhn/train_32x32.mat", &write::mat(&images, write::PLAIN));
    put(data.path(), "svhn/test_32x32.mat", &write::mat(&images, write::PLAIN));
    let (svhn, survey) = read(data.path(), "svhn");
    assert_eq!((svhn.train.len(), svhn.test.len(), svhn.classes[0].as_str()), (20, 20, "0 - zero"));
    assert!(survey.ranks[2].iter().all(|ranks| ranks.len() == 2));
}

#[test]
fn a_folder_without_such_files_is_not_the_set() {
    let data = TempDir::new().unwrap();
    put(data.path(), "mnist/readme.txt", b"nothing here");
    let error = Catalog::new(DataDirs::only(data.path())).read("mnist", 32, &|_, _, _| true).unwrap_err();
    assert!(error.to_string().contains("lmc data get mnist"), "{error}");
}
