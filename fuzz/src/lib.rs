//! What several fuzz targets share: files that fit their own claims, and a folder in memory.

use std::fs;
use std::path::PathBuf;

mod fitted;

pub use fitted::fitted;

/// A folder of this process, in memory where the machine has that, for what is only read from files.
pub fn folder(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = place.join(format!("lmc-fuzz-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the fuzzer");
    folder
}

/// Whether a network is small enough to be run thousands of times. What is larger is only loaded.
pub fn is_small(model: &lmc::Model) -> bool {
    let config = &model.network.config;
    let modules: usize = model.network.modules().iter().sum();
    config.size <= 32 && config.width <= 16 && modules <= 32 && model.network.heads.len() <= 32
}
