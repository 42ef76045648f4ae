//! `lmc inspect`: what is inside a model file.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use lmc::internals::module::{LocalModule, Origin};
use lmc::internals::tensors::parameter_count;
use lmc::{LearnerConfig, Model, NetworkConfig, Preparation};
use serde::Serialize;

use crate::output::{counted, grouped, print, print_json, print_text, table};

/// Look inside a model: its modules, where they come from, its tasks and classes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc inspect shop.lmc
  lmc inspect shop.lmc --json | jq '.layers[0]'")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Inspected<'a> {
    file: String,
    bytes: u64,
    network: &'a NetworkConfig,
    preparation: &'a Preparation,
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
    /// Mean of the structural loss.
    mean: f64,
    /// Standard deviation of the structural loss.
    deviation: f64,
    batches: u64,
}

#[derive(Serialize)]
struct Head<'a> {
    task: &'a str,
    classes: &'a [String],
    parameters: usize,
    /// Whether it has the distribution of its task's scores, which novelty needs.
    calibrated: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    let model = Model::load(&arguments.model)?;
    let bytes = fs::metadata(&arguments.model).context("cannot read the size of the file")?.len();
    let network = &model.network;
    let granularity = model.config.statistics.granularity;
    let module = |module: &'_ LocalModule| -> (usize, f64, f64) {
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
            calibrated: head.gaussian.is_some(),
        })
        .collect();
    let inspected = Inspected {
        file: arguments.model.display().to_string(),
        bytes,
        network: &network.config,
        preparation: &model.preparation,
        learner: &model.config,
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
    let Preparation { fit, resampling, .. } = inspected.preparation;
    print(&format!("pictures are prepared by: {fit}, {resampling}"))?;
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
                from.to_string(),
                format!("{:.4} ± {:.4}", module.mean, module.deviation),
                grouped(module.parameters as u64),
            ]);
        }
    }
    let titles =
        ["layer", "module", "added in task", "epoch", "started from", "structural loss", "parameters"];
    print_text(&table(&titles, &["layer", "module", "epoch", "parameters"], rows))?;
    print("")?;
    let rows = inspected
        .heads
        .iter()
        .map(|head| vec![head.task.to_owned(), head.classes.len().to_string(), head.classes.join(", ")])
        .collect();
    print_text(&table(&["task", "classes", "names"], &["classes"], rows))?;
    print("")?;
    print(&format!(
        "{}, {}, {} parameters, {} bytes",
        counted(inspected.modules, "module"),
        counted(inspected.heads.len(), "task"),
        grouped(inspected.parameters as u64),
        grouped(inspected.bytes)
    ))
}
