//! Search for the modules that a task needs: candidates with no, one, …, all layers extended, from the top down, are trained
//! one after another, and the one with the best validation accuracy stays. MNTDP and SG-F search this way.

use burn::tensor::Device;
use lmc::tensors::{Plain, Walk, freeze, plain, train};
use lmc::{Learned, Material, Result};
use serde_json::{Value, json};

use crate::training::{Lesson, TrainingConfig, below, fill_from, parse, prefixed};

/// Which candidate, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its number in the search.
    pub candidate: usize,
    /// The lowest layer that it adds a module to; the depth of the network if it adds none.
    pub from: usize,
    /// Classes of the task.
    pub classes: usize,
}

/// The search for a task. `P` is what a candidate adds and trains.
#[derive(Clone, Debug)]
pub struct Search<P> {
    /// The task.
    task: String,
    classes: usize,
    /// By candidate, in the order of the search.
    from: Vec<usize>,
    candidate: usize,
    /// The candidate's own training.
    pub lesson: Lesson,
    /// The candidate's parts.
    pub parts: P,
    best: Option<Found<P>>,
    /// Validation accuracy of all candidates that are finished.
    accuracies: Vec<f64>,
}

/// The best candidate that is finished.
#[derive(Clone, Debug)]
pub struct Found<P> {
    /// The lowest layer that it adds a module to.
    pub from: usize,
    /// What it adds, frozen.
    pub parts: P,
    candidate: usize,
    accuracy: f64,
    epoch: usize,
}

impl<P: Walk + Clone> Search<P> {
    /// At its beginning, for task `number`. The first task has one candidate, which is all new.
    pub fn new(
        config: &TrainingConfig,
        material: Material<'_>,
        number: usize,
        depth: usize,
        new: impl FnOnce(Place) -> P,
    ) -> Self {
        let from: Vec<usize> = if number == 0 { vec![0] } else { (0..=depth).rev().collect() };
        let classes = material.classes.len();
        Self {
            task: material.task.to_owned(),
            classes,
            candidate: 0,
            lesson: Lesson::new(config, material, number),
            parts: new(Place { candidate: 0, from: from[0], classes }),
            from,
            best: None,
            accuracies: Vec::new(),
        }
    }

    fn place(&self, candidate: usize) -> Place {
        let from = self.from.get(candidate).or(self.from.last()).copied().unwrap_or(0);
        Place { candidate, from, classes: self.classes }
    }

    /// The candidate that is being trained.
    pub fn now(&self) -> Place {
        self.place(self.candidate)
    }

    /// Whether there is a candidate to train.
    pub fn more(&self) -> bool {
        self.candidate < self.from.len()
    }

    /// Epochs of all candidates that are done and to be done.
    pub fn progress(&self) -> (usize, usize) {
        let each = self.lesson.epochs;
        let here = if self.more() { self.lesson.epoch } else { 0 };
        (self.candidate * each + here, self.from.len() * each)
    }

    /// Counts an epoch. After a candidate's last one it is compared with the best, and the next one begins.
    pub fn end_epoch(
        &mut self,
        val_accuracy: Option<f64>,
        config: &TrainingConfig,
        material: Material<'_>,
        new: impl FnOnce(Place) -> P,
    ) -> Result<()> {
        self.lesson.end_epoch(&self.parts, val_accuracy);
        let each = self.lesson.epochs;
        if self.lesson.epoch < each {
            return Ok(());
        }
        self.lesson.restore_best(&mut self.parts)?;
        let best = self.lesson.best.as_ref();
        let (accuracy, epoch) = best.map_or((0.0, each - 1), |best| (best.accuracy, best.epoch));
        self.accuracies.push(accuracy);
        if self.best.as_ref().is_none_or(|best| accuracy > best.accuracy) {
            let Place { candidate, from, .. } = self.now();
            let mut parts = self.parts.clone();
            freeze(&mut parts);
            self.best = Some(Found { from, parts, candidate, accuracy, epoch: candidate * each + epoch });
        }
        self.candidate += 1;
        if self.more() {
            self.parts = new(self.now());
            self.lesson = Lesson::new(config, material, self.lesson.number);
        }
        Ok(())
    }

    /// The best candidate, and what became of the task but for its modules. `None` if none was trained.
    pub fn found(self) -> Option<(Found<P>, Learned)> {
        let (_, epochs) = self.progress();
        let best = self.best?;
        let learned = Learned {
            task: self.task,
            best_epoch: best.epoch,
            epochs,
            val_accuracy: Some(best.accuracy),
            ..Learned::default()
        };
        Some((best, learned))
    }

    /// Its document; its tensors go to `tensors`.
    pub fn save(&self, tensors: &mut Vec<Plain>) -> Value {
        let lesson = self.lesson.save(tensors);
        tensors.extend(prefixed("parts", plain(&self.parts)));
        let best = self.best.as_ref().map(|best| {
            tensors.extend(prefixed("found", plain(&best.parts)));
            (best.candidate, best.accuracy, best.epoch)
        });
        json!({
            "task": self.task, "classes": self.classes, "from": self.from, "candidate": self.candidate,
            "lesson": lesson, "best": best, "accuracies": self.accuracies,
        })
    }

    /// From what [`Search::save`] gave; `new` makes the parts of a candidate, to be filled.
    pub fn load(
        document: &Value,
        tensors: &[Plain],
        config: &TrainingConfig,
        device: &Device,
        new: impl Fn(Place) -> P,
    ) -> Result<Self> {
        let from: Vec<usize> = parse(&document["from"])?;
        let (candidate, classes): (usize, usize) =
            (parse(&document["candidate"])?, parse(&document["classes"])?);
        let read = |candidate: usize, name: &str| -> Result<(usize, P)> {
            let from = from.get(candidate).or(from.last()).copied().unwrap_or(0);
            let mut parts = new(Place { candidate, from, classes });
            fill_from(&mut parts, below(name, tensors).into_values().collect())?;
            Ok((from, parts))
        };
        let (_, mut parts) = read(candidate, "parts")?;
        train(&mut parts);
        let best: Option<(usize, f64, usize)> = parse(&document["best"])?;
        let best = best.map(|(candidate, accuracy, epoch)| -> Result<Found<P>> {
            let (from, mut parts) = read(candidate, "found")?;
            freeze(&mut parts);
            Ok(Found { from, parts, candidate, accuracy, epoch })
        });
        Ok(Self {
            task: parse(&document["task"])?,
            classes,
            candidate,
            lesson: Lesson::load(&document["lesson"], tensors, config, device)?,
            parts,
            best: best.transpose()?,
            accuracies: parse(&document["accuracies"])?,
            from,
        })
    }
}
