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
use lmc::functional::Functional;
use lmc::module::FrozenFunctional;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::tensors::{Visitor, Walk, join, train, values, without_gradients};
use lmc::{Error, Learned, Material, Result};
use lmc_streams::{Normalisation, Seed, TaskSet};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::neighbours::{Kept, neighbour_accuracy};
use self::paths::Paths;
use crate::method::{Answers, Capacity, Listen, Method};
use crate::monolith::nothing_open;
use crate::pool::{Pool, new_modules};
use crate::registry::MethodConfig;
use crate::search::{Place, Search};
use crate::tally::Tally;
use crate::training::{TrainingConfig, cross_entropy, fill_model, parse, right, state_of};
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
            pool: Pool::new(network),
            paths: Vec::new(),
            open: None,
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
    pool: Pool,
    /// The module of each layer, by task.
    paths: Vec<Vec<usize>>,
    open: Option<Open>,
    /// Not part of the state: it can be computed again.
    cache: Option<Cache>,
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

/// A task whose path is searched for.
#[derive(Clone, Debug)]
struct Open {
    /// The task whose path candidates keep the lower part of; `None` for the first task.
    prior: Option<usize>,
    search: Search<Suffix>,
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
            FrozenFunctional::new(&without_gradients(&self.pool.layers[layer][module]))
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

    /// New modules above the kept layers, and a new head.
    fn suffix(&self, Place { candidate, from, classes }: Place) -> Suffix {
        let seed = self.seed.named("task").numbered(self.paths.len() as u64).numbered(candidate as u64);
        let mut suffix = Suffix {
            modules: new_modules(&self.network, from, &seed, &self.device),
            head: Classifier::new(self.network.features(), classes, &seed.named("head"), &self.device),
        };
        train(&mut suffix);
        suffix
    }

    /// The cache for the candidate that is being trained.
    fn fill_cache(&mut self, open: &Open, material: Material<'_>) -> Result<()> {
        let Place { candidate, from, .. } = open.search.now();
        if self.cache.as_ref().is_some_and(|cache| cache.candidate == candidate) {
            return Ok(());
        }
        let prefix = match open.prior {
            Some(prior) => self.prefix(prior, from)?,
            None => Vec::new(),
        };
        let scale = self.config.training.normalisation(material.train);
        self.cache = Some(Cache {
            candidate,
            train: self.kept(&prefix, material.train, scale.as_ref())?,
            val: self.kept(&prefix, material.val, scale.as_ref())?,
        });
        Ok(())
    }

    /// Share of kept validation images that a suffix tells right; `None` if there are none.
    fn validate(&self, suffix: &Suffix, val: &Kept) -> Result<Option<f64>> {
        if val.labels.is_empty() {
            return Ok(None);
        }
        let suffix = without_gradients(suffix);
        let layers = suffix.modules.iter().map(FrozenFunctional::new).collect::<Result<Vec<_>>>()?;
        let places: Vec<u32> = (0..val.labels.len() as u32).collect();
        let mut told = 0;
        for positions in places.chunks(self.config.training.batch) {
            let (mut x, labels) = val.batch(positions, &self.device.clone().inner());
            for layer in &layers {
                x = layer.forward(x)?;
            }
            told += right(&suffix.head.logits(x.flatten(1, 3)), &labels);
        }
        Ok(Some(told as f64 / places.len() as f64))
    }
}

