//! Composition: from structural losses to the weights with which a layer's modules are summed (paper §3,
//! eqs. 4-6, and appendix A.1, eqs. 9-10).
//!
//! ```text
//! γ_m[i] = -log L_m[i]                       relatedness of module m and sample i
//! q_m[i] = softmax over m of γ_m[i] / τ      likelihood of the module for the sample
//! p_m    = softmax over m of -log(mean over i of L_m[i]) / τ'      prior of the batch
//! w_m[i] = q_m[i] p_m / sum over m' of q_m'[i] p_m'
//! ```
//!
//! Weights are plain numbers: no gradient flows through them, which is what makes the structural objective local.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// How a structural loss becomes a relatedness score γ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relatedness {
    /// `-log L`: what the authors ran.
    LogLoss,
    /// `-L`. Paper: eq. 5 as printed.
    Loss,
}

/// The prior over modules that the images of a batch share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prior {
    /// No prior: each sample is weighted by its own scores.
    None,
    /// Softmax over modules of the score of the batch's mean loss: what the authors ran.
    MeanLoss,
    /// Mean of the samples' softmaxes. Paper: eq. 10 as printed.
    MeanSoftmax,
}

/// Which modules of a layer take part in its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// All modules, by their weights.
    Soft,
    /// The best one for each sample: LMC(A,H).
    Hard,
    /// The best few for each sample.
    Top(usize),
}

/// Settings that turn scores into weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompositionConfig {
    /// The score; `log_loss` by default.
    pub relatedness: Relatedness,
    /// τ, 1e-9 to 1e9; 0.1 by default. Small values approach a choice of one module.
    pub temperature: f64,
    /// The batch prior; `mean_loss` by default.
    pub prior: Prior,
    /// τ', 1e-9 to 1e9; 0.1 by default.
    pub prior_temperature: f64,
    /// Which modules take part; `soft` by default.
    pub selection: Selection,
}

impl Default for CompositionConfig {
    fn default() -> Self {
        Self {
            relatedness: Relatedness::LogLoss,
            temperature: 0.1,
            prior: Prior::MeanLoss,
            prior_temperature: 0.1,
            selection: Selection::Soft,
        }
    }
}

/// A number for each module and sample, `[module][sample]`.
pub type PerModule = Vec<Vec<f64>>;

/// Smallest loss that is scored, because 0 has no logarithm; also the loss of modules that are chosen.
const SMALLEST_LOSS: f64 = 1e-10;

/// Range of temperatures in which a score, divided by one, is still a number.
const SMALLEST_TEMPERATURE: f64 = 1e-9;
const LARGEST_TEMPERATURE: f64 = 1e9;

impl CompositionConfig {
    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        for (field, value) in
            [("temperature", self.temperature), ("prior_temperature", self.prior_temperature)]
        {
            if !(SMALLEST_TEMPERATURE..=LARGEST_TEMPERATURE).contains(&value) {
                let field = format!("composition.{field}");
                return Err(Error::setting(
                    field,
                    format!("{value} is not a temperature"),
                    format!("use {SMALLEST_TEMPERATURE} to {LARGEST_TEMPERATURE}"),
                ));
            }
        }
        if self.selection == Selection::Top(0) {
            return Err(Error::setting(
                "composition.selection",
                "the top 0 modules are none",
                "use 1 or more",
            ));
        }
        Ok(())
    }

    /// Weights of a batch from its losses.
    pub fn weights(&self, losses: &[Vec<f64>]) -> PerModule {
        self.weights_choosing(losses, &[])
    }

    /// Weights of samples each of which is a batch of its own: the prior is that of the sample.
    pub fn weights_alone(&self, losses: &[Vec<f64>]) -> PerModule {
        let images = losses.first().map_or(0, Vec::len);
        let mut weights = vec![Vec::with_capacity(images); losses.len()];
        for image in 0..images {
            let alone: PerModule = losses.iter().map(|losses| vec![losses[image]]).collect();
            for (weights, weight) in weights.iter_mut().zip(self.weights(&alone)) {
                weights.extend(weight);
            }
        }
        weights
    }

    /// Weights of a batch when modules marked in `chosen` count with a vanishing loss: the trainable module, when the batch is
    /// an outlier of all frozen ones (specification §1.3).
    pub fn weights_choosing(&self, losses: &[Vec<f64>], chosen: &[bool]) -> PerModule {
        let losses: PerModule = losses
            .iter()
            .enumerate()
            .map(|(module, losses)| match chosen.get(module) {
                Some(true) => vec![SMALLEST_LOSS; losses.len()],
                _ => losses.clone(),
            })
            .collect();
        self.weights_given(&losses, &self.prior(&losses))
    }

    /// Weights of samples under a prior that is known: the logarithm of each module's.
    pub fn weights_given(&self, losses: &[Vec<f64>], prior: &[f64]) -> PerModule {
        let images = losses.first().map_or(0, Vec::len);
        let mut weights = vec![vec![0.0; images]; losses.len()];
        for image in 0..images {
            let column: Vec<f64> = losses
                .iter()
                .zip(prior)
                .map(|(losses, prior)| self.relatedness(losses[image]) / self.temperature + prior)
                .collect();
            for (module, weight) in self.select(&softmax(&column)).into_iter().enumerate() {
                // Weights below the range of 32-bit floats are 0.
                weights[module][image] = if weight < f64::from(f32::MIN_POSITIVE) { 0.0 } else { weight };
            }
        }
        weights
    }

    fn relatedness(&self, loss: f64) -> f64 {
        match self.relatedness {
            Relatedness::LogLoss => -loss.max(SMALLEST_LOSS).ln(),
            Relatedness::Loss => -loss,
        }
    }

    /// The logarithm of each module's prior.
    pub fn prior(&self, losses: &[Vec<f64>]) -> Vec<f64> {
        match self.prior {
            Prior::None => vec![0.0; losses.len()],
            Prior::MeanLoss => {
                let scores: Vec<f64> = losses
                    .iter()
                    .map(|losses| self.relatedness(mean(losses)) / self.prior_temperature)
                    .collect();
                log(&softmax(&scores))
            }
            Prior::MeanSoftmax => {
                let images = losses.first().map_or(0, Vec::len);
                let mut sum = vec![0.0; losses.len()];
                for image in 0..images {
                    let column: Vec<f64> = losses
                        .iter()
                        .map(|losses| self.relatedness(losses[image]) / self.prior_temperature)
                        .collect();
                    for (sum, share) in sum.iter_mut().zip(softmax(&column)) {
                        *sum += share / images as f64;
                    }
                }
                log(&sum)
            }
        }
    }

    /// Keeps the selected modules and renormalises.
    fn select(&self, weights: &[f64]) -> Vec<f64> {
        let most = match self.selection {
            Selection::Soft => weights.len(),
            Selection::Hard => 1,
            Selection::Top(most) => most,
        };
        if most >= weights.len() {
            return weights.to_vec();
        }
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
        let mut kept = vec![0.0; weights.len()];
        let sum: f64 = order[..most].iter().map(|&module| weights[module]).sum();
        for &module in &order[..most] {
            kept[module] = weights[module] / sum;
        }
        kept
    }
}

