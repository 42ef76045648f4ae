//! Prediction: which modules and which head answer, and what they say; without a task ID unless one is given.
//!
//! The paper lets all modules compete for every image. A module that came later may then take over the images of an old
//! task: nothing was unlearned, and still the answer changes. But old modules are frozen, so the network *contains* every
//! earlier version of itself: [`Routing::AsLearned`] asks a head behind the modules that were there when it was learned.
//! With the task given every answer then stays what it was, for ever. Without it, a head must be chosen: by its structural
//! loss behind all modules, as in the paper, or by how familiar the image is to it ([`HeadChoice`]).

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

/// What heads are compared by when the task is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadChoice {
    /// Their structural losses behind all modules: the paper's.
    StructuralLoss,
    /// The same, times how likely what they and the layers before them say is for their task
    /// ([`crate::familiarity`]). Structural losses alone while a head has no such distribution.
    Familiarity,
}

/// How a model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PredictionConfig {
    /// `all_modules` by default.
    pub routing: Routing,
    /// `structural_loss` by default.
    pub head_choice: HeadChoice,
}

impl Default for PredictionConfig {
    fn default() -> Self {
        Self { routing: Routing::AllModules, head_choice: HeadChoice::StructuralLoss }
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
    layers: Vec<Layer>,
    /// The first has all modules.
    views: Vec<View>,
    /// The view of each head: the modules that were there when it was learned.
    own: Vec<usize>,
    heads: Vec<Head>,
    composition: CompositionConfig,
    config: PredictionConfig,
    device: Device,
}

/// Modules that take part, put together when they are first needed.
#[derive(Clone, Debug)]
struct View {
    ranges: Vec<Range<usize>>,
    layers: OnceCell<Vec<ViewLayer>>,
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
    /// Structural losses of all heads behind all modules, `[head][image]`.
    pub head_losses: Vec<Vec<f64>>,
    /// What each head answers from, as far as it was looked at.
    seen: Vec<Option<Rc<Seen>>>,
    /// Profiles `[head][image]`, empty for heads that were not looked at.
    profiles: Vec<Vec<Vec<f64>>>,
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

