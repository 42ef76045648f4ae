//! Inference: which modules and which head classify an image; without a task ID unless one is given.
//!
//! | file | idea |
//! | --- | --- |
//! | [`signature`] | how the images of a task look: finds the task of an image before any module runs |
//! | [`route`] | the modules that a head asks once it is chosen, and its stored prior |
//! | [`spare`] | how much of a layer's weight a task can do without |
//! | [`head_first`] | find the head, then ask only its modules |
//! | [`views`] | the modules that a head sees, and forward passes through them |
//! | [`head_choice`] | the head, when the task is not given |
//! | [`task_gaussian`] | distribution of a task's scores |
//! | [`novelty`] | images of no task that was learned |
//! | [`calibration`] | what a task's data say about its head, measured when the task is learned |
//! | [`evaluation`] | accuracy under a test protocol, for any method |
//!
//! In the paper all modules compete for every image. A module that came later may then take over the images of an old
//! task: no parameter changed, and still the prediction does. But frozen modules do not change (batch norms follow the data
//! only with `adapt_batch_norm` and in [`Model::warm_up`]), so the network *contains*
//! every earlier version of itself: [`Routing::AsLearned`] lets a head see only the modules that were there when its task
//! was learned. With the task given, predictions then stay bit-identical for good. Without it a head must be chosen, by
//! its structural loss behind all modules, as in the paper, by the distribution of its task's scores, or, before any module
//! has run, by how the image looks ([`HeadChoice`]).

pub mod calibration;
mod cholesky;
pub mod evaluation;
pub mod head_choice;
pub mod head_first;
mod memory;
pub mod novelty;
pub mod route;
pub mod signature;
mod spare;
pub mod task_gaussian;
pub mod views;

use std::cell::OnceCell;
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
use crate::tensors::{numbers, rows, without_gradients};
use evaluation::{Classification, Classify, Protocol};
pub use head_choice::HeadChoice;
use head_first::HeadFirst;
use novelty::Novelty;
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PredictionConfig {
    /// Which modules an image may pass through; `all_modules` by default.
    pub routing: Routing,
    /// How a head is chosen when the task is not given; `structural_loss` by default.
    pub head_choice: HeadChoice,
    /// Share of a layer's weight that may be left out when the modules of a route run, 0 to below 1; 0.005 by default. 0
    /// runs all modules that a head sees.
    pub negligible_weight: f64,
}

/// Share of a layer's weight that is negligible by default.
const NEGLIGIBLE: f64 = 0.005;

impl Default for PredictionConfig {
    fn default() -> Self {
        Self {
            routing: Routing::AllModules,
            head_choice: HeadChoice::StructuralLoss,
            negligible_weight: NEGLIGIBLE,
        }
    }
}

impl PredictionConfig {
    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        if (0.0..1.0).contains(&self.negligible_weight) {
            return Ok(());
        }
        let problem = format!("{} is not a share", self.negligible_weight);
        Err(Error::setting("prediction.negligible_weight", problem, "use 0 to below 1; 0.005 is the default"))
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
    /// The view of each head's route; `None` without one, and where heads are chosen in another way.
    routes: Vec<Option<usize>>,
    pub(crate) heads: Vec<Head>,
    pub(crate) composition: CompositionConfig,
    pub(crate) config: PredictionConfig,
    pub(crate) preparation: Preparation,
    /// Images per batch.
    pub(crate) batch: usize,
    /// Number of each class name, `[head][label]`: the same for equal names.
    names: Vec<Vec<usize>>,
    /// Prepared when the first head is chosen by signature.
    head_first: OnceCell<Option<Rc<HeadFirst>>>,
    pub(crate) device: Device,
}

/// The decision for one image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The heads that were considered and their posterior probabilities, the likeliest first.
    pub tasks: Vec<(usize, f64)>,
    /// Classes of these heads by name, the likeliest first.
    pub classes: Vec<ClassProbability>,
    /// Weight of each module in the pass of the head that classified, `[layer][module]`, up to the last that it sees.
    pub weights: Vec<Vec<f64>>,
    /// How unlike the images of its task it is; above 1 it is of no task.
    pub novelty: Novelty,
}

