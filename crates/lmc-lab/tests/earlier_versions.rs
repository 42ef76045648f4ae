//! Run directories of earlier versions are read, resumed and reported.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use lmc::Device;
use lmc_lab::run_directory::RunDirectory;
use lmc_lab::sweep::Sweep;
use lmc_lab::{Experiment, Metrics, Run, RunRecords};
use lmc_streams::{Catalog, DataDirs, StreamRequest};

/// Files of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

/// Files that lmc wrote before its core was rewritten.
fn before(path: &str) -> PathBuf {
    repository("crates/lmc-cli/tests/files_before_12").join(path)
}

/// Runs an experiment in a copy of a run directory, or in an empty one.
fn run(experiment: &str, directory: Option<&str>) -> (tempfile::TempDir, Metrics) {
    let folder = tempfile::tempdir().unwrap();
    if let Some(directory) = directory {
        for entry in fs::read_dir(before(directory)).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let experiment = Experiment::read(&before(experiment), &[]).unwrap();
    let request = StreamRequest::named(&before("two.toml").display().to_string());
    let stream = Catalog::new(DataDirs::default()).stream(&request).unwrap();
    let run = Run {
        experiment: &experiment,
        stream: &stream,
        directory: folder.path(),
        fresh: false,
        tensorboard: true,
        device: &Device::flex(),
        stop: &AtomicBool::new(false),
    };
    let metrics = lmc_lab::run(&run, &mut |_| ()).unwrap();
    (folder, metrics)
}

/// The events of a run, without the line by which every session says where it begins, and without what earlier versions did
/// not say.
fn events(folder: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let lines = text.lines().filter(|line| !line.contains("task_started"));
    let mut events: Vec<serde_json::Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    for event in &mut events {
        event.as_object_mut().unwrap().remove("dropped");
    }
    events
}

#[test]
fn a_killed_run_of_lmc_is_resumed_to_the_same_bits() {
    let (folder, mut metrics) = run("lmc.toml", Some("killed_lmc"));
    // Runs of that version did not count by name, and did not say what was dropped.
    for task in &mut metrics.tasks {
        task.report.dropped = None;
        task.after_by_name = None;
        let named = task.end_by_name.take().unwrap();
        assert!(
            named.task_given <= task.end.task_given,
            "a right name is a right label where the task is given"
        );
    }
    assert_eq!(Some(metrics), RunDirectory::new(&before("finished")).finished().unwrap());
    for file in ["accuracy_matrix.csv", "module_weights.json"] {
        let read = |folder: &Path| fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(read(folder.path()), read(&before("finished")), "{file}");
    }
    assert_eq!(events(folder.path()), events(&before("finished")));
}

#[test]
fn a_killed_run_of_a_baseline_is_resumed_to_the_bits_of_a_run_that_was_not() {
    let (resumed, metrics) = run("ewc.toml", Some("killed_ewc"));
    let (whole, mut expected) = run("ewc.toml", None);
    // That version had learned the first task when it was killed, and did not count by name.
    assert_eq!(metrics.tasks[0].after_by_name, None);
    assert!(expected.tasks[0].after_by_name.take().is_some());
    assert_eq!(metrics, expected);
    assert_eq!(events(resumed.path()), events(whole.path()));
}

#[test]
fn runs_of_the_last_version_are_read() {
    let records = RunRecords::find(&[before("")]).unwrap();
    assert_eq!((records.finished.len(), records.unfinished.len(), records.len()), (1, 2, 3));
    let run = &records.finished[0];
    assert_eq!((run.experiment.method.as_str(), run.experiment.network.width), ("lmc_a", 4));
    assert_eq!((run.metrics.modules(), run.metrics.task_agnostic), (5, true));
    assert_eq!(run.metrics.tasks[1].report.modules_before, [1, 1, 1, 1]);
    assert!(run.cost.is_some());
    // The method that is derived from LMC(A) has its accuracies with the task given.
    let given: Vec<_> =
        records.derived[0].metrics.tasks.iter().map(|task| Some(task.end.task_given)).collect();
    assert_eq!(records.derived[0].metrics.matrix.last(), Some(&given));
}

#[test]
fn committed_results_are_read_and_keep_their_names() {
    let records = RunRecords::find(&[repository("results/table1_quick")]).unwrap();
    assert_eq!((records.finished.len(), records.len()), (33, 33));
    for run in &records.finished {
        let name = run.directory.file_name().unwrap().to_str().unwrap();
        let Experiment { method, stream, seed, .. } = &run.experiment;
        assert_eq!(name, format!("{method}-{stream}-{seed}-{}", run.experiment.hash().unwrap()));
        assert_eq!(run.metrics.tasks.len(), run.metrics.matrix.len());
    }
}

/// A sweep that was begun with an earlier version goes on in the same directories.
#[test]
fn the_sweep_of_the_committed_results_plans_the_same_runs() {
    let out = repository("results/table1_quick");
    let sweep = Sweep::read(&repository("experiments/table1/quick.toml"), &out, &[], &[]).unwrap();
    let finished: Vec<_> = sweep.runs.iter().filter(|run| run.directory.is_finished()).collect();
    for run in &finished {
        run.directory.claim(&run.experiment).unwrap();
    }
    // MNTDP is not in the grid any more: its numbers are derived from runs of MNTDP(A).
    assert_eq!(finished.len(), 32);
}

#[test]
fn a_report_of_the_committed_results_has_no_settings_of_another_version() {
    let records = RunRecords::find(&[repository("results/table1_quick")]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    lmc_lab::report::write(&records, folder.path(), "lmc report").unwrap();
    let text = fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(!text.contains("other version"), "{text}");
}
