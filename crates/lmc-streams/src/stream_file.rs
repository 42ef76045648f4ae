//! Streams of one's own, as TOML files.
//!
//! ```toml
//! name = "garden"          # default: the file's name
//! seed = 1                 # default 1; decides every draw
//! image_size = 32          # default 32; own pictures become squares of this side
//!
//! [[task]]
//! data = "photos/flowers"  # a known name, a generated one, or a path beside this file
//! name = "flowers"         # default: made from `data`
//! classes = ["rose", "lily"]   # or a number to draw at random; default all
//! train = 40               # images per class, or "all", which is the default
//! val = 20
//! test = "all"
//! transform = "identity"   # or "rainbow green", "background red", "digit blue"
//! ```

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::catalog::recipe::{ALL, ClassRule, Recipe, TaskRecipe};
use crate::datasets::known;
use crate::error::{Error, Result};
use crate::generated::Family;
use crate::regular_file::read_text;
use crate::transform::{Looks, Transform};

/// A stream as its user wrote it. Unknown keys are errors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamFile {
    /// Name of the stream; the name of the file by default.
    pub name: Option<String>,
    /// Seed of all draws of classes and images; 1 by default.
    pub seed: Option<u64>,
    /// Side in pixels to which the user's pictures are brought; 32 by default.
    pub image_size: Option<usize>,
    /// The tasks in the order in which they are learned.
    #[serde(default)]
    pub task: Vec<TaskEntry>,
}

/// One task of a stream file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskEntry {
    /// Name of the task; made from `data` by default.
    pub name: Option<String>,
    /// Name of a known or generated data set, or a path.
    pub data: String,
    /// The classes of the task; all by default.
    pub classes: Option<Classes>,
    /// Number of training images per class; all by default.
    pub train: Option<Amount>,
    /// Number of validation images per class; all by default.
    pub val: Option<Amount>,
    /// Number of test images per class; all by default.
    pub test: Option<Amount>,
    /// Colour transform of the images; none by default.
    pub transform: Option<String>,
}

/// Which classes a task has.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number of classes or a list of class names")]
pub enum Classes {
    /// This many classes, drawn at random.
    Number(usize),
    /// The classes with these names, in this order.
    Names(Vec<String>),
}

/// How many images of a class a task uses.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected a number of images per class or \"all\"")]
pub enum Amount {
    /// At most this many images.
    Count(u32),
    /// The word `all`: every image.
    Word(String),
}

const EXAMPLE: &str = "see 'Streams of your own' in docs/streams.md";

impl StreamFile {
    /// Reads and checks a stream file.
    pub fn read(path: &Path) -> Result<Self> {
        const LARGEST: u64 = 4 << 20;
        let mut file = Self::parse_at(&read_text(path, LARGEST)?, path)?;
        if file.name.is_none() {
            file.name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        }
        Ok(file)
    }

    /// Reads and checks the text of a stream file.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_at(text, Path::new("stream"))
    }

    fn parse_at(text: &str, path: &Path) -> Result<Self> {
        let file: Self = toml::from_str(text).map_err(|error: toml::de::Error| {
            let problem = error.message().trim().replace('\n', " ");
            match error.span() {
                Some(span) => {
                    let line = text.get(..span.start).unwrap_or_default().matches('\n').count() + 1;
                    Error::bad_at(path, format!("line {line}"), problem, EXAMPLE)
                }
                None => Error::bad(path, problem, EXAMPLE),
            }
        })?;
        file.check(path)?;
        Ok(file)
    }

    fn check(&self, path: &Path) -> Result<()> {
        let fail = |place: &str, problem: &str, cure: &str| Err(Error::bad_at(path, place, problem, cure));
        if self.task.is_empty() {
            return fail("key 'task'", "the stream has no tasks", "add a [[task]] with data = \"...\"");
        }
        if self.image_size.is_some_and(|size| !(8..=512).contains(&size)) {
            return fail("key 'image_size'", "it is out of range", "use 8 to 512");
        }
        let odd =
            |name: &Option<String>| name.as_ref().is_some_and(|name| name.chars().any(char::is_control));
        if odd(&self.name) || self.task.iter().any(|task| odd(&task.name)) {
            return fail("key 'name'", "a name holds a control character", "use letters and digits");
        }
        let mut names = HashSet::new();
        for (number, task) in self.task.iter().enumerate() {
            let place = format!("task {}", number + 1);
            if task.data.trim().is_empty() {
                return fail(&place, "'data' is empty", "name a data set or a path");
            }
            if task.name.as_ref().is_some_and(|name| name.trim().is_empty() || !names.insert(name)) {
                return fail(&place, "its name is empty or taken", "give every task a name of its own");
            }
            match &task.classes {
                Some(Classes::Number(0 | 1)) => {
                    return fail(&place, "fewer than two classes", "use two or more");
                }
                Some(Classes::Names(names)) if names.len() < 2 => {
                    return fail(&place, "fewer than two classes", "name two or more");
                }
                _ => {}
            }
            if task.amounts().map_err(|problem| Error::bad_at(path, &*place, problem, EXAMPLE))?[0] == 0 {
                return fail(&place, "'train' is 0", "use 1 or more, or \"all\"");
            }
            task.looks().map_err(|error| Error::bad_at(path, &*place, error.to_string(), EXAMPLE))?;
        }
        Ok(())
    }

    /// The data sets that the tasks name, and the recipe that draws from them. Paths are taken relative to
    /// the folder of the file.
    pub fn recipe(&self, folder: &Path, seed: Option<u64>) -> Result<(Vec<String>, Recipe)> {
        let mut sources: Vec<String> = Vec::new();
        let mut tasks = Vec::with_capacity(self.task.len());
        for task in &self.task {
            let data = resolve(folder, &task.data);
            let source = sources.iter().position(|known| *known == data).unwrap_or_else(|| {
                sources.push(data);
                sources.len() - 1
            });
            let classes = match &task.classes {
                None => ClassRule::All,
                Some(Classes::Number(count)) => ClassRule::Exactly(*count),
                Some(Classes::Names(names)) => ClassRule::Named(names.clone()),
            };
            let per_class = task.amounts().map_err(|problem| Error::setting("task", problem, EXAMPLE))?;
            tasks.push(TaskRecipe {
                name: task.name.clone(),
                source,
                classes,
                per_class,
                looks: task.looks()?,
            });
        }
        let name = self.name.clone().unwrap_or_else(|| "stream".to_owned());
        let seed = seed.or(self.seed).unwrap_or(1);
        Ok((sources, Recipe { name, seed, image_size: self.image_size.unwrap_or(32), tasks }))
    }
}

