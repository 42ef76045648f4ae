//! SG-F: soft gating of a pool of modules by a controller (Mendez and Eaton 2021; specification §2.6, as the paper's authors
//! ran it).
//!
//! Every layer sums its modules with weights that a controller computes from the layer's input, image by image: convolutions
//! that all layers share, as many as are left above the layer, and a linear map to one number per module. For a new task
//! candidates with no, one, …, all layers extended by a new module, from the top down, are trained with the earlier
//! modules frozen; the one with the best validation accuracy stays. Every task has its controller, given by its ID; in SG-F(A) one
//! controller serves all tasks, grows with the modules and stays trainable, and only heads need the ID.
//!
//! The authors pad images with zeros to the width of the network, so that all modules have one shape. Weights on zeros do
//! nothing; here first-layer modules have as many inputs as images have channels.

mod controller;
mod gated;

use burn::tensor::Device;
use lmc::internals::inference::evaluation::Classify;
use lmc::internals::module::functional::Functional;
use lmc::internals::tensors::{
    Visitor, Walk, correct, images, join, parameter_count, train, without_gradients,
};
use lmc::internals::training::checkpoint::State;
use lmc::internals::training::step::cross_entropy;
use lmc::{Error, Event, NetworkConfig, Result, TaskData, TaskReport};
use lmc_kernels::{Kernels, weighted_sum};
use lmc_streams::{Normalisation, Seed};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::controller::Controller;
use self::gated::{GatedClassifier, frozen};
use crate::checkpoint::{damaged, fill_model, parse, state_of};
use crate::method::{Capacity, Listen, Method, no_open_task};
use crate::module_pool::{ModulePool, new_modules};
use crate::registry::MethodConfig;
use crate::search::{CandidateSpec, Search};
use crate::training::{TrainingConfig, count_batch};
use crate::trunk::{LinearHead, layer_multiply_adds};

/// Settings of SG-F.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SoftGatingConfig {
    /// Hyperparameters of training, the same for each candidate.
    pub training: TrainingConfig,
    /// Whether one controller serves all tasks, as in SG-F(A); false by default.
    pub shared: bool,
    /// Number of epochs from one validation to the next, 1 or more; 3 by default.
    pub validate_every: usize,
}

impl Default for SoftGatingConfig {
    fn default() -> Self {
        Self { training: TrainingConfig::default(), shared: false, validate_every: 3 }
    }
}

impl MethodConfig for SoftGatingConfig {
    type Method = SoftGating;

    fn preset(name: &str, stream: &str) -> Result<Self> {
        let training = TrainingConfig::preset(stream, &["s_plus", "s_pl"]);
        Ok(Self { training, shared: name == "sg_f_a", ..Self::default() })
    }

    fn check(&self) -> Result<()> {
        if self.validate_every == 0 {
            return Err(Error::setting("validate_every", "it is 0", "use 1 or more"));
        }
        self.training.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<SoftGating> {
        network.check()?;
        if network.width < network.channels {
            let problem =
                format!("{} is less than the {} channels of an image", network.width, network.channels);
            return Err(Error::setting("network.width", problem, "use a wider network"));
        }
        Ok(SoftGating {
            config: self.clone(),
            network: network.clone(),
            seed: Seed::root(seed).named("soft gating"),
            device: device.clone().autodiff(),
            model: GatedNetwork { pool: ModulePool::new(network), controllers: Vec::new() },
            search: None,
        })
    }
}

/// Modules, and controllers that gate them.
#[derive(Clone, Debug)]
pub struct SoftGating {
    config: SoftGatingConfig,
    network: NetworkConfig,
    seed: Seed,
    device: Device,
    model: GatedNetwork,
    search: Option<Search<CandidateParts>>,
}

/// All that is learned: modules, heads and controllers.
#[derive(Clone, Debug)]
struct GatedNetwork {
    pool: ModulePool,
    /// One controller per task, or one for all.
    controllers: Vec<Controller>,
}

impl Walk for GatedNetwork {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        self.pool.walk(path, visitor);
        for (number, controller) in self.controllers.iter_mut().enumerate() {
            controller.walk(&join(path, &format!("controller{number}")), visitor);
        }
    }
}

/// Parts that a candidate adds and trains.
#[derive(Clone, Debug)]
struct CandidateParts {
    /// A new module for each of the upper layers.
    modules: Vec<Functional>,
    controller: Controller,
    head: LinearHead,
}

