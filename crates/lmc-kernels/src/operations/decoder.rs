//! The decoder with its reconstruction loss, trainable or frozen.

use burn::backend::Dispatch;
use burn::tensor::Tensor;

use super::{BatchStatistics, Check, Result, RunningStatistics, Trained, stack};
use crate::decoder;
use crate::extension::{DecoderTensors, FrozenDecoderTensors, KernelBackend, Kernels, PackedOnce};

/// Parameters of a decoder.
#[derive(Clone, Debug)]
pub struct DecoderParameters {
    /// Weights of the first deconvolution, `[input, hidden, 2, 2]`.
    pub first: Tensor<4>,
    /// Bias of the first deconvolution, `[hidden]`.
    pub first_bias: Tensor<1>,
    /// Scale of the batch norm, `[hidden]`.
    pub gamma: Tensor<1>,
    /// Shift of the batch norm, `[hidden]`.
    pub beta: Tensor<1>,
    /// Weights of the second deconvolution, `[hidden, output, row, column]`.
    pub second: Tensor<4>,
    /// Bias of the second deconvolution, `[output]`.
    pub second_bias: Tensor<1>,
}

impl DecoderParameters {
    /// How many pixels the first deconvolution cuts off on each side: two, as the paper's, where the input has more
    /// than 2x2 pixels, else one.
    fn cut(input: [usize; 4]) -> usize {
        let [.., height, width] = input;
        if height.min(width) > 2 { 2 } else { 1 }
    }

    /// Which kernels are used: the smallest maps are left to burn's own operations.
    fn kernels(input: [usize; 4], kernels: Kernels) -> Kernels {
        if Self::cut(input) == 2 { kernels } else { Kernels::Reference }
    }

    /// Checks that all shapes fit together, where `input` is that of a module's output,
    /// `[image, channel, row, column]`.
    fn check(&self, check: Check, input: [usize; 4], target: &Tensor<4>, kernels: Kernels) -> Result<()> {
        let check =
            check.given("target", target).given("first", &self.first).given("first bias", &self.first_bias);
        let check = check.given("gamma", &self.gamma).given("beta", &self.beta).given("second", &self.second);
        let check = check.given("second bias", &self.second_bias);
        check.floats(kernels)?;
        let [images, channels, height, width] = input;
        let [inputs, hidden, rows, columns] = self.first.dims();
        let [from, outputs, kernel, other] = self.second.dims();
        check.not_empty(images)?;
        check.that(channels == inputs, || {
            format!("the decoder takes {inputs} channels, its input has {channels}")
        })?;
        check.that([rows, columns] == [2, 2], || format!("the first kernel is {rows}x{columns}, not 2x2"))?;
        check.that(from == hidden, || {
            format!("the second weight takes {from} channels, the first gives {hidden}")
        })?;
        check.that(kernel == other && kernel > 0, || {
            format!("the second kernel is {kernel}x{other}, not square")
        })?;
        for (name, vector, length) in [
            ("first bias", &self.first_bias, hidden),
            ("gamma", &self.gamma, hidden),
            ("beta", &self.beta, hidden),
            ("second bias", &self.second_bias, outputs),
        ] {
            check.that(vector.dims()[0] == length, || format!("{name} needs {length} numbers"))?;
        }
        check.that(height.min(width) > 1, || "a decoder needs an input of at least 2x2 pixels".into())?;
        let side = |side: usize| 2 * (side - Self::cut(input)) + kernel - 1;
        let made = [images, outputs, side(height), side(width)];
        check.that(target.dims() == made, || {
            format!("the decoder makes {made:?}, which is not the target's shape")
        })
    }
}

/// Reconstruction losses, `[image]`, of a decoder that reconstructs a module's input from its output: the mean squared
/// error of each sample, with the statistics of the batch.
///
/// `input` is the module's output and `target` its input, both `[image, channel, row, column]`. The target gets no
/// gradient; the input does, if it is tracked.
pub fn decoder_train(
    input: Tensor<4>,
    target: Tensor<4>,
    parameters: &DecoderParameters,
    kernels: Kernels,
) -> Result<Trained<1>> {
    let kernels = DecoderParameters::kernels(input.dims(), kernels);
    parameters.check(Check::new("decoder").given("input", &input), input.dims(), &target, kernels)?;
    let [images, _, height, width] = input.dims();
    let cut = DecoderParameters::cut(input.dims());
    let count = images * 2 * (height - cut) * 2 * (width - cut);
    let DecoderParameters { first, first_bias, gamma, beta, second, second_bias } = parameters.clone();
    let tensors = DecoderTensors {
        first: first.into_dispatch(),
        first_bias: first_bias.into_dispatch(),
        gamma: gamma.into_dispatch(),
        beta: beta.into_dispatch(),
        second: second.into_dispatch(),
        second_bias: second_bias.into_dispatch(),
    };
    let target = target.detach();
    let trained = Dispatch::decoder_train(input.into_dispatch(), target.into_dispatch(), tensors, kernels);
    let (mean, variance) = (Tensor::from_dispatch(trained.mean), Tensor::from_dispatch(trained.variance));
    Ok(Trained {
        output: Tensor::from_dispatch(trained.output),
        statistics: BatchStatistics { mean, variance, count },
    })
}