/// A name that is known, else a path beside the file if there is one (`./mnist` is a path, `mnist` is not).
fn resolve(folder: &Path, data: &str) -> String {
    if known::find(data).is_ok() || Family::from_name(data).is_some() {
        return data.to_owned();
    }
    let beside: PathBuf = folder.join(data);
    if beside.exists() { beside.to_string_lossy().into_owned() } else { data.to_owned() }
}

impl TaskEntry {
    fn amounts(&self) -> std::result::Result<[u32; 3], String> {
        let amount = |amount: &Option<Amount>| match amount {
            None => Ok(ALL),
            Some(Amount::Count(count)) => Ok(*count),
            Some(Amount::Word(word)) if word == "all" => Ok(ALL),
            Some(Amount::Word(word)) => {
                Err(format!("'{word}' is not a number of images; use a number or \"all\""))
            }
        };
        Ok([amount(&self.train)?, amount(&self.val)?, amount(&self.test)?])
    }

    fn looks(&self) -> Result<Looks> {
        let transform = self.transform.as_deref().map_or(Ok(Transform::Identity), str::parse);
        transform.map(Looks::One)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let text = include_str!("stream_file.rs");
        let example: String = text
            .lines()
            .skip_while(|line| !line.contains("```toml"))
            .skip(1)
            .take_while(|line| !line.contains("```"))
            .map(|line| format!("{}\n", line.trim_start_matches("//!")))
            .collect();
        let file = StreamFile::parse(&example).unwrap();
        let (sources, recipe) = file.recipe(Path::new("."), None).unwrap();
        assert_eq!(sources, ["photos/flowers"]);
        assert_eq!(recipe.tasks[0].per_class, [40, 20, ALL]);
        assert_eq!((recipe.name.as_str(), recipe.seed), ("garden", 1));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let cases = [
            ("[[task]]\ndata = \"mnist\"\ntrian = 3\n", ["line 3", "trian"]),
            ("[[task]]\ndata = 5\n", ["line 2", "string"]),
            ("name = \"x\"\n", ["task", "no tasks"]),
            ("[[task]]\ndata = \"mnist\"\nclasses = 1\n", ["task 1", "two classes"]),
            ("[[task]]\ndata = \"mnist\"\ntrain = 0\n", ["task 1", "'train' is 0"]),
            ("[[task]]\ndata = \"mnist\"\ntrain = \"some\"\n", ["task 1", "'some'"]),
            ("[[task]]\ndata = \"mnist\"\ntrain = -4\n", ["line 3", "number of images"]),
            ("[[task]]\ndata = \"mnist\"\ntransform = \"pink\"\n", ["task 1", "'pink'"]),
            ("image_size = 4\n[[task]]\ndata = \"mnist\"\n", ["image_size", "8 to 512"]),
            (
                "[[task]]\nname=\"a\"\ndata=\"mnist\"\n[[task]]\nname=\"a\"\ndata=\"svhn\"\n",
                ["task 2", "taken"],
            ),
            ("[[task]\n", ["line 1", ""]),
        ];
        for (text, parts) in cases {
            let error = StreamFile::parse(text).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{text:?}: {error}");
            assert!(!error.contains('\n'), "one line: {error}");
        }
    }
}
