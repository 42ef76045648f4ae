//! MNTDP and SG-F: modules are searched for, kept and frozen.

use burn::tensor::Device;
use lmc::Protocol;
use lmc::internals::tensors::{NamedTensor, below, images};
use lmc_methods::Method;
use lmc_methods::training::TrainingConfig;
use lmc_streams::{Normalisation, Task};
use serde_json::Value;

use crate::{classify, learn, model, small, small_with, task, unmoved};

/// Share of the validation images of a task that are classified correctly.
fn val_accuracy(method: &dyn Method, task: &Task, number: usize) -> f64 {
    let normalisation = Normalisation::of(&task.train);
    let config = TrainingConfig { batch: 64, ..TrainingConfig::default() };
    let batch = config.stored(Some(&normalisation)).init(&task.val).unwrap().next().unwrap();
    assert_eq!(batch.labels.len(), task.val.len());
    let (classifier, images) = (method.classifier().unwrap(), images(&batch, &Device::flex()));
    let found = classifier.classify(&images, Some(number), &[Protocol::TaskGiven]).unwrap().pop().unwrap();
    let right = found.iter().zip(&batch.labels).filter(|(found, label)| found.label == **label);
    right.count() as f64 / batch.labels.len() as f64
}

fn numbers<T: for<'de> serde::Deserialize<'de>>(document: &Value) -> Vec<T> {
    serde_json::from_value(document.clone()).unwrap()
}

#[test]
fn mntdp_takes_the_best_candidate_and_moves_no_earlier_module() {
    let mut mntdp = small("mntdp");
    for (number, task) in [task("digits"), task("textures"), task("garments")].iter().enumerate() {
        let before = model(&*mntdp);
        mntdp.begin(task.into()).unwrap();
        while mntdp.epoch(task.into(), &mut |_| Ok(())).unwrap() {}
        let open = mntdp.state().unwrap().document["open"].clone();
        let search = &open["search"];
        let report = mntdp.finish(task.into()).unwrap();
        assert!(unmoved(&before, &model(&*mntdp)), "task {number}");
        let accuracies: Vec<f64> = numbers(&search["accuracies"]);
        assert_eq!(accuracies.len(), if number == 0 { 1 } else { 3 });
        let best = accuracies.iter().copied().fold(0.0, f64::max);
        assert_eq!(report.val_accuracy, Some(best));
        assert!((val_accuracy(&*mntdp, task, number) - best).abs() < 1e-9, "task {number}");
        // The kept part of the path is the prior's, the rest is new.
        let chosen = accuracies.iter().position(|&accuracy| accuracy == best).unwrap();
        let keeps = numbers::<usize>(&search["from"])[chosen];
        let paths: Vec<Vec<usize>> = numbers(&mntdp.state().unwrap().document["paths"]);
        if let Some(prior) = open["prior"].as_u64() {
            assert_eq!(paths[number][..keeps], paths[prior as usize][..keeps]);
        }
        for (module, modules) in paths[number].iter().zip(&report.modules).skip(keeps) {
            assert_eq!(module + 1, *modules);
        }
    }
}

#[test]
fn sg_f_gates_sum_to_one_and_earlier_modules_do_not_move() {
    let tasks = [task("digits"), task("textures")];
    for name in ["sg_f", "sg_f_a"] {
        let mut gated = small(name);
        learn(&mut *gated, &tasks[0]);
        let mut before = model(&*gated);
        let report = learn(&mut *gated, &tasks[1]);
        if name == "sg_f_a" {
            before.retain(|tensor, _| !tensor.starts_with("controller"));
        }
        assert!(before.len() > 10 && unmoved(&before, &model(&*gated)), "{name}");
        assert!((val_accuracy(&*gated, &tasks[1], 1) - report.val_accuracy.unwrap()).abs() < 1e-9);
        for (number, task) in tasks.iter().enumerate() {
            for found in classify(&*gated, task, Protocol::TaskGiven, number) {
                // The first task's own controller gates one module per layer; one for all tasks gates all.
                let modules = if number == 0 && name == "sg_f" { vec![1, 1] } else { report.modules.clone() };
                assert_eq!(found.weights.iter().map(Vec::len).collect::<Vec<_>>(), modules, "{name}");
                for layer in &found.weights {
                    assert!(layer.iter().all(|weight| (0.0..=1.0).contains(weight)), "{layer:?}");
                    assert!((layer.iter().sum::<f64>() - 1.0).abs() < 1e-5, "{layer:?}");
                }
            }
        }
    }
}

/// A controller learns where there is something to choose, and only there.
#[test]
fn sg_f_controllers_learn() {
    let mut gated = small_with("sg_f", "[training]\nweight_decay = 0.0");
    learn(&mut *gated, &task("digits"));
    let second = task("textures");
    gated.begin((&second).into()).unwrap();
    let mut gates: Vec<(u64, [NamedTensor; 2])> = Vec::new();
    let mut more = true;
    while more {
        more = gated.epoch((&second).into(), &mut |_| Ok(())).unwrap();
        let state = gated.state().unwrap();
        let candidate = state.document["search"]["candidate"].as_u64().unwrap();
        let parts = below("parts", &state.tensors);
        let gate = |layer: usize| parts[&format!("controller.gate{layer}.weight")].clone();
        gates.push((candidate, [gate(0), gate(1)]));
    }
    // Two epochs each: after two of them the second candidate stands there, new; after three it is trained for one.
    let (start, end) = (&gates[1], &gates[2]);
    assert_eq!((start.0, end.0), (1, 1));
    assert_eq!(start.1[0], end.1[0], "one module below: nothing to choose");
    assert_ne!(start.1[1], end.1[1], "two modules above");
}
