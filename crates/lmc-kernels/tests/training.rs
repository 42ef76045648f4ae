//! A network that is trained with our operations ends where the one with burn's operations ends.
#![allow(clippy::unwrap_used)]

use burn::tensor::Device;
use lmc_kernels::Kernels;
use lmc_kernels::workloads::{Training, WORKLOADS};

#[test]
fn two_hundred_steps_end_with_the_same_loss() {
    let last = |kernels| {
        let mut training = Training::new(WORKLOADS[1], 4, kernels, 11, &Device::flex()).unwrap();
        let first = training.step().unwrap().into_scalar::<f32>();
        let last = (1..200).map(|_| training.step().unwrap()).last().unwrap().into_scalar::<f32>();
        assert!(last < 0.9 * first, "nothing was learned: {first} to {last}");
        last
    };
    let (fast, plain) = (last(Kernels::Fused), last(Kernels::Reference));
    println!("fast {fast}, plain {plain}");
    assert!((fast - plain).abs() < 1e-3 * plain, "fast {fast}, plain {plain}");
}
