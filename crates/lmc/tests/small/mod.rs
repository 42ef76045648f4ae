//! Small learners on generated images, for tests.
#![allow(dead_code)]

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use lmc::{Error, LearnerConfig, Model, ModelConfig, NetworkConfig, Preset, TaskReport};
use lmc_streams::{Batch, BatchConfig, Catalog, DataDirs, OwnTask, Seed, Task};

pub fn network() -> NetworkConfig {
    NetworkConfig { width: 8, depth: 2, ..NetworkConfig::default() }
}

pub fn config() -> LearnerConfig {
    let mut config = Preset::SMinus.learner();
    config.epochs = 3;
    config.batch = 16;
    config.projection.epochs = 1;
    config.projection.epochs_after = 1;
    config.expansion.threshold = 1.5;
    config.statistics.window = 5;
    config
}

pub fn model(network: NetworkConfig, learner: LearnerConfig, seed: u64) -> Model {
    ModelConfig { network, learner, seed, ..ModelConfig::new(Preset::SMinus) }.init().unwrap()
}

pub fn learner(seed: u64) -> Model {
    model(network(), config(), seed)
}

/// Two hundred images or so of a generated family.
pub fn task(family: &str) -> Task {
    static TASKS: OnceLock<Mutex<HashMap<String, Task>>> = OnceLock::new();
    let mut tasks = TASKS.get_or_init(Mutex::default).lock().unwrap();
    let make = || {
        let own =
            OwnTask { name: family.into(), val_fraction: 0.1, seed: Seed::root(1), ..OwnTask::default() };
        let mut task = own.read(&format!("generated-{family}"), &Catalog::new(DataDirs::default())).unwrap();
        task.train = task.train.thinned(96);
        task.val = task.val.thinned(40);
        task.test = task.test.thinned(40);
        task
    };
    tasks.entry(family.to_owned()).or_insert_with(make).clone()
}

pub fn try_learn(learner: &mut Model, family: &str) -> Result<TaskReport, Error> {
    learner.learn(&task(family))
}

/// Learns a family as task `number`.
pub fn learn(learner: &mut Model, family: &str, number: usize) -> TaskReport {
    assert_eq!(learner.network.heads.len(), number);
    try_learn(learner, family).unwrap()
}

/// A learner that has learned two tasks.
pub fn grown() -> Model {
    static GROWN: OnceLock<Model> = OnceLock::new();
    let make = || {
        let mut learner = learner(7);
        learn(&mut learner, "digits", 0);
        learn(&mut learner, "textures", 1);
        learner
    };
    GROWN.get_or_init(make).clone()
}

pub fn first_batch(family: &str) -> Batch {
    BatchConfig::stored(16).init(&task(family).test).unwrap().next().unwrap()
}
