//! A local module: a functional component that computes, a structural component that scores, and what its score usually
//! is (paper §3).

use burn::tensor::{Device, Tensor};
use lmc_kernels::{FrozenFunctionals, Kernels};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::functional::{Functional, FunctionalConfig, PADDING};
use crate::layer::Known;
use crate::statistics::Statistics;
use crate::structural::{FrozenStructurals, Structural, StructuralConfig};
use crate::tensors::{self, Visitor, Walk, join};

/// Sizes of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleConfig {
    /// Of its functional component.
    pub functional: FunctionalConfig,
    /// Of its structural component.
    pub structural: StructuralConfig,
}

/// Where a module comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The task during which it was added.
    pub task: String,
    /// That task's number in the life of its model, from 0.
    pub number: usize,
    /// The epoch of that task, from 0.
    pub epoch: usize,
    /// The step of that task, from 0.
    pub step: usize,
    /// What it started from: `random`, or modules of its layer.
    pub from: String,
    /// The model that it was learned in, when it came here by a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// One module of a layer.
#[derive(Clone, Debug)]
pub struct LocalModule {
    /// f.
    pub functional: Functional,
    /// s.
    pub structural: Structural,
    /// What its structural loss usually is.
    pub statistics: Statistics,
    /// Where it comes from.
    pub origin: Origin,
    /// Learned in an earlier task: frozen for ever.
    pub learned: bool,
    /// Has taken part in at least one batch; before that it has no say in predictions.
    pub trained: bool,
}

impl ModuleConfig {
    /// A module with random parameters.
    pub fn init(&self, origin: Origin, seed: &Seed, device: &Device) -> LocalModule {
        LocalModule {
            functional: self.functional.init(&seed.named("functional"), device),
            structural: self.structural.init(&seed.named("structural"), device),
            statistics: Statistics::default(),
            origin,
            learned: false,
            trained: false,
        }
    }
}

/// What a module does with its batch in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Training {
    /// Its functional parameters are held: a free module above one that projects into it.
    pub held: bool,
    /// The structural loss sends its gradient through `f` to the module's input.
    pub attached: bool,
}

impl LocalModule {
    /// Output and losses with batch norms in training mode.
    pub fn train(&mut self, input: Tensor<4>, training: Training) -> Result<(Tensor<4>, Tensor<1>)> {
        self.trained = true;
        let output = self.functional.forward(input.clone(), training.held)?;
        let told = if training.attached { output.clone() } else { output.clone().detach() };
        let losses = self.structural.losses(told, input)?;
        Ok((output, losses))
    }

    /// Never changes again.
    pub fn freeze(&mut self) {
        self.learned = true;
        tensors::freeze(self);
    }
}

impl Walk for LocalModule {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        self.functional.walk(&join(path, "functional"), visitor);
        self.structural.walk(&join(path, "structural"), visitor);
    }
}

/// A functional component in evaluation mode.
#[derive(Clone, Debug)]
pub struct FrozenFunctional(FrozenFunctionals);

impl FrozenFunctional {
    /// With its running statistics.
    pub fn new(functional: &Functional) -> Result<Self> {
        let parts = (functional.parameters.clone(), functional.running.clone());
        Ok(Self(FrozenFunctionals::new(&[parts], PADDING)?))
    }

    /// `[batch, channel, row, column]`.
    pub fn forward(&self, input: Tensor<4>) -> Result<Tensor<4>> {
        let outputs = self.0.forward(input, Kernels::Fused)?;
        let [_, images, channels, height, width] = outputs.dims();
        Ok(outputs.reshape([images, channels, height, width]))
    }
}

/// Modules of one layer in evaluation mode, packed for the fused kernels: no gradients for their parameters, and running
/// statistics in their batch norms.
#[derive(Clone, Debug)]
pub struct FrozenModules {
    functionals: FrozenFunctionals,
    structurals: FrozenStructurals,
}

impl FrozenModules {
    /// Of at least one module.
    pub fn new(modules: &[LocalModule]) -> Result<Self> {
        let functionals: Vec<_> = modules
            .iter()
            .map(|module| (module.functional.parameters.clone(), module.functional.running.clone()))
            .collect();
        Ok(Self {
            functionals: FrozenFunctionals::new(&functionals, PADDING)?,
            structurals: FrozenStructurals::new(modules.iter().map(|module| &module.structural))?,
        })
    }

    /// Outputs and losses, as far as they are not known.
    pub fn respond(&self, input: &Tensor<4>, known: Known, attached: bool) -> Result<(Tensor<5>, Tensor<2>)> {
        let outputs = match known.outputs {
            Some(outputs) => outputs,
            None => self.outputs(input.clone())?,
        };
        let losses = match known.losses {
            Some(losses) => losses,
            None => self.losses(outputs.clone(), input.clone(), attached)?,
        };
        Ok((outputs, losses))
    }

    /// Outputs `[module, batch, channel, row, column]`.
    pub fn outputs(&self, input: Tensor<4>) -> Result<Tensor<5>> {
        Ok(self.functionals.forward(input, Kernels::Fused)?)
    }

    /// Losses `[module, batch]`; with `attached` they send gradients to the input through the outputs.
    pub fn losses(&self, outputs: Tensor<5>, input: Tensor<4>, attached: bool) -> Result<Tensor<2>> {
        self.structurals.losses(if attached { outputs } else { outputs.detach() }, input)
    }
}
