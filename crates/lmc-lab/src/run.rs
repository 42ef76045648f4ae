//! A run: the stream is learned task by task into a directory, and goes on from there when it was interrupted.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `config.toml` | the experiment with everything resolved |
//! | `events.jsonl` | what happened, a line each |
//! | `metrics.json` | what came out |
//! | `accuracy_matrix.csv` | accuracy of each task after each |
//! | `module_weights.json` | mean weight of each module, by task and layer |
//! | `model.safetensors` | the model |
//! | `checkpoint.safetensors` | where to go on; gone when the run is over |

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use lmc::evaluation::{Told, ask, ask_mixed};
use lmc::events::Event;
use lmc::prediction::Company;
use lmc::{Error, Learner, Material, Result, checkpoint};
use lmc_streams::{Seed, Stream, replace_file};
use serde::{Deserialize, Serialize};

use crate::experiment::Experiment;
use crate::metrics::{Metrics, OwnHead, TaskMetrics, Ways};

/// Where and what.
#[derive(Debug)]
pub struct Run<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its stream.
    pub stream: &'a Stream,
    /// The run directory.
    pub directory: &'a Path,
    /// Where to compute.
    pub device: &'a Device,
}

/// What a run tells whoever watches.
#[derive(Debug)]
pub enum Notice<'a> {
    /// Something happened in learning.
    Learning(&'a Learner, &'a Event),
    /// A test set is being asked.
    Testing {
        /// After this task.
        after: &'a str,
        /// The test set of this one.
        task: &'a str,
    },
}

/// What a run needs besides its learner to go on.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progress {
    metrics: Metrics,
    /// Length of the events file at this state: what was written later is written again.
    events: u64,
}

/// Learns the stream, or goes on with it, and gives what came out. `notice` may stop it after an epoch: true to stop.
pub fn run(run: &Run<'_>, notice: &mut dyn FnMut(Notice<'_>) -> bool) -> Result<Metrics> {
    let Run { experiment, stream, directory, device } = *run;
    let files = Files::new(directory);
    fs::create_dir_all(directory).map_err(lmc_streams::Error::io("create", directory))?;
    files.check_config(experiment)?;
    if let Some(metrics) = files.finished()? {
        return Ok(metrics);
    }
    let (mut learner, mut progress) = if files.checkpoint.exists() {
        checkpoint::load::<Progress>(&files.checkpoint, device)?
    } else {
        let learner = Learner::new(&experiment.network, experiment.learner.clone(), experiment.seed, device)?;
        (learner, Progress::default())
    };
    progress.metrics.substitutions.clone_from(&stream.substitutions);
    let mut log = files.log(progress.events)?;
    for (number, task) in stream.tasks.iter().enumerate().skip(progress.metrics.tasks.len()) {
        let material =
            Material { task: &task.name, classes: &task.classes, train: &task.train, val: &task.val };
        let learned = if number < learner.network.heads.len() && learner.lesson.is_none() {
            return Err(Error::bad(
                &files.checkpoint,
                "it is one task ahead of its metrics",
                "delete the run directory",
            ));
        } else {
            learner.learn(material, &mut |learner, event| {
                log.write(&event)?;
                let stop = notice(Notice::Learning(learner, &event));
                if let Event::EpochEnded { epoch, epochs, .. } = event {
                    let due = (epoch + 1).is_multiple_of(experiment.checkpoint_epochs) || epoch + 1 == epochs;
                    if due || stop {
                        progress.events = log.length;
                        checkpoint::save(learner, &progress, &files.checkpoint)?;
                        notice(Notice::Learning(learner, &Event::Checkpointed { epoch: epoch + 1 }));
                    }
                    if stop {
                        let done = format!("epoch {} of task '{}'", epoch + 1, task.name);
                        return Err(Error::Stopped { done });
                    }
                }
                Ok(())
            })?
        };
        let mut testing = |task: &str| {
            notice(Notice::Testing { after: &stream.tasks[number].name, task });
        };
        test_after(&learner, experiment, stream, number, learned, &mut progress.metrics, &mut testing)?;
        progress.events = log.length;
        checkpoint::save(&learner, &progress, &files.checkpoint)?;
        learner.save(&files.model)?;
    }
    let mut testing = |task: &str| {
        notice(Notice::Testing { after: "the last task", task });
    };
    test_at_end(&learner, experiment, stream, &mut progress.metrics, &mut testing)?;
    files.write_results(&progress.metrics)?;
    fs::remove_file(&files.checkpoint).map_err(lmc_streams::Error::io("remove", &files.checkpoint))?;
    Ok(progress.metrics)
}

