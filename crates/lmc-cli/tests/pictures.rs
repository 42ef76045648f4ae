//! Pictures as users have them: turned by a camera, in many formats, beside other files, damaged.
#![allow(clippy::unwrap_used)]

mod machine;

use std::fs;

use image::{GrayImage, ImageFormat, Luma, RgbImage};
use machine::Machine;
use serde_json::Value;

/// Light above dark, or dark above light, with a little noise.
fn half(light_above: bool, seed: u32) -> RgbImage {
    RgbImage::from_fn(40, 40, |x, y| {
        let light = (y < 20) == light_above;
        let noise = (x * 7 + y * 13 + seed * 29) % 40;
        let value = if light { 200 + noise as u8 } else { 20 + noise as u8 };
        image::Rgb([value, value, value])
    })
}

/// `above` and `below` with 12 pictures each, in changing formats.
fn halves(machine: &Machine, folder: &str) {
    let formats = ["png", "jpg", "gif", "bmp", "tiff", "webp"];
    for (class, light_above) in [("above", true), ("below", false)] {
        let path = machine.path(&format!("{folder}/{class}"));
        fs::create_dir_all(&path).unwrap();
        for number in 0..12_u32 {
            let format = formats[number as usize % formats.len()];
            half(light_above, number).save(path.join(format!("{number}.{format}"))).unwrap();
        }
    }
}

/// A JPEG whose EXIF block says that it must be turned by half.
fn turned_jpeg(picture: &RgbImage) -> Vec<u8> {
    let mut jpeg = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut jpeg, ImageFormat::Jpeg).unwrap();
    let jpeg = jpeg.into_inner();
    // A TIFF header, one entry: tag 0x0112 (orientation), type SHORT, one value, 3 (turned by 180 degrees).
    let tiff =
        [&b"Exif\0\0MM\0*\0\0\0\x08"[..], &[0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0]]
            .concat();
    let length = (tiff.len() as u16 + 2).to_be_bytes();
    [&jpeg[..2], &[0xff, 0xe1], &length, &tiff, &jpeg[2..]].concat()
}

const SMALL: &str = "--width 8 --depth 2 --epochs 30 --val-fraction 0.2";

#[test]
fn formats_turned_photos_and_other_files() {
    let machine = Machine::new();
    halves(&machine, "halves");
    for name in ["above/a.heic", "above/b.heic", "below/notes.txt"] {
        fs::write(machine.path("halves").join(name), b"no picture").unwrap();
    }
    let learned = machine.lmc(&format!("learn m.lmc --task halves --data halves {SMALL}"));
    assert_eq!(learned.code, 0, "{}", learned.err);
    assert!(learned.out.contains("3 files skipped: 2 .heic, 1 .txt"), "{}", learned.out);

    fs::write(machine.path("turned.jpg"), turned_jpeg(&half(false, 99))).unwrap();
    half(false, 99).save(machine.path("upright.jpg")).unwrap();
    let found = machine.lmc("predict m.lmc turned.jpg upright.jpg halves --json");
    assert_eq!(found.code, 0, "{}", found.err);
    assert!(found.err.contains("3 files skipped"), "{}", found.err);
    let found: Value = serde_json::from_str(&found.out).unwrap();
    assert_eq!((&found[0]["class"], &found[1]["class"]), (&"above".into(), &"below".into()), "{found}");
    assert_eq!(found.as_array().unwrap().len(), 26);
}

#[test]
fn damaged_pictures_are_listed_at_once_or_left_out() {
    let machine = Machine::new();
    halves(&machine, "halves");
    for name in ["above/x.png", "below/y.jpg"] {
        fs::write(machine.path("halves").join(name), b"not a picture at all").unwrap();
    }
    let refused = machine.lmc(&format!("learn m.lmc --task halves --data halves {SMALL}"));
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("x.png") && refused.err.contains("y.jpg"), "{}", refused.err);
    assert!(!machine.path("m.lmc").exists());
    let words = "learn m.lmc --task halves --data halves --skip-damaged --width 8 --depth 2 --epochs 1";
    let learned = machine.lmc(words);
    assert_eq!(learned.code, 0, "{}", learned.err);
    assert!(
        learned.out.contains("2 damaged pictures left out") && learned.out.contains("x.png"),
        "{}",
        learned.out
    );
}

