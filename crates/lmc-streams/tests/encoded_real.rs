//! The real data sets in parquet, in the folder that `$LMC_DATA` names.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use lmc_streams::formats::{parquet, parquet_files};
use lmc_streams::{Prepare, ReadOptions, Split};

/// The folder of a set, which must be there.
fn folder(set: &str) -> PathBuf {
    let root = std::env::var_os("LMC_DATA").expect("LMC_DATA names the folder of the real data");
    let folder = Path::new(&root).join(set);
    assert!(folder.is_dir(), "there is no data set '{set}' in LMC_DATA");
    folder
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn every_set_has_its_images_and_classes() {
    for (set, train, test) in [
        ("cifar10", 32_301, 10_000),
        ("svhn", 27_950, 25_859),
        ("dtd10", 800, 400),
        ("tiny-imagenet", 12_191, 5_000),
        ("omniglot", 32_460, 0),
    ] {
        let folder = folder(set);
        let files = parquet_files::find_files(&folder).unwrap();
        let rows = |wanted: Split| -> u64 {
            let files = files.iter().filter(|(split, _)| *split == wanted);
            files.map(|(_, path)| parquet::describe(path).unwrap().rows).sum()
        };
        assert_eq!((set, rows(Split::Train), rows(Split::Test)), (set, train, test));
        let listed = fs::read_to_string(folder.join("classes.txt")).unwrap();
        let description = parquet::describe(&files[0].1).unwrap();
        assert_eq!(description.classes.unwrap(), listed.lines().collect::<Vec<_>>());
        assert!(description.has_ranks);
        // Labels and ranks are read, images are not: none is wanted.
        let none = ReadOptions::keeping(Prepare::AS_IS, &|_, _, _| false);
        let data = parquet::read(set, &files, None, &none).unwrap();
        assert!(data.is_empty());
        assert_eq!(data.train.source_counts().iter().map(|&count| u64::from(count)).sum::<u64>(), train);
    }
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn cifar10_pixels_are_pillows() {
    let folder = folder("cifar10");
    let files = parquet_files::find_files(&folder).unwrap();
    let keep = |split, _, rank| split == Split::Train && rank < 3;
    let options = ReadOptions::keeping(Prepare::AS_IS, &keep);
    let data = parquet::read("cifar10", &files, None, &options).unwrap();
    // A frog and two trucks; sums by pyarrow and Pillow.
    for (index, label, sum) in [(0, 6, 317_790), (1, 9, 400_427), (2, 9, 410_851)] {
        let image = data.train.image(index);
        assert_eq!(data.train.label(index), label);
        assert_eq!(image.iter().map(|&value| u64::from(value)).sum::<u64>(), sum);
    }
    let first = data.train.image(0);
    assert_eq!([first[0], first[1024], first[2048]], [59, 62, 63]);
    // Not 30: images that no stream draws are left out of the file, and keep their ranks.
    assert_eq!(data.train.len(), 23);
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn omniglot_pixels_are_pillows() {
    let folder = folder("omniglot");
    let files = parquet_files::find_files(&folder).unwrap();
    let keep = |_, label, _| label == 0;
    let data = parquet::read("omniglot", &files, None, &ReadOptions::keeping(Prepare::AS_IS, &keep)).unwrap();
    assert_eq!((data.train.len(), data.shape().channels, data.shape().width), (20, 1, 105));
    // White pixels of the first three drawings of the first character, counted with Pillow.
    let ink = |at| data.train.image(at).iter().filter(|&&value| value == 255).count();
    assert_eq!([0, 1, 2].map(ink), [905, 754, 895]);
    assert!((0..20).all(|at| data.train.image(at).iter().all(|&value| value == 0 || value == 255)));
}
