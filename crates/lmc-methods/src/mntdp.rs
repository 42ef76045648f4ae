//! MNTDP: a network of modules, one path of which serves each task (Veniat and others 2021; specification §2.5, as the
//! paper's authors ran it).
//!
//! For a new task the stored path whose features separate its classes best, by nearest neighbours, is taken as prior.
//! Candidates keep a lower part of it, frozen, and have new modules above: none, one, …, all. Each is trained, and the one
//! with the best validation accuracy stays. At test the task ID gives path and head; MNTDP(A) takes the path whose
//! predictions have the lowest entropy. The output of a frozen part is computed once per candidate for all images.

mod neighbours;
mod paths;

use burn::tensor::Device;
use lmc::internals::inference::evaluation::Classify;
use lmc::internals::module::FrozenFunctional;
use lmc::internals::module::functional::Functional;
use lmc::internals::tensors::{
    Visitor, Walk, correct, images, join, parameter_count, train, values, without_gradients,
};
use lmc::internals::training::checkpoint::State;
use lmc::internals::training::step::cross_entropy;
use lmc::{Error, Event, NetworkConfig, Result, TaskData, TaskReport};
use lmc_streams::{Normalisation, Seed, TaskSet};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::neighbours::{CachedMaps, neighbour_accuracy};
use self::paths::PathClassifier;
use crate::checkpoint::{damaged, fill_model, parse, state_of};
use crate::method::{Capacity, Listen, Method, no_open_task};
use crate::module_pool::{ModulePool, new_modules};
use crate::registry::MethodConfig;
use crate::search::{CandidateSpec, Search};
use crate::training::{TrainingConfig, count_batch};
use crate::trunk::{LinearHead, layer_multiply_adds};

/// The images whose nearest neighbours are looked up.
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
    /// Hyperparameters of training, the same for each candidate.
    pub training: TrainingConfig,
    /// Nearest neighbours that vote for the prior path, 1 or more; 5 by default.
    pub neighbours: usize,
    /// The images whose nearest neighbours are looked up; `validation` by default.
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
            pool: ModulePool::new(network),
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
    pool: ModulePool,
    /// The module of each layer, by task.
    paths: Vec<Vec<usize>>,
    open: Option<PathSearch>,
    /// Output of the kept layers of the current candidate; not part of the state, as it can be computed again.
    cache: Option<CandidateCache>,
}

/// New modules and head of a candidate, above the layers that it keeps.
#[derive(Clone, Debug)]
struct Suffix {
    modules: Vec<Functional>,
    head: LinearHead,
}

impl Walk for Suffix {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, functional) in self.modules.iter_mut().enumerate() {
            functional.walk(&join(path, &format!("module{number}")), visitor);
        }
        self.head.walk(&join(path, "head"), visitor);
    }
}

/// The open task, while its path is searched for.
#[derive(Clone, Debug)]
struct PathSearch {
    /// The task of whose path candidates keep the lower part; `None` for the first task.
    prior: Option<usize>,
    search: Search<Suffix>,
}

/// Output of the kept layers of a candidate for the images of a task.
#[derive(Clone, Debug)]
struct CandidateCache {
    candidate: usize,
    train: CachedMaps,
    val: CachedMaps,
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

    /// Feature maps of a set of a task behind frozen layers.
    fn cached_maps(
        &self,
        prefix: &[FrozenFunctional],
        data: TaskData<'_>,
        set: &TaskSet,
        scale: Option<&Normalisation>,
    ) -> Result<CachedMaps> {
        let device = self.device.clone().inner();
        let shape = set.shape();
        let mut maps = CachedMaps {
            values: Vec::new(),
            shape: [shape.channels, shape.height, shape.width],
            labels: Vec::new(),
        };
        if set.is_empty() {
            return Ok(maps);
        }
        for batch in self.config.training.stored(scale).init(set)? {
            data.check_stop()?;
            let mut x = images(&batch, &device);
            for layer in prefix {
                x = layer.forward(x)?;
            }
            let [_, channels, height, width] = x.dims();
            maps.shape = [channels, height, width];
            maps.values.extend(values(&x));
            maps.labels.extend(&batch.labels);
        }
        Ok(maps)
    }

