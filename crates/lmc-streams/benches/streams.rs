//! What loading, building and batching cost: `cargo bench -p lmc-streams --all-features`, with `LMC_DATA` set.
//!
//! Prints one line per figure with its goal. Memory is the peak of a process that does this one thing, so
//! each figure with memory runs in a child process of its own.

use std::collections::HashMap;
use std::env;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lmc_streams::generated::{self, Family};
use lmc_streams::{
    Batch, BatchConfig, Catalog, DataDirs, Dataset, Prepare, ReadOptions, Seed, Split, Stream, StreamRequest,
    Variant,
};

fn main() {
    let dirs = match DataDirs::search(None) {
        Ok(dirs) => dirs,
        Err(error) => return println!("{error}"),
    };
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    if let (Some("load"), Some(name)) = (arguments.next().as_deref(), arguments.next()) {
        return load(&dirs, &name);
    }
    println!("threads: {}", rayon::current_num_threads());
    for name in ["cifar10", "mnist", "fashion-mnist", "svhn", "omniglot"] {
        let goal = if name == "cifar10" { "goal 3 s, memory 1.30" } else { "goal memory 1.30" };
        match dirs.locate(name) {
            Ok(Some(_)) => in_child(name, goal),
            Ok(None) => println!("load {name:<16} skipped: not on this machine"),
            Err(error) => println!("load {name:<16} failed: {error}"),
        }
    }
    let catalog = Catalog::new(dirs);
    for name in ["s_minus", "s_plus", "s_in", "s_out", "s_pl"] {
        build(&catalog, name);
    }
    draw();
    batch(&catalog);
}

/// Loads a whole data set and prints seconds, images kept and peak memory.
fn load(dirs: &DataDirs, name: &str) {
    let before = peak_memory();
    let start = Instant::now();
    let dataset = dirs.locate(name).ok().flatten().map(|located| located.read(&|_, _, _| true));
    let seconds = start.elapsed().as_secs_f64();
    let Some(Ok(dataset)) = dataset else { return println!("load {name:<16} failed") };
    let kept: usize =
        Split::ALL.iter().filter_map(|&split| dataset.split(split)).map(|set| set.bytes()).sum();
    let peak = peak_memory().zip(before).map(|(peak, before)| peak.saturating_sub(before));
    let ratio = peak.map_or("unknown".to_owned(), |peak| format!("{:.2}", peak as f64 / kept as f64));
    println!("load {name:<16} {:>7} images {seconds:6.2} s, peak memory / bytes kept {ratio}", dataset.len());
}

fn in_child(name: &str, goal: &str) {
    let output = env::current_exe().and_then(|program| Command::new(program).args(["load", name]).output());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    println!("{} ({goal})", text.unwrap_or_else(|error| format!("load {name} failed: {error}")));
}

/// Puts a stream together from data sets in memory.
fn build(catalog: &Catalog, name: &str) {
    let request = StreamRequest { variant: Variant::Auto, ..StreamRequest::named(name) };
    let Ok(plan) = catalog.plan(&request) else { return println!("build {name:<15} failed") };
    let mut sets: HashMap<String, Arc<Dataset>> = HashMap::new();
    for task in &plan.tasks {
        if !sets.contains_key(&task.source)
            && let Ok(dataset) = catalog.read(&task.source, 32, &|_, _, _| true)
        {
            sets.insert(task.source.clone(), Arc::new(dataset));
        }
    }
    let time = median(5, || {
        let plan = catalog.plan(&request).map_err(|e| e.to_string());
        let stream = plan.and_then(|plan| Stream::assemble(&plan, &sets).map_err(|e| e.to_string()));
        assert!(stream.is_ok(), "{stream:?}");
    });
    println!("build {name:<15} {:8.1} ms ({}, goal 500 ms)", time.as_secs_f64() * 1e3, plan.variant);
}

/// Draws generated images.
fn draw() {
    for family in Family::ALL {
        let keep = |split: Split, _: u32, rank: u32| split == Split::Train && rank < 40;
        let options = ReadOptions::keeping(Prepare::AS_IS, &keep);
        let time = median(3, || {
            assert!(generated::dataset(family, &generated::standard_seed(), &options).is_ok());
        });
        println!("draw {:<18} {:6.1} us an image", family.name(), time.as_secs_f64() * 1e6 / 400.0);
    }
}

/// Fills batches of 64, shuffled, as in training.
fn batch(catalog: &Catalog) {
    let Ok(stream) = catalog.stream(&StreamRequest::named("s_minus")) else {
        return println!("batch failed");
    };
    let task = &stream.tasks[0];
    let mut buffer = Batch::default();
    let mut batches = 0;
    let start = Instant::now();
    for epoch in 0..5 {
        let config = BatchConfig::shuffled(64, Seed::root(1).numbered(epoch));
        let Ok(mut epoch) = config.init(&task.train) else { return println!("batch failed") };
        while epoch.fill(&mut buffer) {
            batches += 1;
        }
    }
    let each = start.elapsed().as_secs_f64() * 1e3 / f64::from(batches);
    println!("batch of 64          {each:8.3} ms (goal 1 ms)");
}

fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[runs / 2]
}

/// The most memory that this process has held, in bytes, where the system reports it.
fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}
