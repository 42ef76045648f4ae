//! The model: a network, the hyperparameters that grow it, and how its pictures are prepared. This is the facade.
//!
//! [`Model::learn`] learns a task from beginning to end (paper algorithm 1), [`Model::predict`] classifies a picture,
//! [`Model::save`] and [`Model::load`] are the model file, [`Model::merge`] makes one model of several.
//!
//! Learning in smaller steps: [`Model::begin`] opens a task, [`Model::epoch`] trains it once through, [`Model::finish`]
//! restores the state that was best on the validation images, freezes everything and calibrates novelty. Between these
//! calls, and when an observer has ended one by an error, the model is all there is: its state can be saved
//! ([`Model::save_checkpoint`]) and training resumes bit for bit.

use burn::tensor::Device;
use lmc_streams::names::check_name;
use lmc_streams::{BatchConfig, Picture, Preparation, Seed, Task, TaskSet};

use crate::error::{Error, Result};
use crate::events::Event;
use crate::file::history::{Act, History, LearnedFrom};
use crate::file::record::has_duplicates;
use crate::growth::gain::{DropReason, DroppedModules, costs_more_than_it_gains};
use crate::growth::projection::Phase;
use crate::inference::evaluation::{Evaluation, Evaluator, Protocol, TestSet};
use crate::merge::{MergeReport, merge};
use crate::module::Origin;
use crate::module::statistics::StatisticsSource;
use crate::network::head::{self, Head};
use crate::network::{Network, NetworkConfig};
use crate::prediction::Prediction;
use crate::presets::Preset;
use crate::tensors::images;
use crate::training::config::LearnerConfig;
use crate::training::epoch::TaskCaches;
use crate::training::step::GrowingTask;
use crate::training::{TaskData, TaskReport, TaskTraining};

/// Receives the events of learning. An error ends the training, and the task resumes exactly: with the next step after
/// [`Event::Step`], with the next epoch after [`Event::EpochEnded`]. A checkpoint of a step is written once the call that
/// trains has returned, as the model that an observer sees inside an epoch is not whole; one of an epoch, at its event.
pub type Observer<'a> = dyn FnMut(&Model, Event) -> Result<()> + 'a;

/// Settings of a new model. [`ModelConfig::init`] makes it.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// Sizes of the network.
    pub network: NetworkConfig,
    /// Hyperparameters of the method.
    pub learner: LearnerConfig,
    /// How pictures are prepared; size and channels are those of the network.
    pub preparation: Preparation,
    /// Root of all randomness; 180 by default.
    pub seed: u64,
    /// Device that computes; the CPU by default.
    pub device: Device,
}

impl ModelConfig {
    /// Settings of a preset, with the sizes of the paper's network.
    pub fn new(preset: Preset) -> Self {
        Self {
            network: NetworkConfig::default(),
            learner: preset.learner(),
            preparation: Preparation::default(),
            seed: 180,
            device: Device::flex(),
        }
    }

    /// Sets the number of channels of all maps; 64 by default.
    pub fn width(mut self, width: usize) -> Self {
        self.network.width = width;
        self
    }

    /// Sets the number of layers; 4 by default.
    pub fn depth(mut self, depth: usize) -> Self {
        self.network.depth = depth;
        self
    }

    /// Sets the side of the images in pixels; 32 by default.
    pub fn image_size(mut self, pixels: usize) -> Self {
        self.network.size = pixels;
        self
    }

    /// Sets the channels of the images, 1 (grey) or 3; 3 by default.
    pub fn channels(mut self, channels: usize) -> Self {
        self.network.channels = channels;
        self
    }

    /// Sets the root seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the device that computes.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// Makes a model that knows no task.
    pub fn init(self) -> Result<Model> {
        self.learner.check()?;
        let network = self.network.init(&self.device.autodiff())?;
        let NetworkConfig { size, channels, .. } = network.config;
        let preparation = Preparation { size, channels, ..self.preparation };
        preparation.check()?;
        Ok(Model::with(network, self.learner, preparation, self.seed))
    }
}

/// A network that grows task by task.
#[derive(Clone, Debug)]
pub struct Model {
    /// Layers of modules, and a head for each task.
    pub network: Network,
    /// Hyperparameters of the method.
    pub config: LearnerConfig,
    /// How pictures are prepared.
    pub preparation: Preparation,
    /// Root of all randomness.
    pub seed: u64,
    /// What the model went through.
    pub history: History,
    pub(crate) training: Option<GrowingTask>,
    pub(crate) caches: TaskCaches,
}

impl Model {
    /// Makes a model that knows no task, with the settings of a preset.
    pub fn new(preset: Preset) -> Result<Self> {
        ModelConfig::new(preset).init()
    }

    /// Puts a model together from its parts.
    pub(crate) fn with(network: Network, config: LearnerConfig, preparation: Preparation, seed: u64) -> Self {
        let (history, caches) = (History::default(), TaskCaches::default());
        Self { network, config, preparation, seed, history, training: None, caches }
    }

