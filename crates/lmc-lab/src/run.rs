//! A run: the stream is learned task by task into a directory, and goes on from there when it was interrupted.
//!
//! What it writes is in [`crate::run_directory`].

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use lmc::checkpoint::State;
use lmc::evaluation::Told;
use lmc::events::Event;
use lmc::network::NetworkConfig;
use lmc::{Error, Learned, Material, Result};
use lmc_methods::{Hint, Method};
use lmc_streams::{Normalisation, Seed, Stream};
use serde::{Deserialize, Serialize};

use crate::cost::{Cost, Stopwatch};
use crate::experiment::Experiment;
use crate::metrics::{Metrics, OwnHead, TaskMetrics, Ways};
use crate::run_directory::{RunDirectory, damaged};
use crate::testing::Test;
use crate::trackers::Trackers;

/// Where and what.
#[derive(Debug)]
pub struct Run<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its stream.
    pub stream: &'a Stream,
    /// The run directory.
    pub directory: &'a Path,
    /// Whether to throw away what an earlier run left in the directory.
    pub fresh: bool,
    /// Whether to write event files for TensorBoard too.
    pub tensorboard: bool,
    /// Where to compute.
    pub device: &'a Device,
}

/// What a run tells whoever watches.
#[derive(Debug)]
pub enum Notice<'a> {
    /// Something happened in learning.
    Learning(&'a Event),
    /// A test set is being asked.
    Testing {
        /// After this task.
        after: &'a str,
        /// The test set of this one.
        task: &'a str,
    },
}

/// What a run needs besides its method to go on.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    metrics: Metrics,
    cost: Cost,
    /// Length of the events file at this state: what was written later is written again.
    events: u64,
}

/// Learns the stream, or goes on with it, and gives what came out. `notice` may stop it after an epoch: true to stop.
pub fn run(run: &Run<'_>, notice: &mut dyn FnMut(Notice<'_>) -> bool) -> Result<Metrics> {
    let Run { experiment, stream, device, .. } = *run;
    let files = RunDirectory::new(run.directory);
    let _lock = files.lock()?;
    files.tidy();
    if run.fresh {
        files.clear()?;
    }
    files.claim(experiment)?;
    let images = stream.fingerprint();
    if let Some(metrics) = files.finished()? {
        return if metrics.images.is_empty() || metrics.images == images {
            Ok(metrics)
        } else {
            Err(other_images(&files.metrics))
        };
    }
    fits(experiment, stream)?;
    if files.failed.exists() {
        fs::remove_file(&files.failed).map_err(lmc_streams::Error::io("remove", &files.failed))?;
    }
    let entry = lmc_methods::find(&experiment.method)?;
    let mut method = entry.init(&experiment.learner, &experiment.network, experiment.seed, device)?;
    let mut progress = Progress::default();
    if files.checkpoint.exists() {
        let (state, found) =
            State::load::<Progress>(&files.checkpoint).map_err(|error| anew(&files, &error))?;
        method.restore(state).map_err(|error| anew(&files, &error))?;
        progress = found;
        if progress.metrics.images != images {
            return Err(other_images(&files.checkpoint));
        }
    }
    progress.metrics.images = images;
    progress.metrics.method.clone_from(&experiment.method);
    progress.metrics.agnostic = entry.agnostic;
    progress.metrics.substitutions.clone_from(&stream.substitutions);
    let normalise = method.normalises();
    let normalisations: Vec<Option<Normalisation>> =
        stream.tasks.iter().map(|task| normalise.then(|| Normalisation::of(&task.train))).collect();
    let tests = Tests { experiment, stream, normalisations: &normalisations, device: device.clone().inner() };
    let mut trackers = Trackers::open(&files, progress.events, &progress.metrics, run.tensorboard)?;
    if trackers.length() == 0 {
        trackers.write(&Event::StreamStarted { tasks: stream.tasks.len() })?;
    }
    for (number, task) in stream.tasks.iter().enumerate().skip(progress.metrics.tasks.len()) {
        let learned = learn(&mut *method, run, number, &files, &mut trackers, &mut progress, notice)?;
        let watch = Stopwatch::start(progress.cost);
        tests.after(&*method, number, learned, &mut progress.metrics, &mut |asked| {
            notice(Notice::Testing { after: &task.name, task: asked });
        })?;
        progress.cost = watch.tested();
        trackers.tested(&progress.metrics)?;
        progress.events = trackers.length();
        // The model first: a run that is killed in between learns the end of the task once more and writes it again.
        method.save_model(&files.model)?;
        method.state()?.save(&progress, &files.checkpoint)?;
    }
    let watch = Stopwatch::start(progress.cost);
    tests.at_end(&*method, &mut progress.metrics, &mut |asked| {
        notice(Notice::Testing { after: "the last task", task: asked });
    })?;
    progress.cost = watch.tested();
    files.write_results(&progress.metrics, progress.cost)?;
    fs::remove_file(&files.checkpoint).map_err(lmc_streams::Error::io("remove", &files.checkpoint))?;
    Ok(progress.metrics)
}