impl Walk for CandidateParts {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, functional) in self.modules.iter_mut().enumerate() {
            functional.walk(&join(path, &format!("module{number}")), visitor);
        }
        self.controller.walk(&join(path, "controller"), visitor);
        self.head.walk(&join(path, "head"), visitor);
    }
}

impl SoftGating {
    fn modules(&self) -> Vec<usize> {
        self.model.pool.modules()
    }

    /// Draws random parameters for the parts of a candidate; a shared controller keeps what it has learned.
    fn candidate(&self, CandidateSpec { candidate, from, classes }: CandidateSpec) -> CandidateParts {
        let number = self.model.pool.heads.len() as u64;
        let seed = self.seed.named("task").numbered(number).numbered(candidate as u64);
        let modules: Vec<usize> =
            self.modules().iter().enumerate().map(|(at, old)| old + usize::from(at >= from)).collect();
        let fresh = seed.named("controller");
        let controller = match self.model.controllers.last().filter(|_| self.config.shared) {
            Some(shared) => shared.grown(&modules, &fresh, &self.device),
            None => Controller::new(&self.network, &modules, &fresh, &self.device),
        };
        let mut parts = CandidateParts {
            modules: new_modules(&self.network, from, &seed, &self.device),
            controller,
            head: LinearHead::new(self.network.features(), classes, &seed.named("head"), &self.device),
        };
        train(&mut parts);
        parts
    }

    /// The classifier with these parts added, for the open task alone.
    fn candidate_classifier(&self, from: usize, parts: &CandidateParts) -> Result<GatedClassifier> {
        let (model, parts) = (without_gradients(&self.model), without_gradients(parts));
        let mut pool = model.pool;
        pool.add(from, parts.modules, parts.head.clone());
        GatedClassifier::new(&pool.layers, vec![parts.controller], vec![parts.head])
    }

    /// Share of validation images that the open task's candidate classifies correctly.
    fn validate(
        &self,
        gated: &GatedClassifier,
        data: TaskData<'_>,
        scale: Option<&Normalisation>,
    ) -> Result<f64> {
        let mut right = 0;
        for batch in self.config.training.stored(scale).init(data.val)? {
            data.check_stop()?;
            let (features, _) = gated.features(&images(&batch, &self.device.clone().inner()), 0)?;
            right += correct(&gated.heads[0].logits(features), &batch.labels);
        }
        Ok(right as f64 / data.val.len().max(1) as f64)
    }

    /// Trains the current candidate for an epoch and validates it; gives the event of the epoch's end.
    fn train_once(
        &self,
        search: &mut Search<CandidateParts>,
        data: TaskData<'_>,
        listen: Listen<'_>,
    ) -> Result<Event> {
        let CandidateSpec { from, .. } = search.current();
        let (epoch, epochs) = search.progress();
        let scale = self.config.training.normalisation(data.train);
        let seed = self.seed.named("batches").numbered(search.training.number as u64).numbered(epoch as u64);
        let frozen_layers =
            self.model.pool.layers.iter().map(|layer| frozen(layer)).collect::<Result<Vec<_>>>()?;
        let batches = self.config.training.shuffled(seed, scale.as_ref()).init(data.train)?;
        let done = search.begin_epoch(batches.len());
        for batch in batches.after(done) {
            let mut x = images(&batch, &self.device);
            for (layer, modules) in frozen_layers.iter().enumerate() {
                let new = match layer.checked_sub(from).and_then(|at| search.parts.modules.get_mut(at)) {
                    Some(module) => Some(module.forward(x.clone(), false)?),
                    None => None,
                };
                x = match (modules, new) {
                    (Some(modules), new) => {
                        let weights = search.parts.controller.weights(layer, &x)?;
                        weighted_sum(modules.forward(x, Kernels::Fused)?, new, weights, Kernels::Fused)?
                    }
                    // The first task's one module needs no controller.
                    (None, Some(new)) => new,
                    (None, None) => return Err(no_open_task()),
                };
            }
            let logits = search.parts.head.logits(x.flatten(1, 3));
            let loss = cross_entropy(logits.clone(), &batch.labels);
            let event = count_batch(&mut search.training.under_way, &loss, &logits, &batch.labels)?;
            search.training.adam.step(&mut search.parts, &mut loss.backward());
            listen(event)?;
        }
        let done = search.training.epoch + 1;
        let due = done.is_multiple_of(self.config.validate_every) || done == search.training.epochs;
        let mut val_accuracy = None;
        if due && !data.val.is_empty() {
            let gated = self.candidate_classifier(from, &search.parts)?;
            val_accuracy = Some(self.validate(&gated, data, scale.as_ref())?);
        }
        let metrics =
            search.end_epoch(val_accuracy, &self.config.training, data, |spec| self.candidate(spec))?;
        Ok(metrics.end(epochs, val_accuracy, self.modules()))
    }
}

