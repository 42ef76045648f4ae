//! Novelty: an image whose scores are unusual for every task is something the model has never seen.
//!
//! Where heads are found by signature, the likeliest task alone is asked: an image is new if it looks too unlike the task's
//! images ([`super::signature::distance`]) or if its scores are too unusual for them ([`super::task_gaussian`]). Else it is
//! new if its scores are too unusual for every task. Limits are set for a rate of false alarms, on validation images.

use lmc_streams::{BatchConfig, Picture, TaskSet};
use serde::{Deserialize, Serialize};

use super::evaluation::Protocol;
use super::{BatchPrior, Predictor};
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

/// How unlike the images of its task an image is, by each rule: 0 is typical, 1 the limit. `None` where the task has no
/// statistics for the rule, or nobody asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Novelty {
    /// By how it looks.
    pub looks: Option<f64>,
    /// By its scores.
    pub scores: Option<f64>,
}

impl Novelty {
    /// By both rules: the more unusual one.
    pub fn level(self) -> Option<f64> {
        match (self.looks, self.scores) {
            (Some(looks), Some(scores)) => Some(looks.max(scores)),
            (looks, scores) => looks.or(scores),
        }
    }
}

impl Predictor {
    /// How new each picture of any size is, on its own.
    pub fn novelties(&self, pictures: &[Picture]) -> Result<Vec<Novelty>> {
        let mut found = Vec::with_capacity(pictures.len());
        for pictures in pictures.chunks(self.images_at_once(Protocol::Single)) {
            let input = images(&self.prepare(pictures)?, self.device());
            let predictions = self.predict(&input, BatchPrior::PerImage, HeadSelection::Sample)?;
            found.extend(predictions.decisions.iter().map(|decision| decision.novelty));
        }
        Ok(found)
    }
}

impl Model {
    /// How new each image of a set is, on its own ([`Novelty::level`]); `None` if no task has statistics for that.
    pub fn novelties(&self, set: &TaskSet) -> Result<Option<Vec<f64>>> {
        let predictor = self.predictor()?;
        let mut novelties = Vec::with_capacity(set.len());
        for batch in BatchConfig::stored(predictor.images_at_once(Protocol::Single)).init(set)? {
            let input = images(&batch, predictor.device());
            let predictions = predictor.predict(&input, BatchPrior::PerImage, HeadSelection::Sample)?;
            for decision in &predictions.decisions {
                let Some(novelty) = decision.novelty.level() else { return Ok(None) };
                novelties.push(novelty);
            }
        }
        Ok(Some(novelties))
    }

    /// Share of a set's images that are new, each on its own; `None` if no task has statistics for that, and of no images.
    pub fn novel_share(&self, set: &TaskSet) -> Result<Option<f64>> {
        let novelties = self.novelties(set)?.filter(|novelties| !novelties.is_empty());
        let share =
            |all: Vec<f64>| all.iter().filter(|&&novelty| novelty > 1.0).count() as f64 / all.len() as f64;
        Ok(novelties.map(share))
    }
}
