//! Classification by a path: the one that belongs to the task, or the one whose predictions have the lowest entropy.

use burn::tensor::Tensor;
use burn::tensor::activation::softmax;
use lmc::internals::inference::evaluation::{Classification, Classify};
use lmc::internals::module::FrozenFunctional;
use lmc::internals::tensors::{argmax, values};
use lmc::{Protocol, Result};

use crate::method::{given_task, unknown_task};
use crate::trunk::LinearHead;

/// Paths through frozen modules.
pub(super) struct PathClassifier {
    /// Modules, `[layer][module]`.
    pub(super) layers: Vec<Vec<FrozenFunctional>>,
    /// The head of each task.
    pub(super) heads: Vec<LinearHead>,
    /// The module of each layer, by task.
    pub(super) paths: Vec<Vec<usize>>,
}

/// Predictions of one path for a batch.
#[derive(Clone)]
struct PathPredictions {
    /// The most probable label of each image.
    labels: Vec<u32>,
    /// Entropy of each image's probabilities, in bits.
    entropies: Vec<f64>,
}

impl PathClassifier {
    /// Logits `[image, class]` of a task's path.
    fn logits(&self, images: &Tensor<4>, task: usize) -> Result<Tensor<2>> {
        let path = self.paths.get(task).ok_or_else(|| unknown_task(task))?;
        let mut x = images.clone();
        for (layer, &module) in self.layers.iter().zip(path) {
            x = layer[module].forward(x)?;
        }
        Ok(self.heads[task].logits(x.flatten(1, 3)))
    }

    fn predictions(&self, images: &Tensor<4>, task: usize) -> Result<PathPredictions> {
        let logits = self.logits(images, task)?;
        let [_, classes] = logits.dims();
        let entropy = |row: &[f32]| {
            row.iter().filter(|p| **p > 0.0).map(|&p| -f64::from(p) * f64::from(p).log2()).sum::<f64>()
        };
        let probabilities = values(&softmax(logits, 1));
        let rows = probabilities.chunks(classes.max(1));
        let (labels, entropies) = rows.map(|row| (argmax(row) as u32, entropy(row))).unzip();
        Ok(PathPredictions { labels, entropies })
    }

    /// Weights of modules on the path of a task, `[layer][module]`: 1 or 0.
    fn weights(&self, task: usize) -> Vec<Vec<f64>> {
        let layers = self.layers.iter().zip(&self.paths[task]);
        layers
            .map(|(layer, &chosen)| {
                (0..layer.len()).map(|module| f64::from(u8::from(module == chosen))).collect()
            })
            .collect()
    }
}

impl Classify for PathClassifier {
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> Result<Vec<Vec<Classification>>> {
        let count = images.dims()[0];
        // Predictions of paths are computed when a protocol first needs them.
        let mut computed: Vec<Option<PathPredictions>> = vec![None; self.paths.len()];
        let mut predictions = |task: usize| -> Result<PathPredictions> {
            match computed.get_mut(task) {
                Some(Some(known)) => Ok(known.clone()),
                Some(place) => Ok(place.insert(self.predictions(images, task)?).clone()),
                None => Err(unknown_task(task)),
            }
        };
        let mut classified = Vec::with_capacity(protocols.len());
        for &protocol in protocols {
            let tasks: Vec<usize> = if protocol == Protocol::TaskGiven {
                vec![given_task("mntdp", protocol, task)?; count]
            } else {
                let all = (0..self.paths.len()).map(&mut predictions).collect::<Result<Vec<_>>>()?;
                let lowest = |entropy: &dyn Fn(&PathPredictions) -> f64| {
                    let entropies = all.iter().map(entropy).enumerate();
                    entropies.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(task, _)| task)
                };
                match protocol {
                    Protocol::TaskBatch => vec![lowest(&|path| path.entropies.iter().sum()); count],
                    _ => (0..count).map(|image| lowest(&|path| path.entropies[image])).collect(),
                }
            };
            let mut found = Vec::with_capacity(count);
            for (image, task) in tasks.into_iter().enumerate() {
                let label = predictions(task)?.labels[image];
                found.push(Classification { task, label, weights: self.weights(task) });
            }
            classified.push(found);
        }
        Ok(classified)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use lmc::internals::tensors::tensor;

    use super::*;

    /// The first head is sure of the first image only, the second a little of both.
    #[test]
    fn the_path_with_the_lowest_entropy_classifies() -> Result<()> {
        let device = Device::flex();
        let head = |weight: [f32; 2], bias: [f32; 2]| LinearHead {
            weight: tensor(weight.to_vec(), [2, 1], &device),
            bias: tensor(bias.to_vec(), [2], &device),
        };
        let paths = PathClassifier {
            layers: Vec::new(),
            heads: vec![head([-5.0, 5.0], [0.0, 0.0]), head([0.0, 0.0], [1.0, 0.0])],
            paths: vec![Vec::new(); 2],
        };
        let images = tensor(vec![1.0, 0.0], [2, 1, 1, 1], &device);
        let protocols = [Protocol::Single, Protocol::TaskBatch, Protocol::TaskGiven];
        let classified = paths.classify(&images, Some(1), &protocols)?;
        let pairs = |found: &[Classification]| -> Vec<(usize, u32)> {
            found.iter().map(|found| (found.task, found.label)).collect()
        };
        assert_eq!(pairs(&classified[0]), [(0, 1), (1, 0)]);
        // Bits: nearly 0 and 1 for the first head, twice 0.84 for the second.
        assert_eq!(pairs(&classified[1]), [(0, 1), (0, 0)]);
        assert_eq!(pairs(&classified[2]), [(1, 0), (1, 0)]);
        Ok(())
    }
}
