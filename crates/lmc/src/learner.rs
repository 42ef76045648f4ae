//! The learner: tasks come one after the other, and the network grows (paper algorithm 1).
//!
//! [`Learner::begin`] opens a task, [`Learner::epoch`] learns it once through, [`Learner::finish`] restores the state that
//! was best on the validation images and freezes everything. [`Learner::learn`] is the three in a loop. Between epochs
//! the learner is all there is: what it holds can be saved ([`crate::checkpoint`]) and goes on bit for bit.

use burn::tensor::Device;
use lmc_streams::{Seed, TaskSet};
use serde::{Deserialize, Serialize};

use crate::adam::OptimiserConfig;
use crate::composition::CompositionConfig;
use crate::error::{Error, Result};
use crate::events::Event;
use crate::expansion::ExpansionConfig;
use crate::lesson::{Caches, Lesson};
use crate::module::Origin;
use crate::network::{Network, NetworkConfig};
use crate::novelty::NoveltyConfig;
use crate::prediction::{PredictionConfig, Predictor};
use crate::projection::ProjectionConfig;
use crate::statistics::StatisticsConfig;

/// The method and its hyperparameters; see [`crate::presets`] for those of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnerConfig {
    /// How scores become weights.
    pub composition: CompositionConfig,
    /// How unusual a batch is.
    pub statistics: StatisticsConfig,
    /// When and how modules are added.
    pub expansion: ExpansionConfig,
    /// How new modules are made to fit.
    pub projection: ProjectionConfig,
    /// How parameters are trained.
    pub optimiser: OptimiserConfig,
    /// How the model answers.
    pub prediction: PredictionConfig,
    /// When an image counts as new.
    pub novelty: NoveltyConfig,
    /// λ, the weight of the structural losses, 0 or more; 10 by default.
    pub structural_weight: f64,
    /// Whether functional components are trained to be told by their own decoders; false by default. Paper: says so.
    pub joint_autoencoder: bool,
    /// Whether batch norms of learned modules follow the data; false by default.
    pub adapt_batch_norm: bool,
    /// Images per batch, 1 or more; 64 by default.
    pub batch: usize,
    /// Epochs per task, 1 or more; 100 by default.
    pub epochs: usize,
    /// Instead, for tasks of 1000 training images or more; 0, the default, for no difference.
    pub epochs_large: usize,
    /// Memory in MiB for what learned modules say about the images of the task; 2048 by default.
    pub cache_mib: usize,
}

impl Default for LearnerConfig {
    fn default() -> Self {
        Self {
            composition: CompositionConfig::default(),
            statistics: StatisticsConfig::default(),
            expansion: ExpansionConfig::default(),
            projection: ProjectionConfig::default(),
            optimiser: OptimiserConfig::default(),
            prediction: PredictionConfig::default(),
            novelty: NoveltyConfig::default(),
            structural_weight: 10.0,
            joint_autoencoder: false,
            adapt_batch_norm: false,
            batch: 64,
            epochs: 100,
            epochs_large: 0,
            cache_mib: 2048,
        }
    }
}

impl LearnerConfig {
    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        self.composition.check()?;
        self.expansion.check()?;
        self.optimiser.check()?;
        self.novelty.check()?;
        if self.statistics.window < 3 {
            return Err(Error::setting("statistics.window", "too short for a spread", "use 3 or more"));
        }
        if !(self.structural_weight.is_finite() && self.structural_weight >= 0.0) {
            let problem = format!("{} is not possible", self.structural_weight);
            return Err(Error::setting("structural_weight", problem, "use 0 or more"));
        }
        for (field, value) in [("batch", self.batch), ("epochs", self.epochs)] {
            if value == 0 {
                return Err(Error::setting(field, "it is 0", "use 1 or more"));
            }
        }
        Ok(())
    }
}

/// Tasks from this many training images on are large.
pub const LARGE: usize = 1000;

/// What is to be learned.
#[derive(Clone, Copy, Debug)]
pub struct Material<'a> {
    /// The task's name, unique in the model.
    pub task: &'a str,
    /// Class names in label order.
    pub classes: &'a [String],
    /// To learn from.
    pub train: &'a TaskSet,
    /// To choose the best epoch by; may be empty, and then the last one is kept.
    pub val: &'a TaskSet,
}

/// What became of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Its name.
    pub task: String,
    /// The epoch whose state was kept, from 0.
    pub best_epoch: usize,
    /// Epochs that were run.
    pub epochs: usize,
    /// Validation accuracy of the state that was kept, with the task given.
    pub val_accuracy: Option<f64>,
    /// Modules per layer before.
    pub modules_before: Vec<usize>,
    /// Modules per layer after.
    pub modules: Vec<usize>,
}

/// A network and the method that grows it.
#[derive(Clone, Debug)]
pub struct Learner {
    /// The network.
    pub network: Network,
    /// The method.
    pub config: LearnerConfig,
    /// The root seed.
    pub seed: u64,
    /// The task that is being learned.
    pub lesson: Option<Lesson>,
    pub(crate) caches: Caches,
}

impl Learner {
    /// A learner that knows nothing.
    pub fn new(network: &NetworkConfig, config: LearnerConfig, seed: u64, device: &Device) -> Result<Self> {
        config.check()?;
        Ok(Self::with(network.init(&device.clone().autodiff())?, config, seed))
    }

