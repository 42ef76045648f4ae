//! Gated modules in evaluation mode, and classification by them.

use burn::tensor::Tensor;
use lmc::internals::inference::evaluation::{Classification, Classify};
use lmc::internals::module::functional::{Functional, PADDING};
use lmc::internals::tensors::rows;
use lmc::{Protocol, Result};
use lmc_kernels::{FrozenFunctionals, Kernels, weighted_sum};

use super::controller::Controller;
use crate::method::{given_task, no_open_task, unknown_task};
use crate::trunk::LinearHead;

/// Modules of a layer in evaluation mode; `None` of none.
pub(super) fn frozen(modules: &[Functional]) -> Result<Option<FrozenFunctionals>> {
    let parts: Vec<_> =
        modules.iter().map(|module| (module.parameters.clone(), module.running.clone())).collect();
    Ok(if parts.is_empty() { None } else { Some(FrozenFunctionals::new(&parts, PADDING)?) })
}

/// Modules gated by controllers, in evaluation mode.
pub(super) struct GatedClassifier {
    /// Modules that each controller gates, `[controller][layer]`.
    layers: Vec<Vec<FrozenFunctionals>>,
    controllers: Vec<Controller>,
    /// The head of each task.
    pub(super) heads: Vec<LinearHead>,
}

impl GatedClassifier {
    /// Puts modules `[layer][module]`, controllers and heads together; a controller gates the first modules of a layer.
    pub(super) fn new(
        modules: &[Vec<Functional>],
        controllers: Vec<Controller>,
        heads: Vec<LinearHead>,
    ) -> Result<Self> {
        let gated = |controller: &Controller| {
            let layers = modules.iter().zip(&controller.gates);
            let layers = layers.map(|(modules, gate)| {
                frozen(&modules[..gate.classes().min(modules.len())])?.ok_or_else(no_open_task)
            });
            layers.collect::<Result<Vec<_>>>()
        };
        let layers = controllers.iter().map(gated).collect::<Result<Vec<_>>>()?;
        Ok(Self { layers, controllers, heads })
    }

    /// Features `[image, feature]`, and weights `[module, image]` of the modules of each layer.
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

impl Classify for GatedClassifier {
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> Result<Vec<Vec<Classification>>> {
        let classify = |&protocol: &Protocol| {
            let task = given_task("sg_f", protocol, task)?;
            let head = self.heads.get(task).ok_or_else(|| unknown_task(task))?;
            let (features, weights) = self.features(images, task.min(self.controllers.len() - 1))?;
            let weights: Vec<Vec<Vec<f64>>> = weights.iter().map(rows).collect(); // [layer][module][image]
            let weights_of = |image: usize| -> Vec<Vec<f64>> {
                weights.iter().map(|layer| layer.iter().map(|module| module[image]).collect()).collect()
            };
            let mut found = head.classify(features, task);
            found.iter_mut().enumerate().for_each(|(image, found)| found.weights = weights_of(image));
            Ok(found)
        };
        protocols.iter().map(classify).collect()
    }
}
