//! Prediction: which modules and which head answer, and what they say; without a task ID unless one is given.
//!
//! The paper lets all modules compete for every image. A module that came later may then take over the images of an old
//! task: nothing was unlearned, and still the answer changes. But old modules are frozen, so the network *contains* every
//! earlier version of itself: [`Routing::AsLearned`] asks each head behind the modules that were there when it was
//! learned, and with the task given every answer stays what it was, for ever.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};
use lmc_streams::Batch;
use serde::{Deserialize, Serialize};

use crate::composition::{CompositionConfig, softmax};
use crate::error::{Error, Result};
use crate::head::{Head, HeadSelection};
use crate::layer::{Known, Layer, Responses};
use crate::module::{FrozenModules, LocalModule};
use crate::network::{LayerTrace, Network};
use crate::tensors::{values, without_gradients};

/// Which modules an image may pass through on its way to a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// All there are: the paper's.
    AllModules,
    /// Those that were there when the head was learned.
    AsLearned,
}

/// How a model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PredictionConfig {
    /// `all_modules` by default.
    pub routing: Routing,
}

impl Default for PredictionConfig {
    fn default() -> Self {
        Self { routing: Routing::AllModules }
    }
}

/// Whether the images of a batch share their prior.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// One prior for the batch, as in training.
    Batch,
    /// Each image as if it were a batch of one.
    Alone,
}

/// A network as it is now, for answering: all batch norms with their running statistics, no gradients anywhere.
#[derive(Clone, Debug)]
pub struct Predictor {
    views: Vec<View>,
    heads: Vec<Head>,
    composition: CompositionConfig,
    device: Device,
}

/// Heads that are asked behind the same modules.
#[derive(Clone, Debug)]
struct View {
    heads: Vec<usize>,
    layers: Vec<ViewLayer>,
}

#[derive(Clone, Debug)]
struct ViewLayer {
    learned: Option<FrozenModules>,
    free: Option<FrozenModules>,
    /// Number of the first module in the layer.
    first: usize,
}

/// What the modules of a view made of a batch.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `[batch, feature]`.
    pub features: Tensor<2>,
    /// What happened in each layer.
    pub trace: Vec<LayerTrace>,
    heads: Vec<usize>,
    first: Vec<usize>,
}

/// Answers for a batch.
#[derive(Clone, Debug)]
pub struct Predictions {
    /// The head of each image.
    pub heads: Vec<usize>,
    /// Its logits.
    pub logits: Vec<Vec<f64>>,
    /// Structural losses of all heads, `[head][image]`.
    pub head_losses: Vec<Vec<f64>>,
    seen: Vec<Seen>,
}

impl Predictions {
    /// The class of an image, in the label order of its head.
    pub fn label(&self, image: usize) -> usize {
        let logits = &self.logits[image];
        (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a))).unwrap_or(0)
    }

    /// The probabilities of an image's classes, according to its head.
    pub fn probabilities(&self, image: usize) -> Vec<f64> {
        softmax(&self.logits[image])
    }

    /// Weight of each module in the answer for an image, `[layer][module]`.
    pub fn weights(&self, image: usize) -> Vec<Vec<f64>> {
        let Some(seen) = self.seen_by(self.heads[image]) else { return Vec::new() };
        let layers = seen.trace.iter().zip(&seen.first);
        layers
            .map(|(layer, &first)| {
                std::iter::repeat_n(0.0, first)
                    .chain(layer.weights.iter().map(|weights| weights[image]))
                    .collect()
            })
            .collect()
    }

    /// What a head and each layer before it say about an image: logarithms of losses.
    pub fn profile(&self, head: usize, image: usize) -> Vec<f64> {
        let layers = self.trace(head).iter().map(|layer| {
            let terms = layer.losses.iter().zip(&layer.weights);
            terms.map(|(losses, weights)| losses[image] * weights[image]).sum::<f64>()
        });
        let head = self.head_losses[head][image];
        std::iter::once(head).chain(layers).map(|loss| loss.max(f64::MIN_POSITIVE).ln()).collect()
    }

    /// What happened in each layer before a head.
    pub fn trace(&self, head: usize) -> &[LayerTrace] {
        self.seen_by(head).map_or(&[], |seen| &seen.trace)
    }

    fn seen_by(&self, head: usize) -> Option<&Seen> {
        self.seen.iter().find(|seen| seen.heads.contains(&head))
    }
}

/// The images of a batch as a tensor.
pub fn images(batch: &Batch, device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(batch.images.clone(), batch.shape), device)
}

impl Network {
    /// The network as it is now, for answering.
    pub fn predictor(&self, composition: &CompositionConfig, config: PredictionConfig) -> Result<Predictor> {
        let mut views: Vec<View> = Vec::new();
        let mut ranges: Vec<Vec<Range<usize>>> = Vec::new();
        let all: Vec<Range<usize>> = self.layers.iter().map(|layer| 0..layer.modules().len()).collect();
        for (number, head) in self.heads.iter().enumerate() {
            // A head that is being learned sees all there is.
            let sees = match (config.routing, &head.sees) {
                (Routing::AsLearned, Some(sees)) => sees.clone(),
                _ => all.clone(),
            };
            match ranges.iter().position(|range| *range == sees) {
                Some(view) => views[view].heads.push(number),
                None => {
                    let layers = self.layers.iter().zip(&sees);
                    let layers =
                        layers.map(|(layer, range)| ViewLayer::new(layer, range)).collect::<Result<_>>()?;
                    views.push(View { heads: vec![number], layers });
                    ranges.push(sees);
                }
            }
        }
        Ok(Predictor {
            views,
            heads: self.heads.iter().map(without_gradients).collect(),
            composition: composition.clone(),
            device: self.device.clone().inner(),
        })
    }
}

