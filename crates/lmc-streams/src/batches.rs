//! Batches: bytes become floats on the way to the network, here and nowhere else ([`Batch::push`]).
//!
//! The order depends on the seed alone, not on the machine or the number of threads; the last, partial
//! batch is kept. Floats are made when a batch is needed, in a buffer that can be used again.

use crate::error::{Error, Result};
use crate::image_set::ImageShape;
use crate::normalisation::Normalisation;
use crate::seed::Seed;
use crate::task::TaskSet;

/// Order of the images of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The stored order, class by class: how the paper tests.
    Stored,
    /// An order that is drawn from a seed, normally `seed.named("batches").numbered(epoch)`.
    Shuffled(Seed),
}

/// Size, order and normalisation of batches.
#[derive(Clone, Debug)]
pub struct BatchConfig {
    /// Images per batch; 64 in the paper.
    pub size: usize,
    /// Order of the images.
    pub order: Order,
    /// Statistics to normalise with; without them values stay in `[0, 1]`.
    pub normalisation: Option<Normalisation>,
}

impl BatchConfig {
    /// Makes shuffled batches of values in `[0, 1]`.
    pub fn shuffled(size: usize, seed: Seed) -> Self {
        Self { size, order: Order::Shuffled(seed), normalisation: None }
    }

    /// Makes batches of values in `[0, 1]` in stored order.
    pub fn stored(size: usize) -> Self {
        Self { size, order: Order::Stored, normalisation: None }
    }

    /// Normalises with these statistics.
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
        let scale = PixelScale::new(self.normalisation.as_ref(), set.shape().channels)?;
        Ok(Batches { set, order, size: self.size, at: 0, scale, bytes: vec![0; set.shape().bytes()] })
    }
}

/// From bytes to floats: the value of each byte in each channel, division by 255 and normalisation in one.
#[derive(Clone, Debug)]
pub struct PixelScale(Vec<[f32; 256]>); // [channel][byte]

impl PixelScale {
    /// Tabulates `(byte / 255 - mean) / deviation` for each channel, or `byte / 255` without statistics.
    pub fn new(normalisation: Option<&Normalisation>, channels: usize) -> Result<Self> {
        if let Some(statistics) = normalisation
            && (statistics.mean.len() != channels || statistics.deviation.len() != channels)
        {
            let problem = format!("{} means for {channels} channels", statistics.mean.len());
            return Err(Error::setting("normalisation", problem, "compute it from images of the same shape"));
        }
        let table = |channel: usize| {
            let (mean, deviation) = match normalisation {
                Some(statistics) => (statistics.mean[channel], statistics.deviation[channel]),
                None => (0.0, 1.0),
            };
            std::array::from_fn(|byte| (byte as f32 / 255.0 - mean) / deviation)
        };
        Ok(Self((0..channels).map(table).collect()))
    }
}

/// Images of one shape as floats, with their labels.
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

impl Batch {
    /// Empties the batch for images of a shape; its memory stays.
    pub fn clear(&mut self, shape: ImageShape) {
        self.images.clear();
        self.labels.clear();
        self.positions.clear();
        self.shape = [0, shape.channels, shape.height, shape.width];
    }

    /// Appends an image of the batch's shape, given as bytes `[channel, row, column]`.
    pub fn push(&mut self, bytes: &[u8], label: u32, position: u32, scale: &PixelScale) {
        let [count, _, height, width] = &mut self.shape;
        for (plane, scale) in bytes.chunks_exact((*height * *width).max(1)).zip(&scale.0) {
            self.images.extend(plane.iter().map(|&byte| scale[usize::from(byte)]));
        }
        *count += 1;
        self.labels.push(label);
        self.positions.push(position);
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.shape[0]
    }

    /// Whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An epoch of batches; an iterator, or [`Batches::fill`] to use one buffer again and again.
#[derive(Debug)]
pub struct Batches<'a> {
    set: &'a TaskSet,
    order: Vec<u32>,
    size: usize,
    at: usize,
    scale: PixelScale,
    bytes: Vec<u8>,
}

impl Batches<'_> {
    /// Goes on as if the first `steps` batches had been made already; their images are not read.
    pub fn after(mut self, steps: usize) -> Self {
        self.at = steps.saturating_mul(self.size).min(self.order.len());
        self
    }

    /// Makes the next batch in `batch`; false at the end.
    pub fn fill(&mut self, batch: &mut Batch) -> bool {
        let end = (self.at + self.size).min(self.order.len());
        batch.clear(self.set.shape());
        batch.images.reserve((end - self.at) * self.bytes.len());
        for &position in &self.order[self.at..end] {
            self.set.write(position as usize, &mut self.bytes);
            batch.push(&self.bytes, self.set.label(position as usize), position, &self.scale);
        }
        self.at = end;
        !batch.is_empty()
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
    fn an_epoch_goes_on_after_any_step() {
        let set = TaskSet::of_all(counting_set(23), 1, Transform::Identity);
        let epoch = || BatchConfig::shuffled(4, Seed::root(1)).init(&set).unwrap();
        let whole: Vec<Vec<u32>> = epoch().map(|batch| batch.positions).collect();
        for steps in 0..9 {
            let rest: Vec<Vec<u32>> = epoch().after(steps).map(|batch| batch.positions).collect();
            assert_eq!(rest, whole[steps.min(6)..], "after {steps} steps");
        }
        assert_eq!(epoch().after(usize::MAX).len(), 0);
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
