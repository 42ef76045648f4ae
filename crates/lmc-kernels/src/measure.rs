//! How fast the workloads run on a machine.

use std::time::Instant;

use burn::tensor::{Device, Distribution, Tensor};

use crate::Kernels;
use crate::conv::{Conv, ConvShape};
use crate::instruction_set::InstructionSet;
use crate::operations::Result;
use crate::threads::{Images, over_images};
use crate::workloads::{Inference, Training, WORKLOADS, Workload};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A training step.
    Train,
    /// A forward pass with all modules frozen.
    Forward,
}

impl Mode {
    /// `train` or `forward`.
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
    /// Name to show.
    pub name: &'static str,
    /// The network.
    pub workload: Workload,
    /// What is measured.
    pub mode: Mode,
    /// Images.
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

/// What came out.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Median milliseconds.
    pub ms: f64,
    /// Useful work: thousand million floating-point operations per second.
    pub gflops: f64,
    /// Most memory of the process while it ran, in bytes, where the system tells.
    pub memory: Option<u64>,
}

impl Case {
    /// Runs it for about this many seconds, and at least three times.
    pub fn measure(&self, kernels: Kernels, device: &Device, seconds: f64) -> Result<Figures> {
        forget_peak_memory();
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
        Ok(Figures { ms, gflops: operations / ms / 1e6, memory: peak_memory() })
    }
}

/// This machine's matrix multiply in GFLOP/s: the best of several products of 1024x1024 matrices, by burn and, on the
/// processor, also by our own tiles.
pub fn matrix_multiply_peak(device: &Device) -> f64 {
    let matrix = || Tensor::<2>::random([SIDE, SIDE], Distribution::Uniform(-1.0, 1.0), device);
    let (a, b) = (matrix(), matrix());
    let burns = rate(|| wait(a.clone().matmul(b.clone()).narrow(0, 0, 1)));
    if *device == Device::flex() { burns.max(own_product()) } else { burns }
}

const SIDE: usize = 1024;

/// The best of several runs of a product.
fn rate(mut product: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        product();
        best = best.min(start.elapsed().as_secs_f64());
    }
    2.0 * (SIDE * SIDE * SIDE) as f64 / best / 1e9
}

/// A convolution with 1x1 kernels is a matrix product: 16 images of 8x8 pixels are 1024 rows.
fn own_product() -> f64 {
    let shape = ConvShape::new([8, 8], [SIDE, SIDE], 1, 0);
    let conv = Conv::new(shape, 1, InstructionSet::best());
    let (weights, bias) = (conv.pack(&vec![0.5; shape.weights()]), vec![0.0; SIDE]);
    let (x, mut y) = (vec![0.5; SIDE * SIDE], vec![0.0; SIDE * SIDE]);
    rate(|| {
        over_images(Images::new(16, 1), [&mut y], 0, |image, [y], _| {
            conv.forward(&x[image.start * shape.in_size()..][..shape.in_size()], &weights, &bias, y);
        });
    })
}

/// Reads the numbers: only then is the device known to be done.
fn wait<const D: usize>(tensor: Tensor<D>) {
    drop(tensor.into_data().try_to_vec::<f32>());
}

/// Milliseconds of each run, after two that do not count.
pub fn times<E>(
    seconds: f64,
    mut run: impl FnMut() -> std::result::Result<(), E>,
) -> std::result::Result<Vec<f64>, E> {
    run()?;
    run()?;
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 3 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// The middle one of at least one time.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Linux keeps a process's peak and starts anew when asked; elsewhere nothing happens.
pub fn forget_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that the process had since then, in bytes.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

/// Processor seconds that the process has used, all threads together. Linux counts them in hundredths.
pub fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in brackets, may have blanks; user and system time are the 12th and 13th field after it.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_three() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn work_uses_the_processor() {
        let Some(before) = processor_seconds() else { return };
        let started = std::time::Instant::now();
        let mut sum = 0.0_f64;
        while started.elapsed().as_millis() < 200 {
            sum += (sum + 1.0).sqrt();
        }
        let spent = processor_seconds().unwrap() - before;
        assert!(sum > 0.0 && spent > 0.02 && spent < 60.0, "{spent}");
    }

    #[test]
    fn a_single_image_is_measured() {
        let single = cases().into_iter().find(|case| case.name == "single").unwrap();
        let figures = single.measure(Kernels::Fused, &Device::flex(), 0.0).unwrap();
        assert!(figures.ms > 0.0 && figures.gflops > 0.0);
    }
}
