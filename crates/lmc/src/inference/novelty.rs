//! Novelty: an image whose scores are unusual for every task is something the model has never seen.
//!
//! Every task has the distribution of its own images' scores ([`super::task_gaussian`]). An image is new if its score profile
//! lies beyond the limit of every task, which is set for a rate of false alarms.

use lmc_streams::{BatchConfig, TaskSet};
use serde::{Deserialize, Serialize};

use super::evaluation::Protocol;
use super::{BatchPredictions, BatchPrior, Predictor};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::network::head::HeadSelection;
use crate::tensors::images;

/// When an image counts as new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NoveltyConfig {
    /// Share of known images that may be called new, above 0 and below 1; 0.01 by default.
    pub false_alarms: f64,
}

impl Default for NoveltyConfig {
    fn default() -> Self {
        Self { false_alarms: 0.01 }
    }
}

impl NoveltyConfig {
    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        if !(self.false_alarms > 0.0 && self.false_alarms < 1.0) {
            let problem = format!("{} is not a rate", self.false_alarms);
            return Err(Error::setting("novelty.false_alarms", problem, "use a number between 0 and 1"));
        }
        Ok(())
    }
}

impl Predictor {
    /// Whether an image of a batch is new; `None` if no task has a distribution of scores. Needs the score profiles of all
    /// heads, which [`Predictor::predict`] computes.
    pub fn is_novel(&self, predictions: &BatchPredictions, image: usize) -> Option<bool> {
        let calibrated = |(head, found): (usize, &crate::network::head::Head)| {
            Some(found.gaussian.as_ref()?.includes(predictions.profile(head, image)))
        };
        let mut included = self.heads.iter().enumerate().filter_map(calibrated).peekable();
        included.peek()?;
        Some(!included.any(|included| included))
    }
}

impl Model {
    /// Share of a set's images that are new, each on its own; `None` if no task has a distribution of scores.
    pub fn novel_share(&self, set: &TaskSet) -> Result<Option<f64>> {
        let predictor = self.predictor()?;
        let (mut novel, mut seen) = (0_usize, 0_usize);
        for batch in BatchConfig::stored(predictor.images_at_once(Protocol::Single)).init(set)? {
            let input = images(&batch, predictor.device());
            let predictions = predictor.predict(&input, BatchPrior::PerImage, HeadSelection::Sample)?;
            for image in 0..batch.len() {
                let Some(is_novel) = predictor.is_novel(&predictions, image) else { return Ok(None) };
                novel += usize::from(is_novel);
                seen += 1;
            }
        }
        Ok((seen > 0).then(|| novel as f64 / seen as f64))
    }
}