    /// Learns a task from beginning to end, or resumes it if it is open.
    pub fn learn<'a>(&mut self, data: impl Into<TaskData<'a>>) -> Result<TaskReport> {
        self.learn_with(data, &mut |_, _| Ok(()))
    }

    /// Learns a task; an observer receives every event and can end the training by an error.
    pub fn learn_with<'a>(
        &mut self,
        data: impl Into<TaskData<'a>>,
        observer: &mut Observer<'_>,
    ) -> Result<TaskReport> {
        let data = data.into();
        if self.training.is_none() {
            self.begin(data)?;
        }
        self.check_open(data)?;
        if let Some(GrowingTask { training, .. }) = &self.training {
            let event = Event::TaskStarted {
                task: training.task.clone(),
                number: training.number,
                epochs: training.epochs,
                epoch: training.epoch,
                modules: self.network.modules(),
            };
            observer(self, event)?;
        }
        while self.training.as_ref().is_some_and(|open| !open.training.is_done()) {
            self.epoch(data, observer)?;
        }
        let report = self.finish(data)?;
        observer(self, report.event())?;
        Ok(report)
    }

    /// Opens a task: a new head and, if there are none yet, first modules. The number of epochs follows from the settings.
    pub fn begin(&mut self, data: TaskData<'_>) -> Result<()> {
        self.begin_for(data, None)
    }

    /// Opens a task that gets this many epochs; projection phases are scaled with them.
    pub fn begin_for(&mut self, data: TaskData<'_>, epochs: Option<usize>) -> Result<()> {
        self.check_new(data)?;
        let config = self.config.for_task(data.train, epochs)?;
        let number = self.network.heads.len();
        let seed = self.task_seed(number);
        let modules_before = self.network.modules();
        // A network's first task begins as if in a projection phase: nothing is validated before its modules are trained.
        let first = modules_before.contains(&0);
        let origin = Origin::first(data.name, number);
        self.network.add_first_modules(&origin, &seed.named("modules"))?;
        self.network.add_head(data.name, data.classes, &seed.named("head"));
        let steps = config.steps_per_epoch(data.train);
        let phase = match first {
            true => Phase::projection(None, config.projection.epochs * steps),
            false => Phase::Accumulation,
        };
        let epochs = config.epochs_for(data.train);
        let training = TaskTraining::new(data, number, epochs, config.optimiser.init());
        self.training = Some(GrowingTask {
            training,
            config,
            step: 0,
            steps,
            phase,
            grew: false,
            test_due: true,
            tests: Vec::new(),
            modules_before,
        });
        self.caches = TaskCaches::default();
        Ok(())
    }

    /// Epochs that are done and epochs that the open task gets; `None` between tasks.
    pub fn progress(&self) -> Option<(usize, usize)> {
        self.training.as_ref().map(|open| open.training.progress())
    }

    /// Complains about data that cannot become a new task.
    fn check_new(&self, data: TaskData<'_>) -> Result<()> {
        let TaskData { name, classes, train, val, .. } = data;
        let fail = |problem: String, cure: &str| Err(Error::setting(format!("task '{name}'"), problem, cure));
        if let Some(open) = &self.training {
            return fail(format!("task '{}' is not finished", open.training.task), "finish it first");
        }
        if self.network.heads.iter().any(|head| head.task == name) {
            return fail("the model has learned it already".into(), "choose another name");
        }
        if classes.len() < 2 {
            return fail(format!("it has {} classes", classes.len()), "give it two or more");
        }
        check_name("task", name)?;
        for class in classes {
            check_name("class", class)?;
        }
        if has_duplicates(classes) {
            return fail("two of its classes have one name".into(), "give each its own");
        }
        if train.is_empty() {
            return fail("it has no training images".into(), "give it some");
        }
        let config = &self.network.config;
        for set in [train, val].into_iter().filter(|set| !set.is_empty()) {
            let shape = set.shape();
            if [shape.channels, shape.height, shape.width] != [config.channels, config.size, config.size] {
                let problem = format!(
                    "its images are {}x{}x{} and the network takes {}x{}x{} (channels x rows x columns)",
                    shape.channels, shape.height, shape.width, config.channels, config.size, config.size
                );
                return fail(problem, "bring the images to that shape");
            }
        }
        Ok(())
    }

    /// Closes the open task: restores its best state, drops modules that cost more than they gain, freezes everything, and
    /// calibrates novelty on the validation images.
    /// After an error the task is open still.
    pub fn finish(&mut self, data: TaskData<'_>) -> Result<TaskReport> {
        self.check_open(data)?;
        self.caches = TaskCaches::default();
        let before = (self.network.clone(), self.training.clone());
        self.close(data).inspect_err(|_| (self.network, self.training) = before)
    }

    fn close(&mut self, data: TaskData<'_>) -> Result<TaskReport> {
        let Some(GrowingTask { training, modules_before, config, tests, .. }) = self.training.take() else {
            return Err(Self::nothing_open());
        };
        let mut report = TaskReport { tests, ..training.report(modules_before, Vec::new()) };
        let (number, grown) = (training.number, self.network.modules());
        if let Some(best) = training.best {
            self.network = best.state;
        }
        let kept = self.network.modules();
        report.dropped = DroppedModules::between(&grown, &kept, DropReason::AfterBestEpoch);
        // A network's first modules have nothing to be compared with.
        let could_do_without = kept != report.modules_before && !report.modules_before.contains(&0);
        if config.expansion.only_with_gain
            && could_do_without
            && let Some(with) = report.val_accuracy
            && let Some(best) = self.without_new_modules(number, &report.modules_before, data, &config)?
            && costs_more_than_it_gains(with, best.accuracy, data.val.len(), config.expansion.drop_margin)
        {
            let reason = DropReason::NoGain { with, without: best.accuracy };
            report.dropped = DroppedModules::between(&grown, &report.modules_before, reason);
            (report.best_epoch, report.val_accuracy) = (best.epoch, Some(best.accuracy));
            self.network = best.state;
        }
        report.modules = self.network.modules();
        self.network.freeze()?;
        let view = report.modules.iter().map(|&modules| 0..modules).collect();
        self.network.heads[number].view = Some(view);
        if config.statistics.source == StatisticsSource::TaskEnd {
            self.take_statistics(number, &report.modules_before, data)?;
        }
        self.calibrate(number, data)?;
        let from = Box::new(LearnedFrom::new(data, &report, config));
        self.history.push(Act::Learned { task: data.name.to_owned(), from });
        Ok(report)
    }

    /// Lets the batch norms of all modules follow unlabelled images; nothing else changes. The paper's warm-up before its
    /// out-of-distribution tests.
    pub fn warm_up(&mut self, set: &TaskSet, batches: usize, seed: &Seed) -> Result<()> {
        for batch in BatchConfig::shuffled(self.config.batch, *seed).init(set)?.take(batches) {
            self.network.adaptation_pass(images(&batch, &self.network.device), &self.config)?;
        }
        Ok(())
    }

    /// Classifies a picture, whose task is not given. For many pictures, [`Model::predict_all`] is faster.
    pub fn predict(&self, picture: &Picture) -> Result<Prediction> {
        let found = self.predict_all(std::slice::from_ref(picture), Protocol::Single, None)?;
        found.into_iter().next().ok_or_else(|| Error::setting("picture", "there is none", "give one"))
    }

    /// Classifies pictures under a protocol; [`Protocol::TaskGiven`] needs the name of the task.
    pub fn predict_all(
        &self,
        pictures: &[Picture],
        protocol: Protocol,
        task: Option<&str>,
    ) -> Result<Vec<Prediction>> {
        self.predictor()?.predict_pictures(pictures, protocol, task)
    }

    /// Evaluates test sets, each of one task, under all protocols.
    pub fn evaluate(&self, sets: &[TestSet<'_>]) -> Result<Vec<Evaluation>> {
        let predictor = self.predictor()?;
        let device = predictor.device().clone();
        let classes = self.network.heads.iter().map(|head| &head.classes[..]).collect();
        let batch = self.config.batch;
        let evaluator = Evaluator { classifier: &predictor, batch, device, outputs: None, classes };
        evaluator.evaluate_all(sets, &Seed::root(self.seed).named("mixed"))
    }

    /// Test images of a task that the model knows, with labels in the order of its head's classes, and the number of the
    /// head. Data without a test split are taken whole.
    pub fn test_images(&self, task: &str, data: &Task) -> Result<(usize, TaskSet)> {
        let (number, head) = self.head(task)?;
        let labels = head.labels_of(&data.classes)?;
        let set = if data.test.is_empty() { &data.train } else { &data.test };
        Ok((number, set.with_labels(&labels)))
    }

    /// Makes one model of several, without data and without training. Models are named `model-1`, `model-2` and so on;
    /// [`Model::merge_named`] takes names and says what it did.
    pub fn merge(models: impl IntoIterator<Item = Self>) -> Result<Self> {
        let named = models.into_iter().enumerate().map(|(at, model)| (format!("model-{}", at + 1), model));
        Ok(merge(&named.collect::<Vec<_>>())?.0)
    }

    /// Makes one model of several that have names, and reports modules, renamed tasks and differences.
    pub fn merge_named(models: &[(String, Self)]) -> Result<(Self, MergeReport)> {
        merge(models)
    }

    /// Names of the tasks, in the order in which they were learned.
    pub fn tasks(&self) -> impl Iterator<Item = &str> {
        self.network.heads.iter().map(|head| head.task.as_str())
    }

    /// The head of a task and its number.
    pub fn head(&self, task: &str) -> Result<(usize, &Head)> {
        let number = head::find(&self.network.heads, task)?;
        Ok((number, &self.network.heads[number]))
    }

    pub(crate) fn task_seed(&self, number: usize) -> Seed {
        Seed::root(self.seed).named("task").numbered(number as u64)
    }
}
