//! GPUs use burn's own operations, whose backward passes burn's autodiff knows.

use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::{Autodiff, Cube};

use super::KernelBackend;

impl KernelBackend for Cube {}

impl<C: CheckpointStrategy> KernelBackend for Autodiff<Cube, C> {}
