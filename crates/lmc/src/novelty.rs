//! Novelty: an image that fits no head and no module is something the model has never seen.
//!
//! Every task knows how far its own images usually are from it ([`crate::familiarity`]). An image is new if it is farther
//! from every task than all but a small share, the rate of false alarms, of the task's own validation images.

use lmc_streams::{BatchConfig, TaskSet};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::head::HeadSelection;
use crate::learner::Learner;
use crate::prediction::{Company, Predictions, images};

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

impl Learner {
    /// Whether an image is new; `None` if no task was calibrated.
    pub fn is_novel(&self, predictions: &Predictions, image: usize) -> Option<bool> {
        let mut familiar = self
            .network
            .heads
            .iter()
            .enumerate()
            .filter_map(|(head, found)| Some((head, found.familiar.as_ref()?)))
            .peekable();
        familiar.peek()?;
        Some(familiar.all(|(head, task)| !task.knows(predictions.profile(head, image))))
    }

    /// Share of a set's images that are new, one by one; `None` if no task was calibrated.
    pub fn novel_share(&self, set: &TaskSet) -> Result<Option<f64>> {
        let predictor = self.predictor()?;
        let (mut novel, mut seen) = (0_usize, 0_usize);
        for batch in BatchConfig::stored(self.config.batch).init(set)? {
            let input = images(&batch, predictor.device());
            let predictions = predictor.predict(&input, Company::Alone, HeadSelection::Sample)?;
            for image in 0..batch.labels.len() {
                let Some(is_novel) = self.is_novel(&predictions, image) else { return Ok(None) };
                novel += usize::from(is_novel);
                seen += 1;
            }
        }
        Ok((seen > 0).then(|| novel as f64 / seen as f64))
    }
}
