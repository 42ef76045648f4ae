//! `lmc bench --growth`: cost of a training step and of a prediction as a network grows.

use anyhow::Result;
use lmc::internals::inference::BatchPrior;
use lmc::internals::module::Origin;
use lmc::internals::network::head::HeadSelection;
use lmc::internals::tensors::{images, train};
use lmc::{Device, Model, ModelConfig, Preset, TaskData};
use lmc_bench::process::{peak_memory, reset_peak_memory};
use lmc_bench::{median, times};
use lmc_streams::generated::Family;
use lmc_streams::{BatchConfig, Seed};
use serde::Serialize;

use crate::bench::{one_batch, one_batch_of};
use crate::output::{print_json, print_text, spinner, table};

/// Modules per layer.
const SIZES: [usize; 6] = [1, 2, 4, 6, 8, 16];

/// Training steps of each task whose modules are in the network that predicts.
const STEPS: usize = 40;

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
    let mut parts = Vec::new();
    for family in Family::ALL.into_iter().rev() {
        bar.set_message(format!("training modules for {}", family.name()));
        parts.push(trained(family, device)?);
    }
    let mut rows = Vec::new();
    for modules in SIZES {
        bar.set_message(format!("{modules} modules per layer"));
        let mut model = grown(modules, data, device)?;
        reset_peak_memory();
        let train_step_ms = time(seconds, || model.epoch(data, &mut |_, _| Ok(())))?;
        let peak_memory_bytes = peak_memory();
        let mut model = together(&parts, modules, data)?;
        let predict = |model: &Model, size: usize| -> Result<f64> {
            let predictor = model.predictor()?;
            let Some(batch) = BatchConfig::stored(size).init(&task.train)?.next() else { return Ok(0.0) };
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

/// A model that has learned one batch of a family: one module per layer.
fn trained(family: Family, device: &Device) -> Result<Model> {
    let task = one_batch_of(family)?;
    let mut model = ModelConfig::new(Preset::SMinus).seed(family as u64).device(device.clone()).init()?;
    model.begin_for(TaskData::from(&task), Some(STEPS))?;
    while model.progress().is_some_and(|(done, epochs)| done < epochs) {
        model.epoch(TaskData::from(&task), &mut |_, _| Ok(()))?;
    }
    model.finish(TaskData::from(&task))?;
    Ok(model)
}

/// A network with modules of several tasks, whose only head, that of the first, sees all of them.
fn together(parts: &[Model], modules: usize, data: TaskData<'_>) -> Result<Model> {
    let (first, others) = parts.split_at(1);
    let others = others.iter().cycle().take(modules - 1);
    let mut model = Model::merge(first.iter().chain(others).cloned())?;
    model.network.heads.truncate(1);
    let (name, head) = (data.name.to_owned(), &mut model.network.heads[0]);
    head.task = name;
    head.view = Some(vec![0..modules; model.network.layers.len()]);
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
