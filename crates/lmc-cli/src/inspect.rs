//! `lmc inspect`: what is inside a model file.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use lmc::module::Origin;
use lmc::network::NetworkConfig;
use lmc::tensors::parameter_count;
use lmc::{Learner, LearnerConfig};
use serde::Serialize;

use crate::output::{grouped, print, print_json, table};
use crate::threads::device;

/// Look inside a model: its modules, where they come from, its tasks and classes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc inspect shop.lmc
  lmc inspect shop.lmc --json | jq '.layers[0]'")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Inspected<'a> {
    file: String,
    bytes: u64,
    network: &'a NetworkConfig,
    learner: &'a LearnerConfig,
    layers: Vec<Vec<Module<'a>>>,
    heads: Vec<Head<'a>>,
    modules: usize,
    parameters: usize,
}

#[derive(Serialize)]
struct Module<'a> {
    origin: &'a Origin,
    parameters: usize,
    /// Usual structural loss.
    mean: f64,
    deviation: f64,
    batches: u64,
}

#[derive(Serialize)]
struct Head<'a> {
    task: &'a str,
    classes: &'a [String],
    parameters: usize,
    /// Whether it can tell what it has never seen.
    calibrated: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    let learner = Learner::load(&arguments.model, &device())?;
    let bytes = fs::metadata(&arguments.model).context("cannot read the size of the file")?.len();
    let network = &learner.network;
    let granularity = learner.config.statistics.granularity;
    let module = |module: &'_ lmc::module::LocalModule| -> (usize, f64, f64) {
        (parameter_count(module), module.statistics.mean(), module.statistics.deviation(granularity))
    };
    let layers: Vec<Vec<Module<'_>>> = network
        .layers
        .iter()
        .map(|layer| {
            let inspected = layer.modules().iter().map(|found| {
                let (parameters, mean, deviation) = module(found);
                Module { origin: &found.origin, parameters, mean, deviation, batches: found.statistics.seen }
            });
            inspected.collect()
        })
        .collect();
    let heads = network
        .heads
        .iter()
        .map(|head| Head {
            task: &head.task,
            classes: &head.classes,
            parameters: parameter_count(head),
            calibrated: head.familiar.is_some(),
        })
        .collect();
    let inspected = Inspected {
        file: arguments.model.display().to_string(),
        bytes,
        network: &network.config,
        learner: &learner.config,
        layers,
        heads,
        modules: network.modules().iter().sum(),
        parameters: parameter_count(network),
    };
    if arguments.json { print_json(&inspected) } else { show(&inspected) }
}

fn show(inspected: &Inspected<'_>) -> Result<()> {
    let NetworkConfig { channels, size, depth, width, .. } = inspected.network;
    print(&format!(
        "{}: {depth} layers of {width} channels on {size}x{size} images with {channels} channels",
        inspected.file
    ))?;
    let mut rows = Vec::new();
    for (layer, modules) in inspected.layers.iter().enumerate() {
        for (number, module) in modules.iter().enumerate() {
            let Origin { task, epoch, from, model, .. } = module.origin;
            let from_model = model.as_ref().map_or(String::new(), |model| format!(" in {model}"));
            rows.push(vec![
                layer.to_string(),
                number.to_string(),
                format!("{task}{from_model}"),
                (epoch + 1).to_string(),
                from.clone(),
                format!("{:.4} ± {:.4}", module.mean, module.deviation),
                grouped(module.parameters as u64),
            ]);
        }
    }
    let titles = ["layer", "module", "born in task", "epoch", "from", "usual loss", "parameters"];
    print(&table(&titles, &["layer", "module", "epoch", "parameters"], rows))?;
    print("")?;
    let rows = inspected
        .heads
        .iter()
        .map(|head| vec![head.task.to_owned(), head.classes.len().to_string(), head.classes.join(", ")])
        .collect();
    print(&table(&["task", "classes", "names"], &["classes"], rows))?;
    print(&format!(
        "\n{} modules, {} tasks, {} parameters, {} bytes",
        inspected.modules,
        inspected.heads.len(),
        grouped(inspected.parameters as u64),
        grouped(inspected.bytes)
    ))
}
