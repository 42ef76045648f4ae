//! Reach: which distances from a task are usual for its images, and beyond which an image is new.
//!
//! The limit is the order statistic of distances that leaves out the share of false alarms which was asked for. Distances are
//! those of validation images, and of training images from classes and covariance that were made without them: the training
//! images are split into folds, and each fold is measured by the others. One in a hundred of thirty validation images says
//! nothing.

use lmc_streams::TaskSet;

use super::{Collector, Describer, OwnDistance};
use crate::error::Result;
use crate::training::TaskData;

/// Logarithms of distances from a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    /// The median.
    pub typical: f64,
    /// What images of the task are rarely beyond.
    pub limit: f64,
}

/// Parts of the training images, each measured by the others.
pub const FOLDS: usize = 5;

/// Training images that are measured, at most.
const MOST: usize = 4000;

/// Fewest distances that say where a limit is.
const FEWEST: usize = 6;

/// The least difference between a typical distance and the limit that is believed.
const NARROWEST: f64 = 0.05;

impl Reach {
    /// The reach that leaves out this share of some distances; `None` of too few.
    pub fn of(mut distances: Vec<f64>, share: f64) -> Option<Self> {
        if distances.len() < FEWEST {
            return None;
        }
        distances.sort_by(f64::total_cmp);
        // The place of a new image among these: of few images the farthest is the limit.
        let beyond = ((distances.len() + 1) as f64 * share) as usize;
        let limit = distances.len().checked_sub(beyond.max(1)).map(|place| distances[place])?;
        Some(Self { typical: distances[distances.len() / 2], limit })
    }

    /// Where a distance is on the scale on which 0 is typical and 1 the limit.
    pub fn novelty(self, distance: f64) -> f64 {
        1.0 + (distance - self.limit) / (self.limit - self.typical).max(NARROWEST)
    }

    /// The wider one of two.
    pub fn wider(self, other: Self) -> Self {
        Self { typical: self.typical.max(other.typical), limit: self.limit.max(other.limit) }
    }

    /// Whether these can be distances.
    pub fn is_sound(self) -> bool {
        self.typical.is_finite() && self.limit.is_finite() && self.typical <= self.limit
    }
}

/// Logarithms of the distances of images that were not looked at: of validation images from `whole`, of training images from
/// what the other folds say.
pub fn distances(
    describer: &Describer,
    whole: &OwnDistance,
    folds: &[Collector],
    data: TaskData<'_>,
) -> Result<Vec<f64>> {
    let mut distances = Vec::new();
    describer.each(data.val, data, &mut |_, found| distances.push(whole.log_distance(found)))?;
    let thinned = data.train.len().div_ceil(MOST).max(1);
    for fold in 0..folds.len() {
        let mut others = folds.iter().enumerate().filter(|(other, _)| *other != fold).map(|(_, fold)| fold);
        let Some(mut collected) = others.next().cloned() else { continue };
        others.for_each(|other| collected.include(other));
        let distance = if collected.has_images() { OwnDistance::new(&collected.finish()) } else { None };
        let Some(distance) = distance else { continue };
        let own = (fold..data.train.len()).step_by(folds.len()).step_by(thinned);
        let images: TaskSet = data.train.part(&own.collect::<Vec<_>>());
        describer.each(&images, data, &mut |_, found| distances.push(distance.log_distance(found)))?;
    }
    Ok(distances)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_out_the_share_that_was_asked_for() {
        let distances: Vec<f64> = (0..199).rev().map(f64::from).collect();
        let limit = |share: f64| Reach::of(distances.clone(), share).map(|reach| reach.limit);
        assert_eq!(limit(0.01), Some(197.0), "two of two hundred lie beyond, a new one among them");
        assert_eq!(limit(0.1), Some(179.0));
        assert_eq!(limit(0.0), Some(198.0), "the farthest");
        assert_eq!(Reach::of(distances[..FEWEST - 1].to_vec(), 0.1), None);
    }

    #[test]
    fn what_is_typical_is_at_0_and_the_limit_at_1() {
        let reach = Reach::of((0..199).map(f64::from).collect(), 0.1).unwrap();
        assert_eq!([99.0, 179.0, 259.0].map(|distance| reach.novelty(distance)), [0.0, 1.0, 2.0]);
        let narrow = Reach { typical: 3.0, limit: 3.0 };
        assert!(narrow.novelty(3.0) <= 1.0 && narrow.novelty(3.0 + 1e-9) > 1.0);
    }
}