impl ViewLayer {
    fn new(layer: &Layer, range: &Range<usize>) -> Result<Self> {
        let learned = layer.learned();
        let packed = if *range == (0..layer.modules().len()) && layer.packed().is_some() {
            layer.packed().cloned()
        } else {
            let modules = &layer.modules()[range.start.min(learned)..range.end.min(learned)];
            let modules: Vec<LocalModule> = modules.iter().map(without_gradients).collect();
            if modules.is_empty() { None } else { Some(FrozenModules::new(&modules)?) }
        };
        // A module that has not learned anything yet has no say.
        let free = match layer.free().filter(|module| module.trained && range.end > learned) {
            Some(module) => Some(FrozenModules::new(&[without_gradients(module)])?),
            None => None,
        };
        Ok(Self { learned: packed, free, first: range.start })
    }
}

impl Predictor {
    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What the modules before a head make of a batch.
    pub fn see(&self, head: usize, images: Tensor<4>, known: Known, company: Company) -> Result<Seen> {
        match self.views.iter().find(|view| view.heads.contains(&head)) {
            Some(view) => self.pass(view, images, known, company),
            None => Err(self.no_head(head)),
        }
    }

    fn pass(&self, view: &View, images: Tensor<4>, known: Known, company: Company) -> Result<Seen> {
        let mut x = images;
        let mut known = Some(known);
        let mut trace = Vec::with_capacity(view.layers.len());
        for layer in &view.layers {
            let known = known.take().unwrap_or_default();
            let learned = match &layer.learned {
                Some(modules) => Some(modules.respond(&x, known, false)?),
                None => None,
            };
            let free = match &layer.free {
                Some(module) => {
                    let (outputs, losses) = module.respond(&x, Known::default(), false)?;
                    let [_, images, channels, height, width] = outputs.dims();
                    Some((outputs.reshape([images, channels, height, width]), losses.reshape([images])))
                }
                None => None,
            };
            let responses = Responses { learned, free };
            let losses = responses.losses();
            let weights = match company {
                Company::Batch => self.composition.weights(&losses),
                Company::Alone => self.composition.weights_alone(&losses),
            };
            x = responses.combine(&weights, &self.device)?;
            trace.push(LayerTrace { losses, weights, z: Vec::new() });
        }
        Ok(Seen {
            features: x.flatten(1, 3), // [batch, width * side * side]
            trace,
            heads: view.heads.clone(),
            first: view.layers.iter().map(|layer| layer.first).collect(),
        })
    }

    /// Looks at a batch in all ways that heads need.
    pub fn look(&self, images: &Tensor<4>, company: Company) -> Result<Look<'_>> {
        let images_count = images.dims()[0];
        let mut seen = Vec::with_capacity(self.views.len());
        for view in &self.views {
            seen.push(self.pass(view, images.clone(), Known::default(), company)?);
        }
        let mut losses = vec![Vec::new(); self.heads.len()];
        for seen in &seen {
            for &head in &seen.heads {
                losses[head] = values(&self.heads[head].losses(seen.features.clone()))
                    .into_iter()
                    .map(f64::from)
                    .collect();
            }
        }
        Ok(Look { predictor: self, seen, losses, images: images_count })
    }

    /// Answers for a batch.
    pub fn predict(
        &self,
        images: &Tensor<4>,
        company: Company,
        selection: HeadSelection,
    ) -> Result<Predictions> {
        self.look(images, company)?.answer(selection)
    }

    /// Logits `[image][class]` of one head.
    pub fn logits(&self, head: usize, features: Tensor<2>) -> Result<Vec<Vec<f64>>> {
        let Some(head) = self.heads.get(head) else { return Err(self.no_head(head)) };
        let numbers: Vec<f64> = values(&head.logits(features)).into_iter().map(f64::from).collect();
        Ok(numbers.chunks(head.classes.len().max(1)).map(<[f64]>::to_vec).collect())
    }

    fn no_head(&self, head: usize) -> Error {
        let problem = format!("there are {} heads, none has number {head}", self.heads.len());
        Error::setting("task", problem, "learn a task first")
    }
}

/// A batch that was looked at; heads can be chosen in several ways.
#[derive(Clone, Debug)]
pub struct Look<'a> {
    predictor: &'a Predictor,
    seen: Vec<Seen>,
    losses: Vec<Vec<f64>>,
    images: usize,
}

impl Look<'_> {
    /// Answers with heads chosen in this way.
    pub fn answer(&self, selection: HeadSelection) -> Result<Predictions> {
        let heads = selection.choose(&self.losses, self.images);
        let mut logits = vec![Vec::new(); self.images];
        let mut asked = heads.clone();
        asked.sort_unstable();
        asked.dedup();
        for head in asked {
            let Some(seen) = self.seen.iter().find(|seen| seen.heads.contains(&head)) else {
                return Err(self.predictor.no_head(head));
            };
            for (image, row) in self.predictor.logits(head, seen.features.clone())?.into_iter().enumerate() {
                if heads[image] == head {
                    logits[image] = row;
                }
            }
        }
        Ok(Predictions { heads, logits, head_losses: self.losses.clone(), seen: self.seen.clone() })
    }
}
