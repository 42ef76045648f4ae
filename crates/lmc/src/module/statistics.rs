//! Score statistics: mean and deviation of a module's structural loss, and how unusual a batch is (paper §3.1, eq. 8).
//!
//! ```text
//! z_m = | mean over i of L_m[i] - μ_m | / σ_m
//! ```
//!
//! μ and σ are taken over a sliding window of the last batches that the module was trained on. The test is two-sided: a
//! batch that is reconstructed *better* than usual (MNIST after CIFAR) is unusual too. Paper: equation 8 prints the weight `w` in
//! place of the loss and calls σ a variance; both are slips.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::network::composition::mean;

/// The unit whose loss is compared with the window: a batch or a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// The mean loss of a batch, against the spread of such means.
    Batch,
    /// The loss of each sample, against the spread of samples; a batch has the mean of its samples' z.
    Sample,
}

/// Where the window of a module comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatisticsSource {
    /// From the last batches that the module was trained on, in training mode: the paper's.
    Training,
    /// From all images of the task, once the module is frozen: batches drawn with replacement, in evaluation mode
    /// ([`crate::internals::growth::task_losses`]).
    TaskEnd,
}

/// Settings of the z-score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StatisticsConfig {
    /// W, how many batches the window holds, 3 or more; 100 by default.
    pub window: usize,
    /// By batch or by sample; `batch` by default.
    pub granularity: Granularity,
    /// Whether a loss that is lower than usual counts as unusual; true by default.
    pub two_sided: bool,
    /// Keep the authors' defect: the spread between the parents of an averaged module stays in its σ for ever.
    pub released: bool,
    /// Where the window comes from: `training` by default, or `task_end`.
    pub source: StatisticsSource,
    /// Whether the z of a training batch with n images instead of B is multiplied by sqrt(n / B), as the mean of fewer images
    /// varies more; false by default.
    pub scale_partial_batches: bool,
}

impl Default for StatisticsConfig {
    fn default() -> Self {
        Self {
            window: 100,
            granularity: Granularity::Batch,
            two_sided: true,
            released: false,
            source: StatisticsSource::Training,
            scale_partial_batches: false,
        }
    }
}

/// Mean and mean square of the structural losses of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchSummary(pub f64, pub f64);

/// Structural losses of the last batches that a module was trained on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// The last batches, oldest first.
    pub window: VecDeque<BatchSummary>,
    /// Batches ever seen, inherited ones included.
    pub seen: u64,
    /// Variance that is not in the window (see [`StatisticsConfig::released`]).
    #[serde(default)]
    pub excess: f64,
}

/// With fewer batches there is no spread to speak of.
const FEWEST: u64 = 3;

impl Statistics {
    /// Adds the losses of a batch.
    pub fn push(&mut self, losses: &[f64], config: &StatisticsConfig) {
        if losses.is_empty() {
            return;
        }
        let squares: Vec<f64> = losses.iter().map(|loss| loss * loss).collect();
        self.window.push_back(BatchSummary(mean(losses), mean(&squares)));
        while self.window.len() > config.window {
            self.window.pop_front();
        }
        self.seen += 1;
    }

    /// Whether these can be the statistics of a module: losses are finite and not negative, counts can be counted on.
    pub fn is_sound(&self) -> bool {
        let possible = |number: f64| number.is_finite() && number >= 0.0;
        self.window.iter().all(|&BatchSummary(mean, square)| possible(mean) && possible(square))
            && possible(self.excess)
            && self.seen <= 1 << 53
    }

    /// μ, the mean loss over the window.
    pub fn mean(&self) -> f64 {
        self.window.iter().map(|entry| entry.0).sum::<f64>() / self.window.len().max(1) as f64
    }

    /// σ, the population standard deviation over the window.
    pub fn deviation(&self, granularity: Granularity) -> f64 {
        let (mean, count) = (self.mean(), self.window.len().max(1) as f64);
        let variance = match granularity {
            Granularity::Batch => {
                self.window.iter().map(|entry| (entry.0 - mean).powi(2)).sum::<f64>() / count
            }
            Granularity::Sample => {
                (self.window.iter().map(|entry| entry.1).sum::<f64>() / count - mean * mean).max(0.0)
            }
        };
        (variance + self.excess).sqrt()
    }

    /// z of a batch; 0 as long as too little was seen.
    pub fn z(&self, losses: &[f64], config: &StatisticsConfig) -> f64 {
        if self.seen < FEWEST || self.window.is_empty() || losses.is_empty() {
            return 0.0;
        }
        let (usual, deviation) = (self.mean(), self.deviation(config.granularity));
        let z = |loss: f64| {
            let distance = if config.two_sided { (loss - usual).abs() } else { loss - usual };
            match distance {
                0.0 => 0.0,
                distance => distance / deviation,
            }
        };
        match config.granularity {
            Granularity::Batch => z(mean(losses)),
            Granularity::Sample => mean(&losses.iter().map(|&loss| z(loss)).collect::<Vec<_>>()),
        }
    }

