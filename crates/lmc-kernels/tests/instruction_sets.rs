//! Every instruction set gives the same numbers, but for rounding. (`lmc-bench` tests that every number of threads gives
//! the same bits.)
#![allow(clippy::unwrap_used)]

mod comparison;

use comparison::difference;
use lmc_kernels::batch_norm::Statistics;
use lmc_kernels::conv::ConvShape;
use lmc_kernels::decoder::{Decoder, DecoderShape, FrozenDecoder};
use lmc_kernels::functional::{FrozenFunctional, Functional, WantedGradients};
use lmc_kernels::instruction_set::InstructionSet;
use lmc_kernels::pooled_conv::PooledConv;

/// Numbers that look random.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) % 2003) as f32 / 2003.0 - 0.5).collect()
}

fn exact(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&number| f64::from(number)).collect()
}

/// Everything that the kernels compute, on one instruction set.
fn everything(set: InstructionSet, inputs: usize, outputs: usize) -> Vec<(&'static str, Vec<f64>)> {
    let images = 5;
    let shape = ConvShape::new([9, 7], [inputs, outputs], 3, 2);
    let input = numbers(images * shape.in_size(), 1);
    let (weight, bias) = (numbers(shape.weights(), 2), numbers(outputs, 3));
    let gamma: Vec<f32> = numbers(outputs, 4).iter().map(|number| number + 1.0).collect();
    let beta = numbers(outputs, 5);
    let block = Functional { shape, weight: &weight, bias: &bias, gamma: &gamma, beta: &beta };
    let (out, saved) = block.train(set, &input, images);
    let wanted = WantedGradients { input: true, parameters: true };
    let gradient = numbers(out.len(), 6);
    let back = block.backward(set, &input, images, &saved, &gradient, wanted);
    let frozen = FrozenFunctional::new(shape, set, &[(block, saved.statistics.clone())]);
    let (frozen_out, winners) = frozen.forward([9, 7], &input, images, true);
    let frozen_back = frozen.backward([9, 7], images, &winners, &gradient);
    let pooled = PooledConv::new(shape, &weight, &bias);
    let (pooled_out, winners) = pooled.forward(set, &input, images, true);
    let pooled_back = pooled.backward(set, &input, images, &winners, &gradient, wanted);

    let shape = DecoderShape { side: [5, 4], inputs: outputs, hidden: outputs, outputs: inputs, kernel: 4 };
    let target = numbers(images * shape.second().in_size(), 7);
    let (first, second) = (numbers(shape.first().weights(), 8), numbers(shape.second().weights(), 9));
    let second_bias = numbers(inputs, 10);
    let decoder = Decoder {
        shape,
        first: &first,
        first_bias: &bias,
        gamma: &gamma,
        beta: &beta,
        second: &second,
        second_bias: &second_bias,
    };
    let side = [5, 4];
    let features = numbers(images * shape.first().out_size(), 11);
    let (losses, saved) = decoder.train(set, &features, &target, images);
    let of_losses = numbers(images, 12);
    let decoder_back = decoder.backward(set, &features, &saved, &of_losses, wanted);
    let statistics = Statistics { mean: vec![0.1; outputs], variance: vec![2.0; outputs] };
    let frozen = FrozenDecoder::new(shape, set, &[(decoder, statistics)]);
    let (frozen_losses, errors) = frozen.losses(side, &features, &target, images, true);
    let frozen_decoder_back = frozen.backward(side, &features, &errors, &of_losses);
    vec![
        ("output", exact(&out)),
        ("input gradient", exact(&back.input)),
        ("weight gradient", exact(&back.weight)),
        ("gamma gradient", exact(&back.gamma)),
        ("beta gradient", exact(&back.beta)),
        ("frozen output", exact(&frozen_out)),
        ("frozen input gradient", exact(&frozen_back)),
        ("pooled output", exact(&pooled_out)),
        ("pooled input gradient", exact(&pooled_back.input)),
        ("pooled weight gradient", exact(&pooled_back.weight)),
        ("pooled bias gradient", exact(&pooled_back.bias)),
        ("losses", exact(&losses)),
        ("decoder input gradient", exact(&decoder_back.input)),
        ("first gradient", exact(&decoder_back.first)),
        ("second gradient", exact(&decoder_back.second)),
        ("second bias gradient", exact(&decoder_back.second_bias)),
        ("frozen losses", exact(&frozen_losses)),
        ("frozen decoder input gradient", exact(&frozen_decoder_back)),
    ]
}

#[test]
fn instruction_sets_agree() {
    let sets = InstructionSet::available();
    println!("this machine has {sets:?}");
    for (inputs, outputs) in [(3, 64), (64, 64), (64, 3), (1, 5), (17, 67)] {
        let best = everything(sets[0], inputs, outputs);
        for &set in &sets[1..] {
            for ((name, other), (_, best)) in everything(set, inputs, outputs).iter().zip(&best) {
                let worst = difference(other, best, 1e-6);
                assert!(worst < 1e-5, "{inputs} -> {outputs}: {name} on {set:?} differs by {worst}");
            }
        }
    }
}
