//! Views: the modules that a head sees, packed for the fused kernels, and forward passes of a batch through them.
//!
//! The first view has all modules. Every other one has the modules that were there when a task was learned, or those of a
//! head's route with the prior that it stored. Views are packed, and passes computed, when they are first needed; the first
//! layer, which sees the raw images in every view, responds once for all views without a stored prior.

use std::cell::OnceCell;
use std::rc::Rc;

use burn::tensor::Tensor;

use super::novelty::Novelty;
use super::{BatchPredictions, BatchPrior, Decision, Predictor};
use crate::error::Result;
use crate::module::{FrozenModules, LocalModule};
use crate::network::composition::{CompositionConfig, PerModule};
use crate::network::forward::{ForwardTrace, LayerTrace, Weighing, forward};
use crate::network::head::HeadSelection;
use crate::network::layer::{CachedResponses, Layer, Responses};
use crate::tensors::without_gradients;

/// Modules that take part.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Their places in the layers, `[layer][module]`; without a stored prior they follow one another.
    pub(crate) modules: Vec<Vec<usize>>,
    /// The stored prior: logarithms, `[layer][module]`. `None` where the prior is that of a batch or an image.
    pub(crate) prior: Option<Vec<Vec<f64>>>,
    layers: OnceCell<Vec<ViewLayer>>,
}

/// The modules of one layer that take part, packed.
#[derive(Clone, Debug)]
struct ViewLayer {
    frozen: Option<FrozenModules>,
    trainable: Option<FrozenModules>,
}

impl View {
    pub(crate) fn new(modules: Vec<Vec<usize>>, prior: Option<Vec<Vec<f64>>>) -> Self {
        Self { modules, prior, layers: OnceCell::new() }
    }

    /// Whether another view has the same modules under the same prior.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.modules == other.modules && self.prior == other.prior
    }

    /// Weights of an image in a pass through this view, `[layer][module]`, with the modules at their places in the layers.
    pub(super) fn weights(&self, trace: &ForwardTrace, image: usize) -> Vec<Vec<f64>> {
        let layer = |(layer, modules): (&LayerTrace, &Vec<usize>)| {
            let mut weights = vec![0.0; modules.last().map_or(0, |last| last + 1)];
            for (&module, found) in modules.iter().zip(&layer.weights) {
                weights[module] = found[image];
            }
            weights
        };
        trace.layers.iter().zip(&self.modules).map(layer).collect()
    }
}

/// Score profile of an image: logarithms of the structural loss of the head, then of each layer (that of its modules,
/// summed by their weights).
pub(super) fn profile(head_loss: f64, trace: &ForwardTrace, image: usize) -> Vec<f64> {
    let layers = trace.layers.iter().map(|layer| {
        let terms = layer.losses.iter().zip(&layer.weights);
        terms.map(|(losses, weights)| losses[image] * weights[image]).sum::<f64>()
    });
    std::iter::once(head_loss).chain(layers).map(|loss| loss.max(f64::MIN_POSITIVE).ln()).collect()
}

impl ViewLayer {
    fn new(layer: &Layer, places: &[usize]) -> Result<Self> {
        let count = layer.frozen_count();
        let frozen = if places.len() == layer.modules().len() && layer.packed().is_some() {
            layer.packed().cloned()
        } else {
            let modules = places.iter().filter(|&&place| place < count).map(|&place| &layer.modules()[place]);
            let modules: Vec<LocalModule> = modules.map(without_gradients).collect();
            if modules.is_empty() { None } else { Some(FrozenModules::new(&modules)?) }
        };
        // A module that has not taken part in a training batch yet takes no part in predictions.
        let sees_all = places.last().is_some_and(|&last| last >= count);
        let trainable = match layer.trainable().filter(|module| module.trained && sees_all) {
            Some(module) => Some(FrozenModules::new(&[without_gradients(module)])?),
            None => None,
        };
        Ok(Self { frozen, trainable })
    }
}