    /// The task whose path separates the classes of the new task best by nearest neighbours, the first of equals.
    fn prior(&self, data: TaskData<'_>) -> Result<Option<usize>> {
        if self.paths.len() < 2 {
            return Ok((self.paths.len() == 1).then_some(0));
        }
        let scale = self.config.training.normalisation(data.train);
        let mut best: Option<(usize, f64)> = None;
        for task in 0..self.paths.len() {
            let prefix = self.prefix(task, self.network.depth)?;
            let train = self.cached_maps(&prefix, data, data.train, scale.as_ref())?;
            let accuracy = match self.config.prior_by {
                PriorBy::Training => {
                    neighbour_accuracy(&train, &train, self.config.neighbours, || data.check_stop())?
                }
                PriorBy::Validation => {
                    let val = self.cached_maps(&prefix, data, data.val, scale.as_ref())?;
                    neighbour_accuracy(&train, &val, self.config.neighbours, || data.check_stop())?
                }
            };
            if best.is_none_or(|(_, known)| accuracy > known) {
                best = Some((task, accuracy));
            }
        }
        Ok(best.map(|(task, _)| task))
    }

    /// New modules above the kept layers, and a new head.
    fn suffix(&self, CandidateSpec { candidate, from, classes }: CandidateSpec) -> Suffix {
        let seed = self.seed.named("task").numbered(self.paths.len() as u64).numbered(candidate as u64);
        let mut suffix = Suffix {
            modules: new_modules(&self.network, from, &seed, &self.device),
            head: LinearHead::new(self.network.features(), classes, &seed.named("head"), &self.device),
        };
        train(&mut suffix);
        suffix
    }

    /// Fills the cache for the current candidate, unless it is filled.
    fn fill_cache(&mut self, open: &PathSearch, data: TaskData<'_>) -> Result<()> {
        let CandidateSpec { candidate, from, .. } = open.search.current();
        if self.cache.as_ref().is_some_and(|cache| cache.candidate == candidate) {
            return Ok(());
        }
        let prefix = match open.prior {
            Some(prior) => self.prefix(prior, from)?,
            None => Vec::new(),
        };
        let scale = self.config.training.normalisation(data.train);
        self.cache = Some(CandidateCache {
            candidate,
            train: self.cached_maps(&prefix, data, data.train, scale.as_ref())?,
            val: self.cached_maps(&prefix, data, data.val, scale.as_ref())?,
        });
        Ok(())
    }

    /// Trains the current candidate for an epoch and validates it; gives the event of the epoch's end.
    fn train_once(
        &self,
        search: &mut Search<Suffix>,
        data: TaskData<'_>,
        listen: Listen<'_>,
    ) -> Result<Event> {
        let Some(cache) = &self.cache else { return Err(no_open_task()) };
        let (epoch, epochs) = search.progress();
        let seed = self.seed.named("batches").numbered(search.training.number as u64).numbered(epoch as u64);
        let order = seed.random().permutation(cache.train.labels.len());
        let batches = order.chunks(self.config.training.batch);
        let done = search.begin_epoch(batches.len());
        for positions in batches.skip(done) {
            let (mut x, labels) = cache.train.batch(positions, &self.device);
            for functional in &mut search.parts.modules {
                x = functional.forward(x, false)?;
            }
            let logits = search.parts.head.logits(x.flatten(1, 3));
            let loss = cross_entropy(logits.clone(), &labels);
            let event = count_batch(&mut search.training.under_way, &loss, &logits, &labels)?;
            search.training.adam.step(&mut search.parts, &mut loss.backward());
            listen(event)?;
        }
        let val_accuracy = self.validate(&search.parts, &cache.val, data)?;
        let metrics =
            search.end_epoch(val_accuracy, &self.config.training, data, |spec| self.suffix(spec))?;
        Ok(metrics.end(epochs, val_accuracy, self.pool.modules()))
    }

