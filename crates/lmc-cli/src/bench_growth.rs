//! `lmc bench --growth`: cost of a training step and of a prediction as a network grows.
//!
//! The network that predicts has learned as many different tasks as it has modules in a layer: five generated families, the two
//! grey ones in several colours. Its head is the first task's, and sees all modules.

use anyhow::Result;
use lmc::internals::inference::BatchPrior;
use lmc::internals::module::Origin;
use lmc::internals::network::head::HeadSelection;
use lmc::internals::tensors::{images, train};
use lmc::{Device, Model, ModelConfig, Preset, TaskData};
use lmc_bench::process::{peak_memory, reset_peak_memory};
use lmc_bench::{median, times};
use lmc_streams::generated::Family;
use lmc_streams::{BatchConfig, Catalog, Colour, DataDirs, Seed, Split, Task, TaskSet, Transform};
use serde::Serialize;

use crate::bench::one_batch;
use crate::output::{print_json, print_text, spinner, table};

/// Modules per layer.
const SIZES: [usize; 6] = [1, 2, 4, 6, 8, 16];

/// Pictures of each class of the tasks that the network which predicts has learned, and as many to validate.
const EACH: u32 = 13;

/// Epochs of the first of these tasks, whose head predicts, and of each of the others.
const EPOCHS: [usize; 2] = [50, 12];

/// The tasks, as many as the largest network has modules in a layer.
const TASKS: [(Family, Transform); 16] = {
    use Transform::{Background, Digit, Identity, Rainbow};
    const RED: Colour = Colour::RED;
    const GREEN: Colour = Colour::GREEN;
    const BLUE: Colour = Colour::BLUE;
    [
        (Family::Objects, Identity),
        (Family::Digits, Identity),
        (Family::Textures, Identity),
        (Family::Garments, Identity),
        (Family::Plates, Identity),
        (Family::Digits, Rainbow(RED)),
        (Family::Garments, Background(GREEN)),
        (Family::Digits, Digit(BLUE)),
        (Family::Garments, Rainbow(BLUE)),
        (Family::Digits, Background(RED)),
        (Family::Garments, Digit(GREEN)),
        (Family::Digits, Rainbow(GREEN)),
        (Family::Garments, Background(BLUE)),
        (Family::Digits, Digit(RED)),
        (Family::Garments, Rainbow(RED)),
        (Family::Digits, Background(BLUE)),
    ]
};

#[derive(Serialize)]
struct Row {
    modules_per_layer: usize,
    train_step_ms: f64,
    peak_memory_bytes: Option<u64>,
    batch_of_64_ms: f64,
    one_image_ms: f64,
    /// The same with the head found first: only the modules of its route run.
    head_first_batch_of_64_ms: f64,
    head_first_one_image_ms: f64,
    /// Modules of the route, per layer.
    route: Vec<usize>,
}

/// Measures and prints.
pub fn run(seconds: f64, device: &Device, json: bool) -> Result<()> {
    let bar = spinner("drawing pictures".into());
    let task = one_batch()?;
    let data = TaskData::from(&task);
    let learned = task_of(TASKS[0].0, TASKS[0].1)?;
    let mut parts = Vec::new();
    for (number, (family, transform)) in TASKS.into_iter().enumerate() {
        bar.set_message(format!("learning task {} of {}", number + 1, TASKS.len()));
        let task = if number == 0 { learned.clone() } else { task_of(family, transform)? };
        parts.push(trained(&task, number as u64, device)?);
    }
    let mut rows = Vec::new();
    for modules in SIZES {
        bar.set_message(format!("{modules} modules per layer"));
        let mut model = grown(modules, data, device)?;
        reset_peak_memory();
        let train_step_ms = time(seconds, || model.epoch(data, &mut |_, _| Ok(())))?;
        let peak_memory_bytes = peak_memory();
        let mut model = together(&parts[..modules], TaskData::from(&learned))?;
        let predict = |model: &Model, size: usize| -> Result<f64> {
            let predictor = model.predictor()?;
            let Some(batch) = BatchConfig::stored(size).init(&learned.train)?.next() else { return Ok(0.0) };
            let images = images(&batch, predictor.device());
            time(seconds / 2.0, || {
                predictor.predict(&images, BatchPrior::Shared, HeadSelection::Batch).map(drop)
            })
        };
        let (batch_of_64_ms, one_image_ms) = (predict(&model, 64)?, predict(&model, 1)?);
        model.config.prediction = Preset::Own.learner().prediction;
        rows.push(Row {
            modules_per_layer: modules,
            train_step_ms,
            batch_of_64_ms,
            one_image_ms,
            head_first_batch_of_64_ms: predict(&model, 64)?,
            head_first_one_image_ms: predict(&model, 1)?,
            route: route(&model),
            peak_memory_bytes,
        });
    }
    bar.finish_and_clear();
    if json {
        return print_json(&rows);
    }
    let first = rows.first().map_or(1.0, |row| row.train_step_ms);
    let rows = rows
        .iter()
        .map(|row| {
            vec![
                row.modules_per_layer.to_string(),
                format!("{:.0}", row.train_step_ms),
                format!("{:.2}", row.train_step_ms / first),
                format!("{:.0}", row.batch_of_64_ms),
                format!("{:.1}", row.one_image_ms),
                format!("{:.1}", row.head_first_batch_of_64_ms),
                format!("{:.2}", row.head_first_one_image_ms),
                row.route.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
                row.peak_memory_bytes.map_or_else(|| "?".into(), |bytes| (bytes >> 20).to_string()),
            ]
        })
        .collect();
    let titles = [
        "modules per layer",
        "train step ms",
        "times the first",
        "batch of 64 ms",
        "one image ms",
        "head first: batch of 64 ms",
        "one image ms",
        "modules run",
        "peak MiB",
    ];
    print_text(&table(&titles, &titles, rows))
}