#[test]
fn splits_are_no_classes_and_missing_folders_no_data_sets() {
    let machine = Machine::new();
    halves(&machine, "set/Train");
    halves(&machine, "set/TEST");
    halves(&machine, "set/valid");
    let words = "learn m.lmc --task halves --data set --width 8 --depth 2 --epochs 1 --json";
    let learned: Value = serde_json::from_str(&machine.lmc(words).out).unwrap();
    let classes = learned["data"]["classes"].as_array().unwrap();
    assert_eq!(classes.len(), 2);
    assert_eq!(
        (&classes[0]["train"], &classes[0]["val"], &classes[0]["test"]),
        (&12.into(), &12.into(), &12.into())
    );
    // A folder of one's own comes before a data set of that name.
    halves(&machine, "generated-digits");
    let words = "learn n.lmc --task x --data generated-digits --width 8 --depth 2 --epochs 1 --json";
    let own: Value = serde_json::from_str(&machine.lmc(words).out).unwrap();
    assert_eq!(own["data"]["classes"].as_array().unwrap().len(), 2);
    let missing = machine.lmc("learn o.lmc --task x --data photos/summer");
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("no such folder or file"), "{}", missing.err);
}

/// Class names of MNIST, as torchvision has them.
const NAMES: [&str; 10] = [
    "0 - zero",
    "1 - one",
    "2 - two",
    "3 - three",
    "4 - four",
    "5 - five",
    "6 - six",
    "7 - seven",
    "8 - eight",
    "9 - nine",
];

/// A model learned from MNIST's files is evaluated on the same pictures as PNG files, and prepares them alike.
#[test]
fn a_known_data_set_and_its_pictures_are_prepared_alike() {
    let machine = Machine::new();
    let digit = |number: u32| GrayImage::from_fn(28, 28, |x, y| Luma([((x * number + y * 3) % 256) as u8]));
    let folder = machine.path("data/mnist");
    fs::create_dir_all(&folder).unwrap();
    let labels: Vec<u8> = (0..20).map(|number| number % 10).collect();
    let pixels: Vec<u8> = (0..20).flat_map(|number| digit(number).into_raw()).collect();
    let count = 20_u32.to_be_bytes();
    let images = [&[0, 0, 8, 3][..], &count, &[0, 0, 0, 28, 0, 0, 0, 28], &pixels].concat();
    let labels = [&[0, 0, 8, 1][..], &count, &labels].concat();
    for split in ["train", "t10k"] {
        for (kind, bytes) in [("images-idx3", &images), ("labels-idx1", &labels)] {
            let file = fs::File::create(folder.join(format!("{split}-{kind}-ubyte.gz"))).unwrap();
            let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            std::io::Write::write_all(&mut packed, bytes).unwrap();
            packed.finish().unwrap();
        }
    }
    let words = "--data-dir data learn m.lmc --task mnist --data mnist --width 4 --depth 2 --epochs 1";
    let learned = machine.lmc(words);
    assert_eq!(learned.code, 0, "{}", learned.err);
    for number in 0..20_u32 {
        let class = NAMES[number as usize % 10];
        let path = machine.path(&format!("files/{class}/{number:02}.png"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        digit(number).save(path).unwrap();
    }
    let accuracy = |data: &str| {
        let words = format!("--data-dir data evaluate m.lmc --task mnist --data {data} --json");
        let outcome = machine.lmc(&words);
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        serde_json::from_str::<Value>(&outcome.out).unwrap()["accuracy"]["single"].clone()
    };
    assert_eq!(accuracy("mnist"), accuracy("files"));
}
