//! Inference: which modules and which head classify an image; without a task ID unless one is given.
//!
//! | file | idea |
//! | --- | --- |
//! | [`views`] | the modules that a head sees, and forward passes through them |
//! | [`head_choice`] | the head, when the task is not given |
//! | [`task_gaussian`] | distribution of a task's scores |
//! | [`novelty`] | images of no task that was learned |
//! | [`evaluation`] | accuracy under a test protocol, for any method |
//!
//! In the paper all modules compete for every image. A module that came later may then take over the images of an old
//! task: no parameter changed, and still the prediction does. But frozen modules do not change (batch norms follow the data
//! only with `adapt_batch_norm` and in [`Model::warm_up`]), so the network *contains*
//! every earlier version of itself: [`Routing::AsLearned`] lets a head see only the modules that were there when its task
//! was learned. With the task given, predictions then stay bit-identical for good. Without it a head must be chosen, by
//! its structural loss behind all modules, as in the paper, or by the distribution of its task's scores ([`HeadChoice`]).

pub mod evaluation;
pub mod head_choice;
mod memory;
pub mod novelty;
pub mod task_gaussian;
pub mod views;

use std::ops::Range;
use std::rc::Rc;

use burn::tensor::{Device, Tensor};
use lmc_streams::Preparation;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::Model;
use crate::network::composition::{CompositionConfig, softmax};
use crate::network::forward::{ForwardTrace, LayerTrace};
use crate::network::head::{Head, HeadSelection};
use crate::network::layer::{CachedResponses, Layer};
use crate::tensors::{argmax, numbers, rows, without_gradients};
use evaluation::{Classification, Classify, Protocol};
pub use head_choice::HeadChoice;
use views::{BatchTraces, View};

/// Which modules an image may pass through on its way to a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// All modules: the paper's.
    AllModules,
    /// The modules that were there when the head's task was learned, once the head is chosen.
    AsLearned,
}

/// How a model classifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PredictionConfig {
    /// Which modules an image may pass through; `all_modules` by default.
    pub routing: Routing,
    /// How a head is chosen when the task is not given; `structural_loss` by default.
    pub head_choice: HeadChoice,
}

impl Default for PredictionConfig {
    fn default() -> Self {
        Self { routing: Routing::AllModules, head_choice: HeadChoice::StructuralLoss }
    }
}

/// Whether the images of a batch share the prior over modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchPrior {
    /// One prior for the whole batch, as in training.
    Shared,
    /// A prior for each image, as if it were a batch of one.
    PerImage,
}

/// A network as it is now, for inference: batch norms with their running statistics, and no gradients.
#[derive(Clone, Debug)]
pub struct Predictor {
    pub(crate) layers: Vec<Layer>,
    /// The first view has all modules.
    pub(crate) views: Vec<View>,
    /// The view of each head: the modules that were there when its task was learned.
    own: Vec<usize>,
    pub(crate) heads: Vec<Head>,
    pub(crate) composition: CompositionConfig,
    pub(crate) config: PredictionConfig,
    pub(crate) preparation: Preparation,
    /// Images per batch.
    pub(crate) batch: usize,
    pub(crate) device: Device,
}

/// Heads, logits and scores for a batch.
#[derive(Clone, Debug)]
pub struct BatchPredictions {
    /// The head of each image.
    pub heads: Vec<usize>,
    /// Logits of each image under its head, `[image][class]`.
    pub logits: Vec<Vec<f64>>,
    /// Structural losses of all heads behind all modules, `[head][image]`.
    pub head_losses: Vec<Vec<f64>>,
    /// Forward pass that each head classifies from, as far as it was computed, and the first module of its view by layer.
    pub(crate) traces: Vec<Option<(Rc<ForwardTrace>, Vec<usize>)>>,
    /// Score profiles `[head][image]`, empty for heads whose own view was not computed.
    pub(crate) profiles: Vec<Vec<Vec<f64>>>,
}

impl BatchPredictions {
    /// The class of an image, in the label order of its head.
    pub fn label(&self, image: usize) -> usize {
        argmax(&self.logits[image])
    }

    /// Probabilities of an image's classes, according to its head.
    pub fn probabilities(&self, image: usize) -> Vec<f64> {
        softmax(&self.logits[image])
    }

    /// Weight of each module for an image, `[layer][module]`, up to the last module that the head sees.
    pub fn weights(&self, image: usize) -> Vec<Vec<f64>> {
        let Some(Some((trace, first))) = self.traces.get(self.heads[image]) else { return Vec::new() };
        let layers = trace.layers.iter().zip(first);
        layers
            .map(|(layer, &first)| {
                let weights = layer.weights.iter().map(|weights| weights[image]);
                std::iter::repeat_n(0.0, first).chain(weights).collect()
            })
            .collect()
    }

    /// Score profile of an image under a head: logarithms of the structural losses of the head and of each layer of its
    /// own view. Empty for a head whose view was not computed.
    pub fn profile(&self, head: usize, image: usize) -> &[f64] {
        self.profiles.get(head).and_then(|profiles| profiles.get(image)).map_or(&[], Vec::as_slice)
    }

    /// Scores and weights in each layer before a head; empty if they were not computed.
    pub fn layers(&self, head: usize) -> &[LayerTrace] {
        match self.traces.get(head) {
            Some(Some((trace, _))) => &trace.layers,
            _ => &[],
        }
    }
}

