//! A sweep: a grid of experiments in one TOML file.
//!
//! ```toml
//! [base]                 # settings of all runs, as in an experiment
//! variant = "generated"
//!
//! [grid]                 # every combination is a run
//! method = ["finetune", "lmc_a"]
//! stream = ["s_minus", "s_pl"]
//! seed = [180, 181]
//! learner.optimiser.learning_rate = [0.001, 0.01]
//!
//! [[rule]]               # settings of a part of the runs; later rules win, and the grid wins over all
//! when.method = "lmc_*"
//! set.learner.epochs = 20
//! ```
//!
//! It becomes a list of runs ([`PlannedRun`]), each in a directory of its own with its resolved configuration. A run is a
//! pure function of that configuration: [`crate::worker_pool`] works off the list on this machine, and any scheduler may.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use lmc_methods::registry::overlay;
use lmc_streams::{Error, read_text, replace_file};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::error::{self, Result};
use crate::experiment::{Experiment, one_line, set};
use crate::run_directory::{LARGEST_TEXT, RunDirectory};

/// A run of a sweep.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// Method, stream, seed and hash of the configuration.
    pub name: String,
    /// The experiment.
    pub experiment: Experiment,
    /// The run directory.
    pub directory: RunDirectory,
}

/// A sweep, expanded.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The runs that were asked for, in the order in which they are best done: all of a seed before the next, of a stream
    /// before the next.
    pub runs: Vec<PlannedRun>,
    /// All runs of the file, for the manifest.
    all: Vec<PlannedRun>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    #[serde(default)]
    base: Table,
    grid: Table,
    #[serde(default)]
    rule: Vec<Rule>,
}

/// Settings of a part of the runs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    when: BTreeMap<String, OneOrMany>,
    #[serde(default)]
    unless: BTreeMap<String, OneOrMany>,
    set: Table,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    Many(Vec<Value>),
    One(Value),
}

impl OneOrMany {
    /// Whether a value matches one of the patterns; a `*` at the end stands for anything.
    fn has(&self, value: &str) -> bool {
        let like = |pattern: &Value| {
            let pattern = plain(pattern);
            match pattern.strip_suffix('*') {
                Some(start) => value.starts_with(start),
                None => value == pattern,
            }
        };
        match self {
            Self::One(pattern) => like(pattern),
            Self::Many(patterns) => patterns.iter().any(like),
        }
    }
}

/// The largest number of runs of a sweep.
pub const MOST_RUNS: usize = 10_000;

/// One combination of the grid: dotted keys and values.
type Choice = Vec<(String, Value)>;

impl Rule {
    fn holds(&self, choice: &Choice) -> bool {
        let is = |(key, values): (&String, &OneOrMany)| {
            choice.iter().any(|(name, value)| name == key && values.has(&plain(value)))
        };
        self.when.iter().all(is) && !(self.unless.iter().any(is))
    }
}

impl Sweep {
    /// Reads a file and plans its runs into `out`. `changes` are `key.key=value`, for all runs; `only` are
    /// `key=value,value`: runs with another value are left out.
    pub fn read(path: &Path, out: &Path, changes: &[String], only: &[String]) -> Result<Self> {
        let text = read_text(path, LARGEST_TEXT)?;
        let bad = |problem: String| Error::bad(path, problem, "correct the sweep");
        let written: SweepFile =
            toml::from_str(&text).map_err(|error: toml::de::Error| bad(one_line(&error.to_string())))?;
        let choices = written.choices().map_err(bad)?;
        for rule in &written.rule {
            for key in rule.when.keys().chain(rule.unless.keys()) {
                let known: Vec<&str> = choices[0].iter().map(|(name, _)| name.as_str()).collect();
                if !known.contains(&key.as_str()) {
                    return Err(
                        bad(format!("[[rule]] asks for '{key}', [grid] has {}", known.join(", "))).into()
                    );
                }
            }
            if !choices.iter().any(|choice| rule.holds(choice)) {
                return Err(bad(format!(
                    "no run has what the [[rule]] with set {} asks for",
                    one_line(&rule.set.to_string())
                ))
                .into());
            }
        }
        let mut wanted = vec![true; choices.len()];
        for filter in only {
            let (key, values) = parse_only(filter, &choices[0])?;
            for (wanted, choice) in wanted.iter_mut().zip(&choices) {
                *wanted &= choice.iter().any(|(name, value)| name == key && values.has(&plain(value)));
            }
            if !wanted.contains(&true) {
                let problem = "no run of the sweep is left";
                return Err(Error::setting(
                    format!("--only {filter}"),
                    problem,
                    "see the [grid] of the sweep",
                )
                .into());
            }
        }
        let (mut runs, mut all) = (Vec::new(), Vec::new());
        let (mut in_runs, mut in_all) = (HashSet::new(), HashSet::new());
        for (choice, wanted) in choices.iter().zip(wanted) {
            let mut table = written.base.clone();
            for rule in written.rule.iter().filter(|rule| rule.holds(choice)) {
                overlay(&mut table, rule.set.clone());
            }
            for (key, value) in choice {
                set(&mut table, key, value.clone())?;
            }
            let experiment = Experiment::from_table(table, path, changes)?;
            let stream = Path::new(&experiment.stream).file_stem().ok_or_else(|| {
                let problem =
                    format!("stream '{}' is not the name of a stream or of a file", experiment.stream);
                bad(problem)
            })?;
            let Experiment { method, seed, .. } = &experiment;
            let name = format!("{method}-{}-{seed}-{}", stream.to_string_lossy(), experiment.hash()?);
            let directory = RunDirectory::new(&out.join(&name));
            let planned = PlannedRun { name, experiment, directory };
            if wanted && in_runs.insert(planned.name.clone()) {
                runs.push(planned.clone());
            }
            if in_all.insert(planned.name.clone()) {
                all.push(planned);
            }
        }
        Ok(Self { runs, all })
    }

