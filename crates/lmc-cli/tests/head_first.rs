//! What users are promised of finding the task: answers by name, honestly counted, explained, and for old models too.
#![allow(clippy::unwrap_used)]

mod machine;
mod pictures_of;

use std::fs;
use std::path::Path;

use lmc_streams::generated::Family;
use machine::{Machine, Outcome};
use pictures_of::folder;
use serde_json::Value;

fn json(outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{}", outcome.err);
    serde_json::from_str(&outcome.out).unwrap()
}

fn succeeds(outcome: &Outcome) {
    assert_eq!(outcome.code, 0, "{} {}", outcome.out, outcome.err);
}

/// A model of two tasks that look nothing like each other.
fn shop() -> Machine {
    let machine = Machine::new();
    folder(&machine, "digits", Family::Digits, 3, 30);
    folder(&machine, "textures", Family::Textures, 3, 30);
    succeeds(&machine.lmc("learn shop.lmc --task digits --data digits --width 8 --depth 2 --epochs 6"));
    machine
}

#[test]
fn a_prediction_names_class_task_and_alternatives_and_explains_itself() {
    let machine = shop();
    let words = "learn shop.lmc --task textures --data textures --epochs 6 --check digits=digits";
    let learned = machine.lmc(words);
    succeeds(&learned);
    assert!(
        learned.out.contains("'digits': with the task given nothing changed; without it"),
        "{}",
        learned.out
    );
    let found = json(&machine.lmc("predict shop.lmc digits --json"));
    let found = found.as_array().unwrap();
    let own = found.iter().filter(|found| found["task"] == "digits").count();
    assert!(own >= 86, "{own} of 90");
    let first = &found[0];
    let others = first["alternatives"].as_array().unwrap();
    assert_eq!(others.len(), 2, "three classes: {first}");
    let share = |of: &Value| of["probability"].as_f64().unwrap();
    assert!(share(first) >= share(&others[0]) && share(&others[0]) >= share(&others[1]));
    assert!(first["tasks"][0]["posterior"].as_f64().unwrap() > 0.5);
    assert!(first.get("evidence").is_none() && first.get("weights").is_none(), "only with --explain");
    let picture = first["file"].as_str().unwrap();
    let explained = machine.lmc(&format!("predict shop.lmc {picture} --explain"));
    for part in
        ["digits looks likeliest", "textures is e^", "times less likely", "class: ", "modules: 0 (1.00)"]
    {
        assert!(explained.out.contains(part), "'{part}' is not in: {}", explained.out);
    }
    let evidence = json(&machine.lmc(&format!("predict shop.lmc {picture} --explain --json")));
    assert_eq!(evidence[0]["evidence"].as_array().unwrap().len(), 2);
}

/// Two tasks whose classes stand in another order: a label position says nothing about the name.
#[test]
fn names_count_and_the_papers_count_stands_beside() {
    let machine = shop();
    succeeds(&machine.lmc("learn shop.lmc --task textures --data textures --epochs 6"));
    let words = "evaluate shop.lmc --task digits --data digits --task textures --data textures --json";
    let by_name = json(&machine.lmc(words));
    let strict = json(&machine.lmc(&format!("{words} --strict")));
    for task in 0..2 {
        let (name, strict) = (&by_name[task], &strict[task]);
        assert_eq!((&name["counted"], &strict["counted"]), (&"name".into(), &"task_and_name".into()));
        let share = |of: &Value, count: &str, protocol: &str| of[count][protocol].as_f64().unwrap();
        for protocol in ["single", "mixed", "task_batches"] {
            assert!(share(name, "paper_count", protocol) >= share(name, "accuracy", protocol), "{protocol}");
            assert!(share(name, "accuracy", protocol) >= share(strict, "accuracy", protocol), "{protocol}");
        }
        assert_eq!(
            share(name, "accuracy", "single"),
            share(name, "accuracy", "mixed"),
            "company does not matter"
        );
        assert!(name["task_found"].as_f64().unwrap() > 0.95);
    }
    let table = machine.lmc("evaluate shop.lmc --task digits --data digits").out;
    for title in ["single images", "task found", "paper's count"] {
        assert!(table.contains(title), "'{title}' is not in: {table}");
    }
}

#[test]
fn a_model_of_an_earlier_version_says_what_it_lacks_until_it_is_calibrated() {
    let machine = Machine::new();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files_before_12/digits.lmc");
    fs::copy(old, machine.path("old.lmc")).unwrap();
    let evaluate = "evaluate old.lmc --task digits --data generated-digits --at-most 100 --json";
    let before = json(&machine.lmc(evaluate));
    let asked = machine.lmc(&format!("{evaluate} --head-choice signature"));
    assert!(
        asked.err.contains("no signature of digits") && asked.err.contains("lmc calibrate"),
        "{}",
        asked.err
    );
    assert_eq!(json(&asked)["confusion"], before["confusion"], "as before");
    let words = "calibrate old.lmc --task digits --data generated-digits";
    let wrong = machine.lmc("calibrate old.lmc --task digits --data generated-textures");
    assert!(wrong.code == 2 && wrong.err.contains("class"), "{}", wrong.err);
    let calibrated = machine.lmc(words);
    succeeds(&calibrated);
    assert!(calibrated.out.contains("heads are found by it"), "{}", calibrated.out);
    let inspected = json(&machine.lmc("inspect old.lmc --json"));
    assert_eq!(inspected["learner"]["prediction"]["head_choice"], "signature");
    assert!(machine.lmc("history old.lmc").out.contains("calibrated 'digits'"));
    succeeds(&machine.lmc("verify old.lmc"));
    assert_eq!(machine.lmc(evaluate).err, "", "nothing is missing any more");
    let missing = machine.lmc("calibrate old.lmc --task shirts --data generated-digits");
    assert!(missing.code == 2 && missing.err.contains("shirts"), "{}", missing.err);
}
