//! Differences between the settings of runs, in few words: from their preset, and between runs of one method on one stream.

use std::collections::BTreeMap;

use lmc::NetworkConfig;
use toml::{Table, Value};

use super::run_table::RunTable;
use crate::error::{Error, Result};
use crate::experiment::{Evaluate, Experiment};
use crate::spelling::first_spelling;

/// Settings by dotted key.
type Settings = BTreeMap<String, String>;

/// Text for a setting that a run does not have, because the version that ran it did not have the setting.
const ABSENT: &str = "other version";

/// All settings except those that rows and columns stand for, the seed, and how often the state is saved.
fn settings(experiment: &Experiment) -> Result<Settings> {
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
    let learner = first_spelling(experiment.learner.clone());
    let mut table = Table::try_from(Experiment { learner, ..experiment.clone() })
        .map_err(|error| Error::unwritable("experiment", error))?;
    for key in ["stream", "method", "seed", "checkpoint_epochs"] {
        table.remove(key);
    }
    let mut flat = BTreeMap::new();
    flatten(&table, "", &mut flat);
    Ok(flat)
}

/// The settings of an experiment that gives nothing but stream and method. A method of another version has none.
fn standard(experiment: &Experiment) -> Result<Settings> {
    let learner = Experiment::learner_for(&experiment.method, &experiment.preset, Table::new());
    settings(&Experiment {
        variant: "auto".into(),
        stream_seed: None,
        evaluate: Evaluate::default(),
        test_images: None,
        preset: Experiment::preset_for(&experiment.stream).to_owned(),
        network: NetworkConfig::default(),
        learner: learner.unwrap_or_else(|_| Table::new()),
        ..experiment.clone()
    })
}

/// Keys in which two runs of a method on one stream differ. From stream to stream presets may differ.
pub(super) fn differing<'a>(experiments: impl Iterator<Item = &'a Experiment>) -> Result<Vec<String>> {
    let mut streams: BTreeMap<&str, Vec<Settings>> = BTreeMap::new();
    for experiment in experiments {
        streams.entry(&experiment.stream).or_default().push(settings(experiment)?);
    }
    let mut keys: Vec<String> = Vec::new();
    for all in streams.values() {
        for key in all.iter().flat_map(BTreeMap::keys) {
            if !keys.contains(key) && all.iter().any(|other| other.get(key) != all[0].get(key)) {
                keys.push(key.clone());
            }
        }
    }
    Ok(keys)
}

/// The values of these keys; empty where they are those of the preset.
pub(super) fn deviations(experiment: &Experiment, keys: &[String]) -> Result<Vec<String>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let (own, standard) = (settings(experiment)?, standard(experiment)?);
    let value = |key: &String| match (own.get(key), standard.get(key)) {
        (own, standard) if own == standard => String::new(),
        (Some(own), _) => own.clone(),
        (None, _) => ABSENT.to_owned(),
    };
    Ok(keys.iter().map(value).collect())
}

/// All settings in which an experiment differs from its preset; empty if there are none.
fn unlike_preset(experiment: &Experiment) -> Result<String> {
    let (own, standard) = (settings(experiment)?, standard(experiment)?);
    let mut keys: Vec<String> = own.keys().chain(standard.keys()).cloned().collect();
    keys.retain(|key| own.get(key) != standard.get(key));
    keys.sort();
    keys.dedup();
    Ok(label(&keys, &deviations(experiment, &keys)?))
}

/// Settings in which runs differ from their presets, each with the methods and streams that have it.
pub(super) fn unlike_presets(all: &RunTable<'_>) -> Result<Vec<(String, String)>> {
    // Methods by settings and streams.
    let mut found: BTreeMap<String, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for row in &all.rows {
        let mut streams: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (cell, stream) in row.cells.iter().zip(&all.streams) {
            for run in &cell.runs {
                let titles = streams.entry(unlike_preset(&run.experiment)?).or_default();
                if !titles.contains(&stream.title.as_str()) {
                    titles.push(&stream.title);
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
    Ok(found.into_iter().map(line).collect())
}

/// Writes settings as `epochs=10, width=8`, by the last part of each key, or by the whole key where two end alike.
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

/// A key that sorts settings by their values, whole numbers by their size.
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
        let keys = differing([&usual, &short].into_iter()).unwrap();
        assert_eq!(keys, ["learner.training.epochs"]);
        let labels = [&usual, &short].map(|experiment| label(&keys, &deviations(experiment, &keys).unwrap()));
        assert_eq!(labels, ["", "epochs=9"]);
        assert!(differing([&usual, &usual].into_iter()).unwrap().is_empty());
        assert_eq!([&usual, &short].map(|experiment| unlike_preset(experiment).unwrap()), ["", "epochs=9"]);
    }

    #[test]
    fn keys_that_end_alike_and_missing_ones() {
        let keys = ["learner.epochs", "learner.projection.epochs", "learner.new"].map(String::from);
        let values = ["5", "2", ABSENT].map(String::from);
        assert_eq!(label(&keys, &values), "epochs=5, projection.epochs=2, other version");
    }
}
