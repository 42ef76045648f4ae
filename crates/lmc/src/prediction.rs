//! Prediction: which modules and which head answer, and what they say; without a task ID unless one is given.
//!
//! The paper lets all modules compete for every image. A module that came later may then take over the images of an old
//! task: nothing was unlearned, and still the answer changes. But old modules are frozen, so the network *contains* every
//! earlier version of itself: [`Routing::AsLearned`] lets all modules compete for the choice of the head, as the paper does,
//! and then asks that head behind the modules that were there when it was learned. With the task given every answer
//! stays what it was, for ever.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

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
    /// Those that were there when the head was learned, once the head is chosen.
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
    /// The first has all modules: behind it heads are chosen.
    views: Vec<View>,
    /// The view behind which each head answers.
    own: Vec<usize>,
    heads: Vec<Head>,
    composition: CompositionConfig,
    device: Device,
}

/// Modules that take part.
#[derive(Clone, Debug)]
struct View(Vec<ViewLayer>);

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
    /// Number of the first module of each layer.
    first: Vec<usize>,
}

/// Answers for a batch.
#[derive(Clone, Debug)]
pub struct Predictions {
    /// The head of each image.
    pub heads: Vec<usize>,
    /// Its logits.
    pub logits: Vec<Vec<f64>>,
    /// Structural losses of all heads behind all modules, `[head][image]`: what heads are chosen by.
    pub head_losses: Vec<Vec<f64>>,
    /// What each head answers from, as far as it was looked at.
    seen: Vec<Option<Rc<Seen>>>,
    /// Structural losses of those heads, each behind its own modules.
    own_losses: Vec<Vec<f64>>,
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
        let Some(Some(seen)) = self.seen.get(self.heads[image]) else { return Vec::new() };
        let layers = seen.trace.iter().zip(&seen.first);
        layers
            .map(|(layer, &first)| {
                let weights = layer.weights.iter().map(|weights| weights[image]);
                std::iter::repeat_n(0.0, first).chain(weights).collect()
            })
            .collect()
    }

    /// What a head and each layer before it say about an image: logarithms of losses. Empty for a head that was not
    /// looked at.
    pub fn profile(&self, head: usize, image: usize) -> Vec<f64> {
        let Some(own) = self.own_losses.get(head).filter(|losses| !losses.is_empty()) else {
            return Vec::new();
        };
        let layers = self.trace(head).iter().map(|layer| {
            let terms = layer.losses.iter().zip(&layer.weights);
            terms.map(|(losses, weights)| losses[image] * weights[image]).sum::<f64>()
        });
        std::iter::once(own[image]).chain(layers).map(|loss| loss.max(f64::MIN_POSITIVE).ln()).collect()
    }

    /// What happened in each layer before a head.
    pub fn trace(&self, head: usize) -> &[LayerTrace] {
        match self.seen.get(head) {
            Some(Some(seen)) => &seen.trace,
            _ => &[],
        }
    }
}

/// The images of a batch as a tensor.
pub fn images(batch: &Batch, device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(batch.images.clone(), batch.shape), device)
}

