//! What reading a user's data gave and what it left out: nothing is dropped silently.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::dataset::Split;
use crate::error::Error;
use crate::task::Task;

/// What was read for a task: pictures per class and split, and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReadReport {
    /// Name of the data set: a known name, or that of the user's folder or file.
    pub dataset: String,
    /// Pictures of every class, in label order.
    pub classes: Vec<ClassReport>,
    /// Files that are no pictures, and pictures that could not be read.
    #[serde(flatten)]
    pub left_out: LeftOut,
}

/// How many pictures of one class a task has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassReport {
    /// Name of the class.
    pub name: String,
    /// Number of training pictures.
    pub train: usize,
    /// Number of validation pictures.
    pub val: usize,
    /// Number of test pictures.
    pub test: usize,
}

/// What a reader found and did not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Files that are no pictures by their extension, counted by it.
    pub skipped: SkippedFiles,
    /// Pictures that could not be read and were left out because [`crate::ReadOptions::skip_damaged`] said so.
    pub damaged: Vec<DamagedPicture>,
}

/// Files that were not read, counted by extension: in lower case, without the dot, empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SkippedFiles(BTreeMap<String, usize>);

/// A picture that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedPicture {
    /// The file, or the file and the row in it.
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
}

impl ReadReport {
    /// The report on a task and on what was left out while its data were read.
    pub(crate) fn of(task: &Task, left_out: LeftOut) -> Self {
        let mut classes: Vec<ClassReport> = task
            .classes
            .iter()
            .map(|name| ClassReport { name: name.clone(), ..ClassReport::default() })
            .collect();
        for split in Split::ALL {
            let set = task.set(split);
            for position in 0..set.len() {
                if let Some(class) = classes.get_mut(set.label(position) as usize) {
                    *class.count_mut(split) += 1;
                }
            }
        }
        Self { dataset: task.dataset.clone(), classes, left_out }
    }

    /// Number of pictures of a split, over all classes.
    pub fn pictures(&self, split: Split) -> usize {
        self.classes.iter().map(|class| class.count(split)).sum()
    }
}

impl ClassReport {
    /// Number of pictures of a split.
    pub fn count(&self, split: Split) -> usize {
        match split {
            Split::Train => self.train,
            Split::Val => self.val,
            Split::Test => self.test,
        }
    }

    fn count_mut(&mut self, split: Split) -> &mut usize {
        match split {
            Split::Train => &mut self.train,
            Split::Val => &mut self.val,
            Split::Test => &mut self.test,
        }
    }
}

impl LeftOut {
    /// Whether nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.skipped.is_empty() && self.damaged.is_empty()
    }

    /// Plain text, a line for each thing that was left out: `10 files skipped: 5 .heic, 5 .txt`, then the damaged
    /// pictures. Empty if nothing was.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.skipped.is_empty() {
            lines.push(self.skipped.to_string());
        }
        if !self.damaged.is_empty() {
            lines.push(format!(
                "{} left out: {}",
                pictures_are_damaged(&self.damaged),
                abridged(&self.damaged)
            ));
        }
        lines
    }
}

impl SkippedFiles {
    /// Counts a file by its extension.
    pub(crate) fn add(&mut self, path: &Path) {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        *self.0.entry(extension).or_default() += 1;
    }

    /// Counts all files of another count, too.
    pub fn extend(&mut self, other: Self) {
        for (extension, count) in other.0 {
            *self.0.entry(extension).or_default() += count;
        }
    }

    /// Number of files that were skipped.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Whether no file was skipped.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Extensions and counts, the most frequent first.
    pub fn by_extension(&self) -> Vec<(&str, usize)> {
        let mut counts: Vec<(&str, usize)> =
            self.0.iter().map(|(extension, &count)| (extension.as_str(), count)).collect();
        counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        counts
    }
}

impl fmt::Display for SkippedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self
            .by_extension()
            .into_iter()
            .map(|(extension, count)| match extension {
                "" => format!("{count} without extension"),
                extension => format!("{count} .{extension}"),
            })
            .collect();
        match self.total() {
            0 => f.write_str("no files skipped"),
            1 => write!(f, "1 file skipped: {}", kinds.join(", ")),
            total => write!(f, "{total} files skipped: {}", kinds.join(", ")),
        }
    }
}

