//! Training steps give the same bits for any number of threads, and from run to run.
#![allow(clippy::unwrap_used)]

use burn::tensor::Device;
use lmc_bench::{Training, WORKLOADS};
use lmc_kernels::Kernels;

/// Losses of a few steps of the largest network, as bits.
fn steps(threads: usize) -> Vec<u32> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut training = Training::new(WORKLOADS[3], 9, Kernels::Fused, 5, &Device::flex()).unwrap();
        (0..3).map(|_| training.step().unwrap().into_scalar::<f32>().to_bits()).collect()
    })
}

#[test]
fn bit_identical_for_any_number_of_threads_and_from_run_to_run() {
    let one = steps(1);
    for threads in [1, 2, 8] {
        assert_eq!(steps(threads), one, "{threads} threads");
    }
}