fn mixing_seed(experiment: &Experiment, after: usize) -> Seed {
    Seed::root(experiment.seed).named("mixed").numbered(after as u64)
}

/// Images per test set for cells of the accuracy matrix that no metric is made from, and for mixed batches before the
/// end. Whole sets after every task would take longer than learning.
const THINNED: usize = 1000;

/// Images per test set that are asked one by one and in mixed batches at the end.
const THINNED_AT_END: usize = 2000;

/// A row of the accuracy matrix, and the new task in all ways.
fn test_after(
    learner: &Learner,
    experiment: &Experiment,
    stream: &Stream,
    number: usize,
    learned: lmc::Learned,
    metrics: &mut Metrics,
    testing: &mut dyn FnMut(&str),
) -> Result<()> {
    let (network, size) = (learner.predictor()?, experiment.learner.batch);
    let (mut row, mut given) = (Vec::new(), Vec::new());
    for (head, task) in stream.tasks[..number].iter().enumerate() {
        testing(&task.name);
        let asked = ask(&network, &task.test.thinned(THINNED), head, size, Company::Batch)?;
        row.push(asked.chosen.accuracy());
        given.push(asked.given.accuracy());
    }
    let task = &stream.tasks[number];
    testing(&task.name);
    let batches = ask(&network, &task.test, number, size, Company::Batch)?;
    let single = ask(&network, &task.test.thinned(THINNED_AT_END), number, size, Company::Alone)?;
    let sets: Vec<_> = stream.tasks[..=number].iter().map(|task| task.test.thinned(THINNED)).collect();
    let mixed =
        ask_mixed(&network, &sets.iter().collect::<Vec<_>>(), size, &mixing_seed(experiment, number))?;
    let after = Ways {
        task_given: batches.given.accuracy(),
        task_batches: batches.chosen.accuracy(),
        mixed: mixed.last().map_or(0.0, Told::accuracy),
        single: single.chosen.accuracy(),
    };
    row.push(after.task_batches);
    given.push(after.task_given);
    metrics.matrix.push(row);
    metrics.matrix_given.push(given);
    metrics.tasks.push(TaskMetrics {
        task: task.name.clone(),
        learned,
        after,
        end: after,
        own_head: OwnHead::default(),
        weights: Vec::new(),
    });
    Ok(())
}

/// All tasks in all ways.
fn test_at_end(
    learner: &Learner,
    experiment: &Experiment,
    stream: &Stream,
    metrics: &mut Metrics,
    testing: &mut dyn FnMut(&str),
) -> Result<()> {
    let (network, size) = (learner.predictor()?, experiment.learner.batch);
    let sets: Vec<_> = stream.tasks.iter().map(|task| task.test.thinned(THINNED_AT_END)).collect();
    testing("all, mixed");
    let mixed = ask_mixed(
        &network,
        &sets.iter().collect::<Vec<_>>(),
        size,
        &mixing_seed(experiment, stream.tasks.len() - 1),
    )?;
    for (head, (task, result)) in stream.tasks.iter().zip(&mut metrics.tasks).enumerate() {
        testing(&task.name);
        let batches = ask(&network, &task.test, head, size, Company::Batch)?;
        let single = ask(&network, &sets[head], head, size, Company::Alone)?;
        let share = |told: &Told| {
            told.heads.get(head).map_or(0.0, |&images| images as f64 / told.images.max(1) as f64)
        };
        result.end = Ways {
            task_given: batches.given.accuracy(),
            task_batches: batches.chosen.accuracy(),
            mixed: mixed[head].accuracy(),
            single: single.chosen.accuracy(),
        };
        result.own_head = OwnHead { task_batches: share(&batches.chosen), single: share(&single.chosen) };
        result.weights = batches.chosen.mean_weights();
    }
    if let (Some(row), Some(given)) = (metrics.matrix.last_mut(), metrics.matrix_given.last_mut()) {
        *row = metrics.tasks.iter().map(|task| task.end.task_batches).collect();
        *given = metrics.tasks.iter().map(|task| task.end.task_given).collect();
    }
    Ok(())
}

/// The files of a run directory.
struct Files {
    config: PathBuf,
    events: PathBuf,
    metrics: PathBuf,
    matrix: PathBuf,
    weights: PathBuf,
    model: PathBuf,
    checkpoint: PathBuf,
}

