//! Sets `cfg(real_data)` when `LMC_DATA` names a folder of data while the tests are built. Tests that need real data
//! are ignored without it, which `cargo test` shows, instead of passing without having looked at anything.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LMC_DATA");
    println!("cargo::rustc-check-cfg=cfg(real_data)");
    if env::var_os("LMC_DATA").is_some_and(|folder| !folder.is_empty()) {
        println!("cargo::rustc-cfg=real_data");
    }
}
