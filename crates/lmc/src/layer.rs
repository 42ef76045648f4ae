//! A layer: modules side by side on one input, and the weighted sum of what they give (paper equation 3).
//!
//! ```text
//! x_next[i] = sum over m of w_m[i] f_m(x[i])
//! ```
//!
//! Learned modules come first, packed for the fused kernels; a module that the current task added, the *free* one, is
//! last.

use burn::tensor::{Device, Tensor};
use lmc_kernels::{Kernels, weighted_sum};

use crate::composition::PerModule;
use crate::error::{Error, Result};
use crate::module::{FrozenModules, LocalModule, ModuleConfig, Training};
use crate::tensors::{Visitor, Walk, join, tensor, values, without_gradients};

/// A layer of modules of one shape.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The shape.
    pub config: ModuleConfig,
    modules: Vec<LocalModule>,
    learned: Option<Learned>,
}

/// The learned modules of a layer.
#[derive(Clone, Debug)]
struct Learned {
    /// For inputs that need a gradient.
    tracked: FrozenModules,
    /// For all others, on the device beneath autodiff.
    plain: FrozenModules,
}

/// How a layer is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Structural losses of learned modules send gradients down.
    pub signal_from_learned: bool,
    /// How the free module is trained.
    pub free: Training,
    /// Batch norms of learned modules follow the data.
    pub adapt: bool,
}

/// What learned modules have computed already for this batch, from a cache, on the device beneath autodiff.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Outputs of the learned modules.
    pub outputs: Option<Tensor<5>>,
    /// Their losses.
    pub losses: Option<Tensor<2>>,
}

/// What the modules of a layer say about a batch.
#[derive(Clone, Debug)]
pub struct Responses {
    /// Outputs `[module, batch, channel, row, column]` and losses `[module, batch]` of learned modules.
    pub learned: Option<(Tensor<5>, Tensor<2>)>,
    /// Output and losses of the free module.
    pub free: Option<(Tensor<4>, Tensor<1>)>,
}

impl Layer {
    /// A layer of these modules, of which the learned ones come first and at most one, the last, is free.
    pub fn new(config: ModuleConfig, modules: Vec<LocalModule>) -> Result<Self> {
        let mut layer = Self { config, modules, learned: None };
        layer.pack()?;
        Ok(layer)
    }

    /// All modules.
    pub fn modules(&self) -> &[LocalModule] {
        &self.modules
    }

    /// How many modules are learned.
    pub fn learned(&self) -> usize {
        self.modules.iter().filter(|module| module.learned).count()
    }

    /// The module that the current task added.
    pub fn free(&self) -> Option<&LocalModule> {
        self.modules.last().filter(|module| !module.learned)
    }

    /// The module that the current task added.
    pub fn free_mut(&mut self) -> Option<&mut LocalModule> {
        self.modules.last_mut().filter(|module| !module.learned)
    }

    /// Adds a free module; there must be none yet.
    pub fn add(&mut self, module: LocalModule) -> Result<()> {
        if self.free().is_some() {
            return Err(Error::setting("layer", "it has a free module already", "learn the task first"));
        }
        self.modules.push(module);
        Ok(())
    }

    /// Freezes all modules.
    pub fn freeze(&mut self) -> Result<()> {
        self.modules.iter_mut().filter(|module| !module.learned).for_each(LocalModule::freeze);
        self.pack()
    }

    fn pack(&mut self) -> Result<()> {
        let learned = &self.modules[..self.learned()];
        self.learned = match learned {
            [] => None,
            learned => {
                let plain: Vec<LocalModule> = learned.iter().map(without_gradients).collect();
                Some(Learned { tracked: FrozenModules::new(learned)?, plain: FrozenModules::new(&plain)? })
            }
        };
        Ok(())
    }

    /// The learned modules, packed, on the device beneath autodiff.
    pub fn packed(&self) -> Option<&FrozenModules> {
        self.learned.as_ref().map(|learned| &learned.plain)
    }

    /// Runs all modules on a batch. Only the free module's batch norms change, unless asked otherwise.
    pub fn train(&mut self, input: &Tensor<4>, mode: Mode, known: Known) -> Result<Responses> {
        let Mode { signal_from_learned, free, adapt } = mode;
        let learned = if adapt {
            self.adapt(input, signal_from_learned)?
        } else {
            self.frozen(input, known, signal_from_learned)?
        };
        let free = match self.free_mut() {
            Some(module) => Some(module.train(input.clone(), free)?),
            None => None,
        };
        Ok(Responses { learned, free })
    }

