//! The memory budget: what it bounds, that it changes no result, and what is said where it does not suffice.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod machine;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, GrayImage, ImageEncoder, Luma};
use machine::Machine;

/// Runs `lmc` where its data may not grow beyond so many MiB: the system refuses the rest, which aborts the program.
fn within(machine: &Machine, mib: u64, words: &str) -> Output {
    let lmc = assert_cmd::cargo::cargo_bin("lmc");
    let script = format!("ulimit -d {} && exec \"$0\" {words}", mib << 10);
    let mut command = Command::new("bash");
    command.args(["-c", &script]).arg(lmc).current_dir(machine.path(".")).env_remove("LMC_DATA");
    command.output().unwrap()
}

fn texts(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn png(path: &Path, side: u32, value: u8) {
    let picture = GrayImage::from_fn(side, side, |x, y| Luma([value.wrapping_add((x * 3 + y) as u8)]));
    picture.save(path).unwrap();
}

/// A picture of one colour: large in memory, small on disk.
fn bomb(path: &Path, side: u32) {
    let pixels = vec![0; side as usize * side as usize];
    let file = fs::File::create(path).unwrap();
    let encoder = PngEncoder::new_with_quality(file, CompressionType::Fast, FilterType::NoFilter);
    encoder.write_image(&pixels, side, side, ExtendedColorType::L8).unwrap();
}

fn two_classes(machine: &Machine, folder: &str, write: impl Fn(&Path, u8)) {
    for class in ["light", "dark"] {
        let folder = machine.path(folder).join(class);
        fs::create_dir_all(&folder).unwrap();
        for number in 0..6 {
            write(&folder.join(format!("{number}.png")), number * 9 + if class == "dark" { 100 } else { 0 });
        }
    }
}

const TINY: &str = "--width 2 --epochs 1";

#[test]
fn sixty_pictures_go_through_a_large_model_in_little_memory() {
    let machine = Machine::new();
    two_classes(&machine, "task", |path, value| png(path, 40, value));
    let taught = machine.lmc(&format!("learn m.lmc --task t --data task --image-size 1024 --depth 6 {TINY}"));
    assert_eq!(taught.code, 0, "{}", taught.err);
    fs::create_dir(machine.path("many")).unwrap();
    for number in 0..60 {
        png(&machine.path("many").join(format!("{number:02}.png")), 300, number);
    }
    // All at once take more than a GiB.
    let whole = within(&machine, 8192, "predict m.lmc many --json --memory 8G");
    assert!(whole.status.success(), "{}", texts(&whole));
    let few = within(&machine, 600, "predict m.lmc many --json --memory 200M");
    assert!(few.status.success(), "{}", texts(&few));
    assert!(whole.stdout == few.stdout, "the budget changed a prediction");
    let limited = within(&machine, 600, "predict m.lmc many --json --memory 8G");
    assert!(!limited.status.success(), "the limit of this test is no limit");
    // Batches that share a prior cannot be cut.
    let refused = machine.lmc("predict m.lmc many --batch-by-task --memory 200M");
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("60 images") && refused.err.contains("--memory"), "{}", refused.err);
}

#[test]
fn picture_bombs_are_decoded_one_by_one() {
    let machine = Machine::new();
    two_classes(&machine, "bombs", |path, _| bomb(path, 8000));
    let learn = |model: &str, memory: &str| {
        format!("learn {model} --task t --data bombs --threads 8 --memory {memory} {TINY}")
    };
    let one = within(&machine, 450, &learn("one.lmc", "300M"));
    assert!(one.status.success(), "{}", texts(&one));
    let limited = within(&machine, 450, &learn("limited.lmc", "8G"));
    assert!(!limited.status.success(), "the limit of this test is no limit");
    let all = within(&machine, 8192, &learn("all.lmc", "8G"));
    assert!(all.status.success(), "{}", texts(&all));
    assert!(fs::read(machine.path("one.lmc")).unwrap() == fs::read(machine.path("all.lmc")).unwrap());
    // One that does not fit alone is named.
    let refused = machine.lmc(&learn("none.lmc", "100M"));
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("--memory") && refused.err.contains("bombs"), "{}", refused.err);
    assert!(!machine.path("none.lmc").exists());
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let machine = Machine::new();
    for (size, word) in [("12", "512M"), ("1X", "512M"), ("1K", "16 MiB"), ("-3G", "512M")] {
        let refused = machine.lmc(&format!("predict m.lmc a.png --memory={size}"));
        assert!(refused.code == 2 && refused.err.contains(word), "{size}: {}", refused.err);
    }
}
