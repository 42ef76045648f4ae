//! A network that is trained with the fused kernels ends with the loss of one trained with burn's operations.
#![allow(clippy::unwrap_used)]

use burn::tensor::Device;
use lmc_bench::{Training, WORKLOADS};
use lmc_kernels::Kernels;

#[test]
fn two_hundred_steps_end_with_the_same_loss() {
    let last = |kernels| {
        let mut training = Training::new(WORKLOADS[1], 4, kernels, 11, &Device::flex()).unwrap();
        let first = training.step().unwrap().into_scalar::<f32>();
        let last = (1..200).map(|_| training.step().unwrap()).last().unwrap().into_scalar::<f32>();
        assert!(last < 0.9 * first, "nothing was learned: {first} to {last}");
        last
    };
    let (fused, reference) = (last(Kernels::Fused), last(Kernels::Reference));
    assert!((fused - reference).abs() < 1e-3 * reference, "fused {fused}, reference {reference}");
}
