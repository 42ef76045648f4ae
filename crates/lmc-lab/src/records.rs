//! Run directories read back from disk: finished, unfinished, failed and damaged runs.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use lmc_streams::{Error, read_text};

use crate::cost::Cost;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::metrics::Metrics;
use crate::run_directory::{LARGEST_TEXT, RunDirectory, check_format, damaged};

/// A finished run.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// The run directory, as its path was given.
    pub directory: PathBuf,
    /// The experiment that was run.
    pub experiment: Experiment,
    /// The metrics of the run.
    pub metrics: Metrics,
    /// The cost of the run; `None` for runs of versions that did not measure it.
    pub cost: Option<Cost>,
}

impl RunRecord {
    /// Whether the run learned the images of the paper: none generated in their place, and all of them.
    pub fn is_on_paper_images(&self) -> bool {
        let variant = &self.experiment.variant;
        let generated = self.metrics.substitutions.iter().any(|text| text.contains("generated-"));
        !(generated || variant.contains("generated") || variant.contains("mini"))
    }
}

/// A run without results.
#[derive(Clone, Debug)]
pub struct IncompleteRun {
    /// The run directory, as its path was given.
    pub directory: PathBuf,
    /// The experiment of the run, if its configuration can be read.
    pub experiment: Option<Experiment>,
    /// The problem, and the next step.
    pub why: String,
}

/// All runs below some folders, in the order of their paths.
#[derive(Clone, Debug, Default)]
pub struct RunRecords {
    /// Runs with metrics.
    pub finished: Vec<RunRecord>,
    /// Runs that are at work, or were stopped.
    pub unfinished: Vec<IncompleteRun>,
    /// Runs that failed, with a `failed.txt` that says why.
    pub failed: Vec<IncompleteRun>,
    /// Runs with a file that cannot be read.
    pub damaged: Vec<IncompleteRun>,
    /// Results of task-aware methods that are derived from finished runs of the task-agnostic method that trains alike,
    /// where they have no run of their own: LMC(¬A) from LMC(A).
    pub derived: Vec<RunRecord>,
}

impl RunRecords {
    /// Searches folders, and all folders in them, for run directories: those with a `config.toml`.
    pub fn find(paths: &[PathBuf]) -> Result<Self> {
        let mut records = Self::default();
        let mut seen = HashSet::new();
        for path in paths {
            if !path.is_dir() {
                return Err(Error::bad(
                    path,
                    "there is no such folder",
                    "name run directories, or a folder that has some",
                )
                .into());
            }
            records.search(path, &mut seen);
        }
        if records.is_empty() {
            let (place, more) = match paths {
                [] => (Path::new("."), String::new()),
                [one] => (one.as_path(), String::new()),
                [first, others @ ..] => (first.as_path(), format!(" and {} more", others.len())),
            };
            return Err(Error::bad(
                place,
                format!("there is no run here{more}: no folder with a config.toml"),
                "make one with 'lmc run EXPERIMENT.toml'",
            )
            .into());
        }
        let mut derived = Vec::new();
        for run in &records.finished {
            derived.extend(records.derived_from(run)?);
        }
        Ok(Self { derived, ..records })
    }

    /// Results of the task-aware methods that are derived from a run and have no run of their own.
    fn derived_from(&self, run: &RunRecord) -> Result<Vec<RunRecord>> {
        let finished = self.finished.iter().map(|run| &run.experiment);
        let incomplete = self.incomplete().filter_map(|(_, run)| run.experiment.as_ref());
        let existing: Vec<&Experiment> = finished.chain(incomplete).collect();
        let mut derived = Vec::new();
        for entry in lmc_methods::methods() {
            if entry.derived_from != Some(run.experiment.method.as_str()) {
                continue;
            }
            let experiment = Experiment { method: entry.name.into(), ..run.experiment.clone() };
            let own = existing.iter().filter(|other| other.method == experiment.method);
            let own = own.map(|other| other.identity()).collect::<Result<Vec<_>>>()?;
            if !own.contains(&experiment.identity()?) {
                let metrics = run.metrics.with_task_given(entry.name);
                derived.push(RunRecord { experiment, metrics, ..run.clone() });
            }
        }
        Ok(derived)
    }

