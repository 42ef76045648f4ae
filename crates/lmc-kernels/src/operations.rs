//! The operations on burn's tensors, with their shapes checked.

use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor};

use crate::extension::{
    DecoderTensors, FrozenDecoderTensors, FrozenFunctionalTensors, FunctionalTensors, Kernels, Packed, Path,
};
use crate::{decoder, functional};

/// Shapes or types that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {problem} ({tensors})")]
pub struct ShapeError {
    operation: &'static str,
    problem: String,
    tensors: String,
}

/// Result of an operation.
pub type Result<T> = std::result::Result<T, ShapeError>;

/// Collects what an operation was given and complains with all of it.
struct Check {
    operation: &'static str,
    tensors: Vec<String>,
    types: Vec<DType>,
}

impl Check {
    fn new(operation: &'static str) -> Self {
        Self { operation, tensors: Vec::new(), types: Vec::new() }
    }

    fn given<const D: usize>(mut self, name: &str, tensor: &Tensor<D>) -> Self {
        self.tensors.push(format!("{name} {:?}", tensor.dims()));
        self.types.push(tensor.dtype());
        self
    }

    fn that(&self, fits: bool, problem: impl FnOnce() -> String) -> Result<()> {
        if fits { Ok(()) } else { Err(self.problem(problem())) }
    }

    fn problem(&self, problem: String) -> ShapeError {
        ShapeError { operation: self.operation, problem, tensors: self.tensors.join(", ") }
    }

    /// Our kernels compute with 32-bit floats; burn's operations take others too, but all of one type.
    fn floats(&self, path: Path) -> Result<()> {
        let first = if path == Path::Fast { Some(&DType::F32) } else { self.types.first() };
        let other = self.types.iter().find(|&kind| Some(kind) != first);
        self.that(other.is_none(), || {
            let name = |kind: Option<&DType>| kind.map_or_else(String::new, |kind| format!("{kind:?}"));
            format!("numbers of type {} are needed, not {}", name(first), name(other))
        })
    }

    fn not_empty(&self, images: usize) -> Result<()> {
        self.that(images > 0, || "a batch needs at least one image".into())
    }
}

/// Mean and variance of each channel, as a frozen module uses them.
#[derive(Clone, Debug)]
pub struct RunningStatistics {
    /// `[channel]`.
    pub mean: Tensor<1>,
    /// `[channel]`.
    pub variance: Tensor<1>,
}

/// Mean and biased variance of each channel over a batch; they carry no gradient.
#[derive(Clone, Debug)]
pub struct BatchStatistics {
    /// `[channel]`.
    pub mean: Tensor<1>,
    /// `[channel]`.
    pub variance: Tensor<1>,
    /// How many pixels they were taken from.
    pub count: usize,
}

impl BatchStatistics {
    /// The running averages after this batch: `(1 - momentum) old + momentum new`, with the unbiased variance, as
    /// PyTorch has it.
    pub fn update(&self, running: &RunningStatistics, momentum: f64) -> RunningStatistics {
        let unbiased = self.count as f64 / (self.count.max(2) - 1) as f64;
        let average = |old: &Tensor<1>, new: Tensor<1>| {
            old.clone().mul_scalar(1.0 - momentum) + new.mul_scalar(momentum)
        };
        RunningStatistics {
            mean: average(&running.mean, self.mean.clone()),
            variance: average(&running.variance, self.variance.clone().mul_scalar(unbiased)),
        }
    }
}

/// What a block gives in training.
#[derive(Clone, Debug)]
pub struct Trained<const D: usize> {
    /// Its output, or a decoder's losses.
    pub output: Tensor<D>,
    /// Statistics of its batch norm.
    pub statistics: BatchStatistics,
}

/// Parameters of a functional block.
#[derive(Clone, Debug)]
pub struct FunctionalParameters {
    /// `[output, input, row, column]`.
    pub weight: Tensor<4>,
    /// `[output]`.
    pub bias: Tensor<1>,
    /// Scale of the batch norm, `[output]`.
    pub gamma: Tensor<1>,
    /// Shift of the batch norm, `[output]`.
    pub beta: Tensor<1>,
}

