//! Events of a run: those of learning, and those of the stream around it. Each is a line of `events.jsonl`.

use lmc::Event;
use serde::{Deserialize, Serialize};

/// One event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    /// The first task of the stream is about to be learned.
    StreamStarted {
        /// Number of tasks in the stream.
        tasks: usize,
    },
    /// The state of the run is on disk: a run that is killed later resumes from here.
    Checkpointed {
        /// Epochs of the open task that are done.
        epoch: usize,
    },
    /// An event of learning, written as [`Event`] is.
    #[serde(untagged)]
    Learning(Event),
}

impl From<Event> for RunEvent {
    fn from(event: Event) -> Self {
        Self::Learning(event)
    }
}

/// What a run tells whoever watches it.
#[derive(Debug)]
pub enum Notice<'a> {
    /// An event of the run.
    Event(&'a RunEvent),
    /// The evaluation of a test set begins.
    Evaluating {
        /// The task that was learned last.
        after: &'a str,
        /// The task whose test set is evaluated.
        task: &'a str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_earlier_versions() {
        let lines = [
            (RunEvent::StreamStarted { tasks: 2 }, r#"{"event":"stream_started","tasks":2}"#),
            (RunEvent::Checkpointed { epoch: 3 }, r#"{"event":"checkpointed","epoch":3}"#),
            (
                Event::ProjectionStarted { layer: 1, steps: 20 }.into(),
                r#"{"event":"projection_started","layer":1,"steps":20}"#,
            ),
        ];
        for (event, line) in lines {
            assert_eq!(serde_json::to_string(&event).unwrap(), line);
            assert_eq!(serde_json::from_str::<RunEvent>(line).unwrap(), event);
        }
        assert!(serde_json::from_str::<RunEvent>(r#"{"event":"stream_ended"}"#).is_err());
    }
}
