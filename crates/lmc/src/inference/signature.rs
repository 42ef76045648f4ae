//! Signature: how the images of a task look, which finds the task of an image before any module has run.
//!
//! Old modules and heads are frozen: with the right head every old prediction is still there. What is lost without a task ID
//! is lost by choosing the head. The signature chooses it by a description of the image that no network is needed for:
//!
//! | file | idea |
//! | --- | --- |
//! | [`descriptor`] | 349 numbers that say how an image looks; the same in all models |
//! | [`planes`], [`texture`], [`layout`] | what they are made of |
//! | [`statistics`] | class means and covariances of a task's descriptors, collected once when the task is learned |
//! | [`changes`] | what a picture suffers on its way: light, noise, other sizes, compression |
//! | [`resample`] | pictures of other sizes |
//! | [`discriminant`] | compares tasks by their statistics: a log-likelihood for each |
//! | [`distance`] | how far an image is from all classes of one task |
//! | [`reach`] | which distances are usual, and beyond which an image is new |
//!
//! Statistics of one task never change when another is learned, and models are merged by putting theirs side by side.

pub mod changes;
pub mod descriptor;
pub mod discriminant;
pub mod distance;
pub mod layout;
pub mod planes;
pub mod reach;
pub mod resample;
pub mod statistics;
pub mod texture;

use lmc_streams::{Batch, BatchConfig, Seed, TaskSet};
use rayon::prelude::*;

use crate::error::Result;
use crate::network::NetworkConfig;
use crate::training::TaskData;
use changes::Change;
pub use descriptor::Describer;
pub use discriminant::Discriminant;
pub use distance::OwnDistance;
pub use reach::Reach;
pub use statistics::{Collector, Signature};

/// The size, as a share of full brightness, below which nothing counts.
const FLOOR: f32 = 0.02;

/// Images that are described at once, at most.
const AT_ONCE: usize = 256;
/// Bytes of the images that are described at once, unless one alone takes more.
const BYTES_AT_ONCE: usize = 64 << 20;

impl Describer {
    /// Prepares for the images of a network.
    pub fn of(config: &NetworkConfig) -> Self {
        Self::new(config.channels, config.size)
    }

    /// Images to describe at once: large ones are few.
    fn images_at_once(&self) -> usize {
        (BYTES_AT_ONCE / self.bytes_per_image().max(1)).clamp(1, AT_ONCE)
    }

    /// Describes images `[image, channel, row, column]`, given one after the other.
    pub fn describe_all(&self, images: &[f32], count: usize) -> Vec<Vec<f32>> {
        let size = (images.len() / count.max(1)).max(1);
        images.par_chunks(size).map(|image| self.describe(image)).collect()
    }

    /// Hands the descriptor of every image of a set to `hear`, with its label, in stored order.
    pub(crate) fn each(
        &self,
        set: &TaskSet,
        data: TaskData<'_>,
        hear: &mut dyn FnMut(u32, &[f32]),
    ) -> Result<()> {
        let mut batches = BatchConfig::stored(self.images_at_once()).init(set)?;
        let mut batch = Batch::default();
        while batches.fill(&mut batch) {
            data.check_stop()?;
            let found = self.describe_all(&batch.images, batch.labels.len());
            batch.labels.iter().zip(&found).for_each(|(&label, descriptor)| hear(label, descriptor));
        }
        Ok(())
    }
}

impl Signature {
    /// Collects the statistics of a task with so many classes from its training images, and from a changed copy of each of
    /// every kind of change. The reach is such that it calls this share of the task's images new.
    pub fn learn(
        describer: &Describer,
        classes: usize,
        data: TaskData<'_>,
        false_alarms: f64,
        seed: &Seed,
    ) -> Result<Self> {
        let mut folds = vec![Collector::new(classes); reach::FOLDS];
        let mut batches = BatchConfig::stored(describer.images_at_once()).init(data.train)?;
        let mut batch = Batch::default();
        while batches.fill(&mut batch) {
            data.check_stop()?;
            let size = (batch.images.len() / batch.labels.len().max(1)).max(1);
            let places = batch.images.par_chunks(size).zip(&batch.positions);
            let described: Vec<(Vec<f32>, Vec<Vec<f32>>)> = places
                .map(|(image, &position)| {
                    let planes = describer.planes(image);
                    let seed = seed.numbered(u64::from(position));
                    let changed = Change::ALL.map(|change| change.apply(&planes, &seed));
                    let changed = changed.iter().map(|planes| describer.describe_planes(planes));
                    (describer.describe_planes(&planes), changed.collect())
                })
                .collect();
            for ((&label, &position), (descriptor, changed)) in
                batch.labels.iter().zip(&batch.positions).zip(&described)
            {
                let collected = &mut folds[position as usize % reach::FOLDS];
                collected.add(label as usize, descriptor);
                for (change, changed) in Change::ALL.iter().zip(changed) {
                    collected.add_change(descriptor, changed, change.weight());
                }
            }
        }
        let mut whole = Collector::new(classes);
        folds.iter().for_each(|fold| whole.include(fold));
        let mut signature = whole.finish();
        if let Some(distance) = OwnDistance::new(&signature) {
            let distances = reach::distances(describer, &distance, &folds, data)?;
            signature.reach = Reach::of(distances, false_alarms);
        }
        Ok(signature)
    }
}
