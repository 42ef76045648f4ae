//! The model file: one safetensors file that holds all there is to know about a model.
//!
//! Tensors are named by their place (`layer2.module1.functional.conv.weight`, `head0.classifier.bias`); everything else,
//! configuration, class and task names, statistics and the origin of every module, is JSON in the header's metadata.

use std::fs;
use std::ops::Range;
use std::path::Path;

use burn::tensor::{Device, Tensor};
use lmc_streams::{Seed, replace_file};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::familiarity::Familiar;
use crate::head::{Head, HeadConfig};
use crate::layer::Layer;
use crate::learner::{Learner, LearnerConfig};
use crate::module::{LocalModule, Origin};
use crate::network::{Network, NetworkConfig};
use crate::statistics::Statistics;
use crate::tensor_file::{self, Tensors};
use crate::tensors::{self, Plain, Role, Visitor, Walk};

/// What a file says about a module besides its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleRecord {
    origin: Origin,
    learned: bool,
    trained: bool,
    statistics: Statistics,
}

/// What a file says about a head besides its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadRecord {
    task: String,
    classes: Vec<String>,
    learned: bool,
    familiar: Option<Familiar>,
    sees: Option<Vec<Range<usize>>>,
}

/// What a file says about a network besides its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkRecord {
    config: NetworkConfig,
    layers: Vec<Vec<ModuleRecord>>,
    heads: Vec<HeadRecord>,
}

/// What a model file says besides its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelRecord {
    network: NetworkRecord,
    learner: LearnerConfig,
    seed: u64,
}

const MODEL: &str = "model";

impl Learner {
    /// Writes the model; the old file stays until the new one is whole.
    pub fn save(&self, path: &Path) -> Result<()> {
        Ok(replace_file(path, &self.to_bytes(path)?)?)
    }

    /// The content of a model file; `path` is for messages.
    pub fn to_bytes(&self, path: &Path) -> Result<Vec<u8>> {
        let record = ModelRecord {
            network: NetworkRecord::of(&self.network),
            learner: self.config.clone(),
            seed: self.seed,
        };
        tensor_file::write(MODEL, &record, &tensors::plain(&self.network), path)
    }

    /// Reads a model.
    pub fn load(path: &Path, device: &Device) -> Result<Self> {
        let bytes = fs::read(path).map_err(lmc_streams::Error::io("read", path))?;
        Self::from_bytes(&bytes, path, device)
    }

    /// Reads a model from the content of a file; `path` is for messages.
    pub fn from_bytes(bytes: &[u8], path: &Path, device: &Device) -> Result<Self> {
        let (record, mut found): (ModelRecord, Tensors) = tensor_file::read(MODEL, bytes, path)?;
        record.learner.check()?;
        let network = record.network.restore(&mut |name| found.remove(name), path, device)?;
        if let Some(name) = found.keys().next() {
            return Err(damaged(path, format!("it has a tensor '{name}' that belongs to no module")));
        }
        Ok(Self::with(network, record.learner, record.seed))
    }
}

pub(crate) fn damaged(path: &Path, problem: String) -> Error {
    Error::bad(path, problem, "take it from a backup")
}

impl NetworkRecord {
    pub(crate) fn of(network: &Network) -> Self {
        let module = |module: &LocalModule| ModuleRecord {
            origin: module.origin.clone(),
            learned: module.learned,
            trained: module.trained,
            statistics: module.statistics.clone(),
        };
        let head = |head: &Head| HeadRecord {
            task: head.task.clone(),
            classes: head.classes.clone(),
            learned: head.learned,
            familiar: head.familiar.clone(),
            sees: head.sees.clone(),
        };
        Self {
            config: network.config.clone(),
            layers: network.layers.iter().map(|layer| layer.modules().iter().map(module).collect()).collect(),
            heads: network.heads.iter().map(head).collect(),
        }
    }

