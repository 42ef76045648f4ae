//! Prediction: which head answers, and what it says; without a task ID unless one is given.

use burn::tensor::{Device, Tensor, TensorData};
use lmc_streams::{Batch, BatchConfig, TaskSet};

use crate::composition::{CompositionConfig, softmax};
use crate::error::{Error, Result};
use crate::head::HeadSelection;
use crate::layer::Known;
use crate::network::{Company, LayerTrace, Network};
use crate::tensors::values;

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
    /// Answers for a batch.
    pub fn predict(
        &self,
        images: Tensor<4>,
        known: Known,
        composition: &CompositionConfig,
        company: Company,
        selection: HeadSelection,
    ) -> Result<Predictions> {
        let count = images.dims()[0];
        let (features, trace) = self.features(images, known, composition, company)?;
        let head_losses = self.head_losses(features.clone());
        let heads = selection.choose(&head_losses, count);
        let logits = self.logits(features, &heads)?;
        Ok(Predictions { heads, logits, head_losses, trace })
    }

    /// Structural losses of all heads, `[head][image]`.
    pub fn head_losses(&self, features: Tensor<2>) -> Vec<Vec<f64>> {
        let losses = |head: &crate::head::Head| values(&head.losses(features.clone()));
        self.heads.iter().map(|head| losses(head).into_iter().map(f64::from).collect()).collect()
    }

    /// Logits of each image from its own head.
    pub fn logits(&self, features: Tensor<2>, heads: &[usize]) -> Result<Vec<Vec<f64>>> {
        let mut logits = vec![Vec::new(); heads.len()];
        for (number, head) in self.heads.iter().enumerate().filter(|(number, _)| heads.contains(number)) {
            let rows = values(&head.logits(features.clone()));
            for (image, row) in rows.chunks(head.classes.len().max(1)).enumerate() {
                if heads[image] == number {
                    logits[image] = row.iter().map(|&logit| f64::from(logit)).collect();
                }
            }
        }
        if let Some(head) = heads.iter().find(|&&head| head >= self.heads.len()) {
            let problem = format!("there are {} heads, none has number {head}", self.heads.len());
            return Err(Error::setting("task", problem, "learn a task first"));
        }
        Ok(logits)
    }
}

/// How a set is asked.
#[derive(Clone, Copy, Debug)]
pub struct Asking {
    /// Images per batch.
    pub batch: usize,
    /// Whether images share their prior.
    pub company: Company,
    /// Which head answers.
    pub selection: HeadSelection,
}

/// How many images of a set were told right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Asked.
    pub images: usize,
    /// Told right: label by label, whichever head answered.
    pub right: usize,
    /// Images answered by each head.
    pub heads: Vec<usize>,
    /// Mean weight of each module, `[layer][module]`.
    pub weights: Vec<Vec<f64>>,
}

impl Told {
    /// Share told right.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.images.max(1) as f64
    }

    /// Counts a batch.
    pub fn add(&mut self, predictions: &Predictions, labels: &[u32]) {
        let before = self.images as f64;
        self.images += labels.len();
        for (image, &label) in labels.iter().enumerate() {
            self.right += usize::from(predictions.label(image) == label as usize);
            let head = predictions.heads[image];
            if self.heads.len() <= head {
                self.heads.resize(head + 1, 0);
            }
            self.heads[head] += 1;
        }
        self.weights.resize(predictions.trace.len(), Vec::new());
        for (means, trace) in self.weights.iter_mut().zip(&predictions.trace) {
            means.resize(trace.weights.len(), 0.0);
            for (mean, weights) in means.iter_mut().zip(&trace.weights) {
                *mean = (*mean * before + weights.iter().sum::<f64>()) / self.images.max(1) as f64;
            }
        }
    }
}

/// Asks a whole set, in stored order.
pub fn ask(
    network: &Network,
    composition: &CompositionConfig,
    set: &TaskSet,
    asking: Asking,
) -> Result<Told> {
    let mut told = Told::default();
    for batch in BatchConfig::stored(asking.batch).init(set)? {
        let images = images(&batch, &network.device);
        let predictions =
            network.predict(images, Known::default(), composition, asking.company, asking.selection)?;
        told.add(&predictions, &batch.labels);
    }
    Ok(told)
}
