//! `lmc bench --growth`: what a training step and an answer cost as a network grows.

use anyhow::Result;
use lmc::head::HeadSelection;
use lmc::module::Origin;
use lmc::network::NetworkConfig;
use lmc::prediction::{Company, images};
use lmc::tensors::train;
use lmc::{Learner, Material, presets};
use lmc_bench::process::{peak_memory, reset_peak_memory};
use lmc_bench::{median, times};
use lmc_streams::{BatchConfig, Seed};
use serde::Serialize;

use crate::bench::one_batch;
use crate::output::{print, print_json, spinner, table};
use crate::threads::device;

/// Modules per layer.
const SIZES: [usize; 6] = [1, 2, 4, 6, 8, 16];

#[derive(Serialize)]
struct Row {
    modules_per_layer: usize,
    train_step_ms: f64,
    peak_memory_bytes: Option<u64>,
    batch_of_64_ms: f64,
    one_image_ms: f64,
}

/// Measures and prints.
pub fn run(seconds: f64, json: bool) -> Result<()> {
    let bar = spinner("drawing pictures".into());
    let task = one_batch()?;
    let material = Material { task: "bench", classes: &task.classes, train: &task.train, val: &task.val };
    let mut rows = Vec::new();
    for modules in SIZES {
        bar.set_message(format!("{modules} modules per layer"));
        let mut learner = grown(modules, material)?;
        reset_peak_memory();
        let train_step_ms = time(seconds, || learner.epoch(material, &mut |_, _| Ok(())))?;
        let peak_memory_bytes = peak_memory();
        learner.finish()?;
        let predictor = learner.predictor()?;
        let answer = |size: usize| -> Result<f64> {
            let Some(batch) = BatchConfig::stored(size).init(&task.train)?.next() else { return Ok(0.0) };
            let images = images(&batch, predictor.device());
            time(seconds / 2.0, || predictor.predict(&images, Company::Batch, HeadSelection::Batch).map(drop))
        };
        rows.push(Row {
            modules_per_layer: modules,
            train_step_ms,
            batch_of_64_ms: answer(64)?,
            one_image_ms: answer(1)?,
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
        "peak MiB",
    ];
    print(&table(&titles, &titles, rows))
}

/// A network in the middle of a task: all modules but one per layer are learned.
fn grown(modules: usize, material: Material<'_>) -> Result<Learner> {
    let mut config = presets::preset("s_minus")?;
    // Nothing may be added while the clock runs.
    config.expansion.threshold = f64::INFINITY;
    let mut learner = Learner::new(&NetworkConfig::default(), config, 1, &device())?;
    let origin =
        Origin { task: "bench".into(), number: 0, epoch: 0, step: 0, from: "bench".into(), model: None };
    let seed = Seed::root(1);
    for number in 1..modules {
        for layer in &mut learner.network.layers {
            let module =
                layer.config.init(origin.clone(), &seed.numbered(number as u64), &learner.network.device);
            layer.add(module)?;
        }
        learner.network.freeze()?;
    }
    learner.begin(material)?;
    for layer in &mut learner.network.layers {
        if layer.free().is_none() {
            let mut module = layer.config.init(origin.clone(), &seed, &learner.network.device);
            train(&mut module);
            layer.add(module)?;
        }
    }
    Ok(learner)
}

/// Median milliseconds of a call.
fn time(seconds: f64, call: impl FnMut() -> lmc::Result<()>) -> Result<f64> {
    Ok(median(times(seconds, call)?))
}
