//! The fused functional block equals the one made of burn's operations, forward and in every gradient.
#![allow(clippy::unwrap_used)]

mod comparison;

use burn::tensor::Tensor;
use comparison::{
    clear_pools, config, device, difference, functional, normal, numbers, precise, precise_functional, random,
};
use lmc_kernels::{
    FrozenFunctionals, FunctionalParameters, Kernels, RunningStatistics, functional_train, pooled_conv,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    images: usize,
    inputs: usize,
    outputs: usize,
    height: usize,
    width: usize,
    kernel: usize,
    padding: usize,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let channels = prop_oneof![Just(1_usize), Just(3), Just(5), Just(16), Just(64), Just(157)];
    let images = prop_oneof![3 => Just(1_usize), 3 => Just(3), 2 => Just(9), 1 => Just(64)];
    let kernel = prop_oneof![4 => Just(3_usize), 1 => Just(1), 1 => Just(5)];
    (images, channels.clone(), channels, 2..12_usize, 2..12_usize, kernel, 0..3_usize, any::<u64>())
        .prop_filter("pixels to pool", |(_, _, _, height, width, kernel, padding, _)| {
            height + 2 * padding > *kernel && width + 2 * padding > *kernel
        })
        // burn's own convolutions take minutes for the largest of everything.
        .prop_filter("not too large", |(images, inputs, outputs, height, width, ..)| {
            images * inputs * outputs * height * width < 10_000_000
        })
        .prop_map(|(images, inputs, outputs, height, width, kernel, padding, seed)| Case {
            images,
            inputs,
            outputs,
            height,
            width,
            kernel,
            padding,
            seed,
        })
}

