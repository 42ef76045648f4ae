//! The operations on burn's tensors, with their shapes checked.

mod decoder;
mod functional;
mod pooled_conv;

use burn::backend::Dispatch;
use burn::tensor::{DType, Tensor};

use crate::extension::{KernelBackend, Kernels};
pub use decoder::{DecoderParameters, FrozenDecoders, decoder_train};
pub use functional::{FrozenFunctionals, FunctionalParameters, functional_train};
pub use pooled_conv::pooled_conv;

/// Shapes or types that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {problem} ({tensors})")]
pub struct ShapeError {
    operation: &'static str,
    problem: String,
    tensors: String,
}

/// Result of an operation, which fails if shapes or types do not fit together.
pub type Result<T> = std::result::Result<T, ShapeError>;

/// Checks what an operation was given; an error names all of it.
struct Check {
    operation: &'static str,
    tensors: Vec<String>,
    types: Vec<DType>,
}

impl Check {
    fn new(operation: &'static str) -> Self {
        Self { operation, tensors: Vec::new(), types: Vec::new() }
    }

    /// Adds a tensor that the operation was given.
    fn given<const D: usize>(mut self, name: &str, tensor: &Tensor<D>) -> Self {
        self.tensors.push(format!("{name} {:?}", tensor.dims()));
        self.types.push(tensor.dtype());
        self
    }

    /// Fails with a problem unless something fits.
    fn that(&self, fits: bool, problem: impl FnOnce() -> String) -> Result<()> {
        if fits { Ok(()) } else { Err(self.problem(problem())) }
    }

    /// An error that names the operation, the problem and the shapes of all tensors.
    fn problem(&self, problem: String) -> ShapeError {
        ShapeError { operation: self.operation, problem, tensors: self.tensors.join(", ") }
    }

    /// Checks the types of all tensors. Our kernels compute with 32-bit floats; burn's operations take others too, but
    /// all of one type.
    fn floats(&self, kernels: Kernels) -> Result<()> {
        let first = if kernels == Kernels::Fused { Some(&DType::F32) } else { self.types.first() };
        let other = self.types.iter().find(|&kind| Some(kind) != first);
        self.that(other.is_none(), || {
            let name = |kind: Option<&DType>| kind.map_or_else(String::new, |kind| format!("{kind:?}"));
            format!("numbers of type {} are needed, not {}", name(first), name(other))
        })
    }

    /// Checks the sizes of a convolution whose output is pooled 2x2.
    fn convolution(&self, input: &Tensor<4>, weight: &Tensor<4>, padding: usize) -> Result<()> {
        let [images, inputs, height, width] = input.dims();
        let [_, from, kernel, other] = weight.dims();
        self.not_empty(images)?;
        self.that(inputs == from, || format!("the weight takes {from} channels, the input has {inputs}"))?;
        self.that(kernel == other && kernel > 0, || format!("the kernel is {kernel}x{other}, not square"))?;
        self.that(height.min(width) + 2 * padding > kernel, || {
            format!("with padding {padding} and a {kernel}x{kernel} kernel nothing is left to pool 2x2")
        })
    }

    /// Checks that there is an image at all.
    fn not_empty(&self, images: usize) -> Result<()> {
        self.that(images > 0, || "a batch needs at least one image".into())
    }
}

/// Mean and variance of each channel, as a frozen module uses them.
#[derive(Clone, Debug)]
pub struct RunningStatistics {
    /// Mean of each channel, `[channel]`.
    pub mean: Tensor<1>,
    /// Variance of each channel, `[channel]`.
    pub variance: Tensor<1>,
}

/// Mean and biased variance of each channel over a batch; they carry no gradient.
#[derive(Clone, Debug)]
pub struct BatchStatistics {
    /// Mean of each channel, `[channel]`.
    pub mean: Tensor<1>,
    /// Variance of each channel, `[channel]`.
    pub variance: Tensor<1>,
    /// How many pixels, of all images, the statistics were taken from.
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

/// What a block gives in training: its output, and the statistics of the batch for the running averages.
#[derive(Clone, Debug)]
pub struct Trained<const D: usize> {
    /// The block's output, `[image, channel, row, column]`, or a decoder's losses, `[image]`.
    pub output: Tensor<D>,
    /// Statistics that the block's batch norm took from the batch.
    pub statistics: BatchStatistics,
}

/// Stacks one tensor of each module along a first axis, without gradients.
fn stack<M, const D: usize, const E: usize>(modules: &[M], part: impl Fn(&M) -> &Tensor<D>) -> Tensor<E> {
    Tensor::stack(modules.iter().map(|module| part(module).clone().detach()).collect(), 0)
}

/// A layer's output, `sum over modules of weights[module, image] outputs[module, image]`:
/// `[image, channel, row, column]`.
///
/// `outputs` are `[module, image, channel, row, column]`; `last`, `[image, channel, row, column]`, is the output of one
/// more module, to which the last row of `weights`, `[module, image]`, belongs.
pub fn weighted_sum(
    outputs: Tensor<5>,
    last: Option<Tensor<4>>,
    weights: Tensor<2>,
    kernels: Kernels,
) -> Result<Tensor<4>> {
    let [modules, images, channels, height, width] = outputs.dims();
    let mut check = Check::new("weighted sum").given("outputs", &outputs).given("weights", &weights);
    if let Some(last) = &last {
        check = check.given("last", last);
        let same = last.dims() == [images, channels, height, width];
        check.that(same, || "the last module's output has another shape than the others'".into())?;
    }
    check.floats(kernels)?;
    check.not_empty(images)?;
    let all = modules + usize::from(last.is_some());
    check.that(weights.dims() == [all, images], || {
        format!("the weights of {all} modules are [{all}, {images}]")
    })?;
    let (outputs, weights) = (outputs.into_dispatch(), weights.into_dispatch());
    Ok(Tensor::from_dispatch(match last {
        Some(last) => Dispatch::weighted_sum_with(outputs, last.into_dispatch(), weights, kernels),
        None => Dispatch::weighted_sum(outputs, weights, kernels),
    }))
}
