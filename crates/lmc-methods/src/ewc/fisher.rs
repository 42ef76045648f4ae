//! Fisher information: how strongly the predictions of a network depend on each of its weights.
//!
//! Its diagonal is, for each image, the squared gradients of the log-probability of every class, weighted by the
//! probability. Squares need the gradients of every image and class by themselves, which a batch would sum. For one image,
//! though, the backward passes of all classes go through the same open ReLUs and the same winners of max-pools: they are
//! one backward pass of a batch of classes, and the gradients of a convolution's weights are one product with the patches
//! of its input.

use burn::tensor::activation::softmax;
use burn::tensor::module::{conv2d, unfold4d};
use burn::tensor::ops::{ConvOptions, UnfoldOptions};
use burn::tensor::{Device, Tensor};
use lmc::internals::module::functional::{Functional, PADDING};
use lmc::internals::tensors::{NamedTensor, images, plain, tensor, values, without_gradients};
use lmc::{Result, TaskData};

use crate::checkpoint::fill_from;
use crate::headed_network::HeadedNetwork;
use crate::trunk::{LinearHead, Trunk};

/// The Fisher information of the trunk, over this many training images of the newest task, evenly spread.
pub fn fisher(network: &HeadedNetwork, data: TaskData<'_>, of_images: usize) -> Result<Trunk> {
    let normalisation = network.training.normalisation(data.train);
    let set = data.train.thinned(of_images.max(1));
    let mut config = network.training.stored(normalisation.as_ref());
    config.size = 1;
    let device = network.device.clone().inner();
    let trunk = without_gradients(&network.trunk);
    let head = without_gradients(network.newest_head()?);
    let mut layers: Vec<FisherLayer> = trunk.0.iter().map(FisherLayer::new).collect();
    for batch in config.init(&set)? {
        data.check_stop()?;
        add_squares(&mut layers, &head, images(&batch, &device));
    }
    let count = set.len().max(1) as f64;
    let sums = layers.into_iter().flat_map(|layer| layer.sums);
    let mean = |(tensor, sums): (NamedTensor, Vec<f64>)| NamedTensor {
        values: sums.into_iter().map(|sum| (sum / count) as f32).collect(),
        ..tensor
    };
    let mut fisher = network.trunk.clone();
    fill_from(&mut fisher, plain(&trunk).into_iter().zip(sums).map(mean).collect())?;
    Ok(fisher)
}

/// Adds the weighted squares of one image's gradients.
fn add_squares(layers: &mut [FisherLayer], head: &LinearHead, image: Tensor<4>) {
    let device = image.device();
    let mut x = image;
    let mut passed = Vec::with_capacity(layers.len());
    for layer in &*layers {
        let (out, pass) = layer.forward(x);
        passed.push(pass);
        x = out;
    }
    let [_, channels, height, width] = x.dims();
    let probabilities = values(&softmax(head.logits(x.flatten(1, 3)), 1));
    let classes = probabilities.len();
    // Row c: the gradient of log p(c) by the logits, times the root of p(c), so that squares are weighted.
    let rows = (0..classes * classes).map(|at| {
        let (row, column) = (at / classes, at % classes);
        probabilities[row].sqrt() * (f32::from(u8::from(row == column)) - probabilities[column])
    });
    let rows = tensor(rows.collect(), [classes, classes], &device);
    let mut gradient = rows.matmul(head.weight.clone()).reshape([classes, channels, height, width]);
    for (number, (layer, pass)) in layers.iter_mut().zip(passed).enumerate().rev() {
        let before = layer.backward(&pass, &gradient, number > 0, &device);
        match before {
            Some(before) => gradient = before,
            None => return,
        }
    }
}

/// A layer in evaluation mode, with sums of squared gradients.
struct FisherLayer {
    weight: Tensor<4>,
    bias: Tensor<1>,
    /// The weights as they act in the backward pass, `[input, output, row, column]`.
    turned: Tensor<4>,
    mean: Vec<f32>,
    /// One over the deviation of each channel.
    inverse: Vec<f32>,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    /// Sums of squares, for each tensor in the order of a functional component's walk.
    sums: [Vec<f64>; 6],
}

/// The forward pass of one image through a layer, as far as the backward pass needs it.
struct Pass {
    /// Patches of the input, `[place, input x row x column]`.
    patches: Tensor<2>,
    /// The convolution's outputs, normalised, `[output][place]`.
    normalised: Vec<f32>,
    /// The place in its map from which each output of the max-pool comes, if its ReLU is open.
    winners: Vec<Option<usize>>,
    /// Side of the convolution's map.
    side: usize,
}

