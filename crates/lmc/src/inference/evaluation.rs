//! Evaluation: how many test images are classified correctly, under each test protocol, for LMC and every baseline
//! (specification §1.10, §4).
//!
//! | protocol | task ID | batch | in the paper |
//! | --- | --- | --- | --- |
//! | [`Protocol::TaskGiven`] | given | images of one task | LMC(¬A), and all task-aware baselines |
//! | [`Protocol::TaskBatch`] | not given | images of one task, which share the batch prior and the head | LMC(A) |
//! | [`Protocol::Mixed`] | not given | images of all tasks, which share the batch prior; a head for each | - |
//! | [`Protocol::Single`] | not given | every image on its own | - |
//!
//! What counts as correct is a second question ([`Counting`]): the authors count label positions, whichever head answered, so
//! that an apple that is called a shirt is right if both are the third class of their tasks. People count names.

use burn::tensor::{Device, Tensor};
use lmc_streams::{Batch, BatchConfig, ImageShape, Normalisation, PixelScale, Seed, TaskSet};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::tensors::images;

/// A test protocol: what is known about the images of a test batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// All images of a batch are of one task, and its ID is given.
    TaskGiven,
    /// All images of a batch are of one task, whose ID is not given.
    TaskBatch,
    /// Images of all tasks are shuffled into batches.
    Mixed,
    /// Every image is classified as if it were a batch of one.
    Single,
}

/// When an image counts as classified correctly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// The label is right among those of whichever task answered: the paper's count, for its tables.
    Label,
    /// The name of the class is right.
    Name,
    /// The task and the name of the class are right.
    TaskAndName,
}

/// Task, label and module weights of one classified image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classification {
    /// Number of the task whose outputs classified the image.
    pub task: usize,
    /// Label among those of that task.
    pub label: u32,
    /// Weight of each module, `[layer][module]`; empty for methods without modules.
    pub weights: Vec<Vec<f64>>,
}

/// A method as it is now, without gradients: all that the evaluator needs of it.
pub trait Classify {
    /// Classifies a batch of images `[batch, channel, row, column]` under each protocol, `[protocol][image]`. `task` is
    /// the task of all images; only [`Protocol::TaskGiven`] may look at it.
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> Result<Vec<Vec<Classification>>>;
}

/// Test images of one task.
#[derive(Clone, Debug)]
pub struct TestSet<'a> {
    /// Number of the task in the method that is evaluated.
    pub task: usize,
    /// Images with labels in the order of the task's classes.
    pub images: &'a TaskSet,
    /// Statistics that the method wants its images normalised with.
    pub normalisation: Option<&'a Normalisation>,
}

/// Whether one image was classified correctly, in each way of [`Counting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// By [`Counting::Label`].
    pub label: bool,
    /// By [`Counting::Name`].
    pub name: bool,
    /// By [`Counting::TaskAndName`].
    pub task_and_name: bool,
}

/// Counts of one test set under one protocol.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvalCounts {
    /// Number of images that were classified.
    pub images: usize,
    /// Number of images that were classified correctly, by [`Counting::Label`].
    pub correct: usize,
    /// The same by [`Counting::Name`]; 0 if the evaluator knows no names.
    pub named: usize,
    /// The same by [`Counting::TaskAndName`].
    pub strict: usize,
    /// Number of images that the outputs of each task classified.
    pub by_task: Vec<usize>,
    /// Sum of the weights of each module, `[layer][module]`.
    weights: Vec<Vec<f64>>,
}

impl EvalCounts {
    /// Share of images that were classified correctly, by [`Counting::Label`]; 0 of none.
    pub fn accuracy(&self) -> f64 {
        self.counted(Counting::Label)
    }

    /// Share of images that were classified correctly, counted in one of the ways; 0 of none.
    pub fn counted(&self, counting: Counting) -> f64 {
        let correct = match counting {
            Counting::Label => self.correct,
            Counting::Name => self.named,
            Counting::TaskAndName => self.strict,
        };
        correct as f64 / self.images.max(1) as f64
    }

    /// Share of images that the outputs of a task classified; 0 of none.
    pub fn share(&self, task: usize) -> f64 {
        self.by_task.get(task).copied().unwrap_or(0) as f64 / self.images.max(1) as f64
    }

    /// Mean weight of each module, `[layer][module]`.
    pub fn mean_weights(&self) -> Vec<Vec<f64>> {
        let images = self.images.max(1) as f64;
        self.weights.iter().map(|layer| layer.iter().map(|sum| sum / images).collect()).collect()
    }

    /// Counts one image.
    pub fn add(&mut self, found: &Classification, verdict: Verdict) {
        self.images += 1;
        self.correct += usize::from(verdict.label);
        self.named += usize::from(verdict.name);
        self.strict += usize::from(verdict.task_and_name);
        if self.by_task.len() <= found.task {
            self.by_task.resize(found.task + 1, 0);
        }
        self.by_task[found.task] += 1;
        self.weights.resize(found.weights.len().max(self.weights.len()), Vec::new());
        for (sums, weights) in self.weights.iter_mut().zip(&found.weights) {
            sums.resize(sums.len().max(weights.len()), 0.0);
            sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        }
    }
}

