//! What is counted during an epoch, and told to whoever listens.

use burn::tensor::Tensor;
use lmc::events::Event;
use lmc::{Error, Result};

use crate::method::Listen;
use crate::training::{right, scalar};

/// Losses and right answers of an epoch.
#[derive(Clone, Debug)]
pub struct Tally {
    task: String,
    epoch: usize,
    epochs: usize,
    step: usize,
    steps: usize,
    loss: f64,
    correct: usize,
    seen: usize,
}

impl Tally {
    /// Of an epoch with so many steps; epochs count from 0.
    pub fn new(task: &str, epoch: usize, epochs: usize, steps: usize) -> Self {
        Self { task: task.to_owned(), epoch, epochs, step: 0, steps, loss: 0.0, correct: 0, seen: 0 }
    }

    /// Images so far.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Counts a batch, before anything is moved by it: a loss that is no number is an error.
    pub fn batch(
        &mut self,
        loss: &Tensor<1>,
        logits: &Tensor<2>,
        labels: &[u32],
        listen: Listen<'_>,
    ) -> Result<()> {
        let (epoch, loss) = (self.epoch, scalar(loss));
        if !loss.is_finite() {
            return Err(Error::Diverged { task: self.task.clone(), epoch: epoch + 1, loss });
        }
        self.loss += loss * labels.len() as f64;
        self.correct += right(logits, labels);
        self.seen += labels.len();
        listen(Event::Step { epoch, step: self.step, steps: self.steps, loss })?;
        self.step += 1;
        Ok(())
    }

    /// Tells of the whole epoch.
    pub fn end(self, val_accuracy: Option<f64>, modules: Vec<usize>, listen: Listen<'_>) -> Result<()> {
        let seen = self.seen.max(1) as f64;
        listen(Event::EpochEnded {
            epoch: self.epoch,
            epochs: self.epochs,
            loss: self.loss / seen,
            cross_entropy: self.loss / seen,
            train_accuracy: self.correct as f64 / seen,
            val_accuracy,
            modules,
        })
    }
}
