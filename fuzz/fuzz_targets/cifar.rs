//! CIFAR: an archive, packed or not, read as both kinds.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use lmc_streams::formats::cifar::{Kind, read_from};
use lmc_streams::{Prepare, ReadOptions};

fuzz_target!(|bytes: &[u8]| {
    let options = ReadOptions::all(Prepare::AS_IS);
    for kind in [Kind::Ten, Kind::Hundred] {
        let _ = read_from(Cursor::new(bytes), Path::new("archive"), kind, &options);
    }
});