/// Accuracy of one test set under each protocol, as shares of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// [`Protocol::TaskGiven`].
    pub task_given: f64,
    /// [`Protocol::TaskBatch`]; `None` here and below for task-aware methods.
    pub task_batches: Option<f64>,
    /// [`Protocol::Mixed`]; of a thinned test set in experiments.
    pub mixed: Option<f64>,
    /// [`Protocol::Single`]; of a thinned test set in experiments.
    pub single: Option<f64>,
}

impl Accuracy {
    /// Accuracy under a protocol, if it was measured.
    pub fn of(&self, protocol: Protocol) -> Option<f64> {
        match protocol {
            Protocol::TaskGiven => Some(self.task_given),
            Protocol::TaskBatch => self.task_batches,
            Protocol::Mixed => self.mixed,
            Protocol::Single => self.single,
        }
    }

    /// Accuracy under the protocol with which the paper tests a method: without the task ID if it needs none.
    pub fn headline(&self, task_agnostic: bool) -> f64 {
        if task_agnostic { self.task_batches.unwrap_or(self.task_given) } else { self.task_given }
    }
}

/// Evaluates a method on test sets.
pub struct Evaluator<'a> {
    /// The method.
    pub classifier: &'a dyn Classify,
    /// Images per test batch; 64 in the paper.
    pub batch: usize,
    /// Device that the images go to.
    pub device: Device,
    /// For class-incremental methods, the first task that has the outputs of each task: a label then counts only if it
    /// comes from the right outputs. Without it the label alone counts, as the authors count for heads.
    pub outputs: Option<Vec<usize>>,
    /// Class names of each task; empty if nobody counts by name.
    pub classes: Vec<&'a [String]>,
}

impl Evaluator<'_> {
    /// Whether an image of a task with this label was classified correctly.
    pub fn verdict(&self, found: &Classification, task: usize, label: u32) -> Verdict {
        let same_outputs = self.outputs.as_ref().is_none_or(|outputs| {
            let of = |task: usize| outputs.get(task).copied().unwrap_or(task);
            of(found.task) == of(task)
        });
        let name = |task: usize, label: u32| self.classes.get(task)?.get(label as usize);
        let name = name(task, label).is_some_and(|wanted| name(found.task, found.label) == Some(wanted));
        Verdict {
            label: found.label == label && same_outputs,
            name,
            task_and_name: name && found.task == task,
        }
    }

    /// Counts of a test set under each protocol but [`Protocol::Mixed`], in stored order.
    pub fn evaluate(&self, set: &TestSet<'_>, protocols: &[Protocol]) -> Result<Vec<EvalCounts>> {
        let mut counts = vec![EvalCounts::default(); protocols.len()];
        let normalisation = set.normalisation.cloned();
        for batch in (BatchConfig { normalisation, ..BatchConfig::stored(self.batch) }).init(set.images)? {
            let found = self.classifier.classify(&images(&batch, &self.device), Some(set.task), protocols)?;
            for (counts, found) in counts.iter_mut().zip(found) {
                for (found, &label) in found.iter().zip(&batch.labels) {
                    counts.add(found, self.verdict(found, set.task, label));
                }
            }
        }
        Ok(counts)
    }

    /// Counts of each test set under [`Protocol::Mixed`]: all their images are shuffled into batches.
    pub fn evaluate_mixed(&self, sets: &[TestSet<'_>], seed: &Seed) -> Result<Vec<EvalCounts>> {
        let places = |(set, test): (usize, &TestSet<'_>)| {
            (0..test.images.len()).map(move |position| (set, position)).collect::<Vec<_>>()
        };
        let mut order: Vec<(usize, usize)> = sets.iter().enumerate().flat_map(places).collect();
        seed.random().shuffle(&mut order);
        let mut counts = vec![EvalCounts::default(); sets.len()];
        let Some(shape) = sets.iter().find(|set| !set.images.is_empty()).map(|set| set.images.shape()) else {
            return Ok(counts);
        };
        let scales = sets.iter().map(|set| PixelScale::new(set.normalisation, shape.channels));
        let scales = scales.collect::<lmc_streams::Result<Vec<_>>>()?;
        let mut batch = Batch::default();
        for places in order.chunks(self.batch.max(1)) {
            fill(&mut batch, sets, places, shape, &scales);
            let input = images(&batch, &self.device);
            let found = self.classifier.classify(&input, None, &[Protocol::Mixed])?.pop().unwrap_or_default();
            for ((found, &(set, _)), &label) in found.iter().zip(places).zip(&batch.labels) {
                counts[set].add(found, self.verdict(found, sets[set].task, label));
            }
        }
        Ok(counts)
    }

    /// Counts under all protocols, one [`Evaluation`] for each test set.
    pub fn evaluate_all(&self, sets: &[TestSet<'_>], seed: &Seed) -> Result<Vec<Evaluation>> {
        let mixed = self.evaluate_mixed(sets, seed)?;
        let all = sets.iter().zip(mixed).map(|(set, mixed)| {
            let protocols = [Protocol::TaskGiven, Protocol::TaskBatch, Protocol::Single];
            let mut counts = self.evaluate(set, &protocols)?.into_iter();
            let mut next = || counts.next().unwrap_or_default();
            Ok(Evaluation { task_given: next(), task_batch: next(), single: next(), mixed })
        });
        all.collect()
    }
}

/// Counts of one test set under all protocols.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Counts under [`Protocol::TaskGiven`].
    pub task_given: EvalCounts,
    /// Counts under [`Protocol::TaskBatch`].
    pub task_batch: EvalCounts,
    /// Counts under [`Protocol::Single`].
    pub single: EvalCounts,
    /// Counts under [`Protocol::Mixed`].
    pub mixed: EvalCounts,
}

