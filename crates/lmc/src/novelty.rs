//! Novelty: an image that fits no head and no module is something the model has never seen.
//!
//! When a task is learned, its validation images, one by one, show what its head and each layer usually say about such an
//! image: the logarithms of the head's structural loss and of each layer's loss (that of its modules, weighted as they
//! were). An image is as far from the task as its most unusual number, in standard deviations; it is new if it is farther
//! from every task than all but a small share, the rate of false alarms, of the task's own validation images.

use lmc_streams::{BatchConfig, TaskSet};
use serde::{Deserialize, Serialize};

use crate::composition::mean;
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

/// What a head's task usually looks like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Familiar {
    /// Mean of each number: the head's, then each layer's.
    pub means: Vec<f64>,
    /// Their standard deviations.
    pub deviations: Vec<f64>,
    /// The distance beyond which an image is not of this task.
    pub limit: f64,
}

/// Images that are needed for a spread.
const FEWEST: usize = 5;

impl Familiar {
    /// From the numbers of validation images; `None` of too few.
    pub fn of(profiles: &[Vec<f64>], config: &NoveltyConfig) -> Option<Self> {
        let length = profiles.first().map_or(0, Vec::len);
        if profiles.len() < FEWEST || profiles.iter().flatten().any(|number| !number.is_finite()) {
            return None;
        }
        let column = |at: usize| profiles.iter().map(|profile| profile[at]).collect::<Vec<f64>>();
        let means: Vec<f64> = (0..length).map(|at| mean(&column(at))).collect();
        let deviations = (0..length)
            .map(|at| {
                let squares: Vec<f64> =
                    column(at).iter().map(|number| (number - means[at]).powi(2)).collect();
                mean(&squares).sqrt().max(1e-6)
            })
            .collect();
        let mut familiar = Self { means, deviations, limit: f64::INFINITY };
        let mut distances: Vec<f64> = profiles.iter().map(|profile| familiar.distance(profile)).collect();
        distances.sort_by(f64::total_cmp);
        // The place of a new image among these: with few images the farthest of them is the limit.
        let place = ((distances.len() + 1) as f64 * (1.0 - config.false_alarms)).ceil() as usize;
        familiar.limit = distances[place.clamp(1, distances.len()) - 1];
        Some(familiar)
    }

    /// How far an image is from the task: its most unusual number, in standard deviations.
    pub fn distance(&self, profile: &[f64]) -> f64 {
        let numbers = profile.iter().zip(self.means.iter().zip(&self.deviations));
        numbers.map(|(number, (mean, deviation))| ((number - mean) / deviation).abs()).fold(0.0, f64::max)
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
        Some(familiar.all(|(head, task)| task.distance(&predictions.profile(head, image)) > task.limit))
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

    /// Learns what the images of a head's task usually look like.
    pub fn calibrate(&mut self, head: usize, val: &TaskSet) -> Result<()> {
        let predictor = self.predictor()?;
        let mut profiles = Vec::with_capacity(val.len());
        for batch in BatchConfig::stored(self.config.batch).init(val)? {
            let input = images(&batch, predictor.device());
            let predictions = predictor.predict(&input, Company::Alone, HeadSelection::Given(head))?;
            profiles.extend((0..batch.labels.len()).map(|image| predictions.profile(head, image)));
        }
        self.network.heads[head].familiar = Familiar::of(&profiles, &self.config.novelty);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_the_share_asked_for_is_beyond_the_limit() {
        let mut random = lmc_streams::Seed::root(1).random();
        let mut draw = |count: usize| -> Vec<Vec<f64>> {
            (0..count).map(|_| (0..5).map(|_| random.normal()).collect()).collect()
        };
        let familiar = Familiar::of(&draw(2000), &NoveltyConfig { false_alarms: 0.05 }).unwrap();
        let fresh = draw(4000);
        let alarms = fresh.iter().filter(|profile| familiar.distance(profile) > familiar.limit).count();
        assert!((120..280).contains(&alarms), "{alarms} of 4000 at a rate of 5 %");
        assert!(Familiar::of(&draw(3), &NoveltyConfig::default()).is_none(), "too few");
    }

    #[test]
    fn by_hand() {
        let profiles: Vec<Vec<f64>> = [1.0, 2.0, 3.0, 4.0, 5.0].map(|number| vec![number]).to_vec();
        let familiar = Familiar::of(&profiles, &NoveltyConfig::default()).unwrap();
        assert_eq!(familiar.means, [3.0]);
        assert!((familiar.deviations[0] - 2.0_f64.sqrt()).abs() < 1e-12);
        assert!((familiar.limit - 2.0 / 2.0_f64.sqrt()).abs() < 1e-12);
    }
}
