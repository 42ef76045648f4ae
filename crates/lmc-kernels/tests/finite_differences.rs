//! Gradients of the fused operations against differences of losses, on small cases.
//!
//! A step of 1e-3 in 32-bit floats gives a derivative to about one per cent of the largest: enough to find a wrong sign,
//! factor or place, independently of burn.
#![allow(clippy::unwrap_used)]

mod comparison;

use burn::tensor::{Tensor, TensorData};
use comparison::{between, decoder, device, functional, normal, numbers, random, statistics};
use lmc_kernels::{
    FrozenDecoders, FrozenFunctionals, Kernels, decoder_train, functional_train, weighted_sum,
};

const STEP: f32 = 1e-3;

/// Compares a gradient with differences of `loss` when one number of `at` changes. A number whose change makes another
/// pixel win or another ReLU open is left out: there, the slopes to the two sides or of two steps disagree.
fn compare<const D: usize>(
    name: &str,
    at: &Tensor<D>,
    gradient: &Tensor<D>,
    loss: impl Fn(Tensor<D>) -> f64,
) {
    let values = at.to_data().try_to_vec::<f32>().unwrap();
    let gradient = numbers(gradient);
    let largest = gradient.iter().fold(1e-3_f64, |largest, value| largest.max(value.abs()));
    let mut compared = 0;
    for index in 0..values.len() {
        let changed = |step: f32| {
            let mut values = values.clone();
            values[index] += step;
            loss(Tensor::from_data(TensorData::new(values, at.dims()), &at.device()))
        };
        let slope = |step: f32| (changed(step) - changed(-step)) / f64::from(2.0 * step);
        let (near, far) = (slope(STEP), slope(2.0 * STEP));
        let here = changed(0.0);
        let bend = (changed(2.0 * STEP) + changed(-2.0 * STEP) - 2.0 * here) / f64::from(2.0 * STEP);
        if (near - far).abs() > 0.02 * largest || bend.abs() > 0.03 * largest {
            continue;
        }
        let wrong = (near - gradient[index]).abs() / largest;
        assert!(
            wrong < 0.03,
            "{name}[{index}]: {} by the backward pass, {near} by differences",
            gradient[index]
        );
        compared += 1;
    }
    assert!(compared * 2 > values.len(), "{name}: only {compared} of {} could be compared", values.len());
}

/// Sums in 64 bits, so that the differences are those of the operation.
fn total<const D: usize>(values: &Tensor<D>, factors: &Tensor<D>) -> f64 {
    numbers(values).iter().zip(numbers(factors)).map(|(value, factor)| value * factor).sum()
}

/// Compares the gradient of one parameter, by name.
macro_rules! parameter {
    ($kind:ident, $name:ident, $parameters:ident, $gradients:ident, $loss:ident) => {
        compare(
            stringify!($name),
            &$parameters.$name,
            &$parameters.$name.grad(&$gradients).unwrap(),
            |$name| $loss(&lmc_kernels::$kind { $name, ..$parameters.clone() }),
        )
    };
}

#[test]
fn functional_block() {
    let device = device(1);
    let input = random([3, 2, 5, 6], normal(), &device).require_grad();
    let parameters = functional([2, 3, 3], &device);
    let factors = random([3, 3, 3, 4], normal(), &device);
    let run = |input: &Tensor<4>, parameters: &_| {
        functional_train(input.clone(), parameters, 2, Kernels::Fused).unwrap().output
    };
    let gradients = (run(&input, &parameters) * factors.clone()).sum().backward();
    compare("input", &input, &input.grad(&gradients).unwrap(), |input| {
        total(&run(&input, &parameters), &factors)
    });
    let loss = |parameters: &_| total(&run(&input, parameters), &factors);
    parameter!(FunctionalParameters, weight, parameters, gradients, loss);
    parameter!(FunctionalParameters, gamma, parameters, gradients, loss);
    parameter!(FunctionalParameters, beta, parameters, gradients, loss);
}

