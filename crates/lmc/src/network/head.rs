//! Heads: one per task, each a linear classifier with a structural component of its own (paper §3).
//!
//! In training the head is the task's. At test, without a task ID, every head scores the features and the one with the
//! smallest cost classifies; in the paper the cost is the structural loss
//! ([`HeadChoice`](crate::inference::HeadChoice)). The structural component never sends gradients into the trunk.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};

use super::composition::mean;
use crate::error::Result;
use crate::inference::route::Route;
use crate::inference::signature::Signature;
use crate::inference::task_gaussian::TaskGaussian;
use crate::module::structural::invertible::{Invertible, InvertibleConfig, unit_length};
use crate::tensors::{self, Draw, Role, Visitor, Walk, join};

/// Which kind of structural component heads have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadStructuralKind {
    /// Additive coupling of the features, normalised to length 1: the paper's.
    Invertible,
    /// Reconstructs the features, normalised to length 1, from the logits.
    Decoder,
}

/// Sizes of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadConfig {
    /// Length of the feature vector.
    pub features: usize,
    /// Number of classes.
    pub classes: usize,
    /// Kind of structural component.
    pub structural: HeadStructuralKind,
}

/// The structural component of a head.
#[derive(Clone, Debug)]
pub enum HeadStructural {
    /// Additive coupling.
    Invertible(Invertible),
    /// Two linear layers from the logits to the features.
    Decoder(HeadDecoder),
}

/// Two linear layers with a ReLU between them.
#[derive(Clone, Debug)]
pub struct HeadDecoder {
    first: Tensor<2>,
    first_bias: Tensor<1>,
    second: Tensor<2>,
    second_bias: Tensor<1>,
}

/// Neurons between the two layers of a head's decoder.
const HIDDEN: usize = 64;

/// The classifier of one task.
#[derive(Clone, Debug)]
pub struct Head {
    /// Name of the task.
    pub task: String,
    /// Class names of the task, in label order.
    pub classes: Vec<String>,
    /// Weights of the linear classifier, `[class, feature]`.
    pub weight: Tensor<2>,
    /// Biases of the linear classifier, `[class]`.
    pub bias: Tensor<1>,
    /// Structural component, which scores how well features fit the task.
    pub structural: HeadStructural,
    /// Whether the task is learned: no parameter of the head ever changes again.
    pub frozen: bool,
    /// Distribution of the task's scores on its validation images.
    pub gaussian: Option<TaskGaussian>,
    /// How the task's images look.
    pub signature: Option<Arc<Signature>>,
    /// The modules that the head asks once it is chosen.
    pub route: Option<Route>,
    /// The modules that were there when the task was learned, a range for each layer.
    pub view: Option<Vec<Range<usize>>>,
    /// Version of the head, from 1; more pictures or classes make a new one.
    pub version: u32,
}

impl HeadConfig {
    /// Makes a trainable head with random parameters.
    pub fn init(&self, task: &str, classes: Vec<String>, seed: &Seed, device: &Device) -> Head {
        let mut draw = Draw::new(&seed.named("classifier"), device);
        let weight = draw.uniform([self.classes, self.features], self.features);
        let bias = draw.uniform([self.classes], self.features);
        let seed = seed.named("structural");
        let structural = match self.structural {
            HeadStructuralKind::Invertible => {
                let config = InvertibleConfig { length: self.features, normalise: true, pool: None };
                HeadStructural::Invertible(config.init(&seed, device))
            }
            HeadStructuralKind::Decoder => {
                let mut draw = Draw::new(&seed, device);
                HeadStructural::Decoder(HeadDecoder {
                    first: draw.uniform([HIDDEN, self.classes], self.classes),
                    first_bias: draw.uniform([HIDDEN], self.classes),
                    second: draw.uniform([self.features, HIDDEN], HIDDEN),
                    second_bias: draw.uniform([self.features], HIDDEN),
                })
            }
        };
        Head {
            task: task.to_owned(),
            classes,
            weight,
            bias,
            structural,
            frozen: false,
            gaussian: None,
            signature: None,
            route: None,
            view: None,
            version: 1,
        }
    }
}

impl Head {
    /// The labels under this head of classes in another order; the error of an unknown one names those that it has.
    pub(crate) fn labels_of(&self, classes: &[String]) -> Result<Vec<u32>> {
        let label = |class: &String| {
            let found = self.classes.iter().position(|known| known == class);
            found.map(|label| label as u32).ok_or_else(|| {
                let known = self.classes.iter().map(String::as_str);
                let cure = format!("task '{}': its classes are {}", self.task, self.classes.join(", "));
                lmc_streams::Error::unknown("class", class, known, cure).into()
            })
        };
        classes.iter().map(label).collect()
    }

    /// Logits `[batch, class]` of features `[batch, feature]`.
    pub fn logits(&self, features: Tensor<2>) -> Tensor<2> {
        features.matmul(self.weight.clone().transpose()) + self.bias.clone().unsqueeze()
    }

    /// Structural losses `[batch]` of features `[batch, feature]`, which get no gradient.
    pub fn losses(&self, features: Tensor<2>) -> Tensor<1> {
        let features = features.detach();
        match &self.structural {
            HeadStructural::Invertible(coupling) => coupling.losses(features),
            HeadStructural::Decoder(decoder) => {
                let logits = self.logits(features.clone()).detach();
                decoder.losses(logits, unit_length(features))
            }
        }
    }

