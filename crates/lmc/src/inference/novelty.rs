//! Novelty: an image whose scores are unusual for every task is something the model has never seen.
//!
//! Where heads are found by signature, the likeliest task alone is asked: an image is new if it looks too unlike the task's
//! images ([`super::signature::distance`]) or if its scores are too unusual for them ([`super::task_gaussian`]). Else it is
//! new if its scores are too unusual for every task. Limits are set for a rate of false alarms, on validation images.

use lmc_streams::{BatchConfig, TaskSet};
use serde::{Deserialize, Serialize};

use super::BatchPrior;
use super::evaluation::Protocol;
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

impl Model {
    /// Share of a set's images that are new, each on its own; `None` if no task has a distribution of scores.
    pub fn novel_share(&self, set: &TaskSet) -> Result<Option<f64>> {
        let predictor = self.predictor()?;
        let (mut novel, mut seen) = (0_usize, 0_usize);
        for batch in BatchConfig::stored(predictor.images_at_once(Protocol::Single)).init(set)? {
            let input = images(&batch, predictor.device());
            let predictions = predictor.predict(&input, BatchPrior::PerImage, HeadSelection::Sample)?;
            for image in 0..batch.len() {
                let Some(is_novel) = predictions.decisions[image].novel else { return Ok(None) };
                novel += usize::from(is_novel);
                seen += 1;
            }
        }
        Ok((seen > 0).then(|| novel as f64 / seen as f64))
    }
}
