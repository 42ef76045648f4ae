//! Sample runs for the tests of reports.

use std::path::PathBuf;

use lmc::{Accuracy, NetworkConfig, TaskReport};
use toml::Table;

use crate::cost::Cost;
use crate::experiment::{Evaluate, Experiment};
use crate::metrics::{Metrics, OwnHead, TaskMetrics};
use crate::records::{IncompleteRun, RunRecord, RunRecords};

/// A run of two tasks with these accuracies at the end; the first task was 10 points better right after it was learned.
pub fn record(method: &str, stream: &str, seed: u64, end: [f64; 2]) -> RunRecord {
    let task_agnostic = lmc_methods::find(method).is_ok_and(|entry| entry.task_agnostic);
    let measured = |accuracy: f64| Accuracy {
        task_given: accuracy,
        task_batches: task_agnostic.then_some(accuracy),
        mixed: task_agnostic.then_some(accuracy / 2.0),
        single: task_agnostic.then_some(accuracy / 4.0),
    };
    let task = |name: &str, number: usize, after: f64| TaskMetrics {
        task: name.into(),
        report: TaskReport {
            task: name.into(),
            best_epoch: 0,
            epochs: 1,
            val_accuracy: None,
            modules_before: vec![number],
            modules: vec![number + 1],
            ..TaskReport::default()
        },
        after: measured(after),
        end: measured(end[number]),
        after_by_name: None,
        end_by_name: Some(measured(end[number] - 0.1)),
        own_head: OwnHead { task_batches: 1.0, single: 0.5 },
        weights: vec![vec![0.25; number + 1]],
    };
    let preset = Experiment::preset_for(stream);
    let matrix = vec![vec![Some(end[0] + 0.1)], end.map(Some).to_vec()];
    RunRecord {
        directory: PathBuf::from(format!("runs/{method}-{stream}-{seed}")),
        experiment: Experiment {
            stream: stream.into(),
            variant: "auto".into(),
            stream_seed: None,
            method: method.into(),
            preset: preset.into(),
            seed,
            checkpoint_epochs: 1,
            evaluate: Evaluate::default(),
            test_images: None,
            network: NetworkConfig::default(),
            learner: Experiment::learner_for(method, preset, Table::new()).unwrap(),
        },
        metrics: Metrics {
            tasks: vec![task("<first> & co", 0, end[0] + 0.1), task("last", 1, end[1])],
            method: method.into(),
            task_agnostic,
            parameters: 1000,
            multiply_adds: 2000,
            matrix: matrix.clone(),
            matrix_given: matrix,
            substitutions: vec!["a stands in for b".into()],
            images: String::new(),
        },
        cost: Some(Cost {
            learning_seconds: 60.0,
            learning_cpu_seconds: Some(50.0),
            testing_seconds: 6.0,
            peak_mib: 100.0,
        }),
    }
}

/// Changes the number of epochs of a run of a baseline.
pub fn with_epochs(mut record: RunRecord, epochs: i64) -> RunRecord {
    let training = record.experiment.learner["training"].as_table_mut().unwrap();
    training.insert("epochs".into(), epochs.into());
    record.directory = PathBuf::from(format!("{}-{epochs}", record.directory.display()));
    record
}

/// Two methods on one stream, and a damaged run.
pub fn records() -> RunRecords {
    let damaged = IncompleteRun {
        directory: "runs/broken".into(),
        experiment: None,
        why: "runs/broken/metrics.json: expected value at line 1; delete it".into(),
    };
    let finished = vec![
        record("experts", "s_minus", 1, [0.6, 0.4]),
        record("lmc_a", "s_minus", 1, [0.6, 0.7]),
        record("lmc_a", "s_minus", 2, [0.8, 0.5]),
    ];
    RunRecords { finished, damaged: vec![damaged], ..RunRecords::default() }
}
