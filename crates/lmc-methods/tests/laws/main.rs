//! What all methods promise, and in the files beside this one what each promises, on small networks and generated images.
#![allow(clippy::unwrap_used, clippy::panic)]

mod class_means;
mod files;
mod held;
mod masks;
mod modules;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{Device, Tensor};
use lmc::internals::inference::evaluation::Classification;
use lmc::internals::tensors::{NamedTensor, below, images};
use lmc::internals::training::checkpoint::State;
use lmc::{Error, Event, NetworkConfig, Protocol, TaskData, TaskReport};
use lmc_methods::registry::overlay;
use lmc_methods::training::TrainingConfig;
use lmc_methods::{Method, MethodEntry, find, methods};
use lmc_streams::{BatchConfig, Catalog, DataDirs, OwnTask, Task};
use toml::Table;

fn network() -> NetworkConfig {
    NetworkConfig { width: 4, depth: 2, ..NetworkConfig::default() }
}

fn task(family: &str) -> Task {
    let own = OwnTask { name: family.into(), val_fraction: 0.1, ..OwnTask::default() };
    let mut task = own.read(&format!("generated-{family}"), &Catalog::new(DataDirs::default())).unwrap();
    task.train = task.train.thinned(64);
    task.val = task.val.thinned(20);
    task.test = task.test.thinned(20);
    task
}

/// A method by name, small and quick.
fn small(name: &str) -> Box<dyn Method> {
    small_with(name, "")
}

/// A small method by name, with other settings.
fn small_with(name: &str, more: &str) -> Box<dyn Method> {
    let entry = find(name).unwrap();
    let known = entry.resolve("s_minus", Table::new()).unwrap();
    let mut changes = Table::new();
    let quick = [
        ("width", "width = \"network\""),
        ("fisher_images", "fisher_images = 8"),
        ("training", "training = { epochs = 2, batch = 16 }"),
        ("projection", "epochs = 2\nbatch = 16\nprojection = { epochs = 1, epochs_after = 1 }"),
        ("statistics", "statistics = { window = 4 }"),
    ];
    for (_, settings) in quick.iter().filter(|(setting, _)| known.contains_key(*setting)) {
        overlay(&mut changes, toml::from_str(settings).unwrap());
    }
    overlay(&mut changes, toml::from_str(more).unwrap());
    let settings = entry.resolve("s_minus", changes).unwrap();
    entry.init(&settings, &network(), 1, &Device::flex()).unwrap()
}

fn learn(method: &mut dyn Method, task: &Task) -> TaskReport {
    method.learn(task.into(), &mut |_| Ok(())).unwrap()
}

fn test_images(task: &Task) -> Tensor<4> {
    let batch = BatchConfig::stored(64).init(&task.test).unwrap().next().unwrap();
    images(&batch, &Device::flex())
}

/// Classifies the test images of a task under a protocol, as images of the task with this number.
fn classify(method: &dyn Method, task: &Task, protocol: Protocol, number: usize) -> Vec<Classification> {
    let found = method.classifier().unwrap().classify(&test_images(task), Some(number), &[protocol]);
    found.unwrap().pop().unwrap()
}

/// Hyperparameters of training for a small method.
fn training() -> TrainingConfig {
    TrainingConfig { epochs: 3, batch: 16, ..TrainingConfig::default() }
}

/// The tensors that a method has learned, by name.
fn model(method: &dyn Method) -> BTreeMap<String, NamedTensor> {
    below("model", &method.state().unwrap().tensors)
}

/// Whether all tensors of before are there still, bit for bit.
fn unmoved(before: &BTreeMap<String, NamedTensor>, after: &BTreeMap<String, NamedTensor>) -> bool {
    let bits = |tensor: &NamedTensor| tensor.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    before.iter().all(|(name, old)| after.get(name).is_some_and(|new| bits(old) == bits(new)))
}

fn same(a: &State, b: &State) -> bool {
    let sorted = |state: &State| {
        let mut tensors = state.tensors.clone();
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        tensors
    };
    a.document == b.document && sorted(a) == sorted(b)
}

/// Saved after every epoch and restored into a new method, a method ends where it would have without.
#[test]
fn every_method_resumes_bit_for_bit() {
    let tasks = [task("digits"), task("textures")];
    for entry in methods() {
        let mut whole = small(entry.name);
        let mut broken = small(entry.name);
        for task in &tasks {
            learn(&mut *whole, task);
            broken.begin(task.into()).unwrap();
            let mut more = true;
            while more {
                more = broken.epoch(task.into(), &mut |_| Ok(())).unwrap();
                broken = reloaded(entry.name, &*broken);
            }
            broken.finish(task.into()).unwrap();
            let found = |method: &dyn Method| classify(method, &tasks[0], Protocol::TaskGiven, 0);
            assert_eq!(found(&*whole), found(&*broken), "{}", entry.name);
        }
        assert!(same(&whole.state().unwrap(), &broken.state().unwrap()), "{}", entry.name);
        let capacity = whole.capacity();
        let works = capacity.multiply_adds > 0 || capacity.modules.is_empty();
        assert!(capacity.parameters > 0 && works, "{}", entry.name);
    }
}

/// A state on disk and back, in a new method.
fn reloaded(name: &str, method: &dyn Method) -> Box<dyn Method> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    method.state().unwrap().save(&7, &path).unwrap();
    let (state, number) = State::load::<i32>(&path).unwrap();
    assert_eq!(number, 7);
    let mut method = small(name);
    method.restore(state).unwrap();
    method
}

