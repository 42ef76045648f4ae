//! One network for all tasks, with a head for each: what Finetune, EWC, replay and LwF have in common. They differ in the
//! loss of a batch, which each hands in.

use burn::tensor::{Device, Tensor};
use lmc::checkpoint::State;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::tensors::{Visitor, Walk, freeze, join, train, values, without_gradients};
use lmc::{Error, Learned, Material, Result};
use lmc_streams::{Batch, Normalisation, Seed, TaskSet};
use serde_json::{Value, json};

use crate::method::{Answer, Answers, Capacity, Hint, Listen, largest};
use crate::tally::Tally;
use crate::training::{Lesson, TrainingConfig, cross_entropy, fill_model, parse, right, state_of};
use crate::trunk::{Classifier, FrozenTrunk, Trunk, layer_multiply_adds, parameters};

/// One network for all tasks.
#[derive(Clone, Debug)]
pub struct Monolith {
    /// Sizes.
    pub network: NetworkConfig,
    /// How it is trained.
    pub training: TrainingConfig,
    /// All that is drawn comes from it.
    pub seed: Seed,
    /// What all tasks share.
    pub trunk: Trunk,
    /// One per task, or one per list of classes.
    pub heads: Vec<Classifier>,
    /// The head of each task.
    pub head_of: Vec<usize>,
    /// Whether all heads together are one classifier.
    pub single_head: bool,
    /// The open task.
    pub lesson: Option<Lesson>,
    /// Whether heads of old tasks are trained on.
    pub old_heads: bool,
    /// Where it is.
    pub device: Device,
}

/// What a batch gives: the objective, and the logits of its images.
pub type Objective = (Tensor<1>, Tensor<2>);

impl Walk for Monolith {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        self.trunk.walk(&join(path, "trunk"), visitor);
        for (number, head) in self.heads.iter_mut().enumerate() {
            head.walk(&join(path, &format!("head{number}")), visitor);
        }
    }
}

impl Monolith {
    /// A network that knows nothing.
    pub fn new(
        network: &NetworkConfig,
        training: &TrainingConfig,
        seed: Seed,
        old_heads: bool,
        device: &Device,
    ) -> Result<Self> {
        network.check()?;
        training.check()?;
        let device = device.clone().autodiff();
        Ok(Self {
            network: network.clone(),
            training: training.clone(),
            seed,
            trunk: Trunk::new(network, &seed.named("trunk"), &device),
            heads: Vec::new(),
            head_of: Vec::new(),
            single_head: false,
            lesson: None,
            old_heads,
            device,
        })
    }

    /// Opens a task with a new head.
    pub fn begin(&mut self, material: Material<'_>) -> Result<()> {
        self.begin_with(material, self.heads.len())
    }

    /// Opens a task with this head, a new one if it is not there yet.
    pub fn begin_with(&mut self, material: Material<'_>, head: usize) -> Result<()> {
        if head == self.heads.len() {
            let (features, classes) = (self.network.features(), material.classes.len());
            let seed = self.seed.named("head").numbered(head as u64);
            self.heads.push(Classifier::new(features, classes, &seed, &self.device));
        }
        self.lesson = Some(Lesson::new(&self.training, material, self.head_of.len()));
        self.head_of.push(head);
        self.track();
        Ok(())
    }

    /// Lets gradients reach what the open task trains.
    fn track(&mut self) {
        train(&mut self.trunk);
        let open = self.head_of.last().copied();
        for (number, head) in self.heads.iter_mut().enumerate() {
            if Some(number) == open || self.old_heads { train(head) } else { freeze(head) }
        }
    }

    /// The images of a batch, for training.
    pub fn images(&self, batch: &Batch) -> Tensor<4> {
        images(batch, &self.device)
    }

    /// Cross-entropy of a batch with the head of the open task: Finetune's objective.
    pub fn plain(&mut self, batch: &Batch) -> Result<Objective> {
        let features = self.trunk.train(images(batch, &self.device))?;
        let logits = self.head()?.logits(features);
        Ok((cross_entropy(logits.clone(), &batch.labels), logits))
    }

    /// The head of the newest task.
    pub fn head(&self) -> Result<&Classifier> {
        self.head_of.last().and_then(|&head| self.heads.get(head)).ok_or_else(nothing_open)
    }