impl Evaluation {
    /// Accuracy under each protocol, counted in one of the ways.
    pub fn accuracy(&self, counting: Counting) -> Accuracy {
        Accuracy {
            task_given: self.task_given.counted(counting),
            task_batches: Some(self.task_batch.counted(counting)),
            mixed: Some(self.mixed.counted(counting)),
            single: Some(self.single.counted(counting)),
        }
    }
}

/// Fills a batch with images of several sets, `(set, position)`.
fn fill(
    batch: &mut Batch,
    sets: &[TestSet<'_>],
    places: &[(usize, usize)],
    shape: ImageShape,
    scales: &[PixelScale],
) {
    batch.clear(shape);
    let mut bytes = vec![0; shape.bytes()];
    for &(set, position) in places {
        let images = sets[set].images;
        images.write(position, &mut bytes);
        batch.push(&bytes, images.label(position), position as u32, &scales[set]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_hand() {
        let found = |task: usize, weights: [f64; 2]| Classification {
            task,
            label: 0,
            weights: vec![weights.to_vec()],
        };
        let mut counts = EvalCounts::default();
        let verdict = |label, name, task_and_name| Verdict { label, name, task_and_name };
        counts.add(&found(0, [1.0, 0.0]), verdict(true, true, true));
        counts.add(&found(1, [0.5, 0.5]), verdict(true, true, false));
        counts.add(&found(1, [0.0, 1.0]), verdict(false, true, false));
        counts.add(&found(1, [0.5, 0.5]), verdict(false, false, false));
        assert_eq!((counts.counted(Counting::Name), counts.counted(Counting::TaskAndName)), (0.75, 0.25));
        assert_eq!((counts.images, counts.correct, counts.accuracy()), (4, 2, 0.5));
        assert_eq!((counts.share(0), counts.share(1), counts.share(7)), (0.25, 0.75, 0.0));
        assert_eq!(counts.mean_weights(), [[0.5, 0.5]]);
    }

    /// Answers label 1 with the outputs of task 2, whatever it is shown.
    struct Stubborn;

    impl Classify for Stubborn {
        fn classify(
            &self,
            images: &Tensor<4>,
            _: Option<usize>,
            protocols: &[Protocol],
        ) -> Result<Vec<Vec<Classification>>> {
            let found = Classification { task: 2, label: 1, weights: Vec::new() };
            Ok(vec![vec![found; images.dims()[0]]; protocols.len()])
        }
    }

    #[test]
    fn an_answer_counts_by_label_by_name_and_strictly() {
        let names = |names: [&str; 2]| names.map(str::to_owned);
        let (pets, tools, zoo) = (names(["cat", "dog"]), names(["saw", "drill"]), names(["lion", "dog"]));
        let evaluator = |outputs: Option<Vec<usize>>, named: bool| Evaluator {
            classifier: &Stubborn,
            batch: 4,
            device: Device::flex(),
            outputs,
            classes: if named { vec![&pets, &tools, &zoo] } else { Vec::new() },
        };
        // The second class of task 2: a dog.
        let found = Classification { task: 2, label: 1, weights: Vec::new() };
        let verdict = |evaluator: &Evaluator<'_>, task: usize, label: u32| {
            let Verdict { label, name, task_and_name } = evaluator.verdict(&found, task, label);
            [label, name, task_and_name]
        };
        let plain = evaluator(None, true);
        assert_eq!(verdict(&plain, 2, 1), [true, true, true]);
        assert_eq!(verdict(&plain, 0, 1), [true, true, false], "a dog of another task");
        assert_eq!(verdict(&plain, 1, 1), [true, false, false], "a drill is no dog");
        assert_eq!(verdict(&plain, 0, 0), [false, false, false]);
        // Class-incremental methods: a label counts only from the right outputs.
        assert_eq!(verdict(&evaluator(Some(vec![0, 1, 2]), true), 0, 1), [false, true, false]);
        assert_eq!(verdict(&evaluator(Some(vec![0, 1, 0]), true), 0, 1), [true, true, false]);
        assert_eq!(verdict(&evaluator(None, false), 2, 1), [true, false, false]);
    }
}
