//! Laws of the method: what is frozen stays, order does not matter, a merge is a union, a file holds everything.
#![allow(clippy::unwrap_used)]

mod small;

use burn::tensor::{Device, Tensor};
use lmc::internals::inference::{BatchPredictions, BatchPrior, PredictionConfig, Routing};
use lmc::internals::module::{FrozenFunctional, Origin};
use lmc::internals::network::Network;
use lmc::internals::network::composition::Prior;
use lmc::internals::network::head::HeadSelection;
use lmc::internals::tensors::{images, plain, tensor, values, without_gradients};
use lmc::{Error, Model, NetworkConfig, Preset};
use lmc_streams::{BatchConfig, Seed};
use proptest::prelude::*;
use small::{first_batch, learn, learner, task};

fn logits(learner: &Model, batch: &lmc_streams::Batch, selection: HeadSelection) -> BatchPredictions {
    let predictor = learner.predictor().unwrap();
    predictor.predict(&images(batch, predictor.device()), BatchPrior::Shared, selection).unwrap()
}

fn near(a: &[Vec<f64>], b: &[Vec<f64>]) -> bool {
    a.len() == b.len() && a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-4)
}

#[test]
fn what_is_learned_never_changes_bit_for_bit() {
    let mut learner = learner(7);
    learn(&mut learner, "digits", 0);
    let before = plain(&learner.network);
    let statistics: Vec<_> =
        learner.network.layers.iter().map(|l| l.modules()[0].statistics.clone()).collect();
    let answers = logits(&learner, &first_batch("digits"), HeadSelection::Given(0)).logits;
    learn(&mut learner, "textures", 1);
    assert!(learner.network.modules().iter().sum::<usize>() > 2, "the second task should need a module");
    let after = plain(&learner.network);
    for tensor in &before {
        let same = after.iter().find(|other| other.name == tensor.name).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&same.values), bits(&tensor.values), "{}", tensor.name);
    }
    for (layer, statistics) in learner.network.layers.iter().zip(statistics) {
        assert_eq!(layer.modules()[0].statistics, statistics);
    }
    // And behind the modules of its time a head answers as it did.
    learner.config.prediction = PredictionConfig { routing: Routing::AsLearned, ..Default::default() };
    assert_eq!(logits(&learner, &first_batch("digits"), HeadSelection::Given(0)).logits, answers);
}

#[test]
fn one_module_per_layer_is_a_plain_network() {
    let mut learner = learner(3);
    learn(&mut learner, "digits", 0);
    let batch = first_batch("digits");
    let ours = logits(&learner, &batch, HeadSelection::Given(0)).logits;
    let network = &learner.network;
    let mut x = images(&batch, &network.device.clone().inner());
    for layer in &network.layers {
        let module = without_gradients(&layer.modules()[0]);
        x = FrozenFunctional::new(&module.functional).unwrap().forward(x).unwrap();
    }
    let head = without_gradients(&network.heads[0]);
    let plain: Vec<f64> = values(&head.logits(x.flatten(1, 3))).into_iter().map(f64::from).collect();
    assert!(near(&ours, &plain.chunks(10).map(<[f64]>::to_vec).collect::<Vec<_>>()));
}

#[test]
fn a_merge_is_a_union_in_any_order_and_with_itself() {
    let (mut a, mut b) = (learner(1), learner(2));
    learn(&mut a, "digits", 0);
    learn(&mut b, "textures", 0);
    learn(&mut b, "digits", 1);
    let named =
        |first: &Model, second: &Model| [("a".to_owned(), first.clone()), ("b".to_owned(), second.clone())];
    let (both, report) = Model::merge_named(&named(&a, &b)).unwrap();
    let modules: Vec<usize> =
        a.network.modules().iter().zip(b.network.modules()).map(|(a, b)| a + b).collect();
    assert_eq!(both.network.modules(), modules);
    let tasks: Vec<&str> = both.network.heads.iter().map(|head| head.task.as_str()).collect();
    assert_eq!(tasks, ["a:digits", "textures", "b:digits"]);
    assert_eq!(report.renamed.len(), 2);
    assert_eq!(both.network.layers[0].modules()[0].origin.model.as_deref(), Some("a"));
    let (other, _) = Model::merge_named(&named(&b, &a)).unwrap();
    let batch = first_batch("digits");
    let ours = logits(&both, &batch, HeadSelection::Given(0)).logits;
    assert!(near(&ours, &logits(&other, &batch, HeadSelection::Given(2)).logits), "order of modules");
    assert!(near(&ours, &union_by_hand(&[&a, &b], &batch, 0)));
    // Behind the modules of its time, a head does not notice the merge.
    let mut as_learned = both.clone();
    as_learned.config.prediction.routing = Routing::AsLearned;
    let alone = logits(&b, &batch, HeadSelection::Given(1)).logits;
    assert!(near(&logits(&as_learned, &batch, HeadSelection::Given(2)).logits, &alone));
    let (twice, _) = Model::merge_named(&named(&a, &a)).unwrap();
    let alone = logits(&a, &batch, HeadSelection::Given(0)).logits;
    assert!(near(&logits(&twice, &batch, HeadSelection::Given(1)).logits, &alone));
}

