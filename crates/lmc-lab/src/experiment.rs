//! An experiment: a TOML file that says what is learned by which method.

use std::fs;
use std::path::Path;

use lmc::network::NetworkConfig;
use lmc::{Result, presets};
use lmc_methods::registry::overlay;
use lmc_streams::{Error, StreamRequest, Variant};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

const CURE: &str = "correct the experiment";
/// How a change is written.
const HOW: &str = "write it as learner.epochs=10";

/// An experiment with everything resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// A stream of the paper, or the path of a stream file.
    pub stream: String,
    /// Its variant: auto, full, mini, generated, generated-mini.
    pub variant: String,
    /// Seed of the stream's draws; by default the paper's own stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_seed: Option<u64>,
    /// The method, by its name in [`lmc_methods::registry`].
    pub method: String,
    /// The preset that `learner` started from.
    pub preset: String,
    /// Root seed of the method.
    pub seed: u64,
    /// Epochs between states on disk.
    pub checkpoint_epochs: usize,
    /// Sizes of the network.
    pub network: NetworkConfig,
    /// The method's hyperparameters; which there are depends on the method.
    pub learner: Table,
}

/// An experiment as it is written: all but the stream may be left out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
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
    network: Table,
    #[serde(default)]
    learner: Table,
}

impl Experiment {
    /// Reads a file; `changes` are `a.b=c`, as on the command line.
    pub fn read(path: &Path, changes: &[String]) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
        let bad = |error: toml::de::Error| Error::bad(path, one_line(&error.to_string()), CURE);
        Self::from_table(toml::from_str(&text).map_err(bad)?, path, changes)
    }

    /// An experiment that stands in the file `path`.
    pub fn from_table(mut table: Table, path: &Path, changes: &[String]) -> Result<Self> {
        let bad = |problem: &str| Error::bad(path, one_line(problem), CURE);
        for change in changes {
            change_by(&mut table, change)?;
        }
        let written: Written = table.try_into().map_err(|error: toml::de::Error| bad(&error.to_string()))?;
        written.resolve().map_err(|error| bad(&error).into())
    }

    /// What the catalogue is asked for.
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

    /// A short name for the configuration: equal ones have equal names.
    pub fn hash(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        blake3::hash(text.as_bytes()).to_hex()[..10].to_owned()
    }
}

impl Written {
    fn resolve(self) -> std::result::Result<Experiment, String> {
        let preset_name = match self.preset {
            Some(name) => name,
            None if presets::PRESETS.iter().any(|(name, _)| *name == self.stream) => self.stream.clone(),
            None => "own".to_owned(),
        };
        presets::preset(&preset_name).map_err(|error| error.to_string())?;
        let method = self.method.unwrap_or_else(|| "lmc_a".into());
        let entry = lmc_methods::find(&method).map_err(|error| error.to_string())?;
        let learner = entry.resolve(&preset_name, self.learner)?;
        let network: NetworkConfig = merged(&NetworkConfig::default(), self.network, "network")?;
        network.check().map_err(|error| error.to_string())?;
        Ok(Experiment {
            stream: self.stream,
            variant: self.variant.unwrap_or_else(|| "auto".into()),
            stream_seed: self.stream_seed,
            method,
            preset: preset_name,
            seed: self.seed.unwrap_or(180),
            checkpoint_epochs: match self.checkpoint_epochs {
                Some(0) => return Err("checkpoint_epochs: it is 0; use 1 or more".into()),
                epochs => epochs.unwrap_or(1),
            },
            network,
            learner,
        })
    }
}

/// `base` with the values of `changes` instead of its own.
fn merged<T>(base: &T, changes: Table, name: &str) -> std::result::Result<T, String>
where
    T: Serialize + for<'de> Deserialize<'de>,
{
    let mut table = Table::try_from(base).map_err(|error| error.to_string())?;
    overlay(&mut table, changes);
    table.try_into().map_err(|error: toml::de::Error| format!("[{name}]: {}", one_line(&error.to_string())))
}

/// Applies `a.b=c`.
fn change_by(table: &mut Table, change: &str) -> Result<()> {
    let fail = |problem: &str| Error::setting(format!("--set {change}"), problem, HOW);
    let (path, value) = change.split_once('=').ok_or_else(|| fail("there is no '='"))?;
    // What is not a number, a boolean or a list is a text.
    let value = match toml::from_str::<Table>(&format!("value = {value}")) {
        Ok(parsed) if parsed.len() > 1 => return Err(fail("there is more than one line").into()),
        Ok(mut parsed) => parsed.remove("value").ok_or_else(|| fail("there is no value"))?,
        Err(_) => Value::String(value.to_owned()),
    };
    set(table, path, value)
}

/// Puts a value at `a.b`.
pub fn set(table: &mut Table, path: &str, value: Value) -> Result<()> {
    let fail = |problem: &str| Error::setting(path, problem, HOW);
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

/// A text without line ends.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