    /// Writes `manifest.json` of the whole sweep and the configuration of every run that was asked for, so that any
    /// scheduler can run them. A directory that belongs to another experiment is reported by the run itself.
    pub fn write(&self, out: &Path) -> Result<()> {
        #[derive(Serialize)]
        struct ManifestEntry<'a> {
            name: &'a str,
            command: [String; 5],
            experiment: &'a Experiment,
        }
        let path: PathBuf = out.join("manifest.json");
        if path.symlink_metadata().is_ok() && !is_manifest(&path) {
            let problem = "no sweep of lmc wrote it, and this one would replace it";
            return Err(error::Error::bad(&path, problem, "choose another folder with --out"));
        }
        for run in &self.runs {
            run.directory.refuse_foreign()?;
        }
        fs::create_dir_all(out).map_err(Error::io("create", out))?;
        for run in &self.runs {
            fs::create_dir_all(&run.directory.path).map_err(Error::io("create", &run.directory.path))?;
            if let Err(error::Error::Lmc(error @ lmc::Error::Input(Error::Io { .. }))) =
                run.directory.claim(&run.experiment)
            {
                return Err(error.into());
            }
        }
        let text = |path: &Path| path.display().to_string();
        let command = |run: &'_ PlannedRun| -> [String; 5] {
            let (config, directory) = (text(&run.directory.config), text(&run.directory.path));
            ["lmc".into(), "run".into(), config, "--out".into(), directory]
        };
        let entries: Vec<ManifestEntry<'_>> = self
            .all
            .iter()
            .map(|run| ManifestEntry { name: &run.name, command: command(run), experiment: &run.experiment })
            .collect();
        let json = serde_json::to_string_pretty(&entries)
            .map_err(|error| error::Error::unwritable("manifest", error))?;
        Ok(replace_file(&path, json.as_bytes())?)
    }
}

/// Whether a file is a manifest of this or an earlier version: a list of runs, each with the command that does it.
fn is_manifest(path: &Path) -> bool {
    #[derive(Deserialize)]
    struct Entry {
        #[serde(rename = "name")]
        _name: String,
        command: Vec<String>,
        #[serde(rename = "experiment")]
        _experiment: serde::de::IgnoredAny,
    }
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let Some(file) = is_file.then(|| fs::File::open(path).ok()).flatten() else { return false };
    serde_json::from_reader::<_, Vec<Entry>>(BufReader::new(file)).is_ok_and(|entries| {
        !entries.is_empty()
            && entries.iter().all(|entry| entry.command.starts_with(&["lmc".into(), "run".into()]))
    })
}

