//! GPUs use burn's own operations, whose ways back burn's autodiff knows.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Cube};

use super::Kernels;

impl Kernels for Cube {}

impl<C: CheckpointStrategy> Kernels for Autodiff<Cube, C> {}
