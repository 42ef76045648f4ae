//! MNTDP: a network of modules, one path of which serves each task (Veniat and others 2021; specification §2.5, as the
//! paper's authors ran it).
//!
//! For a new task the stored path whose features tell it best by nearest neighbours is taken as prior. Candidates keep a
//! lower part of it, frozen, and have new modules above: none, one, …, all. Each is trained, and the one with the best
//! validation accuracy stays. At test the task's ID gives path and head; MNTDP(A) takes the path whose answers have the
//! lowest entropy. What a frozen part makes of an image is computed once per candidate.

mod neighbours;
mod paths;

use burn::tensor::Device;
use lmc::checkpoint::State;
use lmc::events::Event;
use lmc::functional::Functional;
use lmc::module::FrozenFunctional;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::tensors::{Visitor, Walk, freeze, join, plain, train, values, without_gradients};
use lmc::{Error, Learned, Material, Result};
use lmc_streams::{Normalisation, Seed, TaskSet};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::neighbours::{Kept, neighbour_accuracy};
use self::paths::Paths;
use crate::method::{Answers, Capacity, Listen, Method};
use crate::monolith::nothing_open;
use crate::registry::MethodConfig;
use crate::training::{
    Lesson, TrainingConfig, below, cross_entropy, fill_from, fill_model, parse, prefixed, right, scalar,
    state_of,
};
use crate::trunk::{Classifier, layer_multiply_adds, parameters};

/// Which images the nearest neighbours are tested on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorBy {
    /// The validation images.
    Validation,
    /// The training images themselves. Released: this, by mistake.
    Training,
}

/// Settings of MNTDP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MntdpConfig {
    /// How each candidate is trained.
    pub training: TrainingConfig,
    /// Nearest neighbours that vote for the prior path, 1 or more; 5 by default.
    pub neighbours: usize,
    /// Which images they are tested on.
    pub prior_by: PriorBy,
}

impl Default for MntdpConfig {
    fn default() -> Self {
        Self { training: TrainingConfig::default(), neighbours: 5, prior_by: PriorBy::Validation }
    }
}

impl MethodConfig for MntdpConfig {
    type Method = Mntdp;

    fn preset(_: &str, stream: &str) -> Result<Self> {
        let mut training = TrainingConfig::default();
        match stream {
            "s_out" => training.weight_decay = 0.0,
            "s_pl" => training.weight_decay = 1e-4,
            "s_long" | "s_long30" => training.epochs = 50,
            "ood" => {
                training = TrainingConfig { epochs: 50, learning_rate: 1e-2, weight_decay: 0.0, ..training };
            }
            _ => {}
        }
        Ok(Self { training, ..Self::default() })
    }

    fn check(&self) -> Result<()> {
        if self.neighbours == 0 {
            return Err(Error::setting("neighbours", "it is 0", "use 1 or more"));
        }
        self.training.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Mntdp> {
        network.check()?;
        Ok(Mntdp {
            config: self.clone(),
            network: network.clone(),
            seed: Seed::root(seed).named("mntdp"),
            device: device.clone().autodiff(),
            model: Model { layers: vec![Vec::new(); network.depth], heads: Vec::new() },
            paths: Vec::new(),
            search: None,
            cache: None,
        })
    }
}

/// Modules, paths through them, and a head for each.
#[derive(Clone, Debug)]
pub struct Mntdp {
    config: MntdpConfig,
    network: NetworkConfig,
    seed: Seed,
    device: Device,
    model: Model,
    /// The module of each layer, by task.
    paths: Vec<Vec<usize>>,
    search: Option<Search>,
    /// Not part of the state: it can be computed again.
    cache: Option<Cache>,
}

#[derive(Clone, Debug)]
struct Model {
    layers: Vec<Vec<Functional>>,
    heads: Vec<Classifier>,
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
    }
}

/// What a candidate adds to the part that it keeps.
#[derive(Clone, Debug)]
struct Suffix {
    modules: Vec<Functional>,
    head: Classifier,
}

impl Walk for Suffix {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, functional) in self.modules.iter_mut().enumerate() {
            functional.walk(&join(path, &format!("module{number}")), visitor);
        }
        self.head.walk(&join(path, "head"), visitor);
    }
}

