//! Projection and accumulation: which loss reaches which parameter, and when (paper §3.3, appendix A.2).
//!
//! Adding a module at a layer starts a *projection phase*. The structural losses of the modules above, which stay frozen,
//! are then part of the objective and pass through them down into the new module: it learns to give what they know. No
//! module is added meanwhile. In the *accumulation phase* that follows, modules may be added again.
//!
//! Paper: the structural signal from above is said to go on in the accumulation phase. In the runs behind its tables it
//! does not; [`ProjectionConfig::signal_in_accumulation`] switches it on.

use serde::{Deserialize, Serialize};

use crate::module::Training;

/// How new modules are made to fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProjectionConfig {
    /// k, how many epochs a projection phase takes; 20 by default. 0: no projection at all.
    pub epochs: usize,
    /// Whether the functional signal (cross-entropy) reaches the trunk in the phase; true by default.
    pub functional_signal: bool,
    /// Whether the structural signal from above goes on in the accumulation phase; false by default.
    pub signal_in_accumulation: bool,
    /// Epochs that a task gets at least after a projection phase; 10 by default.
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

/// Where a task stands.
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
    /// The phase that starts with `steps` steps, at a layer.
    pub fn projection(layer: Option<usize>, steps: usize) -> Self {
        if steps == 0 { Self::Accumulation } else { Self::Projection { layer, left: steps } }
    }

    /// Whether this is a projection phase.
    pub fn is_projection(self) -> bool {
        matches!(self, Self::Projection { .. })
    }

    /// One step of the phase is over.
    pub fn step(self) -> Self {
        match self {
            Self::Projection { left: 0 | 1, .. } | Self::Accumulation => Self::Accumulation,
            Self::Projection { layer, left } => Self::Projection { layer, left: left - 1 },
        }
    }

    /// Whether structural losses of all modules, weighted, are in the objective; otherwise those of free ones.
    pub fn counts_all_modules(self, config: &ProjectionConfig) -> bool {
        self.is_projection() || config.signal_in_accumulation
    }

    /// Whether structural losses of learned modules send gradients down.
    pub fn signals_from_learned(self, config: &ProjectionConfig) -> bool {
        config.epochs > 0 && self.counts_all_modules(config)
    }

    /// How the free module of a layer is trained: above the newest module it is held, and passes the signal down.
    pub fn free_module(self, layer: usize, joint: bool) -> Training {
        let above = matches!(self, Self::Projection { layer: Some(newest), .. } if layer > newest);
        Training { held: above, attached: above || joint }
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
    fn only_modules_above_the_newest_are_held() {
        let phase = Phase::projection(Some(1), 5);
        assert_eq!(phase.free_module(1, false), Training { held: false, attached: false });
        assert_eq!(phase.free_module(2, false), Training { held: true, attached: true });
        assert_eq!(Phase::Accumulation.free_module(2, true), Training { held: false, attached: true });
    }
}
