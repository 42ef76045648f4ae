//! Where events go: a line of JSON each, always; scalars for TensorBoard, if asked for.
//!
//! A run that goes on after a break cuts the lines back to its last state, and draws TensorBoard's curves anew from them.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use lmc::Result;
use lmc::events::Event;
use lmc_streams::Error;

use crate::metrics::Metrics;
use crate::run_directory::{RunDirectory, damaged};
use crate::tensorboard::TensorBoard;

/// The trackers of a run.
#[derive(Debug)]
pub struct Trackers {
    file: File,
    length: u64,
    path: PathBuf,
    board: Option<Board>,
}

impl Trackers {
    /// Opens them where `length` bytes of events are part of the state that the run goes on from, in which `metrics` are
    /// known.
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
                let before = fs::read_to_string(&path).map_err(io("read"))?;
                Some(Board::again(directory, &before, metrics)?)
            }
            false => None,
        };
        Ok(Self { file, length, path, board })
    }

    /// Bytes of events so far.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes an event. Single steps are for progress bars, not for the log.
    pub fn write(&mut self, event: &Event) -> Result<()> {
        if matches!(event, Event::Step { .. }) {
            return Ok(());
        }
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        self.file.write_all(&line).map_err(Error::io("write", &self.path))?;
        self.length += line.len() as u64;
        match &mut self.board {
            Some(board) => board.event(event),
            None => Ok(()),
        }
    }

    /// Tells that the accuracies after the newest task are known.
    pub fn tested(&mut self, metrics: &Metrics) -> Result<()> {
        let newest = metrics.tasks.len().saturating_sub(1);
        self.board.as_mut().map_or(Ok(()), |board| board.tested(metrics, newest))
    }
}

/// What goes to TensorBoard: curves over the epochs of the whole stream.
#[derive(Debug)]
struct Board {
    file: TensorBoard,
    /// Epochs so far, of all tasks.
    epochs: u64,
}

impl Board {
    /// A new file with what happened before.
    fn again(directory: &RunDirectory, before: &str, metrics: &Metrics) -> Result<Self> {
        let mut board = Self { file: TensorBoard::replace(&directory.tensorboard)?, epochs: 0 };
        let mut tasks = 0;
        for line in before.lines() {
            let event: Event =
                serde_json::from_str(line).map_err(|error| damaged(&directory.events, error))?;
            board.event(&event)?;
            if matches!(event, Event::TaskLearned { .. }) && tasks < metrics.tasks.len() {
                board.tested(metrics, tasks)?;
                tasks += 1;
            }
        }
        Ok(board)
    }

    fn event(&mut self, event: &Event) -> Result<()> {
        let Event::EpochEnded { loss, cross_entropy, train_accuracy, val_accuracy, modules, .. } = event
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

    /// Test accuracies after task `number`.
    fn tested(&mut self, metrics: &Metrics, number: usize) -> Result<()> {
        let Some(row) = metrics.matrix.get(number) else { return Ok(()) };
        let name = |(accuracy, (at, task)): (&f64, (usize, &crate::TaskMetrics))| {
            (format!("test/{}_{}", at + 1, task.task), *accuracy)
        };
        let mut scalars: Vec<(String, f64)> =
            row.iter().zip(metrics.tasks.iter().enumerate()).map(name).collect();
        scalars.push(("test/mean".to_owned(), row.iter().sum::<f64>() / row.len().max(1) as f64));
        self.file.write(self.epochs, &scalars)
    }
}