#[test]
fn frozen_functional_blocks() {
    let device = device(2);
    let input = random([2, 2, 5, 5], normal(), &device).require_grad();
    let blocks: Vec<_> = (0..2).map(|_| (functional([2, 3, 3], &device), statistics(3, &device))).collect();
    let frozen = FrozenFunctionals::new(&blocks, 2).unwrap();
    let run = |input: &Tensor<4>| frozen.forward(input.clone(), Kernels::Fused).unwrap();
    let factors = random([2, 2, 3, 3, 3], normal(), &device);
    let gradients = (run(&input) * factors.clone()).sum().backward();
    compare("input", &input, &input.grad(&gradients).unwrap(), |input| total(&run(&input), &factors));
}

#[test]
fn decoder_block() {
    let device = device(3);
    let input = random([2, 2, 4, 4], normal(), &device).require_grad();
    let target = random([2, 3, 6, 6], between(0.0, 1.0), &device);
    let parameters = decoder([2, 3, 3, 3], &device);
    let factors = random([2], between(20.0, 40.0), &device);
    let run = |input: &Tensor<4>, parameters: &_| {
        decoder_train(input.clone(), target.clone(), parameters, Kernels::Fused).unwrap().output
    };
    let gradients = (run(&input, &parameters) * factors.clone()).sum().backward();
    compare("input", &input, &input.grad(&gradients).unwrap(), |input| {
        total(&run(&input, &parameters), &factors)
    });
    let loss = |parameters: &_| total(&run(&input, parameters), &factors);
    parameter!(DecoderParameters, first, parameters, gradients, loss);
    parameter!(DecoderParameters, gamma, parameters, gradients, loss);
    parameter!(DecoderParameters, beta, parameters, gradients, loss);
    parameter!(DecoderParameters, second, parameters, gradients, loss);
    parameter!(DecoderParameters, second_bias, parameters, gradients, loss);
}

#[test]
fn frozen_decoders() {
    let device = device(4);
    let inputs: Tensor<5> = random([2, 2, 2, 4, 3], normal(), &device).require_grad();
    let target = random([2, 3, 7, 5], between(0.0, 1.0), &device);
    let decoders: Vec<_> = (0..2).map(|_| (decoder([2, 3, 3, 4], &device), statistics(3, &device))).collect();
    let frozen = FrozenDecoders::new(&decoders).unwrap();
    let run = |inputs: &Tensor<5>| frozen.losses(inputs.clone(), target.clone(), Kernels::Fused).unwrap();
    let factors = random([2, 2], between(20.0, 40.0), &device);
    let gradients = (run(&inputs) * factors.clone()).sum().backward();
    compare("inputs", &inputs, &inputs.grad(&gradients).unwrap(), |inputs| total(&run(&inputs), &factors));
}

#[test]
fn weighted_sums() {
    let device = device(5);
    let outputs: Tensor<5> = random([2, 2, 3, 2, 2], normal(), &device).require_grad();
    let last: Tensor<4> = random([2, 3, 2, 2], normal(), &device).require_grad();
    let weights: Tensor<2> = random([3, 2], between(0.0, 1.0), &device).require_grad();
    let factors = random([2, 3, 2, 2], normal(), &device);
    let run = |outputs: &Tensor<5>, last: &Tensor<4>, weights: &Tensor<2>| {
        weighted_sum(outputs.clone(), Some(last.clone()), weights.clone(), Kernels::Fused).unwrap()
    };
    let gradients = (run(&outputs, &last, &weights) * factors.clone()).sum().backward();
    let gradient = outputs.grad(&gradients).unwrap();
    compare("outputs", &outputs, &gradient, |outputs| total(&run(&outputs, &last, &weights), &factors));
    compare("last", &last, &last.grad(&gradients).unwrap(), |last| {
        total(&run(&outputs, &last, &weights), &factors)
    });
    let gradient = weights.grad(&gradients).unwrap();
    compare("weights", &weights, &gradient, |weights| total(&run(&outputs, &last, &weights), &factors));
}
