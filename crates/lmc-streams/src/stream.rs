//! A stream: tasks, one after the other, with their images.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::class_label;
use crate::dataset::{Dataset, Split};
use crate::error::{Error, Result};
use crate::image_set::{ImageSet, ImageShape};
use crate::plan::{ClassPlan, Draw, StreamPlan, TaskPlan, Variant};
use crate::seed::Seed;
use crate::task::{Task, TaskItem, TaskSet};

/// A stream of tasks, ready to learn from.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Name of the stream: `s_minus`, or what the user's file says.
    pub name: String,
    /// The seed from which the stream was drawn.
    pub seed: u64,
    /// Which edition of the stream this is.
    pub variant: Variant,
    /// The tasks in the order in which they are learned.
    pub tasks: Vec<Task>,
    /// What stands in for what; every table and report must show it.
    pub substitutions: Vec<String>,
}

/// The pairs (rank, index) of an image set, sorted, by class.
type Ranks = Vec<Vec<(u32, u32)>>;

impl Stream {
    /// Puts a stream together from a plan and data sets in memory, by source name. Copies no image.
    pub fn assemble(plan: &StreamPlan, sets: &HashMap<String, Arc<Dataset>>) -> Result<Self> {
        let mut ranks: HashMap<(&str, Split), Ranks> = HashMap::new();
        let mut tasks = Vec::with_capacity(plan.tasks.len());
        for (number, task) in plan.tasks.iter().enumerate() {
            let missing = || {
                let problem = format!("its data set '{}' was not loaded", task.source);
                Error::setting(format!("task '{}'", task.name), problem, "load it first")
            };
            let set = sets.get(&task.source).ok_or_else(missing)?;
            for split in task.from {
                let images = set.split(split);
                ranks
                    .entry((&task.source, split))
                    .or_insert_with(|| images.map_or_else(Vec::new, |i| i.by_class()));
            }
            let seed = Seed::root(plan.seed).named("looks").numbered(number as u64);
            let view = |split: Split| {
                let from = task.from[split as usize];
                let ranks = ranks.get(&(task.source.as_str(), from)).map_or(&[][..], Vec::as_slice);
                view(task, split, set, ranks, &seed.named(&split.to_string()))
            };
            tasks.push(Task {
                name: task.name.clone(),
                dataset: task.dataset.clone(),
                classes: task.classes.iter().map(|class| class.name.clone()).collect(),
                train: view(Split::Train)?,
                val: view(Split::Val)?,
                test: view(Split::Test)?,
                looks: task.looks,
                substitution: task.substitution.clone(),
            });
        }
        agree_on_shape(&tasks)?;
        let mut substitutions: Vec<String> = Vec::new();
        for text in plan.tasks.iter().filter_map(|task| task.substitution.as_ref()) {
            if !substitutions.contains(text) {
                substitutions.push(text.clone());
            }
        }
        Ok(Self { name: plan.name.clone(), seed: plan.seed, variant: plan.variant, tasks, substitutions })
    }
}

impl Stream {
    /// A short hexadecimal text that differs where tasks, classes, numbers of images or images differ. Of each set
    /// 16 images are looked at.
    pub fn fingerprint(&self) -> String {
        const LOOKED_AT: usize = 16;
        let mut hash = blake3::Hasher::new();
        for task in &self.tasks {
            hash.update(format!("{:?} {:?}", task.name, task.classes).as_bytes());
            for split in Split::ALL {
                let set = task.set(split);
                hash.update(&(set.len() as u64).to_le_bytes());
                let some = set.thinned(LOOKED_AT);
                for position in 0..some.len() {
                    hash.update(&some.label(position).to_le_bytes());
                    hash.update(&some.picture(position).pixels);
                }
            }
        }
        hash.finalize().to_hex()[..16].to_owned()
    }
}

/// One network learns all tasks, so their images have one shape.
fn agree_on_shape(tasks: &[Task]) -> Result<()> {
    let sets =
        |task| Split::ALL.map(|split| Task::set(task, split)).into_iter().filter(|set| !set.is_empty());
    let shapes: Vec<_> =
        tasks.iter().flat_map(|task| sets(task).map(move |set| (task, set.shape()))).collect();
    let Some((_, first)) = shapes.first() else { return Ok(()) };
    match shapes.iter().find(|(_, shape)| shape != first) {
        None => Ok(()),
        Some((task, shape)) => {
            let size = |shape: &ImageShape| format!("{} x {} pixels", shape.width, shape.height);
            let problem = format!("its images have {}, those of the first task {}", size(shape), size(first));
            Err(Error::setting(format!("task '{}'", task.name), problem, "bring all tasks to one image size"))
        }
    }
}

