//! The paper's own streams, image for image (specification §3.5).
//!
//! `data/ctrl_streams_seed180.tsv.gz` has a line per stream, task, label and split:
//! `stream task label dataset class transform split count ranks`. The authors' generator made it with stream
//! seed 180; class counts and ranks are checked on loading.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use super::PAPER_SEED;
use crate::dataset::Split;
use crate::error::{Error, Result};
use crate::plan::{ClassPlan, Draw, StreamPlan, TaskPlan, Variant};
use crate::transform::{Colour, Looks, Transform};

const FILE: &[u8] = include_bytes!("../../data/ctrl_streams_seed180.tsv.gz");
const NAME: &str = "ctrl_streams_seed180.tsv.gz (inside lmc)";

/// The plan of a stream under its name in the file.
pub fn plan(name: &str, file_name: &str) -> Result<StreamPlan> {
    let text = text()?;
    let mut tasks: Vec<TaskPlan> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix(file_name).and_then(|rest| rest.strip_prefix('\t')) else {
            continue;
        };
        let fail = |problem: &str| {
            let row = format!("line {}", number + 1);
            Error::bad_at(Path::new(NAME), row, problem, "the program is damaged: install it again")
        };
        let row = PaperRow::parse(rest).ok_or_else(|| fail("the line cannot be read"))?;
        row.add_to(&mut tasks, file_name).map_err(fail)?;
    }
    let mut plan = StreamPlan {
        name: name.to_owned(),
        seed: PAPER_SEED,
        variant: Variant::Full,
        image_size: 32,
        tasks,
        class_names: BTreeMap::new(),
    };
    plan.name_tasks();
    plan.check()?;
    Ok(plan)
}

/// The CIFAR-100 classes that the file names, in alphabetical order.
pub fn cifar100_classes() -> Result<Vec<String>> {
    let tasks = plan("s_long", "s_long")?.tasks;
    let of_cifar100 = tasks.into_iter().filter(|task| task.dataset == "cifar100");
    let names: BTreeSet<String> = of_cifar100.flat_map(|task| task.classes).map(|class| class.name).collect();
    Ok(names.into_iter().collect())
}

fn text() -> Result<String> {
    let mut text = String::new();
    GzDecoder::new(FILE).read_to_string(&mut text).map_err(Error::io("unpack", Path::new(NAME)))?;
    Ok(text)
}

/// One line without the name of its stream.
struct PaperRow<'a> {
    task: usize,
    label: usize,
    dataset: &'a str,
    class: &'a str,
    transform: &'a str,
    split: Split,
    draw: Draw,
}

