//! `lmc bench --methods`: cost of a training step of each method beside LMC's.

use anyhow::Result;
use lmc::{Device, NetworkConfig, TaskData};
use lmc_bench::{median, times};
use lmc_methods::registry;
use serde::Serialize;
use toml::{Table, Value};

use crate::bench::one_batch;
use crate::output::{print_json, print_text, spinner, table};

#[derive(Serialize)]
struct Row {
    method: &'static str,
    train_step_ms: f64,
    times_lmc: f64,
}

/// Measures and prints: a batch of 64 in the first task of S-, where LMC has one module per layer.
pub fn run(seconds: f64, device: &Device, json: bool) -> Result<()> {
    let bar = spinner("drawing pictures".into());
    let task = one_batch()?;
    let data = TaskData::from(&task);
    let mut measured = Vec::new();
    for entry in registry::methods() {
        bar.set_message(entry.title.to_owned());
        let bad = |problem: String| lmc::Error::setting(entry.name, problem, "report this as a bug of lmc");
        // More epochs than there is time for.
        let epochs = Table::from_iter([("epochs".to_owned(), Value::Integer(1 << 30))]);
        let training = Table::from_iter([("training".to_owned(), Value::Table(epochs.clone()))]);
        let settings =
            entry.resolve("s_minus", epochs).or_else(|_| entry.resolve("s_minus", training)).map_err(bad)?;
        let mut method = entry.init(&settings, &NetworkConfig::default(), 1, device)?;
        method.begin(data)?;
        let step = times(seconds, || method.epoch(data, &mut |_| Ok(())).map(drop))?;
        measured.push((entry.name, median(step)));
    }
    bar.finish_and_clear();
    let lmc = measured.iter().find(|(name, _)| *name == "lmc_a").map_or(1.0, |(_, time)| *time);
    let row = |&(method, train_step_ms): &(&'static str, f64)| Row {
        method,
        train_step_ms,
        times_lmc: train_step_ms / lmc,
    };
    let rows: Vec<Row> = measured.iter().map(row).collect();
    if json {
        return print_json(&rows);
    }
    let rows = rows
        .iter()
        .map(|row| {
            vec![row.method.into(), format!("{:.1}", row.train_step_ms), format!("{:.2}", row.times_lmc)]
        })
        .collect();
    let titles = ["method", "train step ms", "times LMC's"];
    print_text(&table(&titles, &titles[1..], rows))
}
