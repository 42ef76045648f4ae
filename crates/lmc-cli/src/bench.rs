//! `lmc bench`: how fast this machine trains and predicts.

use anyhow::Result;
use burn::tensor::Device;
use clap::Args;
use lmc_bench::{Case, cases, matrix_multiply_peak};
use lmc_kernels::Kernels;
use lmc_kernels::instruction_set::InstructionSet;
use lmc_streams::generated::Family;
use lmc_streams::{Catalog, DataDirs, OwnTask, Task, TaskSet};
use serde::Serialize;

use crate::compute::DeviceName;
use crate::{bench_growth, bench_methods, bench_signature, output};

/// How long a training step and a forward pass take on this machine.
///
/// Workloads, all with images of 3x32x32: w1, a network of four modules; w2, with the decoders that score them; w3, six
/// modules in each layer of which five are frozen; w3s, with all their decoders, as in continual learning; single, one
/// image through w2. GFLOP/s count useful work: multiplications with padding do not.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc bench                      all workloads, about half a minute
  lmc bench --growth             1 to 16 modules per layer
  lmc bench --methods            LMC and the baselines
  lmc bench --only signature     finding the task of an image by how it looks
  lmc bench --threads 1 --json   for scripts
  lmc bench --only w2 --plain    one workload, and burn's own operations for comparison")]
pub struct Bench {
    /// Threads; all cores if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Only these workloads, by commas: w1, w2, w3, w3s, single; or signature alone, finding the task of an image.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide_possible_values = true)]
    #[arg(value_parser = ["w1", "w2", "w3", "w3s", "single", SIGNATURE])]
    only: Vec<String>,
    /// Measured time for each workload and mode.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Measure burn's own operations too (takes some ten times as long a step).
    #[arg(long)]
    plain: bool,
    /// How a training step and a prediction grow with the number of modules, instead of the workloads.
    #[arg(long, conflicts_with_all = ["only", "plain"])]
    growth: bool,
    /// A training step of every method beside LMC's, instead of the workloads.
    #[arg(long, conflicts_with_all = ["only", "plain", "growth"])]
    methods: bool,
    /// Where to compute.
    #[arg(long, value_name = "DEVICE", default_value = "cpu", hide_possible_values = true)]
    device: DeviceName,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is measured in another way than workloads.
const SIGNATURE: &str = "signature";

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds between 0 and 600".into()),
    }
}

#[derive(Serialize)]
struct Report {
    device: &'static str,
    threads: usize,
    instruction_set: &'static str,
    matrix_multiply_gflops: f64,
    results: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    workload: &'static str,
    mode: &'static str,
    images: usize,
    ms: f64,
    gflops: f64,
    share_of_matrix_multiply: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_ms: Option<f64>,
}

pub fn run(bench: &Bench) -> Result<()> {
    let cases = chosen(&bench.only);
    let device = bench.device.init()?;
    let threads = usize::from(bench.threads.unwrap_or(0));
    // One pool for our kernels and for burn; a number of threads may be too large for the machine to start.
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    if bench.only.iter().any(|name| name == SIGNATURE) {
        if bench.only.len() > 1 || bench.plain {
            let problem = "signature is measured alone";
            return Err(lmc::Error::setting("--only", problem, "name it without others").into());
        }
        return bench_signature::run(bench.seconds, bench.json);
    }
    if bench.growth {
        return bench_growth::run(bench.seconds, &device, bench.json);
    }
    if bench.methods {
        return bench_methods::run(bench.seconds, &device, bench.json);
    }
    let bar = output::spinner("measuring matrix multiply".into());
    let peak = matrix_multiply_peak(&device);
    let mut results = Vec::new();
    for case in &cases {
        bar.set_message(format!("measuring {} {}", case.name, case.mode.name()));
        results.push(measure(case, bench.seconds, &device, peak)?);
    }
    // Afterwards: burn's own operations leave memory behind that would count as ours.
    for (case, row) in cases.iter().zip(&mut results).filter(|_| bench.plain) {
        bar.set_message(format!("measuring {} {} by burn's own operations", case.name, case.mode.name()));
        row.plain_ms = Some(case.measure(Kernels::Reference, &device, bench.seconds)?.ms);
    }
    bar.finish_and_clear();
    let report = Report {
        device: bench.device.name(),
        threads: rayon::current_num_threads(),
        instruction_set: InstructionSet::best().name(),
        matrix_multiply_gflops: peak,
        results,
    };
    if bench.json { output::print_json(&report) } else { output::print_text(&table(&report)) }
}

fn chosen(only: &[String]) -> Vec<Case> {
    cases().into_iter().filter(|case| only.is_empty() || only.iter().any(|name| name == case.name)).collect()
}

fn measure(case: &Case, seconds: f64, device: &Device, peak: f64) -> Result<Row> {
    let fast = case.measure(Kernels::Fused, device, seconds)?;
    Ok(Row {
        workload: case.name,
        mode: case.mode.name(),
        images: case.batch,
        ms: fast.ms,
        gflops: fast.gflops,
        share_of_matrix_multiply: fast.gflops / peak,
        peak_memory_bytes: fast.memory,
        plain_ms: None,
    })
}

fn table(report: &Report) -> String {
    let plain = report.results.iter().any(|row| row.plain_ms.is_some());
    let mut titles = vec!["workload", "mode", "images", "ms", "GFLOP/s", "of peak", "memory"];
    if plain {
        titles.extend(["burn ms", "faster"]);
    }
    let row = |row: &Row| {
        let memory =
            row.peak_memory_bytes.map_or("unknown".into(), |bytes| format!("{} MB", bytes / 1_000_000));
        let mut cells = vec![
            row.workload.to_owned(),
            row.mode.to_owned(),
            row.images.to_string(),
            format!("{:.2}", row.ms),
            format!("{:.0}", row.gflops),
            format!("{:.0} %", 100.0 * row.share_of_matrix_multiply),
            memory,
        ];
        if let Some(ms) = row.plain_ms {
            cells.extend([format!("{ms:.1}"), format!("{:.1}x", ms / row.ms)]);
        }
        cells
    };
    let right = &titles[2..];
    let table = output::table(&titles, right, report.results.iter().map(row).collect());
    let place = match report.device {
        "cpu" => format!("{}, {} threads", report.instruction_set, report.threads),
        other => other.to_owned(),
    };
    let peak = report.matrix_multiply_gflops;
    format!("{place}; matrix multiply {peak:.0} GFLOP/s is the peak\n\n{table}")
}

/// A generated task with one batch of 64 images to train on, and none to validate.
pub fn one_batch() -> Result<Task> {
    let own = OwnTask { name: "bench".into(), val_fraction: 0.0, ..OwnTask::default() };
    let task = own.read(Family::Objects.name(), &Catalog::new(DataDirs::default()))?;
    Ok(Task { train: task.train.thinned(64), val: TaskSet::empty(), ..task })
}
