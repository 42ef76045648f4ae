//! A small convolutional network with burn, and how it learns a data set.

use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn::tensor::activation::relu;
use lmc_streams::{Dataset, ImageSet, Seed};

const CHANNELS: [usize; 4] = [8, 16, 32, 32];
const BATCH: usize = 40;

/// Learns the training images and says which share of the test images it then gets right.
pub fn accuracy(dataset: &Dataset, epochs: usize, seed: u64) -> f64 {
    let device = Device::flex().autodiff();
    device.seed(seed);
    let shape = dataset.shape();
    let mut network = Network::new(shape.channels, shape.height, dataset.classes.len(), &device);
    let mut optimiser = AdamConfig::new().init();
    let loss = CrossEntropyLossConfig::new().init(&device);
    let (train, order) = (&dataset.train, Seed::root(seed).named("batches"));
    for epoch in 0..epochs {
        let order = order.numbered(epoch as u64).random().permutation(train.len());
        // Falling to a tenth: the last epochs settle what the first have found.
        let rate = 3e-3 * (1.0 - 0.9 * epoch as f64 / epochs as f64);
        for batch in order.chunks(BATCH) {
            let (images, labels) = tensors(train, batch, &device);
            let gradients = loss.forward(network.forward(images), labels).backward();
            let gradients = GradientsParams::from_grads(gradients, &network);
            network = optimiser.step(rate, network, gradients);
        }
    }
    let (network, test) = (network.valid(), &dataset.test);
    let mut right = 0;
    for batch in (0..test.len() as u32).collect::<Vec<_>>().chunks(200) {
        let (images, labels) = tensors(test, batch, &Device::flex());
        let guesses: Tensor<1, Int> = network.forward(images).argmax(1).squeeze_dim(1);
        right += guesses.equal(labels).int().sum().into_scalar::<i32>();
    }
    f64::from(right) / test.len() as f64
}

/// Four times convolution, normalisation, ReLU and pooling; then one linear layer.
#[derive(Module, Debug)]
pub struct Network {
    convolutions: Vec<Conv2d>,
    norms: Vec<BatchNorm>,
    pool: MaxPool2d,
    output: Linear,
}

impl Network {
    fn new(channels: usize, side: usize, classes: usize, device: &Device) -> Self {
        let pairs = [channels].into_iter().chain(CHANNELS).zip(CHANNELS);
        let convolution = |(from, to)| {
            Conv2dConfig::new([from, to], [3, 3]).with_padding(PaddingConfig2d::Same).init(device)
        };
        let last = CHANNELS[CHANNELS.len() - 1] * (side / 16) * (side / 16);
        Self {
            convolutions: pairs.map(convolution).collect(),
            norms: CHANNELS.iter().map(|&c| BatchNormConfig::new(c).init(device)).collect(),
            pool: MaxPool2dConfig::new([2, 2]).init(),
            output: LinearConfig::new(last, classes).init(device),
        }
    }

    fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let mut x = images; // [batch, channels, 32, 32]
        for (convolution, norm) in self.convolutions.iter().zip(&self.norms) {
            x = self.pool.forward(relu(norm.forward(convolution.forward(x))));
        }
        self.output.forward(x.flatten(1, 3)) // [batch, 32, 2, 2] -> [batch, classes]
    }
}

fn tensors(set: &ImageSet, batch: &[u32], device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    let shape = [batch.len(), set.shape().channels, set.shape().height, set.shape().width];
    let bytes = batch.iter().flat_map(|&index| set.image(index as usize));
    let images: Vec<f32> = bytes.map(|&byte| f32::from(byte) / 128.0 - 1.0).collect();
    let labels: Vec<i32> = batch.iter().map(|&index| set.label(index as usize) as i32).collect();
    (
        Tensor::from_data(TensorData::new(images, shape), device),
        Tensor::from_data(TensorData::new(labels, [batch.len()]), device),
    )
}
