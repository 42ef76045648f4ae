//! A method: anything that learns task after task and classifies images afterwards.
//!
//! This is all that the runner knows of LMC and the baselines. A method learns in units of an epoch. Between epochs
//! [`Method::state`] gives the whole method away and [`Method::restore`] takes it back, bit for bit. To be evaluated, it
//! gives a [`Classify`]: itself as it is now, without gradients.
//!
//! What the runner promises:
//!
//! - For every task [`Method::begin`], [`Method::epoch`] until it returns false, [`Method::finish`], all with the same
//!   [`TaskData`], which has no test images; then evaluation of [`Method::classifier`]. Tasks are numbered from 0 in this
//!   order.
//! - [`Method::state`] after epochs and after `finish`. A run that was killed resumes with a new method of the same
//!   configuration and seed that is given the last state: by `epoch`, or by `finish` if all epochs are done, if
//!   [`Method::progress`] shows an open task, else by `begin` of the next task.
//! - Images come normalised to [`Classify::classify`] if [`Method::normalises`]; in training a method normalises itself.
//! - A task-aware method is evaluated under [`Protocol::TaskGiven`] only.
//!
//! `examples/add_a_method.rs` is a method of one's own in full.

use std::path::Path;

use lmc::internals::inference::evaluation::Classify;
use lmc::internals::training::checkpoint::State;
use lmc::{Error, Event, Protocol, Result, TaskData, TaskReport};

/// Hears what happens while a task is learned, and may stop the training by an error.
pub type Listen<'a> = &'a mut dyn FnMut(Event) -> Result<()>;

/// Learns task after task.
pub trait Method {
    /// Opens a task.
    fn begin(&mut self, data: TaskData<'_>) -> Result<()>;

    /// Trains on the open task for one epoch; false when that was the last.
    fn epoch(&mut self, data: TaskData<'_>, listen: Listen<'_>) -> Result<bool>;

    /// Closes the open task.
    fn finish(&mut self, data: TaskData<'_>) -> Result<TaskReport>;

    /// Learns a task from its first epoch to its last.
    fn learn(&mut self, data: TaskData<'_>, listen: Listen<'_>) -> Result<TaskReport> {
        self.begin(data)?;
        while self.epoch(data, listen)? {}
        self.finish(data)
    }

    /// Epochs that are done and epochs that the open task gets, 1 or more; `None` between tasks.
    fn progress(&self) -> Option<(usize, usize)>;

    /// The method as it is now, without gradients, to classify with.
    fn classifier(&self) -> Result<Box<dyn Classify>>;

    /// Whether images are normalised by the training statistics of their task, as for the paper's baselines.
    fn normalises(&self) -> bool {
        true
    }

    /// The first task that has the outputs of this one: an earlier task if both share outputs (a single head).
    fn outputs_of(&self, task: usize) -> usize {
        task
    }

    /// Whether a label counts as correct only if it comes from the task's own outputs. Else the label alone counts, as
    /// the authors count for heads.
    fn is_class_incremental(&self) -> bool {
        false
    }

    /// The size of the method; its list of modules is empty if it has no layers.
    fn capacity(&self) -> Capacity;

    /// Everything that is not in the configuration: the state from which a killed run resumes.
    fn state(&self) -> Result<State>;

    /// Takes back what [`Method::state`] gave; the method was made by the same configuration.
    fn restore(&mut self, state: State) -> Result<()>;

    /// Writes what was learned, after every task: the state, unless the method has a better form.
    fn save_model(&self, path: &Path) -> Result<()> {
        self.state()?.save(&(), path)
    }
}

/// Size of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Modules per layer; one each for a network that does not grow.
    pub modules: Vec<usize>,
    /// Number of parameters of trunk and heads.
    pub parameters: usize,
    /// Multiply-adds to classify one image when the task is given, or found by methods that need no ID.
    pub multiply_adds: u64,
}

/// The task of the images, for a task-aware method: an error unless the protocol gives it.
pub fn given_task(method: &str, protocol: Protocol, task: Option<usize>) -> Result<usize> {
    match (protocol, task) {
        (Protocol::TaskGiven, Some(task)) => Ok(task),
        _ => Err(Error::setting(method, "it does not classify without a task ID", "give the task")),
    }
}

/// The error for a task number that the method has not learned.
pub fn unknown_task(task: usize) -> Error {
    Error::setting("task", format!("none has number {task}"), "learn it first")
}

/// The error of a method that is to train while no task is open.
pub fn no_open_task() -> Error {
    Error::setting("method", "no task is open", "begin one")
}
