//! Gated modules in evaluation mode, and their answers.

use burn::tensor::Tensor;
use lmc::functional::{Functional, PADDING};
use lmc::tensors::values;
use lmc::{Error, Result};
use lmc_kernels::{FrozenFunctionals, Kernels, weighted_sum};

use super::controller::Controller;
use crate::method::{Answer, Answers, Hint, largest};
use crate::monolith::nothing_open;
use crate::trunk::Classifier;

/// Modules of a layer in evaluation mode.
pub(super) fn frozen(modules: &[Functional]) -> Result<Option<FrozenFunctionals>> {
    let parts: Vec<_> =
        modules.iter().map(|module| (module.parameters.clone(), module.running.clone())).collect();
    Ok(if parts.is_empty() { None } else { Some(FrozenFunctionals::new(&parts, PADDING)?) })
}

/// Gated modules, for answering.
pub(super) struct Gated {
    /// Modules of each layer, for each controller those that it knows.
    layers: Vec<Vec<FrozenFunctionals>>,
    controllers: Vec<Controller>,
    /// By task.
    pub(super) heads: Vec<Classifier>,
}

impl Gated {
    /// For answering by these controllers and heads.
    pub(super) fn new(
        modules: &[Vec<Functional>],
        controllers: Vec<Controller>,
        heads: Vec<Classifier>,
    ) -> Result<Self> {
        let known = |controller: &Controller| {
            let layers = modules.iter().zip(&controller.gates);
            let layers = layers.map(|(modules, gate)| {
                frozen(&modules[..gate.classes().min(modules.len())])?.ok_or_else(nothing_open)
            });
            layers.collect::<Result<Vec<_>>>()
        };
        let layers = controllers.iter().map(known).collect::<Result<Vec<_>>>()?;
        Ok(Self { layers, controllers, heads })
    }

    /// Features of images, and the weights `[layer]` of modules `[module, image]`.
    pub(super) fn features(
        &self,
        images: &Tensor<4>,
        controller: usize,
    ) -> Result<(Tensor<2>, Vec<Tensor<2>>)> {
        let mut x = images.clone();
        let mut all = Vec::with_capacity(self.layers[controller].len());
        for (layer, modules) in self.layers[controller].iter().enumerate() {
            let weights = self.controllers[controller].weights(layer, &x)?;
            x = weighted_sum(modules.forward(x, Kernels::Fused)?, None, weights.clone(), Kernels::Fused)?;
            all.push(weights);
        }
        Ok((x.flatten(1, 3), all))
    }
}

impl Answers for Gated {
    fn answer(&self, images: &Tensor<4>, hints: &[Hint]) -> Result<Vec<Vec<Answer>>> {
        let answer = |hint: &Hint| {
            let Hint::Task(task) = *hint else {
                return Err(Error::setting("sg_f", "its heads need a task ID", "give the task"));
            };
            let Some(head) = self.heads.get(task) else {
                return Err(Error::setting("task", format!("none has number {task}"), "learn it first"));
            };
            let (features, weights) = self.features(images, task.min(self.controllers.len() - 1))?;
            let count = images.dims()[0];
            let weights: Vec<Vec<f32>> = weights.iter().map(values).collect();
            let weights_of = |image: usize| -> Vec<Vec<f64>> {
                let layer = |weights: &Vec<f32>| {
                    weights.chunks(count.max(1)).map(|module| f64::from(module[image])).collect()
                };
                weights.iter().map(layer).collect()
            };
            let logits = values(&head.logits(features));
            let rows = logits.chunks(head.classes().max(1)).enumerate();
            Ok(rows
                .map(|(image, row)| Answer { task, label: largest(row) as u32, weights: weights_of(image) })
                .collect())
        };
        hints.iter().map(answer).collect()
    }
}