    /// A copy with further classes behind its own, whose classifier starts at random; all parameters are frozen.
    pub fn with_classes(&self, further: &[String], seed: &Seed, device: &Device) -> Self {
        let [known, features] = self.weight.dims();
        let mut draw = Draw::new(&seed.named("classifier"), device);
        let mut head = self.clone();
        if further.is_empty() {
            return head;
        }
        head.classes.extend(further.iter().cloned());
        let weight = draw.uniform([further.len(), features], features);
        head.weight = Tensor::cat(vec![self.weight.clone(), weight], 0).detach();
        head.bias = Tensor::cat(vec![self.bias.clone(), draw.uniform([further.len()], features)], 0).detach();
        if let HeadStructural::Decoder(decoder) = &mut head.structural {
            // New logits count for nothing until the decoder has learned what they tell.
            let more = Tensor::zeros([HIDDEN, further.len()], device);
            decoder.first = Tensor::cat(vec![decoder.first.clone(), more], 1).detach();
        }
        debug_assert_eq!(head.weight.dims()[0], known + further.len());
        head
    }

    /// Makes the classifier trainable again, and with it a structural component that depends on the logits.
    pub(crate) fn unfreeze_classifier(&mut self) {
        self.weight = self.weight.clone().detach().require_grad();
        self.bias = self.bias.clone().detach().require_grad();
        if let HeadStructural::Decoder(decoder) = &mut self.structural {
            for matrix in [&mut decoder.first, &mut decoder.second] {
                *matrix = matrix.clone().detach().require_grad();
            }
            for bias in [&mut decoder.first_bias, &mut decoder.second_bias] {
                *bias = bias.clone().detach().require_grad();
            }
        }
    }

    /// Whether the structural component sees the logits, so that it changes with the classifier.
    pub(crate) fn scores_logits(&self) -> bool {
        matches!(self.structural, HeadStructural::Decoder(_))
    }

    /// Freezes all parameters for good.
    pub fn freeze(&mut self) {
        self.frozen = true;
        tensors::freeze(self);
    }
}

impl HeadDecoder {
    fn losses(&self, logits: Tensor<2>, target: Tensor<2>) -> Tensor<1> {
        let [images, _] = logits.dims();
        let layer = |x: Tensor<2>, weight: &Tensor<2>, bias: &Tensor<1>| {
            x.matmul(weight.clone().transpose()) + bias.clone().unsqueeze()
        };
        let hidden = relu(layer(logits, &self.first, &self.first_bias)); // [batch, 64]
        let reconstructed = layer(hidden, &self.second, &self.second_bias); // [batch, feature]
        (reconstructed - target).square().mean_dim(1).reshape([images])
    }
}

impl Walk for Head {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        visitor.visit(&join(path, "classifier.weight"), Role::Functional, &mut self.weight);
        visitor.visit(&join(path, "classifier.bias"), Role::Functional, &mut self.bias);
        let path = join(path, "structural");
        match &mut self.structural {
            HeadStructural::Invertible(coupling) => coupling.walk(&path, visitor),
            HeadStructural::Decoder(decoder) => {
                visitor.visit(&join(&path, "linear1.weight"), Role::Structural, &mut decoder.first);
                visitor.visit(&join(&path, "linear1.bias"), Role::Structural, &mut decoder.first_bias);
                visitor.visit(&join(&path, "linear2.weight"), Role::Structural, &mut decoder.second);
                visitor.visit(&join(&path, "linear2.bias"), Role::Structural, &mut decoder.second_bias);
            }
        }
    }
}

/// How the head that classifies an image is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSelection {
    /// The head of a known task: LMC(¬A).
    Given(usize),
    /// The head with the smallest mean cost over the batch: LMC(A). All images of a batch share a task.
    Batch,
    /// For each image the head with the smallest cost.
    Sample,
}

impl HeadSelection {
    /// The head of each sample: the smallest of losses (or other costs) `[head][sample]`.
    pub fn choose(self, losses: &[Vec<f64>], images: usize) -> Vec<usize> {
        let smallest = |values: &mut dyn Iterator<Item = f64>| {
            values.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(head, _)| head)
        };
        match self {
            Self::Given(head) => vec![head; images],
            Self::Batch => {
                vec![smallest(&mut losses.iter().map(|losses| mean(losses))); images]
            }
            Self::Sample => {
                (0..images).map(|image| smallest(&mut losses.iter().map(|losses| losses[image]))).collect()
            }
        }
    }
}

/// Number of the head of a task.
pub(crate) fn find(heads: &[Head], task: &str) -> Result<usize> {
    heads.iter().position(|head| head.task == task).ok_or_else(|| {
        let known: Vec<&str> = heads.iter().map(|head| head.task.as_str()).collect();
        let cure = format!("the model knows {}", known.join(", "));
        lmc_streams::Error::unknown("task", task, known.iter().copied(), cure).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_chosen_by_batch_or_by_sample() {
        let losses = [vec![0.1, 0.9], vec![0.2, 0.3]];
        assert_eq!(HeadSelection::Batch.choose(&losses, 2), [1, 1]);
        assert_eq!(HeadSelection::Sample.choose(&losses, 2), [0, 1]);
        assert_eq!(HeadSelection::Given(0).choose(&losses, 2), [0, 0]);
    }
}