/// Complains about images of another size than the network's.
fn fits(experiment: &Experiment, stream: &Stream) -> Result<()> {
    let NetworkConfig { channels, size, .. } = experiment.network;
    for task in &stream.tasks {
        let shape = task.train.shape();
        for (key, wanted, found) in [
            ("channels", channels, shape.channels),
            ("size", size, shape.height),
            ("size", size, shape.width),
        ] {
            if wanted != found {
                let problem = format!("it is {wanted}, and images of task '{}' have {found}", task.name);
                return Err(Error::setting(format!("network.{key}"), problem, format!("use {found}")));
            }
        }
    }
    Ok(())
}

/// A file of a run that learned something else.
fn other_images(path: &Path) -> Error {
    Error::bad(
        path,
        "the run began with other images than are found now",
        "give it the same data (--data-dir, $LMC_DATA, the same working directory), or begin anew with --fresh",
    )
}

/// A checkpoint that cannot be gone on from.
fn anew(files: &RunDirectory, problem: &Error) -> Error {
    damaged(&files.checkpoint, format!("cannot go on from it ({problem})"))
}

/// Learns one task, or goes on with it, with its state on disk after every epoch that is due.
fn learn(
    method: &mut dyn Method,
    run: &Run<'_>,
    number: usize,
    files: &RunDirectory,
    trackers: &mut Trackers,
    progress: &mut Progress,
    notice: &mut dyn FnMut(Notice<'_>) -> bool,
) -> Result<Learned> {
    let watch = Stopwatch::start(progress.cost);
    let task = &run.stream.tasks[number];
    let material = Material { task: &task.name, classes: &task.classes, train: &task.train, val: &task.val };
    if method.progress().is_none() {
        method.begin(material)?;
    }
    let (mut epoch, mut epochs) = method.progress().unwrap_or_default();
    let modules = method.capacity().modules;
    let event = Event::TaskStarted { task: task.name.clone(), number, epochs, epoch, modules };
    trackers.write(&event)?;
    let mut stop = notice(Notice::Learning(&event));
    while epoch < epochs {
        let more = method.epoch(material, &mut |event| {
            trackers.write(&event)?;
            stop |= notice(Notice::Learning(&event));
            Ok(())
        })?;
        (epoch, epochs) = method.progress().unwrap_or_default();
        if epoch.is_multiple_of(run.experiment.checkpoint_epochs) || !more || stop {
            progress.events = trackers.length();
            progress.cost = watch.learned();
            method.state()?.save(progress, &files.checkpoint)?;
            notice(Notice::Learning(&Event::Checkpointed { epoch }));
        }
        if stop {
            return Err(Error::Stopped { done: format!("epoch {epoch} of task '{}'", task.name) });
        }
        if !more {
            break;
        }
    }
    let learned = method.finish(material)?;
    progress.cost = watch.learned();
    let event = Event::TaskLearned {
        task: learned.task.clone(),
        best_epoch: learned.best_epoch,
        val_accuracy: learned.val_accuracy,
        modules: learned.modules.clone(),
    };
    trackers.write(&event)?;
    notice(Notice::Learning(&event));
    Ok(learned)
}

/// Images per test set for cells of the accuracy matrix that no metric is made from, and for mixed batches before the
/// end. Whole sets after every task would take longer than learning.
const THINNED: usize = 1000;

/// Images per test set that are asked one by one and in mixed batches at the end.
const THINNED_AT_END: usize = 2000;

/// The tests of a run.
struct Tests<'a> {
    experiment: &'a Experiment,
    stream: &'a Stream,
    normalisations: &'a [Option<Normalisation>],
    device: Device,
}

