//! Masked paths through one network, and classification by them.

use burn::tensor::Tensor;
use lmc::internals::inference::evaluation::{Classification, Classify};
use lmc::internals::module::FrozenFunctional;
use lmc::internals::tensors::{tensor, values};
use lmc::{Protocol, Result};

use crate::method::{given_task, unknown_task};
use crate::trunk::{LinearHead, labels};

/// Multiplies each channel of a map `[image, channel, row, column]` by its mask.
///
/// A mask below 1e-15 counts as 0, though embeddings get its gradient. Products of two of them would leave the range of
/// normal numbers, with which processors compute many times faster than with those below it.
pub(super) fn masked(x: Tensor<4>, mask: &Tensor<1>) -> Tensor<4> {
    const ZERO_BELOW: f32 = 1e-15;
    let tiny: Vec<f32> =
        values(mask).iter().map(|&mask| if mask < ZERO_BELOW { -mask } else { 0.0 }).collect();
    let channels = tiny.len();
    let mask = mask.clone() + tensor(tiny, [channels], &x.device());
    x * mask.reshape([1, -1, 1, 1])
}

/// Masked paths through one network, in evaluation mode.
pub(super) struct MaskedClassifier {
    /// Layers and masks of each task.
    pub(super) paths: Vec<(Vec<FrozenFunctional>, Vec<Tensor<1>>)>,
    /// The head of each task.
    pub(super) heads: Vec<LinearHead>,
}

impl MaskedClassifier {
    /// Logits `[image, class]` under the masks and the head of a task.
    pub(super) fn logits(&self, images: &Tensor<4>, task: usize) -> Result<Tensor<2>> {
        let (layers, masks) = self.paths.get(task).ok_or_else(|| unknown_task(task))?;
        let mut x = images.clone();
        for (layer, mask) in layers.iter().zip(masks) {
            x = masked(layer.forward(x)?, mask);
        }
        Ok(self.heads[task].logits(x.flatten(1, 3)))
    }
}

impl Classify for MaskedClassifier {
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> Result<Vec<Vec<Classification>>> {
        let classify = |&protocol: &Protocol| {
            let task = given_task("hat", protocol, task)?;
            let labels = labels(&self.logits(images, task)?).into_iter();
            Ok(labels.map(|label| Classification { task, label, weights: Vec::new() }).collect())
        };
        protocols.iter().map(classify).collect()
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn tiny_masks_are_zero_but_get_gradients() {
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
