//! The real files, in the folder that `$LMC_DATA` names.

use std::path::Path;
use std::time::Instant;

use lmc_streams::formats::idx;
use lmc_streams::{Channels, Fit, ImageSet, Prepare, ReadOptions, Split};

/// MNIST as the paper prepares it (specification §3.1).
const PAPER: Prepare = Prepare { fit: Fit::TorchSquare(32), channels: Channels::Rgb, invert: false };

fn read(name: &str, start: &str, split: Split, options: &ReadOptions<'_>) -> ImageSet {
    let root = std::env::var_os("LMC_DATA").expect("LMC_DATA names the folder of the real data");
    let folder = Path::new(&root).join(name);
    let images = folder.join(format!("{start}-images-idx3-ubyte.gz"));
    let labels = folder.join(format!("{start}-labels-idx1-ubyte.gz"));
    idx::read(&images, &labels, split, 10, options).unwrap()
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn mnist_has_the_official_class_counts() {
    let start = Instant::now();
    let train = read("mnist", "train", Split::Train, &ReadOptions::all(PAPER));
    eprintln!("60,000 images read and prepared in {:?}", start.elapsed());
    assert_eq!(train.source_counts(), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]);
    assert_eq!((train.len(), train.bytes()), (60_000, 60_000 * 3 * 32 * 32));
    // The mean of the original pixels is 33.3184; a border of black and truncation take a little off.
    let sum: u64 = (0..train.len()).flat_map(|row| train.image(row)).map(|&pixel| u64::from(pixel)).sum();
    let mean = sum as f64 / train.bytes() as f64;
    assert!((mean - 33.0).abs() < 0.5, "{mean}");
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn only_what_is_kept_is_held() {
    let keep = |split: Split, label: u32, rank: u32| split == Split::Test && label == 3 && rank >= 1000;
    let options = ReadOptions::keeping(Prepare::AS_IS, &keep);
    let test = read("mnist", "t10k", Split::Test, &options);
    assert_eq!(test.source_counts(), [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]);
    assert_eq!(
        (0..test.len()).map(|row| test.rank(row)).collect::<Vec<_>>(),
        (1000..1010).collect::<Vec<_>>()
    );
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn the_number_of_threads_changes_nothing() {
    let with_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| read("fashion-mnist", "t10k", Split::Test, &ReadOptions::all(PAPER)))
    };
    let one = with_threads(1);
    assert_eq!(one.source_counts(), [1000; 10]);
    assert!(one == with_threads(3));
}
