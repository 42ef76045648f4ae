//! A walk over the tensors of a network: the one way in which they are saved, loaded, averaged, counted and trained.
//!
//! Components are plain structs of tensors; each names its own in `walk`, and what is done to them is a [`Visitor`].

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor, TensorData};
use lmc_kernels::RunningStatistics;
use lmc_streams::{Batch, Random, Seed};

use crate::error::{Error, Result};

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A parameter of a functional component or a classifier: trained at `learning_rate`.
    Functional,
    /// A parameter of a structural component: trained at `structural_learning_rate`.
    Structural,
    /// A running statistic of a batch norm: follows the data.
    Buffer,
}

/// An operation on every tensor of a component.
pub trait Visitor {
    /// Visits a tensor; `name` is its path, like `functional.conv.weight`.
    fn visit<const D: usize>(&mut self, name: &str, role: Role, tensor: &mut Tensor<D>);
}

/// A component that has tensors.
pub trait Walk {
    /// Visits all tensors in a fixed order, with `path` in front of their names.
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor);
}

/// A tensor by name, without its type: what files hold.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// Path of the tensor, like `layer2.module1.functional.conv.weight`.
    pub name: String,
    /// Length of each axis.
    pub shape: Vec<usize>,
    /// The numbers, row by row.
    pub values: Vec<f32>,
}

/// The numbers of a tensor, row by row.
pub fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    let data = tensor.clone().into_data();
    match data.as_slice::<f32>() {
        Ok(values) => values.to_vec(),
        Err(_) => data.iter::<f32>().collect(),
    }
}

/// The numbers of a tensor in double precision, row by row.
pub fn numbers<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    values(tensor).into_iter().map(f64::from).collect()
}

/// The rows of a matrix `[row, column]` in double precision.
pub fn rows(matrix: &Tensor<2>) -> Vec<Vec<f64>> {
    let [_, columns] = matrix.dims();
    numbers(matrix).chunks(columns.max(1)).map(<[f64]>::to_vec).collect()
}

/// The only number of a tensor that has one, like a loss; NaN of an empty one.
pub fn scalar(tensor: &Tensor<1>) -> f64 {
    values(tensor).first().map_or(f64::NAN, |&value| f64::from(value))
}

/// The place of the largest number, the first of equals: the class that logits stand for. 0 of nothing.
pub fn argmax<T: PartialOrd>(row: &[T]) -> usize {
    let mut best = 0;
    for (at, value) in row.iter().enumerate().skip(1) {
        if *value > row[best] {
            best = at;
        }
    }
    best
}

/// How many rows of logits `[batch, class]` are largest at their label.
pub fn correct(logits: &Tensor<2>, labels: &[u32]) -> usize {
    let [_, classes] = logits.dims();
    let values = values(logits);
    let rows = values.chunks(classes.max(1)).zip(labels);
    rows.filter(|(row, label)| argmax(row) == **label as usize).count()
}

/// The images of a batch as a tensor `[batch, channel, row, column]`.
pub fn images(batch: &Batch, device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(batch.images.clone(), batch.shape), device)
}

/// Makes a tensor of these numbers.
pub fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Copies all tensors of a component out.
pub fn plain(of: &(impl Walk + Clone)) -> Vec<NamedTensor> {
    struct Collect(Vec<NamedTensor>);
    impl Visitor for Collect {
        fn visit<const D: usize>(&mut self, name: &str, _: Role, tensor: &mut Tensor<D>) {
            self.0.push(NamedTensor {
                name: name.to_owned(),
                shape: tensor.dims().to_vec(),
                values: values(tensor),
            });
        }
    }
    let mut collect = Collect(Vec::new());
    of.clone().walk("", &mut collect);
    collect.0
}

/// Stops gradients at all tensors of a component: no step changes them any more.
pub fn freeze(of: &mut impl Walk) {
    struct Freeze;
    impl Visitor for Freeze {
        fn visit<const D: usize>(&mut self, _: &str, _: Role, tensor: &mut Tensor<D>) {
            *tensor = tensor.clone().detach();
        }
    }
    of.walk("", &mut Freeze);
}

/// Copies a component to the device beneath autodiff, where no gradients are recorded.
pub fn without_gradients<T: Walk + Clone>(of: &T) -> T {
    struct Inner;
    impl Visitor for Inner {
        fn visit<const D: usize>(&mut self, _: &str, _: Role, tensor: &mut Tensor<D>) {
            *tensor = tensor.clone().without_autodiff();
        }
    }
    let mut copy = of.clone();
    copy.walk("", &mut Inner);
    copy
}

/// Makes all parameters of a component leaves that collect gradients.
pub fn train(of: &mut impl Walk) {
    struct Train;
    impl Visitor for Train {
        fn visit<const D: usize>(&mut self, _: &str, role: Role, tensor: &mut Tensor<D>) {
            if role != Role::Buffer {
                *tensor = tensor.clone().detach().require_grad();
            }
        }
    }
    of.walk("", &mut Train);
}

