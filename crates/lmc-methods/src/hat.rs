//! Hard attention to the task: every task has a nearly binary mask over the channels of every layer, which is trained with
//! it, and weights between channels that earlier tasks use do not move (Serrà and others 2018; specification §2.4).
//!
//! The mask of a layer is `sigmoid(s · e)` with an embedding `e` of the task, and multiplies the layer's pooled output. `s`
//! rises within every epoch from `1 / smax` to `smax`; at test it is `smax`. Gradients of weights are scaled down as far as
//! earlier tasks use them, those of embeddings are compensated for the annealing. Plain stochastic gradient descent, whose
//! learning rate falls to a third when the validation loss has not fallen for some epochs.

mod gradients;
mod masked;
mod network;

use burn::tensor::{Device, Gradients, Tensor};
use lmc::internals::inference::evaluation::Classify;
use lmc::internals::module::FrozenFunctional;
use lmc::internals::tensors::{
    Draw, NamedTensor, Walk, below, correct, freeze, images, parameter_count, plain, prefixed, scalar,
    tensor, train, values, without_gradients,
};
use lmc::internals::training::EpochMetrics;
use lmc::internals::training::checkpoint::State;
use lmc::internals::training::step::cross_entropy;
use lmc::{Error, Event, NetworkConfig, Result, TaskData, TaskReport};
use lmc_streams::{Normalisation, Seed};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::gradients::{Apply, Collect};
use self::masked::{MaskedClassifier, masked};
use self::network::{MaskedNetwork, TaskParts};
use crate::checkpoint::{damaged, fill_from, fill_model, parse, state_of};
use crate::method::{Capacity, Listen, Method, no_open_task};
use crate::registry::{MethodConfig, Width};
use crate::training::{TrainingConfig, count_batch};
use crate::trunk::{LinearHead, layer_multiply_adds};

/// Settings of HAT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HatConfig {
    /// Hyperparameters of training: epochs are the most that a task gets, and the learning rate is the first.
    pub training: TrainingConfig,
    /// Width of the network.
    pub width: Width,
    /// Weight of the regulariser that keeps masks small; 1 by default.
    pub regulariser: f64,
    /// Largest scale `s`, above 1; 100 by default.
    pub largest_scale: f64,
    /// Number of epochs without a smaller validation loss after which the learning rate falls to a third; 5 by default.
    pub patience: usize,
    /// Learning rate below which the training of a task ends; 1e-4 by default.
    pub smallest_rate: f64,
    /// Largest norm of the gradients of a step; longer ones are scaled down to it. 10000 by default.
    pub clip: f64,
    /// Whether every task has batch norms of its own; true by default, false on S_in.
    pub norm_per_task: bool,
}

impl Default for HatConfig {
    fn default() -> Self {
        Self {
            // Paper: images are normalised. Released: they are not, whatever the option says.
            training: TrainingConfig { learning_rate: 0.1, ..TrainingConfig::default() },
            width: Width::Modules(24),
            regulariser: 1.0,
            largest_scale: 100.0,
            patience: 5,
            smallest_rate: 1e-4,
            clip: 1e4,
            norm_per_task: true,
        }
    }
}

impl MethodConfig for HatConfig {
    type Method = Hat;

    fn preset(_: &str, stream: &str) -> Result<Self> {
        // Paper: the table of hyperparameters does not have them; these are the authors' commands. S_out has none: as S-.
        let (rate, regulariser, largest_scale, weight_decay) = match stream {
            "s_plus" => (0.1, 4.0, 200.0, 1e-4),
            "s_in" => (0.01, 0.75, 200.0, 1e-3),
            "s_pl" => (0.1, 0.1, 400.0, 1e-4),
            _ => (0.1, 1.0, 100.0, 1e-3),
        };
        let config = Self::default();
        let training = TrainingConfig { learning_rate: rate, weight_decay, ..config.training };
        let (width, norm_per_task) = (Width::of_largest(stream), stream != "s_in");
        Ok(Self { training, width, regulariser, largest_scale, norm_per_task, ..config })
    }