    /// Learns the open task once through with this objective, and validates; false when that was the last epoch.
    pub fn epoch(
        &mut self,
        material: Material<'_>,
        listen: Listen<'_>,
        objective: &mut dyn FnMut(&mut Self, &Batch) -> Result<Objective>,
    ) -> Result<bool> {
        let mut lesson = self.lesson.take().ok_or_else(nothing_open)?;
        let epoch = lesson.epoch;
        let normalisation = self.training.normalisation(material.train);
        let seed = self.seed.named("batches").numbered(lesson.number as u64).numbered(epoch as u64);
        let batches = self.training.shuffled(seed, normalisation.as_ref()).init(material.train)?;
        let mut tally = Tally::new(material.task, epoch, lesson.epochs, batches.len());
        for batch in batches {
            let (loss, logits) = objective(self, &batch)?;
            tally.batch(&loss, &logits, &batch.labels, listen)?;
            lesson.adam.step(self, &mut loss.backward());
        }
        let val_accuracy = match material.val.is_empty() {
            true => None,
            false => Some(self.accuracy(lesson.number, material.val, normalisation.as_ref())?),
        };
        lesson.end_epoch(self, val_accuracy);
        let more = lesson.epoch < lesson.epochs;
        self.lesson = Some(lesson);
        tally.end(val_accuracy, self.modules(), listen)?;
        Ok(more)
    }

    /// Closes the open task with its best state.
    pub fn finish(&mut self) -> Result<Learned> {
        let mut lesson = self.lesson.take().ok_or_else(nothing_open)?;
        lesson.restore_best(self)?;
        for head in &mut self.heads {
            freeze(head);
        }
        freeze(&mut self.trunk);
        Ok(lesson.learned(self.modules(), self.modules()))
    }

    /// Epochs that are done and to be done.
    pub fn progress(&self) -> Option<(usize, usize)> {
        self.lesson.as_ref().map(|lesson| (lesson.epoch, lesson.epochs))
    }

    fn modules(&self) -> Vec<usize> {
        vec![1; self.trunk.0.len()]
    }

    /// Share of a set that is told right with the head of a task.
    pub fn accuracy(&self, task: usize, set: &TaskSet, normalisation: Option<&Normalisation>) -> Result<f64> {
        let Some(&head) = self.head_of.get(task) else { return Ok(0.0) };
        let headed = self.answers()?;
        let offset = if self.single_head { offset(&self.heads, head) } else { 0 };
        let mut correct = 0;
        for batch in self.training.stored(normalisation).init(set)? {
            let features = headed.trunk.features(images(&batch, &self.device.clone().inner()))?;
            let logits = match self.single_head {
                true => all_logits(&headed.heads, &features),
                false => headed.heads[head].logits(features),
            };
            let labels: Vec<u32> = batch.labels.iter().map(|label| label + offset).collect();
            correct += right(&logits, &labels);
        }
        Ok(correct as f64 / set.len().max(1) as f64)
    }

    /// As it is now, for answering with the task given.
    pub fn answers(&self) -> Result<Headed> {
        Ok(Headed {
            trunk: self.trunk.frozen()?,
            heads: self.heads.iter().map(without_gradients).collect(),
            head_of: self.head_of.clone(),
            single_head: self.single_head,
        })
    }

    /// How large it is.
    pub fn capacity(&self) -> Capacity {
        let classes = self.heads.last().map_or(0, Classifier::classes);
        let head = (self.network.features() * classes) as u64;
        Capacity {
            modules: self.modules(),
            parameters: parameters([&self.trunk]) + parameters(&self.heads),
            multiply_adds: layer_multiply_adds(&self.network).iter().sum::<u64>() + head,
        }
    }

    /// Everything; `more` is what the method has besides, in the document's field of that name.
    pub fn state(&self, more: &Value, mut tensors: Vec<lmc::tensors::Plain>) -> State {
        let lesson = self.lesson.as_ref().map(|lesson| lesson.save(&mut tensors));
        let heads: Vec<usize> = self.heads.iter().map(Classifier::classes).collect();
        state_of(
            json!({ "heads": heads, "head_of": self.head_of, "lesson": lesson, "more": more }),
            self,
            tensors,
        )
    }

