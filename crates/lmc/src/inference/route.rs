//! Route: the modules that a head asks once it is chosen, and its prior over them.
//!
//! The batch prior of the paper needs a batch: a single image has none, and composes its modules worse than sixty-four do.
//! But a task's images agree about modules, whatever batch they come in. So the mean structural loss of every module that a
//! head sees, over the validation images of its task, is kept with the head and stands for that of the batch, whenever the
//! head classifies, alone or in company:
//!
//! ```text
//! p_m = softmax over m of -log(L_m of the task) / τ'
//! ```
//!
//! The mean weights over the same images say which modules the task needs. Those that carry a negligible share of a
//! layer's weight are not run at all, so that a prediction costs what its task costs, however large the network has grown. How
//! large a share is negligible, the validation images say: as much as leaves their cross-entropy what it is (`spare`).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::task_gaussian::TaskGaussian;
use crate::network::composition::CompositionConfig;

/// What a head measured on the validation images of its task. Modules are counted from the first that the head sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Mean structural loss of each module, `[layer][module]`.
    pub losses: Vec<Vec<f64>>,
    /// Mean weight of each module under the prior that follows from the losses, `[layer][module]`.
    pub weights: Vec<Vec<f64>>,
    /// Share of each layer's weight that the validation images do not need; `None` of too few of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<f64>,
    /// Distribution of the scores behind this route; `None` of too few validation images.
    pub gaussian: Option<TaskGaussian>,
}

impl Route {
    /// The modules that carry all but a negligible share of the weight, `[layer][module]`: the heaviest first until the rest
    /// is negligible, in their order in the layer. What the validation images do not need is negligible too, unless all
    /// modules are asked for (0).
    pub fn modules(&self, negligible: f64) -> Vec<Vec<usize>> {
        let share = match negligible > 0.0 {
            true => self.spare.map_or(negligible, |spare| spare.max(negligible)),
            false => 0.0,
        };
        self.weights.iter().map(|weights| heaviest(weights, share)).collect()
    }

    /// The logarithm of the prior over some modules of each layer.
    pub fn prior(&self, modules: &[Vec<usize>], composition: &CompositionConfig) -> Vec<Vec<f64>> {
        let layers = self.losses.iter().zip(modules);
        layers
            .map(|(losses, modules)| {
                let losses: Vec<Vec<f64>> = modules.iter().map(|&module| vec![losses[module]]).collect();
                composition.prior(&losses)
            })
            .collect()
    }

    /// Whether this can be the route of a head that sees these modules.
    pub fn fits(&self, view: &[Range<usize>]) -> bool {
        let fits = |numbers: &[Vec<f64>], most: f64| {
            numbers.len() == view.len()
                && numbers.iter().zip(view).all(|(layer, modules)| {
                    layer.len() == modules.len() && layer.iter().all(|number| (0.0..=most).contains(number))
                })
        };
        fits(&self.losses, f64::MAX)
            && fits(&self.weights, 1.0 + 1e-6)
            && self.weights.iter().all(|layer| layer.iter().sum::<f64>() > 0.0)
            && self.spare.is_none_or(|spare| (0.0..1.0).contains(&spare))
            && self.gaussian.as_ref().is_none_or(|task| task.fits(view.len()))
    }
}

fn heaviest(weights: &[f64], negligible: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let total: f64 = weights.iter().sum();
    let mut left = total;
    let mut kept = Vec::new();
    for module in order {
        if negligible > 0.0 && !kept.is_empty() && left <= negligible * total {
            break;
        }
        left -= weights[module];
        kept.push(module);
    }
    kept.sort_unstable();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(weights: &[f64]) -> Route {
        Route {
            losses: vec![vec![0.1; weights.len()]],
            weights: vec![weights.to_vec()],
            spare: None,
            gaussian: None,
        }
    }

    #[test]
    fn negligible_modules_are_left_out() {
        let route = route(&[0.004, 0.6, 0.0, 0.396]);
        assert_eq!(route.modules(0.005), [[1, 3]]);
        assert_eq!(route.modules(0.003), [[0, 1, 3]]);
        assert_eq!(route.modules(0.5), [[1]]);
        assert_eq!(route.modules(0.0)[0], [0, 1, 2, 3], "all are run");
        let thin = Route { spare: Some(0.4), ..route };
        assert_eq!(thin.modules(0.005), [[1]], "the rest carries 0.4");
        assert_eq!((thin.modules(0.5), thin.modules(0.0)[0].len()), (vec![vec![1]], 4));
    }

    #[test]
    fn the_prior_is_that_of_a_batch_with_these_losses() {
        let composition = CompositionConfig { prior_temperature: 1.0, ..CompositionConfig::default() };
        let mut route = route(&[0.5, 0.3, 0.2]);
        route.losses = vec![vec![1.0, 3.0, 2.0]];
        // 1/1 : 1/2 -> 2/3, 1/3.
        let prior = &route.prior(&[vec![0, 2]], &composition)[0];
        assert!((prior[0].exp() - 2.0 / 3.0).abs() < 1e-12 && (prior[1].exp() - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn impossible_numbers_do_not_fit() {
        let good = route(&[0.5, 0.5]);
        let view = vec![3..5; 1];
        assert!(good.fits(&view) && !good.fits(&vec![3..6; 1]) && !good.fits(&[0..2, 0..2]));
        for bad in [f64::NAN, -1.0, f64::INFINITY] {
            let mut route = good.clone();
            route.losses[0][1] = bad;
            assert!(!route.fits(&view), "{bad}");
        }
        assert!(!route(&[0.0, 0.0]).fits(&view), "a layer without weight");
        assert!(!Route { spare: Some(1.0), ..good }.fits(&view));
    }
}
