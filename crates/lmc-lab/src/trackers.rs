//! Trackers of a run: every event as a line of JSON and, if asked for, scalars for TensorBoard.
//!
//! A run that resumes cuts `events.jsonl` back to its checkpoint, and draws TensorBoard's curves anew from what is left.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use lmc::Event;
use lmc_streams::{Error, read_text};

use crate::error::Result;
use crate::events::RunEvent;
use crate::metrics::{Metrics, TaskMetrics, mean};
use crate::run_directory::{LARGEST_TEXT, RunDirectory, damaged};
use crate::tensorboard::TensorBoard;

/// The files that a run writes its events into.
#[derive(Debug)]
pub struct Trackers {
    file: File,
    length: u64,
    path: PathBuf,
    board: Option<Board>,
}

impl Trackers {
    /// Opens the files of a run that resumes from a checkpoint with `length` bytes of events and these metrics.
    pub fn open(directory: &RunDirectory, length: u64, metrics: &Metrics, tensorboard: bool) -> Result<Self> {
        let path = directory.events.clone();
        let io = |action| Error::io(action, &path);
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(false).write(true).open(&path).map_err(io("write"))?;
        if file.metadata().map_err(io("read"))?.len() < length {
            return Err(damaged(&path, format!("it is shorter than the {length} bytes that the run wrote")));
        }
        file.set_len(length).map_err(io("write"))?;
        file.seek(SeekFrom::Start(length)).map_err(io("write"))?;
        let board = match tensorboard {
            true => {
                let before = read_text(&path, LARGEST_TEXT)?;
                Some(Board::replayed(directory, &before, metrics)?)
            }
            false => None,
        };
        Ok(Self { file, length, path, board })
    }

    /// Length of the events file in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes an event. Single steps are for progress bars and not written.
    pub fn write(&mut self, event: &RunEvent) -> lmc_streams::Result<()> {
        if matches!(event, RunEvent::Learning(Event::Step { .. })) {
            return Ok(());
        }
        let unwritable = |error: serde_json::Error| {
            Error::bad(&self.path, error.to_string(), "report this as a bug of lmc")
        };
        let mut line = serde_json::to_vec(event).map_err(unwritable)?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(Error::io("write", &self.path))?;
        self.length += line.len() as u64;
        match &mut self.board {
            Some(board) => board.event(event),
            None => Ok(()),
        }
    }

    /// Writes the test accuracies after the newest task.
    pub fn evaluated(&mut self, metrics: &Metrics) -> lmc_streams::Result<()> {
        let newest = metrics.tasks.len().saturating_sub(1);
        self.board.as_mut().map_or(Ok(()), |board| board.evaluated(metrics, newest))
    }
}

/// TensorBoard's curves over the epochs of the whole stream.
#[derive(Debug)]
struct Board {
    file: TensorBoard,
    /// Epochs of all tasks so far.
    epochs: u64,
}

impl Board {
    /// Starts a new file with the events and accuracies before the checkpoint.
    fn replayed(directory: &RunDirectory, before: &str, metrics: &Metrics) -> Result<Self> {
        let mut board = Self { file: TensorBoard::replace(&directory.tensorboard)?, epochs: 0 };
        let mut tasks = 0;
        for line in before.lines() {
            let event: RunEvent =
                serde_json::from_str(line).map_err(|error| damaged(&directory.events, error))?;
            board.event(&event)?;
            if matches!(event, RunEvent::Learning(Event::TaskLearned { .. })) && tasks < metrics.tasks.len() {
                board.evaluated(metrics, tasks)?;
                tasks += 1;
            }
        }
        Ok(board)
    }

    fn event(&mut self, event: &RunEvent) -> lmc_streams::Result<()> {
        let RunEvent::Learning(Event::EpochEnded {
            loss,
            cross_entropy,
            train_accuracy,
            val_accuracy,
            modules,
            ..
        }) = event
        else {
            return Ok(());
        };
        self.epochs += 1;
        let modules: usize = modules.iter().sum();
        let mut scalars = vec![
            ("learning/loss".to_owned(), *loss),
            ("learning/cross_entropy".to_owned(), *cross_entropy),
            ("learning/train_accuracy".to_owned(), *train_accuracy),
            ("learning/modules".to_owned(), modules as f64),
        ];
        scalars.extend(val_accuracy.map(|accuracy| ("learning/val_accuracy".to_owned(), accuracy)));
        self.file.write(self.epochs, &scalars)
    }

    /// Writes the test accuracies after task `number`.
    fn evaluated(&mut self, metrics: &Metrics, number: usize) -> lmc_streams::Result<()> {
        let Some(row) = metrics.matrix.get(number) else { return Ok(()) };
        let name = |(accuracy, (at, task)): (&Option<f64>, (usize, &TaskMetrics))| {
            accuracy.map(|accuracy| (format!("test/{}_{}", at + 1, task.task), accuracy))
        };
        let mut scalars: Vec<(String, f64)> =
            row.iter().zip(metrics.tasks.iter().enumerate()).filter_map(name).collect();
        scalars.extend(mean(row).map(|mean| ("test/mean".to_owned(), mean)));
        self.file.write(self.epochs, &scalars)
    }
}
