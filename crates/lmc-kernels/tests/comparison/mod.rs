//! Random blocks, and how the results of two implementations are compared.
//!
//! The reference is burn's operations with 64-bit floats. Where two pixels of a pool, or a value and zero at a ReLU,
//! are nearly equal, rounding may decide otherwise and the gradient goes elsewhere: such places get no gradient.
#![allow(dead_code)]

use std::cell::RefCell;

use burn::tensor::module::{conv_transpose2d, conv2d};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{Device, Distribution, FloatDType, Tensor, TensorData};
use lmc_kernels::{DecoderParameters, FunctionalParameters, RunningStatistics};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

pub fn normal() -> Distribution {
    Distribution::Normal(0.0, 1.0)
}

pub fn between(low: f64, high: f64) -> Distribution {
    Distribution::Uniform(low, high)
}

thread_local! {
    /// A test has a thread of its own, so its numbers do not depend on the tests beside it. Burn's own generator is one
    /// for the whole process.
    static GENERATOR: RefCell<ChaCha8Rng> = RefCell::new(ChaCha8Rng::seed_from_u64(0));
}

/// A device, and the start of this test's random numbers.
pub fn device(seed: u64) -> Device {
    GENERATOR.with(|generator| *generator.borrow_mut() = ChaCha8Rng::seed_from_u64(seed));
    Device::flex().autodiff()
}

pub fn random<const D: usize>(shape: [usize; D], distribution: Distribution, device: &Device) -> Tensor<D> {
    GENERATOR.with(|generator| {
        let data = TensorData::random::<f32, _, _>(shape, distribution, &mut *generator.borrow_mut());
        Tensor::from_data(data, device)
    })
}

/// Numbers of a tensor of any float type.
pub fn numbers<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    tensor.to_data().convert::<f64>().try_to_vec::<f64>().unwrap()
}

/// A leaf of the graph with the same numbers as 64-bit floats.
pub fn precise<const D: usize>(tensor: &Tensor<D>) -> Tensor<D> {
    tensor.clone().detach().cast(FloatDType::F64).detach().require_grad()
}

pub fn precise_functional(parameters: &FunctionalParameters) -> FunctionalParameters {
    FunctionalParameters {
        weight: precise(&parameters.weight),
        bias: precise(&parameters.bias),
        gamma: precise(&parameters.gamma),
        beta: precise(&parameters.beta),
    }
}

pub fn precise_decoder(parameters: &DecoderParameters) -> DecoderParameters {
    DecoderParameters {
        first: precise(&parameters.first),
        first_bias: precise(&parameters.first_bias),
        gamma: precise(&parameters.gamma),
        beta: precise(&parameters.beta),
        second: precise(&parameters.second),
        second_bias: precise(&parameters.second_bias),
    }
}

pub fn precise_statistics(statistics: &RunningStatistics) -> RunningStatistics {
    RunningStatistics { mean: precise(&statistics.mean), variance: precise(&statistics.variance) }
}

pub fn functional(shape: [usize; 3], device: &Device) -> FunctionalParameters {
    let [inputs, outputs, kernel] = shape;
    let bound = 1.0 / ((inputs * kernel * kernel) as f64).sqrt();
    FunctionalParameters {
        weight: random([outputs, inputs, kernel, kernel], between(-bound, bound), device).require_grad(),
        bias: random([outputs], between(-bound, bound), device).require_grad(),
        gamma: random([outputs], between(-1.5, 1.5), device).require_grad(),
        beta: random([outputs], between(-0.5, 0.5), device).require_grad(),
    }
}

pub fn decoder(shape: [usize; 4], device: &Device) -> DecoderParameters {
    let [inputs, hidden, outputs, kernel] = shape;
    let bound = |fan: usize| between(-1.0 / (fan as f64).sqrt(), 1.0 / (fan as f64).sqrt());
    DecoderParameters {
        first: random([inputs, hidden, 2, 2], bound(inputs), device).require_grad(),
        first_bias: random([hidden], bound(inputs), device).require_grad(),
        gamma: random([hidden], between(0.5, 1.5), device).require_grad(),
        beta: random([hidden], between(-0.5, 0.5), device).require_grad(),
        second: random([hidden, outputs, kernel, kernel], bound(4 * hidden), device).require_grad(),
        second_bias: random([outputs], bound(hidden), device).require_grad(),
    }
}

