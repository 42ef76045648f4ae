//! Batches: bytes become floats on the way to the network.
//!
//! The order depends on the seed alone, not on the machine or the number of threads; the last, partial
//! batch is kept. Floats are made when a batch is asked for, in a buffer that can be used again.

use crate::error::{Error, Result};
use crate::image_set::ImageShape;
use crate::normalisation::Normalisation;
use crate::seed::Seed;
use crate::task::TaskSet;

/// In which order images come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As stored, class by class: how the paper tests.
    Stored,
    /// Shuffled by a seed, normally `seed.named("batches").numbered(epoch)`.
    Shuffled(Seed),
}

/// How batches are made.
#[derive(Clone, Debug)]
pub struct BatchConfig {
    /// Images per batch; 64 in the paper.
    pub size: usize,
    /// Their order.
    pub order: Order,
    /// Normalise with these statistics; by default values stay in `[0, 1]`.
    pub normalisation: Option<Normalisation>,
}

impl BatchConfig {
    /// Shuffled batches, not normalised.
    pub fn shuffled(size: usize, seed: Seed) -> Self {
        Self { size, order: Order::Shuffled(seed), normalisation: None }
    }

    /// Batches in stored order, not normalised.
    pub fn stored(size: usize) -> Self {
        Self { size, order: Order::Stored, normalisation: None }
    }

    /// With these statistics.
    pub fn normalised(self, statistics: Normalisation) -> Self {
        Self { normalisation: Some(statistics), ..self }
    }

    /// Starts an epoch over `set`.
    pub fn init<'a>(&self, set: &'a TaskSet) -> Result<Batches<'a>> {
        if self.size == 0 {
            return Err(Error::setting("batch size", "it is 0", "use 1 or more; the paper uses 64"));
        }
        let order = match self.order {
            Order::Stored => (0..set.len() as u32).collect(),
            Order::Shuffled(seed) => seed.random().permutation(set.len()),
        };
        let channels = set.shape().channels;
        if let Some(statistics) = &self.normalisation
            && (statistics.mean.len() != channels || statistics.deviation.len() != channels)
        {
            let problem = format!("{} means for {channels} channels", statistics.mean.len());
            return Err(Error::setting("normalisation", problem, "compute it from images of the same shape"));
        }
        let scales = (0..channels).map(|channel| self.scale(channel)).collect();
        Ok(Batches { set, order, size: self.size, at: 0, scales, bytes: vec![0; set.shape().bytes()] })
    }

    /// What each byte becomes in a channel: division by 255 and normalisation in one.
    fn scale(&self, channel: usize) -> [f32; 256] {
        let (mean, deviation) = match &self.normalisation {
            Some(statistics) => (statistics.mean[channel], statistics.deviation[channel]),
            None => (0.0, 1.0),
        };
        std::array::from_fn(|byte| (byte as f32 / 255.0 - mean) / deviation)
    }
}

/// Some images as floats.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Values, `[image, channel, row, column]`.
    pub images: Vec<f32>,
    /// Labels, `[image]`.
    pub labels: Vec<u32>,
    /// Positions in the set, `[image]`: the key for anything cached per image.
    pub positions: Vec<u32>,
    /// `[images, channels, height, width]`.
    pub shape: [usize; 4],
}

/// An epoch of batches; an iterator, or [`Batches::fill`] to use one buffer again and again.
#[derive(Debug)]
pub struct Batches<'a> {
    set: &'a TaskSet,
    order: Vec<u32>,
    size: usize,
    at: usize,
    scales: Vec<[f32; 256]>, // [channel][byte]
    bytes: Vec<u8>,
}

impl Batches<'_> {
    /// Makes the next batch in `batch`; false at the end.
    pub fn fill(&mut self, batch: &mut Batch) -> bool {
        let end = (self.at + self.size).min(self.order.len());
        let ImageShape { channels, height, width } = self.set.shape();
        batch.positions.clear();
        batch.positions.extend_from_slice(&self.order[self.at..end]);
        batch.labels.clear();
        batch.images.clear();
        batch.images.reserve(batch.positions.len() * self.bytes.len());
        batch.shape = [batch.positions.len(), channels, height, width];
        for &position in &batch.positions {
            batch.labels.push(self.set.label(position as usize));
            self.set.write(position as usize, &mut self.bytes);
            for (plane, scale) in self.bytes.chunks_exact((height * width).max(1)).zip(&self.scales) {
                batch.images.extend(plane.iter().map(|&byte| scale[usize::from(byte)]));
            }
        }
        self.at = end;
        !batch.positions.is_empty()
    }
}

impl Iterator for Batches<'_> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        self.fill(&mut batch).then_some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.order.len() - self.at).div_ceil(self.size);
        (left, Some(left))
    }
}

/// `len` is the number of batches left in the epoch.
impl ExactSizeIterator for Batches<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::counting_set;
    use crate::transform::{Colour, Transform};

    fn set() -> TaskSet {
        TaskSet::of_all(counting_set(5), 1, Transform::Identity)
    }

    #[test]
    fn the_last_partial_batch_is_kept() {
        let set = set();
        let batches = BatchConfig::stored(2).init(&set).unwrap();
        assert_eq!(batches.len(), 3);
        let batches: Vec<Batch> = batches.collect();
        assert_eq!(batches.iter().map(|b| b.labels.len()).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(batches[1].labels, [0, 1]);
        assert_eq!(batches[2].shape, [1, 1, 1, 2]);
        assert_eq!(batches[2].images, [8.0 / 255.0, 9.0 / 255.0]);
    }

    #[test]
    fn an_epoch_shows_every_image_once_in_the_order_of_its_seed() {
        let set = TaskSet::of_all(counting_set(100), 1, Transform::Identity);
        let epoch = |number| -> Vec<u32> {
            let seed = Seed::root(1).named("batches").numbered(number);
            BatchConfig::shuffled(7, seed).init(&set).unwrap().flat_map(|batch| batch.positions).collect()
        };
        assert_eq!(epoch(0), epoch(0));
        assert_ne!(epoch(0), epoch(1));
        let mut sorted = epoch(0);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn normalised_batches_have_mean_zero_and_deviation_one() {
        let set = set();
        let statistics = Normalisation::of(&set);
        let config = BatchConfig::stored(5).normalised(statistics);
        let batch = config.init(&set).unwrap().next().unwrap();
        let mean = batch.images.iter().sum::<f32>() / 10.0;
        let variance = batch.images.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / 9.0;
        assert!(mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-5);
        let rainbow = TaskSet::of_all(counting_set(5), 3, Transform::Rainbow(Colour::GREEN));
        let config = BatchConfig::stored(5).normalised(Normalisation::of(&rainbow));
        let batch = config.init(&rainbow).unwrap().next().unwrap();
        assert_eq!(batch.images[2..4], [0.0, 0.0], "the constant channel is 0");
    }

    #[test]
    fn a_batch_size_of_zero_and_foreign_statistics_are_refused() {
        let set = set();
        assert!(BatchConfig::stored(0).init(&set).unwrap_err().to_string().contains("batch size"));
        let foreign = Normalisation { mean: vec![0.0; 3], deviation: vec![1.0; 3] };
        assert!(BatchConfig::stored(1).normalised(foreign).init(&set).is_err());
    }

    #[test]
    fn no_images_no_batches() {
        let empty = TaskSet::empty();
        assert_eq!(BatchConfig::stored(4).init(&empty).unwrap().len(), 0);
    }
}
