//! A layer: modules side by side on one input, and the weighted sum of what they give (paper §3, eq. 4).
//!
//! ```text
//! x_next[i] = sum over m of w_m[i] f_m(x[i])
//! ```
//!
//! Frozen modules, those of earlier tasks, come first, packed for the fused kernels. A module that the current task
//! added is trainable and comes last.

use std::sync::OnceLock;

use burn::tensor::{Device, Tensor};
use lmc_kernels::{Kernels, weighted_sum};

use super::composition::PerModule;
use crate::error::{Error, Result};
use crate::module::statistics::StatisticsConfig;
use crate::module::{FrozenModules, LocalModule, ModuleConfig, ModuleMode};
use crate::tensors::{Visitor, Walk, join, numbers, rows, tensor, without_gradients};

/// A layer of modules of one shape.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Sizes that all modules of the layer have.
    pub config: ModuleConfig,
    modules: Vec<LocalModule>,
    packed: Option<PackedModules>,
}

/// The frozen modules of a layer, packed for the fused kernels.
#[derive(Clone, Debug)]
struct PackedModules {
    /// For inputs that need a gradient, on the autodiff device. Packed when the first one comes: autodiff remembers every
    /// operation until the next backward pass, which a model that is only loaded never sees.
    tracked: OnceLock<FrozenModules>,
    /// For all other inputs, on the device beneath autodiff.
    inner: FrozenModules,
}

/// How the modules of a layer take part in a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerMode {
    /// Whether structural losses of frozen modules send gradients to the layer's input.
    pub signal_from_frozen: bool,
    /// How the trainable module is trained.
    pub trainable: ModuleMode,
    /// Whether batch norms of frozen modules follow the data.
    pub adapt: bool,
}

/// Responses of frozen modules to a batch that are known already, taken from a cache, on the device beneath autodiff.
#[derive(Clone, Debug, Default)]
pub struct CachedResponses {
    /// Outputs of the frozen modules, `[module, batch, channel, row, column]`.
    pub outputs: Option<Tensor<5>>,
    /// Structural losses of the frozen modules, `[module, batch]`.
    pub losses: Option<Tensor<2>>,
}

/// Outputs and structural losses of a layer's modules on a batch.
#[derive(Clone, Debug)]
pub struct Responses {
    /// Outputs `[module, batch, channel, row, column]` and losses `[module, batch]` of the frozen modules.
    pub frozen: Option<(Tensor<5>, Tensor<2>)>,
    /// Output `[batch, channel, row, column]` and losses `[batch]` of the trainable module.
    pub trainable: Option<(Tensor<4>, Tensor<1>)>,
}

impl Layer {
    /// Builds a layer of modules, of which the frozen ones come first and at most one, the last, is trainable.
    pub fn new(config: ModuleConfig, modules: Vec<LocalModule>) -> Result<Self> {
        let mut layer = Self { config, modules, packed: None };
        layer.pack()?;
        Ok(layer)
    }

    /// All modules, in the order in which they were added.
    pub fn modules(&self) -> &[LocalModule] {
        &self.modules
    }

    /// All modules, to change what is not among their parameters: these are packed.
    pub(crate) fn modules_mut(&mut self) -> &mut [LocalModule] {
        &mut self.modules
    }

    /// Number of frozen modules.
    pub fn frozen_count(&self) -> usize {
        self.modules.iter().filter(|module| module.frozen).count()
    }

    /// The module that the current task added, if there is one.
    pub fn trainable(&self) -> Option<&LocalModule> {
        self.modules.last().filter(|module| !module.frozen)
    }

    /// The module that the current task added, if there is one.
    pub fn trainable_mut(&mut self) -> Option<&mut LocalModule> {
        self.modules.last_mut().filter(|module| !module.frozen)
    }

    /// Gives a task another name in the origin of all modules.
    pub(crate) fn rename_origins(&mut self, task: &str, to: &str) {
        for module in self.modules.iter_mut().filter(|module| module.origin.is_of(task)) {
            to.clone_into(&mut module.origin.task);
        }
    }