/// Frozen decoders of one shape that share their target. Their parameters get no gradient; their inputs do, if they
/// are tracked.
#[derive(Clone, Debug)]
pub struct FrozenDecoders {
    tensors: FrozenDecoderTensors<Dispatch>,
    first: DecoderParameters,
    modules: usize,
    packed: PackedOnce<decoder::FrozenDecoder>,
}

impl FrozenDecoders {
    /// Stacks the decoders of at least one module, with their running statistics.
    pub fn new(modules: &[(DecoderParameters, RunningStatistics)]) -> Result<Self> {
        let Some((first, _)) = modules.first() else {
            return Err(Check::new("frozen decoders").problem("at least one module is needed".into()));
        };
        let [_, hidden, ..] = first.first.dims();
        let [_, outputs, ..] = first.second.dims();
        for (number, (module, statistics)) in modules.iter().enumerate() {
            let check =
                Check::new("frozen decoders").given("first", &module.first).given("second", &module.second);
            let check = check.given("mean", &statistics.mean).given("variance", &statistics.variance);
            check.floats(Kernels::Reference)?;
            let same =
                module.first.dims() == first.first.dims() && module.second.dims() == first.second.dims();
            check.that(same, || format!("module {number} has another shape than the first"))?;
            let vectors =
                [&module.first_bias, &module.gamma, &module.beta, &statistics.mean, &statistics.variance];
            let fit = vectors.iter().all(|vector| vector.dims()[0] == hidden)
                && module.second_bias.dims()[0] == outputs;
            check.that(fit, || {
                format!("a vector of module {number} has another length than its weights need")
            })?;
        }
        let tensors = FrozenDecoderTensors {
            first: stack::<_, 4, 5>(modules, |(module, _)| &module.first).into_dispatch(),
            first_bias: stack::<_, 1, 2>(modules, |(module, _)| &module.first_bias).into_dispatch(),
            gamma: stack::<_, 1, 2>(modules, |(module, _)| &module.gamma).into_dispatch(),
            beta: stack::<_, 1, 2>(modules, |(module, _)| &module.beta).into_dispatch(),
            mean: stack::<_, 1, 2>(modules, |(_, statistics)| &statistics.mean).into_dispatch(),
            variance: stack::<_, 1, 2>(modules, |(_, statistics)| &statistics.variance).into_dispatch(),
            second: stack::<_, 4, 5>(modules, |(module, _)| &module.second).into_dispatch(),
            second_bias: stack::<_, 1, 2>(modules, |(module, _)| &module.second_bias).into_dispatch(),
        };
        Ok(Self { tensors, first: first.clone(), modules: modules.len(), packed: PackedOnce::default() })
    }

    /// Reconstruction losses, `[module, image]`, from the modules' outputs, `[module, image, channel, row, column]`,
    /// and their common input, `target`.
    pub fn losses(&self, outputs: Tensor<5>, target: Tensor<4>, kernels: Kernels) -> Result<Tensor<2>> {
        let [modules, images, channels, height, width] = outputs.dims();
        let check = Check::new("frozen decoders").given("outputs", &outputs);
        let own = self.modules;
        check
            .that(modules == own, || format!("there are {own} decoders and outputs of {modules} modules"))?;
        let input = [images, channels, height, width];
        let kernels = DecoderParameters::kernels(input, kernels);
        self.first.check(check, input, &target, kernels)?;
        let (tensors, packed) = (self.tensors.clone(), self.packed.clone());
        let target = target.detach().into_dispatch();
        Ok(Tensor::from_dispatch(Dispatch::decoder_frozen(
            outputs.into_dispatch(),
            target,
            tensors,
            packed,
            kernels,
        )))
    }
}
