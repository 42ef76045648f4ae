//! The methods by name. A new one is a file with a configuration and a method, and a line here.

use burn::tensor::Device;
use lmc::{Error, LearnerConfig, NetworkConfig, Result};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::class_means::ClassMeansConfig;
use crate::ewc::EwcConfig;
use crate::experts::ExpertsConfig;
use crate::finetune::FinetuneConfig;
use crate::hat::HatConfig;
use crate::lwf::LwfConfig;
use crate::method::Method;
use crate::mntdp::MntdpConfig;
use crate::replay::ReplayConfig;
use crate::soft_gating::SoftGatingConfig;
use crate::trunk::{WIDEST, width_of_modules};

/// The settings of a method.
pub trait MethodConfig: Serialize + for<'de> Deserialize<'de> + Sized {
    /// The method that the settings make.
    type Method: Method + 'static;

    /// Settings of a variant, the method's name, for a stream of the paper; the general ones for any other.
    fn preset(name: &str, stream: &str) -> Result<Self>;

    /// Complains about values outside their range.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Makes a method that knows no task. All random draws come from `seed`.
    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Self::Method>;
}

/// Width of a network that does not grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Width {
    /// As `network.width` says.
    #[default]
    Network,
    /// The width at which the network has as many parameters as this many modules. Paper: 24, on S_pl 20.
    Modules(usize),
    /// This many channels. Released: 384, on S_pl 320.
    Channels(usize),
}

