//! IDX: the first byte says where the images end and the labels begin.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use lmc_streams::formats::idx;
use lmc_streams::{Prepare, ReadOptions, Split};

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let (images, labels) = rest.split_at(rest.len() * usize::from(first) / 256);
    let images = (images, Path::new("images"));
    let labels = (labels, Path::new("labels"));
    let options = ReadOptions::all(Prepare::rgb_square(4));
    let _ = idx::read_from(images, labels, Split::Train, 10, &options);
});