impl Decision {
    /// Whether the image is of no task.
    pub fn is_novel(&self) -> Option<bool> {
        self.novelty.level().map(|novelty| novelty > 1.0)
    }
}

/// Probability of a class name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassProbability {
    /// The head that says most for the name.
    pub head: usize,
    /// Label of the class under that head.
    pub label: usize,
    /// Probability of the name: that of each head considered, times the posterior of the head, summed.
    pub probability: f64,
}

/// Heads, logits and scores for a batch.
#[derive(Clone, Debug)]
pub struct BatchPredictions {
    /// The head of each image.
    pub heads: Vec<usize>,
    /// Logits of each image under its head, `[image][class]`.
    pub logits: Vec<Vec<f64>>,
    /// Structural losses of all heads behind all modules, `[head][image]`; empty if the head was found by signature.
    pub head_losses: Vec<Vec<f64>>,
    /// The decision for each image.
    pub decisions: Vec<Decision>,
    /// Forward pass of the whole batch that each head classifies from, as far as there was one.
    pub(crate) traces: Vec<Option<Rc<ForwardTrace>>>,
}

impl BatchPredictions {
    /// The class of an image, in the label order of its head.
    pub fn label(&self, image: usize) -> usize {
        self.decisions[image].classes.first().map_or(0, |class| class.label)
    }

    /// Probabilities of an image's classes, according to its head.
    pub fn probabilities(&self, image: usize) -> Vec<f64> {
        softmax(&self.logits[image])
    }

    /// Weight of each module for an image, `[layer][module]`, up to the last module that the head sees.
    pub fn weights(&self, image: usize) -> Vec<Vec<f64>> {
        self.decisions[image].weights.clone()
    }

    /// Scores and weights in each layer before a head; empty if they were not computed for the whole batch.
    pub fn layers(&self, head: usize) -> &[LayerTrace] {
        match self.traces.get(head) {
            Some(Some(trace)) => &trace.layers,
            _ => &[],
        }
    }
}

impl Model {
    /// The model as it is now, for inference.
    pub fn predictor(&self) -> Result<Predictor> {
        let network = &self.network;
        let config = self.config.prediction;
        let all: Vec<Vec<usize>> =
            network.layers.iter().map(|layer| (0..layer.modules().len()).collect()).collect();
        let mut views = vec![View::new(all, None)];
        let mut place = |view: View| {
            let known = views.iter().position(|known| known.is(&view));
            known.unwrap_or_else(|| {
                views.push(view);
                views.len() - 1
            })
        };
        let (mut own, mut routes) = (Vec::new(), Vec::new());
        for head in &network.heads {
            // A head that is trainable sees all modules.
            let Some(ranges) = &head.view else {
                own.push(0);
                routes.push(None);
                continue;
            };
            own.push(place(View::new(ranges.iter().cloned().map(Iterator::collect).collect(), None)));
            let route = head.route.as_ref().filter(|_| config.head_choice == HeadChoice::Signature);
            routes.push(route.map(|route| {
                let modules = route.modules(config.negligible_weight);
                let prior = route.prior(&modules, &self.config.composition);
                let places = ranges.iter().zip(modules);
                let places =
                    places.map(|(range, modules)| modules.iter().map(|at| range.start + at).collect());
                place(View::new(places.collect(), Some(prior)))
            }));
        }
        Ok(Predictor {
            layers: network.layers.clone(),
            views,
            own,
            routes,
            names: numbered_names(&network.heads),
            head_first: OnceCell::new(),
            heads: network.heads.iter().map(without_gradients).collect(),
            composition: self.config.composition.clone(),
            config,
            preparation: self.preparation,
            batch: self.config.batch,
            device: network.device.clone().inner(),
        })
    }
}

