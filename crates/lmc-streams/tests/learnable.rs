//! The generated sets are worth learning: neither trivial nor hopeless from 40 images a class, and each
//! family a world of its own.

#[path = "../examples/small_cnn/network.rs"]
mod network;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use lmc_streams::generated::{Family, dataset, standard_seed};
use lmc_streams::{Channels, Dataset, Fit, ImageSet, LeftOut, Prepare, ReadOptions, Result, Split};

#[test]
fn a_small_network_learns_every_family_but_not_perfectly() {
    // Measured with three seeds: 88-89, 82-87, 36-41, 45-57 and 45-52 %. The bands leave room for machines
    // that round differently and so learn differently.
    let bands = [
        (Family::Digits, 0.78, 0.96),
        (Family::Garments, 0.70, 0.93),
        (Family::Textures, 0.28, 0.62),
        (Family::Plates, 0.28, 0.70),
        (Family::Objects, 0.32, 0.68),
    ];
    for (family, low, high) in bands {
        let accuracy = learned(&drawn(family, 40, 50, Prepare::AS_IS).unwrap(), 12);
        eprintln!("{}: {:.1} %", family.name(), 100.0 * accuracy);
        assert!((low..=high).contains(&accuracy), "{}: {accuracy}", family.name());
    }
}

#[test]
fn the_family_of_an_image_is_easy_to_tell() {
    // The same network with the family as the class.
    let rgb = Prepare { fit: Fit::AsIs, channels: Channels::Rgb, invert: false };
    let (mut train, mut test) = (ImageSet::new(5), ImageSet::new(5));
    for (label, family) in (0..).zip(Family::ALL) {
        let set = drawn(family, 20, 10, rgb).unwrap();
        for (from, to) in [(&set.train, &mut train), (&set.test, &mut test)] {
            for index in 0..from.len() {
                let rank = to.count(label);
                to.push(&from.picture(index), label, rank, (Path::new("families"), "image")).unwrap();
            }
        }
    }
    let families = Dataset {
        name: "families".into(),
        classes: Family::ALL.map(|family| family.name().to_owned()).to_vec(),
        train: Arc::new(train),
        val: None,
        test: Arc::new(test),
        left_out: LeftOut::default(),
    };
    let accuracy = learned(&families, 8);
    eprintln!("families: {:.1} %", 100.0 * accuracy);
    assert!(accuracy > 0.9, "{accuracy}");
}

fn drawn(family: Family, train: u32, test: u32, prepare: Prepare) -> Result<Dataset> {
    let keep = move |split, _, rank| rank < if split == Split::Train { train } else { test };
    dataset(family, &standard_seed(), &ReadOptions::keeping(prepare, &keep))
}

fn learned(dataset: &Dataset, epochs: usize) -> f64 {
    // burn's seed is one for the whole process: two networks at a time would make each other random.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    network::accuracy(dataset, epochs, 1)
}
