//! Made-up runs for the tests of reports.

use std::path::PathBuf;

use lmc::Learned;
use lmc::network::NetworkConfig;
use toml::Table;

use crate::cost::Cost;
use crate::experiment::Experiment;
use crate::metrics::{Metrics, OwnHead, TaskMetrics, Ways};
use crate::run_record::Record;

/// A run of two tasks whose accuracies at the end are `end`; the first one was 10 points better right after.
pub fn record(method: &str, stream: &str, seed: u64, end: [f64; 2]) -> Record {
    let agnostic = lmc_methods::find(method).is_ok_and(|entry| entry.agnostic);
    let ways = |accuracy: f64| Ways {
        task_given: accuracy,
        task_batches: agnostic.then_some(accuracy),
        mixed: agnostic.then_some(accuracy / 2.0),
        single: agnostic.then_some(accuracy / 4.0),
    };
    let task = |name: &str, number: usize, after: f64| TaskMetrics {
        task: name.into(),
        learned: Learned {
            task: name.into(),
            best_epoch: 0,
            epochs: 1,
            val_accuracy: None,
            modules_before: vec![number],
            modules: vec![number + 1],
        },
        after: ways(after),
        end: ways(end[number]),
        own_head: OwnHead { task_batches: 1.0, single: 0.5 },
        weights: vec![vec![0.25; number + 1]],
    };
    let matrix = vec![vec![end[0] + 0.1], end.to_vec()];
    Record {
        directory: PathBuf::from(format!("runs/{method}-{stream}-{seed}")),
        experiment: Experiment {
            stream: stream.into(),
            variant: "auto".into(),
            stream_seed: None,
            method: method.into(),
            preset: preset(stream).into(),
            seed,
            checkpoint_epochs: 1,
            network: NetworkConfig::default(),
            learner: settings(method, stream),
        },
        metrics: Metrics {
            tasks: vec![task("<first> & co", 0, end[0] + 0.1), task("last", 1, end[1])],
            method: method.into(),
            agnostic,
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

fn preset(stream: &str) -> &str {
    if stream.starts_with("s_") { stream } else { "own" }
}

fn settings(method: &str, stream: &str) -> Table {
    lmc_methods::find(method).unwrap().resolve(preset(stream), Table::new()).unwrap()
}

/// The same, of a method other than LMC, with another number of epochs.
pub fn with_epochs(mut record: Record, epochs: i64) -> Record {
    let training = record.experiment.learner["training"].as_table_mut().unwrap();
    training.insert("epochs".into(), epochs.into());
    record.directory = PathBuf::from(format!("{}-{epochs}", record.directory.display()));
    record
}
