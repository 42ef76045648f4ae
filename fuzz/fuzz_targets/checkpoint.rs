//! A forged checkpoint, as `lmc learn` leaves it in a `.partial` and `lmc run` in its run directory. If it loads, its
//! task is trained for an epoch and saved.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use lmc::{Device, Error, Event, Model, Picture, TaskData};
use lmc_fuzz::{fitted, is_small};
use lmc_streams::{ImageSet, TaskSet, Transform};
use serde_json::Value;

/// Steps of an epoch after which the target has seen enough.
const STEPS: usize = 4;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| lmc_fuzz::folder("checkpoint").join("model.lmc.partial"));

fuzz_target!(|bytes: &[u8]| {
    let Some(file) = fitted(bytes) else { return };
    fs::write(&*FILE, file).expect("a file for the fuzzer");
    let Ok((mut model, progress)) = Model::load_checkpoint::<Value>(&FILE, &Device::flex()) else { return };
    if !is_small(&model) || model.config.batch > 1024 {
        return;
    }
    let open = model.network.heads.last().map(|head| (head.task.clone(), head.classes.clone()));
    if let (Some(_), Some((name, classes))) = (model.progress(), open) {
        let images = images(&model, classes.len());
        let data = TaskData { name: &name, classes: &classes, train: &images, val: &images, stop: None };
        let mut steps = 0;
        let _ = model.epoch(data, &mut |_, event| {
            steps += usize::from(matches!(event, Event::Step { .. }));
            match steps {
                ..=STEPS => Ok(()),
                _ => Err(Error::Stopped { done: "enough".into() }),
            }
        });
    }
    if model.save_checkpoint(&progress, &FILE).is_ok() {
        // What training makes of absurd numbers may be refused, but not with a panic.
        let _ = Model::load_checkpoint::<Value>(&FILE, &Device::flex());
    }
});

/// An image of each class, in the shape of the network.
fn images(model: &Model, classes: usize) -> TaskSet {
    let config = &model.network.config;
    let mut set = ImageSet::new(classes);
    for label in 0..classes.min(8) as u32 {
        let picture = Picture::filled(config.size, config.size, [30 * label as u8, 90, 200]);
        let picture = if config.channels == 1 { picture.into_grey() } else { picture };
        let rank = set.count(label);
        set.push(&picture, label, rank, (Path::new("fuzz"), "image")).expect("images of one shape");
    }
    TaskSet::of_all(Arc::new(set), config.channels, Transform::Identity)
}