impl Method for SoftGating {
    fn begin(&mut self, data: TaskData<'_>) -> Result<()> {
        let (number, depth) = (self.model.pool.heads.len(), self.network.depth);
        let config = &self.config.training;
        self.search = Some(Search::new(config, data, number, depth, |spec| self.candidate(spec)));
        Ok(())
    }

    fn epoch(&mut self, data: TaskData<'_>, listen: Listen<'_>) -> Result<bool> {
        let mut search = self.search.take().ok_or_else(no_open_task)?;
        // The search goes on whatever happens: a listener that fails must not lose it.
        let ended = self.train_once(&mut search, data, listen);
        let more = !search.is_done();
        self.search = Some(search);
        listen(ended?)?;
        Ok(more)
    }

    fn finish(&mut self, _: TaskData<'_>) -> Result<TaskReport> {
        let search = self.search.take().ok_or_else(no_open_task)?;
        let (found, report) = search.best().ok_or_else(no_open_task)?;
        let modules_before = self.modules();
        self.model.pool.add(found.from, found.parts.modules, found.parts.head);
        if self.config.shared {
            self.model.controllers.clear();
        }
        self.model.controllers.push(found.parts.controller);
        Ok(TaskReport { modules_before, modules: self.modules(), ..report })
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.search.as_ref().map(Search::progress)
    }

    fn classifier(&self) -> Result<Box<dyn Classify>> {
        let model = without_gradients(&self.model);
        Ok(Box::new(GatedClassifier::new(&model.pool.layers, model.controllers, model.pool.heads)?))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn capacity(&self) -> Capacity {
        let classes = self.model.pool.heads.last().map_or(0, LinearHead::classes);
        let modules = self.modules();
        let (width, mut gates) = (self.network.width as u64, 0);
        for (layer, config) in self.network.layers().iter().enumerate() {
            let mut side = config.structural.input_side as u64;
            for block in 0..self.network.depth - layer {
                let inputs = if block == 0 { config.functional.inputs as u64 } else { width };
                gates += (side + 2) * (side + 2) * 9 * inputs * width;
                side = (side + 2) / 2;
            }
            gates += (self.network.features() * modules[layer]) as u64;
        }
        let trunk: u64 = layer_multiply_adds(&self.network)
            .iter()
            .zip(&modules)
            .map(|(work, &count)| work * count as u64)
            .sum();
        Capacity {
            modules,
            parameters: parameter_count(&self.model),
            multiply_adds: trunk + gates + (self.network.features() * classes) as u64,
        }
    }

    fn state(&self) -> Result<State> {
        let mut tensors = Vec::new();
        let search = self.search.as_ref().map(|search| search.save(&mut tensors)).transpose()?;
        let sizes = |controller: &Controller| controller.gates.iter().map(LinearHead::classes).collect();
        let controllers: Vec<Vec<usize>> = self.model.controllers.iter().map(sizes).collect();
        let pool = self.model.pool.document();
        let document = json!({ "pool": pool, "controllers": controllers, "search": search });
        Ok(state_of(document, &self.model, tensors))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let document = &state.document;
        let pool = ModulePool::empty(&document["pool"], &self.network, &self.device)?;
        let controllers: Vec<Vec<usize>> = parse(&document["controllers"])?;
        if controllers.iter().any(|sizes| sizes.len() != self.network.depth) {
            return Err(damaged("it belongs to a network of another depth"));
        }
        let controller = |sizes: &Vec<usize>| Controller::new(&self.network, sizes, &self.seed, &self.device);
        self.model = GatedNetwork { pool, controllers: controllers.iter().map(controller).collect() };
        fill_model(&mut self.model, &state.tensors)?;
        self.search = None;
        let search = &document["search"];
        if !search.is_null() {
            let (config, new) = (&self.config.training, |spec| self.candidate(spec));
            self.search = Some(Search::load(search, &state.tensors, config, &self.device, new)?);
        }
        Ok(())
    }
}
