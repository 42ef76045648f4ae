//! Gain: modules that cost more than they gain are dropped at the end of a task (ours, not the paper's).
//!
//! A task that grew has an alternative which costs nothing: the modules that were there before, with a head of its own. Their
//! outputs are constants of the task, so that this head is trained in about a second, for as many epochs, and validated like
//! any state. If its validation accuracy is better by a margin, the new modules are dropped.
//!
//! ```text
//! dropped if  a₀ - a >= margin · sqrt((a₀ (1 - a₀) + a (1 - a)) / n)     a₀ without, a with the modules; n images
//! ```
//!
//! The margin, one standard error by default, is there because fifty validation images tell accuracies apart to ten points
//! only, and the test for expansion has found the task's images unlike those of the old modules already.
//!
//! Frozen modules never change, so that the alternative can be computed when the task ends; it is no part of the state.

use lmc_streams::BatchConfig;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::model::Model;
use crate::network::Network;
use crate::network::head::HeadConfig;
use crate::network::layer::Layer;
use crate::tensors::{self, without_gradients};
use crate::training::config::LearnerConfig;
use crate::training::extension::FeatureSet;
use crate::training::step::cross_entropy;
use crate::training::{Best, TaskData};

/// Modules that were added in a task and are not in the network at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DroppedModules {
    /// How many, layer by layer.
    pub modules: Vec<usize>,
    /// Why.
    pub reason: DropReason,
}

/// Why modules were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DropReason {
    /// They were added after the epoch with the best validation accuracy.
    AfterBestEpoch,
    /// A head on the modules of earlier tasks had a better validation accuracy.
    NoGain {
        /// Validation accuracy with the modules.
        with: f64,
        /// Validation accuracy without them.
        without: f64,
    },
}

impl DroppedModules {
    /// The modules that are in the first count of each layer and not in the second; `None` if there are none.
    pub(crate) fn between(grown: &[usize], kept: &[usize], reason: DropReason) -> Option<Self> {
        let modules: Vec<usize> =
            grown.iter().zip(kept).map(|(grown, kept)| grown.saturating_sub(*kept)).collect();
        modules.iter().any(|&modules| modules > 0).then_some(Self { modules, reason })
    }
}

/// Whether modules are dropped that have a validation accuracy of `with` where there is one of `without` them, both on so
/// many images.
pub(crate) fn costs_more_than_it_gains(with: f64, without: f64, images: usize, margin: f64) -> bool {
    let variance = (with * (1.0 - with) + without * (1.0 - without)) / images.max(1) as f64;
    without - with >= margin * variance.sqrt()
}

impl Model {
    /// The network with the first `before` modules of each layer and a new head, trained on their outputs, at its best
    /// epoch. `None` without validation images.
    pub(crate) fn without_new_modules(
        &self,
        head: usize,
        before: &[usize],
        data: TaskData<'_>,
        config: &LearnerConfig,
    ) -> Result<Option<Best<Network>>> {
        let mut network = self.network.clone();
        for (layer, &count) in network.layers.iter_mut().zip(before) {
            *layer = Layer::new(layer.config, layer.modules()[..count].to_vec())?;
        }
        let seed = self.task_seed(head);
        let sizes = HeadConfig {
            features: network.config.features(),
            classes: data.classes.len(),
            structural: network.config.heads,
        };
        let mut fresh = sizes.init(data.name, data.classes.to_vec(), &seed.named("head"), &network.device);
        tensors::train(&mut fresh);
        network.heads[head] = fresh.clone();
        let mut trunk = self.clone();
        trunk.network = network.clone();
        let predictor = trunk.predictor()?;
        let shuffled = BatchConfig::shuffled(config.batch, seed.named("features"));
        let train = FeatureSet::new(&predictor, head, &shuffled, data, data.train)?;
        let val = FeatureSet::new(&predictor, head, &BatchConfig::stored(config.batch), data, data.val)?;
        let inner = network.device.clone().inner();
        let mut random = seed.named("head alone").random();
        let mut order: Vec<usize> = (0..train.len()).collect();
        let mut adam = config.optimiser.init();
        let mut best: Option<Best<Network>> = None;
        for epoch in 0..config.epochs {
            data.check_stop()?;
            random.shuffle(&mut order);
            for part in order.chunks(config.batch.max(1)) {
                let (features, labels) = train.rows(part, &network.device);
                let entropy = cross_entropy(fresh.logits(features.clone()), &labels);
                let loss = entropy + fresh.losses(features).mean().mul_scalar(config.structural_weight);
                adam.step(&mut fresh, &mut loss.backward());
            }
            let Some(accuracy) = val.accuracy(&without_gradients(&fresh), &inner) else { return Ok(None) };
            if best.as_ref().is_none_or(|best| accuracy > best.accuracy) {
                network.heads[head] = fresh.clone();
                best = Some(Best { epoch, accuracy, state: network.clone() });
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::costs_more_than_it_gains;

    #[test]
    fn modules_are_dropped_when_the_alternative_is_better_by_the_margin() {
        // One standard error of two shares of about a half on fifty images is a tenth.
        assert!(costs_more_than_it_gains(0.44, 0.56, 50, 1.0));
        assert!(!costs_more_than_it_gains(0.46, 0.54, 50, 1.0));
        assert!(costs_more_than_it_gains(0.5, 0.5, 50, 0.0) && !costs_more_than_it_gains(0.51, 0.5, 50, 0.0));
        assert!(costs_more_than_it_gains(1.0, 1.0, 50, 1.0), "nothing to gain");
        assert!(!costs_more_than_it_gains(0.9, 0.5, 50, 1.0));
    }
}
