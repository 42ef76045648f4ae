//! A pool of modules that grows, and a head per task: what MNTDP and SG-F learn into.

use burn::tensor::Device;
use lmc::functional::Functional;
use lmc::network::NetworkConfig;
use lmc::tensors::{Visitor, Walk, join};
use lmc::{Error, Result};
use lmc_streams::Seed;
use serde_json::{Value, json};

use crate::training::parse;
use crate::trunk::Classifier;

/// Modules by layer, and heads by task.
#[derive(Clone, Debug)]
pub struct Pool {
    /// `[layer][module]`.
    pub layers: Vec<Vec<Functional>>,
    /// By task.
    pub heads: Vec<Classifier>,
}

impl Pool {
    /// Without modules and tasks.
    pub fn new(network: &NetworkConfig) -> Self {
        Self { layers: vec![Vec::new(); network.depth], heads: Vec::new() }
    }

    /// Modules per layer.
    pub fn modules(&self) -> Vec<usize> {
        self.layers.iter().map(Vec::len).collect()
    }

    /// Takes new modules for the layers from this one up, and the head of a new task.
    pub fn add(&mut self, from: usize, modules: Vec<Functional>, head: Classifier) {
        for (layer, module) in self.layers.iter_mut().skip(from).zip(modules) {
            layer.push(module);
        }
        self.heads.push(head);
    }

    /// Its sizes.
    pub fn document(&self) -> Value {
        let heads: Vec<usize> = self.heads.iter().map(Classifier::classes).collect();
        json!({ "modules": self.modules(), "heads": heads })
    }

    /// With the sizes of a document, to be filled.
    pub fn empty(document: &Value, network: &NetworkConfig, device: &Device) -> Result<Self> {
        let modules: Vec<usize> = parse(&document["modules"])?;
        let heads: Vec<usize> = parse(&document["heads"])?;
        let configs = network.layers();
        if modules.len() != configs.len() {
            let problem = "it belongs to a network of another depth";
            return Err(Error::setting("checkpoint", problem, "start the run anew"));
        }
        let seed = Seed::root(0);
        let layers = configs.iter().zip(modules);
        let layers = layers
            .map(|(config, modules)| (0..modules).map(|_| config.functional.init(&seed, device)).collect());
        let head = |classes: usize| Classifier::new(network.features(), classes, &seed, device);
        Ok(Self { layers: layers.collect(), heads: heads.into_iter().map(head).collect() })
    }
}

impl Walk for Pool {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, layer) in self.layers.iter_mut().enumerate() {
            for (module, functional) in layer.iter_mut().enumerate() {
                functional.walk(&join(path, &format!("layer{number}.module{module}")), visitor);
            }
        }
        for (number, head) in self.heads.iter_mut().enumerate() {
            head.walk(&join(path, &format!("head{number}")), visitor);
        }
    }
}

/// New modules for the layers from `from` up, with random parameters.
pub fn new_modules(network: &NetworkConfig, from: usize, seed: &Seed, device: &Device) -> Vec<Functional> {
    let layers = network.layers().into_iter().enumerate().skip(from);
    layers.map(|(at, layer)| layer.functional.init(&seed.numbered(at as u64), device)).collect()
}
