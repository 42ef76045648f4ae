//! The network of HAT: layers that all tasks share, and embeddings, batch norms and a head for each task.

use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use lmc::internals::module::functional::Functional;
use lmc::internals::tensors::{Role, Visitor, Walk, join};

use crate::trunk::LinearHead;

/// Layers that all tasks share, and the parts of each task.
#[derive(Clone, Debug)]
pub(super) struct MaskedNetwork {
    /// Convolutions are shared; so are batch norms, unless every task has its own.
    pub(super) layers: Vec<Functional>,
    /// Parts of each task.
    pub(super) tasks: Vec<TaskParts>,
}

/// Parts that belong to one task.
#[derive(Clone, Debug)]
pub(super) struct TaskParts {
    /// Embedding of each layer, `[channel]`; masks are made of it.
    pub(super) embeddings: Vec<Tensor<1>>,
    /// Batch norms of the task's own; the convolutions in here are not used.
    pub(super) norms: Option<Vec<Functional>>,
    /// The head.
    pub(super) head: LinearHead,
}

impl Walk for MaskedNetwork {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, layer) in self.layers.iter_mut().enumerate() {
            layer.walk(&join(path, &format!("layer{number}")), visitor);
        }
        for (number, task) in self.tasks.iter_mut().enumerate() {
            task.walk(&join(path, &format!("task{number}")), visitor);
        }
    }
}

impl Walk for TaskParts {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, embedding) in self.embeddings.iter_mut().enumerate() {
            visitor.visit(&join(path, &format!("embedding{number}")), Role::Functional, embedding);
        }
        for (number, norm) in self.norms.iter_mut().flatten().enumerate() {
            let path = join(path, &format!("norm{number}"));
            visitor.visit(&join(&path, "weight"), Role::Functional, &mut norm.parameters.gamma);
            visitor.visit(&join(&path, "bias"), Role::Functional, &mut norm.parameters.beta);
            visitor.visit(&join(&path, "running_mean"), Role::Buffer, &mut norm.running.mean);
            visitor.visit(&join(&path, "running_var"), Role::Buffer, &mut norm.running.variance);
        }
        self.head.walk(&join(path, "head"), visitor);
    }
}

impl MaskedNetwork {
    /// A layer with the batch norm of a task.
    pub(super) fn layer(&self, task: usize, layer: usize) -> Functional {
        let mut functional = self.layers[layer].clone();
        if let Some(norms) = &self.tasks[task].norms {
            functional.parameters.gamma = norms[layer].parameters.gamma.clone();
            functional.parameters.beta = norms[layer].parameters.beta.clone();
            functional.running = norms[layer].running.clone();
        }
        functional
    }

    /// Masks of a task, `[channel]` for each layer, at a scale `s`.
    pub(super) fn masks(&self, task: usize, scale: f64) -> Vec<Tensor<1>> {
        self.tasks[task].embeddings.iter().map(|e| sigmoid(e.clone().mul_scalar(scale as f32))).collect()
    }
}
