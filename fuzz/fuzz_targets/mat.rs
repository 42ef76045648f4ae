//! MATLAB 5 files as SVHN's.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use lmc_streams::formats::mat;
use lmc_streams::{Prepare, ReadOptions, Split};

fuzz_target!(|bytes: &[u8]| {
    let options = ReadOptions::all(Prepare::rgb_square(4));
    let _ = mat::read_from(Cursor::new(bytes), Path::new("file.mat"), Split::Train, &options);
});