impl SweepFile {
    /// All combinations of the grid. Seeds vary slowest, then streams, then methods, then the rest.
    fn choices(&self) -> std::result::Result<Vec<Choice>, String> {
        let mut axes: Vec<(String, Vec<Value>)> = Vec::new();
        flatten("", &self.grid, &mut axes);
        let rank =
            |name: &str| ["seed", "stream", "method"].iter().position(|first| *first == name).unwrap_or(3);
        axes.sort_by_key(|(name, _)| rank(name));
        if axes.is_empty() {
            return Err("[grid] is empty".into());
        }
        if let Some((name, _)) = axes.iter().find(|(_, values)| values.is_empty()) {
            return Err(format!("[grid] {name} has no values"));
        }
        let count = axes.iter().try_fold(1_usize, |count, (_, values)| count.checked_mul(values.len()));
        if count.is_none_or(|count| count > MOST_RUNS) {
            let count =
                count.map_or("more runs than can be counted".to_owned(), |count| format!("{count} runs"));
            return Err(format!(
                "[grid] makes {count}, and {MOST_RUNS} are the most; make several sweeps of it"
            ));
        }
        let mut choices: Vec<Choice> = vec![Vec::new()];
        for (name, values) in axes {
            let with = |choice: &Choice, value: &Value| {
                choice.iter().cloned().chain([(name.clone(), value.clone())]).collect::<Choice>()
            };
            choices = choices
                .iter()
                .flat_map(|choice| values.iter().map(|value| with(choice, value)).collect::<Vec<_>>())
                .collect();
        }
        Ok(choices)
    }
}

/// Collects dotted keys and their values; a single value is a list of one.
fn flatten(prefix: &str, table: &Table, axes: &mut Vec<(String, Vec<Value>)>) {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(below) => flatten(&name, below, axes),
            Value::Array(values) => axes.push((name, values.clone())),
            one => axes.push((name, vec![one.clone()])),
        }
    }
}