    /// A learner that goes on with a network.
    pub fn with(network: Network, config: LearnerConfig, seed: u64) -> Self {
        Self { network, config, seed, lesson: None, caches: Caches::default() }
    }

    /// Learns a task from beginning to end, or goes on with it. `listen` may stop it after an epoch by an error.
    pub fn learn(
        &mut self,
        material: Material<'_>,
        listen: &mut dyn FnMut(&Self, Event) -> Result<()>,
    ) -> Result<Learned> {
        if self.lesson.is_none() {
            self.begin(material)?;
        }
        self.announce(listen)?;
        while self.lesson.as_ref().is_some_and(|lesson| lesson.epoch < lesson.epochs) {
            self.epoch(material, listen)?;
        }
        let learned = self.finish()?;
        self.calibrate(self.network.heads.len() - 1, material.val)?;
        let event = Event::TaskLearned {
            task: learned.task.clone(),
            best_epoch: learned.best_epoch,
            val_accuracy: learned.val_accuracy,
            modules: learned.modules.clone(),
        };
        listen(self, event)?;
        Ok(learned)
    }

    fn announce(&self, listen: &mut dyn FnMut(&Self, Event) -> Result<()>) -> Result<()> {
        let Some(lesson) = &self.lesson else { return Ok(()) };
        let event = Event::TaskStarted {
            task: lesson.task.clone(),
            number: lesson.number,
            epochs: lesson.epochs,
            epoch: lesson.epoch,
            modules: self.network.modules(),
        };
        listen(self, event)
    }

    /// Opens a task: a new head and, if there are none yet, first modules.
    pub fn begin(&mut self, material: Material<'_>) -> Result<()> {
        self.check(material)?;
        let number = self.network.heads.len();
        let seed = self.task_seed(number);
        let modules = self.network.modules();
        let origin = Origin {
            task: material.task.to_owned(),
            number,
            epoch: 0,
            step: 0,
            from: "random numbers".into(),
            model: None,
        };
        let first = modules.contains(&0);
        self.network.add_first_modules(&origin, &seed.named("modules"))?;
        self.network.add_head(material.task, material.classes, &seed.named("head"));
        let steps = material.train.len().div_ceil(self.config.batch);
        let mut lesson = Lesson::new(&self.config, origin, modules, steps, first);
        if material.train.len() >= LARGE && self.config.epochs_large > 0 {
            lesson.epochs = self.config.epochs_large;
        }
        self.lesson = Some(lesson);
        self.caches = Caches::default();
        Ok(())
    }

    fn check(&self, material: Material<'_>) -> Result<()> {
        let Material { task, classes, train, .. } = material;
        let fail = |problem: String, cure: &str| Err(Error::setting(format!("task '{task}'"), problem, cure));
        if let Some(lesson) = &self.lesson {
            return fail(format!("task '{}' is not finished", lesson.task), "finish it first");
        }
        if self.network.heads.iter().any(|head| head.task == task) {
            return fail("the model has learned it already".into(), "choose another name");
        }
        if classes.len() < 2 {
            return fail(format!("it has {} classes", classes.len()), "give it two or more");
        }
        if train.is_empty() {
            return fail("it has no training images".into(), "give it some");
        }
        let (shape, config) = (train.shape(), &self.network.config);
        if [shape.channels, shape.height, shape.width] != [config.channels, config.size, config.size] {
            let problem = format!(
                "its images are {}x{}x{} and the network takes {}x{}x{} (channels x rows x columns)",
                shape.channels, shape.height, shape.width, config.channels, config.size, config.size
            );
            return fail(problem, "bring the images to that shape");
        }
        Ok(())
    }

    /// Closes a task: restores the best state and freezes it.
    pub fn finish(&mut self) -> Result<Learned> {
        let Some(lesson) = self.lesson.take() else {
            return Err(Error::setting("learner", "no task is being learned", "begin one"));
        };
        let (mut best_epoch, mut val_accuracy) = (lesson.epoch.saturating_sub(1), None);
        if let Some(best) = lesson.best {
            self.network = best.network;
            (best_epoch, val_accuracy) = (best.epoch, Some(best.accuracy));
        }
        self.network.freeze()?;
        let sees = self.network.modules().into_iter().map(|modules| 0..modules).collect();
        self.network.heads[lesson.number].sees = Some(sees);
        self.caches = Caches::default();
        Ok(Learned {
            task: lesson.task,
            best_epoch,
            epochs: lesson.epoch,
            val_accuracy,
            modules_before: lesson.modules_before,
            modules: self.network.modules(),
        })
    }

    /// Lets the batch norms of all modules follow unlabelled images; nothing else changes. The paper's warm-up before its
    /// out-of-distribution tests.
    pub fn warm_up(&mut self, set: &TaskSet, batches: usize, seed: &Seed) -> Result<()> {
        crate::lesson::warm_up(self, set, batches, seed)
    }

    /// The network as it is now, for answering.
    pub fn predictor(&self) -> Result<Predictor> {
        self.network.predictor(&self.config.composition, self.config.prediction)
    }

    pub(crate) fn task_seed(&self, number: usize) -> Seed {
        Seed::root(self.seed).named("task").numbered(number as u64)
    }
}
