//! Files that lmc wrote before issue 12 renamed half of what is in them: a model, a checkpoint of `lmc learn`, a finished run
//! and two that were killed in their second task.
#![allow(clippy::unwrap_used)]

mod machine;

use std::fs;
use std::path::Path;

use machine::Machine;
use serde_json::Value;

/// A machine with the old files in its home.
fn machine() -> Machine {
    let machine = Machine::new();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files_before_12"), &machine.path(""));
    machine
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_model_loads_and_predicts_as_before() {
    let machine = machine();
    let inspected = json(&machine.lmc("inspect digits.lmc --json").out);
    assert_eq!(inspected["heads"][0]["calibrated"], true);
    assert_eq!(inspected["learner"]["budget"], "by_images", "made by the preset own");
    assert_eq!(inspected["preparation"]["fit"], "crop");
    assert_eq!(inspected["learner"]["prediction"]["head_choice"], "task_gaussian");
    let words = "evaluate digits.lmc --task digits --data generated-digits --at-most 200 --json";
    let (ours, before) = (json(&machine.lmc(words).out), fs::read(machine.path("digits_evaluation.json")));
    let before = json(&String::from_utf8(before.unwrap()).unwrap());
    assert_eq!(ours["confusion"], before["confusion"]);
    for protocol in ["task_given", "task_batches", "mixed", "single"] {
        let share = |of: &Value| of["accuracy"][protocol].as_f64().unwrap();
        // Another instruction set may round one image of 200 to the other side.
        assert!((share(&ours) - share(&before)).abs() <= 0.01, "{protocol}: {ours}");
    }
}

#[test]
fn a_task_resumes_from_its_checkpoint() {
    let machine = machine();
    let resumed =
        machine.lmc("learn digits.lmc --task textures --data generated-textures --epochs 4 --threads 1");
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert!(resumed.err.contains("task 'textures' resumes after epoch 2"), "{}", resumed.err);
    let inspected = json(&machine.lmc("inspect digits.lmc --json").out);
    assert_eq!(inspected["heads"].as_array().unwrap().len(), 2);
    assert_eq!(inspected["learner"]["budget"], "by_images", "the task's own epochs are not the model's");
    assert_eq!(inspected["layers"][1][1]["origin"]["task"], "textures");
    assert!(!machine.path("digits.lmc.partial").exists());
}

#[test]
fn killed_runs_resume() {
    let machine = machine();
    for (method, file) in [("killed_lmc", "lmc.toml"), ("killed_ewc", "ewc.toml")] {
        let first = fs::read_to_string(machine.path(method).join("events.jsonl")).unwrap();
        let resumed = machine.lmc(&format!("run {file} --out {method} --threads 1"));
        assert_eq!(resumed.code, 0, "{method}: {}", resumed.err);
        assert!(!resumed.err.contains("task 'digits'"), "{method} began anew: {}", resumed.err);
        let events = fs::read_to_string(machine.path(method).join("events.jsonl")).unwrap();
        assert_eq!(events.lines().next(), first.lines().next());
        let metrics = json(&fs::read_to_string(machine.path(method).join("metrics.json")).unwrap());
        assert_eq!(metrics["tasks"].as_array().unwrap().len(), 2, "{method}");
    }
}

#[test]
fn a_finished_run_is_reported() {
    let machine = machine();
    let again = machine.lmc("run lmc.toml --out finished");
    assert_eq!(again.code, 0, "{}", again.err);
    assert!(again.err.contains("this run was done"), "{}", again.err);
    let report = machine.lmc("report finished --out report");
    assert_eq!(report.code, 0, "{}", report.err);
    assert!(report.out.contains("LMC(A)"), "{}", report.out);
}
