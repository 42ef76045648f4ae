//! A run directory: its files, whose it is, and who is working in it.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `config.toml` | the experiment with everything resolved |
//! | `events.jsonl` | what happened, a line each |
//! | `metrics.json` | what came out |
//! | `cost.json` | seconds, processor seconds and memory |
//! | `accuracy_matrix.csv` | accuracy of each task after each |
//! | `module_weights.json` | mean weight of each module, by task and layer |
//! | `model.safetensors` | the model |
//! | `checkpoint.safetensors` | where to go on; gone when the run is over |
//! | `tensorboard/` | the events for TensorBoard, if asked for |
//! | `log.txt`, `failed.txt` | what a run of a sweep said, and why it failed |
//! | `.lock` | held by the process that is working on the run |

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use lmc::{Error, Result};
use lmc_streams::{TEMPORARY, replace_file};
use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::csv::{csv, number};
use crate::experiment::Experiment;
use crate::metrics::Metrics;

/// First line of `config.toml`: what is in the directory is of this form.
const FORMAT: &str = "# run directory of lmc, format 1";

/// How that line begins in all versions.
const KIND: &str = "# run directory of lmc";

/// What to do with a directory that no run made.
const ELSEWHERE: &str = "choose another run directory";

/// What to do with a directory that cannot be gone on with.
const CURE: &str = "choose another run directory, or add --fresh to delete this run and start anew";

/// The files of a run.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    /// The directory.
    pub path: PathBuf,
    /// The experiment with everything resolved.
    pub config: PathBuf,
    /// What happened.
    pub events: PathBuf,
    /// What came out.
    pub metrics: PathBuf,
    /// Seconds and memory.
    pub cost: PathBuf,
    /// Accuracy of each task after each.
    pub matrix: PathBuf,
    /// Mean weight of each module.
    pub weights: PathBuf,
    /// The model.
    pub model: PathBuf,
    /// Where to go on.
    pub checkpoint: PathBuf,
    /// Event files for TensorBoard.
    pub tensorboard: PathBuf,
    /// What a run of a sweep said.
    pub log: PathBuf,
    /// Why it failed.
    pub failed: PathBuf,
}

/// Nobody else works in the directory until this is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

#[derive(Serialize, Deserialize)]
struct MetricsFile {
    summary: serde_json::Value,
    #[serde(flatten)]
    metrics: Metrics,
}