impl DamagedPicture {
    /// The place and the problem of an error that a picture caused.
    pub(crate) fn from_error(error: &Error) -> Self {
        match error {
            Error::BadData { place, problem, .. } => {
                Self { place: place.to_string(), problem: problem.clone() }
            }
            Error::Io { path, cause, .. } => {
                Self { place: path.display().to_string(), problem: format!("cannot be read ({cause})") }
            }
            other => Self { place: String::new(), problem: other.to_string() },
        }
    }
}

/// Gives one error that lists the damaged pictures below or in `source`; a single picture keeps its own.
pub(crate) fn damaged_error(source: &Path, mut errors: Vec<Error>) -> Error {
    if errors.len() == 1 {
        return errors.remove(0);
    }
    let damaged: Vec<DamagedPicture> = errors.iter().map(DamagedPicture::from_error).collect();
    let problem = format!("{}: {}", pictures_are_damaged(&damaged), abridged(&damaged));
    Error::bad(source, problem, "replace or remove them, or leave them out with --skip-damaged")
}

fn pictures_are_damaged(damaged: &[DamagedPicture]) -> String {
    match damaged.len() {
        1 => "1 damaged picture".to_owned(),
        count => format!("{count} damaged pictures"),
    }
}

/// The first few pictures with their problems, and how many more there are.
fn abridged(damaged: &[DamagedPicture]) -> String {
    const SHOWN: usize = 10;
    let shown: Vec<String> = damaged
        .iter()
        .take(SHOWN)
        .map(|picture| format!("{} ({})", picture.place, picture.problem))
        .collect();
    let more = damaged.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(files: &[&str]) -> SkippedFiles {
        let mut skipped = SkippedFiles::default();
        files.iter().for_each(|file| skipped.add(Path::new(file)));
        skipped
    }

    fn errors(count: usize) -> Vec<Error> {
        (0..count).map(|at| Error::bad(Path::new(&format!("{at}.png")), "cut short", "replace it")).collect()
    }

    #[test]
    fn skipped_files_are_counted_by_extension() {
        let files = skipped(&["a.HEIC", "b.heic", "LICENSE", "c.txt", "d.txt", "e.txt"]);
        assert_eq!(files.to_string(), "6 files skipped: 3 .txt, 2 .heic, 1 without extension");
        assert_eq!(skipped(&["x/a.b.tar"]).to_string(), "1 file skipped: 1 .tar");
        let mut both = files.clone();
        both.extend(skipped(&["z.heic", "y.heic"]));
        assert_eq!(both.by_extension()[0], ("heic", 4));
        assert_eq!(both.total(), 8);
        assert_eq!(serde_json::to_string(&files).unwrap(), r#"{"":1,"heic":2,"txt":3}"#);
    }

    #[test]
    fn one_damaged_picture_keeps_its_message_and_many_are_listed_up_to_ten() {
        let folder = Path::new("photos");
        assert_eq!(damaged_error(folder, errors(1)).to_string(), "0.png: cut short; replace it");
        let text = damaged_error(folder, errors(2)).to_string();
        assert_eq!(
            text,
            "photos: 2 damaged pictures: 0.png (cut short), 1.png (cut short); \
             replace or remove them, or leave them out with --skip-damaged"
        );
        let text = damaged_error(folder, errors(13)).to_string();
        assert!(text.contains("9.png (cut short), and 3 more;") && !text.contains("10.png"), "{text}");
    }

    #[test]
    fn what_was_left_out_is_said_in_lines() {
        let damaged = errors(1).iter().map(DamagedPicture::from_error).collect();
        let left_out = LeftOut { skipped: skipped(&["a.txt"]), damaged };
        assert_eq!(
            left_out.lines(),
            ["1 file skipped: 1 .txt", "1 damaged picture left out: 0.png (cut short)"]
        );
        assert!(LeftOut::default().lines().is_empty() && LeftOut::default().is_empty());
        let json = serde_json::to_value(ReadReport { left_out, ..ReadReport::default() }).unwrap();
        assert_eq!(json["skipped"]["txt"], 1);
        assert_eq!(json["damaged"][0]["place"], "0.png");
    }
}
