//! History: what a model file went through, act by act: what was learned from how many pictures, with which settings and
//! which version of the program.
//!
//! The history is part of the model file and, like all of it, the same bits for the same acts. When each act happened is
//! therefore not in it, but beside it ([`super::dates`]).

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::growth::gain::DroppedModules;
use crate::growth::task_losses::ExpansionTest;
use crate::training::config::LearnerConfig;
use crate::training::{TaskData, TaskReport};

/// One act in the life of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEntry {
    /// Names the entry for good, also when its task is renamed or its model merged; equal acts have equal names.
    pub id: String,
    /// Version of the program.
    pub version: String,
    /// The model in which it happened, when it came here by a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What happened.
    pub act: Act,
    /// When it happened, if in this process.
    #[serde(skip)]
    pub(crate) now: Moment,
}

/// A time, which is not part of what two equal models share: all are equal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment(pub(crate) Option<SystemTime>);

impl PartialEq for Moment {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What happened to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// A task was learned.
    Learned {
        /// Name of the task.
        task: String,
        /// Data, settings and success.
        from: Box<LearnedFrom>,
    },
    /// A task got more pictures or classes: a new version of its head.
    Extended {
        /// Name of the task.
        task: String,
        /// Version of the head, from 2.
        head: u32,
        /// Names of the classes that came in addition.
        new_classes: Vec<String>,
        /// Data, settings and success.
        from: Box<LearnedFrom>,
    },
    /// What a task's data say about its head was measured anew.
    Calibrated {
        /// Name of the task.
        task: String,
        /// Hash of class names, labels and pixels.
        data: String,
    },
    /// Models were merged.
    Merged {
        /// Their names.
        models: Vec<String>,
    },
    /// A task, or a class of it, got another name.
    Renamed {
        /// The task, by its name of today.
        task: String,
        /// Whether it was a class of the task.
        class: bool,
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// A task was forgotten, with its name and all that the history said of it.
    Forgot {
        /// Number of modules that went with it.
        modules: usize,
    },
}

/// What a task was learned from, and how well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnedFrom {
    /// Hash of class names, labels and pixels.
    pub data: String,
    /// Number of classes.
    pub classes: usize,
    /// Number of training images.
    pub train: usize,
    /// Number of validation images.
    pub val: usize,
    /// Epochs that were run.
    pub epochs: usize,
    /// Validation accuracy with the task given.
    pub val_accuracy: Option<f64>,
    /// The settings.
    pub config: LearnerConfig,
    /// Tests for expansion on all images of the task, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<ExpansionTest>,
    /// Modules that were added and not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<DroppedModules>,
}

impl LearnedFrom {
    /// What a report says of the training on these data.
    pub(crate) fn new(data: TaskData<'_>, report: &TaskReport, config: LearnerConfig) -> Self {
        Self {
            data: data.content_hash(),
            classes: data.classes.len(),
            train: data.train.len(),
            val: data.val.len(),
            epochs: report.epochs,
            val_accuracy: report.val_accuracy,
            config,
            tests: report.tests.clone(),
            dropped: report.dropped.clone(),
        }
    }
}

/// The acts in the life of a model, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History {
    /// The acts.
    pub entries: Vec<HistoryEntry>,
}

impl History {
    /// Whether nothing is known: the model is new, or of a version that kept no history.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds an act of this version of the program.
    pub(crate) fn push(&mut self, act: Act) {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        // The debug form of an act has all its content, and the same for the same content.
        let content = format!("{} {version} {act:?}", self.entries.len());
        let id = blake3::hash(content.as_bytes()).to_hex()[..16].to_owned();
        self.entries.push(HistoryEntry {
            id,
            version,
            model: None,
            act,
            now: Moment(Some(SystemTime::now())),
        });
    }

    /// What a task was learned from, the first time and each time that it got more, oldest first.
    pub fn learned_from<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a LearnedFrom> {
        self.entries.iter().filter_map(move |entry| match &entry.act {
            Act::Learned { task, from } | Act::Extended { task, from, .. } if task == wanted => Some(&**from),
            _ => None,
        })
    }

    /// Gives a task another name in all that was said of it.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        for entry in &mut self.entries {
            if let Some(task) = entry.act.task_mut().filter(|task| *task == from) {
                to.clone_into(task);
            }
        }
    }

    /// Removes all that was said of a task.
    pub(crate) fn forget(&mut self, task: &str) {
        self.entries.retain_mut(|entry| entry.act.task_mut().is_none_or(|found| found != task));
    }
}

impl Act {
    /// The task that the act is about.
    fn task_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Learned { task, .. }
            | Self::Extended { task, .. }
            | Self::Calibrated { task, .. }
            | Self::Renamed { task, .. } => Some(task),
            Self::Merged { .. } | Self::Forgot { .. } => None,
        }
    }
}