/// The union computed module by module with burn's own arithmetic on plain numbers.
fn union_by_hand(models: &[&Model], batch: &lmc_streams::Batch, head: usize) -> Vec<Vec<f64>> {
    let device = Device::flex();
    let mut x = images(batch, &device);
    for layer in 0..models[0].network.layers.len() {
        let (mut outputs, mut losses) = (Vec::new(), Vec::new());
        for model in models {
            for module in model.network.layers[layer].modules() {
                let mut module = without_gradients(module);
                let output = FrozenFunctional::new(&module.functional).unwrap().forward(x.clone()).unwrap();
                losses.push(frozen_losses(&mut module, &output, &x));
                outputs.push(output);
            }
        }
        let weights = models[0].config.composition.weights(&losses);
        let mut sum: Option<Tensor<4>> = None;
        for (output, weights) in outputs.into_iter().zip(weights) {
            let images = weights.len();
            let weights: Tensor<4> =
                tensor(weights.into_iter().map(|w| w as f32).collect(), [images, 1, 1, 1], &device);
            let term = output * weights;
            sum = Some(sum.map_or(term.clone(), |sum| sum + term));
        }
        x = sum.unwrap();
    }
    let head = without_gradients(&models[0].network.heads[head]);
    let flat: Vec<f64> = values(&head.logits(x.flatten(1, 3))).into_iter().map(f64::from).collect();
    flat.chunks(head.classes.len()).map(<[f64]>::to_vec).collect()
}

fn frozen_losses(
    module: &mut lmc::internals::module::LocalModule,
    output: &Tensor<4>,
    input: &Tensor<4>,
) -> Vec<f64> {
    let frozen =
        lmc::internals::module::structural::FrozenStructurals::new(std::iter::once(&module.structural))
            .unwrap();
    let outputs: Tensor<5> = output.clone().unsqueeze_dim(0);
    values(&frozen.losses(outputs, input.clone()).unwrap()).into_iter().map(f64::from).collect()
}

#[test]
fn models_of_other_shapes_do_not_merge_and_the_difference_is_named() {
    let mut a = learner(1);
    learn(&mut a, "digits", 0);
    let wide = NetworkConfig { width: 9, ..small::network() };
    let mut b = small::model(wide, small::config(), 1);
    learn(&mut b, "digits", 0);
    let error = Model::merge_named(&[("a".into(), a), ("b".into(), b)]).unwrap_err().to_string();
    assert!(error.contains("width") && error.contains("8 in 'a' and 9 in 'b'"), "{error}");
}

#[test]
fn a_new_module_has_no_say_until_it_is_trained() {
    let mut learner = learner(5);
    learn(&mut learner, "digits", 0);
    let batch = first_batch("digits");
    let before = logits(&learner, &batch, HeadSelection::Given(0)).logits;
    let layer = &mut learner.network.layers[1];
    let origin = Origin::first("x", 1);
    let module = layer.config.init(origin, &Seed::root(9), &Device::flex().autodiff());
    layer.add(module).unwrap();
    assert_eq!(logits(&learner, &batch, HeadSelection::Given(0)).logits, before);
}

#[test]
fn warming_up_moves_batch_norms_and_nothing_else() {
    let mut learner = learner(5);
    learn(&mut learner, "digits", 0);
    let before = plain(&learner.network);
    learner.warm_up(&task("textures").train, 3, &Seed::root(1)).unwrap();
    for (old, new) in before.iter().zip(plain(&learner.network)) {
        let running = old.name.contains("running");
        assert_eq!(old.values != new.values, running, "{}", old.name);
    }
}

