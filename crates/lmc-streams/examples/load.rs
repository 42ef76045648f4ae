//! Loads a user's data and says what was found and how long it took: `cargo run --release --example load DIR`.

use std::path::Path;
use std::time::Instant;

use lmc_streams::formats::read_any;
use lmc_streams::{Prepare, ReadOptions, Split};

fn main() -> lmc_streams::Result<()> {
    for argument in std::env::args().skip(1) {
        let start = Instant::now();
        let data = read_any(Path::new(&argument), &ReadOptions::all(Prepare::AS_IS))?;
        println!("{}: {} classes, {:?}", data.name, data.classes.len(), data.shape());
        for split in Split::ALL {
            if let Some(set) = data.split(split) {
                println!("  {split}: {} images, {} bytes", set.len(), set.bytes());
            }
        }
        println!("  {} ms", start.elapsed().as_millis());
    }
    Ok(())
}
