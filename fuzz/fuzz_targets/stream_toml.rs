//! A stream of a user's own: whatever the text says, it becomes a recipe or an error.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use lmc_streams::StreamFile;

fuzz_target!(|text: &str| {
    if let Ok(file) = StreamFile::parse(text) {
        let _ = file.recipe(Path::new("no such folder"), None);
    }
});
