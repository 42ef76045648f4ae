//! All hyperparameters of the learner, and how many epochs a task gets. [`Preset`](crate::Preset) has those of the paper.

use lmc_streams::TaskSet;
use serde::{Deserialize, Serialize};

use super::adam::OptimiserConfig;
use crate::error::{Error, Result};
use crate::growth::expansion::ExpansionConfig;
use crate::growth::projection::ProjectionConfig;
use crate::inference::PredictionConfig;
use crate::inference::novelty::NoveltyConfig;
use crate::module::statistics::{StatisticsConfig, StatisticsSource};
use crate::network::composition::CompositionConfig;

/// How many epochs a task gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpochBudget {
    /// As many as `epochs` says, or `epochs_large` for a large task.
    #[default]
    Fixed,
    /// About 2000 training steps, in 20 to 100 epochs: few images need more epochs. Phases and window are scaled with it.
    ByImages,
}

impl EpochBudget {
    /// Training steps that a task gets when its epochs follow its number of images.
    const STEPS: usize = 2000;

    /// Epochs for a task with so many steps per epoch; `None` if they are fixed.
    fn epochs(self, steps_per_epoch: usize) -> Option<usize> {
        match self {
            Self::Fixed => None,
            Self::ByImages => Some((Self::STEPS / steps_per_epoch.max(1)).clamp(20, 100)),
        }
    }
}

/// The method and its hyperparameters; see [`Preset`](crate::Preset) for those of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnerConfig {
    /// From structural losses to weights.
    pub composition: CompositionConfig,
    /// How unusual a batch is.
    pub statistics: StatisticsConfig,
    /// When and how modules are added.
    pub expansion: ExpansionConfig,
    /// How new modules are fitted to those above them.
    pub projection: ProjectionConfig,
    /// Learning rates and weight decay.
    pub optimiser: OptimiserConfig,
    /// Which modules and which head classify an image.
    pub prediction: PredictionConfig,
    /// When an image counts as new.
    pub novelty: NoveltyConfig,
    /// λ, the weight of the structural losses, 0 or more; 10 by default.
    pub structural_weight: f64,
    /// Whether functional components are trained on their own decoders' reconstruction loss too; false by default. Paper: §3
    /// trains them so.
    pub joint_autoencoder: bool,
    /// Whether batch norms of frozen modules follow the data; false by default.
    pub adapt_batch_norm: bool,
    /// Images per batch, 1 or more; 64 by default.
    pub batch: usize,
    /// How many epochs a task gets: `fixed` by default, as `epochs` says, or `by_images`.
    pub budget: EpochBudget,
    /// Epochs per task with a fixed budget, 1 or more; 100 by default.
    pub epochs: usize,
    /// Epochs instead for tasks of 1000 training images or more; 0, the default, for no difference.
    pub epochs_large: usize,
    /// Memory in MiB for outputs of frozen first-layer modules on the images of the task; 2048 by default.
    pub cache_mib: usize,
}

impl Default for LearnerConfig {
    fn default() -> Self {
        Self {
            composition: CompositionConfig::default(),
            statistics: StatisticsConfig::default(),
            expansion: ExpansionConfig::default(),
            projection: ProjectionConfig::default(),
            optimiser: OptimiserConfig::default(),
            prediction: PredictionConfig::default(),
            novelty: NoveltyConfig::default(),
            structural_weight: 10.0,
            joint_autoencoder: false,
            adapt_batch_norm: false,
            batch: 64,
            budget: EpochBudget::Fixed,
            epochs: 100,
            epochs_large: 0,
            cache_mib: 2048,
        }
    }
}

/// Number of training images from which on a task is large.
pub const LARGE_TASK: usize = 1000;

/// The largest number of images in a batch: their pixels alone are 800 MB at 32 by 32.
pub const LARGEST_BATCH: usize = 65_536;
/// The largest number of epochs of a task, or of a phase.
pub const MOST_EPOCHS: usize = 1_000_000;
/// The largest number of batches in the window of a module's statistics, which the model file holds.
const LONGEST_WINDOW: usize = 1_000_000;
/// The largest cache, in MiB: a TiB.
const LARGEST_CACHE: usize = 1 << 20;
/// The largest weight of a loss.
pub const LARGEST_WEIGHT: f64 = 1e9;
/// The largest learning rate and weight decay that 32-bit numbers can compute with; training says itself that it diverged.
pub const LARGEST_RATE: f64 = 1e30;

/// Complains about a number outside its range.
pub fn check_count(field: &str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::setting(field, format!("it is {value}"), format!("use {least} to {most}")))
}