/// Stopped after every step by its listener, or before validation by the flag, saved and restored into a new method, a
/// method ends where it would have without, and tells the same events.
#[test]
fn every_method_resumes_after_every_step_bit_for_bit() {
    let tasks = [task("digits"), task("textures")];
    let stopped = || Error::Stopped { done: "a step".into() };
    for entry in methods() {
        let mut whole = small(entry.name);
        let mut broken = small(entry.name);
        let (mut expected, mut told, mut stops) = (Vec::new(), Vec::new(), 0);
        for task in &tasks {
            whole
                .learn(task.into(), &mut |event| {
                    expected.push(event);
                    Ok(())
                })
                .unwrap();
            broken.begin(task.into()).unwrap();
            loop {
                let flag = AtomicBool::new(false);
                let data = TaskData::from(task).until(&flag);
                let trained = broken.epoch(data, &mut |event| {
                    told.push(event.clone());
                    match event {
                        // The flag ends the epoch in validation, or not at all if there is none.
                        Event::Step { step, steps, .. } if step + 1 == steps => {
                            flag.store(true, Ordering::Relaxed);
                            Ok(())
                        }
                        Event::Step { .. } => Err(stopped()),
                        _ => Ok(()),
                    }
                });
                broken = reloaded(entry.name, &*broken);
                match trained {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(Error::Stopped { .. }) => stops += 1,
                    Err(error) => panic!("{}: {error}", entry.name),
                }
            }
            broken.finish(task.into()).unwrap();
        }
        assert_eq!(told, expected, "{}", entry.name);
        assert!(same(&whole.state().unwrap(), &broken.state().unwrap()), "{}", entry.name);
        // Four steps, of which the last is followed by a validation, in two epochs of one task or more.
        assert!(stops >= 7, "{}: {stops}", entry.name);
    }
}

/// What takes long at the beginning and at the end of a task ends once the flag is set.
#[test]
fn a_flag_ends_what_is_long_outside_of_steps() {
    let tasks = [task("digits"), task("textures")];
    let flag = AtomicBool::new(true);
    let is_stopped = |error: Error| matches!(error, Error::Stopped { .. });
    for name in ["ewc", "ncm", "slda", "lmc_a"] {
        let mut method = small(name);
        let data = TaskData::from(&tasks[0]);
        method.begin(data).unwrap();
        while method.epoch(data, &mut |_| Ok(())).unwrap() {}
        assert!(is_stopped(method.finish(data.until(&flag)).unwrap_err()), "{name}");
    }
    for name in ["lwf", "mntdp"] {
        let mut method = small(name);
        tasks.iter().for_each(|task| drop(learn(&mut *method, task)));
        let data = Task { name: "again".into(), ..tasks[0].clone() };
        assert!(is_stopped(method.begin(TaskData::from(&data).until(&flag)).unwrap_err()), "{name}");
    }
}

/// A method that is derived from another has its settings, and learns and classifies the same.
#[test]
fn derived_methods_learn_the_same() {
    let tasks = [task("digits"), task("textures")];
    let mut pairs = 0;
    for entry in methods() {
        let Some(other) = entry.derived_from.map(|other| find(other).unwrap()) else { continue };
        assert!(other.task_agnostic && !entry.task_agnostic, "{}", entry.name);
        let settings = |entry: &MethodEntry| entry.resolve("s_minus", Table::new()).unwrap();
        assert_eq!(settings(&entry), settings(&other), "{}", entry.name);
        let [ours, theirs] = [entry.name, other.name].map(|name| {
            let mut method = small(name);
            tasks.iter().for_each(|task| drop(learn(&mut *method, task)));
            (method.state().unwrap(), classify(&*method, &tasks[0], Protocol::TaskGiven, 0))
        });
        assert!(same(&ours.0, &theirs.0) && ours.1 == theirs.1, "{}", entry.name);
        pairs += 1;
    }
    assert_eq!(pairs, 2);
}

/// Task-agnostic methods classify without a task ID; task-aware ones complain.
#[test]
fn who_classifies_without_a_task() {
    let tasks = [task("digits"), task("textures")];
    for entry in methods() {
        let mut method = small(entry.name);
        tasks.iter().for_each(|task| {
            learn(&mut *method, task);
        });
        for protocol in [Protocol::TaskBatch, Protocol::Mixed, Protocol::Single] {
            let found = method.classifier().unwrap().classify(&test_images(&tasks[1]), Some(1), &[protocol]);
            if entry.task_agnostic {
                assert!(found.unwrap()[0].iter().all(|found| found.task < 2), "{}", entry.name);
            } else if entry.derived_from.is_none() {
                let error = found.unwrap_err().to_string();
                assert!(error.contains("it does not classify without a task ID"), "{}: {error}", entry.name);
            }
        }
    }
    assert!(find("finetun").unwrap_err().to_string().contains("finetune"));
}

/// A task that comes back with the same classes has the outputs of the first one.
#[test]
fn a_single_head_maps_its_labels_back() {
    let (first, second) = (task("digits"), task("textures"));
    for name in ["er_a_s", "ncm", "slda"] {
        let mut method = small(name);
        learn(&mut *method, &first);
        learn(&mut *method, &second);
        learn(&mut *method, &Task { name: "digits again".into(), ..first.clone() });
        assert_eq!([0, 1, 2].map(|task| method.outputs_of(task)), [0, 1, 0], "{name}");
        assert!(method.is_class_incremental());
        let found = classify(&*method, &second, Protocol::Single, 1);
        let classes = [first.classes.len(), second.classes.len()];
        assert!(
            found.iter().all(|found| found.task < 2 && (found.label as usize) < classes[found.task]),
            "{name}"
        );
        let given = classify(&*method, &second, Protocol::TaskGiven, 2);
        assert!(given.iter().all(|found| found.task == 2), "{name}");
    }
}