/// The images of one split of a task.
fn view(
    task: &TaskPlan,
    split: Split,
    set: &Dataset,
    ranks: &[Vec<(u32, u32)>],
    seed: &Seed,
) -> Result<TaskSet> {
    let mut items = Vec::with_capacity(task.count(split));
    for (label, class) in task.classes.iter().enumerate() {
        let source_label = class_label(&set.classes, &class.name, &task.source)?;
        let present = ranks.get(source_label).map_or(&[][..], Vec::as_slice);
        let label = label as u32;
        for index in indices(class, split, present, &task.source)? {
            items.push(TaskItem { index, label, look: 0 });
        }
    }
    let looks = task.looks.assign(items.len(), split == Split::Test, seed);
    items.iter_mut().zip(looks).for_each(|(item, look)| item.look = look);
    let empty = || Arc::new(ImageSet::new(set.classes.len()));
    let images = set.split(task.from[split as usize]).cloned().unwrap_or_else(empty);
    // Streams mix grey and colour sets, and networks have one input shape: grey is replicated.
    Ok(TaskSet::new(images, 3, items, &task.looks))
}

/// Positions in the source of the images that a class contributes.
fn indices(class: &ClassPlan, split: Split, present: &[(u32, u32)], source: &str) -> Result<Vec<u32>> {
    let fail = |problem: String| {
        let cure =
            format!("this is not the data set that the stream was made from: lmc data verify {source}");
        Error::setting(format!("data set '{source}'"), problem, cure)
    };
    match &class.draws[split as usize] {
        Draw::All(count) if present.len() != *count as usize => {
            let problem =
                format!("class '{}' has {} {split} images instead of {count}", class.name, present.len());
            Err(fail(problem))
        }
        Draw::All(_) => Ok(present.iter().map(|&(_, index)| index).collect()),
        Draw::Ranks(ranks) => ranks
            .iter()
            .map(|rank| match present.binary_search_by_key(rank, |&(rank, _)| rank) {
                Ok(at) => Ok(present[at].1),
                Err(_) => Err(fail(format!("{split} image {rank} of class '{}' is missing", class.name))),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::counting_set;
    use crate::transform::{Looks, Transform};

    fn sets() -> HashMap<String, Arc<Dataset>> {
        let set = Dataset {
            name: "d".into(),
            classes: vec!["even".into(), "odd".into()],
            train: counting_set(10),
            val: None,
            test: counting_set(4),
            left_out: Default::default(),
        };
        HashMap::from([("d".to_owned(), Arc::new(set))])
    }

    fn plan(draws: [Draw; 3]) -> StreamPlan {
        let task = TaskPlan {
            name: "t".into(),
            dataset: "d".into(),
            source: "d".into(),
            substitution: Some("x for y".into()),
            looks: Looks::One(Transform::Identity),
            from: [Split::Train, Split::Train, Split::Test],
            classes: vec![ClassPlan { name: "odd".into(), draws }],
        };
        let tasks = vec![task.clone(), task];
        StreamPlan {
            name: "s".into(),
            seed: 1,
            variant: Variant::Full,
            image_size: 32,
            tasks,
            class_names: Default::default(),
        }
    }

    #[test]
    fn ranks_become_images_in_the_order_of_the_plan() {
        let plan = plan([Draw::Ranks(vec![3, 0]), Draw::Ranks(vec![1]), Draw::All(2)]);
        let stream = Stream::assemble(&plan, &sets()).unwrap();
        let task = &stream.tasks[0];
        // Odd images are 1, 3, 5, 7, 9: rank 3 is image 7 with the bytes 14 and 15.
        assert_eq!(task.train.picture(0).pixels, [14, 14, 14, 15, 15, 15]);
        assert_eq!((task.train.rank(0), task.train.label(0), task.train.source_label(0)), (3, 0, 1));
        assert_eq!((task.val.len(), task.test.len()), (1, 2));
        assert_eq!(stream.substitutions, ["x for y"]);
    }

    #[test]
    fn a_fingerprint_differs_for_other_images() {
        let made = |ranks: &[u32], sets: &HashMap<String, Arc<Dataset>>| {
            let plan = plan([Draw::Ranks(ranks.to_vec()), Draw::NONE, Draw::NONE]);
            Stream::assemble(&plan, sets).unwrap().fingerprint()
        };
        assert_eq!(made(&[3, 0], &sets()), made(&[3, 0], &sets()));
        assert_ne!(made(&[3, 0], &sets()), made(&[3, 1], &sets()));
        let mut other = sets();
        let set = Dataset { classes: vec!["odd".into(), "even".into()], ..(*other["d"]).clone() };
        other.insert("d".to_owned(), Arc::new(set));
        assert_ne!(made(&[3, 0], &sets()), made(&[3, 0], &other));
    }

    #[test]
    fn missing_images_and_wrong_counts_are_named() {
        let missing = Stream::assemble(&plan([Draw::Ranks(vec![5]), Draw::NONE, Draw::NONE]), &sets());
        assert!(missing.unwrap_err().to_string().contains("train image 5 of class 'odd' is missing"));
        let wrong = Stream::assemble(&plan([Draw::NONE, Draw::NONE, Draw::All(3)]), &sets());
        assert!(wrong.unwrap_err().to_string().contains("has 2 test images instead of 3"));
    }
}
