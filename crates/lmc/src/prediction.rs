//! Prediction: which modules and which head answer, and what they say; without a task ID unless one is given.

use burn::tensor::{Device, Tensor, TensorData};
use lmc_streams::Batch;

use crate::composition::{CompositionConfig, softmax};
use crate::error::{Error, Result};
use crate::head::{Head, HeadSelection};
use crate::layer::{Known, Responses};
use crate::module::FrozenModules;
use crate::network::{LayerTrace, Network};
use crate::tensors::{values, without_gradients};

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
    layers: Vec<PredictorLayer>,
    heads: Vec<Head>,
    composition: CompositionConfig,
    device: Device,
}

#[derive(Clone, Debug)]
struct PredictorLayer {
    learned: Option<FrozenModules>,
    free: Option<FrozenModules>,
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
    /// What happened in each layer.
    pub trace: Vec<LayerTrace>,
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
}

/// The images of a batch as a tensor.
pub fn images(batch: &Batch, device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(batch.images.clone(), batch.shape), device)
}

impl Network {
    /// The network as it is now, for answering.
    pub fn predictor(&self, composition: &CompositionConfig) -> Result<Predictor> {
        let mut layers = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let free = match layer.free().filter(|module| module.trained) {
                Some(module) => Some(FrozenModules::new(&[without_gradients(module)])?),
                None => None,
            };
            layers.push(PredictorLayer { learned: layer.packed().cloned(), free });
        }
        Ok(Predictor {
            layers,
            heads: self.heads.iter().map(without_gradients).collect(),
            composition: composition.clone(),
            device: self.device.clone().inner(),
        })
    }
}

impl Predictor {
    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Features `[batch, feature]` of a batch, and what happened in each layer.
    pub fn features(
        &self,
        images: Tensor<4>,
        known: Known,
        company: Company,
    ) -> Result<(Tensor<2>, Vec<LayerTrace>)> {
        let mut x = images;
        let mut known = Some(known);
        let mut trace = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let learned = match &layer.learned {
                Some(modules) => Some(modules.respond(&x, known.take().unwrap_or_default(), false)?),
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
            known = None;
            let responses = Responses { learned, free };
            let losses = responses.losses();
            let weights = match company {
                Company::Batch => self.composition.weights(&losses),
                Company::Alone => self.composition.weights_alone(&losses),
            };
            x = responses.combine(&weights, &self.device)?;
            trace.push(LayerTrace { losses, weights, z: Vec::new() });
        }
        Ok((x.flatten(1, 3), trace)) // [batch, width * side * side]
    }

    /// Answers for a batch.
    pub fn predict(&self, images: Tensor<4>, company: Company, selection: HeadSelection) -> Result<Predictions> {
        let count = images.dims()[0];
        let (features, trace) = self.features(images, Known::default(), company)?;
        let head_losses = self.head_losses(features.clone());
        let heads = selection.choose(&head_losses, count);
        let logits = self.logits(features, &heads)?;
        Ok(Predictions { heads, logits, head_losses, trace })
    }

    /// Structural losses of all heads, `[head][image]`.
    pub fn head_losses(&self, features: Tensor<2>) -> Vec<Vec<f64>> {
        let losses = |head: &Head| values(&head.losses(features.clone())).into_iter().map(f64::from).collect();
        self.heads.iter().map(losses).collect()
    }

    /// Logits of each image from its own head.
    pub fn logits(&self, features: Tensor<2>, heads: &[usize]) -> Result<Vec<Vec<f64>>> {
        if let Some(head) = heads.iter().find(|&&head| head >= self.heads.len()) {
            let problem = format!("there are {} heads, none has number {head}", self.heads.len());
            return Err(Error::setting("task", problem, "learn a task first"));
        }
        let mut logits = vec![Vec::new(); heads.len()];
        for (number, head) in self.heads.iter().enumerate().filter(|(number, _)| heads.contains(number)) {
            let rows = values(&head.logits(features.clone()));
            for (image, row) in rows.chunks(head.classes.len().max(1)).enumerate() {
                if heads[image] == number {
                    logits[image] = row.iter().map(|&logit| f64::from(logit)).collect();
                }
            }
        }
        Ok(logits)
    }
}