/// The search for a task's path.
#[derive(Clone, Debug)]
struct Search {
    task: String,
    classes: usize,
    /// The task whose path candidates keep the lower part of; `None` for the first task.
    prior: Option<usize>,
    /// Layers that each candidate keeps, in the order of the search.
    keeps: Vec<usize>,
    /// The candidate that is being trained.
    candidate: usize,
    lesson: Lesson,
    suffix: Suffix,
    /// Candidate, validation accuracy, epoch and parts of the best that is finished.
    best: Option<(usize, f64, usize, Suffix)>,
    /// Validation accuracy of all that are finished.
    accuracies: Vec<f64>,
}

/// What the kept part of a candidate makes of the images of a task.
#[derive(Clone, Debug)]
struct Cache {
    candidate: usize,
    train: Kept,
    val: Kept,
}

impl Mntdp {
    /// Frozen modules of the lowest layers of a task's path.
    fn prefix(&self, task: usize, layers: usize) -> Result<Vec<FrozenFunctional>> {
        let path = self.paths[task].iter().enumerate().take(layers);
        path.map(|(layer, &module)| {
            FrozenFunctional::new(&without_gradients(&self.model.layers[layer][module]))
        })
        .collect()
    }

    /// What a frozen prefix makes of a set.
    fn kept(
        &self,
        prefix: &[FrozenFunctional],
        set: &TaskSet,
        scale: Option<&Normalisation>,
    ) -> Result<Kept> {
        let device = self.device.clone().inner();
        let shape = set.shape();
        let mut kept = Kept {
            values: Vec::new(),
            shape: [shape.channels, shape.height, shape.width],
            labels: Vec::new(),
        };
        if set.is_empty() {
            return Ok(kept);
        }
        for batch in self.config.training.stored(scale).init(set)? {
            let mut x = images(&batch, &device);
            for layer in prefix {
                x = layer.forward(x)?;
            }
            let [_, channels, height, width] = x.dims();
            kept.shape = [channels, height, width];
            kept.values.extend(values(&x));
            kept.labels.extend(&batch.labels);
        }
        Ok(kept)
    }

    /// The stored path that tells the new task best by nearest neighbours, the first of equals.
    fn prior(&self, material: Material<'_>) -> Result<Option<usize>> {
        if self.paths.len() < 2 {
            return Ok((self.paths.len() == 1).then_some(0));
        }
        let scale = self.config.training.normalisation(material.train);
        let mut best: Option<(usize, f64)> = None;
        for task in 0..self.paths.len() {
            let prefix = self.prefix(task, self.network.depth)?;
            let train = self.kept(&prefix, material.train, scale.as_ref())?;
            let accuracy = match self.config.prior_by {
                PriorBy::Training => neighbour_accuracy(&train, &train, self.config.neighbours),
                PriorBy::Validation => {
                    let val = self.kept(&prefix, material.val, scale.as_ref())?;
                    neighbour_accuracy(&train, &val, self.config.neighbours)
                }
            };
            if best.is_none_or(|(_, known)| accuracy > known) {
                best = Some((task, accuracy));
            }
        }
        Ok(best.map(|(task, _)| task))
    }

    /// New modules above a number of kept layers, and a new head.
    fn suffix(&self, candidate: usize, keeps: usize, classes: usize) -> Suffix {
        let seed = self.seed.named("task").numbered(self.paths.len() as u64).numbered(candidate as u64);
        let layers = self.network.layers().into_iter().enumerate().skip(keeps);
        let mut suffix = Suffix {
            modules: layers
                .map(|(at, layer)| layer.functional.init(&seed.numbered(at as u64), &self.device))
                .collect(),
            head: Classifier::new(self.network.features(), classes, &seed.named("head"), &self.device),
        };
        train(&mut suffix);
        suffix
    }

    /// The cache for the candidate that is being trained.
    fn fill_cache(&mut self, search: &Search, material: Material<'_>) -> Result<()> {
        if self.cache.as_ref().is_some_and(|cache| cache.candidate == search.candidate) {
            return Ok(());
        }
        let prefix = match search.prior {
            Some(prior) => self.prefix(prior, search.keeps[search.candidate])?,
            None => Vec::new(),
        };
        let scale = self.config.training.normalisation(material.train);
        self.cache = Some(Cache {
            candidate: search.candidate,
            train: self.kept(&prefix, material.train, scale.as_ref())?,
            val: self.kept(&prefix, material.val, scale.as_ref())?,
        });
        Ok(())
    }

    fn modules(&self) -> Vec<usize> {
        self.model.layers.iter().map(Vec::len).collect()
    }
}

