//! Laws of growth by all images of a task (`expansion.timing = "between_phases"`): what is known adds nothing, what is other adds a module, no module is kept
//! without gain, and an interrupted task ends with the same bits.
#![allow(clippy::unwrap_used, clippy::panic)]

mod small;

use std::path::Path;

use burn::tensor::Device;
use lmc::{DropReason, Error, Event, LearnerConfig, Model, NetworkConfig, Preset, Task, TaskReport};
use lmc_streams::{Catalog, DataDirs, Looks, Seed, Split, TaskSet, Transform};

/// Preset `own` for `epochs` epochs; modules are kept whether they gain or not.
fn config(epochs: usize) -> LearnerConfig {
    let mut config = Preset::Own.learner();
    config.batch = 32;
    config.expansion.only_with_gain = false;
    config.projection.epochs = 10;
    config.scale_epochs(epochs, 5);
    config
}

fn model(learner: LearnerConfig, seed: u64) -> Model {
    small::model(NetworkConfig { width: 8, depth: 3, ..NetworkConfig::default() }, learner, seed)
}

/// Part `part` of the images of a generated family, in a shuffle of its own: `train` for training and a fifth as many for
/// validation. Parts have no image in common.
fn part(family: &str, part: usize, train: usize, seed: u64) -> Task {
    let (catalog, name) = (Catalog::new(DataDirs::default()), format!("generated-{family}"));
    let size = train + train / 5;
    let each = (2 * size).div_ceil(10) as u32;
    let wanted = |split, _, rank| split == Split::Train && rank < each;
    let found = catalog.read(&name, 32, &wanted).unwrap();
    let whole = TaskSet::of_all(found.train.clone(), 3, Transform::Identity);
    let mut order: Vec<usize> = (0..whole.len()).collect();
    Seed::root(seed).named(family).random().shuffle(&mut order);
    let own = &order[part * size..(part + 1) * size];
    Task {
        name: format!("{family}-{part}"),
        dataset: name,
        classes: found.classes,
        train: whole.part(&own[..train]),
        val: whole.part(&own[train..]),
        test: TaskSet::empty(),
        looks: Looks::One(Transform::Identity),
        substitution: None,
    }
}

/// The layers that got a module in a task, from its tests for expansion.
fn grown(report: &TaskReport) -> Vec<usize> {
    report.tests.iter().filter_map(|test| test.layer).collect()
}

/// Learns half a family, its other half, and another family; gives the reports of the last two.
fn learn_same_and_other(
    family: &str,
    other: &str,
    images: usize,
    epochs: usize,
    seed: u64,
) -> [TaskReport; 2] {
    let mut model = model(config(epochs), seed);
    model.learn(&part(family, 0, images, seed)).unwrap();
    let same = model.learn(&part(family, 1, images, seed)).unwrap();
    [same, model.learn(&part(other, 0, images, seed)).unwrap()]
}

#[test]
fn the_same_distribution_adds_nothing_and_another_one_adds_a_module() {
    let [same, other] = learn_same_and_other("digits", "plates", 150, 10, 1);
    assert_eq!((same.tests.len(), grown(&same)), (1, vec![]), "{:?}", same.tests);
    assert_eq!(same.modules, [1, 1, 1]);
    assert!(!grown(&other).is_empty(), "{:?}", other.tests);
    // Every addition was kept, as modules need no gain here, and had as many epochs alone as its phase took.
    let added: Vec<usize> = (0..3).filter(|&layer| other.modules[layer] > 1).collect();
    let mut layers = grown(&other);
    layers.sort_unstable();
    assert_eq!(added, layers);
    let phase = config(10).projection.epochs;
    let last = other.tests.iter().filter(|test| test.layer.is_some()).map(|test| test.epoch).max().unwrap();
    assert!(other.best_epoch + 1 >= last + phase && other.epochs >= last + 2 * phase, "{other:?}");
}

