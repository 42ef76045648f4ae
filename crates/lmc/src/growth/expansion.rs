//! Expansion: when a batch is an outlier for every module of a layer, a new module is added (paper §3.1).
//!
//! ```text
//! layer grows      if all its modules are frozen and z_m >= z' for every module m
//! batch is outlier of module m if z_m > z'   (for weights in training)
//! ```
//!
//! Layers are tested from the input upwards while a training batch passes through. A layer with a trainable module does
//! not grow, so there is at most one new module per layer and task and, while projection phases have steps, one per batch.
//!
//! The two comparisons differ at equality, and both are the authors': a layer grows at `z = z'`, and an outlier lies
//! beyond it. Floating-point scores meet the threshold exactly only at `z' = 0`, where the difference matters: a batch
//! whose loss equals the mean (`z = 0`) still makes a layer grow, but no module is left out for it.

use burn::tensor::Device;
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::module::statistics::{Statistics, StatisticsConfig};
use crate::module::{LocalModule, Origin, StartedFrom};
use crate::network::composition::{CompositionConfig, PerModule, Selection};
use crate::network::layer::Layer;
use crate::tensors;

/// How the parameters of a new module are initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Initialisation {
    /// The element-wise mean of all modules of the layer.
    Mean,
    /// A copy of the module with the largest prior for the batch.
    MostLikely,
    /// Random numbers.
    Random,
}

/// What happens in training to frozen modules for which a batch is an outlier, once the layer has a trainable module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outliers {
    /// If the batch is an outlier of all frozen modules, the trainable one gets all the weight; what the authors ran.
    AllOrNone,
    /// Every frozen module of which it is an outlier gets no weight. Paper: algorithm 2, line 14.
    Each,
    /// Weights stay as composition gives them.
    Keep,
}

/// When the layers are tested for expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpansionTiming {
    /// In every training batch outside projection phases: the paper's.
    EveryBatch,
    /// At the beginning of a task and after each projection phase, by the mean z of all its images
    /// ([`super::task_losses`]).
    BetweenPhases,
}

/// When and how modules are added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpansionConfig {
    /// z', 0 or more; 4 by default. Smaller values add more modules.
    pub threshold: f64,
    /// How a new module is initialised; `mean` by default.
    pub initialisation: Initialisation,
    /// Whether a new module inherits the score statistics of the modules that it starts from; true by default.
    pub inherit_statistics: bool,
    /// What happens to frozen modules for which a batch is an outlier; `all_or_none` by default.
    pub outliers: Outliers,
    /// When the layers are tested: in `every_batch` by default, or `between_phases` by all images of the task.
    pub timing: ExpansionTiming,
    /// Whether the test between phases also compares the spread of the images' losses in a batch; false by default.
    pub test_spread: bool,
    /// Whether the best epoch is sought anew after an addition, so that no module is dropped because an earlier epoch
    /// validated best; false by default.
    pub restart_best_epoch: bool,
    /// Whether the modules of a task are dropped if a head on the modules of earlier tasks has a better validation accuracy;
    /// false by default.
    pub only_with_gain: bool,
    /// How many standard errors better that head must be, 0 or more; 1 by default. With 0 modules need a gain to be kept.
    pub drop_margin: f64,
}

impl Default for ExpansionConfig {
    fn default() -> Self {
        Self {
            threshold: 4.0,
            initialisation: Initialisation::Mean,
            inherit_statistics: true,
            outliers: Outliers::AllOrNone,
            timing: ExpansionTiming::EveryBatch,
            test_spread: false,
            restart_best_epoch: false,
            only_with_gain: false,
            drop_margin: 1.0,
        }
    }
}

/// The largest margin: no difference of accuracies is that many standard errors.
const LARGEST_MARGIN: f64 = 1000.0;

