//! Evaluation during a run: a row of the accuracy matrix after every task, and all protocols at the end of the stream.
//!
//! Whole test sets after every task under every protocol would take longer than learning. Cells of the matrix that no
//! metric is made from, and the protocols [`Protocol::Mixed`] and [`Protocol::Single`], use test sets that are thinned.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{Device, Tensor};
use lmc::internals::inference::evaluation::{Classification, Classify, Evaluator};
use lmc::{Accuracy, Counting, EvalCounts, Protocol, TaskReport, TestSet};
use lmc_methods::Method;
use lmc_streams::{Normalisation, Seed, Stream, TaskSet};

use crate::error::Result;
use crate::experiment::Evaluate;
use crate::metrics::{Metrics, OwnHead, TaskMetrics};
use crate::run::Run;

/// Images per test batch, as in the paper.
const BATCH: usize = 64;

/// Images per test set for cells below the diagonal of the accuracy matrix, and for mixed batches before the end.
const THINNED: usize = 1000;

/// Images per test set for single images, and for mixed batches at the end.
const THINNED_AT_END: usize = 2000;

/// Hears the name of each task before its test set is evaluated.
pub type Announce<'a> = dyn FnMut(&str) + 'a;

/// The test sets of a stream, and how a run evaluates a method on them.
#[derive(Debug)]
pub struct StreamEvaluation<'a> {
    stream: &'a Stream,
    /// Statistics of each task's training images, if the method wants its images normalised.
    normalisations: Vec<Option<Normalisation>>,
    task_agnostic: bool,
    evaluate: Evaluate,
    /// Test images of each task, at most.
    most: usize,
    seed: u64,
    device: Device,
    stop: &'a AtomicBool,
}

/// A classifier that ends with [`lmc::Error::Stopped`] before the next batch once the flag is set.
struct Stoppable<'a> {
    classifier: &'a dyn Classify,
    stop: &'a AtomicBool,
}

impl Classify for Stoppable<'_> {
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> lmc::Result<Vec<Vec<Classification>>> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(lmc::Error::Stopped { done: "all training so far, not its evaluation".into() });
        }
        self.classifier.classify(images, task, protocols)
    }
}

/// Counts of one test set under each protocol; all but the first for task-agnostic methods only.
struct TaskCounts {
    task_given: EvalCounts,
    task_batch: Option<EvalCounts>,
    single: Option<EvalCounts>,
}

impl TaskCounts {
    fn accuracy(&self, mixed: Option<&EvalCounts>, counting: Counting) -> Accuracy {
        let share = |counts: &EvalCounts| counts.counted(counting);
        Accuracy {
            task_given: share(&self.task_given),
            task_batches: self.task_batch.as_ref().map(share),
            mixed: mixed.map(share),
            single: self.single.as_ref().map(share),
        }
    }
}

impl<'a> StreamEvaluation<'a> {
    /// Prepares the evaluation of the method of a run.
    pub fn new(run: &Run<'a>, method: &dyn Method, task_agnostic: bool) -> Self {
        let Run { experiment, stream, device, stop, .. } = *run;
        let normalise = method.normalises();
        let statistics = |task: &lmc_streams::Task| normalise.then(|| Normalisation::of(&task.train));
        let normalisations = stream.tasks.iter().map(statistics).collect();
        Self {
            stream,
            normalisations,
            task_agnostic,
            evaluate: experiment.evaluate,
            most: experiment.test_images.unwrap_or(usize::MAX),
            seed: experiment.seed,
            device: device.clone().inner(),
            stop,
        }
    }

    /// Adds what is known right after task `number` was learned: a row of the accuracy matrix, and the task's metrics.
    pub fn after_task(
        &self,
        method: &dyn Method,
        number: usize,
        report: TaskReport,
        metrics: &mut Metrics,
        announce: &mut Announce<'_>,
    ) -> Result<()> {
        let classifier = method.classifier()?;
        let classifier = Stoppable { classifier: &*classifier, stop: self.stop };
        let evaluator = self.evaluator(&classifier, method, number + 1);
        let whole = self.evaluate == Evaluate::Matrix;
        let (mut row, mut given) = (vec![None; number], vec![None; number]);
        let old = self.stream.tasks[..number].iter().enumerate().filter(|_| whole);
        for (old, task) in old {
            announce(&task.name);
            let counts = self.task_batches(&evaluator, old, &self.test_images(old, THINNED))?;
            given[old] = Some(counts.task_given.accuracy());
            row[old] = Some(counts.accuracy(None, Counting::Label).headline(self.task_agnostic));
        }
        let task = &self.stream.tasks[number];
        announce(&task.name);
        let counts = match whole {
            true => self.task(&evaluator, number)?,
            false => self.task_batches(&evaluator, number, &self.test_images(number, usize::MAX))?,
        };
        let mixed = match self.task_agnostic && whole {
            true => self.mixed(&evaluator, number + 1, THINNED)?,
            false => Vec::new(),
        };
        let after = counts.accuracy(mixed.last(), Counting::Label);
        row.push(Some(after.headline(self.task_agnostic)));
        given.push(Some(after.task_given));
        metrics.matrix.push(row);
        metrics.matrix_given.push(given);
        metrics.tasks.push(TaskMetrics {
            task: task.name.clone(),
            report,
            after,
            after_by_name: Some(counts.accuracy(mixed.last(), Counting::Name)),
            end: after,
            end_by_name: None,
            own_head: OwnHead::default(),
            weights: Vec::new(),
        });
        Ok(())
    }

