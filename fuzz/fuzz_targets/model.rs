//! Random bytes as a model file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use lmc::Model;

fuzz_target!(|bytes: &[u8]| {
    // Errors are fine; panics and gigabytes are not. The checksum is not looked at when fuzzing.
    let _ = Model::from_bytes(bytes, Path::new("fuzz"), &lmc::Device::flex());
});
