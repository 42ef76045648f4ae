//! Answers by a path: the one that belongs to the task, or the one whose answers have the lowest entropy.

use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
use lmc::module::FrozenFunctional;
use lmc::tensors::values;
use lmc::{Error, Result};

use crate::method::{Answer, Answers, Hint, largest};
use crate::trunk::Classifier;

/// Paths through modules, for answering.
pub(super) struct Paths {
    /// `[layer][module]`.
    pub(super) layers: Vec<Vec<FrozenFunctional>>,
    /// By task.
    pub(super) heads: Vec<Classifier>,
    /// The module of each layer, by task.
    pub(super) paths: Vec<Vec<usize>>,
}

impl Paths {
    /// Logits of a task's path, `[image][class]`.
    fn logits(&self, images: &Tensor<4>, task: usize) -> Result<Tensor<2>> {
        let Some(path) = self.paths.get(task) else {
            return Err(Error::setting("task", format!("none has number {task}"), "learn it first"));
        };
        let mut x = images.clone();
        for (layer, &module) in self.layers.iter().zip(path) {
            x = layer[module].forward(x)?;
        }
        Ok(self.heads[task].logits(x.flatten(1, 3)))
    }

    fn weights(&self, task: usize) -> Vec<Vec<f64>> {
        let layers = self.layers.iter().zip(&self.paths[task]);
        layers
            .map(|(layer, &chosen)| {
                (0..layer.len()).map(|module| f64::from(u8::from(module == chosen))).collect()
            })
            .collect()
    }
}

impl Answers for Paths {
    fn answer(&self, images: &Tensor<4>, hints: &[Hint]) -> Result<Vec<Vec<Answer>>> {
        let count = images.dims()[0];
        // Labels and entropies, [task][image].
        let mut all: Vec<Option<(Vec<u32>, Vec<f64>)>> = vec![None; self.paths.len()];
        let mut look = |task: usize| -> Result<(Vec<u32>, Vec<f64>)> {
            if let Some(Some(found)) = all.get(task) {
                return Ok(found.clone());
            }
            let logits = self.logits(images, task)?;
            let [_, classes] = logits.dims();
            let rows = values(&softmax(logits, 1));
            let entropy = |row: &[f32]| {
                row.iter().filter(|p| **p > 0.0).map(|&p| -f64::from(p) * f64::from(p).log2()).sum::<f64>()
            };
            let rows = rows.chunks(classes.max(1));
            let found: (Vec<u32>, Vec<f64>) = rows.map(|row| (largest(row) as u32, entropy(row))).unzip();
            all[task] = Some(found.clone());
            Ok(found)
        };
        let mut answered = Vec::with_capacity(hints.len());
        for hint in hints {
            let mut tasks = vec![0; count];
            if let Hint::Task(task) = *hint {
                tasks = vec![task; count];
            } else {
                let found = (0..self.paths.len()).map(&mut look).collect::<Result<Vec<_>>>()?;
                let lowest = |entropy: &dyn Fn(usize) -> f64| {
                    (0..found.len()).min_by(|&a, &b| entropy(a).total_cmp(&entropy(b))).unwrap_or(0)
                };
                if *hint == Hint::SameTask {
                    tasks = vec![lowest(&|task| found[task].1.iter().sum::<f64>()); count];
                } else {
                    tasks = (0..count).map(|image| lowest(&|task| found[task].1[image])).collect();
                }
            }
            let mut answers = Vec::with_capacity(count);
            for (image, task) in tasks.into_iter().enumerate() {
                let (labels, _) = look(task)?;
                answers.push(Answer { task, label: labels[image], weights: self.weights(task) });
            }
            answered.push(answers);
        }
        Ok(answered)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use lmc::tensors::tensor;

    use super::*;

    /// The first head is sure of the first image only, the second a little of both.
    #[test]
    fn the_path_with_the_lowest_entropy_answers() -> Result<()> {
        let device = Device::flex();
        let head = |weight: [f32; 2], bias: [f32; 2]| Classifier {
            weight: tensor(weight.to_vec(), [2, 1], &device),
            bias: tensor(bias.to_vec(), [2], &device),
        };
        let paths = Paths {
            layers: Vec::new(),
            heads: vec![head([-5.0, 5.0], [0.0, 0.0]), head([0.0, 0.0], [1.0, 0.0])],
            paths: vec![Vec::new(); 2],
        };
        let images = tensor(vec![1.0, 0.0], [2, 1, 1, 1], &device);
        let answered = paths.answer(&images, &[Hint::Alone, Hint::SameTask, Hint::Task(1)])?;
        let told = |answers: &[Answer]| -> Vec<(usize, u32)> {
            answers.iter().map(|answer| (answer.task, answer.label)).collect()
        };
        assert_eq!(told(&answered[0]), [(0, 1), (1, 0)]);
        // Bits: nearly 0 and 1 for the first head, twice 0.84 for the second.
        assert_eq!(told(&answered[1]), [(0, 1), (0, 0)]);
        assert_eq!(told(&answered[2]), [(1, 0), (1, 0)]);
        Ok(())
    }
}