    /// Runs the learned modules, as far as what they say is not known.
    fn frozen(
        &self,
        input: &Tensor<4>,
        known: Known,
        attached: bool,
    ) -> Result<Option<(Tensor<5>, Tensor<2>)>> {
        let Some(learned) = &self.learned else { return Ok(None) };
        if input.is_tracked() {
            return learned.tracked.respond(input, known, attached).map(Some);
        }
        let (outputs, losses) = learned.plain.respond(&input.clone().without_autodiff(), known, false)?;
        Ok(Some((Tensor::from_inner(outputs), Tensor::from_inner(losses))))
    }

    /// Runs the learned modules with the statistics of the batch, which their running ones follow; parameters stay.
    fn adapt(&mut self, input: &Tensor<4>, attached: bool) -> Result<Option<(Tensor<5>, Tensor<2>)>> {
        let training = Training { held: true, attached };
        let (mut outputs, mut losses) = (Vec::new(), Vec::new());
        for module in self.modules.iter_mut().filter(|module| module.learned) {
            let (output, loss) = module.train(input.clone(), training)?;
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
    /// Losses as plain numbers.
    pub fn losses(&self) -> PerModule {
        let mut losses = Vec::new();
        if let Some((_, learned)) = &self.learned {
            let [_, images] = learned.dims();
            let numbers: Vec<f64> = values(learned).into_iter().map(f64::from).collect();
            losses.extend(numbers.chunks(images.max(1)).map(<[f64]>::to_vec));
        }
        if let Some((_, free)) = &self.free {
            losses.push(values(free).into_iter().map(f64::from).collect());
        }
        losses
    }

    /// The layer's output.
    pub fn combine(self, weights: &[Vec<f64>], device: &Device) -> Result<Tensor<4>> {
        match (self.learned, self.free) {
            (None, None) => Err(Error::setting("layer", "it has no modules", "add one")),
            (None, Some((output, _))) => Ok(output),
            // Nothing of the learned modules is used: nothing is computed, forward or back.
            (Some(_), Some((output, _)))
                if weights.last().is_some_and(|free| free.iter().all(|&w| w == 1.0)) =>
            {
                Ok(output)
            }
            (Some((outputs, _)), free) => {
                let weights = weight_tensor(weights, device);
                Ok(weighted_sum(outputs, free.map(|(output, _)| output), weights, Kernels::Fused)?)
            }
        }
    }

    /// The part of the objective that a layer adds outside a projection phase: the mean loss of its free module. The
    /// authors' mask, its weight over that of all free modules, is 1 with one free module, but 0 for images of which it
    /// has no part: those that it lost where only the best module takes part.
    pub fn free_loss(&self, weights: &[Vec<f64>], device: &Device) -> Option<Tensor<1>> {
        let (_, losses) = self.free.as_ref()?;
        let mask: Vec<f32> =
            weights.last()?.iter().map(|&weight| f32::from(u8::from(weight > 0.0))).collect();
        if mask.iter().all(|&part| part == 1.0) {
            return Some(losses.clone().mean());
        }
        Some((losses.clone() * tensor(mask, losses.dims(), device)).mean())
    }

    /// The part of the objective that a layer adds in a projection phase: `1/M sum over m of mean over i of w L`.
    pub fn weighted_loss(&self, weights: &[Vec<f64>], device: &Device) -> Option<Tensor<1>> {
        let modules = weights.len() as f64;
        let learned = self.learned.as_ref().map_or(0, |(_, losses)| losses.dims()[0]);
        let mut sum: Option<Tensor<1>> = None;
        let mut add = |term: Tensor<1>| sum = Some(sum.take().map_or(term.clone(), |sum| sum + term));
        if let Some((_, losses)) = &self.learned
            && weights[..learned].iter().flatten().any(|&weight| weight > 0.0)
        {
            let [_, images] = losses.dims();
            let weights = weight_tensor(&weights[..learned], device);
            add((losses.clone() * weights).sum().div_scalar(images as f64 * modules));
        }
        if let (Some((_, losses)), Some(weights)) = (&self.free, weights.get(learned)) {
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
    fn a_free_module_learns_from_images_of_which_it_has_a_part() {
        let device = Device::flex();
        let losses = tensor(vec![1.0, 2.0, 3.0, 4.0], [4], &device);
        let responses =
            Responses { learned: None, free: Some((Tensor::zeros([4, 1, 1, 1], &device), losses)) };
        let mean = |free: [f64; 4]| {
            let weights = [free.map(|weight| 1.0 - weight).to_vec(), free.to_vec()];
            values(&responses.free_loss(&weights, &device).unwrap())
        };
        // Soft weights of whatever size, and the best one only.
        assert_eq!(mean([0.5, 0.1, 1e-9, 1.0]), [2.5]);
        assert_eq!(mean([1.0, 0.0, 1.0, 0.0]), [1.0]);
    }
}
