//! What each method costs: size, computation, time, memory.

use super::arrangement::{Arrangement, Cell as Runs};
use super::grid::{Cell, Grid, Line};
use super::spread::{Spread, decimal};
use crate::cost::Cost;
use crate::csv::{csv, number};
use crate::run_record::Record;

/// A number of a run; older runs lack some.
type Number = fn(&Record) -> Option<f64>;

fn cost(run: &Record, number: fn(&Cost) -> f64) -> Option<f64> {
    run.cost.as_ref().map(number)
}

/// Title, title in files, meaning, number.
const COLUMNS: [(&str, &str, &str, Number); 6] = [
    ("parameters", "parameters", "all parameters at the end", |run| {
        Some(run.metrics.parameters as f64).filter(|count| *count > 0.0)
    }),
    ("multiply-adds", "multiply_adds", "for one prediction at the end", |run| {
        Some(run.metrics.multiply_adds as f64).filter(|count| *count > 0.0)
    }),
    ("learning, s", "learning_seconds", "seconds of learning", |run| cost(run, |cost| cost.learning_seconds)),
    ("learning, CPU s", "learning_cpu_seconds", "processor seconds of learning", |run| {
        run.cost.and_then(|cost| cost.learning_cpu_seconds)
    }),
    ("testing, s", "testing_seconds", "seconds of testing", |run| cost(run, |cost| cost.testing_seconds)),
    ("peak MiB", "peak_mib", "most memory that the process used", |run| cost(run, |cost| cost.peak_mib)),
];

fn spread(cell: &Runs<'_>, number: Number) -> Option<Spread> {
    Spread::of(&cell.each(number))
}

/// To look at: stream by stream.
pub fn grid(all: &Arrangement<'_>) -> Grid {
    let mut rows = Vec::new();
    for (stream, cells) in all.by_stream().filter(|(_, cells)| !cells.is_empty()) {
        rows.push(Line::Heading(stream.title.clone()));
        for (row, cell) in cells {
            let text = |at: usize, format: fn(f64) -> String| {
                Cell::text(spread(cell, COLUMNS[at].3).map(|spread| format(spread.mean)).unwrap_or_default())
            };
            let formats = [short, short, rounded, rounded, rounded, rounded];
            let cells = formats.into_iter().enumerate().map(|(at, format)| text(at, format)).collect();
            rows.push(Line::Cells(row.title.clone(), row.settings.clone(), cells));
        }
    }
    let titles = COLUMNS.iter().map(|(title, _, about, _)| ((*title).to_owned(), (*about).to_owned()));
    Grid { corner: "method".into(), groups: Vec::new(), titles: titles.collect(), rows }
}

/// A line for each method and stream with a finished run.
pub fn file(all: &Arrangement<'_>) -> String {
    let mut titles = vec!["stream", "method", "title", "settings", "seeds"];
    let deviations = COLUMNS.map(|(_, name, ..)| format!("{name}_std"));
    for ((_, name, ..), deviation) in COLUMNS.iter().zip(&deviations) {
        titles.extend([*name, deviation.as_str()]);
    }
    let mut rows = Vec::new();
    for (stream, cells) in all.by_stream() {
        for (row, cell) in cells {
            let texts = [&stream.name, &row.method, &row.title, &row.settings, &cell.runs.len().to_string()];
            let mut fields: Vec<String> = texts.into_iter().cloned().collect();
            for (.., column) in COLUMNS {
                let spread = spread(cell, column);
                fields.push(number(spread.map(|spread| spread.mean)));
                fields.push(number(spread.and_then(|spread| spread.deviation)));
            }
            rows.push(fields);
        }
    }
    csv(&titles, &rows)
}

/// Three digits and a letter: 6.42 k, 117 M.
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

/// Decimals only where they matter.
fn rounded(number: f64) -> String {
    if number < 99.95 { decimal(number) } else { format!("{number:.0}") }
}

#[cfg(test)]
mod tests {
    use super::super::samples::record;
    use super::*;
    use crate::run_record::Records;

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
        let records = Records { finished: vec![old], ..Records::default() };
        let text = file(&Arrangement::new(&records));
        assert!(text.ends_with("s_minus,lmc_a,LMC(A),,1,,,2000.0000,,,,,,,,,\n"), "{text}");
    }
}
