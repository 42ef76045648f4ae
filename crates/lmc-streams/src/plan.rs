//! A stream as data: which images, by rank, make up which task. Nothing is read yet.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::str::FromStr;

use crate::dataset::Split;
use crate::error::{Error, Result};
use crate::transform::{Looks, Transform};

/// The tasks of a stream and the images that each is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamPlan {
    /// Name of the stream: `s_minus`, or that in a user's file.
    pub name: String,
    /// The seed from which the stream was drawn.
    pub seed: u64,
    /// Which variant of the stream this is.
    pub variant: Variant,
    /// Side in pixels to which users' own pictures are brought.
    pub image_size: usize,
    /// The tasks in the order in which they are learned.
    pub tasks: Vec<TaskPlan>,
    /// All class names of the sources that were looked into for the plan, so that loading need not look again.
    pub class_names: BTreeMap<String, Vec<String>>,
}

/// Which images make up a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPlan {
    /// Name of the task, unique in the stream; empty until [`StreamPlan::name_tasks`] has made one.
    pub name: String,
    /// The data set that the stream is defined on.
    pub dataset: String,
    /// The data set that is read: a known name or a path. Differs from `dataset` in substitutions.
    pub source: String,
    /// A sentence that says how and by what `dataset` is substituted.
    pub substitution: Option<String>,
    /// The colour transforms of the images.
    pub looks: Looks,
    /// Source splits of training, validation and test images.
    pub from: [Split; 3],
    /// The classes in label order.
    pub classes: Vec<ClassPlan>,
}

/// Which images of a class belong to a task.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassPlan {
    /// Name of the class in the source.
    pub name: String,
    /// The images of the class, `[split]`.
    pub draws: [Draw; 3],
}

/// Some images of a class.
#[derive(Clone, Debug, PartialEq)]
pub enum Draw {
    /// All images that the source split has, which must be this many, in file order.
    All(u32),
    /// The images with these ranks, in this order.
    Ranks(Vec<u32>),
}

impl Draw {
    /// Draws no images.
    pub const NONE: Self = Self::Ranks(Vec::new());

    /// Number of images that are drawn.
    pub fn len(&self) -> usize {
        match self {
            Self::All(count) => *count as usize,
            Self::Ranks(ranks) => ranks.len(),
        }
    }

    /// Whether no images are drawn.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first tenth, at least one image if there was any.
    fn tenth(&self) -> Self {
        let some = if self.is_empty() { 0 } else { (self.len() / 10).max(1) };
        match self {
            Self::All(_) => Self::Ranks((0..some as u32).collect()),
            Self::Ranks(ranks) => Self::Ranks(ranks[..some].to_vec()),
        }
    }
}

impl TaskPlan {
    /// Number of images that the task draws for a split.
    pub fn count(&self, split: Split) -> usize {
        self.classes.iter().map(|class| class.draws[split as usize].len()).sum()
    }

    /// A name from data set, pair of classes and colours: `cmnist-01-background-red`.
    fn describe(&self) -> String {
        let path = std::path::Path::new(&self.dataset);
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let mut parts = vec![stem.unwrap_or(&self.dataset).to_owned()];
        if let [first, second] = &self.classes[..] {
            let short = |class: &ClassPlan| class.name.split(" - ").next().unwrap_or_default().to_owned();
            let (first, second) = (short(first), short(second));
            let dash = if first.len() + second.len() > 2 { "-" } else { "" };
            parts.push(format!("{first}{dash}{second}"));
        }
        if let Some(transform) = self.looks.transforms().first().filter(|&&t| t != Transform::Identity) {
            parts.push(transform.to_string().replace(' ', "-"));
        }
        parts.join("-")
    }