/// A value as a user writes it, without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn parse_only<'a>(filter: &'a str, choice: &Choice) -> Result<(&'a str, OneOrMany)> {
    let fail = |problem: String| {
        Error::setting(format!("--only {filter}"), problem, "write it as method=lmc_a,finetune")
    };
    let (key, values) = filter.split_once('=').ok_or_else(|| fail("there is no '='".into()))?;
    if !choice.iter().any(|(name, _)| name == key) {
        let known: Vec<&str> = choice.iter().map(|(name, _)| name.as_str()).collect();
        return Err(fail(format!("the grid has no '{key}', it has {}", known.join(", "))).into());
    }
    Ok((key, OneOrMany::Many(values.split(',').map(|value| Value::String(value.to_owned())).collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str, changes: &[&str], only: &[&str]) -> Result<Sweep> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.toml");
        fs::write(&path, text).unwrap();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        Sweep::read(&path, folder.path(), &owned(changes), &owned(only))
    }

    const TWO: &str = r#"
        [base]
        variant = "generated-mini"
        [grid]
        method = ["finetune", "lmc_a"]
        seed = [1, 2]
        stream = ["s_minus", "s_pl"]
        [[rule]]
        when.method = "lmc_*"
        set.learner.epochs = 7
        [[rule]]
        unless.method = "lmc_*"
        set.learner.training.epochs = 5
    "#;

    #[test]
    fn all_combinations_a_seed_before_the_next() {
        let sweep = plan(TWO, &[], &[]).unwrap();
        let names: Vec<String> = sweep
            .runs
            .iter()
            .map(|run| format!("{} {} {}", run.experiment.seed, run.experiment.stream, run.experiment.method))
            .collect();
        let expected = [
            "1 s_minus finetune",
            "1 s_minus lmc_a",
            "1 s_pl finetune",
            "1 s_pl lmc_a",
            "2 s_minus finetune",
            "2 s_minus lmc_a",
            "2 s_pl finetune",
            "2 s_pl lmc_a",
        ];
        assert_eq!(names, expected);
        let epochs = |at: usize| sweep.runs[at].experiment.learner.get("epochs").and_then(Value::as_integer);
        assert_eq!((epochs(0), epochs(1)), (None, Some(7)));
        let training = sweep.runs[0].experiment.learner["training"].as_table().unwrap();
        assert_eq!(training["epochs"].as_integer(), Some(5));
    }

    #[test]
    fn the_manifest_has_all_runs_whatever_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.toml");
        fs::write(&path, TWO).unwrap();
        let sweep = Sweep::read(&path, folder.path(), &[], &["seed=2".to_owned()]).unwrap();
        sweep.write(folder.path()).unwrap();
        let manifest = fs::read_to_string(folder.path().join("manifest.json")).unwrap();
        let lines: Vec<serde_json::Value> = serde_json::from_str(&manifest).unwrap();
        let folders =
            fs::read_dir(folder.path()).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_dir());
        assert_eq!((sweep.runs.len(), lines.len(), folders.count()), (4, 8, 4));
    }

    #[test]
    fn a_foreign_manifest_is_left_alone_and_an_older_one_of_ours_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, manifest) = (folder.path().join("sweep.toml"), folder.path().join("manifest.json"));
        fs::write(&path, TWO).unwrap();
        let sweep = Sweep::read(&path, folder.path(), &[], &[]).unwrap();
        for foreign in ["{}", "[]", "", "[{\"name\": \"a\", \"command\": [], \"experiment\": {}}]"] {
            fs::write(&manifest, foreign).unwrap();
            let error = sweep.write(folder.path()).unwrap_err().to_string();
            assert!(error.contains("manifest.json") && error.contains("--out"), "{error}");
            assert_eq!(fs::read_to_string(&manifest).unwrap(), foreign);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
        fs::remove_file(&manifest).unwrap();
        sweep.write(folder.path()).unwrap();
        sweep.write(folder.path()).unwrap();
        // A run directory with files of others stops the sweep before it writes anything.
        let run = &sweep.runs[0].directory;
        fs::write(&run.config, "mine = 1").unwrap();
        let error = sweep.write(folder.path()).unwrap_err().to_string();
        assert!(error.contains("config.toml"), "{error}");
    }

    #[test]
    fn too_many_runs_are_counted_before_they_are_made() {
        let list = |name: &str| {
            format!("{name} = [{}]\n", (0..1000).map(|n| n.to_string() + ",").collect::<String>())
        };
        let grid: String = ["seed", "stream_seed", "network.width"].map(list).concat();
        let error = plan(&format!("[grid]\n{grid}"), &[], &[]).unwrap_err().to_string();
        assert!(error.contains("1000000000 runs") && error.contains("10000 are the most"), "{error}");
        let many: String = (0..10).map(|n| list(&format!("a{n}"))).collect();
        let error = plan(&format!("[grid]\n{many}"), &[], &[]).unwrap_err().to_string();
        assert!(error.contains("than can be counted"), "{error}");
    }

    /// Two rules that each set a key of one table both hold.
    #[test]
    fn rules_add_up() {
        let more = "[[rule]]\nset.learner = { projection.epochs_after = 3 }\n[[rule]]\nset.learner.projection.epochs = 4";
        let sweep =
            plan(&format!("[grid]\nmethod = \"lmc_a\"\nstream = \"s_minus\"\n{more}"), &[], &[]).unwrap();
        let projection = &sweep.runs[0].experiment.learner["projection"];
        let value = |key: &str| projection[key].as_integer();
        assert_eq!((value("epochs"), value("epochs_after")), (Some(4), Some(3)));
    }

    #[test]
    fn rules_may_ask_for_numbers() {
        let text = TWO.replace("when.method = \"lmc_*\"", "when = { method = \"lmc_*\", seed = 2 }");
        let sweep = plan(&text, &[], &["method=lmc_a", "stream=s_pl"]).unwrap();
        let epochs: Vec<i64> =
            sweep.runs.iter().map(|run| run.experiment.learner["epochs"].as_integer().unwrap()).collect();
        assert_eq!(epochs, [100, 7]);
    }

    #[test]
    fn changes_and_filters() {
        let sweep = plan(TWO, &["network.width=8"], &["method=lmc_*", "seed=2"]).unwrap();
        assert_eq!(sweep.runs.len(), 2);
        assert!(sweep.runs.iter().all(|run| run.experiment.network.width == 8));
        let error = plan(TWO, &[], &["methods=lmc_a"]).unwrap_err().to_string();
        assert!(error.contains("it has seed, stream, method"), "{error}");
    }

    #[test]
    fn rules_that_match_nothing_and_unknown_names_are_errors() {
        let error = plan(
            &TWO.replace("lmc_*\"\n        set.learner.epochs", "lcm_*\"\n        set.learner.epochs"),
            &[],
            &[],
        );
        assert!(error.unwrap_err().to_string().contains("no run has"));
        let error = plan(&TWO.replace("\"finetune\"", "\"finetun\""), &[], &[]).unwrap_err().to_string();
        assert!(error.contains("finetune"), "{error}");
        let error = plan("[grid]\nseed = []", &[], &[]).unwrap_err().to_string();
        assert!(error.contains("seed has no values"), "{error}");
    }

    #[test]
    fn grids_go_below_and_win_over_rules() {
        let text = "[grid]\nmethod = \"lmc_a\"\nstream = \"s_minus\"\nlearner.epochs = [3, 4]\n[[rule]]\nset.learner.epochs = 9";
        let sweep = plan(text, &[], &[]).unwrap();
        let epochs: Vec<i64> =
            sweep.runs.iter().map(|run| run.experiment.learner["epochs"].as_integer().unwrap()).collect();
        assert_eq!(epochs, [3, 4]);
    }
}
