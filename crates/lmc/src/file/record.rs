//! The model file: one safetensors file with network, settings and preparation. The state of an open task is in checkpoints
//! ([`Model::save_checkpoint`]).
//!
//! Tensors are named by their place (`layer2.module1.functional.conv.weight`, `head0.classifier.bias`); everything else,
//! configuration, class and task names, statistics and the origin of every module, is JSON in the header's metadata.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use lmc_streams::{Preparation, Seed, read_file};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::file::LARGEST_FILE;
use crate::file::history::History;
use crate::file::model_file::ModelFile;
use crate::file::tensor_file::{self, Tensors};
use crate::inference::route::Route;
use crate::inference::signature::{Reach, Signature, descriptor, statistics};
use crate::inference::task_gaussian::TaskGaussian;
use crate::inference::{HeadChoice, PredictionConfig, Routing};
use crate::model::Model;
use crate::module::statistics::Statistics;
use crate::module::{LocalModule, Origin};
use crate::network::head::{Head, HeadConfig};
use crate::network::layer::Layer;
use crate::network::{Network, NetworkConfig};
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    route: Option<Route>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<SignatureRecord>,
    #[serde(alias = "sees")]
    view: Option<Vec<Range<usize>>>,
    #[serde(default = "first_version", skip_serializing_if = "is_first_version")]
    version: u32,
}

/// A signature in a file, besides its tensors.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureRecord {
    /// Version of the descriptor: numbers of different versions cannot be compared.
    version: u32,
    /// Logarithms of distances: which is typical, and beyond which an image is new.
    #[serde(default)]
    typical: Option<f64>,
    limit: Option<f64>,
}

fn first_version() -> u32 {
    1
}

fn is_first_version(version: &u32) -> bool {
    *version == 1
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
    /// What the model went through; files of earlier versions do not say.
    #[serde(default, skip_serializing_if = "History::is_empty")]
    pub(crate) history: History,
}

const MODEL: &str = "model";

impl ModelRecord {
    pub(crate) fn of(model: &Model) -> Self {
        Self {
            network: NetworkRecord::of(&model.network),
            learner: model.config.clone(),
            seed: model.seed,
            preparation: Some(model.preparation),
            history: model.history.clone(),
        }
    }

    /// The model, with tensors that `take` gives by name.
    pub(crate) fn restore(
        self,
        take: &mut dyn FnMut(&str) -> Option<NamedTensor>,
        path: &Path,
        device: &Device,
    ) -> Result<Model> {
        let Self { network, mut learner, seed, preparation, history } = self;
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
                let (routing, head_choice) = (Routing::AsLearned, HeadChoice::TaskGaussian);
                let prediction = PredictionConfig { routing, head_choice, ..PredictionConfig::default() };
                if learner == (LearnerConfig { prediction, ..LearnerConfig::default() }) {
                    learner.budget = EpochBudget::ByImages;
                }
                Preparation { size, channels, ..Preparation::default() }
            }
        };
        preparation.check()?;
        Ok(Model { history, ..Model::with(network, learner, preparation, seed) })
    }
}

