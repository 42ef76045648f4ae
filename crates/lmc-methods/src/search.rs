//! Search for the modules that a task needs: candidates with no, one, …, all layers extended, from the top down, are trained
//! one after another, and the one with the best validation accuracy stays. MNTDP and SG-F search this way.

use burn::tensor::Device;
use lmc::internals::tensors::{NamedTensor, Walk, below, freeze, plain, prefixed, train};
use lmc::internals::training::EpochMetrics;
use lmc::{Result, TaskData, TaskReport};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::{TrainingRecord, document, fill_from, parse};
use crate::training::{BaselineTraining, TrainingConfig, restore_best};

/// What a candidate of a search is to have.
#[derive(Clone, Copy, Debug)]
pub struct CandidateSpec {
    /// Number of the candidate in the search, from 0.
    pub candidate: usize,
    /// The lowest layer that the candidate adds a module to; the depth of the network if it adds none.
    pub from: usize,
    /// Number of classes of the task.
    pub classes: usize,
}

/// The search for the modules of one task. `P` are the parts that a candidate adds and trains.
#[derive(Clone, Debug)]
pub struct Search<P> {
    task: String,
    classes: usize,
    /// Lowest new layer of each candidate, in the order of the search.
    from: Vec<usize>,
    candidate: usize,
    /// Training of the current candidate.
    pub training: BaselineTraining,
    /// Parts of the current candidate.
    pub parts: P,
    best: Option<BestCandidate<P>>,
    /// Validation accuracy of each candidate that is trained.
    accuracies: Vec<f64>,
}

/// The best candidate that is trained.
#[derive(Clone, Debug)]
pub struct BestCandidate<P> {
    /// The lowest layer that the candidate adds a module to.
    pub from: usize,
    /// Parts that the candidate adds, frozen.
    pub parts: P,
    candidate: usize,
    accuracy: f64,
    /// Epoch of the best state, counted over all candidates.
    epoch: usize,
}

/// The document of a [`Search`]; `parts.*` are the tensors of the current candidate, `found.*` those of the best.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchRecord {
    task: String,
    classes: usize,
    from: Vec<usize>,
    candidate: usize,
    #[serde(alias = "lesson")]
    training: TrainingRecord,
    /// Number, accuracy and epoch of the best candidate.
    best: Option<(usize, f64, usize)>,
    accuracies: Vec<f64>,
}

/// The candidate of this number among those with these lowest new layers.
fn spec(from: &[usize], candidate: usize, classes: usize) -> CandidateSpec {
    let from = from.get(candidate).or(from.last()).copied().unwrap_or(0);
    CandidateSpec { candidate, from, classes }
}

impl<P: Walk + Clone> Search<P> {
    /// Begins the search for task `number`, counted from 0. The first task has one candidate, which is all new.
    pub fn new(
        config: &TrainingConfig,
        data: TaskData<'_>,
        number: usize,
        depth: usize,
        new: impl FnOnce(CandidateSpec) -> P,
    ) -> Self {
        let from: Vec<usize> = if number == 0 { vec![0] } else { (0..=depth).rev().collect() };
        let classes = data.classes.len();
        Self {
            task: data.name.to_owned(),
            classes,
            candidate: 0,
            training: config.start(data, number),
            parts: new(spec(&from, 0, classes)),
            from,
            best: None,
            accuracies: Vec::new(),
        }
    }

    /// The candidate that is trained now.
    pub fn current(&self) -> CandidateSpec {
        spec(&self.from, self.candidate, self.classes)
    }

    /// Begins an epoch of so many steps, or goes on with the one under way; gives the number of steps that are done. Its
    /// events count epochs over all candidates.
    pub fn begin_epoch(&mut self, steps: usize) -> usize {
        let (epoch, _) = self.progress();
        let task = &self.task;
        self.training.under_way.get_or_insert_with(|| EpochMetrics::new(task, epoch, steps)).step()
    }

    /// Whether all candidates are trained.
    pub fn is_done(&self) -> bool {
        self.candidate >= self.from.len()
    }

