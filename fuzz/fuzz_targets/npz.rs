//! A user's own arrays.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use lmc_streams::formats::npz;
use lmc_streams::{Prepare, ReadOptions};

fuzz_target!(|bytes: &[u8]| {
    let options = ReadOptions::all(Prepare::rgb_square(4));
    let _ = npz::read_from(Cursor::new(bytes), Path::new("file.npz"), &options);
});
