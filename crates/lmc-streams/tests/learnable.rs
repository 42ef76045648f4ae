//! The generated sets are worth learning: neither trivial nor hopeless from 40 images a class, and each
//! family a world of its own.

#[path = "../examples/small_cnn/network.rs"]
mod network;

use lmc_streams::generated::{Family, dataset, standard_seed};
use lmc_streams::{Channels, Dataset, Fit, Prepare, ReadOptions, Split};

fn drawn(family: Family, train: u32, test: u32, prepare: Prepare) -> Dataset {
    let keep = move |split, _, rank| rank < if split == Split::Train { train } else { test };
    dataset(family, &standard_seed(), &ReadOptions::keeping(prepare, &keep)).unwrap()
}

#[test]
fn a_small_network_learns_every_family_but_not_perfectly() {
    // Around what the example `small_cnn` gets; other machines round differently and learn differently.
    let bands = [
        (Family::Digits, 0.75, 0.97),
        (Family::Garments, 0.65, 0.95),
        (Family::Textures, 0.28, 0.75),
        (Family::Plates, 0.25, 0.75),
        (Family::Objects, 0.25, 0.75),
    ];
    for (family, low, high) in bands {
        let accuracy = network::accuracy(&drawn(family, 40, 50, Prepare::AS_IS), 12, 1);
        eprintln!("{}: {:.1} %", family.name(), 100.0 * accuracy);
        assert!((low..=high).contains(&accuracy), "{}: {accuracy}", family.name());
    }
}

#[test]
fn the_family_of_an_image_is_easy_to_tell() {
    let prepare = Prepare { fit: Fit::AsIs, channels: Channels::Rgb, invert: false };
    let sets = Family::ALL.map(|family| drawn(family, 20, 10, prepare));
    let known = sets.each_ref().map(|set| features(set, Split::Train));
    let (mut right, mut all) = (0, 0);
    for (family, set) in sets.iter().enumerate() {
        for image in features(set, Split::Test) {
            // The family of the nearest training image.
            let nearest =
                |others: &Vec<Features>| others.iter().map(|o| distance(o, &image)).fold(9e9, f64::min);
            let guess = known.iter().map(nearest).enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0;
            right += usize::from(guess == family);
            all += 1;
        }
    }
    assert!(right * 10 > all * 9, "{right} of {all}");
}

/// Mean, mean square, edges, rim and colourfulness of an image: nothing that tells its class.
type Features = [f64; 5];

fn features(set: &Dataset, split: Split) -> Vec<Features> {
    let set = set.split(split).unwrap();
    (0..set.len()).map(|index| describe(set.image(index))).collect()
}

fn describe(planar: &[u8]) -> Features {
    let value = |channel: usize, at: usize| f64::from(planar[channel * 1024 + at]) / 255.0;
    let mut sums = [0.0; 5];
    for at in 0..1024 {
        let grey = value(1, at);
        let colour = (value(0, at) - value(2, at)).abs() + (value(0, at) - grey).abs();
        let edge = if at % 32 < 31 { (value(1, at + 1) - grey).abs() } else { 0.0 };
        let rim = if at / 32 % 31 == 0 || at % 32 % 31 == 0 { grey * 8.0 } else { 0.0 };
        for (sum, x) in sums.iter_mut().zip([grey, grey * grey, 3.0 * edge, rim, colour]) {
            *sum += x / 1024.0;
        }
    }
    sums
}

fn distance(a: &Features, b: &Features) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}