/// A number for each class name of each head; equal names have equal numbers.
fn numbered_names(heads: &[Head]) -> Vec<Vec<usize>> {
    let mut known: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
    let mut number = |name| {
        let next = known.len();
        *known.entry(name).or_insert(next)
    };
    heads.iter().map(|head| head.classes.iter().map(|name| number(name.as_str())).collect()).collect()
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
        Ok(match (self.routes[head], self.config.routing) {
            (Some(route), _) => route,
            (None, Routing::AllModules) => 0,
            (None, Routing::AsLearned) => own,
        })
    }

    /// Passes a batch through all modules; heads can then be chosen in several ways.
    pub fn batch(&self, images: &Tensor<4>, prior: BatchPrior) -> Result<BatchTraces<'_>> {
        self.check_memory(images.dims()[0])?;
        BatchTraces::new(self, images, prior)
    }

    /// Classifies a batch, and says which images are new.
    pub fn predict(
        &self,
        images: &Tensor<4>,
        prior: BatchPrior,
        selection: HeadSelection,
    ) -> Result<BatchPredictions> {
        if let Some(batch) = self.routed(images)? {
            return batch.classify(selection, true);
        }
        let batch = self.batch(images, prior)?;
        for head in 0..self.heads.len() {
            batch.profiles(head)?;
        }
        batch.classify(selection)
    }

    /// The classes of some heads by name, from the posterior and the logits of each: the likeliest first.
    pub(crate) fn mixture(&self, heads: &[(usize, f64, &[f64])]) -> Result<Vec<ClassProbability>> {
        let mut classes: Vec<(usize, ClassProbability, f64)> = Vec::new();
        for &(head, posterior, logits) in heads {
            if logits.iter().any(|logit| !logit.is_finite()) {
                return Err(Error::NotFinite { what: "a logit" });
            }
            for (label, probability) in softmax(logits).into_iter().enumerate() {
                let (name, probability) = (self.names[head][label], posterior * probability);
                let found = ClassProbability { head, label, probability };
                match classes.iter_mut().find(|(known, ..)| *known == name) {
                    Some((_, known, most)) => {
                        if probability > *most {
                            (known.head, known.label, *most) = (head, label, probability);
                        }
                        known.probability += probability;
                    }
                    None => classes.push((name, found, probability)),
                }
            }
        }
        // Logits tell classes apart whose probabilities are the same number.
        let logit = |class: &ClassProbability| {
            let of = heads.iter().find(|(head, ..)| *head == class.head);
            of.map_or(f64::NEG_INFINITY, |(.., logits)| logits[class.label])
        };
        let mut classes: Vec<ClassProbability> = classes.into_iter().map(|(_, class, _)| class).collect();
        classes.sort_by(|a, b| {
            b.probability.total_cmp(&a.probability).then_with(|| logit(b).total_cmp(&logit(a)))
        });
        Ok(classes)
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
        let routed = self.routed(images)?;
        // Protocols with the same batch prior share their forward passes.
        let mut passes: [Option<BatchTraces<'_>>; 2] = [None, None];
        let mut found = Vec::with_capacity(protocols.len());
        for &protocol in protocols {
            let given = task.filter(|_| protocol == Protocol::TaskGiven);
            let (prior, selection) = Self::conditions(protocol, given)?;
            let predictions = match &routed {
                Some(batch) => batch.classify(selection, false)?,
                None => {
                    let slot = &mut passes[usize::from(prior == BatchPrior::PerImage)];
                    let traces = match slot {
                        Some(traces) => traces,
                        None => slot.insert(self.batch(images, prior)?),
                    };
                    traces.classify(selection)?
                }
            };
            let classification = |(image, decision): (usize, Decision)| Classification {
                task: predictions.heads[image],
                label: decision.classes.first().map_or(0, |class| class.label as u32),
                weights: decision.weights,
            };
            found.push(predictions.decisions.into_iter().enumerate().map(classification).collect());
        }
        Ok(found)
    }
}
