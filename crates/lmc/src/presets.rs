//! Hyperparameters of the paper's experiments (specification §1.12), by name.

use crate::composition::{Prior, Relatedness};
use crate::error::Result;
use crate::expansion::{Initialisation, Outliers};
use crate::learner::LearnerConfig;
use crate::prediction::{HeadChoice, PredictionConfig, Routing};

/// Names of all presets, and what each is for.
pub const PRESETS: [(&str, &str); 11] = [
    ("s_minus", "stream S- of the paper"),
    ("s_plus", "stream S+"),
    ("s_in", "stream S_in"),
    ("s_out", "stream S_out"),
    ("s_pl", "stream S_pl"),
    ("s_long30", "stream S_long, its first 30 tasks"),
    ("s_long", "stream S_long, 100 tasks"),
    ("ood", "out-of-distribution colours of MNIST"),
    ("combination", "learners that are merged afterwards"),
    ("paper_text", "S- by the paper's equations where they differ from what its authors ran"),
    ("own", "a user's own pictures: S-, with epochs by the number of images"),
];

/// The preset of a name.
pub fn preset(name: &str) -> Result<LearnerConfig> {
    let mut config = LearnerConfig::default();
    match name {
        // The defaults are those of S-.
        "s_minus" | "s_out" => {}
        "s_plus" => {
            growing(&mut config, 1.5, 5, Initialisation::MostLikely);
            config.composition.temperature = 1.0;
            config.projection.skip_validation_on_addition = true;
        }
        "s_in" => config.expansion.initialisation = Initialisation::MostLikely,
        "s_pl" => {
            growing(&mut config, 1.5, 10, Initialisation::MostLikely);
            config.composition.temperature = 1.0;
            config.expansion.inherit_statistics = false;
        }
        "s_long30" => {
            long(&mut config, 1.5);
            config.epochs = 50;
        }
        "s_long" => {
            long(&mut config, 4.0);
            config.optimiser.weight_decay = 0.0;
        }
        "ood" => {
            growing(&mut config, 8.0, 10, Initialisation::Random);
            config.composition.temperature = 1.0;
            config.statistics.window = 1000;
            config.optimiser.weight_decay = 0.0;
            config.epochs = 50;
            config.adapt_batch_norm = true;
            config.projection.signal_in_accumulation = true;
        }
        "combination" => {
            growing(&mut config, 1.5, 5, Initialisation::Mean);
            config.composition.temperature = 1.0;
            config.statistics.window = 10;
            config.projection.skip_validation_on_addition = true;
        }
        "paper_text" => {
            config.composition.relatedness = Relatedness::Loss;
            config.composition.prior = Prior::MeanSoftmax;
            config.expansion.outliers = Outliers::Each;
            config.projection.signal_in_accumulation = true;
            config.joint_autoencoder = true;
        }
        "own" => {
            let (routing, head_choice) = (Routing::AsLearned, HeadChoice::Familiarity);
            config.prediction = PredictionConfig { routing, head_choice };
        }
        _ => {
            let known = PRESETS.iter().map(|(name, _)| *name);
            let names: Vec<&str> = known.clone().collect();
            let cure = format!("the presets are {}", names.join(", "));
            return Err(lmc_streams::Error::unknown("preset", name, known, cure).into());
        }
    }
    Ok(config)
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

/// Fits a preset to another number of epochs: projection phases keep their share, and the window is no longer than such
/// a phase, or a module that is added last would keep values that it inherited (specification §1.5).
pub fn scale_epochs(config: &mut LearnerConfig, epochs: usize, steps_per_epoch: usize) {
    let ratio = epochs as f64 / config.epochs as f64;
    let scaled = |length: usize, least: usize| ((length as f64 * ratio).round() as usize).max(least);
    if config.projection.epochs > 0 {
        config.projection.epochs = scaled(config.projection.epochs, 1);
    }
    config.projection.epochs_after = scaled(config.projection.epochs_after, 1);
    config.epochs = epochs;
    let phase = config.projection.epochs * steps_per_epoch;
    config.statistics.window = config.statistics.window.min(phase.max(10));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_presets_are_legal_and_unknown_ones_are_named() {
        for (name, _) in PRESETS {
            preset(name).unwrap().check().unwrap();
        }
        let error = preset("s_minux").unwrap_err().to_string();
        assert!(error.contains("s_minus"), "{error}");
    }

    #[test]
    fn fewer_epochs_shorten_phases_and_window() {
        let mut config = preset("s_minus").unwrap();
        scale_epochs(&mut config, 10, 7);
        assert_eq!((config.epochs, config.projection.epochs, config.statistics.window), (10, 2, 14));
    }
}