/// The element-wise mean of components of one shape; `None` of none.
pub fn average<T: Walk + Clone>(parents: &[&T]) -> Option<T> {
    struct Add(Vec<Vec<f32>>, usize, f64);
    impl Visitor for Add {
        fn visit<const D: usize>(&mut self, _: &str, _: Role, tensor: &mut Tensor<D>) {
            let sums = &self.0[self.1];
            let mean = sums.iter().map(|sum| (f64::from(*sum) / self.2) as f32).collect();
            *tensor = self::tensor(mean, tensor.dims(), &tensor.device());
            self.1 += 1;
        }
    }
    let (first, others) = parents.split_first()?;
    let mut sums: Vec<Vec<f32>> = plain(*first).into_iter().map(|plain| plain.values).collect();
    for other in others {
        for (sum, plain) in sums.iter_mut().zip(plain(*other)) {
            sum.iter_mut().zip(plain.values).for_each(|(sum, value)| *sum += value);
        }
    }
    let mut mean = (*first).clone();
    mean.walk("", &mut Add(sums, 0, parents.len() as f64));
    Some(mean)
}

/// Number of parameters of a component.
pub fn parameter_count(of: &(impl Walk + Clone)) -> usize {
    struct Count(usize);
    impl Visitor for Count {
        fn visit<const D: usize>(&mut self, _: &str, role: Role, tensor: &mut Tensor<D>) {
            if role != Role::Buffer {
                self.0 += tensor.dims().iter().product::<usize>();
            }
        }
    }
    let mut count = Count(0);
    of.clone().walk("", &mut count);
    count.0
}

/// `path.name`, or `name` where there is no path.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Fills all tensors with numbers by name; an error names the first that is not there or has another shape.
pub fn fill(of: &mut impl Walk, take: &mut dyn FnMut(&str) -> Option<NamedTensor>) -> Result<()> {
    struct Fill<'a>(&'a mut dyn FnMut(&str) -> Option<NamedTensor>, Option<String>);
    impl Visitor for Fill<'_> {
        fn visit<const D: usize>(&mut self, name: &str, _: Role, tensor: &mut Tensor<D>) {
            match (self.0)(name) {
                Some(plain) if plain.shape == tensor.dims() => {
                    *tensor = self::tensor(plain.values, tensor.dims(), &tensor.device());
                }
                _ => {
                    self.1.get_or_insert_with(|| name.to_owned());
                }
            }
        }
    }
    let mut fill = Fill(take, None);
    of.walk("", &mut fill);
    match fill.1 {
        Some(name) => {
            let problem = "it is missing or has another shape";
            Err(Error::setting(format!("tensor '{name}'"), problem, "start the run anew"))
        }
        None => Ok(()),
    }
}

/// Tensors with a prefix in front of their names.
pub fn prefixed(prefix: &str, tensors: impl IntoIterator<Item = NamedTensor>) -> Vec<NamedTensor> {
    let named = |tensor: NamedTensor| NamedTensor { name: format!("{prefix}.{}", tensor.name), ..tensor };
    tensors.into_iter().map(named).collect()
}

/// The tensors that have this prefix, by their names without it.
pub fn below(prefix: &str, tensors: &[NamedTensor]) -> BTreeMap<String, NamedTensor> {
    let strip = |tensor: &NamedTensor| {
        let name = tensor.name.strip_prefix(prefix)?.strip_prefix('.')?.to_owned();
        Some((name.clone(), NamedTensor { name, ..tensor.clone() }))
    };
    tensors.iter().filter_map(strip).collect()
}

/// Draws initial parameters, each kind from its own named seed.
#[derive(Debug)]
pub struct Draw<'a> {
    random: Random,
    /// Device that gets the parameters.
    pub device: &'a Device,
}

impl<'a> Draw<'a> {
    /// Begins at the start of a seed's random numbers.
    pub fn new(seed: &Seed, device: &'a Device) -> Self {
        Self { random: seed.random(), device }
    }

    /// Draws uniformly from `±1/sqrt(fan_in)`, PyTorch's default for weights and biases.
    pub fn uniform<const D: usize>(&mut self, shape: [usize; D], fan_in: usize) -> Tensor<D> {
        let bound = 1.0 / (fan_in as f64).sqrt();
        let values = (0..shape.iter().product()).map(|_| self.random.between(-bound, bound) as f32).collect();
        tensor(values, shape, self.device)
    }

    /// Draws from a normal distribution with mean 0 and this deviation.
    pub fn normal<const D: usize>(&mut self, shape: [usize; D], deviation: f64) -> Tensor<D> {
        let draw = |_| (self.random.normal() * deviation) as f32;
        tensor((0..shape.iter().product()).map(draw).collect(), shape, self.device)
    }

    /// A vector of one value.
    pub fn constant(&self, length: usize, value: f32) -> Tensor<1> {
        tensor(vec![value; length], [length], self.device)
    }

    /// Running statistics of a batch norm that has seen nothing: mean 0, variance 1.
    pub fn running(&self, length: usize) -> RunningStatistics {
        RunningStatistics { mean: self.constant(length, 0.0), variance: self.constant(length, 1.0) }
    }
}
