//! A run: a stream is learned task by task into a run directory, and resumed from there if it was interrupted.
//!
//! [`crate::run_directory`] lists the files that it writes.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::Device;
use lmc::internals::training::checkpoint::State;
use lmc::{Event, NetworkConfig, TaskData, TaskReport};
use lmc_methods::Method;
use lmc_streams::Stream;
use serde::{Deserialize, Serialize};

use crate::cost::{Cost, Stopwatch};
use crate::error::{Error, Result};
use crate::evaluation::StreamEvaluation;
use crate::events::{Notice, RunEvent};
use crate::experiment::Experiment;
use crate::metrics::Metrics;
use crate::run_directory::{RunDirectory, damaged};
use crate::trackers::Trackers;

/// An experiment, its stream, and where it is run.
#[derive(Debug)]
pub struct Run<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The stream that [`Experiment::request`] asks for.
    pub stream: &'a Stream,
    /// The run directory.
    pub directory: &'a Path,
    /// Whether to delete what an earlier run left in the directory.
    pub fresh: bool,
    /// Whether to write event files for TensorBoard too.
    pub tensorboard: bool,
    /// Device that computes.
    pub device: &'a Device,
    /// Set from outside to save and stop: the run then ends, after the training step at the latest, with
    /// [`lmc::Error::Stopped`].
    pub stop: &'a AtomicBool,
}

/// What a checkpoint holds besides the state of the method.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    metrics: Metrics,
    cost: Cost,
    /// Length of the events file in bytes; what was written after the checkpoint is written again.
    events: u64,
}

/// Learns the stream, or resumes it, and gives its metrics; `notice` hears how it goes. [`Run::stop`] ends it early: in an
/// epoch the state after the last training step is saved; at any other time the checkpoint on disk is exact, and what was
/// done since, an evaluation for instance, is done again.
pub fn run(run: &Run<'_>, notice: &mut dyn FnMut(Notice<'_>)) -> Result<Metrics> {
    let Run { experiment, stream, device, .. } = *run;
    let files = RunDirectory::new(run.directory);
    let _lock = files.lock()?;
    files.remove_temporary_files();
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
    check_image_size(experiment, stream)?;
    if files.failed.exists() {
        fs::remove_file(&files.failed).map_err(lmc_streams::Error::io("remove", &files.failed))?;
    }
    let entry = lmc_methods::find(&experiment.method)?;
    let mut method = entry.init(&experiment.learner, &experiment.network, experiment.seed, device)?;
    let mut progress = resumed(&files, &mut *method, &images)?;
    progress.metrics.images = images;
    progress.metrics.method.clone_from(&experiment.method);
    progress.metrics.task_agnostic = entry.task_agnostic;
    progress.metrics.substitutions.clone_from(&stream.substitutions);
    let evaluation = StreamEvaluation::new(run, &*method, entry.task_agnostic);
    let mut trackers = Trackers::open(&files, progress.events, &progress.metrics, run.tensorboard)?;
    if trackers.length() == 0 {
        let event = RunEvent::StreamStarted { tasks: stream.tasks.len() };
        trackers.write(&event)?;
        notice(Notice::Event(&event));
    }
    for (number, task) in stream.tasks.iter().enumerate().skip(progress.metrics.tasks.len()) {
        let report = learn(&mut *method, run, number, &files, &mut trackers, &mut progress, notice)?;
        let watch = Stopwatch::start(progress.cost);
        evaluation.after_task(&*method, number, report, &mut progress.metrics, &mut |evaluated| {
            notice(Notice::Evaluating { after: &task.name, task: evaluated });
        })?;
        progress.cost = watch.after_testing();
        trackers.evaluated(&progress.metrics)?;
        progress.events = trackers.length();
        // The model first: a run that is killed in between learns the end of the task once more and writes it again.
        method.save_model(&files.model)?;
        method.state()?.save(&progress, &files.checkpoint)?;
    }
    let watch = Stopwatch::start(progress.cost);
    evaluation.at_end(&*method, &mut progress.metrics, &mut |evaluated| {
        notice(Notice::Evaluating { after: "the last task", task: evaluated });
    })?;
    progress.cost = watch.after_testing();
    files.write_results(&progress.metrics, progress.cost)?;
    fs::remove_file(&files.checkpoint).map_err(lmc_streams::Error::io("remove", &files.checkpoint))?;
    Ok(progress.metrics)
}