/// Modules in evaluation mode; weights by composition.
struct EvaluationWeighing<'a> {
    layers: &'a [ViewLayer],
    composition: &'a CompositionConfig,
    stored: Option<&'a [Vec<f64>]>,
    prior: BatchPrior,
}

impl Weighing for EvaluationWeighing<'_> {
    fn depth(&self) -> usize {
        self.layers.len()
    }

    fn respond(&mut self, layer: usize, input: &Tensor<4>, cached: CachedResponses) -> Result<Responses> {
        let layer = &self.layers[layer];
        let frozen = match &layer.frozen {
            Some(modules) => Some(modules.respond(input, cached, false)?),
            None => None,
        };
        let trainable = match &layer.trainable {
            Some(module) => {
                let (outputs, losses) = module.respond(input, CachedResponses::default(), false)?;
                let [_, images, channels, height, width] = outputs.dims();
                Some((outputs.reshape([images, channels, height, width]), losses.reshape([images])))
            }
            None => None,
        };
        Ok(Responses { frozen, trainable })
    }

    fn weigh(&mut self, layer: usize, _: &Responses, losses: &PerModule) -> PerModule {
        match (self.stored, self.prior) {
            (Some(stored), _) => self.composition.weights_given(losses, &stored[layer]),
            (None, BatchPrior::Shared) => self.composition.weights(losses),
            (None, BatchPrior::PerImage) => self.composition.weights_alone(losses),
        }
    }
}

impl Predictor {
    fn view(&self, view: usize) -> Result<&[ViewLayer]> {
        let View { modules, layers, .. } = &self.views[view];
        if let Some(layers) = layers.get() {
            return Ok(layers);
        }
        let packed = self.layers.iter().zip(modules).map(|(layer, places)| ViewLayer::new(layer, places));
        let packed = packed.collect::<Result<Vec<_>>>()?;
        Ok(layers.get_or_init(|| packed))
    }

    /// Passes a batch through the modules of a view; a stored prior takes the place of `prior`.
    pub(crate) fn pass(
        &self,
        view: usize,
        images: Tensor<4>,
        cached: CachedResponses,
        prior: BatchPrior,
    ) -> Result<ForwardTrace> {
        let layers = self.view(view)?;
        let stored = self.views[view].prior.as_deref();
        let mut weighing = EvaluationWeighing { layers, composition: &self.composition, stored, prior };
        forward(images, cached, &mut weighing, &self.device)
    }
}

/// Forward passes of one batch, as far as they were needed.
#[derive(Clone, Debug)]
pub struct BatchTraces<'a> {
    pub(super) predictor: &'a Predictor,
    images: Tensor<4>,
    prior: BatchPrior,
    /// Responses of all frozen modules of the first layer.
    first: Option<(Tensor<5>, Tensor<2>)>,
    /// Structural losses of the heads behind all modules, `[head][image]`.
    pub(super) head_losses: Vec<Vec<f64>>,
    /// Forward passes, by view.
    traces: Vec<OnceCell<Rc<ForwardTrace>>>,
    /// Score profiles, by head and image.
    profiles: Vec<OnceCell<Vec<Vec<f64>>>>,
}

impl<'a> BatchTraces<'a> {
    pub(super) fn new(predictor: &'a Predictor, images: &Tensor<4>, prior: BatchPrior) -> Result<Self> {
        let first = match predictor.view(0)?.first().and_then(|layer| layer.frozen.as_ref()) {
            Some(modules) => Some(modules.respond(images, CachedResponses::default(), false)?),
            None => None,
        };
        let traces = vec![OnceCell::new(); predictor.views.len()];
        let profiles = vec![OnceCell::new(); predictor.heads.len()];
        let (images, head_losses) = (images.clone(), Vec::new());
        let mut batch = Self { predictor, images, prior, first, head_losses, traces, profiles };
        let all = batch.trace(0)?;
        batch.head_losses =
            (0..predictor.heads.len()).map(|head| predictor.head_losses(head, &all)).collect();
        Ok(batch)
    }