impl Files {
    fn new(directory: &Path) -> Self {
        Self {
            config: directory.join("config.toml"),
            events: directory.join("events.jsonl"),
            metrics: directory.join("metrics.json"),
            matrix: directory.join("accuracy_matrix.csv"),
            weights: directory.join("module_weights.json"),
            model: directory.join("model.safetensors"),
            checkpoint: directory.join("checkpoint.safetensors"),
        }
    }

    /// A directory belongs to one configuration.
    fn check_config(&self, experiment: &Experiment) -> Result<()> {
        let bad = |problem: String| Error::bad(&self.config, problem, "choose another run directory");
        let text = toml::to_string_pretty(experiment).map_err(|error| bad(error.to_string()))?;
        match fs::read_to_string(&self.config) {
            Ok(before) if before == text => Ok(()),
            Ok(_) => Err(bad("this run has another configuration".into())),
            Err(_) => Ok(replace_file(&self.config, text.as_bytes())?),
        }
    }

    /// The metrics of a run that is over.
    fn finished(&self) -> Result<Option<Metrics>> {
        if self.checkpoint.exists() || !self.metrics.exists() {
            return Ok(None);
        }
        let text =
            fs::read_to_string(&self.metrics).map_err(lmc_streams::Error::io("read", &self.metrics))?;
        let file: MetricsFile = serde_json::from_str(&text).map_err(|error| {
            Error::bad(&self.metrics, error.to_string(), "delete the run directory and run it again")
        })?;
        Ok(Some(file.metrics))
    }

    fn log(&self, length: u64) -> Result<Log> {
        let io = |action| lmc_streams::Error::io(action, &self.events);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.events)
            .map_err(io("write"))?;
        file.set_len(length).map_err(io("write"))?;
        let mut log = Log { file, length, path: self.events.clone() };
        log.seek()?;
        Ok(log)
    }

    fn write_results(&self, metrics: &Metrics) -> Result<()> {
        let file = MetricsFile {
            summary: serde_json::json!({
                "task_given": metrics.summary(|ways| ways.task_given),
                "task_batches": metrics.summary(|ways| ways.task_batches),
                "mixed": metrics.summary(|ways| ways.mixed),
                "single": metrics.summary(|ways| ways.single),
                "modules": metrics.modules(),
            }),
            metrics: metrics.clone(),
        };
        let bad = |error: serde_json::Error| {
            Error::bad(&self.metrics, error.to_string(), "report this as a bug of lmc")
        };
        let json = serde_json::to_string_pretty(&file).map_err(bad)?;
        let names: Vec<&str> = metrics.tasks.iter().map(|task| task.task.as_str()).collect();
        let mut matrix = format!("after,{}\n", names.join(","));
        for (name, row) in names.iter().zip(&metrics.matrix) {
            let cells: Vec<String> = row.iter().map(|accuracy| format!("{accuracy:.4}")).collect();
            matrix.push_str(&format!("{name},{}\n", cells.join(",")));
        }
        let weights: serde_json::Map<String, serde_json::Value> =
            metrics.tasks.iter().map(|task| (task.task.clone(), serde_json::json!(task.weights))).collect();
        let weights = serde_json::to_string_pretty(&weights).map_err(bad)?;
        replace_file(&self.matrix, matrix.as_bytes())?;
        replace_file(&self.weights, weights.as_bytes())?;
        Ok(replace_file(&self.metrics, json.as_bytes())?)
    }
}

#[derive(Serialize, Deserialize)]
struct MetricsFile {
    summary: serde_json::Value,
    #[serde(flatten)]
    metrics: Metrics,
}

/// The events file.
struct Log {
    file: File,
    length: u64,
    path: PathBuf,
}

impl Log {
    fn seek(&mut self) -> Result<()> {
        use std::io::{Seek, SeekFrom};
        let io = lmc_streams::Error::io("write", &self.path);
        self.file.seek(SeekFrom::Start(self.length)).map_err(io)?;
        Ok(())
    }

    /// Single steps are for progress bars, not for the log.
    fn write(&mut self, event: &Event) -> Result<()> {
        if matches!(event, Event::Step { .. }) {
            return Ok(());
        }
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        self.file.write_all(&line).map_err(lmc_streams::Error::io("write", &self.path))?;
        self.length += line.len() as u64;
        Ok(())
    }
}
