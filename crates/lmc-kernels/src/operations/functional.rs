//! The functional block, trainable or frozen.

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::{BatchStatistics, Check, Result, RunningStatistics, Trained, stack};
use crate::extension::{FrozenFunctionalTensors, FunctionalTensors, KernelBackend, Kernels, PackedOnce};
use crate::functional;

/// Parameters of a functional block.
#[derive(Clone, Debug)]
pub struct FunctionalParameters {
    /// Weights of the convolution, `[output, input, row, column]`.
    pub weight: Tensor<4>,
    /// Bias of the convolution, `[output]`.
    pub bias: Tensor<1>,
    /// Scale of the batch norm, `[output]`.
    pub gamma: Tensor<1>,
    /// Shift of the batch norm, `[output]`.
    pub beta: Tensor<1>,
}

impl FunctionalParameters {
    /// Checks that all shapes fit together.
    fn check(&self, check: Check, input: &Tensor<4>, padding: usize, kernels: Kernels) -> Result<()> {
        let check = check.given("input", input).given("weight", &self.weight).given("bias", &self.bias);
        let check = check.given("gamma", &self.gamma).given("beta", &self.beta);
        check.floats(kernels)?;
        check.convolution(input, &self.weight, padding)?;
        let [outputs, ..] = self.weight.dims();
        for (name, vector) in [("bias", &self.bias), ("gamma", &self.gamma), ("beta", &self.beta)] {
            check.that(vector.dims()[0] == outputs, || {
                format!("{name} needs {outputs} numbers, one per output")
            })?;
        }
        Ok(())
    }
}

/// Computes `maxpool(relu(batch norm(convolution(input))))` with the statistics of the batch:
/// `[image, output, row, column]` for an input `[image, input, row, column]`.
pub fn functional_train(
    input: Tensor<4>,
    parameters: &FunctionalParameters,
    padding: usize,
    kernels: Kernels,
) -> Result<Trained<4>> {
    parameters.check(Check::new("functional block"), &input, padding, kernels)?;
    let [images, _, height, width] = input.dims();
    let [_, _, kernel, _] = parameters.weight.dims();
    let count = images * (height + 2 * padding + 1 - kernel) * (width + 2 * padding + 1 - kernel);
    let FunctionalParameters { weight, bias, gamma, beta } = parameters.clone();
    let tensors = FunctionalTensors {
        weight: weight.into_dispatch(),
        bias: bias.into_dispatch(),
        gamma: gamma.into_dispatch(),
        beta: beta.into_dispatch(),
    };
    let trained = Dispatch::functional_train(input.into_dispatch(), tensors, padding, kernels);
    let (mean, variance) = (Tensor::from_dispatch(trained.mean), Tensor::from_dispatch(trained.variance));
    Ok(Trained {
        output: Tensor::from_dispatch(trained.output),
        statistics: BatchStatistics { mean, variance, count },
    })
}

/// Frozen functional blocks of one shape that share their input, with batch norm folded into the weights.
///
/// Their parameters get no gradient; the input does, if it is tracked.
#[derive(Clone, Debug)]
pub struct FrozenFunctionals {
    tensors: FrozenFunctionalTensors<Dispatch>,
    first: FunctionalParameters,
    padding: usize,
    packed: PackedOnce<functional::FrozenFunctional>,
}

impl FrozenFunctionals {
    /// Stacks the blocks of at least one module, with their running statistics.
    pub fn new(modules: &[(FunctionalParameters, RunningStatistics)], padding: usize) -> Result<Self> {
        let Some((first, _)) = modules.first() else {
            return Err(
                Check::new("frozen functional blocks").problem("at least one module is needed".into())
            );
        };
        let [outputs, ..] = first.weight.dims();
        for (number, (module, statistics)) in modules.iter().enumerate() {
            let check = Check::new("frozen functional blocks").given("first weight", &first.weight);
            let check = check
                .given("weight", &module.weight)
                .given("bias", &module.bias)
                .given("gamma", &module.gamma);
            let check = check.given("beta", &module.beta).given("mean", &statistics.mean);
            let check = check.given("variance", &statistics.variance);
            check.floats(Kernels::Reference)?;
            let same = module.weight.dims() == first.weight.dims();
            check.that(same, || format!("module {number} has another shape than the first"))?;
            let vectors = [&module.bias, &module.gamma, &module.beta, &statistics.mean, &statistics.variance];
            let fit = vectors.iter().all(|vector| vector.dims()[0] == outputs);
            check.that(fit, || {
                format!("module {number} needs {outputs} numbers, one per output, in each vector")
            })?;
        }
        let tensors = FrozenFunctionalTensors {
            weight: stack::<_, 4, 5>(modules, |(module, _)| &module.weight).into_dispatch(),
            bias: stack::<_, 1, 2>(modules, |(module, _)| &module.bias).into_dispatch(),
            gamma: stack::<_, 1, 2>(modules, |(module, _)| &module.gamma).into_dispatch(),
            beta: stack::<_, 1, 2>(modules, |(module, _)| &module.beta).into_dispatch(),
            mean: stack::<_, 1, 2>(modules, |(_, statistics)| &statistics.mean).into_dispatch(),
            variance: stack::<_, 1, 2>(modules, |(_, statistics)| &statistics.variance).into_dispatch(),
        };
        Ok(Self { tensors, first: first.clone(), padding, packed: PackedOnce::default() })
    }

    /// Outputs of all modules, `[module, image, output, row, column]`.
    pub fn forward(&self, input: Tensor<4>, kernels: Kernels) -> Result<Tensor<5>> {
        self.first.check(Check::new("frozen functional blocks"), &input, self.padding, kernels)?;
        let (tensors, packed) = (self.tensors.clone(), self.packed.clone());
        Ok(Tensor::from_dispatch(Dispatch::functional_frozen(
            input.into_dispatch(),
            tensors,
            packed,
            self.padding,
            kernels,
        )))
    }
}
