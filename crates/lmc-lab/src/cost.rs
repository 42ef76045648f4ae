//! The cost of a run: seconds, processor seconds and memory, summed over all sessions of an interrupted run.

use std::time::Instant;

use lmc_bench::process::{peak_memory, processor_seconds};
use serde::{Deserialize, Serialize};

/// The cost of a run. It is not part of the metrics: times differ from run to run, metrics do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Seconds of learning.
    pub learning_seconds: f64,
    /// Processor seconds of learning, of all threads together: other work on the machine hardly changes them. `None` on
    /// systems that do not count them, and for runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_cpu_seconds: Option<f64>,
    /// Seconds of evaluation.
    pub testing_seconds: f64,
    /// Largest memory of the process in any session, in MiB; 0 on systems that do not measure it.
    pub peak_mib: f64,
}

/// Measures one part of a run.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
    processor: Option<f64>,
    /// Cost of the run when the measurement began.
    before: Cost,
}

impl Stopwatch {
    /// Starts to measure; `before` is the cost of the run so far.
    pub fn start(before: Cost) -> Self {
        Self { started: Instant::now(), processor: processor_seconds(), before }
    }

    /// The cost of the run if the time since the start was spent on learning.
    pub fn after_learning(&self) -> Cost {
        let Self { before, .. } = *self;
        let nothing_yet = (before.learning_seconds == 0.0).then_some(0.0);
        let spent = || Some(processor_seconds()? - self.processor?);
        Cost {
            learning_seconds: before.learning_seconds + self.started.elapsed().as_secs_f64(),
            learning_cpu_seconds: before
                .learning_cpu_seconds
                .or(nothing_yet)
                .and_then(|had| Some(had + spent()?)),
            ..self.with_memory()
        }
    }

    /// The cost of the run if the time since the start was spent on evaluation.
    pub fn after_testing(&self) -> Cost {
        let testing_seconds = self.before.testing_seconds + self.started.elapsed().as_secs_f64();
        Cost { testing_seconds, ..self.with_memory() }
    }

    /// The cost at the start, with the memory of now.
    fn with_memory(&self) -> Cost {
        let peak_mib = peak_memory().map_or(0.0, |bytes| bytes as f64 / f64::from(1 << 20));
        Cost { peak_mib: self.before.peak_mib.max(peak_mib), ..self.before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_add_up() {
        let before = Cost {
            learning_seconds: 5.0,
            learning_cpu_seconds: Some(4.0),
            testing_seconds: 1.0,
            peak_mib: 1e9,
        };
        let watch = Stopwatch::start(before);
        let (learned, tested) = (watch.after_learning(), watch.after_testing());
        assert!(learned.learning_seconds > 5.0 && learned.learning_seconds < 15.0);
        assert_eq!((learned.testing_seconds, learned.peak_mib), (1.0, 1e9));
        assert!(tested.testing_seconds > 1.0);
        assert_eq!((tested.learning_seconds, tested.learning_cpu_seconds), (5.0, Some(4.0)));
        // A run whose first part was not measured stays so; one that begins starts from nothing.
        let unknown = Cost { learning_cpu_seconds: None, ..before };
        assert_eq!(Stopwatch::start(unknown).after_learning().learning_cpu_seconds, None);
        let first = Stopwatch::start(Cost::default()).after_learning();
        assert_eq!(first.learning_cpu_seconds.is_some(), processor_seconds().is_some());
    }
}
