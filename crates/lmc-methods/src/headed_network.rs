//! One trunk for all tasks and a head for each: the network of Finetune, EWC, LwF and replay.
//!
//! With a single head, all heads together are one classifier over the classes of all tasks, and a head belongs to a list
//! of classes instead of a task.

use burn::tensor::{Device, Tensor};
use lmc::internals::inference::evaluation::{Classification, Classify};
use lmc::internals::tensors::{
    Visitor, Walk, correct, freeze, images, join, parameter_count, train, without_gradients,
};
use lmc::internals::training::step::cross_entropy;
use lmc::{NetworkConfig, Protocol, Result, TaskData};
use lmc_streams::{Batch, Normalisation, Seed};

use crate::method::{Capacity, given_task, no_open_task, unknown_task};
use crate::training::TrainingConfig;
use crate::trunk::{FrozenTrunk, LinearHead, Trunk, labels, layer_multiply_adds};

/// A trunk that all tasks share, and heads.
#[derive(Clone, Debug)]
pub struct HeadedNetwork {
    /// Sizes of the network.
    pub config: NetworkConfig,
    /// Hyperparameters of training.
    pub training: TrainingConfig,
    /// Root of all random draws.
    pub seed: Seed,
    /// Layers that all tasks share.
    pub trunk: Trunk,
    /// One head per task; with a single head, one per list of classes.
    pub heads: Vec<LinearHead>,
    /// The head of each task.
    pub head_of: Vec<usize>,
    /// Whether all heads together are one classifier.
    pub single_head: bool,
    /// Whether heads of earlier tasks stay trainable.
    pub trains_old_heads: bool,
    /// Device that computes, with autodiff.
    pub device: Device,
}

/// Objective and logits of a training batch.
#[derive(Debug)]
pub struct BatchLoss {
    /// The objective, whose backward pass trains the network.
    pub loss: Tensor<1>,
    /// Logits of the batch under the head of its task, `[batch, class]`.
    pub logits: Tensor<2>,
}

impl Walk for HeadedNetwork {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        self.trunk.walk(&join(path, "trunk"), visitor);
        for (number, head) in self.heads.iter_mut().enumerate() {
            head.walk(&join(path, &format!("head{number}")), visitor);
        }
    }
}

impl HeadedNetwork {
    /// Makes a network with a random trunk and no heads.
    pub fn new(
        config: &NetworkConfig,
        training: &TrainingConfig,
        seed: Seed,
        device: &Device,
    ) -> Result<Self> {
        config.check()?;
        training.check()?;
        let device = device.clone().autodiff();
        Ok(Self {
            config: config.clone(),
            training: training.clone(),
            seed,
            trunk: Trunk::new(config, &seed.named("trunk"), &device),
            heads: Vec::new(),
            head_of: Vec::new(),
            single_head: false,
            trains_old_heads: false,
            device,
        })
    }

    /// Adds a task with this head, which is made if it is not there yet.
    pub fn add_task(&mut self, head: usize, classes: usize) {
        if head == self.heads.len() {
            let seed = self.seed.named("head").numbered(head as u64);
            self.heads.push(LinearHead::new(self.config.features(), classes, &seed, &self.device));
        }
        self.head_of.push(head);
        self.make_trainable();
    }

    /// Replaces all heads by new ones with so many classes each, to be filled.
    pub fn set_heads(&mut self, classes: &[usize]) {
        let features = self.config.features();
        let head = |&classes: &usize| LinearHead::new(features, classes, &self.seed, &self.device);
        self.heads = classes.iter().map(head).collect();
    }

    /// Makes what the newest task trains collect gradients, and freezes the other heads.
    pub fn make_trainable(&mut self) {
        train(&mut self.trunk);
        let open = self.head_of.last().copied();
        for (number, head) in self.heads.iter_mut().enumerate() {
            if Some(number) == open || self.trains_old_heads { train(head) } else { freeze(head) }
        }
    }

    /// Freezes trunk and heads.
    pub fn freeze(&mut self) {
        self.heads.iter_mut().for_each(freeze);
        freeze(&mut self.trunk);
    }

    /// The head of the newest task.
    pub fn newest_head(&self) -> Result<&LinearHead> {
        self.head_of.last().and_then(|&head| self.heads.get(head)).ok_or_else(no_open_task)
    }

    /// Features `[batch, feature]` of a training batch; batch norms use its statistics and follow them.
    pub fn training_features(&mut self, batch: &Batch) -> Result<Tensor<2>> {
        self.trunk.training_pass(images(batch, &self.device))
    }

    /// Cross-entropy of a training batch under the newest head.
    pub fn cross_entropy(&mut self, batch: &Batch) -> Result<BatchLoss> {
        let features = self.training_features(batch)?;
        let logits = self.newest_head()?.logits(features);
        Ok(BatchLoss { loss: cross_entropy(logits.clone(), &batch.labels), logits })
    }

