//! A run directory: the files of one run, the experiment that it belongs to, and the lock that keeps others out.
//!
//! | file | content |
//! | --- | --- |
//! | `config.toml` | the experiment with everything resolved |
//! | `events.jsonl` | the events of the run, a line of JSON each |
//! | `metrics.json` | the metrics |
//! | `cost.json` | seconds, processor seconds and memory |
//! | `accuracy_matrix.csv` | accuracy of each task after each task |
//! | `module_weights.json` | mean weight of each module, by task and layer |
//! | `model.safetensors` | the model |
//! | `checkpoint.safetensors` | the state that a killed run resumes from; deleted when the run is finished |
//! | `tensorboard/` | event files for TensorBoard, if asked for |
//! | `log.txt`, `failed.txt` | the standard error of a run of a sweep, and why it failed |
//! | `.lock` | locked by the process that works on the run |

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};

use lmc::Protocol;
use lmc_streams::{TEMPORARY, read_text, replace_file};
use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::csv::{csv, number};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::metrics::Metrics;

/// First line of `config.toml`, which names the format of the files in the directory.
const FORMAT: &str = "# run directory of lmc, format 1";

/// Beginning of that line in all versions.
const KIND: &str = "# run directory of lmc";

/// Largest text that is read: experiments, sweeps, and what runs write.
pub const LARGEST_TEXT: u64 = 1 << 30;

/// Advice for a directory that no run made.
const ELSEWHERE: &str = "choose another run directory, or move the file away";

/// Advice for a run that cannot be resumed.
const CURE: &str = "choose another run directory, or add --fresh to delete this run and start anew";

/// The files of a run.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    /// The directory.
    pub path: PathBuf,
    /// The experiment with everything resolved.
    pub config: PathBuf,
    /// The events of the run, a line of JSON each.
    pub events: PathBuf,
    /// The metrics.
    pub metrics: PathBuf,
    /// Seconds, processor seconds and memory.
    pub cost: PathBuf,
    /// Accuracy of each task after each task.
    pub matrix: PathBuf,
    /// Mean weight of each module.
    pub weights: PathBuf,
    /// The model.
    pub model: PathBuf,
    /// The state that a killed run resumes from.
    pub checkpoint: PathBuf,
    /// Event files for TensorBoard.
    pub tensorboard: PathBuf,
    /// The standard error of a run of a sweep.
    pub log: PathBuf,
    /// Why a run of a sweep failed.
    pub failed: PathBuf,
}