    /// Adds a trainable module; a layer has one at most.
    pub fn add(&mut self, module: LocalModule) -> Result<()> {
        if self.trainable().is_some() {
            let problem = "it has a trainable module already";
            return Err(Error::setting("layer", problem, "finish the open task first"));
        }
        self.modules.push(module);
        Ok(())
    }

    /// Freezes all modules.
    pub fn freeze(&mut self) -> Result<()> {
        self.modules.iter_mut().filter(|module| !module.frozen).for_each(LocalModule::freeze);
        self.pack()
    }

    fn pack(&mut self) -> Result<()> {
        let frozen = &self.modules[..self.frozen_count()];
        self.packed = match frozen {
            [] => None,
            frozen => {
                let inner: Vec<LocalModule> = frozen.iter().map(without_gradients).collect();
                Some(PackedModules { tracked: OnceLock::new(), inner: FrozenModules::new(&inner)? })
            }
        };
        Ok(())
    }

    /// The frozen modules, packed, on the device beneath autodiff.
    pub fn packed(&self) -> Option<&FrozenModules> {
        self.packed.as_ref().map(|packed| &packed.inner)
    }

    /// How unusual a batch with these structural losses `[module][image]` is for each module (paper §3.1, eq. 8).
    pub fn z_scores(&self, losses: &PerModule, config: &StatisticsConfig) -> Vec<f64> {
        let modules = self.modules.iter().zip(losses);
        modules.map(|(module, losses)| module.statistics.z(losses, config)).collect()
    }

    /// Runs all modules on a batch in training. Only the trainable module's batch norms change, unless `mode` says that
    /// the frozen ones adapt.
    pub fn respond(
        &mut self,
        input: &Tensor<4>,
        mode: LayerMode,
        cached: CachedResponses,
    ) -> Result<Responses> {
        let frozen = if mode.adapt {
            self.adapt(input, mode.signal_from_frozen)?
        } else {
            self.respond_frozen(input, cached, mode.signal_from_frozen)?
        };
        let trainable = match self.trainable_mut() {
            Some(module) => Some(module.respond(input.clone(), mode.trainable)?),
            None => None,
        };
        Ok(Responses { frozen, trainable })
    }

    /// Runs the frozen modules, as far as their responses are not cached.
    fn respond_frozen(
        &self,
        input: &Tensor<4>,
        cached: CachedResponses,
        attached: bool,
    ) -> Result<Option<(Tensor<5>, Tensor<2>)>> {
        let Some(packed) = &self.packed else { return Ok(None) };
        if input.is_tracked() {
            let tracked = match packed.tracked.get() {
                Some(tracked) => tracked,
                None => {
                    let modules = FrozenModules::new(&self.modules[..self.frozen_count()])?;
                    packed.tracked.get_or_init(|| modules)
                }
            };
            return tracked.respond(input, cached, attached).map(Some);
        }
        let (outputs, losses) = packed.inner.respond(&input.clone().without_autodiff(), cached, false)?;
        Ok(Some((Tensor::from_inner(outputs), Tensor::from_inner(losses))))
    }

    /// Runs the frozen modules with the statistics of the batch, which their running ones follow; parameters stay.
    fn adapt(&mut self, input: &Tensor<4>, attached: bool) -> Result<Option<(Tensor<5>, Tensor<2>)>> {
        let mode = ModuleMode { frozen: true, attached };
        let (mut outputs, mut losses) = (Vec::new(), Vec::new());
        for module in self.modules.iter_mut().filter(|module| module.frozen) {
            let (output, loss) = module.respond(input.clone(), mode)?;
            outputs.push(output);
            losses.push(loss);
        }
        if outputs.is_empty() {
            return Ok(None);
        }
        self.pack()?;
        Ok(Some((Tensor::stack(outputs, 0), Tensor::stack(losses, 0))))
    }
}

impl Responses {
    /// Structural losses as numbers, `[module][image]`.
    pub fn losses(&self) -> PerModule {
        let frozen = self.frozen.iter().flat_map(|(_, losses)| rows(losses));
        frozen.chain(self.trainable.iter().map(|(_, losses)| numbers(losses))).collect()
    }