    /// Labels unique, ranks unique, training and validation disjoint: what every plan must fulfil.
    pub fn check(&self) -> Result<()> {
        let fail = |problem: String| {
            let field = format!("task '{}'", self.name);
            Err(Error::setting(field, problem, "the stream's definition is damaged: correct it"))
        };
        let mut names = HashSet::new();
        for class in &self.classes {
            if !names.insert(&class.name) {
                return fail(format!("class '{}' occurs twice", class.name));
            }
            // Two splits of a task that come from one source split must not share an image.
            for (split, draw) in Split::ALL.iter().zip(&class.draws) {
                let Draw::Ranks(ranks) = draw else { continue };
                let mut seen: HashSet<u32> = HashSet::with_capacity(ranks.len());
                if let Some(twice) = ranks.iter().find(|&&rank| !seen.insert(rank)) {
                    return fail(format!("image {twice} of class '{}' occurs twice in {split}", class.name));
                }
                for other in Split::ALL.into_iter().filter(|other| other > split) {
                    let same_source = self.from[*split as usize] == self.from[other as usize];
                    let Draw::Ranks(others) = &class.draws[other as usize] else { continue };
                    if let Some(shared) = others.iter().find(|rank| same_source && seen.contains(rank)) {
                        return fail(format!(
                            "image {shared} of class '{}' is in {split} and {other}",
                            class.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

impl StreamPlan {
    /// The same stream with a tenth of the images, for quick trials.
    pub fn mini(mut self) -> Self {
        for class in self.tasks.iter_mut().flat_map(|task| &mut task.classes) {
            class.draws = [0, 1, 2].map(|split: usize| class.draws[split].tenth());
        }
        self.variant = self.variant.with_mini();
        self
    }

    /// Gives tasks without a name one, and makes names unique: the second `cifar10` becomes `cifar10-2`.
    pub fn name_tasks(&mut self) {
        for at in 0..self.tasks.len() {
            let (before, rest) = self.tasks.split_at_mut(at);
            let Some(task) = rest.first_mut() else { continue };
            if task.name.is_empty() {
                task.name = task.describe();
            }
            let base = task.name.clone();
            let mut number = 2;
            while before.iter().any(|other| other.name == task.name) {
                task.name = format!("{base}-{number}");
                number += 1;
            }
        }
    }

    /// Checks that every task is consistent ([`TaskPlan::check`]).
    pub fn check(&self) -> Result<()> {
        self.tasks.iter().try_for_each(TaskPlan::check)
    }
}

/// An edition of a stream: which images take part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Variant {
    /// The real data if they are on this machine, else the generated sets.
    #[default]
    Auto,
    /// The real data, or an error that says how to get them.
    Full,
    /// A tenth of the images of every task.
    Mini,
    /// The generated sets instead of the real ones.
    Generated,
    /// A tenth of the images of the generated sets.
    GeneratedMini,
}

impl Variant {
    /// All variants of a stream.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Full, Self::Mini, Self::Generated, Self::GeneratedMini];

    /// Whether only a tenth of the images take part.
    pub fn is_mini(self) -> bool {
        matches!(self, Self::Mini | Self::GeneratedMini)
    }

    /// Whether generated images take the place of real ones.
    pub fn is_generated(self) -> bool {
        matches!(self, Self::Generated | Self::GeneratedMini)
    }

    fn with_mini(self) -> Self {
        if self.is_generated() { Self::GeneratedMini } else { Self::Mini }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Full => "full",
            Self::Mini => "mini",
            Self::Generated => "generated",
            Self::GeneratedMini => "generated-mini",
        })
    }
}

impl FromStr for Variant {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let names = Self::ALL.map(|variant| variant.to_string());
        let found = Self::ALL.into_iter().zip(&names).find(|(_, name)| *name == text);
        found.map(|(variant, _)| variant).ok_or_else(|| {
            let cure = format!("use one of {}", names.join(", "));
            Error::unknown("variant", text, names.iter().map(String::as_str), cure)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, draws: [Draw; 3]) -> TaskPlan {
        TaskPlan {
            name: name.into(),
            dataset: "d".into(),
            source: "d".into(),
            substitution: None,
            looks: Looks::One(Transform::Identity),
            from: [Split::Train, Split::Train, Split::Test],
            classes: vec![ClassPlan { name: "c".into(), draws }],
        }
    }

    fn plan(tasks: Vec<TaskPlan>) -> StreamPlan {
        StreamPlan {
            name: "s".into(),
            seed: 1,
            variant: Variant::Full,
            image_size: 32,
            tasks,
            class_names: BTreeMap::new(),
        }
    }

    #[test]
    fn a_tenth_but_never_nothing() {
        let draws = [Draw::Ranks((0..40).rev().collect()), Draw::Ranks(vec![50, 51, 52]), Draw::All(1000)];
        let mini = plan(vec![task("t", draws)]).mini();
        assert_eq!(Split::ALL.map(|split| mini.tasks[0].count(split)), [4, 1, 100]);
        assert_eq!(mini.tasks[0].classes[0].draws[0], Draw::Ranks(vec![39, 38, 37, 36]));
        assert_eq!(mini.variant, Variant::Mini);
        assert_eq!(
            plan(vec![task("t", [Draw::NONE, Draw::NONE, Draw::NONE])]).mini().tasks[0].count(Split::Test),
            0
        );
    }

    #[test]
    fn names_become_unique() {
        let none = || [Draw::NONE, Draw::NONE, Draw::NONE];
        let mut plan = plan(vec![task("a", none()), task("b", none()), task("a", none()), task("a", none())]);
        plan.name_tasks();
        assert_eq!(plan.tasks.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b", "a-2", "a-3"]);
    }

    #[test]
    fn shared_and_repeated_images_are_refused() {
        let ranks = |list: &[u32]| Draw::Ranks(list.to_vec());
        assert!(
            task("t", [ranks(&[1, 2]), ranks(&[3]), ranks(&[1])]).check().is_ok(),
            "test is another split"
        );
        let shared = task("t", [ranks(&[1, 2]), ranks(&[2]), Draw::NONE]).check().unwrap_err().to_string();
        assert!(shared.contains("in train and val"), "{shared}");
        let twice = task("t", [ranks(&[1, 1]), Draw::NONE, Draw::NONE]).check().unwrap_err().to_string();
        assert!(twice.contains("twice in train"), "{twice}");
    }

    #[test]
    fn variants_read_back() {
        for variant in Variant::ALL {
            assert_eq!(variant.to_string().parse::<Variant>().unwrap(), variant);
        }
        assert!("genreated".parse::<Variant>().unwrap_err().to_string().contains("did you mean 'generated'"));
    }
}