pub fn statistics(channels: usize, device: &Device) -> RunningStatistics {
    RunningStatistics {
        mean: random([channels], Distribution::Normal(0.0, 0.3), device),
        variance: random([channels], between(0.2, 2.0), device),
    }
}

/// What batch norm gives, in 64 bits: with these statistics or those of the batch.
fn normalised(
    values: Tensor<4>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    running: Option<&RunningStatistics>,
) -> Tensor<4> {
    let along = |vector: Tensor<1>| vector.reshape([1, -1, 1, 1]);
    let mean = values.clone().mean_dim(0).mean_dim(2).mean_dim(3);
    let centred = values.clone() - mean.clone();
    let variance = (centred.clone() * centred).mean_dim(0).mean_dim(2).mean_dim(3);
    let (mean, variance) = match running {
        Some(running) => (along(running.mean.clone()), along(running.variance.clone())),
        None => (mean, variance),
    };
    (values - mean) / (variance + 1e-5).sqrt() * along(gamma) + along(beta)
}

/// 1 for pools whose winner is clear, else 0: `[image, channel, row, column]`.
pub fn clear_pools(
    input: &Tensor<4>,
    parameters: &FunctionalParameters,
    running: Option<&RunningStatistics>,
    padding: usize,
) -> Tensor<4> {
    let parameters = precise_functional(parameters);
    let options = ConvOptions::new([1, 1], [padding, padding], [1, 1], 1);
    let convolved = conv2d(precise(input), parameters.weight, Some(parameters.bias), options);
    let running = running.map(precise_statistics);
    let values = normalised(convolved, parameters.gamma, parameters.beta, running.as_ref());
    let [images, channels, height, width] = values.dims();
    let numbers = numbers(&values);
    let mut clear = Vec::new();
    for plane in numbers.chunks_exact(height * width) {
        for row in 0..height / 2 {
            for column in 0..width / 2 {
                let at = |r: usize, c: usize| plane[(2 * row + r) * width + 2 * column + c];
                let mut pool = [at(0, 0), at(0, 1), at(1, 0), at(1, 1)];
                pool.sort_by(|a, b| b.total_cmp(a));
                clear.push(if pool[0] - pool[1] > 1e-3 && pool[0].abs() > 1e-3 { 1.0_f32 } else { 0.0 });
            }
        }
    }
    let shape = [images, channels, height / 2, width / 2];
    Tensor::from_data(TensorData::new(clear, shape), &input.device())
}

/// How near to zero the nearest value in front of the decoder's ReLU is.
pub fn nearest_relu(
    input: &Tensor<4>,
    parameters: &DecoderParameters,
    running: Option<&RunningStatistics>,
) -> f64 {
    let parameters = precise_decoder(parameters);
    let options = ConvTransposeOptions::new([2, 2], [2, 2], [0, 0], [1, 1], 1);
    let hidden = conv_transpose2d(precise(input), parameters.first, Some(parameters.first_bias), options);
    let running = running.map(precise_statistics);
    let values = normalised(hidden, parameters.gamma, parameters.beta, running.as_ref());
    numbers(&values).iter().fold(f64::INFINITY, |nearest, value| nearest.min(value.abs()))
}

/// Largest difference relative to the largest value, or to `floor` if that is larger.
pub fn difference(fused: &[f64], precise: &[f64], floor: f64) -> f64 {
    assert_eq!(fused.len(), precise.len());
    let largest = precise.iter().fold(floor, |largest, value| largest.max(value.abs()));
    fused.iter().zip(precise).fold(0.0_f64, |worst, (a, b)| worst.max((a - b).abs())) / largest
}

/// The same cases on every machine and in every run.
pub fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        rng_seed: prop::test_runner::RngSeed::Fixed(7),
        ..ProptestConfig::with_cases(cases)
    }
}