    /// Share of cached validation images that a suffix classifies correctly; `None` if there are none.
    fn validate(&self, suffix: &Suffix, val: &CachedMaps, data: TaskData<'_>) -> Result<Option<f64>> {
        if val.labels.is_empty() {
            return Ok(None);
        }
        let suffix = without_gradients(suffix);
        let layers = suffix.modules.iter().map(FrozenFunctional::new).collect::<Result<Vec<_>>>()?;
        let all: Vec<u32> = (0..val.labels.len() as u32).collect();
        let mut right = 0;
        for positions in all.chunks(self.config.training.batch) {
            data.check_stop()?;
            let (mut x, labels) = val.batch(positions, &self.device.clone().inner());
            for layer in &layers {
                x = layer.forward(x)?;
            }
            right += correct(&suffix.head.logits(x.flatten(1, 3)), &labels);
        }
        Ok(Some(right as f64 / all.len() as f64))
    }
}

impl Method for Mntdp {
    fn begin(&mut self, data: TaskData<'_>) -> Result<()> {
        let prior = self.prior(data)?;
        let (number, depth) = (self.paths.len(), self.network.depth);
        let search = Search::new(&self.config.training, data, number, depth, |spec| self.suffix(spec));
        self.open = Some(PathSearch { prior, search });
        self.cache = None;
        Ok(())
    }

    fn epoch(&mut self, data: TaskData<'_>, listen: Listen<'_>) -> Result<bool> {
        let mut open = self.open.take().ok_or_else(no_open_task)?;
        // The search goes on whatever happens: a listener that fails must not lose it.
        let ended =
            self.fill_cache(&open, data).and_then(|()| self.train_once(&mut open.search, data, listen));
        let more = !open.search.is_done();
        self.open = Some(open);
        listen(ended?)?;
        Ok(more)
    }

    fn finish(&mut self, _: TaskData<'_>) -> Result<TaskReport> {
        let open = self.open.take().ok_or_else(no_open_task)?;
        self.cache = None;
        let (found, report) = open.search.best().ok_or_else(no_open_task)?;
        let modules_before = self.pool.modules();
        let mut path: Vec<usize> = match open.prior {
            Some(prior) => self.paths[prior][..found.from].to_vec(),
            None => Vec::new(),
        };
        path.extend(&modules_before[path.len()..]);
        self.paths.push(path);
        self.pool.add(found.from, found.parts.modules, found.parts.head);
        Ok(TaskReport { modules_before, modules: self.pool.modules(), ..report })
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.open.as_ref().map(|open| open.search.progress())
    }

    fn classifier(&self) -> Result<Box<dyn Classify>> {
        let pool = without_gradients(&self.pool);
        let layers = pool.layers.iter().map(|layer| layer.iter().map(FrozenFunctional::new).collect());
        Ok(Box::new(PathClassifier {
            layers: layers.collect::<Result<Vec<Vec<_>>>>()?,
            heads: pool.heads,
            paths: self.paths.clone(),
        }))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn capacity(&self) -> Capacity {
        let classes = self.pool.heads.last().map_or(0, LinearHead::classes);
        let head = (self.network.features() * classes) as u64;
        Capacity {
            modules: self.pool.modules(),
            parameters: parameter_count(&self.pool),
            multiply_adds: layer_multiply_adds(&self.network).iter().sum::<u64>() + head,
        }
    }

    fn state(&self) -> Result<State> {
        let mut tensors = Vec::new();
        let open = match &self.open {
            Some(open) => json!({ "prior": open.prior, "search": open.search.save(&mut tensors)? }),
            None => Value::Null,
        };
        let document = json!({ "pool": self.pool.document(), "paths": self.paths, "open": open });
        Ok(state_of(document, &self.pool, tensors))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let document = &state.document;
        self.pool = ModulePool::empty(&document["pool"], &self.network, &self.device)?;
        fill_model(&mut self.pool, &state.tensors)?;
        self.paths = parse(&document["paths"])?;
        let modules = self.pool.modules();
        let fits = |path: &Vec<usize>| {
            path.len() == modules.len() && path.iter().zip(&modules).all(|(module, modules)| module < modules)
        };
        if self.paths.len() != self.pool.heads.len() || !self.paths.iter().all(fits) {
            return Err(damaged("its paths do not fit its modules"));
        }
        self.cache = None;
        self.open = None;
        let open = &document["open"];
        if !open.is_null() {
            let (config, suffix) = (&self.config.training, |spec| self.suffix(spec));
            let search = Search::load(&open["search"], &state.tensors, config, &self.device, suffix)?;
            self.open = Some(PathSearch { prior: parse(&open["prior"])?, search });
        }
        Ok(())
    }
}
