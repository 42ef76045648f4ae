//! Gradients of HAT: masked where old tasks need the weight, compensated where the sigmoid is flat.

use burn::tensor::{Gradients, Tensor};
use lmc::tensors::{Role, Visitor, values};

use super::HatConfig;

/// Embeddings stay within these bounds.
const BOUND: f32 = 6.0;
/// Exponents in the compensation stay within these.
const EXPONENT: f32 = 50.0;

/// Brings gradients into the form in which they are applied, each with its weight decay.
///
/// Paper: nothing about weight decay. Released: it also moves the weights that masks protect, batch norms and embeddings of
/// old tasks, by a few per cent a task. Here it is masked like the gradient, so that what is protected stays.
pub(super) struct Collect<'a> {
    /// How much old tasks use each channel, `[layer][channel]`.
    pub(super) used: &'a [Vec<f32>],
    /// Of the objective.
    pub(super) gradients: &'a mut Gradients,
    /// The settings.
    pub(super) config: &'a HatConfig,
    /// `s` of this step.
    pub(super) scale: f64,
    /// In the order of the walk; empty where there is none.
    pub(super) parts: &'a mut Vec<Vec<f32>>,
}

impl Visitor for Collect<'_> {
    fn visit<const D: usize>(&mut self, name: &str, role: Role, tensor: &mut Tensor<D>) {
        let gradient = match role {
            Role::Buffer => None,
            _ => tensor.grad_remove(self.gradients),
        };
        let Some(gradient) = gradient else {
            self.parts.push(Vec::new());
            return;
        };
        let mut gradient = values(&gradient);
        let now = values(tensor);
        let decay = self.config.training.weight_decay as f32;
        let last = name.rsplit('.').next().unwrap_or(name);
        if last.starts_with("embedding") {
            // The annealed sigmoid is flat almost everywhere: as if s had been 1 throughout.
            let (scale, largest) = (self.scale as f32, self.config.largest_scale as f32);
            for (gradient, e) in gradient.iter_mut().zip(&now) {
                let annealed = (scale * e).clamp(-EXPONENT, EXPONENT).cosh() + 1.0;
                *gradient *= largest / scale * annealed / (e.cosh() + 1.0);
            }
        } else {
            gradient.iter_mut().zip(&now).for_each(|(gradient, now)| *gradient += decay * now);
        }
        if let Some(layer) =
            name.strip_prefix("layer").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok())
        {
            let dims = tensor.dims();
            let inputs = if D == 4 { dims[1] } else { 1 };
            let each = gradient.len() / (dims[0] * inputs).max(1);
            for (at, gradient) in gradient.iter_mut().enumerate() {
                let (output, input) = (at / (each * inputs), at / each % inputs);
                // The images themselves are used by all.
                let before = if D == 4 && layer > 0 { self.used[layer - 1][input] } else { 1.0 };
                *gradient *= 1.0 - self.used[layer][output].min(before);
            }
        }
        self.parts.push(gradient);
    }
}

/// Subtracts gradients; embeddings stay within bounds.
pub(super) struct Apply<I> {
    /// What [`Collect`] made, in the order of the walk.
    pub(super) parts: I,
    /// The learning rate.
    pub(super) rate: f32,
}

impl<I: Iterator<Item = Vec<f32>>> Visitor for Apply<I> {
    fn visit<const D: usize>(&mut self, name: &str, _: Role, tensor: &mut Tensor<D>) {
        let Some(gradient) = self.parts.next().filter(|gradient| !gradient.is_empty()) else { return };
        let mut now = values(tensor);
        let is_embedding = name.rsplit('.').next().is_some_and(|last| last.starts_with("embedding"));
        for (now, gradient) in now.iter_mut().zip(gradient) {
            *now -= self.rate * gradient;
            if is_embedding {
                *now = now.clamp(-BOUND, BOUND);
            }
        }
        *tensor = lmc::tensors::tensor(now, tensor.dims(), &tensor.device()).require_grad();
    }
}