/// Output, statistics and all gradients of a linear loss.
fn results(
    input: &Tensor<4>,
    parameters: &FunctionalParameters,
    loss: &Tensor<4>,
    padding: usize,
    kernels: Kernels,
) -> Vec<(&'static str, Vec<f64>)> {
    let trained = functional_train(input.clone(), parameters, padding, kernels).unwrap();
    let gradients = (trained.output.clone() * loss.clone()).sum().backward();
    vec![
        ("output", numbers(&trained.output)),
        ("mean", numbers(&trained.statistics.mean)),
        ("variance", numbers(&trained.statistics.variance)),
        ("input", numbers(&input.grad(&gradients).unwrap())),
        ("weight", numbers(&parameters.weight.grad(&gradients).unwrap())),
        ("gamma", numbers(&parameters.gamma.grad(&gradients).unwrap())),
        ("beta", numbers(&parameters.beta.grad(&gradients).unwrap())),
        ("bias", numbers(&parameters.bias.grad(&gradients).unwrap())),
    ]
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn trained_equals_burns_operations(case in cases()) {
        let device = device(case.seed);
        let input = random([case.images, case.inputs, case.height, case.width], normal(), &device).require_grad();
        let parameters = functional([case.inputs, case.outputs, case.kernel], &device);
        let clear = clear_pools(&input, &parameters, None, case.padding);
        let loss = (random(clear.dims(), normal(), &device) * clear).detach();
        let fused = results(&input, &parameters, &loss, case.padding, Kernels::Fused);
        let exact = precise_functional(&parameters);
        let reference = results(&precise(&input), &exact, &precise(&loss).detach(), case.padding, Kernels::Reference);
        // With hardly any spread batch norm multiplies rounding by hundreds.
        prop_assume!(reference[2].1.iter().all(|&variance| variance > 1e-3));
        for ((name, fused), (_, reference)) in fused.iter().zip(&reference) {
            // Gradients before a batch norm are what is left of sums that cancel, completely for a bias or a single
            // weight; their terms have about this size.
            let single = case.inputs * case.kernel * case.kernel == 1;
            let floor = match *name {
                "weight" if single => 30.0,
                "bias" | "weight" | "input" => 0.1,
                _ => 1e-3,
            };
            let worst = difference(fused, reference, floor);
            prop_assert!(worst < 1e-4, "{}: differs by {}", name, worst);
        }
    }

    #[test]
    fn pooled_equals_burns_operations(case in cases()) {
        let device = device(case.seed);
        let input = random([case.images, case.inputs, case.height, case.width], normal(), &device).require_grad();
        let block = functional([case.inputs, case.outputs, case.kernel], &device);
        // Batch norm that does nothing, so that pools without a clear winner are found.
        let same = RunningStatistics {
            mean: Tensor::zeros([case.outputs], &device),
            variance: Tensor::ones([case.outputs], &device),
        };
        let identity_norm = FunctionalParameters {
            gamma: Tensor::ones([case.outputs], &device),
            beta: Tensor::zeros([case.outputs], &device),
            ..block.clone()
        };
        let clear = clear_pools(&input, &identity_norm, Some(&same), case.padding);
        let loss = (random(clear.dims(), normal(), &device) * clear).detach();
        let run = |input: &Tensor<4>, weight: &Tensor<4>, bias: &Tensor<1>, loss: Tensor<4>, kernels| {
            let output = pooled_conv(input.clone(), weight.clone(), bias.clone(), case.padding, kernels).unwrap();
            let gradients = (output.clone() * loss).sum().backward();
            let gradient = |tensor: &Tensor<4>| numbers(&tensor.grad(&gradients).unwrap());
            let of_bias = numbers(&bias.grad(&gradients).unwrap());
            [numbers(&output), gradient(input), gradient(weight), of_bias]
        };
        let fused = run(&input, &block.weight, &block.bias, loss.clone(), Kernels::Fused);
        let exact = precise(&loss).detach();
        let reference = run(&precise(&input), &precise(&block.weight), &precise(&block.bias), exact, Kernels::Reference);
        for (at, (fused, reference)) in fused.iter().zip(&reference).enumerate() {
            let worst = difference(fused, reference, 1e-3);
            prop_assert!(worst < 1e-4, "{}: differs by {}", at, worst);
        }
        // Without gradients the same numbers.
        let untracked = pooled_conv(
            input.clone().inner(), block.weight.clone().inner(), block.bias.clone().inner(), case.padding, Kernels::Fused,
        );
        prop_assert_eq!(numbers(&untracked.unwrap()), fused[0].clone());
    }

    #[test]
    fn frozen_equal_burns_operations(case in cases(), modules in 1..4_usize) {
        let device = device(case.seed);
        let input = random([case.images, case.inputs, case.height, case.width], normal(), &device).require_grad();
        let blocks: Vec<_> = (0..modules)
            .map(|_| {
                let shape = [case.inputs, case.outputs, case.kernel];
                (functional(shape, &device), comparison::statistics(case.outputs, &device))
            })
            .collect();
        let clear = blocks.iter().map(|(block, statistics)| clear_pools(&input, block, Some(statistics), case.padding));
        let clear: Tensor<5> = Tensor::stack(clear.collect(), 0);
        let loss = (random(clear.dims(), normal(), &device) * clear).detach();
        let run = |input: &Tensor<4>, frozen: &FrozenFunctionals, loss: Tensor<5>, kernels| {
            let output = frozen.forward(input.clone(), kernels).unwrap();
            let gradients = (output.clone() * loss).sum().backward();
            (numbers(&output), numbers(&input.grad(&gradients).unwrap()))
        };
        let frozen = FrozenFunctionals::new(&blocks, case.padding).unwrap();
        let (fused, fused_gradient) = run(&input, &frozen, loss.clone(), Kernels::Fused);
        let exact: Vec<_> = blocks
            .iter()
            .map(|(block, statistics)| (precise_functional(block), comparison::precise_statistics(statistics)))
            .collect();
        let exact = FrozenFunctionals::new(&exact, case.padding).unwrap();
        let (reference, reference_gradient) = run(&precise(&input), &exact, precise(&loss).detach(), Kernels::Reference);
        prop_assert!(difference(&fused, &reference, 1e-3) < 1e-4);
        prop_assert!(difference(&fused_gradient, &reference_gradient, 1e-3) < 1e-4);
    }
}

#[test]
fn frozen_blocks_take_images_of_another_size_after_the_first() {
    let device = device(3);
    let blocks = [(functional([3, 8, 3], &device), comparison::statistics(8, &device))];
    let frozen = FrozenFunctionals::new(&blocks, 2).unwrap();
    for side in [8, 5, 12] {
        let input = random([2, 3, side, side], normal(), &device);
        let [fused, reference] = [Kernels::Fused, Kernels::Reference]
            .map(|kernels| numbers(&frozen.forward(input.clone(), kernels).unwrap()));
        assert!(difference(&fused, &reference, 1e-3) < 1e-5);
    }
}

#[test]
fn running_statistics_as_pytorch_updates_them() {
    let device = burn::tensor::Device::flex();
    let tensor = |value: f32| Tensor::<1>::from_floats([value], &device);
    let running = RunningStatistics { mean: tensor(1.0), variance: tensor(2.0) };
    let batch = lmc_kernels::BatchStatistics { mean: tensor(3.0), variance: tensor(4.0), count: 5 };
    let updated = batch.update(&running, 0.1);
    // 0.9 * 1 + 0.1 * 3; 0.9 * 2 + 0.1 * (4 * 5 / 4)
    assert!((numbers(&updated.mean)[0] - 1.2).abs() < 1e-6);
    assert!((numbers(&updated.variance)[0] - 2.3).abs() < 1e-6);
}
