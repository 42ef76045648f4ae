//! SG-F: soft gating of a pool of modules by a controller (Mendez and Eaton 2021; specification §2.6, as the paper's authors
//! ran it).
//!
//! Every layer sums its modules with weights that a controller computes from the layer's input, image by image: convolutions
//! that all layers share, as many as are left above the layer, and a linear map to one number per module. For a new task
//! candidates with no, one, …, all layers extended by a new module, from the top down, are trained with the old modules
//! frozen; the one with the best validation accuracy stays. Every task has its controller, given by its ID; in SG-F(A) one
//! controller serves all, grows with the modules and goes on learning, and only heads need the ID.
//!
//! The authors pad images with zeros to the width of the network, so that all modules have one shape. Weights on zeros do
//! nothing; here first-layer modules have as many inputs as images have channels.

mod controller;
mod gated;

use burn::tensor::Device;
use lmc::checkpoint::State;
use lmc::events::Event;
use lmc::functional::Functional;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::tensors::{Visitor, Walk, freeze, join, plain, train, without_gradients};
use lmc::{Error, Learned, Material, Result};
use lmc_kernels::{Path, weighted_sum};
use lmc_streams::{Normalisation, Seed, TaskSet};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::controller::Controller;
use self::gated::{Gated, frozen};
use crate::method::{Answers, Capacity, Listen, Method};
use crate::monolith::nothing_open;
use crate::registry::MethodConfig;
use crate::training::{
    Lesson, TrainingConfig, below, cross_entropy, fill_from, fill_model, parse, prefixed, right, scalar,
    state_of,
};
use crate::trunk::{Classifier, layer_multiply_adds, parameters};

/// Settings of SG-F.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SoftGatingConfig {
    /// How each candidate is trained.
    pub training: TrainingConfig,
    /// One controller for all tasks: SG-F(A).
    pub shared: bool,
    /// Epochs between validations, 1 or more; 3 by default.
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
            model: Model {
                layers: vec![Vec::new(); network.depth],
                heads: Vec::new(),
                controllers: Vec::new(),
            },
            search: None,
        })
    }
}

/// Modules, and what gates them.
#[derive(Clone, Debug)]
pub struct SoftGating {
    config: SoftGatingConfig,
    network: NetworkConfig,
    seed: Seed,
    device: Device,
    model: Model,
    search: Option<Search>,
}

#[derive(Clone, Debug)]
struct Model {
    layers: Vec<Vec<Functional>>,
    heads: Vec<Classifier>,
    /// One per task, or one for all.
    controllers: Vec<Controller>,
}

impl Walk for Model {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, layer) in self.layers.iter_mut().enumerate() {
            for (module, functional) in layer.iter_mut().enumerate() {
                functional.walk(&join(path, &format!("layer{number}.module{module}")), visitor);
            }
        }
        for (number, head) in self.heads.iter_mut().enumerate() {
            head.walk(&join(path, &format!("head{number}")), visitor);
        }
        for (number, controller) in self.controllers.iter_mut().enumerate() {
            controller.walk(&join(path, &format!("controller{number}")), visitor);
        }
    }
}

/// What a candidate adds and trains.
#[derive(Clone, Debug)]
struct Candidate {
    /// A new module for each of the upper layers.
    modules: Vec<Functional>,
    controller: Controller,
    head: Classifier,
}

impl Walk for Candidate {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, functional) in self.modules.iter_mut().enumerate() {
            functional.walk(&join(path, &format!("module{number}")), visitor);
        }
        self.controller.walk(&join(path, "controller"), visitor);
        self.head.walk(&join(path, "head"), visitor);
    }
}

#[derive(Clone, Debug)]
struct Search {
    task: String,
    classes: usize,
    /// Lowest layer that each candidate extends, in the order of the search.
    from: Vec<usize>,
    candidate: usize,
    lesson: Lesson,
    parts: Candidate,
    /// Candidate, validation accuracy, epoch and parts of the best that is finished.
    best: Option<(usize, f64, usize, Candidate)>,
}

impl SoftGating {
    fn modules(&self) -> Vec<usize> {
        self.model.layers.iter().map(Vec::len).collect()
    }

    /// New parts, with random numbers; `from` is the lowest layer with a new module.
    fn candidate(&self, number: usize, from: usize, classes: usize) -> Candidate {
        let seed = self.seed.named("task").numbered(self.model.heads.len() as u64).numbered(number as u64);
        let layers = self.network.layers().into_iter().enumerate().skip(from);
        let modules: Vec<usize> =
            self.modules().iter().enumerate().map(|(at, old)| old + usize::from(at >= from)).collect();
        let fresh = seed.named("controller");
        let controller = match self.model.controllers.last().filter(|_| self.config.shared) {
            Some(shared) => shared.grown(&modules, &fresh, &self.device),
            None => Controller::new(&self.network, &modules, &fresh, &self.device),
        };
        let mut parts = Candidate {
            modules: layers
                .map(|(at, layer)| layer.functional.init(&seed.numbered(at as u64), &self.device))
                .collect(),
            controller,
            head: Classifier::new(self.network.features(), classes, &seed.named("head"), &self.device),
        };
        train(&mut parts);
        parts
    }

