//! What a run costs: seconds, processor seconds and memory, summed over all sessions of an interrupted one.

use std::time::Instant;

use lmc_bench::process::{peak_memory, processor_seconds};
use serde::{Deserialize, Serialize};

/// What a run cost. Not part of its metrics: times differ from run to run, metrics do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Seconds of learning.
    pub learning_seconds: f64,
    /// Processor seconds of learning, all threads together: other work on the machine hardly changes them. Not known on
    /// every system, nor for runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_cpu_seconds: Option<f64>,
    /// Seconds of testing.
    pub testing_seconds: f64,
    /// Most memory that a session used, in MiB.
    pub peak_mib: f64,
}

/// Running since a moment of a run.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
    processor: Option<f64>,
    /// The cost until then.
    before: Cost,
}

impl Stopwatch {
    /// Starts when a run has had this cost.
    pub fn start(before: Cost) -> Self {
        Self { started: Instant::now(), processor: processor_seconds(), before }
    }

    /// The cost by now, if it learned since.
    pub fn learned(&self) -> Cost {
        let Self { before, .. } = *self;
        let nothing_yet = (before.learning_seconds == 0.0).then_some(0.0);
        let spent = || Some(processor_seconds()? - self.processor?);
        Cost {
            learning_seconds: before.learning_seconds + self.started.elapsed().as_secs_f64(),
            learning_cpu_seconds: before
                .learning_cpu_seconds
                .or(nothing_yet)
                .and_then(|had| Some(had + spent()?)),
            ..self.remembered()
        }
    }

    /// The cost by now, if it tested since.
    pub fn tested(&self) -> Cost {
        let testing_seconds = self.before.testing_seconds + self.started.elapsed().as_secs_f64();
        Cost { testing_seconds, ..self.remembered() }
    }

    /// The cost before, with the memory of now.
    fn remembered(&self) -> Cost {
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
        let (learned, tested) = (watch.learned(), watch.tested());
        assert!(learned.learning_seconds > 5.0 && learned.learning_seconds < 15.0);
        assert_eq!((learned.testing_seconds, learned.peak_mib), (1.0, 1e9));
        assert!(tested.testing_seconds > 1.0);
        assert_eq!((tested.learning_seconds, tested.learning_cpu_seconds), (5.0, Some(4.0)));
        // A run whose first part was not measured stays so; one that begins starts from nothing.
        let unknown = Cost { learning_cpu_seconds: None, ..before };
        assert_eq!(Stopwatch::start(unknown).learned().learning_cpu_seconds, None);
        let first = Stopwatch::start(Cost::default()).learned();
        assert_eq!(first.learning_cpu_seconds.is_some(), processor_seconds().is_some());
    }
}