impl Model {
    /// Writes the model file; an old one stays until the new one is whole. [`Error::Locked`] if another process works on
    /// it. To load, change and save a file that others may change too, use a [`ModelFile`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        ModelFile::open(path)?.save(self)
    }

    /// The content of the model file; `path` is for messages.
    pub fn to_bytes(&self, path: &Path) -> Result<Vec<u8>> {
        tensor_file::write(MODEL, &ModelRecord::of(self), &plain(&self.network), path)
    }

    /// Reads a model file, to compute on the CPU.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_on(path, &Device::flex())
    }

    /// Reads a model file, to compute on a device.
    pub fn load_on(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let path = path.as_ref();
        let bytes = read_file(path, LARGEST_FILE)?;
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

/// All numbers of a network that files hold as tensors: parameters, running statistics, and signatures.
pub(crate) fn plain(network: &Network) -> Vec<NamedTensor> {
    let mut all = tensors::plain(network);
    for (number, head) in network.heads.iter().enumerate() {
        let Some(signature) = &head.signature else { continue };
        let name = |part: &str| format!("head{number}.signature.{part}");
        let classes = signature.counts.len();
        let means = signature.means.concat();
        for (part, shape, values) in [
            ("counts", vec![classes], signature.counts.clone()),
            ("means", vec![classes, descriptor::LENGTH], means),
            ("within", vec![statistics::TRIANGLE], signature.within.clone()),
            ("nuisance", vec![statistics::TRIANGLE], signature.nuisance.clone()),
        ] {
            all.push(NamedTensor { name: name(part), shape, values });
        }
    }
    all
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
            route: head.route.clone(),
            signature: head.signature.as_ref().map(|found| SignatureRecord {
                version: descriptor::VERSION,
                typical: found.reach.map(|reach| reach.typical),
                limit: found.reach.map(|reach| reach.limit),
            }),
            view: head.view.clone(),
            version: head.version,
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
                if !record.statistics.is_sound() || !record.origin.is_sound() {
                    let problem = format!(
                        "the statistics or the origin of module {at} of layer {number} are impossible"
                    );
                    return Err(damaged(path, problem));
                }
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
            head.route = record.route;
            head.view = record.view;
            head.version = record.version;
            check_head(&head, &network.heads, path)?;
            check_view(&head, &network, path)?;
            let route_fits = |route: &Route| head.view.as_ref().is_some_and(|view| route.fits(view));
            if !head.route.as_ref().is_none_or(route_fits) {
                return Err(damaged(
                    path,
                    format!("the route of task '{}' does not fit its view", head.task),
                ));
            }
            if head.gaussian.as_ref().is_some_and(|task| !task.fits(network.layers.len())) {
                return Err(damaged(
                    path,
                    format!("the score distribution of task '{}' does not fit its network", head.task),
                ));
            }
            head.walk(&format!("head{number}"), &mut load);
            load.check()?;
            if let Some(found) = record.signature {
                head.signature = load.signature(number, classes, &head.task, found)?.map(Arc::new);
            }
            if !record.frozen {
                tensors::train(&mut head);
            }
            network.heads.push(head);
        }
        Ok(network)
    }
}

/// Complains about a head whose task another one has, or that has two classes of one name.
fn check_head(head: &Head, others: &[Head], path: &Path) -> Result<()> {
    let problem = if others.iter().any(|other| other.task == head.task) {
        format!("two tasks are called '{}'", head.task)
    } else if has_duplicates(&head.classes) {
        format!("two classes of task '{}' have one name", head.task)
    } else if head.classes.len() < 2 {
        format!("task '{}' has fewer than two classes", head.task)
    } else {
        return Ok(());
    };
    Err(damaged(path, problem))
}

/// Whether any name occurs twice.
pub(crate) fn has_duplicates(names: &[String]) -> bool {
    let mut seen = std::collections::HashSet::new();
    names.iter().any(|name| !seen.insert(name))
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

    /// The signature of a head; `None` of an earlier version's descriptor, whose numbers say nothing to this one.
    fn signature(
        &mut self,
        number: usize,
        classes: usize,
        task: &str,
        record: SignatureRecord,
    ) -> Result<Option<Signature>> {
        const PARTS: [&str; 4] = ["counts", "means", "within", "nuisance"];
        let name = |part: &str| format!("head{number}.signature.{part}");
        if record.version < descriptor::VERSION {
            PARTS.map(name).iter().for_each(|name| drop((self.take)(name)));
            return Ok(None);
        }
        if record.version > descriptor::VERSION {
            let problem = format!(
                "task '{task}' has a signature of version {}, and this lmc knows version {}",
                record.version,
                descriptor::VERSION
            );
            return Err(Error::bad(self.path, problem, "update lmc"));
        }
        let mut part =
            |part: &str, shape: &[usize]| -> Result<Vec<f32>> { Ok(self.find(&name(part), shape)?.values) };
        let counts = part("counts", &[classes])?;
        let means = part("means", &[classes, descriptor::LENGTH])?;
        let means = means.chunks(descriptor::LENGTH).map(<[f32]>::to_vec).collect();
        let within = part("within", &[statistics::TRIANGLE])?;
        let nuisance = part("nuisance", &[statistics::TRIANGLE])?;
        let reach = record.typical.zip(record.limit).map(|(typical, limit)| Reach { typical, limit });
        let signature = Signature { counts, means, within, nuisance, reach };
        if !signature.fits(classes) {
            return Err(damaged(self.path, format!("the signature of task '{task}' is impossible")));
        }
        Ok(Some(signature))
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