impl LearnerConfig {
    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        self.composition.check()?;
        self.expansion.check()?;
        self.optimiser.check()?;
        self.novelty.check()?;
        self.prediction.check()?;
        if self.statistics.window < 3 {
            return Err(Error::setting("statistics.window", "too short for a deviation", "use 3 or more"));
        }
        if !(self.structural_weight >= 0.0 && self.structural_weight <= LARGEST_WEIGHT) {
            let problem = format!("{} is not possible", self.structural_weight);
            return Err(Error::setting("structural_weight", problem, format!("use 0 to {LARGEST_WEIGHT}")));
        }
        check_count("batch", self.batch, 1, LARGEST_BATCH)?;
        check_count("epochs", self.epochs, 1, MOST_EPOCHS)?;
        check_count("epochs_large", self.epochs_large, 0, MOST_EPOCHS)?;
        check_count("projection.epochs", self.projection.epochs, 0, MOST_EPOCHS)?;
        check_count("projection.epochs_after", self.projection.epochs_after, 0, MOST_EPOCHS)?;
        check_count("statistics.window", self.statistics.window, 3, LONGEST_WINDOW)?;
        check_count("cache_mib", self.cache_mib, 0, LARGEST_CACHE)
    }

    /// Training steps of an epoch over a set.
    pub fn steps_per_epoch(&self, train: &TaskSet) -> usize {
        train.len().div_ceil(self.batch.max(1))
    }

    /// Epochs for a task with a fixed budget.
    pub fn epochs_for(&self, train: &TaskSet) -> usize {
        if train.len() >= LARGE_TASK && self.epochs_large > 0 { self.epochs_large } else { self.epochs }
    }

    /// The settings with which one task is trained: for the epochs that the user asks for, those that follow from the
    /// number of images, or else as they are.
    pub fn for_task(&self, train: &TaskSet, epochs: Option<usize>) -> Result<Self> {
        let steps = self.steps_per_epoch(train).max(1);
        let mut config = self.clone();
        if let Some(epochs) = epochs.or(self.budget.epochs(steps)) {
            check_count("epochs", epochs, 1, MOST_EPOCHS)?;
            config.scale_epochs(epochs, steps);
        }
        Ok(config)
    }

    /// Changes the number of epochs to a fixed one: projection phases keep their share, and a window that is filled in
    /// training is no longer than such a phase, or a module that is added last would keep values that it inherited (specification §1.5).
    pub fn scale_epochs(&mut self, epochs: usize, steps_per_epoch: usize) {
        let ratio = epochs as f64 / self.epochs.max(1) as f64;
        let scaled = |length: usize, least: usize| {
            ((length as f64 * ratio).round() as usize).clamp(least, MOST_EPOCHS)
        };
        if self.projection.epochs > 0 {
            self.projection.epochs = scaled(self.projection.epochs, 1);
        }
        self.projection.epochs_after = scaled(self.projection.epochs_after, 1);
        self.epochs = epochs;
        self.epochs_large = 0;
        self.budget = EpochBudget::Fixed;
        if self.statistics.source == StatisticsSource::Training {
            let phase = self.projection.epochs.saturating_mul(steps_per_epoch);
            self.statistics.window = self.statistics.window.min(phase.max(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::Preset;

    #[test]
    fn fewer_epochs_shorten_phases_and_window() {
        let mut config = Preset::SMinus.learner();
        config.scale_epochs(10, 7);
        assert_eq!((config.epochs, config.projection.epochs, config.statistics.window), (10, 2, 14));
    }

    /// What passes `check` is safe to count with, whatever the numbers are.
    #[test]
    fn extreme_settings_are_refused_or_harmless() {
        let numbers = [0, 1, 3, LARGEST_BATCH, MOST_EPOCHS, 1 << 20, 1 << 32, usize::MAX - 1, usize::MAX];
        let fields: [fn(&mut LearnerConfig) -> &mut usize; 7] = [
            |config| &mut config.batch,
            |config| &mut config.epochs,
            |config| &mut config.epochs_large,
            |config| &mut config.projection.epochs,
            |config| &mut config.projection.epochs_after,
            |config| &mut config.statistics.window,
            |config| &mut config.cache_mib,
        ];
        let mut passed = 0;
        for (one, other) in fields.iter().flat_map(|one| fields.iter().map(move |other| (one, other))) {
            for (a, b) in numbers.iter().flat_map(|a| numbers.iter().map(move |b| (*a, *b))) {
                let mut config = LearnerConfig::default();
                *one(&mut config) = a;
                *other(&mut config) = b;
                if config.check().is_err() {
                    continue;
                }
                passed += 1;
                for (epochs, steps) in [(1, 1), (MOST_EPOCHS, 1 << 40), (MOST_EPOCHS, usize::MAX)] {
                    let mut scaled = config.clone();
                    scaled.scale_epochs(epochs, steps);
                    scaled.check().unwrap_or_else(|error| panic!("{config:?} became bad: {error}"));
                }
            }
        }
        assert!(passed > 100);
        for value in [f64::NAN, f64::INFINITY, -1.0, f64::MAX] {
            let floats: [fn(&mut LearnerConfig) -> &mut f64; 7] = [
                |config| &mut config.structural_weight,
                |config| &mut config.composition.temperature,
                |config| &mut config.composition.prior_temperature,
                |config| &mut config.optimiser.learning_rate,
                |config| &mut config.optimiser.structural_learning_rate,
                |config| &mut config.optimiser.weight_decay,
                |config| &mut config.novelty.false_alarms,
            ];
            for field in floats {
                let mut config = LearnerConfig::default();
                *field(&mut config) = value;
                config.check().unwrap_err();
            }
        }
    }

    #[test]
    fn few_images_get_many_epochs() {
        let budget = EpochBudget::ByImages;
        assert_eq!([1, 20, 40, 1000].map(|steps| budget.epochs(steps)), [100, 100, 50, 20].map(Some));
        assert_eq!(EpochBudget::Fixed.epochs(40), None);
    }
}
