//! The golden file: a tiny network computed with the authors' own model code (specification §1.16), case by case.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use burn::tensor::{Device, Gradients, Tensor};
use lmc::internals::growth::projection::Phase;
use lmc::internals::inference::BatchPrior;
use lmc::internals::module::Origin;
use lmc::internals::module::statistics::StatisticsConfig;
use lmc::internals::network::Network;
use lmc::internals::network::composition::CompositionConfig;
use lmc::internals::network::head::HeadSelection;
use lmc::internals::network::layer::CachedResponses;
use lmc::internals::tensors::{Role, Visitor, Walk, scalar, tensor, train, values};
use lmc::internals::training::step::{StepContext, TrainingPass, cross_entropy};
use lmc::{LearnerConfig, ModelConfig, NetworkConfig, Preset};
use lmc_streams::Seed;
use serde_json::Value;

const WEIGHT: f64 = 10.0;

/// `0.3 sin(1.3 i + 0.7 k)`, plus 1 for batch-norm weights, times 0.2 for heads; running statistics 0 and 1.
struct Fill;

impl Visitor for Fill {
    fn visit<const D: usize>(&mut self, name: &str, role: Role, tensor: &mut Tensor<D>) {
        if role == Role::Buffer {
            return;
        }
        let length = tensor.dims().iter().product::<usize>();
        let number = number(name) as f64;
        let scale = if name.starts_with("head") { 0.2 } else { 1.0 };
        let one = if name.ends_with("norm.weight") { 1.0 } else { 0.0 };
        let value = |i: usize| (scale * (0.3 * (1.3 * i as f64 + 0.7 * number).sin()) + one) as f32;
        *tensor = self::tensor((0..length).map(value).collect(), tensor.dims(), &tensor.device());
    }
}

/// The k of a tensor.
fn number(name: &str) -> usize {
    const MODULE: [&str; 10] = [
        "functional.conv.weight",
        "functional.conv.bias",
        "functional.norm.weight",
        "functional.norm.bias",
        "structural.deconv1.weight",
        "structural.deconv1.bias",
        "structural.norm.weight",
        "structural.norm.bias",
        "structural.deconv2.weight",
        "structural.deconv2.bias",
    ];
    const HEAD: [&str; 6] = [
        "structural.coupling1.weight",
        "structural.coupling1.bias",
        "structural.coupling2.weight",
        "structural.coupling2.bias",
        "classifier.weight",
        "classifier.bias",
    ];
    let position = |names: &[&str]| names.iter().position(|end| name.ends_with(end)).unwrap();
    let mut parts = name.split('.');
    let first = parts.next().unwrap();
    if let Some(head) = first.strip_prefix("head") {
        return 9000 + 100 * head.parse::<usize>().unwrap() + position(&HEAD);
    }
    let layer: usize = first.strip_prefix("layer").unwrap().parse().unwrap();
    let module: usize = parts.next().unwrap().strip_prefix("module").unwrap().parse().unwrap();
    1000 * layer + 100 * module + position(&MODULE)
}

/// L2 norms of the gradients of each group.
struct Norms<'a>(&'a Gradients, BTreeMap<String, f64>);

impl Visitor for Norms<'_> {
    fn visit<const D: usize>(&mut self, name: &str, role: Role, tensor: &mut Tensor<D>) {
        if role == Role::Buffer {
            return;
        }
        let parts: Vec<&str> = name.split('.').collect();
        let functional = role == Role::Functional;
        let group = match parts[0].strip_prefix("layer") {
            Some(layer) => {
                let module = parts[1].strip_prefix("module").unwrap();
                format!("{}_l{layer}_m{module}", if functional { "func" } else { "dec" })
            }
            None => format!("{}_{}", parts[0], if functional { "cls" } else { "inv" }),
        };
        let squares = match tensor.grad(self.0) {
            Some(gradient) => values(&gradient).iter().map(|&g| f64::from(g).powi(2)).sum(),
            None => 0.0,
        };
        *self.1.entry(group).or_default() += squares;
    }
}

fn golden(case: &str) -> Value {
    let text = include_str!("golden_lmc_tiny.json");
    serde_json::from_str::<Value>(text).unwrap()[case].clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap()],
    }
}

