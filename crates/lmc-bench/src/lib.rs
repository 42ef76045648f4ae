//! The networks that lmc's benchmarks measure, and how they are measured.
//!
//! Every network has four layers of modules with 64 channels on images of 3x32x32, and a linear head with 10 classes.
//! The functional part of a module is a 3x3 convolution with padding 2, batch norm, ReLU and a 2x2 max-pool; its
//! decoder reconstructs the module's input from its output. [`WORKLOADS`] are
//!
//! - `w1`: one module in each layer, functional parts only;
//! - `w2`: one module in each layer, with its decoder and the reconstruction loss;
//! - `w3`: six modules in each layer, five of them frozen, without decoders: a layer's output is the mean of its
//!   modules' outputs;
//! - `w3s`: the same with decoders, whose reconstruction losses give the weights of the modules, as LMC works.
//!
//! [`Training`] trains the newest module of each layer, and the head, on one batch: forward pass, cross-entropy and ten
//! times the mean reconstruction losses, backward pass, Adam. [`Inference`] is a forward pass with all modules frozen.
//! [`cases`] are both for each workload with 64 images, and `single`, a forward pass of `w2` with one image.
//! `benches/pytorch.py` computes the same in PyTorch.
//!
//! A [`Case`] is measured in milliseconds, GFLOP/s of useful work and bytes of memory; [`matrix_multiply_peak`] is what
//! the machine could do at best. `lmc bench` and `cargo bench -p lmc-bench` print these; `docs/performance.md` has the
//! results.
//!
//! ```
//! use burn::tensor::Device;
//! use lmc_bench::cases;
//! use lmc_kernels::Kernels;
//!
//! for case in cases().iter().filter(|case| case.name == "single") {
//!     let measured = case.measure(Kernels::Fused, &Device::flex(), 0.0)?;
//!     println!("{} {}: {:.2} ms", case.name, case.mode.name(), measured.ms);
//! }
//! # Ok::<(), lmc_kernels::ShapeError>(())
//! ```

mod case;
mod inference;
mod matrix_multiply;
mod network;
pub mod process;
mod timing;
mod training;
mod workload;

pub use case::{Case, Measurement, Mode, cases};
pub use inference::Inference;
pub use matrix_multiply::matrix_multiply_peak;
pub use timing::{median, times};
pub use training::Training;
pub use workload::{WORKLOADS, Workload};
