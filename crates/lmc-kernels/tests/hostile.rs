//! What does not belong in a network: NaN, infinity, empty batches, shapes that do not fit.
#![allow(clippy::unwrap_used)]

mod comparison;

use burn::tensor::{FloatDType, Tensor};
use comparison::{decoder, device, functional, normal, numbers, random, statistics};
use lmc_kernels::{
    FrozenDecoders, FrozenFunctionals, Kernels, decoder_train, functional_train, weighted_sum,
};

/// An input of `[2, channels, 9, 9]` whose first image has a strange number in the middle.
fn strange(number: f64, channels: usize) -> Tensor<4> {
    let input = random([2, channels, 9, 9], normal(), &device(1));
    input.slice_fill([0..1, 0..1, 4..5, 4..5], number)
}

#[test]
fn nan_and_infinity_come_out_as_such() {
    let device = device(2);
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for channels in [3, 64] {
            let input = strange(number, channels).require_grad();
            let block = functional([channels, 64, 3], &device);
            let trained = functional_train(input.clone(), &block, 2, Kernels::Fused).unwrap();
            // Batch statistics carry it to every image.
            assert!(numbers(&trained.output).iter().all(|value| !value.is_finite()), "trained, {number}");
            let gradients = trained.output.sum().backward();
            let gradient = numbers(&block.weight.grad(&gradients).unwrap());
            assert!(gradient.iter().any(|value| !value.is_finite()), "gradient, {number}");

            let frozen = FrozenFunctionals::new(&[(block, statistics(64, &device))], 2).unwrap();
            let output = numbers(&frozen.forward(input.clone(), Kernels::Fused).unwrap());
            let (first, second) = output.split_at(output.len() / 2);
            assert!(first.iter().any(|value| !value.is_finite()), "frozen, {number}");
            assert!(second.iter().all(|value| value.is_finite()), "the other image, {number}");
        }
        let features = strange(number, 64);
        let target = random([2, 3, 16, 16], comparison::between(0.0, 1.0), &device);
        let parameters = decoder([64, 64, 3, 3], &device);
        let losses =
            decoder_train(features.clone(), target.clone(), &parameters, Kernels::Fused).unwrap().output;
        assert!(numbers(&losses).iter().all(|loss| !loss.is_finite()), "losses, {number}");
        let frozen = FrozenDecoders::new(&[(parameters, statistics(64, &device))]).unwrap();
        let losses = numbers(&frozen.losses(features.unsqueeze_dim(0), target, Kernels::Fused).unwrap());
        // A sigmoid may take infinity to 0 or 1: then the error is a real one.
        let right =
            if number.is_nan() { losses[0].is_nan() } else { !losses[0].is_finite() || losses[0] > 0.01 };
        assert!(right, "frozen losses, {number}: {losses:?}");
        assert!(losses[1].is_finite());
    }
}

/// The message of an error.
macro_rules! message {
    ($result:expr) => {
        $result.map(|_| ()).unwrap_err().to_string()
    };
}

#[test]
fn functional_blocks_say_which_shapes_do_not_fit() {
    let device = device(3);
    let block = functional([3, 8, 3], &device);
    let run = |shape: [usize; 4], padding| {
        message!(functional_train(Tensor::zeros(shape, &device), &block, padding, Kernels::Fused))
    };
    assert_eq!(
        run([0, 3, 8, 8], 2),
        "functional block: a batch needs at least one image (input [0, 3, 8, 8], weight [8, 3, 3, 3], bias [8], \
         gamma [8], beta [8])"
    );
    assert!(run([2, 4, 8, 8], 2).contains("the weight takes 3 channels, the input has 4"));
    assert!(run([2, 3, 3, 8], 0).contains("nothing is left to pool"));
    let mut other = block.clone();
    other.gamma = Tensor::zeros([7], &device);
    let input = Tensor::zeros([2, 3, 8, 8], &device);
    assert!(
        message!(functional_train(input.clone(), &other, 2, Kernels::Fused))
            .contains("gamma needs 8 numbers")
    );
    let half = input.clone().cast(FloatDType::F64);
    assert!(
        message!(functional_train(half, &block, 2, Kernels::Fused))
            .contains("numbers of type F32 are needed, not F64")
    );

    assert!(message!(FrozenFunctionals::new(&[], 2)).contains("at least one module"));
    let modules = [(block, statistics(8, &device)), (functional([3, 9, 3], &device), statistics(9, &device))];
    assert!(
        message!(FrozenFunctionals::new(&modules, 2)).contains("module 1 has another shape than the first")
    );
    let frozen = FrozenFunctionals::new(&modules[..1], 2).unwrap();
    assert!(
        message!(frozen.forward(Tensor::zeros([0, 3, 8, 8], &device), Kernels::Fused))
            .contains("at least one image")
    );
}

#[test]
fn decoders_and_sums_say_which_shapes_do_not_fit() {
    let device = device(4);
    let parameters = decoder([8, 8, 3, 3], &device);
    let run = |input: [usize; 4], target: [usize; 4]| {
        let (input, target) = (Tensor::zeros(input, &device), Tensor::zeros(target, &device));
        message!(decoder_train(input, target, &parameters, Kernels::Fused))
    };
    assert!(run([2, 8, 5, 5], [2, 3, 9, 9]).contains("the decoder makes [2, 3, 8, 8]"));
    assert!(run([2, 8, 1, 1], [2, 3, 2, 2]).contains("at least 2x2 pixels"));
    assert!(run([0, 8, 5, 5], [0, 3, 8, 8]).contains("at least one image"));
    assert!(run([2, 7, 5, 5], [2, 3, 8, 8]).contains("the decoder takes 8 channels, its input has 7"));
    let frozen = FrozenDecoders::new(&[(parameters, statistics(8, &device))]).unwrap();
    let outputs = Tensor::zeros([2, 2, 8, 5, 5], &device);
    let target = Tensor::zeros([2, 3, 8, 8], &device);
    assert!(
        message!(frozen.losses(outputs.clone(), target, Kernels::Fused))
            .contains("1 decoders and outputs of 2 modules")
    );
    let weights = Tensor::zeros([3, 2], &device);
    let wrong = message!(weighted_sum(outputs, None, weights, Kernels::Fused));
    assert!(
        wrong.contains("the weights of 2 modules are [2, 2]") && wrong.contains("weights [3, 2]"),
        "{wrong}"
    );
}
