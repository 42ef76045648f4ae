//! Convolution, ReLU and 2x2 max-pool, trainable.

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::{Check, Result};
use crate::extension::{KernelBackend, Kernels};

/// Computes `maxpool(relu(convolution(input)))`: `[image, output, row, column]`. Weights are
/// `[output, input, row, column]`.
pub fn pooled_conv(
    input: Tensor<4>,
    weight: Tensor<4>,
    bias: Tensor<1>,
    padding: usize,
    kernels: Kernels,
) -> Result<Tensor<4>> {
    let check = Check::new("pooled convolution").given("input", &input);
    let check = check.given("weight", &weight).given("bias", &bias);
    check.floats(kernels)?;
    check.convolution(&input, &weight, padding)?;
    let [outputs, ..] = weight.dims();
    check.that(bias.dims()[0] == outputs, || format!("bias needs {outputs} numbers, one per output"))?;
    Ok(Tensor::from_dispatch(Dispatch::pooled_conv(
        input.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
        padding,
        kernels,
    )))
}
