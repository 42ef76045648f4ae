//! Streams of the paper's kinds for any seed and any data sets (specification §3.2-3.4).
//!
//! A recipe says per task which data set, how many classes and images, and which colours; a seed turns it
//! into a [`StreamPlan`]. Labels are positions in the list of classes; images are drawn per class without
//! replacement from the class pools of [`Pools`].

use crate::dataset::Split;
use crate::error::{Error, Result};
use crate::plan::{ClassPlan, Draw, StreamPlan, TaskPlan, Variant};
use crate::seed::{Random, Seed};
use crate::split::{Pools, Survey};
use crate::transform::{Looks, Transform};

/// The number of images per class that means all of them.
pub const ALL: u32 = u32::MAX;

/// How to draw a stream from any data sets.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Name of the stream.
    pub name: String,
    /// Seed of all draws of classes and images.
    pub seed: u64,
    /// Side in pixels to which users' own pictures are brought.
    pub image_size: usize,
    /// The tasks in the order in which they are learned.
    pub tasks: Vec<TaskRecipe>,
}

/// How to draw one task of a stream.
#[derive(Clone, Debug)]
pub struct TaskRecipe {
    /// Name of the task; by default made from data set and colours.
    pub name: Option<String>,
    /// Position of the task's data set among those of the stream.
    pub source: usize,
    /// The rule that chooses the classes.
    pub classes: ClassRule,
    /// Images per class for training, validation and test.
    pub per_class: [u32; 3],
    /// The colour transforms of the images.
    pub looks: Looks,
}

impl TaskRecipe {
    /// Makes a task of ten classes in their natural colours, with these numbers of images per class.
    pub fn ten(source: usize, train: u32, val: u32) -> Self {
        let looks = Looks::One(Transform::Identity);
        Self { name: None, source, classes: ClassRule::Drawn(10), per_class: [train, val, 1000], looks }
    }
}

/// How a task's classes, and with them its labels, are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassRule {
    /// Draws this many at random, in random order; the same for every task on the same data set.
    Drawn(usize),
    /// Draws as [`ClassRule::Drawn`] does, then moves every label up by one: new = (old + 1) mod classes.
    Rotated(usize),
    /// Draws at most this many at random, in random order, for this task alone.
    DrawnForTask(usize),
    /// Draws as [`ClassRule::DrawnForTask`] does, but there must be as many.
    Exactly(usize),
    /// Takes the classes with these label numbers, in this order.
    Numbers(Vec<usize>),
    /// Takes the classes with these names, in this order.
    Named(Vec<String>),
    /// Takes all classes, in the order of the data set.
    All,
}

/// A data set that a recipe draws from.
#[derive(Clone, Debug)]
pub struct StreamSource {
    /// Name of the data set that the stream is defined on.
    pub dataset: String,
    /// Name or path of the data set that is read.
    pub source: String,
    /// A sentence that says how `source` stands in for `dataset`.
    pub substitution: Option<String>,
    /// The classes and ranks that the source holds.
    pub survey: Survey,
}

impl Recipe {
    /// Draws classes and images of every task.
    pub fn plan(&self, sources: &[StreamSource], variant: Variant) -> Result<StreamPlan> {
        let seed = Seed::root(self.seed).named("stream");
        let pools: Vec<Pools> = sources.iter().map(|source| Pools::of(&source.survey)).collect();
        let mut tasks = Vec::with_capacity(self.tasks.len());
        for (number, recipe) in self.tasks.iter().enumerate() {
            let missing = || Error::setting("data sets", "a task has none", "name one data set per role");
            let source = sources.get(recipe.source).ok_or_else(missing)?;
            let task_seed = seed.named("task").numbered(number as u64);
            let labels = recipe.classes.choose(source, &seed, &task_seed)?;
            let task = recipe.plan(source, &pools[recipe.source], &labels, &task_seed);
            recipe.check(&task, source)?;
            tasks.push(task);
        }
        let (name, seed, image_size) = (self.name.clone(), self.seed, self.image_size);
        let class_names = sources.iter().map(|s| (s.source.clone(), s.survey.classes.clone())).collect();
        let mut plan = StreamPlan { name, seed, variant, image_size, tasks, class_names };
        plan.name_tasks();
        plan.check()?;
        Ok(plan)
    }
}