    /// Share of validation images that are classified correctly with the head of a task; among the outputs of all heads if they are
    /// one classifier.
    pub fn accuracy(
        &self,
        task: usize,
        data: TaskData<'_>,
        normalisation: Option<&Normalisation>,
    ) -> Result<f64> {
        let Some(&head) = self.head_of.get(task) else { return Ok(0.0) };
        let network = self.classifier()?;
        let offset = if self.single_head { offset(&self.heads, head) } else { 0 };
        let mut right = 0;
        for batch in self.training.stored(normalisation).init(data.val)? {
            data.check_stop()?;
            let features = network.trunk.features(images(&batch, &self.device.clone().inner()))?;
            let logits = match self.single_head {
                true => all_logits(&network.heads, &features),
                false => network.heads[head].logits(features),
            };
            let labels: Vec<u32> = batch.labels.iter().map(|label| label + offset).collect();
            right += correct(&logits, &labels);
        }
        Ok(right as f64 / data.val.len().max(1) as f64)
    }

    /// The network as it is now, without gradients.
    pub fn classifier(&self) -> Result<HeadedClassifier> {
        Ok(HeadedClassifier {
            trunk: self.trunk.frozen()?,
            heads: self.heads.iter().map(without_gradients).collect(),
            head_of: self.head_of.clone(),
            single_head: self.single_head,
        })
    }

    /// Modules per layer: one each.
    pub fn modules(&self) -> Vec<usize> {
        vec![1; self.trunk.0.len()]
    }

    /// Size of the network.
    pub fn capacity(&self) -> Capacity {
        let classes = self.heads.last().map_or(0, LinearHead::classes);
        let head = (self.config.features() * classes) as u64;
        Capacity {
            modules: self.modules(),
            parameters: parameter_count(self),
            multiply_adds: layer_multiply_adds(&self.config).iter().sum::<u64>() + head,
        }
    }
}

/// A trunk and heads in evaluation mode.
#[derive(Clone, Debug)]
pub struct HeadedClassifier {
    /// Layers that all tasks share.
    pub trunk: FrozenTrunk,
    /// One head per task, or one per list of classes.
    pub heads: Vec<LinearHead>,
    /// The head of each task.
    pub head_of: Vec<usize>,
    /// Whether all heads together are one classifier.
    pub single_head: bool,
}

impl Classify for HeadedClassifier {
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> Result<Vec<Vec<Classification>>> {
        let features = self.trunk.features(images.clone())?;
        protocols.iter().map(|&protocol| self.classify_features(&features, task, protocol)).collect()
    }
}

impl HeadedClassifier {
    fn classify_features(
        &self,
        features: &Tensor<2>,
        task: Option<usize>,
        protocol: Protocol,
    ) -> Result<Vec<Classification>> {
        if self.single_head && protocol != Protocol::TaskGiven {
            let outputs = labels(&all_logits(&self.heads, features)).into_iter();
            return Ok(outputs.map(|output| self.class_of(output as usize)).collect());
        }
        let task = given_task("method", protocol, task)?;
        let head = self.head_of.get(task).and_then(|&head| self.heads.get(head));
        Ok(head.ok_or_else(|| unknown_task(task))?.classify(features.clone(), task))
    }

    /// The task and label that one output of the single head stands for.
    fn class_of(&self, output: usize) -> Classification {
        let mut label = output;
        for (number, head) in self.heads.iter().enumerate() {
            if label < head.classes() {
                let task = self.head_of.iter().position(|&head| head == number).unwrap_or(0);
                return Classification { task, label: label as u32, weights: Vec::new() };
            }
            label -= head.classes();
        }
        Classification::default()
    }
}

/// Logits of all heads side by side, `[batch, output]`.
pub fn all_logits(heads: &[LinearHead], features: &Tensor<2>) -> Tensor<2> {
    Tensor::cat(heads.iter().map(|head| head.logits(features.clone())).collect(), 1)
}

/// Number of outputs before those of a head.
pub fn offset(heads: &[LinearHead], head: usize) -> u32 {
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
        let head = |classes: usize| LinearHead::new(network.features(), classes, &seed, &device);
        let classifier = HeadedClassifier {
            trunk: Trunk::new(&network, &seed, &device).frozen()?,
            heads: vec![head(3), head(2)],
            head_of: vec![0, 1, 0],
            single_head: true,
        };
        assert_eq!([0, 1].map(|head| offset(&classifier.heads, head)), [0, 3]);
        let classes = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)];
        for (output, (task, label)) in classes.into_iter().enumerate() {
            let found = classifier.class_of(output);
            assert_eq!((found.task, found.label), (task, label), "output {output}");
        }
        Ok(())
    }
}
