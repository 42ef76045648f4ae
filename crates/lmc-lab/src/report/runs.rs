//! Every run with all its metrics, a line each, for whoever computes on. Accuracies in per cent.

use super::arrangement::Arrangement;
use super::asking::own_head;
use crate::csv::{csv, number};
use crate::experiment::Experiment;
use crate::run_record::{Record, Records};

/// The file.
pub fn file(records: &Records, all: &Arrangement<'_>) -> String {
    let titles = [
        "directory",
        "state",
        "problem",
        "stream",
        "variant",
        "stream_seed",
        "method",
        "title",
        "settings",
        "preset",
        "seed",
        "tasks",
        "A",
        "F",
        "F_paper_formula",
        "M", //
        "A_task_given",
        "F_task_given",
        "A_task_batches",
        "F_task_batches",
        "A_mixed",
        "F_mixed",
        "A_single",
        "F_single",
        "first_task_after",
        "first_task_end",
        "last_task",
        "own_head_task_batches",
        "own_head_single", //
        "parameters",
        "multiply_adds",
        "learning_seconds",
        "learning_cpu_seconds",
        "testing_seconds",
        "peak_mib",
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for run in &records.finished {
        let row = all.row_of(run);
        let mut fields = vec![run.directory.display().to_string(), "finished".into(), String::new()];
        fields.extend(identity(
            &run.experiment,
            row.map_or("", |row| &row.title),
            row.map_or("", |row| &row.settings),
        ));
        fields.extend(numbers(run));
        rows.push(fields);
    }
    for (word, run) in records.incomplete() {
        let mut fields = vec![run.directory.display().to_string(), word.to_owned(), run.why.clone()];
        if let Some(experiment) = &run.experiment {
            let entry = lmc_methods::find(&experiment.method);
            fields.extend(identity(experiment, entry.map_or("", |entry| entry.title), ""));
        }
        fields.resize(titles.len(), String::new());
        rows.push(fields);
    }
    csv(&titles, &rows)
}

fn identity(experiment: &Experiment, title: &str, settings: &str) -> [String; 8] {
    [
        experiment.stream.clone(),
        experiment.variant.clone(),
        experiment.stream_seed.map(|seed| seed.to_string()).unwrap_or_default(),
        experiment.method.clone(),
        title.to_owned(),
        settings.to_owned(),
        experiment.preset.clone(),
        experiment.seed.to_string(),
    ]
}

fn numbers(run: &Record) -> Vec<String> {
    let metrics = &run.metrics;
    let percent = |share: Option<f64>| number(share.map(|share| 100.0 * share));
    let headline = metrics.headline();
    let mut fields = vec![
        metrics.tasks.len().to_string(),
        percent(Some(headline.accuracy)),
        percent(Some(headline.forgetting)),
        percent(Some(headline.forgetting_paper)),
        metrics.modules().to_string(),
    ];
    let ways = [
        metrics.summary(|ways| Some(ways.task_given)),
        metrics.summary(|ways| ways.task_batches),
        metrics.summary(|ways| ways.mixed),
        metrics.summary(|ways| ways.single),
    ];
    for way in ways {
        fields.push(percent(way.map(|summary| summary.accuracy)));
        fields.push(percent(way.map(|summary| summary.forgetting)));
    }
    let first = metrics.tasks.first();
    fields.push(percent(first.map(|task| task.after.headline(metrics.agnostic))));
    fields.push(percent(first.map(|task| task.end.headline(metrics.agnostic))));
    fields.push(percent(metrics.tasks.last().map(|task| task.end.headline(metrics.agnostic))));
    fields.push(percent(own_head(metrics, |task| task.own_head.task_batches)));
    fields.push(percent(own_head(metrics, |task| task.own_head.single)));
    let known = |count: u64| if count == 0 { String::new() } else { count.to_string() };
    fields.extend([known(metrics.parameters as u64), known(metrics.multiply_adds)]);
    let cost = run.cost;
    fields.push(number(cost.map(|cost| cost.learning_seconds)));
    fields.push(number(cost.and_then(|cost| cost.learning_cpu_seconds)));
    fields.push(number(cost.map(|cost| cost.testing_seconds)));
    fields.push(number(cost.map(|cost| cost.peak_mib)));
    fields
}