impl ExpansionConfig {
    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        if self.threshold.is_nan() || self.threshold < 0.0 {
            let problem = format!("{} is no threshold", self.threshold);
            return Err(Error::setting(
                "expansion.threshold",
                problem,
                "use 0 or more; the paper uses 1.5 to 8",
            ));
        }
        if !(0.0..=LARGEST_MARGIN).contains(&self.drop_margin) {
            let problem = format!("{} is no margin", self.drop_margin);
            return Err(Error::setting(
                "expansion.drop_margin",
                problem,
                format!("use 0 to {LARGEST_MARGIN}"),
            ));
        }
        Ok(())
    }

    /// Whether a layer whose modules have these z-scores grows.
    pub fn wants_module(&self, layer: &Layer, z: &[f64]) -> bool {
        layer.trainable().is_none() && !z.is_empty() && z.iter().all(|&z| z >= self.threshold)
    }

    /// Makes a new module for a layer. `prior` holds the logarithms of the modules' priors for the batch; `origin` gets
    /// what the module starts from.
    pub fn new_module(
        &self,
        layer: &Layer,
        prior: &[f64],
        origin: &Origin,
        statistics: &StatisticsConfig,
        seed: &Seed,
        device: &Device,
    ) -> LocalModule {
        let modules: Vec<&LocalModule> = layer.modules().iter().collect();
        let likely = (0..prior.len().min(modules.len())).max_by(|&a, &b| prior[a].total_cmp(&prior[b]));
        let from = |from: StartedFrom| Origin { from, ..origin.clone() };
        let random = || layer.config.init(from(StartedFrom::Random), seed, device);
        let mut module = match (self.initialisation, likely) {
            (Initialisation::Mean, _) => match tensors::average(&modules) {
                Some(mean) => {
                    let windows: Vec<_> = modules.iter().map(|module| &module.statistics).collect();
                    let statistics = Statistics::average(&windows, statistics);
                    let origin = from(StartedFrom::Mean { modules: modules.len() });
                    LocalModule { statistics, origin, ..mean }
                }
                None => random(),
            },
            (Initialisation::MostLikely, Some(module)) => {
                LocalModule { origin: from(StartedFrom::Copy { module }), ..modules[module].clone() }
            }
            _ => random(),
        };
        if !self.inherit_statistics {
            module.statistics = Statistics::default();
        }
        module.frozen = false;
        module.trained = false;
        module
    }

    /// Weights `[module][image]` of a training batch. If the layer has a trainable module and selection is soft, `outliers`
    /// decides whether frozen modules for which the batch is an outlier lose their weight; by default only if it is one
    /// for all of them.
    pub fn training_weights(
        &self,
        layer: &Layer,
        losses: &PerModule,
        z: &[f64],
        composition: &CompositionConfig,
    ) -> PerModule {
        let frozen = layer.frozen_count();
        let outlier: Vec<bool> = z.iter().take(frozen).map(|&z| z > self.threshold).collect();
        let applies = layer.trainable().is_some() && frozen > 0 && composition.selection == Selection::Soft;
        match self.outliers {
            Outliers::AllOrNone if applies && outlier.iter().all(|&outlier| outlier) => {
                let chosen: Vec<bool> = (0..losses.len()).map(|module| module >= frozen).collect();
                composition.weights_choosing(losses, &chosen)
            }
            Outliers::Each if applies && outlier.iter().any(|&outlier| outlier) => {
                let mut weights = composition.weights(losses);
                for (module, _) in outlier.iter().enumerate().filter(|(_, outlier)| **outlier) {
                    weights[module].fill(0.0);
                }
                for image in 0..losses.first().map_or(0, Vec::len) {
                    let sum: f64 = weights.iter().map(|weights| weights[image]).sum();
                    match sum > 0.0 {
                        true => weights.iter_mut().for_each(|weights| weights[image] /= sum),
                        false => weights[frozen][image] = 1.0,
                    }
                }
                weights
            }
            _ => composition.weights(losses),
        }
    }
}
