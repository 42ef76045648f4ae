//! Hyperparameters of the paper's experiments (specification §1.12), by name.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::growth::expansion::{ExpansionTiming, Initialisation, Outliers};
use crate::inference::{HeadChoice, PredictionConfig, Routing};
use crate::module::statistics::StatisticsSource;
use crate::network::composition::{Prior, Relatedness};
use crate::training::config::{EpochBudget, LearnerConfig};

/// Hyperparameters for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Stream S- of the paper.
    SMinus,
    /// Stream S+.
    SPlus,
    /// Stream S_in.
    SIn,
    /// Stream S_out.
    SOut,
    /// Stream S_pl.
    SPl,
    /// Stream S_long, its first 30 tasks.
    SLong30,
    /// Stream S_long, 100 tasks.
    SLong,
    /// Compositional out-of-distribution generalisation on coloured MNIST.
    Ood,
    /// Learners that are merged afterwards.
    Combination,
    /// S- by the paper's equations where they differ from what its authors ran.
    PaperText,
    /// A user's own pictures.
    Own,
}

impl Preset {
    /// All presets, with the name of each in files and commands.
    pub const ALL: [(Self, &str); 11] = [
        (Self::SMinus, "s_minus"),
        (Self::SPlus, "s_plus"),
        (Self::SIn, "s_in"),
        (Self::SOut, "s_out"),
        (Self::SPl, "s_pl"),
        (Self::SLong30, "s_long30"),
        (Self::SLong, "s_long"),
        (Self::Ood, "ood"),
        (Self::Combination, "combination"),
        (Self::PaperText, "paper_text"),
        (Self::Own, "own"),
    ];

    /// The hyperparameters.
    pub fn learner(self) -> LearnerConfig {
        let mut config = LearnerConfig::default();
        match self {
            // The defaults are those of S-.
            Self::SMinus | Self::SOut => {}
            Self::SPlus => {
                growing(&mut config, 1.5, 5, Initialisation::MostLikely);
                config.composition.temperature = 1.0;
                config.projection.skip_validation_on_addition = true;
            }
            Self::SIn => config.expansion.initialisation = Initialisation::MostLikely,
            Self::SPl => {
                growing(&mut config, 1.5, 10, Initialisation::MostLikely);
                config.composition.temperature = 1.0;
                config.expansion.inherit_statistics = false;
            }
            Self::SLong30 => {
                long(&mut config, 1.5);
                config.epochs = 50;
            }
            Self::SLong => {
                long(&mut config, 4.0);
                config.optimiser.weight_decay = 0.0;
            }
            Self::Ood => {
                growing(&mut config, 8.0, 10, Initialisation::Random);
                config.composition.temperature = 1.0;
                config.statistics.window = 1000;
                config.optimiser.weight_decay = 0.0;
                config.epochs = 50;
                config.adapt_batch_norm = true;
                config.projection.signal_in_accumulation = true;
            }
            Self::Combination => {
                growing(&mut config, 1.5, 5, Initialisation::Mean);
                config.composition.temperature = 1.0;
                config.statistics.window = 10;
                config.projection.skip_validation_on_addition = true;
            }
            Self::PaperText => {
                config.composition.relatedness = Relatedness::Loss;
                config.composition.prior = Prior::MeanSoftmax;
                config.expansion.outliers = Outliers::Each;
                config.projection.signal_in_accumulation = true;
                config.joint_autoencoder = true;
            }
            // S-, with epochs by the number of images, predictions that do not change with later tasks if the task is
            // given, and growth by all images of a task, which works on a few hundred.
            Self::Own => {
                let (routing, head_choice) = (Routing::AsLearned, HeadChoice::Signature);
                config.prediction = PredictionConfig { routing, head_choice, ..config.prediction };
                config.budget = EpochBudget::ByImages;
                config.statistics.source = StatisticsSource::TaskEnd;
                config.statistics.scale_partial_batches = true;
                config.expansion.timing = ExpansionTiming::BetweenPhases;
                config.expansion.outliers = Outliers::Keep;
                config.expansion.restart_best_epoch = true;
                config.expansion.only_with_gain = true;
                config.projection.epochs = 3;
            }
        }
        config
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::ALL.iter().find(|(preset, _)| preset == self);
        f.write_str(named.map_or("", |(_, name)| name))
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let names = Self::ALL.map(|(_, name)| name);
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(preset, _)| *preset).ok_or_else(|| {
            let cure = format!("the presets are {}", names.join(", "));
            lmc_streams::Error::unknown("preset", name, names, cure).into()
        })
    }
}

fn growing(config: &mut LearnerConfig, threshold: f64, epochs: usize, initialisation: Initialisation) {
    config.expansion.threshold = threshold;
    config.expansion.initialisation = initialisation;
    config.projection.epochs = epochs;
}

fn long(config: &mut LearnerConfig, threshold: f64) {
    growing(config, threshold, 5, Initialisation::MostLikely);
    config.composition.temperature = 1.0;
    config.composition.prior_temperature = 0.01;
    config.statistics.window = 50;
    config.structural_weight = 1.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_presets_are_legal_and_unknown_ones_are_named() {
        for (preset, name) in Preset::ALL {
            preset.learner().check().unwrap();
            assert_eq!((name.parse::<Preset>().unwrap(), preset.to_string().as_str()), (preset, name));
        }
        let error = "s_minux".parse::<Preset>().unwrap_err().to_string();
        assert!(error.contains("s_minus"), "{error}");
    }
}
