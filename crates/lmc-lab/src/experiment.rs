//! An experiment: a TOML file that names a stream, a method and its settings.

use std::path::Path;

use lmc::{NetworkConfig, Preset};
use lmc_methods::registry::overlay;
use lmc_streams::{Error, StreamRequest, Variant, read_text};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::error::{self, Result};
use crate::run_directory::LARGEST_TEXT;
use crate::spelling::first_spelling;

const CURE: &str = "correct the experiment";
/// Advice on how a change on the command line is written.
const CHANGE_CURE: &str = "write it as learner.epochs=10";

/// An experiment with everything resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name of a stream of the paper, or path of a stream file.
    pub stream: String,
    /// Variant of the stream: auto, full, mini, generated or generated-mini.
    pub variant: String,
    /// Seed that the stream's images are drawn with; by default the paper's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_seed: Option<u64>,
    /// Name of the method in [`lmc_methods::registry`].
    pub method: String,
    /// Name of the preset whose settings `learner` changes.
    pub preset: String,
    /// Root seed of the method.
    pub seed: u64,
    /// Epochs between checkpoints.
    pub checkpoint_epochs: usize,
    /// Which tasks are tested when.
    #[serde(default, skip_serializing_if = "Evaluate::is_default")]
    pub evaluate: Evaluate,
    /// Test images of each task, at most, evenly spread over its classes; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_images: Option<usize>,
    /// Sizes of the network.
    pub network: NetworkConfig,
    /// Hyperparameters of the method; each method has its own keys.
    pub learner: Table,
}

/// Which tasks are tested when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evaluate {
    /// All tasks so far after every task: the whole accuracy matrix, whose cost grows with the square of their number.
    #[default]
    Matrix,
    /// A task right after it was learned, with the task given and in batches of one task, and all at the end: what A and F
    /// are made from. For long streams.
    Ends,
}

impl Evaluate {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// An experiment as a user writes it: all but the stream may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    stream: String,
    #[serde(default)]
    variant: Option<String>,
    #[serde(default)]
    stream_seed: Option<u64>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    preset: Option<String>,
    #[serde(default)]
    seed: Option<u64>,
    #[serde(default)]
    checkpoint_epochs: Option<usize>,
    #[serde(default)]
    evaluate: Evaluate,
    #[serde(default)]
    test_images: Option<usize>,
    #[serde(default)]
    network: Table,
    #[serde(default)]
    learner: Table,
}

impl Experiment {
    /// Reads a file; `changes` are `key.key=value`, as on the command line.
    pub fn read(path: &Path, changes: &[String]) -> Result<Self> {
        let text = read_text(path, LARGEST_TEXT)?;
        let bad = |error: toml::de::Error| Error::bad(path, one_line(&error.to_string()), CURE);
        Self::from_table(toml::from_str(&text).map_err(bad)?, path, changes)
    }

    /// Resolves the content of the file `path`.
    pub fn from_table(mut table: Table, path: &Path, changes: &[String]) -> Result<Self> {
        let bad = |problem: &str| Error::bad(path, one_line(problem), CURE);
        for change in changes {
            change_by(&mut table, change)?;
        }
        let written: ExperimentFile =
            table.try_into().map_err(|error: toml::de::Error| bad(&error.to_string()))?;
        written.resolve().map_err(|error| bad(&error).into())
    }

    /// The request for the experiment's stream, to a catalogue.
    pub fn request(&self) -> Result<StreamRequest> {
        let variant: Variant = self.variant.parse().map_err(|_| {
            let known = Variant::ALL.map(|variant| variant.to_string());
            Error::unknown(
                "variant",
                &self.variant,
                known.iter().map(String::as_str),
                format!("use one of {}", known.join(", ")),
            )
        })?;
        Ok(StreamRequest { seed: self.stream_seed, variant, ..StreamRequest::named(&self.stream) })
    }

    /// A short name for the configuration, the first ten hexadecimal digits of a hash: equal configurations have equal
    /// names, in all versions.
    pub fn hash(&self) -> Result<String> {
        Ok(blake3::hash(self.identity()?.as_bytes()).to_hex()[..10].to_owned())
    }

    /// The configuration as JSON in the spelling of the first version, to compare and to hash.
    pub(crate) fn identity(&self) -> Result<String> {
        let learner = first_spelling(self.learner.clone());
        serde_json::to_string(&Self { learner, ..self.clone() })
            .map_err(|error| error::Error::unwritable("experiment", error))
    }

    /// Name of the preset for a stream: the stream's own if it is one of the paper's, else `own`.
    pub(crate) fn preset_for(stream: &str) -> &str {
        if stream.parse::<Preset>().is_ok() { stream } else { "own" }
    }

