//! What is measured: a workload in training or in a forward pass, with a batch.

use burn::tensor::{Device, Tensor};
use lmc_kernels::Kernels;
use lmc_kernels::operations::Result;

use crate::inference::Inference;
use crate::process::{peak_memory, reset_peak_memory};
use crate::timing::{median, times};
use crate::training::Training;
use crate::workload::{WORKLOADS, Workload};

/// What is done with a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A training step.
    Train,
    /// A forward pass with all modules frozen.
    Forward,
}

impl Mode {
    /// The mode's name in tables and JSON: `train` or `forward`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Forward => "forward",
        }
    }
}

/// A workload in a mode, with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name to show: the workload's, or `single`.
    pub name: &'static str,
    /// The network.
    pub workload: Workload,
    /// A training step or a forward pass.
    pub mode: Mode,
    /// Images in the batch.
    pub batch: usize,
}

/// All workloads with 64 images, training and forward, and one single image through `w2`.
pub fn cases() -> Vec<Case> {
    let both = |workload: Workload| {
        [Mode::Train, Mode::Forward].map(|mode| Case { name: workload.name, workload, mode, batch: 64 })
    };
    let single = Case { name: "single", workload: WORKLOADS[1], mode: Mode::Forward, batch: 1 };
    WORKLOADS.into_iter().flat_map(both).chain([single]).collect()
}

/// Speed and memory of a [`Case`].
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Median milliseconds of a training step or forward pass.
    pub ms: f64,
    /// Useful work: thousand million floating-point operations per second.
    pub gflops: f64,
    /// Most memory of the process while it ran, in bytes, where the system tells.
    pub memory: Option<u64>,
}

impl Case {
    /// Runs the case for about this many seconds, at least three times.
    pub fn measure(&self, kernels: Kernels, device: &Device, seconds: f64) -> Result<Measurement> {
        reset_peak_memory();
        let times = match self.mode {
            Mode::Train => {
                let mut training = Training::new(self.workload, self.batch, kernels, 1, device)?;
                times(seconds, || training.step().map(wait))?
            }
            Mode::Forward => {
                let inference = Inference::new(self.workload, self.batch, kernels, 1, device)?;
                times(seconds, || inference.forward().map(wait))?
            }
        };
        let operations = match self.mode {
            Mode::Train => self.workload.train_operations(self.batch),
            Mode::Forward => self.workload.forward_operations(self.batch),
        };
        let ms = median(times);
        Ok(Measurement { ms, gflops: operations / ms / 1e6, memory: peak_memory() })
    }
}

/// Waits until a tensor is computed, by reading its numbers: a GPU works on after a call has returned.
pub(crate) fn wait<const D: usize>(tensor: Tensor<D>) {
    drop(tensor.into_data().try_to_vec::<f32>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_image_is_measured() {
        let single = cases().into_iter().find(|case| case.name == "single").unwrap();
        let measured = single.measure(Kernels::Fused, &Device::flex(), 0.0).unwrap();
        assert!(measured.ms > 0.0 && measured.gflops > 0.0);
    }
}
