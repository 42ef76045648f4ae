//! What a training step and a forward pass cost: `cargo bench -p lmc-bench`.
//!
//! Prints for each workload milliseconds, useful GFLOP/s, their share of this machine's matrix multiply, the most
//! memory of the process, and how many times as fast it is as burn's own operations, all from this one run.
//! `LMC_INSTRUCTION_SET` and `RAYON_NUM_THREADS` choose what is measured.

use burn::tensor::Device;
use lmc_bench::{cases, matrix_multiply_peak};
use lmc_kernels::Kernels;
use lmc_kernels::instruction_set::InstructionSet;

fn main() {
    let device = Device::flex();
    let peak = matrix_multiply_peak(&device);
    let threads = rayon::current_num_threads();
    println!("{:?}, {threads} threads, matrix multiply {peak:.0} GFLOP/s", InstructionSet::best());
    println!("workload mode     images        ms  GFLOP/s  of peak  memory  burn's own ms  times as fast");
    // All of ours first: burn's own operations leave memory behind that would count as ours.
    let all = |kernels| cases().into_iter().map(move |case| case.measure(kernels, &Device::flex(), 2.0));
    let (fused, reference): (Vec<_>, Vec<_>) =
        (all(Kernels::Fused).collect(), all(Kernels::Reference).collect());
    for ((case, fused), reference) in cases().into_iter().zip(fused).zip(reference) {
        let (fused, reference) = match (fused, reference) {
            (Ok(fused), Ok(reference)) => (fused, reference),
            (Err(error), _) | (_, Err(error)) => {
                println!("{:<8} {:<8} {error}", case.name, case.mode.name());
                continue;
            }
        };
        let memory = fused.memory.map_or("unknown".to_owned(), |bytes| format!("{} MB", bytes / 1_000_000));
        println!(
            "{:<8} {:<8} {:>6} {:>9.2} {:>8.0} {:>6.0} % {memory:>8} {:>13.1} {:>14.1}",
            case.name,
            case.mode.name(),
            case.batch,
            fused.ms,
            fused.gflops,
            100.0 * fused.gflops / peak,
            reference.ms,
            reference.ms / fused.ms
        );
    }
}
