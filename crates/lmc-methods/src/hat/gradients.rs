//! Gradients of HAT: masked where earlier tasks use the weight, compensated where the sigmoid is flat.

use burn::tensor::{Gradients, Tensor};
use lmc::internals::tensors::{Role, Visitor, values};

use super::HatConfig;

/// Largest absolute value of an embedding.
const BOUND: f32 = 6.0;
/// Largest absolute value of an exponent in the compensation.
const EXPONENT: f32 = 50.0;

/// Brings gradients into the form in which they are applied: weights with their decay, embeddings without any.
///
/// Paper: nothing about weight decay. Released: it also moves the weights that masks protect, batch norms and embeddings of
/// earlier tasks, by a few per cent a task. Here it is masked like the gradient, so that what is protected stays.
pub(super) struct Collect<'a> {
    /// How much earlier tasks use each channel, `[layer][channel]`, from 0 to 1.
    pub(super) used: &'a [Vec<f32>],
    /// Gradients of the objective.
    pub(super) gradients: &'a mut Gradients,
    /// The settings.
    pub(super) config: &'a HatConfig,
    /// Scale `s` of this step.
    pub(super) scale: f64,
    /// Gradients in the order of the walk; empty where a tensor has none.
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
                // The channels of the images are used by all tasks.
                let before = if D == 4 && layer > 0 { self.used[layer - 1][input] } else { 1.0 };
                *gradient *= 1.0 - self.used[layer][output].min(before);
            }
        }
        self.parts.push(gradient);
    }
}

/// Subtracts gradients times the learning rate; embeddings stay within bounds.
pub(super) struct Apply<I> {
    /// Gradients that [`Collect`] made, in the order of the walk.
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
        *tensor = lmc::internals::tensors::tensor(now, tensor.dims(), &tensor.device()).require_grad();
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use lmc::internals::tensors::tensor;

    use super::*;

    /// What [`Collect`] makes of gradients that are all 3, for a tensor of this name with the values `now`.
    fn collected<const D: usize>(
        name: &str,
        now: Vec<f32>,
        shape: [usize; D],
        used: &[Vec<f32>],
    ) -> Vec<f32> {
        let mut config = HatConfig::default();
        config.training.weight_decay = 0.5;
        let mut now = tensor(now, shape, &Device::flex().autodiff()).require_grad();
        let mut gradients = (now.clone() * 3.0).sum().backward();
        let mut parts = Vec::new();
        let mut collect =
            Collect { used, gradients: &mut gradients, config: &config, scale: 2.0, parts: &mut parts };
        collect.visit(name, Role::Functional, &mut now);
        parts.remove(0)
    }

    fn near(found: &[f32], wanted: &[f32]) -> bool {
        found.len() == wanted.len()
            && found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-3 * b.abs().max(1.0))
    }

    #[test]
    fn embeddings_are_compensated_by_hand() {
        // 100 / 2 (cosh 2e + 1) / (cosh e + 1): 50 for e = 0, 93.63 for e = 1.
        let found = collected("task1.embedding0", vec![0.0, 1.0], [2], &[]);
        assert!(near(&found, &[150.0, 280.89]), "{found:?}");
    }

    #[test]
    fn weights_are_masked_with_their_decay_by_hand() {
        // Two outputs, two inputs: a weight is protected as far as both its ends are used.
        let used = [vec![1.0, 0.25], vec![1.0, 0.5]];
        let found = collected("layer1.conv.weight", vec![2.0; 4], [2, 2, 1, 1], &used);
        assert!(near(&found, &[0.0, 4.0 * 0.75, 4.0 * 0.5, 4.0 * 0.75]), "{found:?}");
        // Images are used by all, and a bias by its output.
        let found = collected("layer0.conv.weight", vec![2.0; 2], [2, 1, 1, 1], &used);
        assert!(near(&found, &[0.0, 4.0 * 0.75]), "{found:?}");
        let found = collected("layer1.conv.bias", vec![2.0; 2], [2], &used);
        assert!(near(&found, &[0.0, 4.0 * 0.5]), "{found:?}");
    }

    #[test]
    fn embeddings_stay_within_bounds() {
        let device = Device::flex().autodiff();
        let mut apply = Apply { parts: vec![vec![-10.0, 10.0, 1.0]; 2].into_iter(), rate: 1.0 };
        for (name, wanted) in [("embedding0", [6.0, -6.0, 0.0]), ("head.bias", [11.0, -9.0, 0.0])] {
            let mut now = tensor(vec![1.0, 1.0, 1.0], [3], &device);
            apply.visit(name, Role::Functional, &mut now);
            assert_eq!(values(&now), wanted, "{name}");
        }
    }
}