impl ClassRule {
    /// The source's label numbers in the order of the task's labels.
    fn choose(&self, source: &StreamSource, stream_seed: &Seed, task_seed: &Seed) -> Result<Vec<usize>> {
        let classes = &source.survey.classes;
        let shuffled = |count: usize, mut random: Random| -> Vec<usize> {
            let order = random.permutation(classes.len());
            order.into_iter().take(count).map(|label| label as usize).collect()
        };
        let per_dataset = stream_seed.named("classes").named(&source.survey.name);
        Ok(match self {
            Self::All => (0..classes.len()).collect(),
            Self::Drawn(count) => shuffled(*count, per_dataset.random()),
            Self::Rotated(count) => {
                let mut labels = shuffled(*count, per_dataset.random());
                let moved = labels.len().min(1);
                labels.rotate_right(moved);
                labels
            }
            Self::Exactly(count) if *count > classes.len() => {
                let problem = format!("{count} classes are asked for, but it has {}", classes.len());
                return Err(Error::setting(
                    format!("data set '{}'", source.dataset),
                    problem,
                    "ask for fewer",
                ));
            }
            Self::DrawnForTask(count) | Self::Exactly(count) => {
                shuffled(*count, task_seed.named("classes").random())
            }
            Self::Numbers(numbers) => {
                if let Some(wrong) = numbers.iter().find(|&&number| number >= classes.len()) {
                    let problem = format!("there is no class number {wrong} among its {}", classes.len());
                    return Err(Error::setting(source.source.clone(), problem, "choose another data set"));
                }
                numbers.clone()
            }
            Self::Named(names) => names
                .iter()
                .map(|name| class_label(classes, name, &source.source))
                .collect::<Result<Vec<usize>>>()?,
        })
    }
}

/// The label of a class, by its name or, for digits (`6 - six`), by its number.
pub fn class_label(classes: &[String], name: &str, source: &str) -> Result<usize> {
    let number = |text: &str| text.split(" - ").next().and_then(|first| first.parse::<u32>().ok());
    let exact = classes.iter().position(|class| class == name);
    let wanted = number(name);
    let by_number = || classes.iter().position(|class| wanted.is_some() && number(class) == wanted);
    exact.or_else(by_number).ok_or_else(|| {
        let cure = format!("'{source}' has {}", abridged(classes));
        Error::unknown("class", name, classes.iter().map(String::as_str), cure)
    })
}