    /// Epochs that are done, and epochs that the task gets, over all candidates.
    pub fn progress(&self) -> (usize, usize) {
        let (done, each) = self.training.progress();
        let done = if self.is_done() { 0 } else { done };
        (self.candidate * each + done, self.from.len() * each)
    }

    /// Counts an epoch. After a candidate's last epoch it is compared with the best, and the next one begins.
    pub fn end_epoch(
        &mut self,
        val_accuracy: Option<f64>,
        config: &TrainingConfig,
        data: TaskData<'_>,
        new: impl FnOnce(CandidateSpec) -> P,
    ) -> Result<EpochMetrics> {
        let metrics = self.training.end_epoch(val_accuracy, || plain(&self.parts));
        if !self.training.is_done() {
            return Ok(metrics);
        }
        restore_best(&mut self.training, &mut self.parts)?;
        let each = self.training.epochs;
        let best = self.training.best.as_ref();
        let (accuracy, epoch) = best.map_or((0.0, each - 1), |best| (best.accuracy, best.epoch));
        self.accuracies.push(accuracy);
        if self.best.as_ref().is_none_or(|best| accuracy > best.accuracy) {
            let CandidateSpec { candidate, from, .. } = self.current();
            let mut parts = self.parts.clone();
            freeze(&mut parts);
            let epoch = candidate * each + epoch;
            self.best = Some(BestCandidate { from, parts, candidate, accuracy, epoch });
        }
        self.candidate += 1;
        if !self.is_done() {
            self.parts = new(self.current());
            self.training = config.start(data, self.training.number);
        }
        Ok(metrics)
    }

    /// The best candidate, and the report of the task but for its modules; `None` if none was trained.
    pub fn best(self) -> Option<(BestCandidate<P>, TaskReport)> {
        let (_, epochs) = self.progress();
        let best = self.best?;
        let report = TaskReport {
            task: self.task,
            best_epoch: best.epoch,
            epochs,
            val_accuracy: Some(best.accuracy),
            ..TaskReport::default()
        };
        Some((best, report))
    }

    /// The document of the search; its tensors are appended to `tensors`.
    pub fn save(&self, tensors: &mut Vec<NamedTensor>) -> Result<Value> {
        let training = TrainingRecord::of(&self.training, tensors);
        tensors.extend(prefixed("parts", plain(&self.parts)));
        let best = self.best.as_ref().map(|best| {
            tensors.extend(prefixed("found", plain(&best.parts)));
            (best.candidate, best.accuracy, best.epoch)
        });
        document(&SearchRecord {
            task: self.task.clone(),
            classes: self.classes,
            from: self.from.clone(),
            candidate: self.candidate,
            training,
            best,
            accuracies: self.accuracies.clone(),
        })
    }

    /// Restores what [`Search::save`] gave; `new` makes the parts of a candidate, to be filled.
    pub fn load(
        document: &Value,
        tensors: &[NamedTensor],
        config: &TrainingConfig,
        device: &Device,
        new: impl Fn(CandidateSpec) -> P,
    ) -> Result<Self> {
        let record: SearchRecord = parse(document)?;
        let SearchRecord { classes, from, candidate, .. } = record;
        let read = |candidate: usize, name: &str| -> Result<P> {
            let mut parts = new(spec(&from, candidate, classes));
            fill_from(&mut parts, below(name, tensors).into_values().collect())?;
            Ok(parts)
        };
        let mut parts = read(candidate, "parts")?;
        train(&mut parts);
        let best = record.best.map(|(candidate, accuracy, epoch)| -> Result<BestCandidate<P>> {
            let mut parts = read(candidate, "found")?;
            freeze(&mut parts);
            let CandidateSpec { from, .. } = spec(&from, candidate, classes);
            Ok(BestCandidate { from, parts, candidate, accuracy, epoch })
        });
        Ok(Self {
            task: record.task,
            classes,
            candidate,
            training: record.training.restore(tensors, config, device)?,
            parts,
            best: best.transpose()?,
            accuracies: record.accuracies,
            from,
        })
    }
}