impl Method for Mntdp {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        let prior = self.prior(material)?;
        let (number, depth) = (self.paths.len(), self.network.depth);
        let search = Search::new(&self.config.training, material, number, depth, |place| self.suffix(place));
        self.open = Some(Open { prior, search });
        self.cache = None;
        Ok(())
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        let mut open = self.open.take().ok_or_else(nothing_open)?;
        self.fill_cache(&open, material)?;
        let Some(cache) = &self.cache else { return Err(nothing_open()) };
        let search = &mut open.search;
        let (epoch, epochs) = search.progress();
        let seed = self.seed.named("batches").numbered(search.lesson.number as u64).numbered(epoch as u64);
        let order = seed.random().permutation(cache.train.labels.len());
        let batches = order.chunks(self.config.training.batch);
        let mut tally = Tally::new(material.task, epoch, epochs, batches.len());
        for positions in batches {
            let (mut x, labels) = cache.train.batch(positions, &self.device);
            for functional in &mut search.parts.modules {
                x = functional.forward(x, false)?;
            }
            let logits = search.parts.head.logits(x.flatten(1, 3));
            let loss = cross_entropy(logits.clone(), &labels);
            tally.batch(&loss, &logits, &labels, listen)?;
            search.lesson.adam.step(&mut search.parts, &mut loss.backward());
        }
        let val_accuracy = self.validate(&search.parts, &cache.val)?;
        search.end_epoch(val_accuracy, &self.config.training, material, |place| self.suffix(place))?;
        let more = search.more();
        self.open = Some(open);
        tally.end(val_accuracy, self.pool.modules(), listen)?;
        Ok(more)
    }

    fn finish(&mut self, _: Material<'_>) -> Result<Learned> {
        let open = self.open.take().ok_or_else(nothing_open)?;
        self.cache = None;
        let (found, learned) = open.search.found().ok_or_else(nothing_open)?;
        let modules_before = self.pool.modules();
        let mut path: Vec<usize> = match open.prior {
            Some(prior) => self.paths[prior][..found.from].to_vec(),
            None => Vec::new(),
        };
        path.extend(&modules_before[path.len()..]);
        self.paths.push(path);
        self.pool.add(found.from, found.parts.modules, found.parts.head);
        Ok(Learned { modules_before, modules: self.pool.modules(), ..learned })
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.open.as_ref().map(|open| open.search.progress())
    }

    fn answers(&self) -> Result<Box<dyn Answers>> {
        let pool = without_gradients(&self.pool);
        let layers = pool.layers.iter().map(|layer| layer.iter().map(FrozenFunctional::new).collect());
        Ok(Box::new(Paths {
            layers: layers.collect::<Result<Vec<Vec<_>>>>()?,
            heads: pool.heads,
            paths: self.paths.clone(),
        }))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn capacity(&self) -> Capacity {
        let classes = self.pool.heads.last().map_or(0, Classifier::classes);
        let head = (self.network.features() * classes) as u64;
        Capacity {
            modules: self.pool.modules(),
            parameters: parameters([&self.pool]),
            multiply_adds: layer_multiply_adds(&self.network).iter().sum::<u64>() + head,
        }
    }

    fn state(&self) -> Result<State> {
        let mut tensors = Vec::new();
        let open = self
            .open
            .as_ref()
            .map(|open| json!({ "prior": open.prior, "search": open.search.save(&mut tensors) }));
        let document = json!({ "pool": self.pool.document(), "paths": self.paths, "open": open });
        Ok(state_of(document, &self.pool, tensors))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let document = &state.document;
        self.pool = Pool::empty(&document["pool"], &self.network, &self.device)?;
        fill_model(&mut self.pool, &state.tensors)?;
        self.paths = parse(&document["paths"])?;
        let modules = self.pool.modules();
        let fits = |path: &Vec<usize>| {
            path.len() == modules.len() && path.iter().zip(&modules).all(|(module, modules)| module < modules)
        };
        if self.paths.len() != self.pool.heads.len() || !self.paths.iter().all(fits) {
            let problem = "its paths do not fit its modules";
            return Err(Error::setting("checkpoint", problem, "start the run anew"));
        }
        self.cache = None;
        self.open = None;
        let open = &document["open"];
        if !open.is_null() {
            let (config, suffix) = (&self.config.training, |place| self.suffix(place));
            let search = Search::load(&open["search"], &state.tensors, config, &self.device, suffix)?;
            self.open = Some(Open { prior: parse(&open["prior"])?, search });
        }
        Ok(())
    }
}
