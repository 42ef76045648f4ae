//! Checkpoints that earlier versions wrote are still read.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use lmc::NetworkConfig;
use lmc::internals::training::checkpoint::State;
use lmc_methods::{Method, find};
use serde_json::Value;
use toml::Table;

/// A run of EWC that was killed in its second task, from before documents got their present field names.
fn killed_ewc() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lmc-cli/tests/files_before_12/killed_ewc")
}

/// The method of the run's configuration.
fn ewc(folder: &Path) -> Box<dyn Method> {
    let config: Table = std::fs::read_to_string(folder.join("config.toml")).unwrap().parse().unwrap();
    let network: NetworkConfig = config["network"].clone().try_into().unwrap();
    let learner = config["learner"].as_table().unwrap();
    let entry = find(config["method"].as_str().unwrap()).unwrap();
    let settings = entry.resolve("own", learner.clone()).unwrap();
    assert_eq!(settings, *learner);
    entry.init(&settings, &network, config["seed"].as_integer().unwrap() as u64, &Device::flex()).unwrap()
}

/// All of a state's tensors, by name.
fn sorted(state: &State) -> Vec<lmc::internals::tensors::NamedTensor> {
    let mut tensors = state.tensors.clone();
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    tensors
}

#[test]
fn a_checkpoint_of_ewc_from_an_earlier_version_resumes() {
    let folder = killed_ewc();
    let (before, progress) = State::load::<Value>(&folder.join("checkpoint.safetensors")).unwrap();
    assert!(before.document.get("lesson").is_some() && before.document.get("more").is_some());
    assert_eq!(progress["metrics"]["tasks"].as_array().unwrap().len(), 1, "one task is finished");

    let mut method = ewc(&folder);
    method.restore(before.clone()).unwrap();
    assert_eq!(method.progress(), Some((4, 4)), "all epochs of the second task are done");
    assert_eq!([0, 1].map(|task| method.outputs_of(task)), [0, 1]);

    let after = method.state().unwrap();
    assert_eq!(sorted(&after), sorted(&before));
    assert_eq!(after.document["training"], before.document["lesson"]);
    assert_eq!(after.document["objective"], before.document["more"]);
    assert_eq!(after.document["objective"]["tasks"], 1, "the first task is remembered");

    // What is written now is read back too.
    let mut again = ewc(&folder);
    again.restore(after).unwrap();
    assert_eq!(again.progress(), Some((4, 4)));
}
