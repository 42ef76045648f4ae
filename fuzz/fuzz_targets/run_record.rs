//! The files of a run directory, and the experiments and sweeps that make some: the input is the files one after the
//! other, each behind a line `=== NAME`.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use lmc_lab::run_directory::RunDirectory;
use lmc_lab::sweep::Sweep;
use lmc_lab::{Experiment, RunEvent, RunRecords, report};

const NAMES: [&str; 7] = [
    "config.toml",
    "metrics.json",
    "cost.json",
    "events.jsonl",
    "failed.txt",
    "experiment.toml",
    "sweep.toml",
];

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| lmc_fuzz::folder("run"));

fuzz_target!(|text: &str| {
    let run = RunDirectory::new(&FOLDER.join("run"));
    fs::create_dir_all(&run.path).expect("a folder for the fuzzer");
    for name in NAMES {
        let _ = fs::remove_file(run.path.join(name));
    }
    for file in format!("\n{text}").split("\n=== ").skip(1) {
        let (name, content) = file.split_once('\n').unwrap_or((file, ""));
        if NAMES.contains(&name) {
            fs::write(run.path.join(name), content).expect("a file for the fuzzer");
        }
    }
    let read = Experiment::read(&run.path.join("experiment.toml"), &[]);
    if let Ok(experiment) = read.or_else(|_| Experiment::read(&run.config, &[])) {
        let _ = (experiment.hash(), experiment.request(), run.claim(&experiment));
    }
    if let Ok(sweep) = Sweep::read(&run.path.join("sweep.toml"), &FOLDER.join("out"), &[], &[]) {
        assert!(!sweep.runs.is_empty(), "a sweep without runs");
    }
    for line in fs::read_to_string(&run.events).unwrap_or_default().lines() {
        let _ = serde_json::from_str::<RunEvent>(line);
    }
    let Ok(records) = RunRecords::find(std::slice::from_ref(&run.path)) else { return };
    assert!(records.len() == 1, "one run directory, and {} runs", records.len());
    let _ = report::write(&records, &FOLDER.join("report"), "lmc report");
});