    /// Number of runs in whatever state.
    pub fn len(&self) -> usize {
        self.finished.len() + self.unfinished.len() + self.failed.len() + self.damaged.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs without results, each with a word for its state.
    pub fn incomplete(&self) -> impl Iterator<Item = (&'static str, &IncompleteRun)> {
        let unfinished = self.unfinished.iter().map(|run| ("unfinished", run));
        let failed = self.failed.iter().map(|run| ("failed", run));
        unfinished.chain(failed).chain(self.damaged.iter().map(|run| ("damaged", run)))
    }

    /// Searches a folder, unless it was searched before by another name or through a link.
    fn search(&mut self, folder: &Path, seen: &mut HashSet<PathBuf>) {
        if !seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.to_owned())) {
            return;
        }
        if folder.join("config.toml").is_file() {
            self.read(folder);
        }
        let mut below: Vec<PathBuf> = match fs::read_dir(folder) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect(),
            Err(cause) => {
                let why = Error::io("read", folder)(cause).to_string();
                return self.damaged.push(IncompleteRun {
                    directory: folder.to_owned(),
                    experiment: None,
                    why,
                });
            }
        };
        below.sort();
        below.iter().for_each(|path| self.search(path, seen));
    }

    /// Reads one run directory.
    fn read(&mut self, directory: &Path) {
        let files = RunDirectory::new(directory);
        let incomplete = |experiment: Option<Experiment>, why: String| IncompleteRun {
            directory: directory.to_owned(),
            experiment,
            why,
        };
        let experiment = match experiment(&files.config) {
            Ok(experiment) => experiment,
            Err(error) => return self.damaged.push(incomplete(None, error.to_string())),
        };
        match files.finished().and_then(|metrics| metrics.map(|found| checked(&files, found)).transpose()) {
            Ok(Some(mut metrics)) => {
                if metrics.method.is_empty() {
                    // The first versions did not write the method down.
                    metrics.task_agnostic =
                        lmc_methods::find(&experiment.method).is_ok_and(|entry| entry.task_agnostic);
                    metrics.method.clone_from(&experiment.method);
                }
                match files.cost() {
                    Ok(cost) => {
                        let directory = directory.to_owned();
                        self.finished.push(RunRecord { directory, experiment, metrics, cost });
                    }
                    Err(error) => self.damaged.push(incomplete(Some(experiment), error.to_string())),
                }
            }
            Err(error) => self.damaged.push(incomplete(Some(experiment), error.to_string())),
            Ok(None) => match read_text(&files.failed, LARGEST_TEXT) {
                Ok(why) => self.failed.push(incomplete(Some(experiment), first_line(&why))),
                Err(_) => {
                    let why = "no results yet; the command that started it resumes it".to_owned();
                    self.unfinished.push(incomplete(Some(experiment), why));
                }
            },
        }
    }
}

/// Reads the configuration of a run. It is resolved already, by the version that ran it, and not resolved anew.
fn experiment(path: &Path) -> Result<Experiment> {
    let text = read_text(path, LARGEST_TEXT)?;
    check_format(path, &text)?;
    toml::from_str(&text).map_err(|error| {
        let problem = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        Error::bad(path, problem, "this is no configuration of a run: name another folder, or run it again")
            .into()
    })
}

