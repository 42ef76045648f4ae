//! What HAT learns: layers that all tasks share, and each task's embeddings, batch norms and head.

use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use lmc::functional::Functional;
use lmc::tensors::{Role, Visitor, Walk, join};

use crate::trunk::Classifier;

/// A network that tasks share, and what is theirs.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// Weights are shared; so are the batch norms, unless every task has its own.
    pub(super) layers: Vec<Functional>,
    /// By number.
    pub(super) tasks: Vec<OfTask>,
}

/// What belongs to one task.
#[derive(Clone, Debug)]
pub(super) struct OfTask {
    /// `[channel]` of each layer.
    pub(super) embeddings: Vec<Tensor<1>>,
    /// Batch norms of its own; convolutions in here are not used.
    pub(super) norms: Option<Vec<Functional>>,
    /// What tells its classes apart.
    pub(super) head: Classifier,
}

impl Walk for Model {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, layer) in self.layers.iter_mut().enumerate() {
            layer.walk(&join(path, &format!("layer{number}")), visitor);
        }
        for (number, task) in self.tasks.iter_mut().enumerate() {
            task.walk(&join(path, &format!("task{number}")), visitor);
        }
    }
}

impl Walk for OfTask {
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

impl Model {
    /// A layer as a task sees it.
    pub(super) fn layer(&self, task: usize, layer: usize) -> Functional {
        let mut functional = self.layers[layer].clone();
        if let Some(norms) = &self.tasks[task].norms {
            functional.parameters.gamma = norms[layer].parameters.gamma.clone();
            functional.parameters.beta = norms[layer].parameters.beta.clone();
            functional.running = norms[layer].running.clone();
        }
        functional
    }

    /// Masks of a task at a scale.
    pub(super) fn masks(&self, task: usize, scale: f64) -> Vec<Tensor<1>> {
        self.tasks[task].embeddings.iter().map(|e| sigmoid(e.clone().mul_scalar(scale as f32))).collect()
    }
}
