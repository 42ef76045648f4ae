//! Views: the modules that a head sees, packed for the fused kernels, and forward passes of a batch through them.
//!
//! The first view has all modules. Every other one has the modules that were there when a task was learned. Views are
//! packed, and passes computed, when they are first needed; the first layer, which sees the raw images in every view,
//! responds once.

use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

use burn::tensor::Tensor;

use super::{BatchPredictions, BatchPrior, Predictor};
use crate::error::{Error, Result};
use crate::module::{FrozenModules, LocalModule};
use crate::network::composition::{CompositionConfig, PerModule};
use crate::network::forward::{ForwardTrace, Weighing, forward};
use crate::network::head::HeadSelection;
use crate::network::layer::{CachedResponses, Layer, Responses};
use crate::tensors::without_gradients;

/// Modules that take part, a range for each layer.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) ranges: Vec<Range<usize>>,
    layers: OnceCell<Vec<ViewLayer>>,
}

/// The modules of one layer that take part, packed.
#[derive(Clone, Debug)]
struct ViewLayer {
    frozen: Option<FrozenModules>,
    trainable: Option<FrozenModules>,
}

impl View {
    pub(crate) fn new(ranges: Vec<Range<usize>>) -> Self {
        Self { ranges, layers: OnceCell::new() }
    }
}

impl ViewLayer {
    fn new(layer: &Layer, range: &Range<usize>) -> Result<Self> {
        let count = layer.frozen_count();
        let frozen = if *range == (0..layer.modules().len()) && layer.packed().is_some() {
            layer.packed().cloned()
        } else {
            let modules = &layer.modules()[range.start.min(count)..range.end.min(count)];
            let modules: Vec<LocalModule> = modules.iter().map(without_gradients).collect();
            if modules.is_empty() { None } else { Some(FrozenModules::new(&modules)?) }
        };
        // A module that has not taken part in a training batch yet takes no part in predictions.
        let trainable = match layer.trainable().filter(|module| module.trained && range.end > count) {
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

    fn weigh(&mut self, _: usize, _: &Responses, losses: &PerModule) -> PerModule {
        match self.prior {
            BatchPrior::Shared => self.composition.weights(losses),
            BatchPrior::PerImage => self.composition.weights_alone(losses),
        }
    }
}

impl Predictor {
    fn view(&self, view: usize) -> Result<&[ViewLayer]> {
        let View { ranges, layers } = &self.views[view];
        if let Some(layers) = layers.get() {
            return Ok(layers);
        }
        let packed = self.layers.iter().zip(ranges).map(|(layer, range)| ViewLayer::new(layer, range));
        let packed = packed.collect::<Result<Vec<_>>>()?;
        Ok(layers.get_or_init(|| packed))
    }

    /// Passes a batch through the modules of a view.
    pub(crate) fn pass(
        &self,
        view: usize,
        images: Tensor<4>,
        cached: CachedResponses,
        prior: BatchPrior,
    ) -> Result<ForwardTrace> {
        let layers = self.view(view)?;
        let mut weighing = EvaluationWeighing { layers, composition: &self.composition, prior };
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
        let range = self.predictor.views[view].ranges.first();
        let (Some((outputs, losses)), Some(range)) = (&self.first, range) else {
            return CachedResponses::default();
        };
        let modules = losses.dims()[0];
        let (start, end) = (range.start.min(modules), range.end.min(modules));
        if start == end {
            return CachedResponses::default();
        }
        CachedResponses {
            outputs: Some(outputs.clone().narrow(0, start, end - start)),
            losses: Some(losses.clone().narrow(0, start, end - start)),
        }
    }

    /// Score profiles of all images under a head, from its own view: logarithms of the structural loss of the head, then
    /// of each layer (that of its modules, summed by their weights).
    pub fn profiles(&self, head: usize) -> Result<&[Vec<f64>]> {
        if let Some(profiles) = self.profiles[head].get() {
            return Ok(profiles);
        }
        let trace = self.trace(self.predictor.own_view(head)?)?;
        let losses = self.predictor.head_losses(head, &trace);
        let profile = |(image, loss): (usize, &f64)| {
            let layers = trace.layers.iter().map(|layer| {
                let terms = layer.losses.iter().zip(&layer.weights);
                terms.map(|(losses, weights)| losses[image] * weights[image]).sum::<f64>()
            });
            std::iter::once(*loss).chain(layers).map(|loss| loss.max(f64::MIN_POSITIVE).ln()).collect()
        };
        let profiles = losses.iter().enumerate().map(profile).collect();
        Ok(self.profiles[head].get_or_init(|| profiles))
    }

    /// Classifies the batch with heads chosen in this way.
    pub fn classify(&self, selection: HeadSelection) -> Result<BatchPredictions> {
        let heads = self.choose(selection)?;
        let mut logits = vec![Vec::new(); heads.len()];
        let mut chosen = heads.clone();
        chosen.sort_unstable();
        chosen.dedup();
        for head in chosen {
            let features = self.trace(self.predictor.classifying_view(head)?)?.features.clone();
            let rows = self.predictor.logit_rows(head, features)?;
            for (image, row) in rows.into_iter().enumerate().filter(|(image, _)| heads[*image] == head) {
                if row.iter().any(|logit| !logit.is_finite()) {
                    return Err(Error::NotFinite { what: "a logit" });
                }
                logits[image] = row;
            }
        }
        let trace = |head: usize| {
            let view = self.predictor.classifying_view(head)?;
            let first = self.predictor.views[view].ranges.iter().map(|range| range.start).collect();
            Ok(self.traces[view].get().cloned().map(|trace| (trace, first)))
        };
        let traces = (0..self.predictor.heads.len()).map(trace).collect::<Result<_>>()?;
        let profiles = self.profiles.iter().map(|profiles| profiles.get().cloned().unwrap_or_default());
        let profiles = profiles.collect();
        Ok(BatchPredictions { heads, logits, head_losses: self.head_losses.clone(), traces, profiles })
    }
}