impl FunctionalParameters {
    fn check(&self, check: Check, input: &Tensor<4>, padding: usize, path: Path) -> Result<()> {
        let check = check.given("input", input).given("weight", &self.weight).given("bias", &self.bias);
        let check = check.given("gamma", &self.gamma).given("beta", &self.beta);
        check.floats(path)?;
        let [images, inputs, height, width] = input.dims();
        let [outputs, from, kernel, other] = self.weight.dims();
        check.not_empty(images)?;
        check.that(inputs == from, || format!("the weight takes {from} channels, the input has {inputs}"))?;
        check
            .that(kernel == other && kernel > 0, || format!("the kernel is {kernel}x{other}, not square"))?;
        for (name, vector) in [("bias", &self.bias), ("gamma", &self.gamma), ("beta", &self.beta)] {
            check.that(vector.dims()[0] == outputs, || {
                format!("{name} needs {outputs} numbers, one per output")
            })?;
        }
        check.that(height.min(width) + 2 * padding > kernel, || {
            format!("with padding {padding} and a {kernel}x{kernel} kernel nothing is left to pool 2x2")
        })
    }
}

/// `maxpool(relu(batch norm(convolution(input))))` with the statistics of the batch: `[image, output, row, column]`.
pub fn functional_train(
    input: Tensor<4>,
    parameters: &FunctionalParameters,
    padding: usize,
    path: Path,
) -> Result<Trained<4>> {
    parameters.check(Check::new("functional block"), &input, padding, path)?;
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
    let trained = Dispatch::functional_train(input.into_dispatch(), tensors, padding, path);
    let (mean, variance) = (Tensor::from_dispatch(trained.mean), Tensor::from_dispatch(trained.variance));
    Ok(Trained {
        output: Tensor::from_dispatch(trained.output),
        statistics: BatchStatistics { mean, variance, count },
    })
}

/// One tensor out of one of each module, with a first axis for the module, and without gradients.
fn stack<M, const D: usize, const E: usize>(modules: &[M], part: impl Fn(&M) -> &Tensor<D>) -> Tensor<E> {
    Tensor::stack(modules.iter().map(|module| part(module).clone().detach()).collect(), 0)
}

/// Frozen functional blocks of one shape that share their input, with batch norm folded into the weights.
///
/// Their parameters get no gradient; the input does, if it is tracked.
#[derive(Clone, Debug)]
pub struct FrozenFunctionals {
    tensors: FrozenFunctionalTensors<Dispatch>,
    first: FunctionalParameters,
    padding: usize,
    packed: Packed<functional::FrozenFunctional>,
}

impl FrozenFunctionals {
    /// From at least one module.
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
            check.floats(Path::Plain)?;
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
        Ok(Self { tensors, first: first.clone(), padding, packed: Packed::default() })
    }

    /// Outputs of all modules, `[module, image, output, row, column]`.
    pub fn forward(&self, input: Tensor<4>, path: Path) -> Result<Tensor<5>> {
        self.first.check(Check::new("frozen functional blocks"), &input, self.padding, path)?;
        let (tensors, packed) = (self.tensors.clone(), self.packed.clone());
        Ok(Tensor::from_dispatch(Dispatch::functional_frozen(
            input.into_dispatch(),
            tensors,
            packed,
            self.padding,
            path,
        )))
    }
}

/// Parameters of a decoder.
#[derive(Clone, Debug)]
pub struct DecoderParameters {
    /// Weights of the first deconvolution, `[input, hidden, 2, 2]`.
    pub first: Tensor<4>,
    /// `[hidden]`.
    pub first_bias: Tensor<1>,
    /// Scale of the batch norm, `[hidden]`.
    pub gamma: Tensor<1>,
    /// Shift of the batch norm, `[hidden]`.
    pub beta: Tensor<1>,
    /// Weights of the second deconvolution, `[hidden, output, row, column]`.
    pub second: Tensor<4>,
    /// `[output]`.
    pub second_bias: Tensor<1>,
}