#[test]
fn images_alone_are_images_in_batches_of_one() {
    let mut learner = learner(5);
    learn(&mut learner, "digits", 0);
    learn(&mut learner, "textures", 1);
    let predictor = learner.predictor().unwrap();
    let set = &task("digits").test;
    let all = BatchConfig::stored(8).init(set).unwrap().next().unwrap();
    let together = predictor
        .predict(&images(&all, predictor.device()), BatchPrior::PerImage, HeadSelection::Sample)
        .unwrap();
    for (number, one) in BatchConfig::stored(1).init(set).unwrap().take(8).enumerate() {
        let single = predictor
            .predict(&images(&one, predictor.device()), BatchPrior::Shared, HeadSelection::Batch)
            .unwrap();
        assert_eq!(single.heads[0], together.heads[number]);
        assert!(near(&single.logits, &together.logits[number..=number]));
    }
}

#[test]
fn shapes_are_derived_for_any_size_depth_and_structure() {
    use lmc::internals::module::structural::StructuralKind;
    use lmc::internals::network::head::HeadStructuralKind;
    let pooled = StructuralKind::Invertible { pool: 3, normalise: false };
    let whole = StructuralKind::Invertible { pool: 0, normalise: true };
    for (size, channels, depth, structural, heads) in [
        (16, 1, 6, StructuralKind::Decoder, HeadStructuralKind::Invertible),
        (32, 3, 6, StructuralKind::Decoder, HeadStructuralKind::Decoder),
        (45, 3, 2, pooled, HeadStructuralKind::Decoder),
        (17, 1, 3, whole, HeadStructuralKind::Invertible),
        (64, 3, 5, pooled, HeadStructuralKind::Invertible),
    ] {
        let config = NetworkConfig { size, channels, depth, width: 3, structural, heads };
        let mut model = small::model(config, small::config(), 1);
        let network = &mut model.network;
        let origin = Origin::first("x", 0);
        network.add_first_modules(&origin, &Seed::root(1)).unwrap();
        network.add_head("x", &["a".into(), "b".into()], &Seed::root(1));
        step(network, [4, channels, size, size]);
        network.freeze().unwrap();
        let predictor = model.predictor().unwrap();
        let images = Tensor::ones([2, channels, size, size], &Device::flex());
        let answer = predictor.predict(&images, BatchPrior::PerImage, HeadSelection::Sample).unwrap();
        assert_eq!(answer.logits[1].len(), 2, "size {size}, depth {depth}");
    }
}

fn step(network: &mut Network, shape: [usize; 4]) {
    use lmc::internals::growth::projection::Phase;
    use lmc::internals::training::step::StepContext;
    let config = Preset::SMinus.learner();
    let context =
        StepContext { config: &config, phase: Phase::Accumulation, projection_steps: 1, may_grow: false };
    let images = Tensor::ones(shape, &network.device);
    let pass = network.training_pass(images, Default::default(), context).unwrap();
    let loss = pass.structural.unwrap() + network.heads[0].losses(pass.trace.features).mean();
    let mut gradients = loss.backward();
    config.optimiser.init().step(network, &mut gradients);
    assert!(values(&loss)[0].is_finite());
}

#[test]
fn bad_tasks_are_refused_by_name() {
    let mut learner = learner(1);
    learn(&mut learner, "digits", 0);
    let again = small::try_learn(&mut learner, "digits").unwrap_err().to_string();
    assert!(again.contains("'digits'") && again.contains("already"), "{again}");
    let error = NetworkConfig { size: 8, ..small::network() }.check().unwrap_err();
    assert!(matches!(error, Error::Input(_)) && error.to_string().contains("network.size"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn weights_of_a_grown_network_sum_to_one(temperature in 0.05_f64..2.0, prior in any::<bool>()) {
        let mut learner = small::grown();
        learner.config.composition.temperature = temperature;
        learner.config.composition.prior = if prior { Prior::MeanLoss } else { Prior::None };
        let answers = logits(&learner, &first_batch("textures"), HeadSelection::Sample);
        for image in 0..answers.heads.len() {
            for layer in answers.weights(image) {
                prop_assert!((layer.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            }
        }
    }
}
