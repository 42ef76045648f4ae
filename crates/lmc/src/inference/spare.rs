//! Spare modules: how much of each layer's weight a task can do without.
//!
//! Soft selection gives every module some weight, also those that a task gains nothing from. Their weights alone do not tell
//! them apart; the validation images of the task do. The lightest modules of each layer are left out, a larger share of the
//! weight at each try, as long as the images are classified as well as before.

use lmc_streams::BatchConfig;

use super::BatchPrior;
use super::evaluation::Protocol;
use super::route::Route;
use crate::error::Result;
use crate::model::Model;
use crate::network::composition::{mean, softmax};
use crate::network::layer::CachedResponses;
use crate::tensors::{argmax, images};
use crate::training::TaskData;

/// Shares of a layer's weight that may be left out, the first one unasked.
const SPARE: [f64; 10] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6];

/// Validation images by which modules are left out, at least and at most.
const FEWEST_FOR_SPARE: usize = 30;
const MOST_FOR_SPARE: usize = 500;

/// Rise of the cross-entropy that does not matter.
const TRIFLE: f64 = 0.01;

/// Whether images with these cross-entropies, and whether they were classified correctly, fare worse `after` than before.
fn is_worse(before: &[(f64, bool)], after: &[(f64, bool)]) -> bool {
    let correct = |all: &[(f64, bool)]| all.iter().filter(|(_, correct)| *correct).count();
    let rises: Vec<f64> = before.iter().zip(after).map(|((before, _), (after, _))| after - before).collect();
    let rise = mean(&rises);
    let squares: Vec<f64> = rises.iter().map(|one| (one - rise).powi(2)).collect();
    let error = (mean(&squares) / rises.len().max(1) as f64).sqrt();
    correct(after) < correct(before) || rise + error > TRIFLE
}

impl Model {
    /// The largest share of each layer's weight that can be left out without harm to the validation images of a head's task:
    /// none the fewer are classified correctly, and their cross-entropy rises by no more than a trifle, with one standard
    /// error. `None` of too few images.
    pub(crate) fn spare_weight(&self, head: usize, route: &Route, data: TaskData<'_>) -> Result<Option<f64>> {
        let val = data.val.thinned(MOST_FOR_SPARE);
        if val.len() < FEWEST_FOR_SPARE {
            return Ok(None);
        }
        let mut probe = self.clone();
        let mut fit = |spare: f64| -> Result<Vec<(f64, bool)>> {
            probe.config.prediction.negligible_weight = spare;
            probe.network.heads[head].route = Some(Route { spare: None, ..route.clone() });
            let predictor = probe.predictor()?;
            let mut found = Vec::with_capacity(val.len());
            for batch in BatchConfig::stored(predictor.images_at_once(Protocol::Single)).init(&val)? {
                data.check_stop()?;
                let input = images(&batch, predictor.device());
                let trace = predictor.trace(head, input, CachedResponses::default(), BatchPrior::PerImage)?;
                for (logits, &label) in predictor.logit_rows(head, trace.features)?.iter().zip(&batch.labels)
                {
                    let probability = softmax(logits)[label as usize].max(f64::MIN_POSITIVE);
                    found.push((-libm::log(probability), argmax(logits) == label as usize));
                }
            }
            Ok(found)
        };
        let whole = fit(SPARE[0])?;
        let mut spare = SPARE[0];
        let (mut modules, mut harmless) = (route.modules(spare), true);
        for &more in &SPARE[1..] {
            // A larger share may be harmless where a smaller one was not: what is left out is left out together.
            let fewer = route.modules(more);
            if fewer != modules {
                harmless = !is_worse(&whole, &fit(more)?);
                modules = fewer;
            }
            if harmless {
                spare = more;
            }
        }
        Ok(Some(spare))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_right_or_a_rise_beyond_chance_is_worse() {
        let before = vec![(0.5, true); 100];
        assert!(!is_worse(&before, &before));
        assert!(!is_worse(&before, &vec![(0.505, true); 100]), "a trifle");
        assert!(is_worse(&before, &vec![(0.52, true); 100]));
        let mut wrong = before.clone();
        wrong[7].1 = false;
        assert!(is_worse(&before, &wrong));
        // No rise on the mean, but nobody knows: the standard error is 0.1.
        let wild: Vec<(f64, bool)> = (0..100).map(|at| (f64::from(at % 2) * 2.0 - 0.5, true)).collect();
        assert!(is_worse(&before, &wild));
    }
}
