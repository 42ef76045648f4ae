//! Trains a small network on 40 images a class of a generated set:
//! `cargo run --release -p lmc-streams --example small_cnn -- generated-textures 1` (name and training seed)

use std::time::Instant;

use lmc_streams::generated::{Family, dataset, standard_seed};
use lmc_streams::{Prepare, ReadOptions, Split};

mod network;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "generated-digits".into());
    let family = Family::from_name(&name).ok_or_else(|| {
        let names = Family::ALL.map(Family::name).join(", ");
        format!("there is no generated set called '{name}'; take one of {names}")
    })?;

    let start = Instant::now();
    let keep = |split, _, rank| rank < if split == Split::Train { 40 } else { 50 };
    let dataset = dataset(family, &standard_seed(), &ReadOptions::keeping(Prepare::AS_IS, &keep))?;
    println!("{name}: drew {} images in {:.2} s", dataset.len(), start.elapsed().as_secs_f64());

    let start = Instant::now();
    let seed = std::env::args().nth(2).map_or(Ok(1), |seed| seed.parse())?;
    let accuracy = network::accuracy(&dataset, 12, seed);
    println!("{:.1} % right after {:.1} s", 100.0 * accuracy, start.elapsed().as_secs_f64());
    Ok(())
}