fn abridged(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

impl TaskRecipe {
    /// A task that nothing can be learned from is refused here, not by a network much later.
    fn check(&self, task: &TaskPlan, source: &StreamSource) -> Result<()> {
        let fail = |problem: String, cure: &str| {
            Err(Error::setting(format!("data set '{}'", source.dataset), problem, cure))
        };
        if task.classes.len() < 2 {
            let problem = format!("a task needs two classes or more, and this has {}", task.classes.len());
            return fail(problem, "add a class, or choose other data");
        }
        for class in &task.classes {
            for split in Split::ALL {
                if self.per_class[split as usize] > 0 && class.draws[split as usize].is_empty() {
                    let problem = format!("class '{}' has no image for {split}", class.name);
                    return fail(problem, "add images: three or more a class, or some in every split");
                }
            }
        }
        Ok(())
    }

    fn plan(&self, source: &StreamSource, pools: &Pools, labels: &[usize], seed: &Seed) -> TaskPlan {
        let class = |&label: &usize| {
            let draw = |split: Split| {
                let seed = seed.named(&split.to_string()).numbered(label as u64);
                Draw::Ranks(pools.draw(split, label, self.per_class[split as usize], &mut seed.random()))
            };
            ClassPlan { name: source.survey.classes[label].clone(), draws: Split::ALL.map(draw) }
        };
        // The paper calls MNIST with black or coloured digits by a name of its own.
        let coloured = !matches!(self.looks, Looks::One(Transform::Identity | Transform::Rainbow(_)));
        let dataset = if coloured && source.dataset == "mnist" { "cmnist" } else { &source.dataset };
        TaskPlan {
            name: self.name.clone().unwrap_or_default(),
            dataset: dataset.to_owned(),
            source: source.source.clone(),
            substitution: source.substitution.clone(),
            looks: self.looks,
            from: pools.from,
            classes: labels.iter().map(class).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn source(name: &str, classes: usize, train: u32, test: u32) -> StreamSource {
        let ranks = |n: u32| vec![(0..n).collect::<Vec<u32>>(); classes];
        let survey = Survey {
            name: name.into(),
            classes: (0..classes).map(|class| format!("{class} - c{class}")).collect(),
            ranks: [ranks(train), ranks(0), ranks(test)],
        };
        StreamSource { dataset: name.into(), source: name.into(), substitution: None, survey }
    }

    fn recipe(seed: u64, tasks: Vec<TaskRecipe>) -> Recipe {
        Recipe { name: "test".into(), seed, image_size: 32, tasks }
    }

    #[test]
    fn the_same_seed_gives_the_same_stream_and_another_another() {
        let sources = [source("a", 20, 600, 100)];
        let of = |seed| recipe(seed, vec![TaskRecipe::ten(0, 40, 20)]).plan(&sources, Variant::Full).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1).tasks, of(2).tasks);
    }

    #[test]
    fn a_returning_data_set_keeps_classes_and_labels_but_draws_new_images() {
        let sources = [source("a", 20, 600, 100), source("b", 10, 600, 100)];
        let tasks = vec![TaskRecipe::ten(0, 40, 20), TaskRecipe::ten(1, 40, 20), TaskRecipe::ten(0, 40, 20)];
        let plan = recipe(7, tasks).plan(&sources, Variant::Full).unwrap();
        let names = |t: usize| plan.tasks[t].classes.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(0), names(2));
        assert_ne!(plan.tasks[0].classes[0].draws[0], plan.tasks[2].classes[0].draws[0]);
        assert_eq!(Split::ALL.map(|s| plan.tasks[0].count(s)), [400, 200, 1000]);
        assert_eq!(plan.tasks[2].name, "a-2");
    }

    #[test]
    fn rotation_moves_every_label_up_by_one() {
        let sources = [source("a", 10, 600, 100)];
        let rotated = TaskRecipe { classes: ClassRule::Rotated(10), ..TaskRecipe::ten(0, 4, 2) };
        let plan = recipe(7, vec![TaskRecipe::ten(0, 4, 2), rotated]).plan(&sources, Variant::Full).unwrap();
        for (label, class) in plan.tasks[0].classes.iter().enumerate() {
            assert_eq!(plan.tasks[1].classes[(label + 1) % 10].name, class.name);
        }
    }

    #[test]
    fn classes_are_found_by_name_or_number_and_unknown_ones_named() {
        let sources = [source("a", 3, 60, 10)];
        let named = |names: &[&str]| {
            let classes = ClassRule::Named(names.iter().map(ToString::to_string).collect());
            recipe(1, vec![TaskRecipe { classes, ..TaskRecipe::ten(0, 4, 2) }]).plan(&sources, Variant::Full)
        };
        assert_eq!(named(&["2", "0 - c0"]).unwrap().tasks[0].classes[0].name, "2 - c2");
        let error = named(&["9"]).unwrap_err().to_string();
        assert!(error.contains("no class called '9'") && error.contains("0 - c0"), "{error}");
        assert!(named(&["2", "2"]).unwrap_err().to_string().contains("twice"));
    }
}