    /// Adds what is known at the end of the stream: all tasks under all protocols, and the size of the method.
    pub fn at_end(
        &self,
        method: &dyn Method,
        metrics: &mut Metrics,
        announce: &mut Announce<'_>,
    ) -> Result<()> {
        let (classifier, tasks) = (method.classifier()?, self.stream.tasks.len());
        let classifier = Stoppable { classifier: &*classifier, stop: self.stop };
        let evaluator = self.evaluator(&classifier, method, tasks);
        let mut mixed = Vec::new();
        if self.task_agnostic {
            announce("all, mixed");
            mixed = self.mixed(&evaluator, tasks, THINNED_AT_END)?;
        }
        for (number, result) in metrics.tasks.iter_mut().enumerate() {
            announce(&result.task);
            let counts = self.task(&evaluator, number)?;
            // Where tasks share outputs, those of the first of them are its own.
            let own = method.outputs_of(number);
            let share = |counts: &Option<EvalCounts>| counts.as_ref().map_or(0.0, |counts| counts.share(own));
            result.end = counts.accuracy(mixed.get(number), Counting::Label);
            result.end_by_name = Some(counts.accuracy(mixed.get(number), Counting::Name));
            result.own_head =
                OwnHead { task_batches: share(&counts.task_batch), single: share(&counts.single) };
            result.weights = counts.task_batch.as_ref().unwrap_or(&counts.task_given).mean_weights();
        }
        if let (Some(row), Some(given)) = (metrics.matrix.last_mut(), metrics.matrix_given.last_mut()) {
            *row = metrics.tasks.iter().map(|task| Some(task.end.headline(self.task_agnostic))).collect();
            *given = metrics.tasks.iter().map(|task| Some(task.end.task_given)).collect();
        }
        let capacity = method.capacity();
        (metrics.parameters, metrics.multiply_adds) = (capacity.parameters, capacity.multiply_adds);
        Ok(())
    }

    /// The evaluator of a method that has learned the first `tasks` tasks.
    fn evaluator<'b>(
        &'b self,
        classifier: &'b dyn Classify,
        method: &dyn Method,
        tasks: usize,
    ) -> Evaluator<'b> {
        let outputs = || (0..tasks).map(|task| method.outputs_of(task)).collect();
        let outputs = method.is_class_incremental().then(outputs);
        let classes = self.stream.tasks.iter().map(|task| &task.classes[..]).collect();
        Evaluator { classifier, batch: BATCH, device: self.device.clone(), outputs, classes }
    }

    /// Test images of a task, at most `most` and as many as the experiment asks for.
    fn test_images(&self, task: usize, most: usize) -> TaskSet {
        self.stream.tasks[task].test.thinned(most.min(self.most))
    }

    fn test_set<'b>(&'b self, task: usize, images: &'b TaskSet) -> TestSet<'b> {
        TestSet { task, images, normalisation: self.normalisations[task].as_ref() }
    }

    /// A test set in batches of one task: with the task ID and, if the method is task-agnostic, without.
    fn task_batches(&self, evaluator: &Evaluator<'_>, task: usize, images: &TaskSet) -> Result<TaskCounts> {
        let all = [Protocol::TaskGiven, Protocol::TaskBatch];
        let protocols = if self.task_agnostic { &all[..] } else { &all[..1] };
        let mut counts = evaluator.evaluate(&self.test_set(task, images), protocols)?.into_iter();
        let task_given = counts.next().ok_or_else(missing)?;
        Ok(TaskCounts { task_given, task_batch: counts.next(), single: None })
    }

    /// The test set of a task under all protocols but [`Protocol::Mixed`].
    fn task(&self, evaluator: &Evaluator<'_>, task: usize) -> Result<TaskCounts> {
        let mut counts = self.task_batches(evaluator, task, &self.test_images(task, usize::MAX))?;
        if self.task_agnostic {
            let images = self.test_images(task, THINNED_AT_END);
            counts.single = evaluator.evaluate(&self.test_set(task, &images), &[Protocol::Single])?.pop();
        }
        Ok(counts)
    }

    /// The first `tasks` test sets, at most `most` images of each, in mixed batches.
    fn mixed(&self, evaluator: &Evaluator<'_>, tasks: usize, most: usize) -> Result<Vec<EvalCounts>> {
        let images: Vec<TaskSet> = (0..tasks).map(|task| self.test_images(task, most)).collect();
        let sets: Vec<TestSet<'_>> =
            images.iter().enumerate().map(|(task, images)| self.test_set(task, images)).collect();
        let seed = Seed::root(self.seed).named("mixed").numbered(tasks as u64 - 1);
        Ok(evaluator.evaluate_mixed(&sets, &seed)?)
    }
}

fn missing() -> lmc::Error {
    lmc::Error::setting("evaluation", "there are no counts for a protocol", "report this as a bug of lmc")
}