/// The mean; 0 of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

pub(crate) fn softmax(scores: &[f64]) -> Vec<f64> {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// Logarithms, without minus infinity: a module with no prior at all still has a place behind all others.
fn log(shares: &[f64]) -> Vec<f64> {
    shares.iter().map(|share| share.max(f64::MIN_POSITIVE).ln()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain() -> CompositionConfig {
        CompositionConfig { temperature: 1.0, prior_temperature: 1.0, ..Default::default() }
    }

    #[test]
    fn by_hand() {
        // q = (1/L) normalised: sample 0: 1/1 : 1/3 -> 3/4, 1/4; prior from means 2 and 3: 3/5, 2/5.
        let losses = [vec![1.0, 3.0], vec![3.0, 3.0]];
        let weights = plain().weights(&losses);
        let expected = [[0.75 * 0.6 / (0.75 * 0.6 + 0.25 * 0.4), 0.6], [0.1 / 0.55, 0.4]];
        for (weights, expected) in weights.iter().zip(expected) {
            weights.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{a} {b}"));
        }
        let alone = CompositionConfig { prior: Prior::None, ..plain() }.weights(&losses);
        assert!((alone[0][0] - 0.75).abs() < 1e-12 && (alone[0][1] - 0.5).abs() < 1e-12);
        // Mean of softmaxes of module 0: (3/4 + 1/2) / 2 = 5/8.
        let printed = CompositionConfig { prior: Prior::MeanSoftmax, ..plain() };
        assert!((printed.prior(&losses)[0].exp() - 0.625).abs() < 1e-12);
        // Scores without logarithm: e^-1 against e^-3.
        let linear = CompositionConfig { relatedness: Relatedness::Loss, prior: Prior::None, ..plain() };
        let weight = linear.weights(&losses)[0][0];
        assert!((weight - 1.0 / (1.0 + (-2.0_f64).exp())).abs() < 1e-12);
    }

    #[test]
    fn a_chosen_module_takes_all() {
        let config = CompositionConfig { temperature: 0.1, prior_temperature: 0.1, ..Default::default() };
        let weights = config.weights_choosing(&[vec![0.1, 0.2], vec![0.5, 0.9]], &[false, true]);
        assert_eq!(weights, [[0.0, 0.0], [1.0, 1.0]].map(|row| row.to_vec()).to_vec());
    }

    #[test]
    fn out_of_range_is_named() {
        let error = CompositionConfig { temperature: 0.0, ..Default::default() }.check().unwrap_err();
        assert!(error.to_string().contains("composition.temperature"), "{error}");
    }

    proptest! {
        #[test]
        fn weights_are_a_partition(
            losses in (1_usize..6, 1_usize..8).prop_flat_map(|(m, n)|
                proptest::collection::vec(proptest::collection::vec(0.0_f64..3.0, n), m)),
            temperature in 0.01_f64..2.0,
            prior in prop_oneof![Just(Prior::None), Just(Prior::MeanLoss), Just(Prior::MeanSoftmax)],
            selection in prop_oneof![Just(Selection::Soft), Just(Selection::Hard), (1_usize..4).prop_map(Selection::Top)],
        ) {
            let config = CompositionConfig {
                temperature, prior, selection, prior_temperature: temperature, ..Default::default()
            };
            let weights = config.weights(&losses);
            let most = match selection {
                Selection::Soft => losses.len(), Selection::Hard => 1, Selection::Top(k) => k,
            };
            for image in 0..losses[0].len() {
                let column: Vec<f64> = weights.iter().map(|row| row[image]).collect();
                prop_assert!((column.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                prop_assert!(column.iter().all(|&w| (0.0..=1.0).contains(&w)));
                prop_assert!(column.iter().filter(|&&w| w > 0.0).count() <= most);
            }
            // The order of modules does not matter.
            let mut turned = losses.clone();
            turned.reverse();
            let mut back = config.weights(&turned);
            back.reverse();
            if selection == Selection::Soft {
                for (a, b) in weights.iter().flatten().zip(back.iter().flatten()) {
                    prop_assert!((a - b).abs() < 1e-9);
                }
            }
        }
    }
}