    /// What a head and each layer of its own view say about an image: logarithms of losses. Empty for a head that was
    /// not looked at.
    pub fn profile(&self, head: usize, image: usize) -> &[f64] {
        self.profiles.get(head).and_then(|profiles| profiles.get(image)).map_or(&[], Vec::as_slice)
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
        let mut views = vec![View { ranges: all, layers: OnceCell::new() }];
        let mut own = Vec::with_capacity(self.heads.len());
        for head in &self.heads {
            // A head that is being learned sees all there is.
            let ranges = head.sees.as_ref().unwrap_or(&views[0].ranges);
            let known = views.iter().position(|view| view.ranges == *ranges);
            own.push(known.unwrap_or(views.len()));
            if known.is_none() {
                views.push(View { ranges: ranges.clone(), layers: OnceCell::new() });
            }
        }
        Ok(Predictor {
            layers: self.layers.clone(),
            views,
            own,
            heads: self.heads.iter().map(without_gradients).collect(),
            composition: composition.clone(),
            config,
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

    /// What the modules that a head answers from make of a batch.
    pub fn see(&self, head: usize, images: Tensor<4>, known: Known, company: Company) -> Result<Seen> {
        self.pass(self.answering_view(head)?, images, known, company)
    }

    fn own_view(&self, head: usize) -> Result<usize> {
        self.own.get(head).copied().ok_or_else(|| self.no_head(head))
    }

    fn answering_view(&self, head: usize) -> Result<usize> {
        let own = self.own_view(head)?;
        Ok(match self.config.routing {
            Routing::AllModules => 0,
            Routing::AsLearned => own,
        })
    }

    fn view(&self, view: usize) -> Result<&[ViewLayer]> {
        let View { ranges, layers } = &self.views[view];
        if let Some(layers) = layers.get() {
            return Ok(layers);
        }
        let made = self.layers.iter().zip(ranges).map(|(layer, range)| ViewLayer::new(layer, range));
        let made = made.collect::<Result<Vec<_>>>()?;
        Ok(layers.get_or_init(|| made))
    }

    fn pass(&self, view: usize, images: Tensor<4>, known: Known, company: Company) -> Result<Seen> {
        let layers = self.view(view)?;
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
        let first = match self.view(0)?.first().and_then(|layer| layer.learned.as_ref()) {
            Some(modules) => Some(modules.respond(images, Known::default(), false)?),
            None => None,
        };
        let seen = vec![OnceCell::new(); self.views.len()];
        let profiles = vec![OnceCell::new(); self.heads.len()];
        let (images, losses) = (images.clone(), Vec::new());
        let mut look = Look { predictor: self, images, company, first, losses, seen, profiles };
        let all = look.seen(0)?;
        look.losses = (0..self.heads.len()).map(|head| self.losses(head, &all)).collect();
        Ok(look)
    }

    /// Answers for a batch, with what every head makes of it.
    pub fn predict(
        &self,
        images: &Tensor<4>,
        company: Company,
        selection: HeadSelection,
    ) -> Result<Predictions> {
        let look = self.look(images, company)?;
        for head in 0..self.heads.len() {
            look.profiles(head)?;
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
    /// Outputs and losses of all learned modules of the first layer, which sees the same in every view.
    first: Option<(Tensor<5>, Tensor<2>)>,
    /// `[head][image]`, behind all modules.
    losses: Vec<Vec<f64>>,
    /// By view, as far as it was needed.
    seen: Vec<OnceCell<Rc<Seen>>>,
    /// By head, then image; as far as they were needed.
    profiles: Vec<OnceCell<Vec<Vec<f64>>>>,
}

impl Look<'_> {
    fn seen(&self, view: usize) -> Result<Rc<Seen>> {
        if let Some(seen) = self.seen[view].get() {
            return Ok(seen.clone());
        }
        let seen = self.predictor.pass(view, self.images.clone(), self.known(view), self.company)?;
        Ok(self.seen[view].get_or_init(|| Rc::new(seen)).clone())
    }

    /// What the learned modules of a view's first layer said.
    fn known(&self, view: usize) -> Known {
        let range = self.predictor.views[view].ranges.first();
        let (Some((outputs, losses)), Some(range)) = (&self.first, range) else { return Known::default() };
        let modules = losses.dims()[0];
        let (start, end) = (range.start.min(modules), range.end.min(modules));
        if start == end {
            return Known::default();
        }
        let count = end - start;
        Known {
            outputs: Some(outputs.clone().narrow(0, start, count)),
            losses: Some(losses.clone().narrow(0, start, count)),
        }
    }

    /// What a head and the layers of its own view say, image by image.
    fn profiles(&self, head: usize) -> Result<&[Vec<f64>]> {
        if let Some(profiles) = self.profiles[head].get() {
            return Ok(profiles);
        }
        let seen = self.seen(self.predictor.own_view(head)?)?;
        let losses = self.predictor.losses(head, &seen);
        let profile = |(image, loss): (usize, &f64)| {
            let layers = seen.trace.iter().map(|layer| {
                let terms = layer.losses.iter().zip(&layer.weights);
                terms.map(|(losses, weights)| losses[image] * weights[image]).sum::<f64>()
            });
            std::iter::once(*loss).chain(layers).map(|loss| loss.max(f64::MIN_POSITIVE).ln()).collect()
        };
        let profiles = losses.iter().enumerate().map(profile).collect();
        Ok(self.profiles[head].get_or_init(|| profiles))
    }

    /// How surprising each image is to each head, `[head][image]`; `None` unless all heads can tell. Minus the logarithm of
    /// a product: the likelihood of the profile in the head's own view, and the head's structural loss behind all modules
    /// to the power of -1/τ, the weight that the paper gives to modules.
    fn surprises(&self) -> Result<Option<Vec<Vec<f64>>>> {
        let mut surprises = Vec::with_capacity(self.predictor.heads.len());
        for (head, found) in self.predictor.heads.iter().enumerate() {
            let Some(task) = &found.familiar else { return Ok(None) };
            let profiles = self.profiles(head)?.iter().zip(&self.losses[head]);
            let temperature = self.predictor.composition.temperature;
            let surprise = |(profile, loss): (&Vec<f64>, &f64)| {
                task.surprise(profile) + loss.max(f64::MIN_POSITIVE).ln() / temperature
            };
            surprises.push(profiles.map(surprise).collect());
        }
        Ok(Some(surprises))
    }

    fn choose(&self, selection: HeadSelection) -> Result<Vec<usize>> {
        let images = self.images.dims()[0];
        let needed = !matches!(selection, HeadSelection::Given(_));
        let surprises = match self.predictor.config.head_choice {
            HeadChoice::Familiarity if needed => self.surprises()?,
            _ => None,
        };
        Ok(selection.choose(surprises.as_ref().unwrap_or(&self.losses), images))
    }

    /// Answers with heads chosen in this way.
    pub fn answer(&self, selection: HeadSelection) -> Result<Predictions> {
        let heads = self.choose(selection)?;
        let mut logits = vec![Vec::new(); heads.len()];
        let mut asked = heads.clone();
        asked.sort_unstable();
        asked.dedup();
        for head in asked {
            let features = self.seen(self.predictor.answering_view(head)?)?.features.clone();
            let rows = self.predictor.logits(head, features)?;
            for (image, row) in rows.into_iter().enumerate().filter(|(image, _)| heads[*image] == head) {
                logits[image] = row;
            }
        }
        let views = (0..self.predictor.heads.len()).map(|head| self.predictor.answering_view(head));
        let seen = views.map(|view| Ok(self.seen[view?].get().cloned())).collect::<Result<_>>()?;
        let profiles = self.profiles.iter().map(|profiles| profiles.get().cloned().unwrap_or_default());
        let profiles = profiles.collect();
        Ok(Predictions { heads, logits, head_losses: self.losses.clone(), seen, profiles })
    }
}