/// Complains about metrics that no run could have written.
fn checked(files: &RunDirectory, metrics: Metrics) -> Result<Metrics> {
    let tasks = metrics.tasks.len();
    let triangle = |matrix: &[Vec<Option<f64>>]| {
        matrix.len() == tasks && matrix.iter().enumerate().all(|(after, row)| row.len() == after + 1)
    };
    const MOST_MODULES: usize = 1_000_000;
    let shares = metrics.matrix.iter().chain(&metrics.matrix_given).flatten().flatten();
    if shares.into_iter().any(|share| !(0.0..=1.0).contains(share)) {
        return Err(damaged(&files.metrics, "there is an accuracy that is not between 0 and 1"));
    }
    let modules = metrics.tasks.iter().flat_map(|task| &task.report.modules);
    if modules.into_iter().any(|&modules| modules > MOST_MODULES) {
        return Err(damaged(
            &files.metrics,
            format!("there are more than {MOST_MODULES} modules in a layer"),
        ));
    }
    if tasks == 0 || !triangle(&metrics.matrix) {
        let problem = format!("there are {tasks} tasks, and the accuracy matrix does not fit them");
        return Err(damaged(&files.metrics, problem));
    }
    Ok(metrics)
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed.txt does not say why");
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample_run;

    /// Writes the files of a finished run.
    fn run(folder: &Path, name: &str) -> PathBuf {
        let record = sample_run("lmc_a", "s_minus", 1, [0.5, 0.6]);
        let directory = folder.join(name);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.toml"), toml::to_string(&record.experiment).unwrap()).unwrap();
        fs::write(directory.join("cost.json"), serde_json::to_string(&record.cost).unwrap()).unwrap();
        let mut metrics = serde_json::to_value(&record.metrics).unwrap();
        metrics["summary"] = serde_json::json!({});
        fs::write(directory.join("metrics.json"), metrics.to_string()).unwrap();
        directory
    }

    #[test]
    fn every_run_is_somewhere() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        run(root, "deep/down/good");
        fs::write(run(root, "stopped").join("checkpoint.safetensors"), "").unwrap();
        let failed = run(root, "failed");
        fs::remove_file(failed.join("metrics.json")).unwrap();
        fs::write(failed.join("failed.txt"), "\nno memory\nmore").unwrap();
        fs::write(run(root, "cut").join("metrics.json"), "{\"summary\": {}, \"tas").unwrap();
        fs::write(run(root, "foreign").join("config.toml"), "colour = 1").unwrap();
        fs::write(run(root, "costly").join("cost.json"), "?").unwrap();
        fs::create_dir(root.join("empty")).unwrap();
        // A folder that is named twice is read once.
        let records = RunRecords::find(&[root.to_owned(), root.join("deep")]).unwrap();
        assert_eq!(records.finished.len(), 1);
        assert!(records.finished[0].directory.ends_with("deep/down/good"));
        assert_eq!(records.finished[0].cost.unwrap().peak_mib, 100.0);
        assert!(records.unfinished[0].directory.ends_with("stopped"));
        assert_eq!(records.failed[0].why, "no memory");
        let damaged: Vec<&str> = records.damaged.iter().map(|run| run.why.as_str()).collect();
        assert!(damaged[0].contains("costly") && damaged[0].contains("cost.json"), "{damaged:?}");
        assert!(damaged[1].contains("cut") && damaged[1].contains("metrics.json"), "{damaged:?}");
        assert!(damaged[2].contains("foreign") && damaged[2].contains("config.toml"), "{damaged:?}");
        assert_eq!(records.len(), 6);
    }

    #[test]
    fn a_task_aware_method_is_derived_from_a_task_agnostic_run() {
        let folder = tempfile::tempdir().unwrap();
        let directory = run(folder.path(), "agnostic");
        let records = RunRecords::find(&[directory]).unwrap();
        assert_eq!((records.len(), records.derived.len()), (1, 1));
        let (run, derived) = (&records.finished[0], &records.derived[0]);
        assert_eq!((derived.experiment.method.as_str(), derived.metrics.task_agnostic), ("lmc_not_a", false));
        assert_eq!(derived.metrics.matrix, run.metrics.matrix_given);
        for (derived, task) in derived.metrics.tasks.iter().zip(&run.metrics.tasks) {
            assert_eq!((derived.end.task_given, derived.end.single), (task.end.task_given, None));
            assert_eq!((derived.after.task_given, derived.after.task_batches), (task.after.task_given, None));
        }
        // A run of the method itself takes the place of the derived one.
        let own = Experiment { method: "lmc_not_a".into(), ..run.experiment.clone() };
        let beside = folder.path().join("own");
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("config.toml"), toml::to_string(&own).unwrap()).unwrap();
        let records = RunRecords::find(&[folder.path().to_owned()]).unwrap();
        assert_eq!((records.finished.len(), records.unfinished.len(), records.derived.len()), (1, 1, 0));
    }

    #[test]
    fn a_run_of_the_first_version() {
        let folder = tempfile::tempdir().unwrap();
        let directory = run(folder.path(), "old");
        let mut old: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(directory.join("metrics.json")).unwrap()).unwrap();
        for key in ["method", "agnostic", "parameters", "multiply_adds"] {
            old.as_object_mut().unwrap().remove(key);
        }
        fs::write(directory.join("metrics.json"), old.to_string()).unwrap();
        fs::remove_file(directory.join("cost.json")).unwrap();
        let records = RunRecords::find(&[directory]).unwrap();
        let record = &records.finished[0];
        assert!(record.metrics.task_agnostic && record.metrics.method == "lmc_a" && record.cost.is_none());
    }

    #[test]
    fn no_run_is_an_error_with_a_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let error = RunRecords::find(&[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains("there is no run here") && error.contains("lmc run"), "{error}");
        let error = RunRecords::find(&[folder.path().join("gone")]).unwrap_err().to_string();
        assert!(error.contains("gone") && error.contains("no such folder"), "{error}");
    }
}
