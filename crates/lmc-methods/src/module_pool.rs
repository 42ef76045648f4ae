//! A pool of modules that grows, and a head per task: what MNTDP and SG-F have in common.

use burn::tensor::Device;
use lmc::internals::module::functional::Functional;
use lmc::internals::tensors::{Visitor, Walk, join};
use lmc::{NetworkConfig, Result};
use lmc_streams::Seed;
use serde_json::{Value, json};

use crate::checkpoint::{damaged, parse};
use crate::trunk::LinearHead;

/// Functional components of modules by layer, and heads by task.
#[derive(Clone, Debug)]
pub struct ModulePool {
    /// Functional components, `[layer][module]`.
    pub layers: Vec<Vec<Functional>>,
    /// The head of each task.
    pub heads: Vec<LinearHead>,
}

impl ModulePool {
    /// Makes a pool without modules and heads.
    pub fn new(network: &NetworkConfig) -> Self {
        Self { layers: vec![Vec::new(); network.depth], heads: Vec::new() }
    }

    /// Modules per layer.
    pub fn modules(&self) -> Vec<usize> {
        self.layers.iter().map(Vec::len).collect()
    }

    /// Adds new modules, one for each layer from `from` up, and the head of a new task.
    pub fn add(&mut self, from: usize, modules: Vec<Functional>, head: LinearHead) {
        for (layer, module) in self.layers.iter_mut().skip(from).zip(modules) {
            layer.push(module);
        }
        self.heads.push(head);
    }

    /// The document of the pool: numbers of modules per layer, and of classes per head.
    pub fn document(&self) -> Value {
        let heads: Vec<usize> = self.heads.iter().map(LinearHead::classes).collect();
        json!({ "modules": self.modules(), "heads": heads })
    }

    /// Makes a pool with the sizes of a document, to be filled.
    pub fn empty(document: &Value, network: &NetworkConfig, device: &Device) -> Result<Self> {
        let modules: Vec<usize> = parse(&document["modules"])?;
        let heads: Vec<usize> = parse(&document["heads"])?;
        let configs = network.layers();
        if modules.len() != configs.len() {
            return Err(damaged("it belongs to a network of another depth"));
        }
        let seed = Seed::root(0);
        let layers = configs.iter().zip(modules);
        let layers = layers
            .map(|(config, modules)| (0..modules).map(|_| config.functional.init(&seed, device)).collect());
        let head = |classes: usize| LinearHead::new(network.features(), classes, &seed, device);
        Ok(Self { layers: layers.collect(), heads: heads.into_iter().map(head).collect() })
    }
}

impl Walk for ModulePool {
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

/// Draws random parameters for new modules, one for each layer from `from` up.
pub fn new_modules(network: &NetworkConfig, from: usize, seed: &Seed, device: &Device) -> Vec<Functional> {
    let layers = network.layers().into_iter().enumerate().skip(from);
    layers.map(|(at, layer)| layer.functional.init(&seed.numbered(at as u64), device)).collect()
}
