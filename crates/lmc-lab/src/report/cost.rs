//! The cost of each method: parameters, computation, time and memory.

use super::grid::{Cell, Grid, GridRow};
use super::metric::{METRICS, Metric};
use super::run_table::RunTable;
use super::spread::decimal;
use crate::csv::{csv, number};

/// Title of a column, name of its metric, and how a number is written.
type Column = (&'static str, &'static str, fn(f64) -> String);

const COLUMNS: [Column; 6] = [
    ("parameters", "parameters", short),
    ("multiply-adds", "multiply_adds", short),
    ("learning, s", "learning_seconds", rounded),
    ("learning, CPU s", "learning_cpu_seconds", rounded),
    ("testing, s", "testing_seconds", rounded),
    ("peak MiB", "peak_mib", rounded),
];

fn metrics() -> impl Iterator<Item = &'static Metric> {
    COLUMNS.iter().filter_map(|(_, name, _)| METRICS.iter().find(|metric| metric.name == *name))
}

/// The table for people, stream by stream.
pub fn grid(all: &RunTable<'_>) -> Grid {
    let mut rows = Vec::new();
    for (stream, cells) in all.by_stream().filter(|(_, cells)| !cells.is_empty()) {
        rows.push(GridRow::Heading(stream.title.clone()));
        for (row, cell) in cells {
            let text = |(metric, (.., format)): (&Metric, &Column)| {
                Cell::text(metric.over(cell).map(|spread| format(spread.mean)).unwrap_or_default())
            };
            let cells = metrics().zip(&COLUMNS).map(text).collect();
            rows.push(GridRow::Cells(row.title.clone(), row.settings.clone(), cells));
        }
    }
    let titles = COLUMNS.iter().zip(metrics());
    let titles = titles.map(|((title, ..), metric)| ((*title).to_owned(), metric.about.to_owned()));
    Grid { corner: "method".into(), groups: Vec::new(), titles: titles.collect(), rows }
}

/// The table as CSV, a line for each method and stream with a finished run.
pub fn csv_file(all: &RunTable<'_>) -> String {
    let mut titles = vec!["stream", "method", "title", "settings", "seeds"];
    let deviations = COLUMNS.map(|(_, name, _)| format!("{name}_std"));
    for ((_, name, _), deviation) in COLUMNS.iter().zip(&deviations) {
        titles.extend([*name, deviation.as_str()]);
    }
    let mut rows = Vec::new();
    for (stream, cells) in all.by_stream() {
        for (row, cell) in cells {
            let texts = [&stream.name, &row.method, &row.title, &row.settings, &cell.runs.len().to_string()];
            let mut fields: Vec<String> = texts.into_iter().cloned().collect();
            for spread in metrics().map(|metric| metric.over(cell)) {
                fields.push(number(spread.map(|spread| spread.mean)));
                fields.push(number(spread.and_then(|spread| spread.deviation)));
            }
            rows.push(fields);
        }
    }
    csv(&titles, &rows)
}

/// Writes a number with three digits and a letter: 6.42 k, 117 M.
fn short(number: f64) -> String {
    let (scaled, letter) = match number {
        small if small < 999.5 => return format!("{small:.0}"),
        thousands if thousands < 999_500.0 => (thousands / 1e3, "k"),
        millions if millions < 999.5e6 => (millions / 1e6, "M"),
        more => (more / 1e9, "G"),
    };
    let digits = if scaled < 9.995 { 2 } else { usize::from(scaled < 99.95) };
    format!("{scaled:.digits$} {letter}")
}

/// Writes a number with one decimal below 100, and with none above.
fn rounded(number: f64) -> String {
    if number < 99.95 { decimal(number) } else { format!("{number:.0}") }
}

#[cfg(test)]
mod tests {
    use super::super::samples::record;
    use super::*;
    use crate::records::RunRecords;

    #[test]
    fn large_numbers_are_short() {
        let numbers = [0.0, 999.0, 1000.0, 6420.0, 55_627.0, 999_499.0, 999_600.0, 117e6, 2.5e9];
        let texts = ["0", "999", "1.00 k", "6.42 k", "55.6 k", "999 k", "1.00 M", "117 M", "2.50 G"];
        assert_eq!(numbers.map(short), texts);
        assert_eq!([5.0, 99.96, 1234.5].map(rounded), ["5.0", "100", "1234"]);
    }

    #[test]
    fn an_older_run_has_no_cost() {
        let mut old = record("lmc_a", "s_minus", 1, [0.5, 0.5]);
        (old.cost, old.metrics.parameters) = (None, 0);
        let records = RunRecords { finished: vec![old], ..RunRecords::default() };
        let text = csv_file(&RunTable::new(&records).unwrap());
        assert!(text.ends_with("s_minus,lmc_a,LMC(A),,1,,,2000.0000,,,,,,,,,\n"), "{text}");
    }
}
