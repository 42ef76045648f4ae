//! Evaluation: how many images are told right, with the task given and without, in batches of one task, in mixed batches
//! and one by one (specification §1.10).
//!
//! The paper tests without task IDs, but in batches of 64 images of one task, which share the batch prior of every layer
//! and their head. Mixed batches and single images have no such company.

use lmc_streams::{Batch, BatchConfig, Seed, TaskSet};

use crate::error::Result;
use crate::head::HeadSelection;
use crate::prediction::{Company, Predictions, Predictor, images};

/// How many images of a set were told right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// Asked.
    pub images: usize,
    /// Told right: label by label, whichever head answered.
    pub right: usize,
    /// Images answered by each head.
    pub heads: Vec<usize>,
    /// Sum of the weights of each module, `[layer][module]`.
    weights: Vec<Vec<f64>>,
}

impl Told {
    /// Share told right.
    pub fn accuracy(&self) -> f64 {
        self.right as f64 / self.images.max(1) as f64
    }

    /// Counts a batch.
    pub fn add(&mut self, predictions: &Predictions, labels: &[u32]) {
        for (image, &label) in labels.iter().enumerate() {
            self.add_one(predictions, image, label);
        }
    }

    /// Counts one image of a batch.
    fn add_one(&mut self, predictions: &Predictions, image: usize, label: u32) {
        let right = predictions.label(image) == label as usize;
        self.count(right, predictions.heads[image], &predictions.weights(image));
    }

    /// Counts one image: whether it was told right, by which head, behind which modules.
    pub fn count(&mut self, right: bool, head: usize, weights: &[Vec<f64>]) {
        self.images += 1;
        self.right += usize::from(right);
        if self.heads.len() <= head {
            self.heads.resize(head + 1, 0);
        }
        self.heads[head] += 1;
        self.weights.resize(weights.len().max(self.weights.len()), Vec::new());
        for (sums, weights) in self.weights.iter_mut().zip(weights) {
            sums.resize(sums.len().max(weights.len()), 0.0);
            sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        }
    }

    /// Mean weight of each module, `[layer][module]`.
    pub fn mean_weights(&self) -> Vec<Vec<f64>> {
        let images = self.images.max(1) as f64;
        self.weights.iter().map(|layer| layer.iter().map(|sum| sum / images).collect()).collect()
    }
}

/// How a set was told, with the task given and without.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// By the head of the task.
    pub given: Told,
    /// By the head that the network chose.
    pub chosen: Told,
}

impl Asked {
    fn add(&mut self, network: &Predictor, batch: &Batch, head: usize, company: Company) -> Result<()> {
        let look = network.look(&images(batch, network.device()), company)?;
        let selection = match company {
            Company::Batch => HeadSelection::Batch,
            Company::Alone => HeadSelection::Sample,
        };
        self.given.add(&look.answer(HeadSelection::Given(head))?, &batch.labels);
        self.chosen.add(&look.answer(selection)?, &batch.labels);
        Ok(())
    }
}

/// Asks a whole set in stored order, in batches of this size or one by one.
pub fn ask(network: &Predictor, set: &TaskSet, head: usize, size: usize, company: Company) -> Result<Asked> {
    let mut asked = Asked::default();
    for batch in BatchConfig::stored(size).init(set)? {
        asked.add(network, &batch, head, company)?;
    }
    Ok(asked)
}

/// Asks several sets in batches into which all their images are shuffled; heads are chosen image by image.
pub fn ask_mixed(network: &Predictor, sets: &[&TaskSet], size: usize, seed: &Seed) -> Result<Vec<Told>> {
    let mut order: Vec<(usize, usize)> = sets
        .iter()
        .enumerate()
        .flat_map(|(set, images)| (0..images.len()).map(move |at| (set, at)))
        .collect();
    seed.random().shuffle(&mut order);
    let mut told = vec![Told::default(); sets.len()];
    for places in order.chunks(size.max(1)) {
        let batch = mixed_batch(sets, places);
        let input = images(&batch, network.device());
        let predictions = network.look(&input, Company::Batch)?.answer(HeadSelection::Sample)?;
        for (image, (set, _)) in places.iter().enumerate() {
            told[*set].add_one(&predictions, image, batch.labels[image]);
        }
    }
    Ok(told)
}

/// Images from several sets: `(set, position)`.
fn mixed_batch(sets: &[&TaskSet], places: &[(usize, usize)]) -> Batch {
    let shape = sets.iter().find(|set| !set.is_empty()).map(|set| set.shape());
    let Some(shape) = shape else { return Batch::default() };
    let mut bytes = vec![0; shape.bytes()];
    let mut batch =
        Batch { shape: [places.len(), shape.channels, shape.height, shape.width], ..Batch::default() };
    for &(set, position) in places {
        sets[set].write(position, &mut bytes);
        batch.images.extend(bytes.iter().map(|&byte| f32::from(byte) / 255.0));
        batch.labels.push(sets[set].label(position));
        batch.positions.push(position as u32);
    }
    batch
}
