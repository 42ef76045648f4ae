//! Limit: the distance beyond which an image is not of a task.
//!
//! It is the order statistic of distances that leaves out the share of false alarms which was asked for. Distances are those
//! of validation images, and of training images from classes and covariance that were made without them: the training images
//! are split into folds, and each fold is measured by the others. One in a hundred of thirty validation images says nothing.

use lmc_streams::TaskSet;

use super::{Collector, Describer, OwnDistance};
use crate::error::Result;
use crate::training::TaskData;

/// Parts of the training images, each measured by the others.
pub const FOLDS: usize = 5;

/// Training images that are measured, at most.
const MOST: usize = 4000;

/// Fewest distances that say where a limit is.
const FEWEST: usize = 6;

/// Logarithms of the distances of images that were not looked at: validation images by `whole`, training images by the other
/// folds.
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
        let Some(others) =
            (0..folds.len()).filter(|&other| other != fold).map(|at| &folds[at]).cloned().reduce(
                |mut all, more| {
                    all.include(&more);
                    all
                },
            )
        else {
            continue;
        };
        let Some(distance) = others.has_images().then(|| OwnDistance::new(&others.finish())).flatten() else {
            continue;
        };
        let own = (fold..data.train.len()).step_by(folds.len()).step_by(thinned);
        let images: TaskSet = data.train.part(&own.collect::<Vec<_>>());
        describer.each(&images, data, &mut |_, found| distances.push(distance.log_distance(found)))?;
    }
    Ok(distances)
}

/// The limit that so many of these are beyond, as a share; `None` of too few.
pub fn limit(mut distances: Vec<f64>, share: f64) -> Option<f64> {
    if distances.len() < FEWEST {
        return None;
    }
    distances.sort_by(f64::total_cmp);
    // The place of a new image among these: of few images the farthest is the limit.
    let beyond = ((distances.len() + 1) as f64 * share) as usize;
    distances.len().checked_sub(beyond.max(1)).map(|place| distances[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_out_the_share_that_was_asked_for() {
        let distances: Vec<f64> = (0..199).rev().map(f64::from).collect();
        assert_eq!(
            limit(distances.clone(), 0.01),
            Some(197.0),
            "two of two hundred lie beyond, a new one among them"
        );
        assert_eq!(limit(distances.clone(), 0.1), Some(179.0));
        assert_eq!(limit(distances.clone(), 0.0), Some(198.0), "the farthest");
        assert_eq!(limit(distances[..FEWEST - 1].to_vec(), 0.1), None);
    }
}
