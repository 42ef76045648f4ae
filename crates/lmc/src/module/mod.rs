//! A local module: a functional component that computes, a structural component that scores how well an input fits, and
//! running statistics of that score (paper §3).

pub mod functional;
pub mod statistics;
pub mod structural;

use std::fmt;

use burn::tensor::{Device, Tensor};
use lmc_kernels::{FrozenFunctionals, Kernels};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::network::layer::CachedResponses;
use crate::tensors::{self, Visitor, Walk, join};
use functional::{Functional, FunctionalConfig, PADDING};
use statistics::Statistics;
use structural::{FrozenStructurals, Structural, StructuralConfig};

/// Sizes of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleConfig {
    /// Sizes of the functional component.
    pub functional: FunctionalConfig,
    /// Kind and sizes of the structural component.
    pub structural: StructuralConfig,
}

/// What the parameters of a new module start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", from = "StartRecord")]
pub enum StartedFrom {
    /// Random numbers.
    Random,
    /// The element-wise mean of this many modules of its layer.
    Mean {
        /// How many modules were averaged.
        modules: usize,
    },
    /// A copy of a module of its layer.
    Copy {
        /// Number of the module that was copied, from 0.
        module: usize,
    },
}

/// [`StartedFrom`] as files hold it: as it is now, or as the sentence that files had before.
#[derive(Deserialize)]
#[serde(untagged)]
enum StartRecord {
    Sentence(String),
    Tagged(StartTag),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StartTag {
    Random,
    Mean { modules: usize },
    Copy { module: usize },
}

impl From<StartRecord> for StartedFrom {
    fn from(record: StartRecord) -> Self {
        let number = |text: &str| text.split_whitespace().find_map(|word| word.parse().ok());
        match record {
            StartRecord::Tagged(StartTag::Random) => Self::Random,
            StartRecord::Tagged(StartTag::Mean { modules }) => Self::Mean { modules },
            StartRecord::Tagged(StartTag::Copy { module }) => Self::Copy { module },
            StartRecord::Sentence(text) => match number(&text) {
                Some(modules) if text.starts_with("the mean") => Self::Mean { modules },
                Some(module) if text.starts_with("module") => Self::Copy { module },
                _ => Self::Random,
            },
        }
    }
}

impl fmt::Display for StartedFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random => f.write_str("random numbers"),
            Self::Mean { modules: 1 } => f.write_str("the mean of 1 module"),
            Self::Mean { modules } => write!(f, "the mean of {modules} modules"),
            Self::Copy { module } => write!(f, "module {module}"),
        }
    }
}

/// Provenance of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The task during which the module was added.
    pub task: String,
    /// Number of that task in its model, from 0.
    pub number: usize,
    /// Epoch of that task in which the module was added, from 0.
    pub epoch: usize,
    /// Training step of that task in which the module was added, from 0.
    pub step: usize,
    /// What the module's parameters started from.
    pub from: StartedFrom,
    /// The model that the module was learned in, when it came here by a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl Origin {
    /// The origin of a module with random parameters that is there when a task begins.
    pub fn first(task: &str, number: usize) -> Self {
        Self { task: task.to_owned(), number, epoch: 0, step: 0, from: StartedFrom::Random, model: None }
    }

    /// Whether the numbers can be those of a training.
    pub(crate) fn is_sound(&self) -> bool {
        [self.number, self.epoch, self.step].into_iter().all(|count| count <= 1 << 53)
    }

    /// Whether the module was added in this task. Files of earlier versions do not have the name that a task got by a
    /// merge.
    pub(crate) fn is_of(&self, task: &str) -> bool {
        self.task == task || self.model.as_ref().is_some_and(|model| format!("{model}:{}", self.task) == task)
    }
}

/// One module of a layer.
#[derive(Clone, Debug)]
pub struct LocalModule {
    /// `f(x; θ)`, which computes the module's output.
    pub functional: Functional,
    /// `s(o; φ)`, which scores how well an input fits the module.
    pub structural: Structural,
    /// Mean losses of the last batches on which the module was trained, over images that gave it weight.
    pub statistics: Statistics,
    /// Task and step in which the module was added.
    pub origin: Origin,
    /// Whether the module belongs to an earlier task: no parameter of it ever changes again.
    pub frozen: bool,
    /// Whether the module has taken part in a training batch; before that it takes no part in predictions.
    pub trained: bool,
}

impl ModuleConfig {
    /// Makes a trainable module with random parameters.
    pub fn init(&self, origin: Origin, seed: &Seed, device: &Device) -> LocalModule {
        LocalModule {
            functional: self.functional.init(&seed.named("functional"), device),
            structural: self.structural.init(&seed.named("structural"), device),
            statistics: Statistics::default(),
            origin,
            frozen: false,
            trained: false,
        }
    }
}

/// Which gradients a module passes on in a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleMode {
    /// Whether functional parameters get no gradient: a trainable module above one that projects into it.
    pub frozen: bool,
    /// Whether the structural loss sends its gradient through `f` to the module's input.
    pub attached: bool,
}

impl LocalModule {
    /// Output `[batch, channel, row, column]` and structural losses `[batch]`, with batch norms in training mode.
    pub fn respond(&mut self, input: Tensor<4>, mode: ModuleMode) -> Result<(Tensor<4>, Tensor<1>)> {
        self.trained = true;
        let output = self.functional.forward(input.clone(), mode.frozen)?;
        let scored = if mode.attached { output.clone() } else { output.clone().detach() };
        let losses = self.structural.losses(scored, input)?;
        Ok((output, losses))
    }

    /// Freezes all parameters for good.
    pub fn freeze(&mut self) {
        self.frozen = true;
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
    /// Packs a functional component; its batch norm uses the running statistics.
    pub fn new(functional: &Functional) -> Result<Self> {
        let parts = (functional.parameters.clone(), functional.running.clone());
        Ok(Self(FrozenFunctionals::new(&[parts], PADDING)?))
    }

    /// The output of an input, both `[batch, channel, row, column]`.
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
    /// Packs one module or more.
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

    /// Outputs and losses; what is cached is not computed again.
    pub fn respond(
        &self,
        input: &Tensor<4>,
        cached: CachedResponses,
        attached: bool,
    ) -> Result<(Tensor<5>, Tensor<2>)> {
        let outputs = match cached.outputs {
            Some(outputs) => outputs,
            None => self.outputs(input.clone())?,
        };
        let losses = match cached.losses {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_old_files_are_understood() {
        let read = |json: &str| serde_json::from_str::<StartedFrom>(json).unwrap();
        assert_eq!(read("\"random numbers\""), StartedFrom::Random);
        assert_eq!(read("\"the mean of 3 modules\""), StartedFrom::Mean { modules: 3 });
        assert_eq!(read("\"module 2\""), StartedFrom::Copy { module: 2 });
        for start in [StartedFrom::Random, StartedFrom::Mean { modules: 2 }, StartedFrom::Copy { module: 0 }]
        {
            assert_eq!(read(&serde_json::to_string(&start).unwrap()), start);
            assert_eq!(read(&serde_json::to_string(&start.to_string()).unwrap()), start, "as a sentence");
        }
    }
}