impl DecoderParameters {
    /// `input` is a module's output, `[image, channel, row, column]`.
    fn check(&self, check: Check, input: [usize; 4], target: &Tensor<4>, path: Path) -> Result<()> {
        let check =
            check.given("target", target).given("first", &self.first).given("first bias", &self.first_bias);
        let check = check.given("gamma", &self.gamma).given("beta", &self.beta).given("second", &self.second);
        let check = check.given("second bias", &self.second_bias);
        check.floats(path)?;
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
        check.that(height.min(width) > 2, || "a decoder needs an input of at least 3x3 pixels".into())?;
        let made = [images, outputs, 2 * height - 4 + kernel - 1, 2 * width - 4 + kernel - 1];
        check.that(target.dims() == made, || {
            format!("the decoder makes {made:?}, which is not the target's shape")
        })
    }
}

/// How badly a decoder tells a module's input (`target`) from its output, for each sample: the mean squared error.
///
/// The target gets no gradient; the input does, if it is tracked.
pub fn decoder_train(
    input: Tensor<4>,
    target: Tensor<4>,
    parameters: &DecoderParameters,
    path: Path,
) -> Result<Trained<1>> {
    parameters.check(Check::new("decoder").given("input", &input), input.dims(), &target, path)?;
    let [images, _, height, width] = input.dims();
    let count = images * (2 * height - 4) * (2 * width - 4);
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
    let trained = Dispatch::decoder_train(input.into_dispatch(), target.into_dispatch(), tensors, path);
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
    packed: Packed<decoder::FrozenDecoder>,
}

impl FrozenDecoders {
    /// From at least one module.
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
            check.floats(Path::Plain)?;
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
        Ok(Self { tensors, first: first.clone(), modules: modules.len(), packed: Packed::default() })
    }

    /// Losses `[module, image]` of the modules' outputs, `[module, image, channel, row, column]`.
    pub fn losses(&self, outputs: Tensor<5>, target: Tensor<4>, path: Path) -> Result<Tensor<2>> {
        let [modules, images, channels, height, width] = outputs.dims();
        let check = Check::new("frozen decoders").given("outputs", &outputs);
        let own = self.modules;
        check
            .that(modules == own, || format!("there are {own} decoders and outputs of {modules} modules"))?;
        self.first.check(check, [images, channels, height, width], &target, path)?;
        let (tensors, packed) = (self.tensors.clone(), self.packed.clone());
        let target = target.detach().into_dispatch();
        Ok(Tensor::from_dispatch(Dispatch::decoder_frozen(
            outputs.into_dispatch(),
            target,
            tensors,
            packed,
            path,
        )))
    }
}

/// A layer's output, `sum over modules of weights[module, image] outputs[module, image]`, where `last` is one more
/// module that has no module axis.
pub fn weighted_sum(
    outputs: Tensor<5>,
    last: Option<Tensor<4>>,
    weights: Tensor<2>,
    path: Path,
) -> Result<Tensor<4>> {
    let [modules, images, channels, height, width] = outputs.dims();
    let mut check = Check::new("weighted sum").given("outputs", &outputs).given("weights", &weights);
    if let Some(last) = &last {
        check = check.given("last", last);
        let same = last.dims() == [images, channels, height, width];
        check.that(same, || "the last module's output has another shape than the others'".into())?;
    }
    check.floats(path)?;
    check.not_empty(images)?;
    let all = modules + usize::from(last.is_some());
    check.that(weights.dims() == [all, images], || {
        format!("the weights of {all} modules are [{all}, {images}]")
    })?;
    let (outputs, weights) = (outputs.into_dispatch(), weights.into_dispatch());
    Ok(Tensor::from_dispatch(match last {
        Some(last) => Dispatch::weighted_sum_with(outputs, last.into_dispatch(), weights, path),
        None => Dispatch::weighted_sum(outputs, weights, path),
    }))
}