impl FisherLayer {
    fn new(functional: &Functional) -> Self {
        let (parameters, running) = (&functional.parameters, &functional.running);
        let weight = parameters.weight.clone();
        let [outputs, inputs, height, width] = weight.dims();
        let empty = |length: usize| vec![0.0; length];
        Self {
            turned: weight.clone().flip([2, 3]).swap_dims(0, 1),
            bias: parameters.bias.clone(),
            mean: values(&running.mean),
            inverse: values(&running.variance)
                .iter()
                .map(|variance| 1.0 / (variance + 1e-5).sqrt())
                .collect(),
            gamma: values(&parameters.gamma),
            beta: values(&parameters.beta),
            sums: [outputs * inputs * height * width, outputs, outputs, outputs, outputs, outputs].map(empty),
            weight,
        }
    }

    /// Output for one image, and what the backward pass needs.
    fn forward(&self, input: Tensor<4>) -> (Tensor<4>, Pass) {
        let [outputs, _, kernel, _] = self.weight.dims();
        let unfold = UnfoldOptions::new([1, 1], [PADDING, PADDING], [1, 1]);
        let patches = unfold4d(input.clone(), [kernel, kernel], unfold).squeeze_dim::<2>(0).transpose();
        let options = ConvOptions::new([1, 1], [PADDING, PADDING], [1, 1], 1);
        let convolved = conv2d(input, self.weight.clone(), Some(self.bias.clone()), options);
        let [_, _, side, _] = convolved.dims();
        let mut normalised = values(&convolved);
        let half = side / 2;
        let (mut out, mut winners) = (Vec::new(), Vec::new());
        for (channel, map) in normalised.chunks_mut(side * side).enumerate() {
            map.iter_mut().for_each(|value| *value = (*value - self.mean[channel]) * self.inverse[channel]);
            for at in 0..half * half {
                let corner = at / half * 2 * side + at % half * 2;
                let scaled = |place: usize| map[place] * self.gamma[channel] + self.beta[channel];
                let mut best = corner;
                for place in [corner + 1, corner + side, corner + side + 1] {
                    if scaled(place) > scaled(best) {
                        best = place;
                    }
                }
                out.push(scaled(best).max(0.0));
                winners.push((scaled(best) > 0.0).then_some(best));
            }
        }
        let out = tensor(out, [1, outputs, half, half], &convolved.device());
        (out, Pass { patches, normalised, winners, side })
    }

    /// Adds squares for gradients `[class, output, row, column]` of the output, and gives the gradients of the input if
    /// there is a layer `below`.
    fn backward(
        &mut self,
        pass: &Pass,
        gradient: &Tensor<4>,
        below: bool,
        device: &Device,
    ) -> Option<Tensor<4>> {
        let [classes, outputs, half, _] = gradient.dims();
        let (side, area) = (pass.side, pass.side * pass.side);
        let given = values(gradient);
        // Gradients of the convolution's outputs, `[class, output, place]`.
        let mut convolved = vec![0.0_f32; classes * outputs * area];
        let [_, bias, gamma, beta, ..] = &mut self.sums;
        for row in 0..classes * outputs {
            let channel = row % outputs;
            let (mut along_gamma, mut along_beta) = (0.0_f32, 0.0_f32);
            let scale = self.gamma[channel] * self.inverse[channel];
            for at in 0..half * half {
                let Some(winner) = pass.winners[channel * half * half + at] else { continue };
                let value = given[row * half * half + at];
                along_beta += value;
                along_gamma += value * pass.normalised[channel * area + winner];
                convolved[row * area + winner] = value * scale;
            }
            let square = |value: f32| f64::from(value) * f64::from(value);
            gamma[channel] += square(along_gamma);
            beta[channel] += square(along_beta);
            bias[channel] += square(along_beta * scale);
        }
        let convolved = tensor(convolved, [classes * outputs, area], device);
        let weights = convolved.clone().matmul(pass.patches.clone()); // [class x output, input x row x column]
        let each = weights.dims()[1] * outputs;
        let squares = weights.powi_scalar(2).reshape([classes, each]).sum_dim(0);
        self.sums[0].iter_mut().zip(values(&squares)).for_each(|(sum, square)| *sum += f64::from(square));
        if !below {
            return None;
        }
        let [_, _, kernel, _] = self.weight.dims();
        let padding = kernel - 1 - PADDING;
        let options = ConvOptions::new([1, 1], [padding, padding], [1, 1], 1);
        Some(conv2d(convolved.reshape([classes, outputs, side, side]), self.turned.clone(), None, options))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;
    use burn::tensor::activation::{log_softmax, relu};
    use burn::tensor::module::max_pool2d;
    use burn::tensor::ops::MaxPoolOptions;
    use lmc::NetworkConfig;
    use lmc::internals::tensors::{Role, Visitor, Walk, train};
    use lmc_streams::Seed;

    use super::*;

    /// Logits of images in evaluation mode out of burn's own operations.
    fn evaluated(trunk: &Trunk, head: &LinearHead, images: Tensor<4>) -> Tensor<2> {
        let mut x = images;
        for functional in &trunk.0 {
            let parameters = &functional.parameters;
            let options = ConvOptions::new([1, 1], [2, 2], [1, 1], 1);
            let convolved = conv2d(x, parameters.weight.clone(), Some(parameters.bias.clone()), options);
            let along = |vector: Tensor<1>| vector.reshape([1, -1, 1, 1]);
            let deviation = (functional.running.variance.clone() + 1e-5).sqrt();
            let normalised = (convolved - along(functional.running.mean.clone())) / along(deviation);
            let scaled = normalised * along(parameters.gamma.clone()) + along(parameters.beta.clone());
            x = max_pool2d(relu(scaled), MaxPoolOptions::new([2, 2]));
        }
        head.logits(x.flatten(1, 3))
    }

    /// Adds squared gradients.
    struct Squares<'a> {
        gradients: burn::tensor::Gradients,
        sums: &'a mut Vec<Vec<f64>>,
        probability: f64,
        at: usize,
    }