    /// The network, with tensors that `take` gives by name.
    pub(crate) fn restore(
        self,
        take: &mut dyn FnMut(&str) -> Option<Plain>,
        path: &Path,
        device: &Device,
    ) -> Result<Network> {
        let device = device.clone().autodiff();
        self.config.check()?;
        let mut network = self.config.init(&device)?;
        if self.layers.len() != network.layers.len() {
            let (found, wanted) = (self.layers.len(), network.layers.len());
            return Err(damaged(path, format!("it describes {found} layers instead of {wanted}")));
        }
        let mut load = Load { take, path, problem: None, first: None };
        for (number, (layer, records)) in network.layers.iter_mut().zip(self.layers).enumerate() {
            let mut modules = Vec::new();
            for (at, record) in records.into_iter().enumerate() {
                load.preview(
                    &format!("layer{number}.module{at}.functional.conv.weight"),
                    &layer.config.functional.weight(),
                )?;
                let mut module = layer.config.init(record.origin, &Seed::root(0), &device);
                module.statistics = record.statistics;
                module.learned = record.learned;
                module.trained = record.trained;
                module.walk(&format!("layer{number}.module{at}"), &mut load);
                load.check()?;
                if !record.learned {
                    tensors::train(&mut module);
                }
                modules.push(module);
            }
            let free = modules.iter().position(|module| !module.learned);
            if free.is_some_and(|free| free + 1 != modules.len()) {
                return Err(damaged(path, format!("a module of layer {number} behind a free one")));
            }
            *layer = Layer::new(layer.config, modules)?;
        }
        let features = self.config.features();
        for (number, record) in self.heads.into_iter().enumerate() {
            let classes = record.classes.len();
            load.preview(&format!("head{number}.classifier.weight"), &[classes, features])?;
            let config = HeadConfig { features, classes, structural: self.config.heads };
            let mut head = config.init(&record.task, record.classes, &Seed::root(0), &device);
            head.learned = record.learned;
            head.familiar = record.familiar;
            head.sees = record.sees;
            check_sees(&head, &network, path)?;
            if head.familiar.as_ref().is_some_and(|task| !task.fits(network.layers.len())) {
                return Err(damaged(path, format!("what is familiar to the head of task '{}'", head.task)));
            }
            head.walk(&format!("head{number}"), &mut load);
            load.check()?;
            if !record.learned {
                tensors::train(&mut head);
            }
            network.heads.push(head);
        }
        Ok(network)
    }
}

/// A head sees modules that are there, at least one in each layer.
fn check_sees(head: &Head, network: &Network, path: &Path) -> Result<()> {
    let Some(sees) = &head.sees else { return Ok(()) };
    let there =
        |(range, layer): (&Range<usize>, &Layer)| !range.is_empty() && range.end <= layer.modules().len();
    if sees.len() == network.layers.len() && sees.iter().zip(&network.layers).all(there) {
        return Ok(());
    }
    Err(damaged(path, format!("the head of task '{}' sees modules that are not there", head.task)))
}

/// Fills tensors from a file.
struct Load<'a> {
    take: &'a mut dyn FnMut(&str) -> Option<Plain>,
    path: &'a Path,
    problem: Option<Error>,
    /// Looked at, not used yet.
    first: Option<Plain>,
}

impl Load<'_> {
    /// Looks at the first tensor of a component before the component is made: a header that promises more than the file
    /// holds must not cost memory.
    fn preview(&mut self, name: &str, shape: &[usize]) -> Result<()> {
        let found = self.find(name, shape)?;
        self.first = Some(found);
        Ok(())
    }

    fn find(&mut self, name: &str, shape: &[usize]) -> Result<Plain> {
        if let Some(first) = self.first.take_if(|first| first.name == name) {
            return Ok(first);
        }
        let Some(found) = (self.take)(name) else {
            return Err(damaged(self.path, format!("tensor '{name}' is missing")));
        };
        if found.shape != shape {
            let problem = format!("tensor '{name}' has shape {:?} instead of {shape:?}", found.shape);
            return Err(damaged(self.path, problem));
        }
        Ok(found)
    }

    fn check(&mut self) -> Result<()> {
        self.problem.take().map_or(Ok(()), Err)
    }
}

impl Visitor for Load<'_> {
    fn visit<const D: usize>(&mut self, name: &str, _: Role, tensor: &mut Tensor<D>) {
        if self.problem.is_some() {
            return;
        }
        let shape = tensor.dims();
        match self.find(name, &shape) {
            Ok(found) => *tensor = tensors::tensor(found.values, shape, &tensor.device()),
            Err(problem) => self.problem = Some(problem),
        }
    }
}