    /// Takes back what [`Monolith::state`] gave.
    pub fn restore(&mut self, state: &State) -> Result<()> {
        let heads: Vec<usize> = parse(&state.document["heads"])?;
        let features = self.network.features();
        let empty = |&classes: &usize| Classifier::new(features, classes, &self.seed, &self.device);
        self.heads = heads.iter().map(empty).collect();
        self.head_of = parse(&state.document["head_of"])?;
        if self.head_of.iter().any(|&head| head >= self.heads.len()) {
            return Err(Error::setting("checkpoint", "a task has no head", "start the run anew"));
        }
        fill_model(self, &state.tensors)?;
        let lesson = &state.document["lesson"];
        self.lesson = None;
        if !lesson.is_null() {
            self.lesson = Some(Lesson::load(lesson, &state.tensors, &self.training, &self.device)?);
            self.track();
        }
        Ok(())
    }
}

/// The error of a method that was asked to learn without a task.
pub fn nothing_open() -> Error {
    Error::setting("method", "no task is being learned", "begin one")
}

/// A trunk and heads, for answering.
#[derive(Clone, Debug)]
pub struct Headed {
    /// In evaluation mode.
    pub trunk: FrozenTrunk,
    /// One per task, or one per list of classes.
    pub heads: Vec<Classifier>,
    /// The head of each task.
    pub head_of: Vec<usize>,
    /// Whether all heads together are one classifier.
    pub single_head: bool,
}

impl Answers for Headed {
    fn answer(&self, images: &Tensor<4>, hints: &[Hint]) -> Result<Vec<Vec<Answer>>> {
        let features = self.trunk.features(images.clone())?;
        hints.iter().map(|hint| self.answer_from(&features, *hint)).collect()
    }
}

impl Headed {
    fn answer_from(&self, features: &Tensor<2>, hint: Hint) -> Result<Vec<Answer>> {
        if self.single_head && !matches!(hint, Hint::Task(_)) {
            let logits = all_logits(&self.heads, features);
            let [_, classes] = logits.dims();
            return Ok(values(&logits).chunks(classes.max(1)).map(|row| self.place(largest(row))).collect());
        }
        let task = hint.told("method")?;
        let Some(head) = self.head_of.get(task).and_then(|&head| self.heads.get(head)) else {
            return Err(Error::setting("task", format!("none has number {task}"), "learn it first"));
        };
        let logits = values(&head.logits(features.clone()));
        let rows = logits.chunks(head.classes().max(1));
        Ok(rows.map(|row| Answer { task, label: largest(row) as u32, weights: Vec::new() }).collect())
    }

    /// The task and label of one output of all.
    fn place(&self, output: usize) -> Answer {
        let mut label = output;
        for (number, head) in self.heads.iter().enumerate() {
            if label < head.classes() {
                let task = self.head_of.iter().position(|&head| head == number).unwrap_or(0);
                return Answer { task, label: label as u32, weights: Vec::new() };
            }
            label -= head.classes();
        }
        Answer::default()
    }
}

/// Logits of all heads side by side, `[batch, output]`.
pub fn all_logits(heads: &[Classifier], features: &Tensor<2>) -> Tensor<2> {
    Tensor::cat(heads.iter().map(|head| head.logits(features.clone())).collect(), 1)
}

/// Outputs before those of a head.
pub fn offset(heads: &[Classifier], head: usize) -> u32 {
    heads[..head].iter().map(|head| head.classes() as u32).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two lists of classes, of which the third task has the first again.
    #[test]
    fn outputs_of_a_single_head_map_back() -> Result<()> {
        let network = NetworkConfig { width: 4, depth: 1, ..NetworkConfig::default() };
        let (seed, device) = (Seed::root(1), Device::flex());
        let head = |classes: usize| Classifier::new(network.features(), classes, &seed, &device);
        let headed = Headed {
            trunk: Trunk::new(&network, &seed, &device).frozen()?,
            heads: vec![head(3), head(2)],
            head_of: vec![0, 1, 0],
            single_head: true,
        };
        assert_eq!([0, 1].map(|head| offset(&headed.heads, head)), [0, 3]);
        let places = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)];
        for (output, (task, label)) in places.into_iter().enumerate() {
            let found = headed.place(output);
            assert_eq!((found.task, found.label), (task, label), "output {output}");
        }
        Ok(())
    }
}
