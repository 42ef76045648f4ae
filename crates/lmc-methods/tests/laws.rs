//! What each method promises, on small networks and generated images.
#![allow(clippy::unwrap_used)]

use burn::tensor::{Device, Tensor};
use lmc::checkpoint::State;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::{Learned, Material};
use lmc_methods::ewc::{Anchors, EwcConfig};
use lmc_methods::finetune::FinetuneConfig;
use lmc_methods::registry::Width;
use lmc_methods::training::{TrainingConfig, below};
use lmc_methods::{Answer, Hint, Method, MethodConfig, find, methods};
use lmc_streams::{BatchConfig, Catalog, DataDirs, OwnTask, Seed, Task};
use toml::Table;

fn network() -> NetworkConfig {
    NetworkConfig { width: 4, depth: 2, ..NetworkConfig::default() }
}

fn task(family: &str) -> Task {
    let own = OwnTask { name: family.into(), size: 32, channels: 3, val_fraction: 0.1, seed: Seed::root(1) };
    let mut task = own.read(&format!("generated-{family}"), &Catalog::new(DataDirs::default())).unwrap();
    task.train = task.train.thinned(64);
    task.val = task.val.thinned(20);
    task.test = task.test.thinned(20);
    task
}

fn material(task: &Task) -> Material<'_> {
    Material { task: &task.name, classes: &task.classes, train: &task.train, val: &task.val }
}

/// A method by name, small and quick.
fn small(name: &str) -> Box<dyn Method> {
    let settings = if name.starts_with("lmc") {
        "epochs = 2\nbatch = 16\n[projection]\nepochs = 1\nepochs_after = 1\n[statistics]\nwindow = 4"
    } else {
        "[training]\nepochs = 2\nbatch = 16"
    };
    let mut changes: Table = toml::from_str(settings).unwrap();
    let entry = find(name).unwrap();
    let known = entry.resolve("s_minus", Table::new()).unwrap();
    if known.contains_key("width") {
        changes.insert("width".into(), "network".into());
    }
    if known.contains_key("fisher_images") {
        changes.insert("fisher_images".into(), 8.into());
    }
    let settings = entry.resolve("s_minus", changes).unwrap();
    entry.init(&settings, &network(), 1, &Device::flex()).unwrap()
}

fn learn(method: &mut dyn Method, task: &Task) -> Learned {
    method.begin(material(task)).unwrap();
    while method.epoch(material(task), &mut |_| Ok(())).unwrap() {}
    method.finish(material(task)).unwrap()
}

fn test_images(task: &Task) -> Tensor<4> {
    let batch = BatchConfig::stored(64).init(&task.test).unwrap().next().unwrap();
    images(&batch, &Device::flex())
}

fn answers(method: &dyn Method, task: &Task, hint: Hint) -> Vec<Answer> {
    method.answers().unwrap().answer(&test_images(task), &[hint]).unwrap().pop().unwrap()
}

fn same(a: &State, b: &State) -> bool {
    let sorted = |state: &State| {
        let mut tensors = state.tensors.clone();
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
        tensors
    };
    a.document == b.document && sorted(a) == sorted(b)
}

/// Put away after every epoch and taken up by a new process, a method ends where it would have without.
#[test]
fn every_method_goes_on_bit_for_bit() {
    let tasks = [task("digits"), task("textures")];
    for entry in methods() {
        let mut whole = small(entry.name);
        let mut broken = small(entry.name);
        for task in &tasks {
            learn(&mut *whole, task);
            broken.begin(material(task)).unwrap();
            let mut more = true;
            while more {
                more = broken.epoch(material(task), &mut |_| Ok(())).unwrap();
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("state");
                broken.state().unwrap().save(&7, &path).unwrap();
                let (state, number) = State::load::<i32>(&path).unwrap();
                assert_eq!(number, 7);
                broken = small(entry.name);
                broken.restore(state).unwrap();
            }
            broken.finish(material(task)).unwrap();
            let answers = |method: &dyn Method| answers(method, &tasks[0], Hint::Task(0));
            assert_eq!(answers(&*whole), answers(&*broken), "{}", entry.name);
        }
        assert!(same(&whole.state().unwrap(), &broken.state().unwrap()), "{}", entry.name);
        let capacity = whole.capacity();
        assert!(capacity.parameters > 0 && capacity.multiply_adds > 0, "{}", entry.name);
    }
}

/// Methods that need no ID answer without one; the others say so.
#[test]
fn who_answers_without_a_task() {
    let tasks = [task("digits"), task("textures")];
    for entry in methods() {
        let mut method = small(entry.name);
        tasks.iter().for_each(|task| {
            learn(&mut *method, task);
        });
        let asked = method.answers().unwrap().answer(&test_images(&tasks[1]), &[Hint::Alone]);
        if entry.agnostic {
            assert!(asked.unwrap()[0].iter().all(|answer| answer.task < 2), "{}", entry.name);
        } else if !["lmc_not_a", "mntdp"].contains(&entry.name) {
            assert!(asked.is_err(), "{}", entry.name);
        }
    }
    assert!(find("finetun").unwrap_err().to_string().contains("finetune"));
}

#[test]
fn experts_forget_nothing() {
    let (first, second) = (task("digits"), task("textures"));
    let mut experts = small("experts");
    learn(&mut *experts, &first);
    let before = answers(&*experts, &first, Hint::Task(0));
    let learned = learn(&mut *experts, &second);
    assert_eq!(answers(&*experts, &first, Hint::Task(0)), before);
    assert_eq!(learned.modules, [2, 2]);
}

fn training() -> TrainingConfig {
    TrainingConfig { epochs: 3, batch: 16, ..TrainingConfig::default() }
}

/// How far a trunk moved from one state to another, weighted by the Fisher information of the first.
fn moved(before_state: &State, after: &State) -> f64 {
    let (before, after_model) = (below("model", &before_state.tensors), below("model", &after.tensors));
    let fisher = below("fisher0", &before_state.tensors);
    let mut total = 0.0;
    for (name, plain) in before.iter().filter(|(name, _)| name.starts_with("trunk")) {
        let weights = &fisher[name.strip_prefix("trunk.").unwrap()].values;
        for ((a, b), weight) in plain.values.iter().zip(&after_model[name].values).zip(weights) {
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
    assert_eq!(
        below("model", &finetune.state().unwrap().tensors),
        below("model", &none.state().unwrap().tensors)
    );
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
        let found = answers(&*method, &second, Hint::Alone);
        let classes = [first.classes.len(), second.classes.len()];
        assert!(
            found.iter().all(|answer| answer.task < 2 && (answer.label as usize) < classes[answer.task]),
            "{name}"
        );
        let given = answers(&*method, &second, Hint::Task(2));
        assert!(given.iter().all(|answer| answer.task == 2), "{name}");
    }
}
