//! Expansion: when every module of a layer says "never seen this", a new one is added (paper §3.2).
//!
//! Layers are asked from the input upwards while a batch passes through. A layer grows if all of its modules were learned
//! in earlier tasks and `z_m >= z'` for all of them; so at most one module per layer and task, and one per batch.

use burn::tensor::Device;
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::layer::Layer;
use crate::module::{LocalModule, Origin};
use crate::statistics::{Statistics, StatisticsConfig};
use crate::tensors;

/// What a new module starts from.
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

/// What happens to old modules whose loss is unusual, once the layer has a free module; training only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outliers {
    /// If all old modules are, the free one takes the whole batch; what the authors ran.
    AllOrNone,
    /// Each that is has no weight. Paper: algorithm 2, line 14.
    Each,
    /// Nothing.
    Keep,
}

/// When and how modules are added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpansionConfig {
    /// z', 0 or more; 4 by default. Smaller values add more modules.
    pub threshold: f64,
    /// What a new module starts from; `mean` by default.
    pub initialisation: Initialisation,
    /// Whether it starts with the score statistics of what it starts from; true by default.
    pub inherit_statistics: bool,
    /// What happens to old modules that find the batch unusual; `all_or_none` by default.
    pub outliers: Outliers,
}

impl Default for ExpansionConfig {
    fn default() -> Self {
        Self {
            threshold: 4.0,
            initialisation: Initialisation::Mean,
            inherit_statistics: true,
            outliers: Outliers::AllOrNone,
        }
    }
}

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
        Ok(())
    }

    /// Whether a layer with these z grows.
    pub fn asks_for_module(&self, layer: &Layer, z: &[f64]) -> bool {
        layer.free().is_none() && !z.is_empty() && z.iter().all(|&z| z >= self.threshold)
    }

    /// A new module for a layer. `prior` is that of its modules for the batch.
    pub fn new_module(
        &self,
        layer: &Layer,
        prior: &[f64],
        origin: impl FnOnce(String) -> Origin,
        statistics: &StatisticsConfig,
        seed: &Seed,
        device: &Device,
    ) -> LocalModule {
        let modules: Vec<&LocalModule> = layer.modules().iter().collect();
        let likely = (0..prior.len().min(modules.len())).max_by(|&a, &b| prior[a].total_cmp(&prior[b]));
        let random = |origin: Origin| layer.config.init(origin, seed, device);
        let mut module = match (self.initialisation, likely) {
            (Initialisation::Mean, _) => match tensors::average(&modules) {
                Some(mean) => {
                    let windows: Vec<_> = modules.iter().map(|module| &module.statistics).collect();
                    let statistics = Statistics::average(&windows, statistics);
                    let from = format!("the mean of {} modules", modules.len());
                    LocalModule { statistics, origin: origin(from), ..mean }
                }
                None => random(origin("random numbers".into())),
            },
            (Initialisation::MostLikely, Some(likely)) => {
                LocalModule { origin: origin(format!("module {likely}")), ..modules[likely].clone() }
            }
            _ => random(origin("random numbers".into())),
        };
        if !self.inherit_statistics {
            module.statistics = Statistics::default();
        }
        module.learned = false;
        module.trained = false;
        module
    }
}
