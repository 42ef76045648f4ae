//! What goes to the screen: text, JSON, tables, progress.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::time::Duration;

use anyhow::Result;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use lmc_streams::names::shown;
use serde::Serialize;

/// Prints a line: whatever names are in it, their control characters are written out. A closed pipe is an error, not a
/// panic.
pub fn print(line: &str) -> Result<()> {
    write_out(&shown(line))
}

/// Prints a text of several lines that are all ours: a table, whose cells have their control characters written out.
pub fn print_text(text: &str) -> Result<()> {
    write_out(text)
}

fn write_out(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Says a line to whoever watches, written out likewise. If nobody can hear it (a closed pipe, a full disk), the work goes
/// on.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", shown(line));
}

/// Prints a value as JSON.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    // JSON leaves some control characters as they are, but not those of plain ASCII.
    let text = serde_json::to_string_pretty(value)?;
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' => out.push('\n'),
            letter if shown(letter.encode_utf8(&mut [0; 4])).len() != letter.len_utf8() => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    print_text(&out)
}

/// The reader of our output has gone (`lmc ... | head`): nothing to complain about.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// A table: fitted to the terminal, or plain columns when the output goes to a file. Columns whose titles
/// are in `right` hold numbers.
pub fn table(titles: &[&str], right: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    if io::stdout().is_terminal() {
        table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.load_style(presets::NOTHING);
    }
    table.set_header(titles);
    let aligned = |(column, text): (usize, String)| {
        let is_number = titles.get(column).is_some_and(|title| right.contains(title));
        let alignment = if is_number { CellAlignment::Right } else { CellAlignment::Left };
        Cell::new(text).set_alignment(alignment)
    };
    // Short columns keep their width and long texts are wrapped, where the terminal is wide enough for both.
    const SHORT: usize = 18;
    let widths: Vec<usize> = (0..titles.len())
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0))
        .zip(titles)
        .map(|(longest, title)| longest.max(title.len()))
        .collect();
    let needed: usize = widths.iter().map(|&width| if width <= SHORT { width + 3 } else { SHORT + 3 }).sum();
    for row in rows {
        let row = row.into_iter().map(|cell| shown(&cell).into_owned());
        table.add_row(row.enumerate().map(aligned));
    }
    if table.width().is_some_and(|width| usize::from(width) >= needed) {
        for column in (0..titles.len()).filter(|&column| widths[column] <= SHORT) {
            if let Some(column) = table.column_mut(column) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
    }
    table.trim_fmt()
}

/// A share as a percentage: 0.6543 becomes 65.4 %.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A number with separators: 42301 becomes 42,301.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Shows that something is going on; silent when nobody watches.
pub fn spinner(message: String) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(message);
    spinner.enable_steady_tick(Duration::from_millis(120));
    spinner
}

/// A bar for a download, with speed and time left.
pub fn download_bar(bytes: u64, name: &str) -> ProgressBar {
    let style = "{msg:28} {wide_bar} {bytes:>10} of {total_bytes:10} {bytes_per_sec:>12} {eta:>4}";
    let bar = ProgressBar::new(bytes).with_message(name.to_owned());
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// `1 epoch`, `2 epochs`.
pub fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 12, 999, 1000, 42_301, 1_234_567].map(grouped),
            ["0", "12", "999", "1,000", "42,301", "1,234,567"]
        );
    }

    #[test]
    fn a_table_has_its_titles_and_rows() {
        let text = table(&["name", "images"], &["images"], vec![vec!["a".into(), "5".into()]]);
        assert!(text.contains("name") && text.contains("images") && text.lines().count() >= 2, "{text}");
    }
}