/// The file has six digits after the point.
fn assert_near(what: &str, ours: &[f64], golden: &Value) {
    let golden = numbers(golden);
    assert_eq!(ours.len(), golden.len(), "{what}");
    for (ours, golden) in ours.iter().zip(golden) {
        assert!((ours - golden).abs() <= 1e-4 * golden.abs() + 1e-6, "{what}: {ours} instead of {golden}");
    }
}

fn config(threshold: f64) -> LearnerConfig {
    let mut config = LearnerConfig { structural_weight: WEIGHT, ..Default::default() };
    config.composition = CompositionConfig { temperature: 0.1, prior_temperature: 0.1, ..Default::default() };
    config.expansion.threshold = threshold;
    config
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn origin() -> Origin {
    Origin::first("t", 0)
}

fn images() -> Tensor<4> {
    let pixels = (0..3 * 3 * 32 * 32).map(|i| (0.5 + 0.5 * (0.37 * f64::from(i)).sin()) as f32).collect();
    tensor(pixels, [3, 3, 32, 32], &device())
}

/// One module per layer and a head, trained.
fn network() -> Network {
    let config = NetworkConfig { width: 4, ..Default::default() };
    let mut network = config.init(&device()).unwrap();
    network.add_first_modules(&origin(), &Seed::root(1)).unwrap();
    network.add_head("t", &["a", "b", "c", "d", "e"].map(str::to_owned), &Seed::root(2));
    network
}

/// One more module at a layer.
fn grow(network: &mut Network, layer: usize) {
    let module = network.layers[layer].config.init(origin(), &Seed::root(3), &device());
    network.layers[layer].add(module).unwrap();
}

fn fill(network: &mut Network) {
    network.walk("", &mut Fill);
}

struct Step {
    pass: TrainingPass,
    logits: Vec<f64>,
    cross_entropy: f64,
    regulariser: f64,
    norms: BTreeMap<String, f64>,
}

fn step(network: &mut Network, config: &LearnerConfig, phase: Phase, head: usize) -> Step {
    let context = StepContext { config, phase, projection_steps: 5, may_grow: false };
    let pass = network.training_pass(images(), CachedResponses::default(), context).unwrap();
    let head = &network.heads[head];
    let features = pass.trace.features.clone();
    let logits = head.logits(features.clone());
    let cross_entropy = cross_entropy(logits.clone(), &[0, 1, 2]);
    let structural = head.losses(features).mean() + pass.structural.clone().unwrap();
    let loss = cross_entropy.clone() + structural.clone().mul_scalar(WEIGHT);
    let gradients = loss.backward();
    let mut norms = Norms(&gradients, BTreeMap::new());
    network.walk("", &mut norms);
    let norms = norms.1.into_iter().map(|(group, squares)| (group, squares.sqrt())).collect();
    Step {
        logits: values(&logits).into_iter().map(f64::from).collect(),
        cross_entropy: scalar(&cross_entropy),
        regulariser: scalar(&structural),
        pass,
        norms,
    }
}

fn check_step(step: &Step, golden: &Value) {
    assert_near("cross-entropy", &[step.cross_entropy], &golden["ce"]);
    assert_near("regulariser", &[step.regulariser], &golden["regularizer_incl_head"]);
    for (group, norm) in golden["grad_norms"].as_object().unwrap() {
        assert_near(group, &[step.norms[group]], norm);
    }
    if !golden["logits"].is_null() {
        assert_near("logits", &step.logits, &golden["logits"]);
    }
}

fn losses(step: &Step) -> Vec<f64> {
    step.pass.trace.layers.iter().flat_map(|layer| layer.losses.iter().flatten().copied()).collect()
}

#[test]
fn a_first_task_with_one_module_per_layer() {
    let golden = golden("A_train_task0_one_module");
    let mut network = network();
    fill(&mut network);
    train(&mut network);
    let step = step(&mut network, &config(1e9), Phase::Accumulation, 0);
    assert_near("losses", &losses(&step), &golden["struct_loss_per_layer"]);
    check_step(&step, &golden);
    let hidden: Vec<f64> = values(&step.pass.trace.features).into_iter().map(f64::from).collect();
    assert_near("hidden", &hidden[..8], &golden["hidden_first8"]);
    let norm = &network.layers[0].modules()[0].functional.running;
    for (values, name) in [(&norm.mean, "bn0_running_mean"), (&norm.variance, "bn0_running_var")] {
        let ours: Vec<f64> = self::values(values).into_iter().map(f64::from).collect();
        assert_near(name, &ours, &golden[name]);
    }
}

#[test]
fn b_evaluation_with_two_modules_per_layer_and_two_heads() {
    let golden = golden("B_eval_two_modules_per_layer_two_heads_temp0.1_prior0.1");
    let mut network = network();
    network.freeze().unwrap();
    (0..4).for_each(|layer| grow(&mut network, layer));
    network.add_head("u", &["a", "b", "c", "d", "e"].map(str::to_owned), &Seed::root(2));
    fill(&mut network);
    network.freeze().unwrap();
    let mut model = ModelConfig { learner: config(1e9), ..ModelConfig::new(Preset::SMinus) }.init().unwrap();
    model.network = network;
    let predictor = model.predictor().unwrap();
    let predictions =
        predictor.predict(&images().without_autodiff(), BatchPrior::Shared, HeadSelection::Batch).unwrap();
    let losses: Vec<f64> =
        predictions.layers(0).iter().flat_map(|t| t.losses.iter().flatten().copied()).collect();
    assert_near("losses", &losses, &golden["struct_loss_per_layer_m_by_n"]);
    let mean = |weights: &Vec<f64>| weights.iter().sum::<f64>() / 3.0;
    let weights: Vec<f64> = predictions.layers(0).iter().flat_map(|t| t.weights.iter().map(mean)).collect();
    assert_near("weights", &weights, &golden["mean_weight_per_layer"]);
    assert_near("heads", &predictions.head_losses.concat(), &golden["head_struct_loss"]);
    assert_eq!(predictions.heads, vec![golden["selected_head"].as_u64().unwrap() as usize; 3]);
    assert_near("logits", &predictions.logits.concat(), &golden["logits"]);
}

/// An old module in each layer, whose window is 0.30, 0.31, 0.29, 0.32, and a trainable one in the first.
fn with_trainable_module() -> Network {
    let mut network = network();
    for layer in &mut network.layers {
        let statistics = &mut layer.trainable_mut().unwrap().statistics;
        for value in [0.30, 0.31, 0.29, 0.32] {
            statistics.push(&[value], &StatisticsConfig::default());
        }
    }
    fill(&mut network);
    network.freeze().unwrap();
    grow(&mut network, 0);
    network.add_head("u", &["a", "b", "c", "d", "e"].map(str::to_owned), &Seed::root(2));
    struct FillNew;
    impl Visitor for FillNew {
        fn visit<const D: usize>(&mut self, name: &str, role: Role, tensor: &mut Tensor<D>) {
            if name.starts_with("layer0.module1") || name.starts_with("head1") {
                Fill.visit(name, role, tensor);
                if role != Role::Buffer {
                    *tensor = tensor.clone().require_grad();
                }
            }
        }
    }
    network.walk("", &mut FillNew);
    network
}

fn check_projection(case: &str, threshold: f64) {
    let expected = golden(case);
    let mut network = with_trainable_module();
    let first = step(&mut network, &config(threshold), Phase::projection(Some(0), 5), 1);
    assert_near("losses", &losses(&first), &expected["struct_loss"]);
    let z: Vec<f64> = first.pass.z.concat();
    assert_near("z", &z, &expected["z_abs"]);
    assert_near("weights", &first.pass.trace.layers[0].weights.concat(), &expected["weights_layer0"]);
    check_step(&first, &expected);
    let second = step(&mut network, &config(threshold), Phase::Accumulation, 1);
    check_step(&second, &golden(&format!("{case}_then_accumulation")));
}

#[test]
fn c1_projection_with_nothing_unusual() {
    check_projection("C1_projection_no_outlier", 1e9);
}

#[test]
fn c2_projection_when_the_old_module_finds_it_unusual() {
    check_projection("C2_projection_old_flagged_outlier", 0.05);
}
