//! The paper's streams, image for image, against numbers computed without this crate: a Python script with
//! numpy, pyarrow and Pillow read the stream file and the data, prepared the images, and folded every byte
//! of every image, in order, into one number per task and split.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::HashMap;
use std::io::Write;

use lmc_streams::{Catalog, DataDirs, PAPER_STREAMS, Split, Stream, StreamRequest, TaskSet, Variant};

/// `h = 31 h + sum of bytes weighted by position + label`, modulo a prime.
fn fold(set: &TaskSet) -> u64 {
    let mut bytes = vec![0; set.shape().bytes()];
    (0..set.len()).fold(0, |hash: u64, position| {
        set.write(position, &mut bytes);
        let weighted = |(at, &byte): (usize, &u8)| u64::from(byte) * (at as u64 % 251 + 1);
        let sum: u64 = bytes.iter().enumerate().map(weighted).sum();
        let next = u128::from(hash) * 31 + u128::from(sum) + u128::from(set.label(position));
        (next % ((1 << 61) - 1)) as u64
    })
}

fn catalog() -> Catalog {
    let root = std::env::var_os("LMC_DATA").expect("LMC_DATA names the folder of the real data");
    Catalog::new(DataDirs::only(root))
}

fn full(name: &str) -> StreamRequest {
    StreamRequest { variant: Variant::Full, ..StreamRequest::named(name) }
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn every_byte_is_where_an_independent_reading_finds_it() {
    let catalog = catalog();
    let mut streams: HashMap<&str, Stream> = HashMap::new();
    for (name, task, split, images, expected) in GOLDEN {
        let stream = streams.entry(name).or_insert_with(|| catalog.stream(&full(name)).unwrap());
        let task = &stream.tasks[task];
        if task.dataset == "dtd" && task.substitution.is_none() {
            // Not by a macro: cargo hides what passing tests print with those.
            let _ = writeln!(std::io::stderr(), "skipped: {name}, dtd: the numbers are those of dtd10");
            continue;
        }
        assert_eq!(task.set(split).len(), images, "{name} {}", task.name);
        assert_eq!(fold(task.set(split)), expected, "{name} {} {split}", task.name);
    }
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn every_stream_of_the_paper_loads() {
    let catalog = catalog();
    for info in PAPER_STREAMS {
        let stream = catalog.stream(&full(info.name)).unwrap();
        assert_eq!(stream.tasks.len(), info.tasks, "{}", info.name);
        let dtd = stream.tasks.iter().any(|task| task.substitution.is_some());
        assert_eq!(dtd, !stream.substitutions.is_empty());
        for task in &stream.tasks {
            // Labels are the positions of the classes: every label occurs, and no other.
            let labels = |set: &TaskSet| (0..set.len()).map(|at| set.label(at) as usize).max();
            assert_eq!(labels(&task.test), Some(task.classes.len() - 1), "{} {}", info.name, task.name);
        }
    }
}

const GOLDEN: [(&str, usize, Split, usize, u64); 35] = [
    ("s_minus", 0, Split::Test, 10_000, 172_351_464_038_975_834),
    ("s_minus", 0, Split::Train, 4000, 808_959_875_388_336_919),
    ("s_minus", 0, Split::Val, 2000, 263_193_438_776_004_260),
    ("s_minus", 1, Split::Test, 9786, 523_714_874_887_577_015),
    ("s_minus", 1, Split::Train, 400, 628_544_836_146_976_788),
    ("s_minus", 1, Split::Val, 200, 893_664_490_465_827_589),
    ("s_minus", 2, Split::Test, 400, 217_291_285_913_470_095),
    ("s_minus", 2, Split::Train, 400, 1_247_173_975_032_289_048),
    ("s_minus", 2, Split::Val, 200, 1_093_743_566_437_272_745),
    ("s_minus", 3, Split::Test, 10_000, 906_999_122_954_325_166),
    ("s_minus", 3, Split::Train, 400, 496_269_827_297_099_974),
    ("s_minus", 3, Split::Val, 200, 878_432_842_872_785_949),
    ("s_minus", 4, Split::Test, 10_000, 1_448_755_707_911_892_561),
    ("s_minus", 4, Split::Train, 400, 1_296_683_565_383_989_635),
    ("s_minus", 4, Split::Val, 200, 147_997_667_450_448_086),
    ("s_minus", 5, Split::Test, 10_000, 172_351_464_038_975_834),
    ("s_minus", 5, Split::Train, 400, 807_405_359_005_232_865),
    ("s_minus", 5, Split::Val, 200, 1_197_715_453_190_399_772),
    ("s_in", 0, Split::Train, 4000, 7_676_820_932_881_593),
    ("s_in", 0, Split::Val, 2000, 1_609_581_563_535_879_013),
    ("s_in", 1, Split::Train, 400, 762_187_055_004_819_442),
    ("s_in", 1, Split::Val, 200, 1_779_551_400_020_962_670),
    ("s_in", 2, Split::Train, 400, 1_247_173_975_032_289_048),
    ("s_in", 2, Split::Val, 200, 2_003_729_917_671_144_019),
    ("s_in", 3, Split::Train, 400, 1_254_032_064_883_476_326),
    ("s_in", 3, Split::Val, 200, 319_303_860_060_829_650),
    ("s_in", 4, Split::Train, 400, 1_337_649_609_251_062_397),
    ("s_in", 4, Split::Val, 200, 1_978_266_911_171_458_027),
    ("s_in", 5, Split::Train, 50, 1_377_962_855_593_258_157),
    ("s_in", 5, Split::Val, 30, 230_330_145_399_004_611),
    ("cmnist_ood_train", 0, Split::Val, 400, 1_856_810_402_892_683_236),
    ("cmnist_ood_train", 1, Split::Val, 400, 1_562_315_333_576_394_345),
    ("cmnist_ood_train", 2, Split::Val, 400, 905_582_166_105_403_633),
    ("cmnist_ood_train", 3, Split::Val, 400, 195_490_910_647_383_772),
    ("cmnist_ood_train", 4, Split::Val, 400, 1_763_835_363_030_901_180),
];
