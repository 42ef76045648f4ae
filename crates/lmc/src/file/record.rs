//! The model file: one safetensors file with network, settings and preparation. The state of an open task is in checkpoints
//! ([`Model::save_checkpoint`]).
//!
//! Tensors are named by their place (`layer2.module1.functional.conv.weight`, `head0.classifier.bias`); everything else,
//! configuration, class and task names, statistics and the origin of every module, is JSON in the header's metadata.

use std::fs;
use std::ops::Range;
use std::path::Path;

use burn::tensor::{Device, Tensor};
use lmc_streams::{Preparation, Seed, replace_file};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::file::tensor_file::{self, Tensors};
use crate::inference::task_gaussian::TaskGaussian;
use crate::model::Model;
use crate::module::statistics::Statistics;
use crate::module::{LocalModule, Origin};
use crate::network::head::{Head, HeadConfig};
use crate::network::layer::Layer;
use crate::network::{Network, NetworkConfig};
use crate::presets::Preset;
use crate::tensors::{self, NamedTensor, Role, Visitor, Walk};
use crate::training::config::{EpochBudget, LearnerConfig};

/// A module in a file, besides its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleRecord {
    origin: Origin,
    #[serde(alias = "learned")]
    frozen: bool,
    trained: bool,
    statistics: Statistics,
}

/// A head in a file, besides its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadRecord {
    task: String,
    classes: Vec<String>,
    #[serde(alias = "learned")]
    frozen: bool,
    #[serde(alias = "familiar")]
    gaussian: Option<TaskGaussian>,
    #[serde(alias = "sees")]
    view: Option<Vec<Range<usize>>>,
}

/// A network in a file, besides its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkRecord {
    config: NetworkConfig,
    layers: Vec<Vec<ModuleRecord>>,
    heads: Vec<HeadRecord>,
}

/// A model in a file, besides its tensors.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelRecord {
    pub(crate) network: NetworkRecord,
    pub(crate) learner: LearnerConfig,
    pub(crate) seed: u64,
    /// How pictures become images; files of earlier versions have none.
    #[serde(default)]
    pub(crate) preparation: Option<Preparation>,
}

const MODEL: &str = "model";

impl ModelRecord {
    pub(crate) fn of(model: &Model) -> Self {
        Self {
            network: NetworkRecord::of(&model.network),
            learner: model.config.clone(),
            seed: model.seed,
            preparation: Some(model.preparation),
        }
    }

    /// The model, with tensors that `take` gives by name.
    pub(crate) fn restore(
        self,
        take: &mut dyn FnMut(&str) -> Option<NamedTensor>,
        path: &Path,
        device: &Device,
    ) -> Result<Model> {
        let Self { network, mut learner, seed, preparation } = self;
        learner.check()?;
        let network = network.restore(take, path, device)?;
        let (size, channels) = (network.config.size, network.config.channels);
        let preparation = match preparation {
            Some(preparation) if (preparation.size, preparation.channels) != (size, channels) => {
                let problem = "it prepares pictures in another shape than its network takes";
                return Err(damaged(path, problem.into()));
            }
            Some(preparation) => preparation,
            // Earlier versions cropped all pictures, and gave epochs by the number of images to models of the preset
            // `own` without writing either down.
            None => {
                let own = Preset::Own.learner();
                if learner == (LearnerConfig { budget: EpochBudget::Fixed, ..own.clone() }) {
                    learner = own;
                }
                Preparation { size, channels, ..Preparation::default() }
            }
        };
        preparation.check()?;
        Ok(Model::with(network, learner, preparation, seed))
    }
}