    fn check(&self) -> Result<()> {
        if !(self.largest_scale.is_finite() && self.largest_scale > 1.0) {
            let problem = format!("{} is not possible", self.largest_scale);
            return Err(Error::setting("largest_scale", problem, "use more than 1"));
        }
        let bounds = [
            ("regulariser", self.regulariser, self.regulariser >= 0.0, "use 0 or more"),
            ("smallest_rate", self.smallest_rate, self.smallest_rate >= 0.0, "use 0 or more"),
            ("clip", self.clip, self.clip > 0.0, "use more than 0"),
        ];
        for (field, value, fits, cure) in bounds {
            if !(value.is_finite() && fits) {
                return Err(Error::setting(field, format!("{value} is not possible"), cure));
            }
        }
        if self.patience == 0 {
            return Err(Error::setting("patience", "it is 0", "use 1 or more"));
        }
        self.width.check()?;
        self.training.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Hat> {
        let network = self.width.apply(network);
        network.check()?;
        self.check()?;
        let (seed, device) = (Seed::root(seed).named("hat"), device.clone().autodiff());
        let layers = network.layers().into_iter().enumerate();
        let layers = layers.map(|(at, layer)| layer.functional.init(&seed.numbered(at as u64), &device));
        let used = vec![vec![0.0; network.width]; network.depth];
        let model = MaskedNetwork { layers: layers.collect(), tasks: Vec::new() };
        Ok(Hat { config: self.clone(), network, seed, device, model, used, open: None })
    }
}

/// A network with a mask for each task.
#[derive(Clone, Debug)]
pub struct Hat {
    config: HatConfig,
    network: NetworkConfig,
    seed: Seed,
    device: Device,
    model: MaskedNetwork,
    /// How much earlier tasks use each channel, `[layer][channel]`: the largest of their masks.
    used: Vec<Vec<f32>>,
    open: Option<HatTraining>,
}

/// The open task. Unlike other baselines HAT keeps the state with the lowest validation loss, and uses no Adam.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HatTraining {
    task: String,
    /// Epochs that are done.
    epoch: usize,
    /// Epochs that the task gets; fewer once the learning rate is too small.
    epochs: usize,
    /// Learning rate.
    rate: f64,
    /// Epochs since the validation loss or the learning rate last fell.
    waited: usize,
    /// Epoch, validation loss and accuracy of the best state.
    best: Option<(usize, f64, f64)>,
    /// The epoch under way; earlier versions wrote checkpoints between epochs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    under_way: Option<EpochMetrics>,
    /// Copy of the best state; `best.*` among the tensors of a state.
    #[serde(skip)]
    tensors: Vec<NamedTensor>,
}

impl Hat {
    /// Draws the parts of a new task.
    fn new_task(&self, classes: usize) -> TaskParts {
        let seed = self.seed.named("task").numbered(self.model.tasks.len() as u64);
        let mut draw = Draw::new(&seed.named("embeddings"), &self.device);
        let width = self.network.width;
        let norms = self.config.norm_per_task.then(|| {
            let layers = self.network.layers().into_iter();
            layers.map(|layer| layer.functional.init(&seed, &self.device)).collect()
        });
        TaskParts {
            embeddings: (0..self.network.depth).map(|_| draw.normal([width], 1.0)).collect(),
            norms,
            head: LinearHead::new(self.network.features(), classes, &seed.named("head"), &self.device),
        }
    }

    /// Makes what the open task trains collect gradients, and freezes the rest.
    fn make_trainable(&mut self) {
        freeze(&mut self.model);
        self.model.layers.iter_mut().for_each(train);
        if let Some(task) = self.model.tasks.last_mut() {
            train(task);
        }
    }

    /// Logits `[batch, class]` of a training batch, and the masks of each layer.
    fn forward(&mut self, batch: Tensor<4>, scale: f64) -> Result<(Tensor<2>, Vec<Tensor<1>>)> {
        let task = self.model.tasks.len() - 1;
        let masks = self.model.masks(task, scale);
        let mut x = batch;
        for (layer, mask) in masks.iter().enumerate() {
            let mut functional = self.model.layer(task, layer);
            x = masked(functional.forward(x, false)?, mask);
            match &mut self.model.tasks[task].norms {
                Some(norms) => norms[layer].running = functional.running,
                None => self.model.layers[layer].running = functional.running,
            }
        }
        Ok((self.model.tasks[task].head.logits(x.flatten(1, 3)), masks))
    }

    /// The mean mask over channels that earlier tasks do not use: keeps masks small.
    fn regulariser(&self, masks: &[Tensor<1>]) -> Tensor<1> {
        let mut sum = tensor(vec![0.0], [1], &self.device);
        let mut unused = 0.0;
        for (mask, used) in masks.iter().zip(&self.used) {
            let left: Vec<f32> = used.iter().map(|used| 1.0 - used).collect();
            unused += left.iter().map(|&left| f64::from(left)).sum::<f64>();
            sum = sum + (mask.clone() * tensor(left, [used.len()], &self.device)).sum();
        }
        sum.div_scalar(unused.max(1e-6) as f32)
    }