    /// Number of images.
    pub(super) fn images(&self) -> usize {
        self.images.dims()[0]
    }

    /// The forward pass through a view.
    fn trace(&self, view: usize) -> Result<Rc<ForwardTrace>> {
        if let Some(trace) = self.traces[view].get() {
            return Ok(trace.clone());
        }
        let trace = self.predictor.pass(view, self.images.clone(), self.cached(view), self.prior)?;
        Ok(self.traces[view].get_or_init(|| Rc::new(trace)).clone())
    }

    /// Responses of the frozen modules of a view's first layer.
    fn cached(&self, view: usize) -> CachedResponses {
        let View { modules, prior, .. } = &self.predictor.views[view];
        let (Some((outputs, losses)), Some(places), None) = (&self.first, modules.first(), prior) else {
            return CachedResponses::default();
        };
        let frozen = losses.dims()[0];
        let (Some(&start), Some(&last)) = (places.first(), places.last()) else {
            return CachedResponses::default();
        };
        let (start, end) = (start.min(frozen), (last + 1).min(frozen));
        if start == end {
            return CachedResponses::default();
        }
        CachedResponses {
            outputs: Some(outputs.clone().narrow(0, start, end - start)),
            losses: Some(losses.clone().narrow(0, start, end - start)),
        }
    }

    /// Score profiles of all images under a head, from its own view.
    pub fn profiles(&self, head: usize) -> Result<&[Vec<f64>]> {
        if let Some(profiles) = self.profiles[head].get() {
            return Ok(profiles);
        }
        let trace = self.trace(self.predictor.own_view(head)?)?;
        let losses = self.predictor.head_losses(head, &trace);
        let profiles = losses.iter().enumerate().map(|(image, &loss)| profile(loss, &trace, image)).collect();
        Ok(self.profiles[head].get_or_init(|| profiles))
    }

    /// How new an image is: for the task of all that have a distribution of scores for which it is least unusual. `None`
    /// without any, and unless the score profiles of all heads were computed.
    fn novelty(&self, image: usize) -> Option<f64> {
        let mut least: Option<f64> = None;
        for (head, profiles) in self.predictor.heads.iter().zip(&self.profiles) {
            let profile = profiles.get()?.get(image)?;
            if let Some(task) = &head.gaussian {
                let novelty = task.novelty(profile);
                least = Some(least.map_or(novelty, |least| least.min(novelty)));
            }
        }
        least
    }

    /// Classifies the batch with heads chosen in this way.
    pub fn classify(&self, selection: HeadSelection) -> Result<BatchPredictions> {
        let heads = self.choose(selection)?;
        let mut logits = vec![Vec::new(); heads.len()];
        let mut decisions = vec![Decision::default(); heads.len()];
        let mut chosen = heads.clone();
        chosen.sort_unstable();
        chosen.dedup();
        for head in chosen {
            let view = self.predictor.classifying_view(head)?;
            let trace = self.trace(view)?;
            let rows = self.predictor.logit_rows(head, trace.features.clone())?;
            for (image, row) in rows.into_iter().enumerate().filter(|(image, _)| heads[*image] == head) {
                decisions[image] = Decision {
                    tasks: vec![(head, 1.0)],
                    classes: self.predictor.mixture(&[(head, 1.0, &row)])?,
                    weights: self.predictor.views[view].weights(&trace, image),
                    novelty: Novelty { looks: None, scores: self.novelty(image) },
                };
                logits[image] = row;
            }
        }
        let trace = |head: usize| Ok(self.traces[self.predictor.classifying_view(head)?].get().cloned());
        let traces = (0..self.predictor.heads.len()).map(trace).collect::<Result<_>>()?;
        Ok(BatchPredictions { heads, logits, head_losses: self.head_losses.clone(), decisions, traces })
    }
}