impl Tests<'_> {
    fn test(&self, method: &dyn Method, tasks: usize) -> Result<Test<'_>> {
        const BATCH: usize = 64;
        Test::new(method, tasks, self.normalisations, BATCH, &self.device)
    }

    fn mixed(&self, test: &Test<'_>, tasks: usize, most: usize) -> Result<Vec<Told>> {
        let sets: Vec<_> = self.stream.tasks[..tasks].iter().map(|task| task.test.thinned(most)).collect();
        let seed = Seed::root(self.experiment.seed).named("mixed").numbered(tasks as u64 - 1);
        test.ask_mixed(&sets, &seed)
    }

    /// One task in all ways but mixed; `[given, batches, single]`.
    fn one(&self, test: &Test<'_>, task: usize, agnostic: bool) -> Result<Vec<Told>> {
        let set = &self.stream.tasks[task].test;
        if !agnostic {
            return test.ask(set, task, &[Hint::Task(task)]);
        }
        let mut told = test.ask(set, task, &[Hint::Task(task), Hint::SameTask])?;
        told.extend(test.ask(&set.thinned(THINNED_AT_END), task, &[Hint::Alone])?);
        Ok(told)
    }

    /// A row of the accuracy matrix, and the new task in all ways.
    fn after(
        &self,
        method: &dyn Method,
        number: usize,
        learned: Learned,
        metrics: &mut Metrics,
        testing: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let (test, agnostic) = (self.test(method, number + 1)?, metrics.agnostic);
        let (mut row, mut given) = (Vec::new(), Vec::new());
        let hints = |task: usize| -> Vec<Hint> {
            if agnostic { vec![Hint::Task(task), Hint::SameTask] } else { vec![Hint::Task(task)] }
        };
        for (old, task) in self.stream.tasks[..number].iter().enumerate() {
            testing(&task.name);
            let told = test.ask(&task.test.thinned(THINNED), old, &hints(old))?;
            given.push(told[0].accuracy());
            row.push(told[told.len() - 1].accuracy());
        }
        testing(&self.stream.tasks[number].name);
        let told = self.one(&test, number, agnostic)?;
        let mixed = match agnostic {
            true => self.mixed(&test, number + 1, THINNED)?.pop(),
            false => None,
        };
        let after = ways(&told, mixed.as_ref());
        row.push(after.headline(agnostic));
        given.push(after.task_given);
        metrics.matrix.push(row);
        metrics.matrix_given.push(given);
        metrics.tasks.push(TaskMetrics {
            task: self.stream.tasks[number].name.clone(),
            learned,
            after,
            end: after,
            own_head: OwnHead::default(),
            weights: Vec::new(),
        });
        Ok(())
    }

    /// All tasks in all ways.
    fn at_end(
        &self,
        method: &dyn Method,
        metrics: &mut Metrics,
        testing: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let (test, agnostic) = (self.test(method, self.stream.tasks.len())?, metrics.agnostic);
        let mut mixed = Vec::new();
        if agnostic {
            testing("all, mixed");
            mixed = self.mixed(&test, self.stream.tasks.len(), THINNED_AT_END)?;
        }
        for (number, result) in metrics.tasks.iter_mut().enumerate() {
            testing(&result.task);
            let told = self.one(&test, number, agnostic)?;
            // Where tasks share outputs, those of the first of them are its own.
            let outputs = method.outputs_of(number);
            let share = |told: Option<&Told>| {
                let own = told.and_then(|told| told.heads.get(outputs).map(|&own| (own, told.images)));
                own.map_or(0.0, |(own, images)| own as f64 / images.max(1) as f64)
            };
            result.end = ways(&told, mixed.get(number));
            result.own_head = OwnHead { task_batches: share(told.get(1)), single: share(told.get(2)) };
            result.weights = told.get(1).unwrap_or(&told[0]).mean_weights();
        }
        if let (Some(row), Some(given)) = (metrics.matrix.last_mut(), metrics.matrix_given.last_mut()) {
            *row = metrics.tasks.iter().map(|task| task.end.headline(agnostic)).collect();
            *given = metrics.tasks.iter().map(|task| task.end.task_given).collect();
        }
        let capacity = method.capacity();
        (metrics.parameters, metrics.multiply_adds) = (capacity.parameters, capacity.multiply_adds);
        Ok(())
    }
}

/// Accuracies of `[given, batches, single]`, the last two if they were asked.
fn ways(told: &[Told], mixed: Option<&Told>) -> Ways {
    Ways {
        task_given: told.first().map_or(0.0, Told::accuracy),
        task_batches: told.get(1).map(Told::accuracy),
        mixed: mixed.map(Told::accuracy),
        single: told.get(2).map(Told::accuracy),
    }
}
