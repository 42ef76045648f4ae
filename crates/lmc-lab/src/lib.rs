//! Experiments: a configuration becomes a run directory.
//!
//! 1. [`Experiment`] is a TOML file: a stream, a method, a preset, a seed, and what is to differ from the preset.
//! 2. [`run()`] learns the stream task by task and tests after each. The state is on disk after every epoch: a run that
//!    was killed goes on where it was and ends with the same bits.
//! 3. [`sweep`] is a grid of experiments, and [`pool`] runs them, each in a process of its own.
//! 4. [`Metrics`] are what came out: accuracy matrix, A, F, M, T, and which heads answered.
//! 5. [`Records`] are run directories read back, and [`report`] is the page made of them, beside the [`paper`]'s numbers.

mod cost;
mod csv;
mod experiment;
mod metrics;
pub mod paper;
pub mod pool;
pub mod report;
mod run;
pub mod run_directory;
mod run_record;
pub mod sweep;
mod tensorboard;
mod testing;
mod trackers;

pub use cost::Cost;
pub use experiment::Experiment;
pub use metrics::{Metrics, TaskMetrics, Ways};
pub use run::{Notice, Run, run};
pub use run_record::{Incomplete, Record, Records};