    /// The layer's output `[batch, channel, row, column]`: the modules' outputs, summed by weights `[module][image]`.
    pub fn combine(self, weights: &[Vec<f64>], device: &Device) -> Result<Tensor<4>> {
        match (self.frozen, self.trainable) {
            (None, None) => Err(Error::setting("layer", "it has no modules", "add one")),
            (None, Some((output, _))) => Ok(output),
            // All weight is on the trainable module: no weighted sum, and no gradient through the frozen outputs.
            (Some(_), Some((output, _)))
                if weights.last().is_some_and(|trainable| trainable.iter().all(|&w| w == 1.0)) =>
            {
                Ok(output)
            }
            (Some((outputs, _)), trainable) => {
                let weights = weight_tensor(weights, device);
                let trainable = trainable.map(|(output, _)| output);
                Ok(weighted_sum(outputs, trainable, weights, Kernels::Fused)?)
            }
        }
    }

    /// The structural objective of a layer outside a projection phase: the mean loss of its trainable module. The authors'
    /// mask, the module's weight over that of all trainable modules, is 1 with one trainable module, but 0 for images on
    /// which it has no weight: those that another module won under hard selection.
    pub fn trainable_loss(&self, weights: &[Vec<f64>], device: &Device) -> Option<Tensor<1>> {
        let (_, losses) = self.trainable.as_ref()?;
        let mask: Vec<f32> =
            weights.last()?.iter().map(|&weight| f32::from(u8::from(weight > 0.0))).collect();
        if mask.iter().all(|&part| part == 1.0) {
            return Some(losses.clone().mean());
        }
        Some((losses.clone() * tensor(mask, losses.dims(), device)).mean())
    }

    /// The structural objective of a layer in a projection phase: `1/M sum over m of mean over i of w[m, i] L[m, i]`.
    pub fn weighted_loss(&self, weights: &[Vec<f64>], device: &Device) -> Option<Tensor<1>> {
        let modules = weights.len() as f64;
        let frozen = self.frozen.as_ref().map_or(0, |(_, losses)| losses.dims()[0]);
        let mut sum: Option<Tensor<1>> = None;
        let mut add = |term: Tensor<1>| sum = Some(sum.take().map_or(term.clone(), |sum| sum + term));
        if let Some((_, losses)) = &self.frozen
            && weights[..frozen].iter().flatten().any(|&weight| weight > 0.0)
        {
            let [_, images] = losses.dims();
            let weights = weight_tensor(&weights[..frozen], device);
            add((losses.clone() * weights).sum().div_scalar(images as f64 * modules));
        }
        if let (Some((_, losses)), Some(weights)) = (&self.trainable, weights.get(frozen)) {
            let weights = tensor(weights.iter().map(|&w| w as f32).collect(), losses.dims(), device);
            add((losses.clone() * weights).mean().div_scalar(modules));
        }
        sum
    }
}

fn weight_tensor(weights: &[Vec<f64>], device: &Device) -> Tensor<2> {
    let images = weights.first().map_or(0, Vec::len);
    let numbers = weights.iter().flatten().map(|&weight| weight as f32).collect();
    tensor(numbers, [weights.len(), images], device)
}

impl Walk for Layer {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, module) in self.modules.iter_mut().enumerate() {
            module.walk(&join(path, &format!("module{number}")), visitor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::values;

    #[test]
    fn a_trainable_module_learns_from_images_on_which_it_has_weight() {
        let device = Device::flex();
        let losses = tensor(vec![1.0, 2.0, 3.0, 4.0], [4], &device);
        let responses =
            Responses { frozen: None, trainable: Some((Tensor::zeros([4, 1, 1, 1], &device), losses)) };
        let mean = |own: [f64; 4]| {
            let weights = [own.map(|weight| 1.0 - weight).to_vec(), own.to_vec()];
            values(&responses.trainable_loss(&weights, &device).unwrap())
        };
        // Soft weights of whatever size, and the best one only.
        assert_eq!(mean([0.5, 0.1, 1e-9, 1.0]), [2.5]);
        assert_eq!(mean([1.0, 0.0, 1.0, 0.0]), [1.0]);
    }
}
