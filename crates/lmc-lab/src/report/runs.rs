//! The file `runs.csv`: every run with all its metrics, a line each. Accuracies are in per cent.

use super::metric::METRICS;
use super::run_table::RunTable;
use crate::csv::csv;
use crate::experiment::Experiment;
use crate::records::RunRecords;

/// Writes the file.
pub fn csv_file(records: &RunRecords, all: &RunTable<'_>) -> String {
    let mut titles = vec![
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
    ];
    titles.extend(METRICS.iter().map(|metric| metric.name));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for run in &records.finished {
        let row = all.row_of(run);
        let mut fields = vec![run.directory.display().to_string(), "finished".into(), String::new()];
        fields.extend(identity(
            &run.experiment,
            row.map_or("", |row| &row.title),
            row.map_or("", |row| &row.settings),
        ));
        fields.extend(METRICS.iter().map(|metric| metric.field(run)));
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