impl Network {
    /// The network as it is now, for answering.
    pub fn predictor(&self, composition: &CompositionConfig, config: PredictionConfig) -> Result<Predictor> {
        let all: Vec<Range<usize>> = self.layers.iter().map(|layer| 0..layer.modules().len()).collect();
        let view = |ranges: &[Range<usize>]| {
            let layers = self.layers.iter().zip(ranges).map(|(layer, range)| ViewLayer::new(layer, range));
            layers.collect::<Result<Vec<_>>>().map(View)
        };
        let mut views = vec![view(&all)?];
        let mut ranges = vec![all];
        let mut own = Vec::with_capacity(self.heads.len());
        for head in &self.heads {
            // A head that is being learned sees all there is.
            let sees = match (config.routing, &head.sees) {
                (Routing::AsLearned, Some(sees)) => sees,
                _ => &ranges[0],
            };
            let known = ranges.iter().position(|range| range == sees);
            own.push(known.unwrap_or(views.len()));
            if known.is_none() {
                views.push(view(sees)?);
                ranges.push(sees.clone());
            }
        }
        Ok(Predictor {
            views,
            own,
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
        match self.own.get(head) {
            Some(&view) => self.pass(&self.views[view], images, known, company),
            None => Err(self.no_head(head)),
        }
    }

    fn pass(&self, View(layers): &View, images: Tensor<4>, known: Known, company: Company) -> Result<Seen> {
        let mut x = images;
        let mut known = Some(known);
        let mut trace = Vec::with_capacity(layers.len());
        for layer in layers {
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
        let first = layers.iter().map(|layer| layer.first).collect();
        Ok(Seen { features: x.flatten(1, 3), trace, first }) // [batch, width * side * side]
    }

    /// Looks at a batch behind all modules; heads can then be chosen in several ways.
    pub fn look(&self, images: &Tensor<4>, company: Company) -> Result<Look<'_>> {
        let all = self.pass(&self.views[0], images.clone(), Known::default(), company)?;
        let losses = (0..self.heads.len()).map(|head| self.losses(head, &all)).collect();
        let seen = vec![OnceCell::new(); self.views.len()];
        let _ = seen[0].set(Rc::new(all));
        Ok(Look { predictor: self, images: images.clone(), company, losses, seen })
    }

    /// Answers for a batch, with what every head would answer from.
    pub fn predict(
        &self,
        images: &Tensor<4>,
        company: Company,
        selection: HeadSelection,
    ) -> Result<Predictions> {
        let look = self.look(images, company)?;
        for head in 0..self.heads.len() {
            look.seen(head)?;
        }
        look.answer(selection)
    }

    /// Logits `[image][class]` of one head.
    pub fn logits(&self, head: usize, features: Tensor<2>) -> Result<Vec<Vec<f64>>> {
        let Some(head) = self.heads.get(head) else { return Err(self.no_head(head)) };
        let numbers: Vec<f64> = values(&head.logits(features)).into_iter().map(f64::from).collect();
        Ok(numbers.chunks(head.classes.len().max(1)).map(<[f64]>::to_vec).collect())
    }

    fn losses(&self, head: usize, seen: &Seen) -> Vec<f64> {
        values(&self.heads[head].losses(seen.features.clone())).into_iter().map(f64::from).collect()
    }

    fn no_head(&self, head: usize) -> Error {
        let problem = format!("there are {} heads, none has number {head}", self.heads.len());
        Error::setting("task", problem, "learn a task first")
    }
}

/// A batch that was looked at.
#[derive(Clone, Debug)]
pub struct Look<'a> {
    predictor: &'a Predictor,
    images: Tensor<4>,
    company: Company,
    /// `[head][image]`, behind all modules.
    losses: Vec<Vec<f64>>,
    /// By view, as far as it was needed.
    seen: Vec<OnceCell<Rc<Seen>>>,
}

impl Look<'_> {
    /// What a head answers from.
    fn seen(&self, head: usize) -> Result<Rc<Seen>> {
        let Some(&view) = self.predictor.own.get(head) else { return Err(self.predictor.no_head(head)) };
        if let Some(seen) = self.seen[view].get() {
            return Ok(seen.clone());
        }
        let images = self.images.clone();
        let seen =
            self.predictor.pass(&self.predictor.views[view], images, Known::default(), self.company)?;
        Ok(self.seen[view].get_or_init(|| Rc::new(seen)).clone())
    }

    /// Answers with heads chosen in this way.
    pub fn answer(&self, selection: HeadSelection) -> Result<Predictions> {
        let images = self.images.dims()[0];
        let heads = selection.choose(&self.losses, images);
        let mut logits = vec![Vec::new(); images];
        let mut asked = heads.clone();
        asked.sort_unstable();
        asked.dedup();
        for head in asked {
            let rows = self.predictor.logits(head, self.seen(head)?.features.clone())?;
            for (image, row) in rows.into_iter().enumerate().filter(|(image, _)| heads[*image] == head) {
                logits[image] = row;
            }
        }
        let seen: Vec<Option<Rc<Seen>>> =
            self.predictor.own.iter().map(|&view| self.seen[view].get().cloned()).collect();
        let own_losses = seen.iter().enumerate().map(|(head, seen)| match seen {
            Some(seen) => self.predictor.losses(head, seen),
            None => Vec::new(),
        });
        let own_losses = own_losses.collect();
        Ok(Predictions { heads, logits, head_losses: self.losses.clone(), seen, own_losses })
    }
}