    /// One step of gradient descent.
    fn step(&mut self, gradients: &mut Gradients, rate: f64, scale: f64) {
        let mut parts: Vec<Vec<f32>> = Vec::new();
        let mut collect =
            Collect { used: &self.used, gradients, config: &self.config, scale, parts: &mut parts };
        let mut model = self.model.clone();
        model.walk("", &mut collect);
        let length = parts.iter().flatten().map(|&number| f64::from(number).powi(2)).sum::<f64>().sqrt();
        let cut = if length > self.config.clip { self.config.clip / length } else { 1.0 };
        let mut apply = Apply { parts: parts.into_iter(), rate: (rate * cut) as f32 };
        self.model.walk("", &mut apply);
    }

    /// Mean loss, regulariser included, and accuracy on validation images, at the largest scale.
    fn validate(&self, data: TaskData<'_>, normalisation: Option<&Normalisation>) -> Result<(f64, f64)> {
        let classifier = self.masked_classifier()?;
        let task = self.model.tasks.len() - 1;
        let (mut loss, mut right) = (0.0, 0);
        for batch in self.config.training.stored(normalisation).init(data.val)? {
            data.check_stop()?;
            let logits = classifier.logits(&images(&batch, &self.device.clone().inner()), task)?;
            right += correct(&logits, &batch.labels);
            loss += scalar(&cross_entropy(logits, &batch.labels)) * batch.labels.len() as f64;
        }
        let count = data.val.len().max(1) as f64;
        let regulariser = scalar(&self.regulariser(&self.model.masks(task, self.config.largest_scale)));
        Ok((loss / count + self.config.regulariser * regulariser, right as f64 / count))
    }

    /// Trains the open task for an epoch and validates; gives the event of the epoch's end.
    fn train_once(
        &mut self,
        open: &mut HatTraining,
        data: TaskData<'_>,
        listen: Listen<'_>,
    ) -> Result<Event> {
        let (epoch, number) = (open.epoch, self.model.tasks.len() as u64 - 1);
        let normalisation = self.config.training.normalisation(data.train);
        let seed = self.seed.named("batches").numbered(number).numbered(epoch as u64);
        let batches = self.config.training.shuffled(seed, normalisation.as_ref()).init(data.train)?;
        let images_in_all = data.train.len().max(1) as f64;
        let epochs = open.epochs;
        let new = || EpochMetrics::new(data.name, epoch, batches.len());
        let done = open.under_way.get_or_insert_with(new).step();
        for batch in batches.after(done) {
            let smallest = 1.0 / self.config.largest_scale;
            let seen = open.under_way.as_ref().map_or(0, EpochMetrics::images);
            let progress = seen as f64 / images_in_all;
            let scale = (self.config.largest_scale - smallest) * progress + smallest;
            let (logits, masks) = self.forward(images(&batch, &self.device), scale)?;
            let loss = cross_entropy(logits.clone(), &batch.labels)
                + self.regulariser(&masks).mul_scalar(self.config.regulariser as f32);
            let event = count_batch(&mut open.under_way, &loss, &logits, &batch.labels)?;
            self.step(&mut loss.backward(), open.rate, scale);
            listen(event)?;
        }
        let mut val_accuracy = None;
        if !data.val.is_empty() {
            let (loss, accuracy) = self.validate(data, normalisation.as_ref())?;
            val_accuracy = Some(accuracy);
            if open.best.is_none_or(|(_, best, _)| loss < best) {
                open.best = Some((epoch, loss, accuracy));
                open.tensors = plain(&self.model);
                open.waited = 0;
            } else {
                open.waited += 1;
                if open.waited >= self.config.patience {
                    open.rate /= 3.0;
                    open.waited = 0;
                }
            }
        }
        open.epoch += 1;
        if open.rate < self.config.smallest_rate {
            open.epochs = open.epoch;
        }
        let metrics = open.under_way.take().ok_or_else(no_open_task)?;
        Ok(metrics.end(epochs, val_accuracy, vec![1; self.network.depth]))
    }

