//! When the acts in a model's history happened: a small file beside the model (`shop.lmc.dates`).
//!
//! Two equal runs end in equal model files, bit for bit; dates would differ. A model that is copied without this file loses
//! its dates and nothing else. A line is the time in UTC and the entry of the history: `2026-11-18T09:30:00Z 0123456789abcdef`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use lmc_streams::{followed, replace_file_like};

use super::history::History;
use crate::error::Result;

/// Times of history entries, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dates(BTreeMap<String, String>);

/// More of a file of dates than anyone has.
const LARGEST: u64 = 4 << 20;

impl Dates {
    /// The dates beside a model file; none if there is no such file. Lines that are none of ours are skipped.
    pub fn read(model: &Path) -> Self {
        let mut text = String::new();
        let path = path(&followed(model).unwrap_or_else(|_| model.to_owned()));
        if path.is_file()
            && let Ok(file) = File::open(path)
        {
            // Dates are a courtesy: a file that cannot be read has none.
            let _ = file.take(LARGEST).read_to_string(&mut text);
        }
        let line = |line: &str| {
            let (time, entry) = line.split_once(' ')?;
            let plain = |text: &str| {
                text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-:".contains(letter))
            };
            (plain(time) && plain(entry)).then(|| (entry.to_owned(), time.to_owned()))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// When an entry of the history happened.
    pub fn of(&self, entry: &str) -> Option<&str> {
        self.0.get(entry).map(String::as_str)
    }

    /// Adds the dates of another model.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Writes the dates of the entries of a history beside a model file. Entries of other processes that have no date, as
    /// in a model that was copied without its dates, stay without.
    pub(crate) fn write(&self, model: &Path, history: &History) -> Result<()> {
        let mut text = String::new();
        for entry in &history.entries {
            let known = self.of(&entry.id).map(str::to_owned);
            if let Some(time) = known.or_else(|| entry.now.0.map(date)) {
                let _ = writeln!(text, "{time} {}", entry.id);
            }
        }
        Ok(replace_file_like(&path(model), text.as_bytes(), model)?)
    }
}

/// The file of dates beside a model file.
pub(crate) fn path(model: &Path) -> PathBuf {
    super::beside(model, ".dates")
}

/// A time in UTC, to the second, as ISO 8601 has it.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that the leap day is their last; 719,468 days lie between 1 March of the year 0
    // and 1 January 1970, and 400 years have 146,097 days.
    let days = days + 719_468;
    let (centuries, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = centuries * 400 + year + u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_by_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
