//! What a training step and a forward pass cost: `cargo bench -p lmc-kernels`.
//!
//! Prints for each workload milliseconds, useful GFLOP/s, their share of this machine's matrix multiply, the most
//! memory of the process, and how many times as fast it is as burn's own operations, all from this one run.
//! `LMC_INSTRUCTION_SET` and `RAYON_NUM_THREADS` choose what is measured.

use lmc_kernels::Path;
use lmc_kernels::instruction_set::InstructionSet;
use lmc_kernels::measure::{cases, matrix_multiply_peak};

fn main() {
    let device = burn::tensor::Device::flex();
    let peak = matrix_multiply_peak(&device);
    let threads = rayon::current_num_threads();
    println!("{:?}, {threads} threads, matrix multiply {peak:.0} GFLOP/s", InstructionSet::best());
    println!("workload mode     images        ms  GFLOP/s  of peak  memory  burn's own ms  times as fast");
    for case in cases() {
        let measured = case.measure(Path::Fast, &device, 2.0).and_then(|fast| {
            let plain = case.measure(Path::Plain, &device, 2.0)?;
            Ok((fast, plain))
        });
        let (fast, plain) = match measured {
            Ok(measured) => measured,
            Err(error) => {
                println!("{:<8} {:<8} {error}", case.name, case.mode.name());
                continue;
            }
        };
        let memory = fast.memory.map_or("unknown".to_owned(), |bytes| format!("{} MB", bytes / 1_000_000));
        println!(
            "{:<8} {:<8} {:>6} {:>9.2} {:>8.0} {:>6.0} % {memory:>8} {:>13.1} {:>14.1}",
            case.name,
            case.mode.name(),
            case.batch,
            fast.ms,
            fast.gflops,
            100.0 * fast.gflops / peak,
            plain.ms,
            plain.ms / fast.ms
        );
    }
}
