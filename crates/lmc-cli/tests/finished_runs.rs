//! What is measured on finished networks: ways to find the head, and novelty. What is kept beside a run is the result.
#![allow(clippy::unwrap_used)]

mod machine;

use std::fs;

use machine::{Machine, Outcome};
use serde_json::Value;

const STREAM: &str = r#"
name = "two"
[[task]]
name = "digits"
data = "generated-digits"
classes = 3
train = 20
val = 12
test = 10
[[task]]
name = "textures"
data = "generated-textures"
classes = 3
train = 20
val = 12
test = 10
"#;

const RUN: &str = r#"
stream = "two.toml"
preset = "s_minus"
network = { width = 8, depth = 2 }
evaluate = "ends"

[learner]
epochs = 5
batch = 16
statistics.window = 5
projection = { epochs = 1, epochs_after = 1 }
"#;

fn json(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    serde_json::from_str(&outcome.out).unwrap()
}

fn finished() -> Machine {
    let machine = Machine::new();
    fs::write(machine.path("two.toml"), STREAM).unwrap();
    fs::write(machine.path("run.toml"), RUN).unwrap();
    let ran = machine.lmc("run run.toml --out runs/one");
    assert_eq!(ran.code, 0, "{}", ran.err);
    machine
}

#[test]
fn rules_are_compared_and_what_was_measured_is_kept() {
    let machine = finished();
    let found = json(&machine.lmc("head-rules runs --rule signature --rule paper --json"));
    let rules = found[0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 2);
    for rule in rules {
        for task in rule["tasks"].as_array().unwrap() {
            assert_eq!(task["images"], 30);
            let single = task["by_name"]["single"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&single) && task["microseconds"].as_f64().unwrap() > 0.0);
        }
    }
    let signature = rules.iter().find(|rule| rule["rule"] == "signature").unwrap();
    for task in signature["tasks"].as_array().unwrap() {
        assert!(task["task_found"].as_f64().unwrap() > 0.8, "{task}");
        assert_eq!(
            task["by_name"]["single"], task["by_name"]["mixed"],
            "the same alone and in mixed company"
        );
    }
    // The network is not needed again.
    fs::remove_file(machine.path("runs/one/model.safetensors")).unwrap();
    assert_eq!(json(&machine.lmc("head-rules runs --rule signature --rule paper --json")), found);
    let table = machine.lmc("head-rules runs --rule signature");
    assert!(table.out.contains("signature") && !table.out.contains("structural loss"), "{}", table.out);
    let refused = machine.lmc("head-rules runs --rule luck");
    assert!(refused.code != 0 && refused.err.contains("structural_loss"), "{}", refused.err);
    let missing = machine.lmc("head-rules nowhere");
    assert!(missing.code != 0 && missing.err.contains("nowhere"), "{}", missing.err);
}

#[test]
fn unknown_images_are_told_from_known_ones() {
    let machine = finished();
    let found = json(&machine.lmc("novelty runs --at-most 30 --json"));
    let unknown = found[0]["unknown"].as_array().unwrap();
    let by_name = |name: &str| unknown.iter().find(|kind| kind["unknown"] == name).unwrap();
    for name in ["generated-digits, forgotten", "generated-garments", "digits, turned by a quarter"] {
        assert_eq!(by_name(name)["images"], 30);
    }
    assert!(unknown.iter().all(|kind| kind["unknown"] != "generated-digits"), "it is known");
    for name in ["uniform noise", "single colours"] {
        let auroc = by_name(name)["both"]["detection"]["auroc"].as_f64().unwrap();
        assert!(auroc > 0.9, "{name}: {auroc}");
    }
    fs::remove_file(machine.path("runs/one/model.safetensors")).unwrap();
    assert_eq!(json(&machine.lmc("novelty runs --at-most 30 --json")), found);
    assert!(machine.lmc("novelty runs --at-most 30").out.contains("single colours"));
}

#[test]
fn tasks_are_told_apart_without_a_network() {
    let machine = Machine::new();
    fs::write(machine.path("two.toml"), STREAM).unwrap();
    let found = json(&machine.lmc("tell-apart --stream two.toml --json"));
    for (task, name) in found["tasks"].as_array().unwrap().iter().zip(["digits", "textures"]) {
        assert_eq!(task["task"], name);
        let clean = task["found"][0][1].as_f64().unwrap();
        assert!(clean > 0.8, "{task}");
    }
}