/// Gives the method the state of the checkpoint, if there is one, and returns how far the run is.
fn resumed(files: &RunDirectory, method: &mut dyn Method, images: &str) -> Result<Progress> {
    if !files.checkpoint.exists() {
        return Ok(Progress::default());
    }
    let unusable = |error: lmc::Error| damaged(&files.checkpoint, format!("cannot resume from it ({error})"));
    let (state, progress) = State::load::<Progress>(&files.checkpoint).map_err(unusable)?;
    method.restore(state).map_err(unusable)?;
    if progress.metrics.images != images {
        return Err(other_images(&files.checkpoint));
    }
    Ok(progress)
}

/// Complains about images of another size than the network's.
fn check_image_size(experiment: &Experiment, stream: &Stream) -> Result<()> {
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

/// The error for a file of a run that learned other images.
fn other_images(path: &Path) -> Error {
    Error::bad(
        path,
        "the run began with other images than are found now",
        "give it the same data (--data-dir, $LMC_DATA, the same working directory), or begin anew with --fresh",
    )
}

/// Learns one task, or resumes it, with a checkpoint after every `checkpoint_epochs` epochs.
fn learn(
    method: &mut dyn Method,
    run: &Run<'_>,
    number: usize,
    files: &RunDirectory,
    trackers: &mut Trackers,
    progress: &mut Progress,
    notice: &mut dyn FnMut(Notice<'_>),
) -> Result<TaskReport> {
    let watch = Stopwatch::start(progress.cost);
    let task = &run.stream.tasks[number];
    let data = TaskData::from(task).until(run.stop);
    if method.progress().is_none() {
        method.begin(data)?;
    }
    let (mut epoch, mut epochs) = open_task(method, &task.name)?;
    let modules = method.capacity().modules;
    let event = Event::TaskStarted { task: task.name.clone(), number, epochs, epoch, modules }.into();
    trackers.write(&event)?;
    notice(Notice::Event(&event));
    while epoch < epochs {
        let mut done = String::new();
        let trained = method.epoch(data, &mut |event| {
            let event = event.into();
            trackers.write(&event)?;
            notice(Notice::Event(&event));
            match event {
                RunEvent::Learning(Event::Step { epoch, step, steps, .. }) if asked(run) => {
                    done = format!("step {} of {steps} of epoch {}", step + 1, epoch + 1);
                    Err(stopped(""))
                }
                _ => Ok(()),
            }
        });
        // After a step, or in a pass over images between steps, the method is whole: its epoch is under way.
        let (more, under_way) = match trained {
            Ok(more) => (more, false),
            Err(lmc::Error::Stopped { .. }) => (true, true),
            Err(error) => return Err(error.into()),
        };
        let stop = under_way || asked(run);
        (epoch, epochs) = open_task(method, &task.name)?;
        if epoch.is_multiple_of(run.experiment.checkpoint_epochs) || !more || stop {
            progress.events = trackers.length();
            progress.cost = watch.after_learning();
            method.state()?.save(progress, &files.checkpoint)?;
            notice(Notice::Event(&RunEvent::Checkpointed { epoch }));
        }
        if stop {
            if done.is_empty() {
                done = format!("epoch {epoch}");
            }
            return Err(stopped(&format!("{done} of task '{}'", task.name)).into());
        }
        if !more {
            break;
        }
    }
    let report = method.finish(data)?;
    progress.cost = watch.after_learning();
    let event = report.event().into();
    trackers.write(&event)?;
    notice(Notice::Event(&event));
    Ok(report)
}

/// Whether the run is to save and stop.
fn asked(run: &Run<'_>) -> bool {
    run.stop.load(Ordering::Relaxed)
}

fn stopped(done: &str) -> lmc::Error {
    lmc::Error::Stopped { done: done.to_owned() }
}

/// Epochs that are done, and epochs that the open task gets.
fn open_task(method: &dyn Method, task: &str) -> Result<(usize, usize)> {
    method.progress().ok_or_else(|| {
        let problem = "the method closed it before its last epoch";
        Error::setting(format!("task '{task}'"), problem, "report this as a bug of the method")
    })
}