/// Minutes: five seeds, 150 to 600 images, all families.
#[test]
#[ignore = "long"]
fn the_same_distribution_adds_nothing_for_all_families_and_sizes() {
    let mut wrong = Vec::new();
    for seed in 1..=5 {
        for images in [150, 300, 600] {
            for [family, other] in [["digits", "textures"], ["garments", "plates"], ["objects", "digits"]] {
                let [same, other] = learn_same_and_other(family, other, images, 20, seed);
                if !grown(&same).is_empty() || grown(&other).is_empty() {
                    wrong.push((seed, images, same, other));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn statistics_are_taken_once_from_all_images_of_the_task() {
    let mut model = model(config(4), 2);
    model.learn(&part("digits", 0, 64, 2)).unwrap();
    let statistics = |model: &Model| -> Vec<_> {
        let layers = model.network.layers.iter();
        layers.map(|layer| layer.modules()[0].statistics.clone()).collect()
    };
    let before = statistics(&model);
    for found in &before {
        assert_eq!((found.window.len(), found.seen, found.excess), (100, 100, 0.0));
        // Means of batches of one distribution, not of a training.
        let (first, last): (Vec<_>, Vec<_>) = found.window.iter().enumerate().partition(|(at, _)| *at < 50);
        let mean = |part: Vec<(usize, &lmc::internals::module::statistics::BatchSummary)>| {
            part.iter().map(|(_, entry)| entry.0).sum::<f64>() / part.len() as f64
        };
        let deviation = found.deviation(lmc::internals::module::statistics::Granularity::Batch);
        assert!((mean(first) - mean(last)).abs() < deviation);
    }
    model.learn(&part("plates", 0, 64, 2)).unwrap();
    assert_eq!(statistics(&model), before, "those of modules of earlier tasks stay");
}

#[test]
fn modules_without_gain_are_dropped_at_a_margin_of_none() {
    let mut kept_or_dropped = [false; 2];
    for seed in [1, 2, 3] {
        let mut config = config(6);
        config.expansion.only_with_gain = true;
        config.expansion.drop_margin = 0.0;
        config.expansion.threshold = 0.0;
        let mut model = model(config, seed);
        model.learn(&part("digits", 0, 64, seed)).unwrap();
        let report = model.learn(&part("digits", 1, 64, seed)).unwrap();
        assert!(!grown(&report).is_empty(), "every layer grows at a threshold of 0");
        match report.dropped.as_ref().map(|dropped| (&dropped.modules, dropped.reason)) {
            Some((modules, DropReason::NoGain { with, without })) => {
                assert!(with <= without && report.val_accuracy == Some(without));
                assert_eq!((modules.len(), &report.modules), (3, &report.modules_before));
                kept_or_dropped[1] = true;
            }
            other => {
                assert_eq!(other, None);
                assert_ne!(report.modules, report.modules_before);
                kept_or_dropped[0] = true;
            }
        }
        assert!(model.network.layers.iter().all(|layer| layer.trainable().is_none()));
        assert!(model.network.heads.iter().all(|head| head.frozen));
    }
    assert!(kept_or_dropped[1], "half of the digits know the other half");
}

/// Learns a task that is interrupted at every event which `stop` picks, each time written to a file and read back.
fn learn_interrupted(
    mut model: Model,
    task: &Task,
    stop: impl Fn(&Event) -> bool,
    path: &Path,
) -> (Model, usize) {
    let mut interruptions = 0;
    loop {
        let mut count = 0;
        let result = model.learn_with(task, &mut |_, event| {
            let known = matches!(event, Event::TaskStarted { .. } | Event::TaskLearned { .. });
            count += usize::from(!known && stop(&event));
            match !known && stop(&event) && count == 1 {
                true => Err(Error::Stopped { done: String::new() }),
                false => Ok(()),
            }
        });
        match result {
            Ok(_) => return (model, interruptions),
            Err(Error::Stopped { .. }) => {
                interruptions += 1;
                model.save_checkpoint(&0, path).unwrap();
                model = Model::load_checkpoint::<usize>(path, &Device::flex()).unwrap().0;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn an_interrupted_task_ends_with_the_same_bits() {
    let mut config = config(6);
    config.expansion.only_with_gain = true;
    config.expansion.test_spread = true;
    let mut first = model(config, 3);
    first.learn(&part("digits", 0, 64, 3)).unwrap();
    let task = part("plates", 0, 64, 3);
    let mut whole = first.clone();
    let report = whole.learn(&task).unwrap();
    assert!(grown(&report).len() > 1, "the task should grow more than once: {:?}", report.tests);
    let bytes = |model: &Model| model.to_bytes(Path::new("model")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    for at in ["every event of growth", "every epoch", "every third step"] {
        let stop = |event: &Event| match event {
            Event::ExpansionTested(_) | Event::Expanded { .. } | Event::ProjectionStarted { .. } => {
                at == "every event of growth"
            }
            Event::ProjectionEnded { .. } => at == "every event of growth",
            Event::EpochEnded { .. } => at == "every epoch",
            Event::Step { step, .. } => at == "every third step" && step % 3 == 1,
            _ => false,
        };
        let (resumed, interruptions) = learn_interrupted(first.clone(), &task, stop, &path);
        assert!(interruptions > 2, "{at}");
        assert_eq!(bytes(&resumed), bytes(&whole), "{at}");
    }
}

#[test]
fn checkpoints_without_tests_are_read() {
    let mut model = model(config(2), 4);
    model.begin((&part("digits", 0, 64, 4)).into()).unwrap();
    let mut state = model.state().unwrap();
    let training = state.document["training"].as_object_mut().unwrap();
    assert!(training.remove("test_due").is_some());
    for (part, fields) in [
        ("statistics", &["source", "scale_partial_batches"][..]),
        ("expansion", &["timing", "test_spread", "restart_best_epoch", "only_with_gain", "drop_margin"]),
    ] {
        for field in fields {
            for config in ["/learner", "/training/config"] {
                let config = state.document.pointer_mut(config).unwrap();
                assert!(config[part].as_object_mut().unwrap().remove(*field).is_some(), "{field}");
            }
        }
    }
    let older = Model::from_state(state, Path::new("older"), &Device::flex()).unwrap();
    let paper = LearnerConfig::default();
    assert_eq!(older.config.statistics.source, paper.statistics.source);
    assert_eq!(older.config.expansion.timing, paper.expansion.timing);
}