    fn masked_classifier(&self) -> Result<MaskedClassifier> {
        let model = without_gradients(&self.model);
        let of_task = |task: usize| {
            let layers =
                (0..self.network.depth).map(|layer| FrozenFunctional::new(&model.layer(task, layer)));
            Ok((layers.collect::<Result<Vec<_>>>()?, model.masks(task, self.config.largest_scale)))
        };
        let paths = (0..model.tasks.len()).map(of_task).collect::<Result<Vec<_>>>()?;
        Ok(MaskedClassifier { paths, heads: model.tasks.into_iter().map(|task| task.head).collect() })
    }
}

impl Method for Hat {
    fn begin(&mut self, data: TaskData<'_>) -> Result<()> {
        let task = self.new_task(data.classes.len());
        self.model.tasks.push(task);
        self.open = Some(HatTraining {
            task: data.name.to_owned(),
            epoch: 0,
            epochs: self.config.training.epochs_for(data.train),
            rate: self.config.training.learning_rate,
            waited: 0,
            best: None,
            under_way: None,
            tensors: Vec::new(),
        });
        self.make_trainable();
        Ok(())
    }

    fn epoch(&mut self, data: TaskData<'_>, listen: Listen<'_>) -> Result<bool> {
        let mut open = self.open.take().ok_or_else(no_open_task)?;
        // The task stays open whatever happens: a listener that fails must not lose it.
        let ended = self.train_once(&mut open, data, listen);
        let more = open.epoch < open.epochs;
        self.open = Some(open);
        listen(ended?)?;
        Ok(more)
    }

    fn finish(&mut self, _: TaskData<'_>) -> Result<TaskReport> {
        let mut open = self.open.take().ok_or_else(no_open_task)?;
        if open.best.is_some() {
            fill_from(&mut self.model, std::mem::take(&mut open.tensors))?;
        }
        freeze(&mut self.model);
        let task = self.model.tasks.len() - 1;
        for (used, mask) in self.used.iter_mut().zip(self.model.masks(task, self.config.largest_scale)) {
            used.iter_mut().zip(values(&mask)).for_each(|(used, mask)| *used = used.max(mask));
        }
        let modules = vec![1; self.network.depth];
        Ok(TaskReport {
            task: open.task,
            best_epoch: open.best.map_or(open.epoch.saturating_sub(1), |(epoch, ..)| epoch),
            epochs: open.epoch,
            val_accuracy: open.best.map(|(_, _, accuracy)| accuracy),
            modules_before: modules.clone(),
            modules,
            ..TaskReport::default()
        })
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.open.as_ref().map(|open| (open.epoch, open.epochs))
    }

    fn classifier(&self) -> Result<Box<dyn Classify>> {
        Ok(Box::new(self.masked_classifier()?))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn capacity(&self) -> Capacity {
        let classes = self.model.tasks.last().map_or(0, |task| task.head.classes());
        let head = (self.network.features() * classes) as u64;
        Capacity {
            modules: vec![1; self.network.depth],
            parameters: parameter_count(&self.model),
            multiply_adds: layer_multiply_adds(&self.network).iter().sum::<u64>() + head,
        }
    }

    fn state(&self) -> Result<State> {
        let classes: Vec<usize> = self.model.tasks.iter().map(|task| task.head.classes()).collect();
        let mut tensors = Vec::new();
        for (number, used) in self.used.iter().enumerate() {
            let (name, shape) = (format!("used{number}"), vec![used.len()]);
            tensors.push(NamedTensor { name, shape, values: used.clone() });
        }
        if let Some(open) = &self.open {
            tensors.extend(prefixed("best", open.tensors.clone()));
        }
        Ok(state_of(json!({ "classes": classes, "open": self.open }), &self.model, tensors))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let classes: Vec<usize> = parse(&state.document["classes"])?;
        self.model.tasks.clear();
        for classes in classes {
            let task = self.new_task(classes);
            self.model.tasks.push(task);
        }
        fill_model(&mut self.model, &state.tensors)?;
        freeze(&mut self.model);
        for (number, used) in self.used.iter_mut().enumerate() {
            let found = state.tensors.iter().find(|tensor| tensor.name == format!("used{number}"));
            match found.filter(|tensor| tensor.values.len() == used.len()) {
                Some(tensor) => used.clone_from(&tensor.values),
                None => return Err(damaged("masks are missing")),
            }
        }
        self.open = parse(&state.document["open"])?;
        if let Some(open) = &mut self.open {
            open.tensors = below("best", &state.tensors).into_values().collect();
            self.make_trainable();
        }
        Ok(())
    }
}