impl Model {
    /// Writes the model file; an old one stays until the new one is whole.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        Ok(replace_file(path, &self.to_bytes(path)?)?)
    }

    /// The content of the model file; `path` is for messages.
    pub fn to_bytes(&self, path: &Path) -> Result<Vec<u8>> {
        tensor_file::write(MODEL, &ModelRecord::of(self), &tensors::plain(&self.network), path)
    }

    /// Reads a model file, to compute on the CPU.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_on(path, &Device::flex())
    }

    /// Reads a model file, to compute on a device.
    pub fn load_on(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(lmc_streams::Error::io("read", path))?;
        Self::from_bytes(&bytes, path, device)
    }

    /// Reads a model from the content of a file; `path` is for messages.
    pub fn from_bytes(bytes: &[u8], path: &Path, device: &Device) -> Result<Self> {
        let (record, mut found): (ModelRecord, Tensors) = tensor_file::read(MODEL, bytes, path)?;
        let model = record.restore(&mut |name| found.remove(name), path, device)?;
        if let Some(name) = found.keys().next() {
            return Err(damaged(path, format!("it has a tensor '{name}' that belongs to no module")));
        }
        Ok(model)
    }
}

pub(crate) fn damaged(path: &Path, problem: String) -> Error {
    Error::bad(path, problem, "take it from a backup")
}

impl NetworkRecord {
    pub(crate) fn of(network: &Network) -> Self {
        let module = |module: &LocalModule| ModuleRecord {
            origin: module.origin.clone(),
            frozen: module.frozen,
            trained: module.trained,
            statistics: module.statistics.clone(),
        };
        let head = |head: &Head| HeadRecord {
            task: head.task.clone(),
            classes: head.classes.clone(),
            frozen: head.frozen,
            gaussian: head.gaussian.clone(),
            view: head.view.clone(),
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
        take: &mut dyn FnMut(&str) -> Option<NamedTensor>,
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
                module.frozen = record.frozen;
                module.trained = record.trained;
                module.walk(&format!("layer{number}.module{at}"), &mut load);
                load.check()?;
                if !record.frozen {
                    tensors::train(&mut module);
                }
                modules.push(module);
            }
            let trainable = modules.iter().position(|module| !module.frozen);
            if trainable.is_some_and(|at| at + 1 != modules.len()) {
                return Err(damaged(path, format!("a module of layer {number} follows a trainable one")));
            }
            *layer = Layer::new(layer.config, modules)?;
        }
        let features = self.config.features();
        for (number, record) in self.heads.into_iter().enumerate() {
            let classes = record.classes.len();
            load.preview(&format!("head{number}.classifier.weight"), &[classes, features])?;
            let config = HeadConfig { features, classes, structural: self.config.heads };
            let mut head = config.init(&record.task, record.classes, &Seed::root(0), &device);
            head.frozen = record.frozen;
            head.gaussian = record.gaussian;
            head.view = record.view;
            check_view(&head, &network, path)?;
            if head.gaussian.as_ref().is_some_and(|task| !task.fits(network.layers.len())) {
                return Err(damaged(
                    path,
                    format!("the score distribution of task '{}' does not fit its network", head.task),
                ));
            }
            head.walk(&format!("head{number}"), &mut load);
            load.check()?;
            if !record.frozen {
                tensors::train(&mut head);
            }
            network.heads.push(head);
        }
        Ok(network)
    }
}

/// Complains unless the view of a head has modules that are there, at least one in each layer.
fn check_view(head: &Head, network: &Network, path: &Path) -> Result<()> {
    let Some(view) = &head.view else { return Ok(()) };
    let there =
        |(range, layer): (&Range<usize>, &Layer)| !range.is_empty() && range.end <= layer.modules().len();
    if view.len() == network.layers.len() && view.iter().zip(&network.layers).all(there) {
        return Ok(());
    }
    Err(damaged(path, format!("the view of task '{}' has modules that are not there", head.task)))
}

/// Fills tensors from a file.
struct Load<'a> {
    take: &'a mut dyn FnMut(&str) -> Option<NamedTensor>,
    path: &'a Path,
    problem: Option<Error>,
    /// Tensor that `preview` has read and nobody has used yet.
    first: Option<NamedTensor>,
}

impl Load<'_> {
    /// Looks at the first tensor of a component before the component is made: a header that promises more than the file
    /// holds must not cost memory.
    fn preview(&mut self, name: &str, shape: &[usize]) -> Result<()> {
        let found = self.find(name, shape)?;
        self.first = Some(found);
        Ok(())
    }

    fn find(&mut self, name: &str, shape: &[usize]) -> Result<NamedTensor> {
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