    impl Visitor for Squares<'_> {
        fn visit<const D: usize>(&mut self, _: &str, role: Role, tensor: &mut Tensor<D>) {
            self.at += 1;
            if self.sums.len() < self.at {
                self.sums.push(vec![0.0; values(tensor).len()]);
            }
            if role == Role::Buffer {
                return;
            }
            let gradient = values(&tensor.grad_remove(&mut self.gradients).unwrap());
            for (sum, value) in self.sums[self.at - 1].iter_mut().zip(gradient) {
                *sum += self.probability * f64::from(value).powi(2);
            }
        }
    }

    /// The squares are those of burn's autodiff, class by class, with a backward pass each.
    #[test]
    fn squares_are_those_of_autodiff() -> Result<()> {
        let network = NetworkConfig { width: 5, depth: 3, ..NetworkConfig::default() };
        let device = Device::flex();
        let mut trunk = Trunk::new(&network, &Seed::root(1), &device.clone().autodiff());
        let head = LinearHead::new(network.features(), 4, &Seed::root(2), &device.clone().autodiff());
        let random = |shape: [usize; 4]| Tensor::<4>::random(shape, Distribution::Default, &device);
        for _ in 0..3 {
            trunk.training_pass(Tensor::from_inner(random([8, 3, 32, 32])))?;
        }
        let (frozen, plain_head) = (without_gradients(&trunk), without_gradients(&head));
        let mut layers: Vec<FisherLayer> = frozen.0.iter().map(FisherLayer::new).collect();
        let mut wanted: Vec<Vec<f64>> = Vec::new();
        let evaluation = trunk.frozen()?;
        train(&mut trunk);
        for image in [random([1, 3, 32, 32]), random([1, 3, 32, 32])] {
            add_squares(&mut layers, &plain_head, image.clone());
            let logits = evaluated(&trunk, &head, Tensor::from_inner(image.clone()));
            // The network whose gradients these are is the one that classifies.
            let classified = values(&plain_head.logits(evaluation.features(image.clone())?));
            for (logit, wanted) in values(&logits).iter().zip(classified) {
                assert!((logit - wanted).abs() < 1e-4, "{logit} instead of {wanted}");
            }
            for (class, probability) in values(&softmax(logits, 1)).into_iter().enumerate() {
                // A graph allows one backward pass.
                let logits = evaluated(&trunk, &head, Tensor::from_inner(image.clone()));
                let gradients =
                    log_softmax(logits, 1).slice([0..1, class..class + 1]).reshape([1]).backward();
                let probability = f64::from(probability);
                let mut squares = Squares { gradients, sums: &mut wanted, probability, at: 0 };
                trunk.walk("", &mut squares);
            }
        }
        let found: Vec<Vec<f64>> = layers.into_iter().flat_map(|layer| layer.sums).collect();
        assert_eq!(found.len(), wanted.len());
        for (number, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            assert_eq!(found.len(), wanted.len(), "tensor {number}");
            let most = wanted.iter().copied().fold(0.0, f64::max);
            assert!(most > 0.0 || number % 6 >= 4, "tensor {number}");
            for (found, wanted) in found.iter().zip(wanted) {
                assert!(
                    (found - wanted).abs() <= 1e-4 * most,
                    "tensor {number}: {found} instead of {wanted}"
                );
            }
        }
        Ok(())
    }
}
