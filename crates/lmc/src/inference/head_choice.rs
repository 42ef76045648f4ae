//! Head choice: which head classifies an image when the task is not given.
//!
//! ```text
//! structural_loss   cost[h, i] = L_h[i]                                    behind all modules, as in the paper
//! task_gaussian     cost[h, i] = -log N(profile_h[i]; μ_h, Σ_h) + log L_h[i] / τ
//! ```
//!
//! `signature` finds the head before any module runs ([`super::head_first`]). The second rule above adds how likely the scores of the head and of the layers before it are for its task
//! ([`super::task_gaussian`]); the exponent 1/τ is the weight that the paper gives to the scores of modules.

use serde::{Deserialize, Serialize};

use super::views::BatchTraces;
use crate::error::Result;
use crate::network::head::HeadSelection;

/// What heads are compared by when the task is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadChoice {
    /// Structural losses of the heads behind all modules: the paper's.
    StructuralLoss,
    /// Structural losses, together with how likely the scores before a head are for its task. Structural losses alone for
    /// all heads if any of them has no such distribution (a task with too few validation images).
    #[serde(alias = "familiarity")]
    TaskGaussian,
    /// How the image looks, compared with the images of each task: [`super::head_first`]. As `TaskGaussian` if any task has
    /// no signature (it was learned by an earlier version).
    Signature,
}

impl BatchTraces<'_> {
    /// Costs of all heads, `[head][image]`; `None` unless all heads have a distribution of scores.
    fn gaussian_costs(&self) -> Result<Option<Vec<Vec<f64>>>> {
        let mut costs = Vec::with_capacity(self.predictor.heads.len());
        let temperature = self.predictor.composition.temperature;
        for (head, found) in self.predictor.heads.iter().enumerate() {
            let Some(task) = &found.gaussian else { return Ok(None) };
            let cost = |(profile, loss): (&Vec<f64>, &f64)| {
                task.negative_log_likelihood(profile) + loss.max(f64::MIN_POSITIVE).ln() / temperature
            };
            costs.push(self.profiles(head)?.iter().zip(&self.head_losses[head]).map(cost).collect());
        }
        Ok(Some(costs))
    }

    /// The head of each image.
    pub(super) fn choose(&self, selection: HeadSelection) -> Result<Vec<usize>> {
        let needed = !matches!(selection, HeadSelection::Given(_));
        let costs = match self.predictor.config.head_choice {
            HeadChoice::TaskGaussian | HeadChoice::Signature if needed => self.gaussian_costs()?,
            _ => None,
        };
        Ok(selection.choose(costs.as_ref().unwrap_or(&self.head_losses), self.images()))
    }
}
