//! Projection and accumulation: which loss reaches which parameter, and when (paper §3.2, appendix A.2).
//!
//! Adding a module at a layer starts a *projection phase*. Besides cross-entropy, the weighted structural losses of all modules
//! are then in the objective; those of frozen modules above send gradients to the new module: its output becomes an input that
//! they were trained on. No module is added meanwhile. In the *accumulation phase* that follows, modules may be added again.
//!
//! Paper: the structural signal from above is said to go on in the accumulation phase. In the runs behind its tables it
//! does not; [`ProjectionConfig::signal_in_accumulation`] switches it on.

use serde::{Deserialize, Serialize};

use crate::module::ModuleMode;

/// How a new module is fitted to the modules above it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectionConfig {
    /// k, how many epochs a projection phase takes; 20 by default. 0: no projection at all.
    pub epochs: usize,
    /// Whether the functional signal (cross-entropy) reaches the trunk in the phase; true by default.
    pub functional_signal: bool,
    /// Whether the structural signal from above goes on in the accumulation phase; false by default.
    pub signal_in_accumulation: bool,
    /// Epochs that a task gets at least after the projection phase of a new module or, in the last layer, after its
    /// addition; 10 by default.
    pub epochs_after: usize,
    /// Whether the epoch of an addition goes without validation; false by default.
    pub skip_validation_on_addition: bool,
}

impl Default for ProjectionConfig {
    fn default() -> Self {
        Self {
            epochs: 20,
            functional_signal: true,
            signal_in_accumulation: false,
            epochs_after: 10,
            skip_validation_on_addition: false,
        }
    }
}

/// The phase of a task's training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Modules may be added.
    Accumulation,
    /// A module was added at `layer`; `left` more steps belong to the phase.
    Projection {
        /// Layer of the newest module; `None` in a network's first task, whose first epochs only count as a phase.
        layer: Option<usize>,
        /// Steps to go.
        left: usize,
    },
}

impl Phase {
    /// A projection phase of `steps` steps for a module that was added at `layer`; none of 0 steps.
    pub fn projection(layer: Option<usize>, steps: usize) -> Self {
        if steps == 0 { Self::Accumulation } else { Self::Projection { layer, left: steps } }
    }

    /// Whether this is a projection phase.
    pub fn is_projection(self) -> bool {
        matches!(self, Self::Projection { .. })
    }

    /// The phase after one more step.
    pub fn step(self) -> Self {
        match self {
            Self::Projection { left: 0 | 1, .. } | Self::Accumulation => Self::Accumulation,
            Self::Projection { layer, left } => Self::Projection { layer, left: left - 1 },
        }
    }

    /// Whether weighted structural losses of all modules are in the objective; otherwise those of trainable ones.
    pub fn counts_all_modules(self, config: &ProjectionConfig) -> bool {
        self.is_projection() || config.signal_in_accumulation
    }

    /// Whether structural losses of frozen modules send gradients to the layers below.
    pub fn signals_from_frozen(self, config: &ProjectionConfig) -> bool {
        config.epochs > 0 && self.counts_all_modules(config)
    }

    /// How the trainable module of a layer is trained. Above the newest module its functional parameters get no gradient,
    /// its structural component is still trained, and its structural loss sends gradients down.
    pub fn trainable_module(self, layer: usize, joint: bool) -> ModuleMode {
        let above = matches!(self, Self::Projection { layer: Some(newest), .. } if layer > newest);
        ModuleMode { frozen: above, attached: above || joint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_takes_its_steps() {
        let mut phase = Phase::projection(Some(1), 3);
        let mut steps = 0;
        while phase.is_projection() {
            phase = phase.step();
            steps += 1;
        }
        assert_eq!(steps, 3);
        assert_eq!(Phase::projection(Some(0), 0), Phase::Accumulation);
    }

    #[test]
    fn only_modules_above_the_newest_are_frozen() {
        let phase = Phase::projection(Some(1), 5);
        assert_eq!(phase.trainable_module(1, false), ModuleMode { frozen: false, attached: false });
        assert_eq!(phase.trainable_module(2, false), ModuleMode { frozen: true, attached: true });
        assert_eq!(
            Phase::Accumulation.trainable_module(2, true),
            ModuleMode { frozen: false, attached: true }
        );
    }
}
