//! Experiments: a configuration becomes a run directory.
//!
//! 1. [`Experiment`] is a TOML file: a stream, a method, a preset, a seed, and what is to differ from the preset.
//! 2. [`run()`] learns the stream task by task and tests after each. The state is on disk after every epoch: a run that
//!    was killed goes on where it was and ends with the same bits.
//! 3. [`Metrics`] are what came out: accuracy matrix, A, F, M, T, and which heads answered.

mod experiment;
mod metrics;
pub mod report;
mod run;
mod testing;

pub use experiment::Experiment;
pub use metrics::{Cost, Metrics, TaskMetrics, Ways};
pub use run::{Notice, Run, run};
