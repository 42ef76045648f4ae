//! The same network on a graphics card: `cargo test -p lmc-kernels --features wgpu --test gpu`.
#![cfg(feature = "wgpu")]
#![allow(clippy::unwrap_used)]

use burn::tensor::{Device, Distribution, Tensor};
use lmc_kernels::{FunctionalParameters, Path, functional_train};

/// Output and weight gradient of a block with the same numbers on a device.
fn block(device: &Device) -> Vec<f32> {
    let cpu = Device::flex();
    cpu.seed(1);
    let random =
        |shape: [usize; 4]| Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &cpu).into_data();
    let (images, weight) = (random([2, 3, 8, 8]), random([4, 3, 3, 3]));
    let device = &device.clone().autodiff();
    let parameters = FunctionalParameters {
        weight: Tensor::from_data(weight, device).require_grad(),
        bias: Tensor::zeros([4], device),
        gamma: Tensor::ones([4], device),
        beta: Tensor::zeros([4], device),
    };
    let output =
        functional_train(Tensor::from_data(images, device), &parameters, 2, Path::Fast).unwrap().output;
    let gradients = (output.clone() * output.clone()).sum().backward();
    let gradient = parameters.weight.grad(&gradients).unwrap();
    let numbers = [output.into_data(), gradient.into_data()];
    numbers.into_iter().flat_map(|data| data.try_to_vec::<f32>().unwrap()).collect()
}

#[test]
fn a_block_gives_the_same_on_a_graphics_card() {
    let device = match Device::wgpu_options().init() {
        Ok(device) => device,
        Err(error) => return println!("skipped: no adapter on this machine ({error})"),
    };
    let (cpu, gpu) = (block(&Device::flex()), block(&device));
    let largest = cpu.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    for (cpu, gpu) in cpu.iter().zip(&gpu) {
        assert!((cpu - gpu).abs() < 1e-4 * largest, "{cpu} on the processor, {gpu} on the card");
    }
}