impl Width {
    /// Keys of the variants that have a number.
    const KEYS: [&'static str; 2] = ["modules", "channels"];

    /// The width for as many parameters as the largest modular network on a stream of the paper, which has a module per
    /// layer and task.
    pub fn of_largest(stream: &str) -> Self {
        Self::Modules(if stream == "s_pl" { 20 } else { 24 })
    }

    /// Complains about values outside their range.
    pub fn check(self) -> Result<()> {
        let (field, value, most) = match self {
            Self::Network => return Ok(()),
            Self::Modules(modules) => ("width.modules", modules, 10_000),
            Self::Channels(channels) => ("width.channels", channels, WIDEST),
        };
        if !(1..=most).contains(&value) {
            return Err(Error::setting(field, format!("it is {value}"), format!("use 1 to {most}")));
        }
        Ok(())
    }

    /// The sizes of a network of this width.
    pub fn apply(self, network: &NetworkConfig) -> NetworkConfig {
        let width = match self {
            Self::Network => network.width,
            Self::Modules(modules) => width_of_modules(network, modules),
            Self::Channels(channels) => channels,
        };
        NetworkConfig { width, ..network.clone() }
    }
}

/// A method of the registry.
#[derive(Clone, Copy, Debug)]
pub struct MethodEntry {
    /// Name in experiments.
    pub name: &'static str,
    /// Name in tables, as in the paper.
    pub title: &'static str,
    /// Whether the method is evaluated without the task ID.
    pub task_agnostic: bool,
    /// The task-agnostic method that learns the same, bit for bit, so that one run of it gives the results of both.
    pub derived_from: Option<&'static str>,
    resolve: Resolve,
    init: Init,
}

/// Makes complete settings from name, stream and changes.
type Resolve = fn(&str, &str, Table) -> std::result::Result<Table, String>;
/// Makes a method from settings, sizes, seed and device.
type Init = fn(&Table, &NetworkConfig, u64, &Device) -> Result<Box<dyn Method>>;

/// A method that needs the task ID at test.
fn task_aware<C: MethodConfig>(name: &'static str, title: &'static str) -> MethodEntry {
    MethodEntry { task_agnostic: false, ..task_agnostic::<C>(name, title) }
}

/// A method that is given the task ID at test and learns as a task-agnostic one does.
fn task_aware_from<C: MethodConfig>(
    other: &'static str,
    name: &'static str,
    title: &'static str,
) -> MethodEntry {
    MethodEntry { derived_from: Some(other), ..task_aware::<C>(name, title) }
}

/// A method that needs no task ID at test.
fn task_agnostic<C: MethodConfig>(name: &'static str, title: &'static str) -> MethodEntry {
    MethodEntry {
        name,
        title,
        task_agnostic: true,
        derived_from: None,
        resolve: |name, stream, changes| {
            let mut table = Table::try_from(C::preset(name, stream).map_err(|error| error.to_string())?)
                .map_err(|error| error.to_string())?;
            overlay(&mut table, changes);
            let config: C = table.try_into().map_err(|error| format!("[learner]: {}", message(&error)))?;
            config.check().map_err(|error| within("learner", error).to_string())?;
            Table::try_from(config).map_err(|error| error.to_string())
        },
        init: |table, network, seed, device| {
            let config: C = table
                .clone()
                .try_into()
                .map_err(|error| Error::setting("learner", message(&error), "correct the experiment"))?;
            Ok(Box::new(config.init(network, seed, device)?))
        },
    }
}

/// The message of a TOML error on one line.
fn message(error: &toml::de::Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error about a setting, with the name that the setting has in an experiment.
fn within(part: &str, error: Error) -> Error {
    match error {
        Error::Input(lmc_streams::Error::Setting { field, problem, cure }) => {
            Error::setting(format!("{part}.{field}"), problem, cure)
        }
        other => other,
    }
}

/// Overwrites values of `base` by those of `changes`. A width of one kind replaces a width of another.
pub fn overlay(base: &mut Table, changes: Table) {
    let is_width =
        |table: &Table| !table.is_empty() && table.keys().all(|key| Width::KEYS.contains(&key.as_str()));
    for (key, value) in changes {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(value)) if !(is_width(below) && is_width(&value)) => {
                overlay(below, value);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// All methods, in the order of the paper's table 1; those that it lacks at the end.
pub fn methods() -> Vec<MethodEntry> {
    vec![
        task_aware::<FinetuneConfig>("finetune", "Finetune"),
        task_aware::<FinetuneConfig>("finetune_l", "Finetune-L"),
        task_aware::<ExpertsConfig>("experts", "Experts"),
        task_aware::<EwcConfig>("ewc", "EWC"),
        task_aware::<EwcConfig>("online_ewc", "O-EWC"),
        task_aware::<ReplayConfig>("er", "ER"),
        task_agnostic::<ReplayConfig>("er_a_s", "ER(A,S)"),
        task_aware::<HatConfig>("hat", "HAT"),
        task_aware_from::<MntdpConfig>("mntdp_a", "mntdp", "MNTDP"),
        task_agnostic::<MntdpConfig>("mntdp_a", "MNTDP(A)"),
        task_aware::<SoftGatingConfig>("sg_f", "SG-F"),
        task_aware::<SoftGatingConfig>("sg_f_a", "SG-F(A)"),
        task_aware_from::<LearnerConfig>("lmc_a", "lmc_not_a", "LMC(¬A)"),
        task_agnostic::<LearnerConfig>("lmc_a", "LMC(A)"),
        task_agnostic::<LearnerConfig>("lmc_a_hard", "LMC(A,H)"),
        task_aware::<LwfConfig>("lwf", "LwF"),
        task_agnostic::<ClassMeansConfig>("ncm", "NCM"),
        task_agnostic::<ClassMeansConfig>("slda", "SLDA"),
    ]
}

/// Finds a method by name; the error of an unknown one lists the nearest names.
pub fn find(name: &str) -> Result<MethodEntry> {
    let all = methods();
    all.iter().copied().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|entry| entry.name).collect();
        let cure = format!("the methods are {}", names.join(", "));
        lmc_streams::Error::unknown("method", name, names.iter().copied(), cure).into()
    })
}

impl MethodEntry {
    /// Complete settings for a stream: its preset, overwritten by `changes`.
    pub fn resolve(&self, stream: &str, changes: Table) -> std::result::Result<Table, String> {
        (self.resolve)(self.name, stream, changes)
    }