    /// How unusual the spread of a batch's losses is, two-sided: the distance of their standard deviation from the mean one
    /// of the window's batches, over the standard deviation of these. 0 as long as too little was seen.
    pub fn spread_z(&self, losses: &[f64]) -> f64 {
        if self.seen < FEWEST || self.window.is_empty() || losses.is_empty() {
            return 0.0;
        }
        let spread = |mean: f64, square: f64| (square - mean * mean).max(0.0).sqrt();
        let usual: Vec<f64> = self.window.iter().map(|entry| spread(entry.0, entry.1)).collect();
        let centre = mean(&usual);
        let variance = mean(&usual.iter().map(|usual| (usual - centre).powi(2)).collect::<Vec<_>>());
        let squares: Vec<f64> = losses.iter().map(|loss| loss * loss).collect();
        match (spread(mean(losses), mean(&squares)) - centre).abs() {
            0.0 => 0.0,
            distance => distance / variance.sqrt(),
        }
    }

    /// What a module that is the average of others starts with: the average of their windows, newest beside newest.
    pub fn average(parents: &[&Self], config: &StatisticsConfig) -> Self {
        let Some(first) = parents.first() else { return Self::default() };
        let count = parents.len() as f64;
        let length = parents.iter().map(|parent| parent.window.len()).min().unwrap_or(0);
        let newest = |parent: &Self, at: usize| parent.window[parent.window.len() - length + at];
        let window = (0..length)
            .map(|at| {
                let sum = parents.iter().map(|parent| newest(parent, at));
                let (means, squares) = sum.fold((0.0, 0.0), |sum, entry| (sum.0 + entry.0, sum.1 + entry.1));
                BatchSummary(means / count, squares / count)
            })
            .collect();
        let seen = parents.iter().map(|parent| parent.seen).min().unwrap_or(first.seen);
        let mut average = Self { window, seen, excess: 0.0 };
        if config.released && parents.len() > 1 {
            // The authors average means and mean squares apart from the window and then only ever add the
            // difference of what comes and what goes.
            let squares: f64 = parents
                .iter()
                .map(|parent| parent.deviation(Granularity::Batch).powi(2) + parent.mean().powi(2))
                .sum();
            let means: f64 = parents.iter().map(|parent| parent.mean()).sum();
            let tracked = squares / count - (means / count).powi(2);
            average.excess = (tracked - average.deviation(Granularity::Batch).powi(2)).max(0.0);
        }
        average
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(values: &[f64]) -> Statistics {
        let mut statistics = Statistics::default();
        values.iter().for_each(|&value| statistics.push(&[value], &StatisticsConfig::default()));
        statistics
    }

    #[test]
    fn golden_window() {
        // Case C1 of the golden file: window 0.30, 0.31, 0.29, 0.32.
        let statistics = window(&[0.30, 0.31, 0.29, 0.32]);
        let z = statistics.z(&[0.12772, 0.12762, 0.127555], &StatisticsConfig::default());
        assert!((z - 15.86485).abs() < 1e-3, "{z}");
        assert_eq!(window(&[0.3, 0.4]).z(&[9.0], &StatisticsConfig::default()), 0.0, "too few");
    }

    #[test]
    fn lower_than_usual_is_unusual_unless_one_sided() {
        let statistics = window(&[1.0, 2.0, 3.0]);
        let one_sided = StatisticsConfig { two_sided: false, ..Default::default() };
        assert!(statistics.z(&[0.0], &StatisticsConfig::default()) > 2.0);
        assert!(statistics.z(&[0.0], &one_sided) < 0.0);
    }

    #[test]
    fn the_window_slides() {
        let config = StatisticsConfig { window: 3, ..Default::default() };
        let mut statistics = Statistics::default();
        for value in [100.0, 1.0, 2.0, 3.0] {
            statistics.push(&[value], &config);
        }
        assert_eq!((statistics.mean(), statistics.seen), (2.0, 4));
        assert!((statistics.deviation(Granularity::Batch) - (2.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn samples_have_a_spread_of_their_own() {
        let config = StatisticsConfig { granularity: Granularity::Sample, ..Default::default() };
        let mut statistics = Statistics::default();
        for _ in 0..3 {
            statistics.push(&[1.0, 3.0], &config);
        }
        assert_eq!(statistics.deviation(Granularity::Sample), 1.0);
        assert_eq!(statistics.deviation(Granularity::Batch), 0.0);
        assert_eq!(statistics.z(&[2.0, 5.0], &config), 1.5);
    }

    #[test]
    fn the_spread_of_a_batch_has_a_z_of_its_own() {
        let config = StatisticsConfig::default();
        let mut statistics = Statistics::default();
        // Standard deviations 1, 2 and 3 about one mean: 2 on average, with a deviation of sqrt(2/3).
        for spread in [1.0, 2.0, 3.0] {
            statistics.push(&[5.0 - spread, 5.0 + spread], &config);
        }
        assert_eq!(statistics.z(&[1.0, 9.0], &config), 0.0);
        assert!((statistics.spread_z(&[1.0, 9.0]) - 6.0_f64.sqrt()).abs() < 1e-9);
        assert!(statistics.spread_z(&[3.0, 7.0]) < 1e-9);
    }

    #[test]
    fn the_released_defect_is_the_spread_between_parents() {
        let parents = [window(&[1.0, 1.2, 0.8]), window(&[3.0, 3.2, 2.8])];
        let parents: Vec<&Statistics> = parents.iter().collect();
        let right = Statistics::average(&parents, &StatisticsConfig::default());
        assert!((right.mean() - 2.0).abs() < 1e-12 && right.excess == 0.0);
        let released =
            Statistics::average(&parents, &StatisticsConfig { released: true, ..Default::default() });
        // ((3 - 1) / 2)^2 = 1, for ever.
        assert!((released.excess - 1.0).abs() < 1e-9, "{}", released.excess);
    }
}