impl Model {
    /// The model as it is now, for inference.
    pub fn predictor(&self) -> Result<Predictor> {
        let network = &self.network;
        let all: Vec<Range<usize>> = network.layers.iter().map(|layer| 0..layer.modules().len()).collect();
        let mut views = vec![View::new(all)];
        let mut own = Vec::with_capacity(network.heads.len());
        for head in &network.heads {
            // A head that is trainable sees all modules.
            let ranges = head.view.as_ref().unwrap_or(&views[0].ranges);
            let known = views.iter().position(|view| view.ranges == *ranges);
            own.push(known.unwrap_or(views.len()));
            if known.is_none() {
                views.push(View::new(ranges.clone()));
            }
        }
        Ok(Predictor {
            layers: network.layers.clone(),
            views,
            own,
            heads: network.heads.iter().map(without_gradients).collect(),
            composition: self.config.composition.clone(),
            config: self.config.prediction,
            preparation: self.preparation,
            batch: self.config.batch,
            device: network.device.clone().inner(),
        })
    }
}

impl Predictor {
    /// The device that computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of the head of a task.
    pub fn head(&self, task: &str) -> Result<usize> {
        crate::network::head::find(&self.heads, task)
    }

    /// Batch prior and head selection of a test protocol.
    pub fn conditions(protocol: Protocol, head: Option<usize>) -> Result<(BatchPrior, HeadSelection)> {
        Ok(match (protocol, head) {
            (Protocol::TaskGiven, Some(head)) => (BatchPrior::Shared, HeadSelection::Given(head)),
            (Protocol::TaskGiven, None) => {
                return Err(Error::setting("task", "it is not given", "give it, or choose another protocol"));
            }
            (Protocol::TaskBatch, _) => (BatchPrior::Shared, HeadSelection::Batch),
            (Protocol::Mixed, _) => (BatchPrior::Shared, HeadSelection::Sample),
            // A single image of a known task.
            (Protocol::Single, Some(head)) => (BatchPrior::PerImage, HeadSelection::Given(head)),
            (Protocol::Single, None) => (BatchPrior::PerImage, HeadSelection::Sample),
        })
    }

    /// The forward pass that a head classifies from. `cached` are responses of all frozen first-layer modules.
    pub fn trace(
        &self,
        head: usize,
        images: Tensor<4>,
        cached: CachedResponses,
        prior: BatchPrior,
    ) -> Result<ForwardTrace> {
        self.pass(self.classifying_view(head)?, images, cached, prior)
    }

    pub(crate) fn own_view(&self, head: usize) -> Result<usize> {
        self.own.get(head).copied().ok_or_else(|| self.no_head(head))
    }

    /// The view that a head classifies from.
    pub(crate) fn classifying_view(&self, head: usize) -> Result<usize> {
        let own = self.own_view(head)?;
        Ok(match self.config.routing {
            Routing::AllModules => 0,
            Routing::AsLearned => own,
        })
    }

    /// Passes a batch through all modules; heads can then be chosen in several ways.
    pub fn batch(&self, images: &Tensor<4>, prior: BatchPrior) -> Result<BatchTraces<'_>> {
        self.check_memory(images.dims()[0])?;
        BatchTraces::new(self, images, prior)
    }

    /// Classifies a batch, and computes the score profiles of all heads.
    pub fn predict(
        &self,
        images: &Tensor<4>,
        prior: BatchPrior,
        selection: HeadSelection,
    ) -> Result<BatchPredictions> {
        let batch = self.batch(images, prior)?;
        for head in 0..self.heads.len() {
            batch.profiles(head)?;
        }
        batch.classify(selection)
    }

    /// Logits `[batch, class]` of features `[batch, feature]` under a head.
    pub fn logits(&self, head: usize, features: Tensor<2>) -> Result<Tensor<2>> {
        match self.heads.get(head) {
            Some(head) => Ok(head.logits(features)),
            None => Err(self.no_head(head)),
        }
    }

    /// Logits as numbers, `[image][class]`.
    pub(crate) fn logit_rows(&self, head: usize, features: Tensor<2>) -> Result<Vec<Vec<f64>>> {
        Ok(rows(&self.logits(head, features)?))
    }

    /// Structural losses of a head on features, one for each image.
    pub(crate) fn head_losses(&self, head: usize, trace: &ForwardTrace) -> Vec<f64> {
        numbers(&self.heads[head].losses(trace.features.clone()))
    }

    fn no_head(&self, head: usize) -> Error {
        let problem = format!("there are {} heads, none has number {head}", self.heads.len());
        Error::setting("task", problem, "learn a task first")
    }
}

impl Classify for Predictor {
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> Result<Vec<Vec<Classification>>> {
        // Protocols with the same batch prior share their forward passes.
        let mut passes: [Option<BatchTraces<'_>>; 2] = [None, None];
        let mut found = Vec::with_capacity(protocols.len());
        for &protocol in protocols {
            let given = task.filter(|_| protocol == Protocol::TaskGiven);
            let (prior, selection) = Self::conditions(protocol, given)?;
            let slot = &mut passes[usize::from(prior == BatchPrior::PerImage)];
            let traces = match slot {
                Some(traces) => traces,
                None => slot.insert(self.batch(images, prior)?),
            };
            let predictions = traces.classify(selection)?;
            let classification = |image: usize| Classification {
                task: predictions.heads[image],
                label: predictions.label(image) as u32,
                weights: predictions.weights(image),
            };
            found.push((0..predictions.heads.len()).map(classification).collect());
        }
        Ok(found)
    }
}
