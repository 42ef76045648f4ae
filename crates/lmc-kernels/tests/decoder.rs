//! The fused decoder and the weighted sum equal those made of burn's operations, forward and in every gradient.
#![allow(clippy::unwrap_used)]

mod comparison;

use burn::tensor::Tensor;
use comparison::{
    between, config, decoder, device, difference, nearest_relu, normal, numbers, precise, precise_decoder,
    random,
};
use lmc_kernels::{DecoderParameters, FrozenDecoders, Kernels, decoder_train, weighted_sum};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    images: usize,
    side: [usize; 2],
    channels: [usize; 3],
    kernel: usize,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let channels = || prop_oneof![Just(1_usize), Just(3), Just(16), Just(64), Just(157)];
    let images = prop_oneof![3 => Just(1_usize), 3 => Just(3), 1 => Just(64)];
    let kernel = prop_oneof![Just(3_usize), Just(4)];
    (images, 3..8_usize, 3..8_usize, [channels(), channels(), channels()], kernel, any::<u64>()).prop_map(
        |(images, height, width, channels, kernel, seed)| Case {
            images,
            side: [height, width],
            channels,
            kernel,
            seed,
        },
    )
}

impl Case {
    fn target(&self, device: &burn::tensor::Device) -> Tensor<4> {
        let [height, width] = self.side.map(|side| 2 * side - 4 + self.kernel - 1);
        // Beyond 1 too, as the inputs of upper layers are.
        random([self.images, self.channels[2], height, width], between(0.0, 1.5), device)
    }

    fn parameters(&self, device: &burn::tensor::Device) -> DecoderParameters {
        decoder([self.channels[0], self.channels[1], self.channels[2], self.kernel], device)
    }
}

fn results(
    input: &Tensor<4>,
    target: &Tensor<4>,
    parameters: &DecoderParameters,
    loss: &Tensor<1>,
    kernels: Kernels,
) -> Vec<(&'static str, Vec<f64>)> {
    let trained = decoder_train(input.clone(), target.clone(), parameters, kernels).unwrap();
    let gradients = (trained.output.clone() * loss.clone()).sum().backward();
    vec![
        ("losses", numbers(&trained.output)),
        ("mean", numbers(&trained.statistics.mean)),
        ("variance", numbers(&trained.statistics.variance)),
        ("input", numbers(&input.grad(&gradients).unwrap())),
        ("first", numbers(&parameters.first.grad(&gradients).unwrap())),
        ("first bias", numbers(&parameters.first_bias.grad(&gradients).unwrap())),
        ("gamma", numbers(&parameters.gamma.grad(&gradients).unwrap())),
        ("beta", numbers(&parameters.beta.grad(&gradients).unwrap())),
        ("second", numbers(&parameters.second.grad(&gradients).unwrap())),
        ("second bias", numbers(&parameters.second_bias.grad(&gradients).unwrap())),
    ]
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn trained_equals_burns_operations(case in cases()) {
        let device = device(case.seed);
        let [inputs, ..] = case.channels;
        let input = random([case.images, inputs, case.side[0], case.side[1]], normal(), &device).require_grad();
        let (target, parameters) = (case.target(&device), case.parameters(&device));
        let loss = random([case.images], between(0.5, 1.5), &device);
        prop_assume!(nearest_relu(&input, &parameters, None) > 1e-6);
        let fused = results(&input, &target, &parameters, &loss, Kernels::Fused);
        let exact = precise_decoder(&parameters);
        let reference =
            results(&precise(&input), &precise(&target).detach(), &exact, &precise(&loss).detach(), Kernels::Reference);
        prop_assume!(reference[2].1.iter().all(|&variance| variance > 1e-3));
        for ((name, fused), (_, reference)) in fused.iter().zip(&reference) {
            let floor = if matches!(*name, "first" | "first bias" | "input") { 1e-2 } else { 1e-3 };
            let worst = difference(fused, reference, floor);
            prop_assert!(worst < 1e-4, "{}: differs by {}", name, worst);
        }
    }

    #[test]
    fn frozen_equal_burns_operations(case in cases(), modules in 1..4_usize) {
        let device = device(case.seed);
        let [inputs, hidden, _] = case.channels;
        let shape = [modules, case.images, inputs, case.side[0], case.side[1]];
        let input: Tensor<5> = random(shape, normal(), &device).require_grad();
        let target = case.target(&device);
        let decoders: Vec<_> =
            (0..modules).map(|_| (case.parameters(&device), comparison::statistics(hidden, &device))).collect();
        for (module, (parameters, statistics)) in decoders.iter().enumerate() {
            let own = input.clone().narrow(0, module, 1).reshape([case.images, inputs, case.side[0], case.side[1]]);
            prop_assume!(nearest_relu(&own, parameters, Some(statistics)) > 1e-6);
        }
        let loss = random([modules, case.images], between(0.5, 1.5), &device);
        let run = |input: &Tensor<5>, target: Tensor<4>, frozen: &FrozenDecoders, loss: Tensor<2>, kernels| {
            let losses = frozen.losses(input.clone(), target, kernels).unwrap();
            let gradients = (losses.clone() * loss).sum().backward();
            (numbers(&losses), numbers(&input.grad(&gradients).unwrap()))
        };
        let frozen = FrozenDecoders::new(&decoders).unwrap();
        let (fused, fused_gradient) = run(&input, target.clone(), &frozen, loss.clone(), Kernels::Fused);
        let exact: Vec<_> = decoders
            .iter()
            .map(|(parameters, statistics)| (precise_decoder(parameters), comparison::precise_statistics(statistics)))
            .collect();
        let exact = FrozenDecoders::new(&exact).unwrap();
        let (reference, reference_gradient) =
            run(&precise(&input), precise(&target).detach(), &exact, precise(&loss).detach(), Kernels::Reference);
        prop_assert!(difference(&fused, &reference, 1e-3) < 1e-4);
        prop_assert!(difference(&fused_gradient, &reference_gradient, 1e-4) < 1e-4);
    }

    #[test]
    fn weighted_sums_equal_burns_operations(
        modules in 1..4_usize, images in 1..5_usize, channels in 1..6_usize, side in 1..5_usize, seed: u64, with_last: bool,
    ) {
        let device = device(seed);
        let all = modules + usize::from(with_last);
        let outputs: Tensor<5> = random([modules, images, channels, side, side], normal(), &device).require_grad();
        let last: Tensor<4> = random([images, channels, side, side], normal(), &device).require_grad();
        let weights: Tensor<2> = random([all, images], between(0.0, 1.0), &device).require_grad();
        let loss = random(last.dims(), normal(), &device);
        let run = |kernels| {
            let sum = weighted_sum(outputs.clone(), with_last.then(|| last.clone()), weights.clone(), kernels).unwrap();
            let gradients = (sum.clone() * loss.clone()).sum().backward();
            let last = last.grad(&gradients).map_or_else(Vec::new, |gradient| numbers(&gradient));
            let of_outputs = numbers(&outputs.grad(&gradients).unwrap());
            [numbers(&sum), of_outputs, numbers(&weights.grad(&gradients).unwrap()), last]
        };
        for (fused, reference) in run(Kernels::Fused).iter().zip(&run(Kernels::Reference)) {
            prop_assert!(difference(fused, reference, 1e-3) < 1e-5);
        }
    }
}
