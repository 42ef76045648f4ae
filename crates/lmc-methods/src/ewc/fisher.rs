//! Fisher information: how much the answers of a network hang on each of its weights.

use burn::tensor::Tensor;
use burn::tensor::activation::{log_softmax, relu, softmax};
use burn::tensor::module::{conv2d, max_pool2d};
use burn::tensor::ops::{ConvOptions, MaxPoolOptions};
use lmc::Result;
use lmc::tensors::{Role, Visitor, Walk, plain, train, values};
use lmc_streams::TaskSet;

use crate::monolith::Monolith;
use crate::training::fill_from;
use crate::trunk::Trunk;

/// The diagonal of the Fisher information of the trunk: for each image the squared gradients of the log-probability of
/// every class, weighted by the probability; over this many training images of the newest task, evenly spread.
pub fn fisher(network: &Monolith, train_set: &TaskSet, images: usize) -> Result<Trunk> {
    let normalisation = network.training.normalisation(train_set);
    let set = train_set.thinned(images.max(1));
    let mut config = network.training.stored(normalisation.as_ref());
    config.size = 1;
    let mut trunk = network.trunk.clone();
    train(&mut trunk);
    let head = network.head()?;
    let mut sums: Vec<Vec<f64>> = plain(&trunk).iter().map(|plain| vec![0.0; plain.values.len()]).collect();
    for batch in config.init(&set)? {
        let input = network.images(&batch);
        let probabilities = values(&softmax(head.logits(evaluated(&trunk, input.clone())).detach(), 1));
        for (class, &probability) in probabilities.iter().enumerate() {
            // A graph can be walked back once.
            let logarithms = log_softmax(head.logits(evaluated(&trunk, input.clone())), 1); // [1, class]
            let mut gradients = logarithms.slice([0..1, class..class + 1]).reshape([1]).backward();
            trunk.walk("", &mut Squares { gradients: &mut gradients, sums: &mut sums, probability, at: 0 });
        }
    }
    let count = set.len().max(1) as f64;
    let mut fisher = plain(&trunk);
    for (plain, sums) in fisher.iter_mut().zip(sums) {
        plain.values = sums.into_iter().map(|sum| (sum / count) as f32).collect();
    }
    let mut filled = network.trunk.clone();
    fill_from(&mut filled, fisher)?;
    Ok(filled)
}

/// Adds squared gradients.
struct Squares<'a> {
    gradients: &'a mut burn::tensor::Gradients,
    sums: &'a mut [Vec<f64>],
    probability: f32,
    at: usize,
}

impl Visitor for Squares<'_> {
    fn visit<const D: usize>(&mut self, _: &str, role: Role, tensor: &mut Tensor<D>) {
        let at = self.at;
        self.at += 1;
        if role == Role::Buffer {
            return;
        }
        let Some(gradient) = tensor.grad_remove(self.gradients) else { return };
        let probability = f64::from(self.probability);
        for (sum, value) in self.sums[at].iter_mut().zip(values(&gradient)) {
            *sum += probability * f64::from(value) * f64::from(value);
        }
    }
}

/// The features of images in evaluation mode, with gradients for the trunk's parameters.
fn evaluated(trunk: &Trunk, images: Tensor<4>) -> Tensor<2> {
    let mut x = images;
    for functional in &trunk.0 {
        let parameters = &functional.parameters;
        let options = ConvOptions::new([1, 1], [2, 2], [1, 1], 1);
        let convolved = conv2d(x, parameters.weight.clone(), Some(parameters.bias.clone()), options);
        let along = |vector: Tensor<1>| vector.reshape([1, -1, 1, 1]);
        let deviation = (functional.running.variance.clone() + 1e-5).sqrt();
        let scale = along(parameters.gamma.clone() / deviation);
        let centred = convolved - along(functional.running.mean.clone());
        x = max_pool2d(relu(centred * scale + along(parameters.beta.clone())), MaxPoolOptions::new([2, 2]));
    }
    x.flatten(1, 3)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Distribution};
    use lmc::network::NetworkConfig;
    use lmc_streams::Seed;

    use super::*;

    /// Gradients need a second way through the trunk; it must be the same way.
    #[test]
    fn the_trunk_with_gradients_is_the_trunk_that_answers() -> Result<()> {
        let network = NetworkConfig { width: 4, depth: 2, ..NetworkConfig::default() };
        let mut trunk = Trunk::new(&network, &Seed::root(1), &Device::flex().autodiff());
        let random = |shape: [usize; 4]| Tensor::<4>::random(shape, Distribution::Default, &Device::flex());
        for _ in 0..3 {
            trunk.train(Tensor::from_inner(random([8, 3, 32, 32])))?;
        }
        let images = random([4, 3, 32, 32]);
        let wanted = values(&trunk.frozen()?.features(images.clone())?);
        let found = values(&evaluated(&trunk, Tensor::from_inner(images)));
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!((found - wanted).abs() < 1e-4, "{found} instead of {wanted}");
        }
        Ok(())
    }
}
