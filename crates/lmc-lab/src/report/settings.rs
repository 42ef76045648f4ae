//! In what the settings of runs differ, in few words: what tells them from their preset, and where runs of one method on one
//! stream differ at all.

use std::collections::BTreeMap;

use lmc::network::NetworkConfig;
use lmc::presets::PRESETS;
use toml::{Table, Value};

use super::arrangement::Arrangement;
use crate::experiment::Experiment;

/// Settings by dotted key.
type Settings = BTreeMap<String, String>;

/// What stands for a setting that a run does not have: runs write down all settings of their version.
const ABSENT: &str = "other version";

/// All settings, but for what rows and columns stand for, the seed, and how often the state is saved.
fn settings(experiment: &Experiment) -> Settings {
    fn flatten(table: &Table, above: &str, into: &mut Settings) {
        for (key, value) in table {
            let key = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
            match value {
                Value::Table(below) => flatten(below, &key, into),
                Value::String(text) => drop(into.insert(key, text.clone())),
                other => drop(into.insert(key, other.to_string())),
            }
        }
    }
    let mut table = Table::try_from(experiment).unwrap_or_default();
    for key in ["stream", "method", "seed", "checkpoint_epochs"] {
        table.remove(key);
    }
    let mut flat = BTreeMap::new();
    flatten(&table, "", &mut flat);
    flat
}

/// The settings that an experiment has if nothing but stream, method and preset is said.
fn standard(experiment: &Experiment) -> Settings {
    let learner = lmc_methods::find(&experiment.method)
        .ok()
        .and_then(|entry| entry.resolve(&experiment.preset, Table::new()).ok());
    let has_preset = PRESETS.iter().any(|(name, _)| *name == experiment.stream);
    settings(&Experiment {
        variant: "auto".into(),
        stream_seed: None,
        preset: if has_preset { experiment.stream.clone() } else { "own".into() },
        network: NetworkConfig::default(),
        learner: learner.unwrap_or_default(),
        ..experiment.clone()
    })
}

/// Keys in which two runs of a method on one stream differ. From stream to stream presets may differ.
pub(super) fn differing<'a>(experiments: impl Iterator<Item = &'a Experiment>) -> Vec<String> {
    let mut streams: BTreeMap<&str, Vec<Settings>> = BTreeMap::new();
    for experiment in experiments {
        streams.entry(&experiment.stream).or_default().push(settings(experiment));
    }
    let mut keys: Vec<String> = Vec::new();
    for all in streams.values() {
        for key in all.iter().flat_map(BTreeMap::keys) {
            if !keys.contains(key) && all.iter().any(|other| other.get(key) != all[0].get(key)) {
                keys.push(key.clone());
            }
        }
    }
    keys
}

/// The values of these keys; empty where they are those of the preset.
pub(super) fn deviations(experiment: &Experiment, keys: &[String]) -> Vec<String> {
    if keys.is_empty() {
        return Vec::new();
    }
    let (own, standard) = (settings(experiment), standard(experiment));
    let value = |key: &String| match (own.get(key), standard.get(key)) {
        (own, standard) if own == standard => String::new(),
        (Some(own), _) => own.clone(),
        (None, _) => ABSENT.to_owned(),
    };
    keys.iter().map(value).collect()
}

/// All settings in which an experiment is not as its preset; empty if it is.
fn unlike_preset(experiment: &Experiment) -> String {
    let (own, standard) = (settings(experiment), standard(experiment));
    let mut keys: Vec<String> = own.keys().chain(standard.keys()).cloned().collect();
    keys.retain(|key| own.get(key) != standard.get(key));
    keys.sort();
    keys.dedup();
    label(&keys, &deviations(experiment, &keys))
}

/// What runs have that their presets have not, and which methods on which streams.
pub(super) fn unlike_presets(all: &Arrangement<'_>) -> Vec<(String, String)> {
    // Of each kind of settings the methods, by streams.
    let mut found: BTreeMap<String, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for row in &all.rows {
        let mut streams: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (cell, stream) in row.cells.iter().zip(&all.streams) {
            for settings in cell.runs.iter().map(|run| unlike_preset(&run.experiment)) {
                let known = streams.entry(settings).or_default();
                if !known.contains(&stream.title.as_str()) {
                    known.push(&stream.title);
                }
            }
        }
        for (settings, streams) in streams.into_iter().filter(|(settings, _)| !settings.is_empty()) {
            let methods = found.entry(settings).or_default().entry(streams.join(", ")).or_default();
            if !methods.contains(&row.title.as_str()) {
                methods.push(&row.title);
            }
        }
    }
    let text = |(streams, methods): (&String, &Vec<&str>)| format!("{} on {streams}", methods.join(", "));
    let line = |(settings, places): (String, BTreeMap<String, Vec<&str>>)| {
        (settings, places.iter().map(text).collect::<Vec<_>>().join("; "))
    };
    found.into_iter().map(line).collect()
}

/// `epochs=10, width=8`: the last part of each key, or the whole key where two end alike.
pub(super) fn label(keys: &[String], values: &[String]) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    let mut parts: Vec<String> = Vec::new();
    for (key, value) in keys.iter().zip(values).filter(|(_, value)| !value.is_empty()) {
        let alone = keys.iter().filter(|other| last(other) == last(key)).count() == 1;
        let name = if alone { last(key) } else { key.trim_start_matches("learner.").to_owned() };
        let part = if value == ABSENT { ABSENT.to_owned() } else { format!("{name}={value}") };
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(", ")
}

/// Sorts as the values do, whole numbers by their size.
pub(super) fn order(values: &[String]) -> Vec<String> {
    let number =
        |value: &String| value.parse::<u64>().map_or(value.clone(), |number| format!("{number:020}"));
    values.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples::{record, with_epochs};
    use super::*;

    #[test]
    fn what_differs_from_the_preset() {
        let usual = record("finetune", "s_minus", 1, [0.5, 0.5]).experiment;
        let short = with_epochs(record("finetune", "s_minus", 2, [0.5, 0.5]), 9).experiment;
        let keys = differing([&usual, &short].into_iter());
        assert_eq!(keys, ["learner.training.epochs"]);
        let labels = [&usual, &short].map(|experiment| label(&keys, &deviations(experiment, &keys)));
        assert_eq!(labels, ["", "epochs=9"]);
        assert!(differing([&usual, &usual].into_iter()).is_empty());
        assert_eq!([&usual, &short].map(unlike_preset), ["", "epochs=9"]);
    }

    #[test]
    fn keys_that_end_alike_and_missing_ones() {
        let keys = ["learner.epochs", "learner.projection.epochs", "learner.new"].map(String::from);
        let values = ["5", "2", ABSENT].map(String::from);
        assert_eq!(label(&keys, &values), "epochs=5, projection.epochs=2, other version");
    }
}