impl Method for Mntdp {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        let prior = self.prior(material)?;
        let keeps: Vec<usize> = match prior {
            Some(_) => (0..=self.network.depth).rev().collect(),
            None => vec![0],
        };
        let classes = material.classes.len();
        self.search = Some(Search {
            task: material.task.to_owned(),
            classes,
            prior,
            candidate: 0,
            lesson: Lesson::new(&self.config.training, material, self.paths.len()),
            suffix: self.suffix(0, keeps[0], classes),
            keeps,
            best: None,
            accuracies: Vec::new(),
        });
        self.cache = None;
        Ok(())
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        let mut search = self.search.take().ok_or_else(nothing_open)?;
        self.fill_cache(&search, material)?;
        let Some(cache) = &self.cache else { return Err(nothing_open()) };
        let lesson = &mut search.lesson;
        let each = lesson.epochs;
        let epoch = search.candidate * each + lesson.epoch;
        let epochs = search.keeps.len() * each;
        let seed = self.seed.named("batches").numbered(lesson.number as u64).numbered(epoch as u64);
        let order = seed.random().permutation(cache.train.labels.len());
        let steps = order.len().div_ceil(self.config.training.batch);
        let (mut sum, mut correct, mut seen) = (0.0, 0, 0);
        for (step, positions) in order.chunks(self.config.training.batch).enumerate() {
            let (mut x, labels) = cache.train.batch(positions, &self.device);
            for functional in &mut search.suffix.modules {
                x = functional.forward(x, false)?;
            }
            let logits = search.suffix.head.logits(x.flatten(1, 3));
            let loss = cross_entropy(logits.clone(), &labels);
            let value = scalar(&loss);
            if !value.is_finite() {
                return Err(Error::Diverged { task: search.task, epoch: epoch + 1, loss: value });
            }
            let mut gradients = loss.backward();
            lesson.adam.step(&mut search.suffix, &mut gradients);
            sum += value * labels.len() as f64;
            correct += right(&logits, &labels);
            seen += labels.len();
            listen(Event::Step { epoch, step, steps, loss: value })?;
        }
        let mut val_accuracy = None;
        if !cache.val.labels.is_empty() {
            let frozen = without_gradients(&search.suffix);
            let layers = frozen.modules.iter().map(FrozenFunctional::new).collect::<Result<Vec<_>>>()?;
            let places: Vec<u32> = (0..cache.val.labels.len() as u32).collect();
            let mut told = 0;
            for positions in places.chunks(self.config.training.batch) {
                let (mut x, labels) = cache.val.batch(positions, &self.device.clone().inner());
                for layer in &layers {
                    x = layer.forward(x)?;
                }
                told += right(&frozen.head.logits(x.flatten(1, 3)), &labels);
            }
            val_accuracy = Some(told as f64 / places.len() as f64);
        }
        lesson.end_epoch(&search.suffix, val_accuracy);
        let candidate_done = lesson.epoch >= lesson.epochs;
        if candidate_done {
            lesson.restore_best(&mut search.suffix)?;
            let (accuracy, at) =
                lesson.best.as_ref().map_or((0.0, each - 1), |best| (best.accuracy, best.epoch));
            search.accuracies.push(accuracy);
            if search.best.as_ref().is_none_or(|(_, known, ..)| accuracy > *known) {
                let mut suffix = search.suffix.clone();
                freeze(&mut suffix);
                search.best = Some((search.candidate, accuracy, search.candidate * each + at, suffix));
            }
            search.candidate += 1;
            if search.candidate < search.keeps.len() {
                search.suffix = self.suffix(search.candidate, search.keeps[search.candidate], search.classes);
                search.lesson = Lesson::new(&self.config.training, material, search.lesson.number);
            }
        }
        let more = search.candidate < search.keeps.len();
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
        self.cache = None;
        let (candidate, accuracy, best_epoch, suffix) = search.best.ok_or_else(nothing_open)?;
        let before = self.modules();
        let keeps = search.keeps[candidate];
        let mut path: Vec<usize> = match search.prior {
            Some(prior) => self.paths[prior][..keeps].to_vec(),
            None => Vec::new(),
        };
        for (layer, module) in (keeps..).zip(suffix.modules) {
            path.push(self.model.layers[layer].len());
            self.model.layers[layer].push(module);
        }
        self.paths.push(path);
        self.model.heads.push(suffix.head);
        Ok(Learned {
            task: search.task,
            best_epoch,
            epochs: search.keeps.len() * search.lesson.epochs,
            val_accuracy: Some(accuracy),
            modules_before: before,
            modules: self.modules(),
        })
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.search.as_ref().map(|search| {
            let each = search.lesson.epochs;
            let in_candidate = if search.candidate < search.keeps.len() { search.lesson.epoch } else { 0 };
            (search.candidate * each + in_candidate, search.keeps.len() * each)
        })
    }

    fn answers(&self) -> Result<Box<dyn Answers>> {
        let model = without_gradients(&self.model);
        let layers = model.layers.iter().map(|layer| layer.iter().map(FrozenFunctional::new).collect());
        Ok(Box::new(Paths {
            layers: layers.collect::<Result<Vec<Vec<_>>>>()?,
            heads: model.heads,
            paths: self.paths.clone(),
        }))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn capacity(&self) -> Capacity {
        let classes = self.model.heads.last().map_or(0, Classifier::classes);
        let head = (self.network.features() * classes) as u64;
        Capacity {
            modules: self.modules(),
            parameters: parameters([&self.model]),
            multiply_adds: layer_multiply_adds(&self.network).iter().sum::<u64>() + head,
        }
    }

    fn state(&self) -> Result<State> {
        let mut tensors = Vec::new();
        let search = self.search.as_ref().map(|search| {
            let lesson = search.lesson.save(&mut tensors);
            tensors.extend(prefixed("suffix", plain(&search.suffix)));
            let best = search.best.as_ref().map(|(candidate, accuracy, epoch, suffix)| {
                tensors.extend(prefixed("found", plain(suffix)));
                (candidate, accuracy, epoch)
            });
            json!({
                "task": search.task, "classes": search.classes, "prior": search.prior, "keeps": search.keeps,
                "candidate": search.candidate, "lesson": lesson, "best": best, "accuracies": search.accuracies,
            })
        });
        let heads: Vec<usize> = self.model.heads.iter().map(Classifier::classes).collect();
        let document =
            json!({ "modules": self.modules(), "heads": heads, "paths": self.paths, "search": search });
        Ok(state_of(document, &self.model, tensors))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let document = &state.document;
        let bad = || Error::setting("checkpoint", "its paths do not fit its modules", "start the run anew");
        let modules: Vec<usize> = parse(&document["modules"])?;
        let heads: Vec<usize> = parse(&document["heads"])?;
        let configs = self.network.layers();
        if modules.len() != configs.len() {
            return Err(bad());
        }
        let layer = |(config, &modules): (&lmc::module::ModuleConfig, &usize)| {
            (0..modules).map(|_| config.functional.init(&self.seed, &self.device)).collect()
        };
        self.model.layers = configs.iter().zip(&modules).map(layer).collect();
        let features = self.network.features();
        let head = |&classes: &usize| Classifier::new(features, classes, &self.seed, &self.device);
        self.model.heads = heads.iter().map(head).collect();
        fill_model(&mut self.model, &state.tensors)?;
        self.paths = parse(&document["paths"])?;
        let fits = |path: &Vec<usize>| {
            path.len() == modules.len() && path.iter().zip(&modules).all(|(module, modules)| module < modules)
        };
        if self.paths.len() != heads.len() || !self.paths.iter().all(fits) {
            return Err(bad());
        }
        self.cache = None;
        self.search = None;
        let search = &document["search"];
        if search.is_null() {
            return Ok(());
        }
        let (keeps, candidate): (Vec<usize>, usize) =
            (parse(&search["keeps"])?, parse(&search["candidate"])?);
        let classes: usize = parse(&search["classes"])?;
        let read = |candidate: usize, name: &str| -> Result<Suffix> {
            let kept = keeps.get(candidate).or(keeps.last()).copied().unwrap_or(0);
            let mut suffix = self.suffix(candidate, kept, classes);
            fill_from(&mut suffix, below(name, &state.tensors).into_values().collect())?;
            Ok(suffix)
        };
        let mut suffix = read(candidate, "suffix")?;
        train(&mut suffix);
        let best: Option<(usize, f64, usize)> = parse(&search["best"])?;
        let best = match best {
            Some((candidate, accuracy, epoch)) => {
                let mut suffix = read(candidate, "found")?;
                freeze(&mut suffix);
                Some((candidate, accuracy, epoch, suffix))
            }
            None => None,
        };
        self.search = Some(Search {
            task: parse(&search["task"])?,
            classes,
            prior: parse(&search["prior"])?,
            candidate,
            lesson: Lesson::load(&search["lesson"], &state.tensors, &self.config.training, &self.device)?,
            suffix,
            best,
            accuracies: parse(&search["accuracies"])?,
            keeps,
        });
        Ok(())
    }
}
