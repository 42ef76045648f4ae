//! What the machine can do at best, to compare workloads with: a large matrix product.

use std::time::Instant;

use burn::tensor::{Device, Distribution, Tensor};
use lmc_kernels::conv::{Conv, ConvShape};
use lmc_kernels::instruction_set::InstructionSet;
use lmc_kernels::threads::{Images, over_images};

use crate::case::wait;

/// Rows, and columns, of the matrices.
const SIDE: usize = 1024;

/// This machine's matrix multiply in GFLOP/s: the best of 20 products of 1024x1024 matrices, by burn and, on the
/// processor, also by our own tiles.
pub fn matrix_multiply_peak(device: &Device) -> f64 {
    let matrix = || Tensor::<2>::random([SIDE, SIDE], Distribution::Uniform(-1.0, 1.0), device);
    let (a, b) = (matrix(), matrix());
    let burns = rate(|| wait(a.clone().matmul(b.clone()).narrow(0, 0, 1)));
    if *device == Device::flex() { burns.max(own_product()) } else { burns }
}

/// GFLOP/s of the fastest of several runs of a product.
fn rate(mut product: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        product();
        best = best.min(start.elapsed().as_secs_f64());
    }
    2.0 * (SIDE * SIDE * SIDE) as f64 / best / 1e9
}

/// GFLOP/s of our own tiles. A convolution with 1x1 kernels is a matrix product: 16 images of 8x8 pixels are 1024 rows.
fn own_product() -> f64 {
    let shape = ConvShape::new([8, 8], [SIDE, SIDE], 1, 0);
    let conv = Conv::new(shape, 1, InstructionSet::best());
    let (weights, bias) = (conv.pack(&vec![0.5; shape.weights()]), vec![0.0; SIDE]);
    let (x, mut y) = (vec![0.5; SIDE * SIDE], vec![0.0; SIDE * SIDE]);
    rate(|| {
        over_images(Images::new(16, 1), [&mut y], 0, |image, [y], _| {
            conv.forward(&x[image.start * shape.in_size()..][..shape.in_size()], &weights, &bias, y);
        });
    })
}
