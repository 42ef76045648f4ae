//! Experiments: a configuration becomes a run directory, and run directories become a report.
//!
//! 1. [`Experiment`] is a TOML file: a stream, a method, a preset, a seed, and settings that differ from the preset.
//! 2. [`run()`] learns the stream task by task and evaluates the method after each. Its state is on disk after every
//!    epoch: a run that was killed resumes from there and ends with the same bits.
//! 3. [`sweep`] is a grid of experiments, and [`worker_pool`] runs them, each in a process of its own.
//! 4. [`Metrics`] are the results of a run: accuracy matrix, accuracy A, forgetting F, modules M.
//! 5. [`tell_apart()`](tell_apart::tell_apart) measures how well tasks can be told apart by looks, before anything is learned.
//! 6. [`head_rules`] compares the ways to choose a head on finished runs of LMC.
//! 7. [`novelty`] measures how well images of no learned task are told from known ones, on the same runs.
//! 8. [`RunRecords`] are run directories read back, and [`report`] makes a page of them, beside the [`paper`]'s numbers.

mod cost;
mod csv;
pub mod detection;
mod error;
mod evaluation;
mod events;
mod experiment;
pub mod head_rules;
mod measured;
mod metrics;
pub mod novelty;
pub mod paper;
pub mod picture_changes;
mod records;
pub mod report;
mod run;
pub mod run_directory;
mod spelling;
pub mod sweep;
pub mod tell_apart;
mod tensorboard;
mod trackers;
pub mod worker_pool;

pub use cost::Cost;
pub use error::{Error, Result};
pub use events::{Notice, RunEvent};
pub use experiment::{Evaluate, Experiment};
pub use metrics::{Metrics, OwnHead, Summary, TaskMetrics};
pub use records::{IncompleteRun, RunRecord, RunRecords};
pub use run::{Run, run};
