//! What `lmc data` promises.
#![allow(clippy::unwrap_used)]

mod machine;

use machine::{Machine, real_data};
use serde_json::Value;

#[test]
fn the_list_tells_what_is_known_and_what_is_here() {
    let machine = Machine::new();
    let outcome = machine.lmc("data list --json");
    let sets: Value = serde_json::from_str(&outcome.out).unwrap();
    let find = |name: &str| sets.as_array().unwrap().iter().find(|set| set["name"] == name).unwrap().clone();
    assert_eq!(find("mnist")["present"], false);
    assert_eq!(find("cifar100")["classes"], 100);
    assert_eq!(find("generated-digits")["present"], true);
    assert!(machine.lmc("data list").out.contains("lmc data get"));
}

#[test]
fn a_generated_set_is_shown_with_its_sheet() {
    let machine = Machine::new();
    let outcome = machine.lmc("data show generated-plates --sheet plates.png");
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.out.contains("10 classes") && outcome.out.contains("15,000 train"), "{}", outcome.out);
    let picture = image::open(machine.path("plates.png")).unwrap();
    assert!(picture.width() > 640 && picture.height() > 640, "ten by ten images, twice as large");
}

#[test]
fn own_pictures_of_any_size_are_shown() {
    let machine = Machine::new();
    for (class, side) in [("cat", 50), ("dog", 9)] {
        machine.png(&format!("photos/train/{class}/1.png"), side, 40);
        machine.png(&format!("photos/test/{class}/1.png"), side + 1, 80);
    }
    let shown: Value = serde_json::from_str(&machine.lmc("data show photos --json").out).unwrap();
    assert_eq!(shown["shape"], serde_json::json!([3, 32, 32]));
    assert_eq!(shown["classes"][1], serde_json::json!({"name": "dog", "train": 1, "val": 0, "test": 1}));
}

#[test]
fn nothing_to_verify_is_said_and_a_missing_set_is_an_error() {
    let machine = Machine::new();
    assert!(machine.lmc("data verify").out.contains("nothing to verify"));
    let outcome = machine.lmc("data verify mnist");
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("lmc data get mnist"), "{}", outcome.err);
}

#[test]
fn unknown_names_are_refused_before_anything_is_downloaded() {
    let machine = Machine::new();
    let outcome = machine.lmc("data get mnist cifra10");
    assert_eq!(outcome.code, 2);
    assert!(outcome.err.contains("did you mean 'cifar10'"), "{}", outcome.err);
    assert!(!machine.path("xdg").exists());
}

#[test]
#[cfg_attr(not(real_data), ignore = "no real data: set LMC_DATA")]
fn the_real_files_are_what_their_list_says() {
    let data = real_data();
    let outcome = Machine::new().lmc(&format!("--data-dir {data} data verify mnist dtd10"));
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    assert!(outcome.out.contains("right") && !outcome.out.contains("wrong"), "{}", outcome.out);
}