impl<'a> PaperRow<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [task, label, dataset, class, transform, split, count, ranks] = columns.try_into().ok()?;
        let (task, label, count) = (task.parse().ok()?, label.parse().ok()?, count.parse().ok()?);
        let split = Split::ALL.into_iter().find(|s| s.to_string() == split)?;
        let draw = match ranks {
            "ALL" => Draw::All(count),
            ranks => {
                Draw::Ranks(ranks.split(' ').map(str::parse).collect::<std::result::Result<_, _>>().ok()?)
            }
        };
        (draw.len() == count as usize).then_some(Self { task, label, dataset, class, transform, split, draw })
    }

    /// Adds the images of this line to its task; lines come in order of task, label and split.
    fn add_to(self, tasks: &mut Vec<TaskPlan>, stream: &str) -> std::result::Result<(), &'static str> {
        if self.task == tasks.len() {
            tasks.push(self.new_task(stream).ok_or("an unknown transform")?);
        }
        if self.task + 1 != tasks.len() {
            return Err("tasks are out of order");
        }
        let looks = self.looks(stream).ok_or("an unknown transform")?;
        let Some(task) = tasks.last_mut() else { return Err("no task") };
        if task.looks != looks || task.dataset != self.dataset {
            return Err("a task has two data sets or transforms");
        }
        if self.label == task.classes.len() {
            let draws = [Draw::NONE, Draw::NONE, Draw::NONE];
            task.classes.push(ClassPlan { name: self.class.to_owned(), draws });
        }
        match task.classes.get_mut(self.label) {
            Some(class) if class.name == self.class && class.draws[self.split as usize].is_empty() => {
                class.draws[self.split as usize] = self.draw;
                Ok(())
            }
            _ => Err("labels are out of order"),
        }
    }

    fn new_task(&self, stream: &str) -> Option<TaskPlan> {
        let source = if self.dataset == "cmnist" { "mnist" } else { self.dataset };
        Some(TaskPlan {
            name: String::new(),
            dataset: self.dataset.to_owned(),
            source: source.to_owned(),
            substitution: None,
            looks: self.looks(stream)?,
            from: [Split::Train, Split::Train, Split::Test],
            classes: Vec::new(),
        })
    }

    /// The file writes `background [r, g, b]` for rainbow MNIST and for coloured MNIST alike.
    fn looks(&self, stream: &str) -> Option<Looks> {
        if self.transform == "identity" {
            return Some(Looks::One(Transform::Identity));
        }
        let (kind, colour) = self.transform.split_once(' ')?;
        let channels = colour.strip_prefix('[')?.strip_suffix(']')?.split(", ").map(str::parse);
        let channels: Vec<u8> = channels.collect::<std::result::Result<_, _>>().ok()?;
        let colour = Colour(channels.try_into().ok()?);
        match (kind, self.dataset) {
            ("background", "mnist") => Some(Looks::One(Transform::Rainbow(colour))),
            ("background", _) if stream.starts_with("s_pnp") => Some(super::plug_and_play::looks(colour)),
            ("background", _) => Some(Looks::One(Transform::Background(colour))),
            ("digit", _) => Some(Looks::One(Transform::Digit(colour))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(plan: &StreamPlan) -> Vec<(&str, [usize; 3])> {
        let of = |task: &TaskPlan| Split::ALL.map(|split| task.count(split));
        plan.tasks.iter().map(|task| (task.dataset.as_str(), of(task))).collect()
    }

    #[test]
    fn s_minus_is_the_papers() {
        let plan = plan("s_minus", "s_minus").unwrap();
        let expected = [
            ("cifar10", [4000, 2000, 10_000]),
            ("mnist", [400, 200, 9786]),
            ("dtd", [400, 200, 400]),
            ("fashion-mnist", [400, 200, 10_000]),
            ("svhn", [400, 200, 10_000]),
            ("cifar10", [400, 200, 10_000]),
        ];
        assert_eq!(counts(&plan), expected);
        assert_eq!(plan.tasks[5].name, "cifar10-2");
        let names =
            |task: usize| plan.tasks[task].classes.iter().map(|c| c.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names(0)[..3], ["dog", "airplane", "bird"]);
        assert_eq!(names(0), names(5));
        // First ranks of the first line of the file.
        let Draw::Ranks(ranks) = &plan.tasks[0].classes[0].draws[0] else { panic!("not ranks") };
        assert_eq!(ranks[..4], [4574, 2465, 4921, 923]);
    }

    #[test]
    fn s_out_rotates_the_last_labels() {
        let plan = plan("s_out", "s_out").unwrap();
        let position = |task: usize, name: &str| plan.tasks[task].classes.iter().position(|c| c.name == name);
        for class in &plan.tasks[0].classes {
            let old = position(0, &class.name).unwrap();
            assert_eq!(position(5, &class.name), Some((old + 1) % 10));
        }
    }

    #[test]
    fn s_in_starts_green_and_ends_blue() {
        let plan = plan("s_in", "s_in").unwrap();
        assert_eq!(plan.tasks[0].looks, Looks::One(Transform::Rainbow(Colour::GREEN)));
        assert_eq!(plan.tasks[5].looks, Looks::One(Transform::Rainbow(Colour::BLUE)));
        assert_eq!(counts(&plan)[5], ("mnist", [50, 30, 9786]));
    }

    #[test]
    fn the_other_streams_have_their_shapes() {
        let long = plan("s_long", "s_long").unwrap();
        assert_eq!(long.tasks.len(), 100);
        assert!(long.tasks.iter().all(|task| task.classes.len() == 5));
        assert_eq!(counts(&long)[11], ("cifar100", [2250, 250, 500]));
        assert_eq!(cifar100_classes().unwrap().len(), 60);
        assert_eq!(counts(&plan("x", "s_ood_train").unwrap())[0], ("cmnist", [8000, 400, 1980]));
        assert_eq!(plan("x", "s_ood_test").unwrap().tasks.len(), 30);
        assert_eq!(counts(&plan("x", "s_pnp_comp_1").unwrap())[2], ("cmnist", [100, 100, 9786]));
        assert_eq!(counts(&plan("x", "s_pl").unwrap())[4], ("cifar10", [4000, 2000, 10_000]));
        assert_eq!(counts(&plan("x", "s_plus").unwrap())[5], ("cifar10", [4000, 2000, 10_000]));
    }
}
