//! Adam over the parts of a network that are trained, with a state that can be saved by name.
//!
//! burn's Adam does the arithmetic. Two learning rates: one for functional components and classifiers, one for structural
//! components. Weight decay is added to the gradient, as the paper has it.

use std::collections::BTreeMap;

use burn::optim::decay::WeightDecayConfig;
use burn::optim::{Adam as BurnAdam, AdamConfig, AdamState, AdaptiveMomentumState, Optimizer as _};
use burn::tensor::{Device, Gradients, Tensor};
use serde::{Deserialize, Serialize};

use super::config::LARGEST_RATE;
use crate::error::{Error, Result};
use crate::tensors::{NamedTensor, Role, Visitor, Walk, tensor, values};

/// Learning rates and weight decay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimiserConfig {
    /// Learning rate of functional components and classifiers; 0.001 by default.
    pub learning_rate: f64,
    /// Learning rate of structural components; 0.001 by default.
    pub structural_learning_rate: f64,
    /// L2 penalty, added to the gradient; 0.001 by default.
    pub weight_decay: f64,
}

impl Default for OptimiserConfig {
    fn default() -> Self {
        Self { learning_rate: 1e-3, structural_learning_rate: 1e-3, weight_decay: 1e-3 }
    }
}

impl OptimiserConfig {
    /// Complains about values outside their range.
    pub fn check(&self) -> Result<()> {
        for (field, value) in [
            ("learning_rate", self.learning_rate),
            ("structural_learning_rate", self.structural_learning_rate),
            ("weight_decay", self.weight_decay),
        ] {
            if !(0.0..=LARGEST_RATE).contains(&value) {
                let field = format!("optimiser.{field}");
                let cure = format!("use 0 to {LARGEST_RATE:e}");
                return Err(Error::setting(field, format!("{value} is not possible"), cure));
            }
        }
        Ok(())
    }

    /// Makes an optimiser that has seen no gradients.
    pub fn init(&self) -> Adam {
        let decay = (self.weight_decay > 0.0).then(|| WeightDecayConfig::new(self.weight_decay as f32));
        let arithmetic = AdamConfig::new().with_epsilon(1e-8).with_weight_decay(decay).build();
        Adam { config: self.clone(), arithmetic, states: BTreeMap::new() }
    }
}

/// Adam with the moments of all gradients so far, by parameter.
#[derive(Clone)]
pub struct Adam {
    config: OptimiserConfig,
    arithmetic: BurnAdam,
    states: BTreeMap<String, AdamState<1>>,
}

impl std::fmt::Debug for Adam {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adam").field("config", &self.config).field("tensors", &self.states.len()).finish()
    }
}

impl Adam {
    /// Takes one step: every parameter that has a gradient moves.
    pub fn step(&mut self, of: &mut impl Walk, gradients: &mut Gradients) {
        of.walk("", &mut Step { adam: self, gradients });
    }

    /// The moments as tensors `NAME.first` and `NAME.second`, and how many steps each parameter has taken.
    pub fn plain(&self) -> (Vec<NamedTensor>, BTreeMap<String, usize>) {
        let mut tensors = Vec::new();
        let mut steps = BTreeMap::new();
        for (name, AdamState { momentum }) in &self.states {
            for (part, moment) in [("first", &momentum.moment_1), ("second", &momentum.moment_2)] {
                let name = format!("{name}.{part}");
                tensors.push(NamedTensor { name, shape: moment.dims().to_vec(), values: values(moment) });
            }
            steps.insert(name.clone(), momentum.time);
        }
        (tensors, steps)
    }

    /// Takes back what [`Adam::plain`] gave. Moments that are missing are an error.
    pub fn restore(
        &mut self,
        mut take: impl FnMut(&str) -> Option<NamedTensor>,
        steps: &BTreeMap<String, usize>,
        device: &Device,
    ) -> Result<()> {
        self.states.clear();
        // Adam computes on the device beneath autodiff.
        let moment = |plain: NamedTensor| {
            let length = plain.values.len();
            tensor(plain.values, [length], device).inner()
        };
        for (name, &time) in steps {
            let parts = (take(&format!("{name}.first")), take(&format!("{name}.second")));
            let (Some(first), Some(second)) = parts else {
                let field = format!("moments of parameter '{name}'");
                return Err(Error::setting(field, "they are missing", "start the run anew"));
            };
            let momentum = AdaptiveMomentumState::new(time, moment(first), moment(second));
            self.states.insert(name.clone(), AdamState::new(momentum));
        }
        Ok(())
    }
}

struct Step<'a> {
    adam: &'a mut Adam,
    gradients: &'a mut Gradients,
}

impl Visitor for Step<'_> {
    fn visit<const D: usize>(&mut self, name: &str, role: Role, tensor: &mut Tensor<D>) {
        let config = &self.adam.config;
        let rate = match role {
            Role::Functional => config.learning_rate,
            Role::Structural => config.structural_learning_rate,
            Role::Buffer => return,
        };
        let Some(gradient) = tensor.grad_remove(self.gradients) else { return };
        let (shape, length) = (tensor.dims(), tensor.dims().iter().product::<usize>());
        let flat = tensor.clone().inner().reshape([length]);
        let state = self.adam.states.remove(name);
        let (moved, state) = self.adam.arithmetic.step(rate, flat, gradient.reshape([length]), state);
        if let Some(state) = state {
            self.adam.states.insert(name.to_owned(), state);
        }
        *tensor = Tensor::from_inner(moved.reshape(shape)).require_grad();
    }
}