    /// As it would answer with these parts.
    fn gated(&self, from: usize, parts: &Candidate) -> Result<Gated> {
        let (model, parts) = (without_gradients(&self.model), without_gradients(parts));
        let mut layers = model.layers;
        for (layer, module) in layers.iter_mut().skip(from).zip(parts.modules) {
            layer.push(module);
        }
        Gated::new(&layers, vec![parts.controller], vec![parts.head])
    }

    fn validate(&self, gated: &Gated, val: &TaskSet, scale: Option<&Normalisation>) -> Result<f64> {
        let mut told = 0;
        for batch in self.config.training.stored(scale).init(val)? {
            let (features, _) = gated.features(&images(&batch, &self.device.clone().inner()), 0)?;
            told += right(&gated.heads[0].logits(features), &batch.labels);
        }
        Ok(told as f64 / val.len().max(1) as f64)
    }
}

impl Method for SoftGating {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        let depth = self.network.depth;
        let from: Vec<usize> =
            if self.model.heads.is_empty() { vec![0] } else { (0..=depth).rev().collect() };
        let classes = material.classes.len();
        self.search = Some(Search {
            task: material.task.to_owned(),
            classes,
            candidate: 0,
            lesson: Lesson::new(&self.config.training, material, self.model.heads.len()),
            parts: self.candidate(0, from[0], classes),
            from,
            best: None,
        });
        Ok(())
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        let mut search = self.search.take().ok_or_else(nothing_open)?;
        let from = search.from[search.candidate];
        let each = search.lesson.epochs;
        let epoch = search.candidate * each + search.lesson.epoch;
        let epochs = search.from.len() * each;
        let scale = self.config.training.normalisation(material.train);
        let seed = self.seed.named("batches").numbered(search.lesson.number as u64).numbered(epoch as u64);
        let old = self.model.layers.iter().map(|layer| frozen(layer)).collect::<Result<Vec<_>>>()?;
        let batches = self.config.training.shuffled(seed, scale.as_ref()).init(material.train)?;
        let steps = batches.len();
        let (mut sum, mut correct, mut seen) = (0.0, 0, 0);
        for (step, batch) in batches.enumerate() {
            let mut x = images(&batch, &self.device);
            for (layer, old) in old.iter().enumerate() {
                let new = match layer.checked_sub(from).and_then(|at| search.parts.modules.get_mut(at)) {
                    Some(module) => Some(module.forward(x.clone(), false)?),
                    None => None,
                };
                x = match (old, new) {
                    (Some(old), new) => {
                        let weights = search.parts.controller.weights(layer, &x);
                        weighted_sum(old.forward(x, Path::Fast)?, new, weights, Path::Fast)?
                    }
                    // The first task's one module needs no controller.
                    (None, Some(new)) => new,
                    (None, None) => return Err(nothing_open()),
                };
            }
            let logits = search.parts.head.logits(x.flatten(1, 3));
            let loss = cross_entropy(logits.clone(), &batch.labels);
            let value = scalar(&loss);
            if !value.is_finite() {
                return Err(Error::Diverged { task: search.task, epoch: epoch + 1, loss: value });
            }
            let mut gradients = loss.backward();
            search.lesson.adam.step(&mut search.parts, &mut gradients);
            sum += value * batch.labels.len() as f64;
            correct += right(&logits, &batch.labels);
            seen += batch.labels.len();
            listen(Event::Step { epoch, step, steps, loss: value })?;
        }
        let due = (search.lesson.epoch + 1).is_multiple_of(self.config.validate_every)
            || search.lesson.epoch + 1 == each;
        let mut val_accuracy = None;
        if due && !material.val.is_empty() {
            let gated = self.gated(from, &search.parts)?;
            val_accuracy = Some(self.validate(&gated, material.val, scale.as_ref())?);
        }
        search.lesson.end_epoch(&search.parts, val_accuracy);
        if search.lesson.epoch >= each {
            search.lesson.restore_best(&mut search.parts)?;
            let best = search.lesson.best.as_ref();
            let (accuracy, at) = best.map_or((0.0, each - 1), |best| (best.accuracy, best.epoch));
            if search.best.as_ref().is_none_or(|(_, known, ..)| accuracy > *known) {
                let mut parts = search.parts.clone();
                freeze(&mut parts);
                search.best = Some((search.candidate, accuracy, search.candidate * each + at, parts));
            }
            search.candidate += 1;
            if let Some(&from) = search.from.get(search.candidate) {
                search.parts = self.candidate(search.candidate, from, search.classes);
                search.lesson = Lesson::new(&self.config.training, material, search.lesson.number);
            }
        }
        let more = search.candidate < search.from.len();
        self.search = Some(search);
        let seen = seen.max(1) as f64;
        listen(Event::EpochEnded {
            epoch,
            epochs,
            loss: sum / seen,
            cross_entropy: sum / seen,
            train_accuracy: correct as f64 / seen,
            val_accuracy,
            modules: self.modules(),
        })?;
        Ok(more)
    }

    fn finish(&mut self, _: Material<'_>) -> Result<Learned> {
        let search = self.search.take().ok_or_else(nothing_open)?;
        let (candidate, accuracy, best_epoch, parts) = search.best.ok_or_else(nothing_open)?;
        let before = self.modules();
        for (layer, module) in (search.from[candidate]..).zip(parts.modules) {
            self.model.layers[layer].push(module);
        }
        if self.config.shared {
            self.model.controllers.clear();
        }
        self.model.controllers.push(parts.controller);
        self.model.heads.push(parts.head);
        Ok(Learned {
            task: search.task,
            best_epoch,
            epochs: search.from.len() * search.lesson.epochs,
            val_accuracy: Some(accuracy),
            modules_before: before,
            modules: self.modules(),
        })
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.search.as_ref().map(|search| {
            let each = search.lesson.epochs;
            let in_candidate = if search.candidate < search.from.len() { search.lesson.epoch } else { 0 };
            (search.candidate * each + in_candidate, search.from.len() * each)
        })
    }

    fn answers(&self) -> Result<Box<dyn Answers>> {
        let model = without_gradients(&self.model);
        Ok(Box::new(Gated::new(&model.layers, model.controllers, model.heads)?))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn capacity(&self) -> Capacity {
        let classes = self.model.heads.last().map_or(0, Classifier::classes);
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
            parameters: parameters([&self.model]),
            multiply_adds: trunk + gates + (self.network.features() * classes) as u64,
        }
    }

    fn state(&self) -> Result<State> {
        let mut tensors = Vec::new();
        let search = self.search.as_ref().map(|search| {
            let lesson = search.lesson.save(&mut tensors);
            tensors.extend(prefixed("parts", plain(&search.parts)));
            let best = search.best.as_ref().map(|(candidate, accuracy, epoch, parts)| {
                tensors.extend(prefixed("found", plain(parts)));
                (candidate, accuracy, epoch)
            });
            json!({
                "task": search.task, "classes": search.classes, "from": search.from,
                "candidate": search.candidate, "lesson": lesson, "best": best,
            })
        });
        let heads: Vec<usize> = self.model.heads.iter().map(Classifier::classes).collect();
        let sizes = |controller: &Controller| controller.gates.iter().map(Classifier::classes).collect();
        let controllers: Vec<Vec<usize>> = self.model.controllers.iter().map(sizes).collect();
        let document = json!({
            "modules": self.modules(), "heads": heads, "controllers": controllers, "search": search,
        });
        Ok(state_of(document, &self.model, tensors))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let document = &state.document;
        let modules: Vec<usize> = parse(&document["modules"])?;
        let heads: Vec<usize> = parse(&document["heads"])?;
        let controllers: Vec<Vec<usize>> = parse(&document["controllers"])?;
        let configs = self.network.layers();
        if modules.len() != configs.len() || controllers.iter().any(|sizes| sizes.len() != configs.len()) {
            let problem = "it belongs to a network of another depth";
            return Err(Error::setting("checkpoint", problem, "start the run anew"));
        }
        let layer = |(config, &modules): (&lmc::module::ModuleConfig, &usize)| {
            (0..modules).map(|_| config.functional.init(&self.seed, &self.device)).collect()
        };
        self.model.layers = configs.iter().zip(&modules).map(layer).collect();
        let features = self.network.features();
        let head = |&classes: &usize| Classifier::new(features, classes, &self.seed, &self.device);
        self.model.heads = heads.iter().map(head).collect();
        let controller = |sizes: &Vec<usize>| Controller::new(&self.network, sizes, &self.seed, &self.device);
        self.model.controllers = controllers.iter().map(controller).collect();
        fill_model(&mut self.model, &state.tensors)?;
        self.search = None;
        let search = &document["search"];
        if search.is_null() {
            return Ok(());
        }
        let (from, candidate): (Vec<usize>, usize) = (parse(&search["from"])?, parse(&search["candidate"])?);
        let classes: usize = parse(&search["classes"])?;
        let read = |candidate: usize, name: &str| -> Result<Candidate> {
            let lowest = from.get(candidate).or(from.last()).copied().unwrap_or(0);
            let mut parts = self.candidate(candidate, lowest, classes);
            fill_from(&mut parts, below(name, &state.tensors).into_values().collect())?;
            Ok(parts)
        };
        let mut parts = read(candidate, "parts")?;
        train(&mut parts);
        let best: Option<(usize, f64, usize)> = parse(&search["best"])?;
        let best = match best {
            Some((candidate, accuracy, epoch)) => {
                let mut parts = read(candidate, "found")?;
                freeze(&mut parts);
                Some((candidate, accuracy, epoch, parts))
            }
            None => None,
        };
        self.search = Some(Search {
            task: parse(&search["task"])?,
            classes,
            candidate,
            lesson: Lesson::load(&search["lesson"], &state.tensors, &self.config.training, &self.device)?,
            parts,
            best,
            from,
        });
        Ok(())
    }
}
