//! Masked paths through one network, and their answers.

use burn::tensor::Tensor;
use lmc::module::FrozenFunctional;
use lmc::tensors::{tensor, values};
use lmc::{Error, Result};

use crate::method::{Answer, Answers, Hint, largest};
use crate::trunk::Classifier;

/// A map with its channels weighed.
///
/// Weights below 1e-15 count as nothing, though embeddings get their gradients. Products of two of them would leave the range
/// of normal numbers, with which processors compute many times faster than with those below it.
pub(super) fn masked(x: Tensor<4>, mask: &Tensor<1>) -> Tensor<4> {
    const NOTHING: f32 = 1e-15;
    let tiny: Vec<f32> =
        values(mask).iter().map(|&weight| if weight < NOTHING { -weight } else { 0.0 }).collect();
    let channels = tiny.len();
    let mask = mask.clone() + tensor(tiny, [channels], &x.device());
    x * mask.reshape([1, -1, 1, 1])
}

/// Masked paths through one network, for answering.
pub(super) struct Masked {
    /// Layers and masks of each task.
    pub(super) paths: Vec<(Vec<FrozenFunctional>, Vec<Tensor<1>>)>,
    /// By task.
    pub(super) heads: Vec<Classifier>,
}

impl Masked {
    /// `[image, class]` of a task.
    pub(super) fn logits(&self, images: &Tensor<4>, task: usize) -> Result<Tensor<2>> {
        let Some((layers, masks)) = self.paths.get(task) else {
            return Err(Error::setting("task", format!("none has number {task}"), "learn it first"));
        };
        let mut x = images.clone();
        for (layer, mask) in layers.iter().zip(masks) {
            x = masked(layer.forward(x)?, mask);
        }
        Ok(self.heads[task].logits(x.flatten(1, 3)))
    }
}

impl Answers for Masked {
    fn answer(&self, images: &Tensor<4>, hints: &[Hint]) -> Result<Vec<Vec<Answer>>> {
        let answer = |hint: &Hint| {
            let task = hint.told("hat")?;
            let logits = self.logits(images, task)?;
            let [_, classes] = logits.dims();
            let rows = values(&logits);
            let told = rows.chunks(classes.max(1));
            Ok(told.map(|row| Answer { task, label: largest(row) as u32, weights: Vec::new() }).collect())
        };
        hints.iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn tiny_weights_are_nothing_but_get_gradients() {
        let device = Device::flex().autodiff();
        let mask = tensor(vec![0.5, 1e-30], [2], &device).require_grad();
        let x = tensor(vec![2.0, 3.0], [1, 2, 1, 1], &device).require_grad();
        let out = masked(x.clone(), &mask);
        assert_eq!(values(&out), [1.0, 0.0]);
        let gradients = out.sum().backward();
        assert_eq!(mask.grad(&gradients).map(|gradient| values(&gradient)), Some(vec![2.0, 3.0]));
        assert_eq!(x.grad(&gradients).map(|gradient| values(&gradient)), Some(vec![0.5, 0.0]));
    }
}
