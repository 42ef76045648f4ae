//! A method: anything that learns task after task and answers afterwards.
//!
//! This is all that the runner knows of LMC and its rivals. A method learns in units of an epoch, between which it is all
//! there is: [`Method::state`] gives it away and [`Method::restore`] takes it back, bit for bit. To answer, it gives an
//! [`Answers`]: itself as it is now, without gradients.
//!
//! What the runner promises:
//!
//! - For every task [`Method::begin`], [`Method::epoch`] until it says false, [`Method::finish`], all with the same
//!   [`Material`], which has no test images; then questions to [`Method::answers`]. Tasks are numbered from 0 in this order.
//! - [`Method::state`] after epochs and after `finish`. A run that was killed goes on with a new method of the same
//!   configuration and seed that was given the last state: by `epoch`, or by `finish` if all epochs are done, if
//!   [`Method::progress`] says that a task is open, else by `begin` of the next task.
//! - Images come normalised to [`Answers::answer`] if [`Method::normalises`]; for learning a method does it itself.
//!
//! `examples/add_a_method.rs` is a method of one's own in full.

use std::path::Path;

use burn::tensor::Tensor;
use lmc::checkpoint::State;
use lmc::events::Event;
use lmc::{Error, Learned, Material, Result};

/// Hears what happens while a task is learned, and may stop it by an error.
pub type Listen<'a> = &'a mut dyn FnMut(Event) -> Result<()>;

/// Learns task after task.
pub trait Method {
    /// Opens a task.
    fn begin(&mut self, material: Material<'_>) -> Result<()>;

    /// Learns the open task for one epoch; false when that was the last.
    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool>;

    /// Closes the open task.
    fn finish(&mut self, material: Material<'_>) -> Result<Learned>;

    /// Learns a task from its first epoch to its last.
    fn learn(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<Learned> {
        self.begin(material)?;
        while self.epoch(material, listen)? {}
        self.finish(material)
    }

    /// Epochs that are done and to be done in the open task, 1 or more; `None` between tasks.
    fn progress(&self) -> Option<(usize, usize)>;

    /// What it is now, for answering.
    fn answers(&self) -> Result<Box<dyn Answers>>;

    /// Whether it sees images normalised by their task's training statistics, as the paper's rivals do.
    fn normalises(&self) -> bool {
        true
    }

    /// The first task that has the outputs of this one: another one if both share outputs (a single head).
    fn outputs_of(&self, task: usize) -> usize {
        task
    }

    /// Whether an answer is right only if it comes from the task's own outputs. Else the label alone counts, as the
    /// authors count for heads.
    fn is_class_incremental(&self) -> bool {
        false
    }

    /// How large it is; no modules if it has no layers.
    fn capacity(&self) -> Capacity;

    /// Everything that is not in its configuration: what a killed run goes on from.
    fn state(&self) -> Result<State>;

    /// Takes back what [`Method::state`] gave; the method was made by the same configuration.
    fn restore(&mut self, state: State) -> Result<()>;

    /// Writes what it has learned, after every task: its state, unless it has a better form.
    fn save_model(&self, path: &Path) -> Result<()> {
        self.state()?.save(&(), path)
    }
}

/// How large a method is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Modules per layer; one each for a network that does not grow.
    pub modules: Vec<usize>,
    /// All parameters, of trunk and heads.
    pub parameters: usize,
    /// Multiply-adds for the answer to one image when the task is given (or found, for those that need no ID).
    pub multiply_adds: u64,
}

/// What is known about the images of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// They are of this task.
    Task(usize),
    /// They are of one task.
    SameTask,
    /// They are of all tasks.
    Mixed,
    /// Each is asked alone.
    Alone,
}

impl Hint {
    /// The task, for a method that does not answer without.
    pub fn told(self, method: &str) -> Result<usize> {
        match self {
            Self::Task(task) => Ok(task),
            _ => Err(Error::setting(method, "it does not answer without a task ID", "give the task")),
        }
    }
}

/// An answer for one image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The task whose outputs answered.
    pub task: usize,
    /// The label among that task's.
    pub label: u32,
    /// Weight of each module, `[layer][module]`; empty for methods without modules.
    pub weights: Vec<Vec<f64>>,
}

/// A method as it is now, for answering.
pub trait Answers {
    /// Answers `[hint][image]` for a batch. Methods that are not agnostic are asked with [`Hint::Task`] only.
    fn answer(&self, images: &Tensor<4>, hints: &[Hint]) -> Result<Vec<Vec<Answer>>>;
}

/// The place of the largest number, the first of equals.
pub fn largest(row: &[f32]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a))).unwrap_or(0)
}
