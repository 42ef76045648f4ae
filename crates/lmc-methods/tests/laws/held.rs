//! Finetune and the methods that keep one network from forgetting: EWC, LwF, replay; and Experts, which share nothing.

use burn::tensor::Device;
use lmc::Protocol;
use lmc::internals::tensors::below;
use lmc::internals::training::checkpoint::State;
use lmc_methods::ewc::{Anchors, EwcConfig};
use lmc_methods::finetune::{CrossEntropy, FinetuneConfig};
use lmc_methods::lwf::LwfConfig;
use lmc_methods::registry::Width;
use lmc_methods::single_network::SingleNetwork;
use lmc_methods::{Method, MethodConfig};
use lmc_streams::Seed;

use crate::{classify, learn, model, network, small, small_with, task, training, unmoved};

#[test]
fn experts_forget_nothing() {
    let (first, second) = (task("digits"), task("textures"));
    let mut experts = small("experts");
    learn(&mut *experts, &first);
    let before = classify(&*experts, &first, Protocol::TaskGiven, 0);
    let of_first = |experts: &dyn Method| below("expert0", &experts.state().unwrap().tensors);
    let tensors = of_first(&*experts);
    let report = learn(&mut *experts, &second);
    assert_eq!(classify(&*experts, &first, Protocol::TaskGiven, 0), before);
    assert!(!tensors.is_empty() && unmoved(&tensors, &of_first(&*experts)));
    assert_eq!(report.modules, [2, 2]);
}

/// How far a trunk moved from one state to another, weighted by the Fisher information of the first.
fn moved(before_state: &State, after: &State) -> f64 {
    let (before, after_model) = (below("model", &before_state.tensors), below("model", &after.tensors));
    let fisher = below("fisher0", &before_state.tensors);
    let mut total = 0.0;
    for (name, tensor) in before.iter().filter(|(name, _)| name.starts_with("trunk")) {
        let weights = &fisher[name.strip_prefix("trunk.").unwrap()].values;
        for ((a, b), weight) in tensor.values.iter().zip(&after_model[name].values).zip(weights) {
            total += f64::from(*weight) * f64::from(a - b).powi(2);
        }
    }
    total
}

#[test]
fn ewc_is_finetuning_without_strength_and_holds_with_much() {
    let (first, second) = (task("digits"), task("textures"));
    let finetune = FinetuneConfig { training: training(), width: Width::Network };
    let mut finetune = finetune.init(&network(), 1, &Device::flex()).unwrap();
    let config = |strength: f64, anchors: Anchors| EwcConfig {
        training: training(),
        width: Width::Network,
        strength,
        anchors,
        fisher_images: 16,
    };
    let ewc = |config: EwcConfig| config.init(&network(), 1, &Device::flex()).unwrap();
    let mut none = ewc(config(0.0, Anchors::PerTask));
    learn(&mut finetune, &first);
    learn(&mut finetune, &second);
    learn(&mut none, &first);
    learn(&mut none, &second);
    assert_eq!(model(&finetune), model(&none));
    let distance = |strength: f64, anchors: Anchors| {
        let mut method = ewc(config(strength, anchors));
        learn(&mut method, &first);
        let before = method.state().unwrap();
        learn(&mut method, &second);
        moved(&before, &method.state().unwrap())
    };
    let free = distance(1e-12, Anchors::PerTask);
    for anchors in [Anchors::PerTask, Anchors::Latest, Anchors::RunningMean] {
        let held = distance(1e6, anchors);
        assert!(held < 0.25 * free, "{anchors:?}: {held} against {free}");
    }
}

/// LwF has random draws of its own; fine-tuning with the same draws ends at the same numbers.
#[test]
fn lwf_is_finetuning_without_strength() {
    let tasks = [task("digits"), task("textures")];
    let config = |strength: f64| LwfConfig {
        training: training(),
        width: Width::Network,
        strength,
        ..LwfConfig::default()
    };
    let seed = Seed::root(1).named("lwf");
    let mut finetune =
        SingleNetwork::new(&network(), &training(), CrossEntropy, seed, &Device::flex()).unwrap();
    let mut without = config(0.0).init(&network(), 1, &Device::flex()).unwrap();
    let mut with = config(1.0).init(&network(), 1, &Device::flex()).unwrap();
    for task in &tasks {
        learn(&mut finetune, task);
        learn(&mut without, task);
        learn(&mut with, task);
    }
    assert_eq!(model(&finetune), model(&without));
    assert_ne!(model(&finetune), model(&with));
}

/// Replay trains the heads of earlier tasks on; as released it does not.
#[test]
fn replay_moves_earlier_heads_unless_as_released() {
    let (first, second) = (task("digits"), task("textures"));
    for released in [false, true] {
        let mut replay = small_with("er", &format!("released = {released}"));
        learn(&mut *replay, &first);
        let mut before = model(&*replay);
        learn(&mut *replay, &second);
        let after = model(&*replay);
        assert!(!unmoved(&before, &after), "the trunk moves");
        before.retain(|name, _| name.starts_with("head"));
        assert_eq!(before.len(), 2);
        assert_eq!(unmoved(&before, &after), released);
    }
}