    /// Makes a method with settings that [`MethodEntry::resolve`] gave.
    pub fn init(
        &self,
        settings: &Table,
        network: &NetworkConfig,
        seed: u64,
        device: &Device,
    ) -> Result<Box<dyn Method>> {
        (self.init)(settings, network, seed, device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_replaces_another() {
        for method in ["ewc", "online_ewc", "hat", "lwf", "finetune_l"] {
            let wide = toml::from_str("width = { channels = 384 }").unwrap();
            let settings = find(method).unwrap().resolve("s_minus", wide).unwrap();
            assert_eq!(settings["width"].to_string(), "{ channels = 384 }", "{method}");
        }
    }

    /// A value out of range or of another type is named as in an experiment.
    #[test]
    fn bad_values_are_named() {
        for (method, changes, wanted) in [
            ("ewc", "fisher_images = 0", "learner.fisher_images"),
            ("ewc", "strength = nan", "learner.strength"),
            ("hat", "clip = -1.0", "learner.clip"),
            ("hat", "smallest_rate = nan", "learner.smallest_rate"),
            ("hat", "regulariser = -1.0", "learner.regulariser"),
            ("hat", "patience = 0", "learner.patience"),
            ("hat", "largest_scale = 1.0", "learner.largest_scale"),
            ("finetune_l", "width = { modules = 0 }", "learner.width.modules"),
            ("lwf", "width = { channels = 0 }", "learner.width.channels"),
            ("lwf", "temperature = 0.0", "learner.temperature"),
            ("finetune", "training.learning_rate = -1.0", "learner.training.learning_rate"),
            ("experts", "training.epochs = 0", "learner.training.epochs"),
            ("er", "capacity = 0", "learner.capacity"),
            ("mntdp", "neighbours = 0", "learner.neighbours"),
            ("sg_f", "validate_every = 0", "learner.validate_every"),
            ("lmc_a", "optimiser.learning_rate = nan", "learner.optimiser.learning_rate"),
            ("finetune", "training.epochs = -1", "training.epochs"),
            ("ewc", "strength = \"much\"", "strength"),
        ] {
            let error =
                find(method).unwrap().resolve("s_minus", toml::from_str(changes).unwrap()).unwrap_err();
            assert!(error.contains(wanted), "{method}, {changes}: {error}");
        }
    }

    /// Presets are what the authors ran, where streams differ (specification §2).
    #[test]
    fn presets_are_the_authors() {
        let presets = [
            (
                "finetune",
                "s_minus",
                "width = \"network\"\n[training]\nlearning_rate = 1e-3\nepochs = 100\nbatch = 64",
            ),
            ("finetune_l", "s_minus", "width = { modules = 24 }"),
            ("finetune_l", "s_pl", "width = { modules = 20 }\n[training]\nnormalise = true"),
            ("ewc", "s_plus", "strength = 1e5\nanchors = \"per_task\"\n[training]\nweight_decay = 1e-3"),
            ("ewc", "s_in", "strength = 1e3\n[training]\nlearning_rate = 1e-2"),
            (
                "ewc",
                "ood",
                "strength = 1e3\nwidth = { channels = 256 }\n[training]\nepochs = 50\nweight_decay = 0.0",
            ),
            ("online_ewc", "s_pl", "anchors = \"running_mean\"\nwidth = { modules = 20 }"),
            ("er", "s_minus", "capacity = 5571\nsingle_head = false\n[training]\nweight_decay = 1e-4"),
            ("er_a_s", "s_pl", "capacity = 4642\nsingle_head = true\n[training]\nweight_decay = 1e-3"),
            ("hat", "s_minus", "regulariser = 1.0\nlargest_scale = 100.0\nnorm_per_task = true"),
            ("hat", "s_out", "[training]\nlearning_rate = 0.1\nweight_decay = 1e-3\nnormalise = true"),
            ("hat", "s_plus", "regulariser = 4.0\nlargest_scale = 200.0\n[training]\nweight_decay = 1e-4"),
            ("hat", "s_in", "regulariser = 0.75\nnorm_per_task = false\n[training]\nlearning_rate = 0.01"),
            ("hat", "s_pl", "regulariser = 0.1\nlargest_scale = 400.0\nwidth = { modules = 20 }"),
            (
                "hat",
                "s_pl",
                "patience = 5\nsmallest_rate = 1e-4\nclip = 1e4\n[training]\nweight_decay = 1e-4",
            ),
            (
                "mntdp",
                "s_minus",
                "neighbours = 5\nprior_by = \"validation\"\n[training]\nweight_decay = 1e-3",
            ),
            ("mntdp_a", "s_out", "[training]\nweight_decay = 0.0"),
            ("mntdp", "s_pl", "[training]\nweight_decay = 1e-4"),
            ("mntdp", "s_long30", "[training]\nepochs = 50\nweight_decay = 1e-3"),
            ("sg_f", "s_in", "shared = false\nvalidate_every = 3\n[training]\nweight_decay = 1e-3"),
            ("sg_f_a", "s_plus", "shared = true\n[training]\nweight_decay = 1e-4"),
        ];
        for (method, stream, wanted) in presets {
            let found = find(method).unwrap().resolve(stream, Table::new()).unwrap();
            let mut with_wanted = found.clone();
            overlay(&mut with_wanted, toml::from_str(wanted).unwrap());
            assert_eq!(found, with_wanted, "{method} on {stream}");
        }
    }
}