impl RunDirectory {
    /// The files of the run in `path`, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            config: path.join("config.toml"),
            events: path.join("events.jsonl"),
            metrics: path.join("metrics.json"),
            cost: path.join("cost.json"),
            matrix: path.join("accuracy_matrix.csv"),
            weights: path.join("module_weights.json"),
            model: path.join("model.safetensors"),
            checkpoint: path.join("checkpoint.safetensors"),
            tensorboard: path.join("tensorboard"),
            log: path.join("log.txt"),
            failed: path.join("failed.txt"),
        }
    }

    /// Makes the directory and keeps all other processes out of it.
    pub fn lock(&self) -> Result<Lock> {
        fs::create_dir_all(&self.path).map_err(lmc_streams::Error::io("create", &self.path))?;
        let path = self.path.join(".lock");
        let io = |action| lmc_streams::Error::io(action, &path);
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path).map_err(io("write"))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { directory: self.path.clone() }),
            Err(TryLockError::Error(error)) => Err(io("lock")(error).into()),
        }
    }

    /// Deletes what an earlier run left here; nothing in a directory that no run made, and nothing else in any.
    pub fn clear(&self) -> Result<()> {
        if !self.is_ours() {
            return Ok(());
        }
        let files = [
            &self.checkpoint,
            &self.metrics,
            &self.cost,
            &self.matrix,
            &self.weights,
            &self.model,
            &self.log,
            &self.failed,
            &self.events,
            &self.config,
        ];
        for path in files.into_iter().filter(|path| path.exists()) {
            fs::remove_file(path).map_err(lmc_streams::Error::io("remove", path))?;
        }
        if self.tensorboard.exists() {
            let io = lmc_streams::Error::io("remove", &self.tensorboard);
            fs::remove_dir_all(&self.tensorboard).map_err(io)?;
        }
        Ok(())
    }

    /// Whether a run of whatever version made it, as far as can be seen.
    fn is_ours(&self) -> bool {
        let config = fs::read_to_string(&self.config).ok();
        self.events.exists() || config.is_some_and(|text| text.is_empty() || text.starts_with(KIND))
    }

    /// Removes what a killed process was writing. Nobody else may be at work here.
    pub fn tidy(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                // What cannot be removed does no harm.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Writes the configuration; a directory belongs to one.
    pub fn claim(&self, experiment: &Experiment) -> Result<()> {
        let cure = if self.is_ours() { CURE } else { ELSEWHERE };
        let bad = |problem: &str| Error::bad(&self.config, problem, cure);
        let text = toml::to_string_pretty(experiment).map_err(|error| bad(&error.to_string()))?;
        let text = format!("{FORMAT}\n{text}");
        match fs::read_to_string(&self.config) {
            Ok(before) if before == text => Ok(()),
            Ok(before) if !before.starts_with(FORMAT) => {
                Err(bad("the run is of another version of lmc, or the file is damaged"))
            }
            Ok(_) => Err(bad("this run has another configuration, or the file is damaged")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if let Some(left) = [&self.metrics, &self.checkpoint].into_iter().find(|path| path.exists()) {
                    let problem = "there is no config.toml beside it that says what was run";
                    return Err(Error::bad(left, problem, cure));
                }
                Ok(replace_file(&self.config, text.as_bytes())?)
            }
            Err(error) => Err(lmc_streams::Error::io("read", &self.config)(error).into()),
        }
    }

    /// Whether the run is over.
    pub fn is_finished(&self) -> bool {
        self.metrics.exists() && !self.checkpoint.exists()
    }

    /// The metrics of a run that is over.
    pub fn finished(&self) -> Result<Option<Metrics>> {
        if !self.is_finished() {
            return Ok(None);
        }
        let text =
            fs::read_to_string(&self.metrics).map_err(lmc_streams::Error::io("read", &self.metrics))?;
        let file: MetricsFile = serde_json::from_str(&text).map_err(|error| damaged(&self.metrics, error))?;
        Ok(Some(file.metrics))
    }

    /// What the run cost; runs of old do not say.
    pub fn cost(&self) -> Result<Option<Cost>> {
        if !self.cost.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&self.cost).map_err(lmc_streams::Error::io("read", &self.cost))?;
        let cure = "delete the file; only the cost is lost";
        serde_json::from_str(&text).map(Some).map_err(|error| Error::bad(&self.cost, error.to_string(), cure))
    }

    /// Writes what came out; the metrics last, because they say that the run is over.
    pub fn write_results(&self, metrics: &Metrics, cost: Cost) -> Result<()> {
        let file = MetricsFile {
            summary: serde_json::json!({
                "headline": metrics.headline(),
                "task_given": metrics.summary(|ways| Some(ways.task_given)),
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
        let after = |(name, row): (&&str, &Vec<f64>)| {
            let cells = row.iter().map(|accuracy| number(Some(*accuracy)));
            [(*name).to_owned()].into_iter().chain(cells).collect()
        };
        let rows: Vec<_> = names.iter().zip(&metrics.matrix).map(after).collect();
        let matrix = csv(&[&["after"], names.as_slice()].concat(), &rows);
        let weights: serde_json::Map<String, serde_json::Value> =
            metrics.tasks.iter().map(|task| (task.task.clone(), serde_json::json!(task.weights))).collect();
        let weights = serde_json::to_string_pretty(&weights).map_err(bad)?;
        let cost = serde_json::to_string_pretty(&cost).map_err(bad)?;
        replace_file(&self.cost, cost.as_bytes())?;
        replace_file(&self.matrix, matrix.as_bytes())?;
        replace_file(&self.weights, weights.as_bytes())?;
        Ok(replace_file(&self.metrics, json.as_bytes())?)
    }
}

/// Complains if a configuration says that its run is of another version.
pub fn check_format(config: &Path, text: &str) -> Result<()> {
    if text.starts_with(KIND) && !text.starts_with(FORMAT) {
        return Err(Error::bad(
            config,
            "the run is of another version of lmc",
            "use that version, or run it again",
        ));
    }
    Ok(())
}

/// A file of a run that is not what was written.
pub fn damaged(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::bad(path, problem.to_string(), CURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(&folder.path().join("run"));
        let lock = directory.lock().unwrap();
        let error = directory.lock().unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        drop(lock);
        directory.lock().unwrap();
    }

    #[test]
    fn what_no_run_made_is_not_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(folder.path());
        fs::write(&directory.model, "a user's own").unwrap();
        directory.clear().unwrap();
        assert!(directory.model.exists());
        fs::write(&directory.config, "something = 1").unwrap();
        directory.clear().unwrap();
        assert!(directory.model.exists());
        fs::write(&directory.config, format!("{FORMAT}\n")).unwrap();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        directory.clear().unwrap();
        assert!(!directory.model.exists() && folder.path().join("notes.txt").exists());
    }
}