/// A task of a few pictures of a family in one colour.
fn task_of(family: Family, transform: Transform) -> Result<Task> {
    let first = |split: Split, _: u32, rank: u32| split == Split::Train && rank < 2 * EACH;
    let found = Catalog::new(DataDirs::default()).read(family.name(), 32, &first)?;
    let all = TaskSet::of_all(found.train, 3, transform);
    let part = |even: usize| all.part(&(0..all.len()).filter(|at| at % 2 == even).collect::<Vec<_>>());
    Ok(Task {
        name: format!("{} {transform}", family.name()),
        classes: found.classes,
        train: part(0),
        val: part(1),
        ..one_batch()?
    })
}

/// A model that has learned a task: one module per layer.
fn trained(task: &Task, number: u64, device: &Device) -> Result<Model> {
    let mut model = ModelConfig::new(Preset::SMinus).seed(number).device(device.clone()).init()?;
    model.begin_for(TaskData::from(task), Some(EPOCHS[usize::from(number > 0)]))?;
    while model.progress().is_some_and(|(done, epochs)| done < epochs) {
        model.epoch(TaskData::from(task), &mut |_, _| Ok(()))?;
    }
    model.finish(TaskData::from(task))?;
    Ok(model)
}

/// The network of several models, whose only head, that of the first, sees all modules.
fn together(parts: &[Model], data: TaskData<'_>) -> Result<Model> {
    let mut model = Model::merge(parts.iter().cloned())?;
    model.network.heads.truncate(1);
    model.network.heads[0].view = Some(vec![0..parts.len(); model.network.layers.len()]);
    model.recalibrate(data)?;
    Ok(model)
}

/// Modules of each layer that the route of the only head runs.
fn route(model: &Model) -> Vec<usize> {
    let negligible = model.config.prediction.negligible_weight;
    let route = model.network.heads.iter().find_map(|head| head.route.as_ref());
    route.map_or(Vec::new(), |route| route.modules(negligible).iter().map(Vec::len).collect())
}

/// A network in the middle of a task: all modules but one per layer are frozen.
fn grown(modules: usize, data: TaskData<'_>, device: &Device) -> Result<Model> {
    let mut config = ModelConfig::new(Preset::SMinus).seed(1).device(device.clone());
    // Nothing may be added while the clock runs.
    config.learner.expansion.threshold = f64::INFINITY;
    let mut model = config.init()?;
    let origin = Origin::first("bench", 0);
    let seed = Seed::root(1);
    for number in 1..modules {
        for layer in &mut model.network.layers {
            let module =
                layer.config.init(origin.clone(), &seed.numbered(number as u64), &model.network.device);
            layer.add(module)?;
        }
        model.network.freeze()?;
    }
    model.begin(data)?;
    for layer in &mut model.network.layers {
        if layer.trainable().is_none() {
            let mut module = layer.config.init(origin.clone(), &seed, &model.network.device);
            train(&mut module);
            layer.add(module)?;
        }
    }
    Ok(model)
}

/// Median milliseconds of a call.
fn time(seconds: f64, call: impl FnMut() -> lmc::Result<()>) -> Result<f64> {
    Ok(median(times(seconds, call)?))
}