    /// Settings of a method: those of a preset, with changes.
    pub(crate) fn learner_for(
        method: &str,
        preset: &str,
        changes: Table,
    ) -> std::result::Result<Table, String> {
        let entry = lmc_methods::find(method).map_err(|error| error.to_string())?;
        let has_budget = changes.contains_key(BUDGET);
        let mut learner = entry.resolve(preset, changes.clone())?;
        if !has_budget && learner.contains_key(BUDGET) {
            let mut fixed = changes;
            fixed.insert(BUDGET.into(), "fixed".into());
            learner = entry.resolve(preset, fixed)?;
        }
        Ok(learner)
    }
}

/// Key of LMC's epoch budget. Experiments give every task as many epochs as `epochs` says, whatever the preset, unless
/// they set the budget: methods that are compared must see the images equally often.
const BUDGET: &str = "budget";

impl ExperimentFile {
    fn resolve(self) -> std::result::Result<Experiment, String> {
        let preset = self.preset.unwrap_or_else(|| Experiment::preset_for(&self.stream).to_owned());
        preset.parse::<Preset>().map_err(|error| error.to_string())?;
        let method = self.method.unwrap_or_else(|| "lmc_a".into());
        let learner = Experiment::learner_for(&method, &preset, self.learner)?;
        let network: NetworkConfig = merged(&NetworkConfig::default(), self.network, "network")?;
        network.check().map_err(|error| error.to_string())?;
        Ok(Experiment {
            stream: self.stream,
            variant: self.variant.unwrap_or_else(|| "auto".into()),
            stream_seed: self.stream_seed,
            method,
            preset,
            seed: self.seed.unwrap_or(180),
            checkpoint_epochs: match self.checkpoint_epochs {
                Some(0) => return Err("checkpoint_epochs: it is 0; use 1 or more".into()),
                epochs => epochs.unwrap_or(1),
            },
            evaluate: self.evaluate,
            test_images: match self.test_images {
                Some(0) => return Err("test_images: it is 0; use 1 or more, or leave it out for all".into()),
                images => images,
            },
            network,
            learner,
        })
    }
}

/// Overlays the values of `changes` on those of `base`; `name` is the table's in the file.
fn merged<T>(base: &T, changes: Table, name: &str) -> std::result::Result<T, String>
where
    T: Serialize + for<'de> Deserialize<'de>,
{
    let mut table = Table::try_from(base).map_err(|error| error.to_string())?;
    overlay(&mut table, changes);
    table.try_into().map_err(|error: toml::de::Error| format!("[{name}]: {}", one_line(&error.to_string())))
}

/// Applies a change `key.key=value`.
fn change_by(table: &mut Table, change: &str) -> Result<()> {
    let fail = |problem: &str| Error::setting(format!("--set {change}"), problem, CHANGE_CURE);
    let (path, value) = change.split_once('=').ok_or_else(|| fail("there is no '='"))?;
    // A value that is not a number, a boolean or a list is a text.
    let value = match toml::from_str::<Table>(&format!("value = {value}")) {
        Ok(parsed) if parsed.len() > 1 => return Err(fail("there is more than one line").into()),
        Ok(mut parsed) => parsed.remove("value").ok_or_else(|| fail("there is no value"))?,
        Err(_) => Value::String(value.to_owned()),
    };
    set(table, path, value)
}

/// Sets the value of a dotted key.
pub fn set(table: &mut Table, path: &str, value: Value) -> Result<()> {
    let fail = |problem: &str| Error::setting(path, problem, CHANGE_CURE);
    let mut keys: Vec<&str> = path.split('.').collect();
    let last = keys.pop().filter(|key| !key.is_empty()).ok_or_else(|| fail("there is no key"))?;
    let mut below = table;
    for key in keys {
        let entry = below.entry(key).or_insert_with(|| Value::Table(Table::new()));
        below = entry.as_table_mut().ok_or_else(|| fail("this key has no keys below it"))?;
    }
    below.insert(last.to_owned(), value);
    Ok(())
}

/// Joins the lines of a text.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(changes: &str) -> String {
        let learner = Experiment::learner_for("lmc_a", "own", toml::from_str(changes).unwrap()).unwrap();
        learner[BUDGET].as_str().unwrap().to_owned()
    }

    #[test]
    fn epochs_are_fixed_unless_the_experiment_says_otherwise() {
        assert_eq!(["", "epochs = 5", "budget = 'by_images'"].map(budget), ["fixed", "fixed", "by_images"]);
        let finetune = Experiment::learner_for("finetune", "own", Table::new()).unwrap();
        assert!(!finetune.contains_key(BUDGET));
    }
}