/// Keeps all other processes out of a run directory until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Content of `metrics.json`: the metrics, and numbers that follow from them for whoever reads the file.
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

    /// Makes the directory and locks it; [`Error::Locked`] if another process has. Nothing is written into a directory
    /// with files of others.
    pub fn lock(&self) -> Result<Lock> {
        self.refuse_foreign()?;
        fs::create_dir_all(&self.path).map_err(lmc_streams::Error::io("create", &self.path))?;
        let path = self.path.join(".lock");
        if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(Error::bad(&path, "this is not a regular file", ELSEWHERE));
        }
        let io = |action| lmc_streams::Error::io(action, &path);
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path).map_err(io("write"))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { directory: self.path.clone() }),
            Err(TryLockError::Error(error)) => Err(io("lock")(error).into()),
        }
    }

    /// Deletes the files of an earlier run, and no others; nothing in a directory that no run made. The configuration,
    /// which says whose the directory is, goes last.
    pub fn clear(&self) -> Result<()> {
        if !self.is_ours() {
            return Ok(());
        }
        for path in self.results().into_iter().chain([&self.config]) {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            let removed = if metadata.is_dir() && *path == self.tensorboard {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
            removed.map_err(lmc_streams::Error::io("remove", path))?;
        }
        Ok(())
    }

    /// All that a run writes besides its configuration, which is there before them.
    fn results(&self) -> [&PathBuf; 10] {
        [
            &self.checkpoint,
            &self.metrics,
            &self.cost,
            &self.matrix,
            &self.weights,
            &self.model,
            &self.log,
            &self.failed,
            &self.events,
            &self.tensorboard,
        ]
    }

    /// Whether a run of any version made the directory: its configuration says so in the first line. An empty one does not:
    /// the file is written whole or not at all.
    fn is_ours(&self) -> bool {
        let Ok(metadata) = self.config.metadata() else { return false };
        let mut start = Vec::new();
        metadata.is_file()
            && File::open(&self.config)
                .and_then(|file| file.take(KIND.len() as u64).read_to_end(&mut start))
                .is_ok_and(|_| start == KIND.as_bytes())
    }

    /// Complains about a directory that holds a file of a name that a run writes, and that no run made.
    pub fn refuse_foreign(&self) -> Result<()> {
        if self.is_ours() {
            return Ok(());
        }
        let there = |path: &&PathBuf| path.symlink_metadata().is_ok();
        let Some(found) = [&self.config].into_iter().chain(self.results()).find(there) else { return Ok(()) };
        // Another process may have begun its run in the meantime.
        if self.is_ours() {
            return Ok(());
        }
        let problem = if *found == self.config {
            "this is no configuration that lmc wrote, and a run would replace it"
        } else {
            "there is no config.toml of lmc beside it, and a run would replace it"
        };
        Err(Error::bad(found, problem, ELSEWHERE))
    }

    /// Removes files that a killed process was writing. The directory must be locked.
    pub fn remove_temporary_files(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                // A file that cannot be removed does no harm.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Writes the configuration, or checks that the directory belongs to the same experiment. The files of earlier
    /// versions spell some settings differently and lack later ones; they are compared by what they mean.
    pub fn claim(&self, experiment: &Experiment) -> Result<()> {
        self.refuse_foreign()?;
        let bad = |problem: &str| Error::bad(&self.config, problem, CURE);
        let text =
            toml::to_string_pretty(experiment).map_err(|error| Error::unwritable("config.toml", error))?;
        let text = format!("{FORMAT}\n{text}");
        if self.config.symlink_metadata().is_err() {
            return Ok(replace_file(&self.config, text.as_bytes())?);
        }
        match read_text(&self.config, LARGEST_TEXT) {
            Ok(before) if before == text => Ok(()),
            Ok(before) if !before.starts_with(FORMAT) => {
                Err(bad("the run is of another version of lmc, or the file is damaged"))
            }
            Ok(before) => {
                let other = || bad("this run has another configuration, or the file is damaged");
                let before: Experiment = toml::from_str(&before).map_err(|_| other())?;
                if before.identity()? == experiment.identity()? { Ok(()) } else { Err(other()) }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the run is finished: it has metrics, and no checkpoint to resume from.
    pub fn is_finished(&self) -> bool {
        self.metrics.exists() && !self.checkpoint.exists()
    }

    /// The metrics of the run; `None` while it is not finished.
    pub fn finished(&self) -> Result<Option<Metrics>> {
        if !self.is_finished() {
            return Ok(None);
        }
        let text = read_text(&self.metrics, LARGEST_TEXT)?;
        let file: MetricsFile = serde_json::from_str(&text).map_err(|error| damaged(&self.metrics, error))?;
        Ok(Some(file.metrics))
    }

    /// The cost of the run; `None` for runs of versions that did not measure it.
    pub fn cost(&self) -> Result<Option<Cost>> {
        if !self.cost.exists() {
            return Ok(None);
        }
        let text = read_text(&self.cost, LARGEST_TEXT)?;
        let cure = "delete the file; only the cost is lost";
        serde_json::from_str(&text).map(Some).map_err(|error| Error::bad(&self.cost, error.to_string(), cure))
    }

    /// Writes metrics and cost; the metrics last, because they mark the run as finished.
    pub fn write_results(&self, metrics: &Metrics, cost: Cost) -> Result<()> {
        let file = MetricsFile {
            summary: serde_json::json!({
                "headline": metrics.headline(),
                "task_given": metrics.summary(Protocol::TaskGiven),
                "task_batches": metrics.summary(Protocol::TaskBatch),
                "mixed": metrics.summary(Protocol::Mixed),
                "single": metrics.summary(Protocol::Single),
                "modules": metrics.modules(),
            }),
            metrics: metrics.clone(),
        };
        let bad = |error: serde_json::Error| Error::unwritable("metrics", error);
        let json = serde_json::to_string_pretty(&file).map_err(bad)?;
        let names: Vec<&str> = metrics.tasks.iter().map(|task| task.task.as_str()).collect();
        let after = |(name, row): (&&str, &Vec<Option<f64>>)| {
            let cells = row.iter().map(|accuracy| number(*accuracy));
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

/// Complains about a configuration whose first line names another format.
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

/// The error for a file of a run that no longer holds what was written.
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
    fn what_no_run_made_is_neither_replaced_nor_deleted() {
        let names = RunDirectory::new(Path::new(""));
        for name in names.results().into_iter().chain([&names.config]) {
            for content in ["a user's own", ""] {
                let folder = tempfile::tempdir().unwrap();
                let directory = RunDirectory::new(folder.path());
                fs::write(folder.path().join(name), content).unwrap();
                directory.clear().unwrap();
                let error = directory.lock().unwrap_err().to_string();
                assert!(
                    error.contains(&*name.to_string_lossy()) && error.contains("move the file"),
                    "{error}"
                );
                assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), content);
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "not even a lock is written");
            }
        }
    }

    #[test]
    fn a_run_that_was_killed_before_its_first_file_is_begun_again() {
        let folder = tempfile::tempdir().unwrap();
        for name in [".lock", ".lmc-x1", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let directory = RunDirectory::new(folder.path());
        let _lock = directory.lock().unwrap();
        directory.remove_temporary_files();
        assert!(!folder.path().join(".lmc-x1").exists() && folder.path().join("notes.txt").exists());
    }

    #[test]
    fn only_files_of_the_run_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(folder.path());
        fs::write(&directory.config, format!("{FORMAT}\n")).unwrap();
        fs::write(&directory.model, "").unwrap();
        fs::create_dir(&directory.tensorboard).unwrap();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        directory.clear().unwrap();
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
        // A folder in the place of a file is an error, and no panic.
        fs::write(&directory.config, format!("{FORMAT}\n")).unwrap();
        fs::create_dir(&directory.events).unwrap();
        directory.clear().unwrap_err();
    }

    #[cfg(unix)]
    #[test]
    fn a_lock_that_leads_elsewhere_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", folder.path().join(".lock")).unwrap();
        let error = RunDirectory::new(folder.path()).lock().unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert!(!folder.path().join("elsewhere").exists());
    }
}
