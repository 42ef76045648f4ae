//! How well tasks can be told apart by how their pictures look, before anything is learned: the signature alone.
//!
//! Signatures are made from the training images of every task. Other images are then assigned to tasks one by one, as they are
//! and with changes that a picture may suffer on its way. To see what is called new, the tasks of one data set after the other
//! are left out.

use lmc::internals::inference::signature::{Describer, Discriminant, OwnDistance, Signature};
use lmc::{Preparation, TaskData};
use lmc_streams::{BatchConfig, Seed, Task, TaskSet};
use serde::Serialize;

use crate::detection::Detection;
use crate::error::Result;
use crate::picture_changes::PictureChange;

/// What is measured.
#[derive(Clone, Debug)]
pub struct TellApartConfig {
    /// Whether test images are assigned instead of validation images.
    pub test: bool,
    /// Images of each task, at most.
    pub most: usize,
    /// Share of known images that may be called new.
    pub false_alarms: f64,
    /// Root seed of changes.
    pub seed: u64,
}

/// Result.
#[derive(Clone, Debug, Serialize)]
pub struct TellApart {
    /// By task.
    pub tasks: Vec<TaskFound>,
    /// By data set; empty if there is but one.
    pub unknown: Vec<UnknownFound>,
}

/// How often a task was found.
#[derive(Clone, Debug, Serialize)]
pub struct TaskFound {
    /// Name of the task.
    pub task: String,
    /// Images that were assigned.
    pub images: usize,
    /// Share that was assigned to the task, or to one of the same data set with the same classes, by change.
    pub found: Vec<(PictureChange, f64)>,
    /// The tasks that images were assigned to, with shares, the commonest first; as they are.
    pub taken_for: Vec<(String, f64)>,
    /// Share called new, with all tasks known.
    pub called_new: f64,
}

/// What happens to images of a data set that no known task is of.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownFound {
    /// Name of the data set.
    pub dataset: String,
    /// How well its images are told from those of the other tasks.
    pub detection: Option<Detection>,
    /// Share of its images that is called new.
    pub called_new: f64,
    /// Share of the other tasks' images that is called new.
    pub false_alarms: f64,
}

/// A task with the descriptors of the images to assign.
struct Told<'a> {
    task: &'a Task,
    signature: Signature,
    distance: Option<OwnDistance>,
    /// `[change][image]`
    descriptors: Vec<Vec<Vec<f32>>>,
}

/// Measures. `progress` hears the name of each task before its images are described.
pub fn tell_apart(
    tasks: &[Task],
    preparation: &Preparation,
    config: &TellApartConfig,
    progress: &mut dyn FnMut(&str),
) -> Result<TellApart> {
    let describer = Describer::new(preparation.channels, preparation.size);
    let mut told = Vec::with_capacity(tasks.len());
    for task in tasks {
        progress(&task.name);
        told.push(describe(task, preparation, &describer, config)?);
    }
    let signatures: Vec<&Signature> = told.iter().map(|told| &told.signature).collect();
    let found = match Discriminant::new(&signatures) {
        Some(discriminant) => told.iter().map(|own| own.found(&told, &discriminant)).collect(),
        None => Vec::new(),
    };
    let mut datasets: Vec<&str> = tasks.iter().map(|task| task.dataset.as_str()).collect();
    datasets.sort_unstable();
    datasets.dedup();
    let unknown = datasets.into_iter().filter_map(|dataset| unknown(dataset, &told)).collect();
    Ok(TellApart { tasks: found, unknown })
}

fn describe<'a>(
    task: &'a Task,
    preparation: &Preparation,
    describer: &Describer,
    config: &TellApartConfig,
) -> Result<Told<'a>> {
    let seed = Seed::root(config.seed).named("tell apart").named(&task.name);
    let classes = task.classes.len();
    let signature = Signature::learn(describer, classes, TaskData::from(task), config.false_alarms, &seed)?;
    let images: TaskSet = if config.test { &task.test } else { &task.val }.thinned(config.most);
    let mut descriptors = vec![Vec::with_capacity(images.len()); PictureChange::ALL.len()];
    for batch in BatchConfig::stored(256).init(&images)? {
        let size = (batch.images.len() / batch.len().max(1)).max(1);
        for (change, found) in PictureChange::ALL.into_iter().zip(&mut descriptors) {
            let mut changed = Vec::with_capacity(batch.images.len());
            for (image, &position) in batch.images.chunks_exact(size).zip(&batch.positions) {
                let seed = seed.numbered(u64::from(position));
                changed.extend(change.apply(image, preparation.channels, preparation.size, &seed)?);
            }
            found.extend(describer.describe_all(&changed, batch.len()));
        }
    }
    let distance = OwnDistance::new(&signature);
    Ok(Told { task, signature, distance, descriptors })
}

/// The task with the highest score.
fn best(discriminant: &Discriminant, descriptor: &[f32]) -> usize {
    let scores = discriminant.scores(descriptor);
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
}

impl Told<'_> {
    /// Whether nothing tells this task from another.
    fn is_twin(&self, other: &Self) -> bool {
        let sorted = |task: &Task| {
            let mut classes = task.classes.clone();
            classes.sort_unstable();
            classes
        };
        self.task.dataset == other.task.dataset && sorted(self.task) == sorted(other.task)
    }

    /// How unlike the images of the task a descriptor is: above 1 it is new. `None` without a limit.
    fn novelty(&self, descriptor: &[f32]) -> Option<f64> {
        Some(self.signature.reach?.novelty(self.distance.as_ref()?.log_distance(descriptor)))
    }

    fn found(&self, all: &[Self], discriminant: &Discriminant) -> TaskFound {
        let mut taken = vec![0_usize; all.len()];
        let mut new = 0;
        let mut found = Vec::with_capacity(PictureChange::ALL.len());
        let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
        for (change, descriptors) in PictureChange::ALL.into_iter().zip(&self.descriptors) {
            let mut right = 0;
            for descriptor in descriptors {
                let best = best(discriminant, descriptor);
                right += usize::from(self.is_twin(&all[best]));
                if change == PictureChange::None {
                    taken[best] += 1;
                    new += usize::from(all[best].novelty(descriptor).is_some_and(|novelty| novelty > 1.0));
                }
            }
            found.push((change, share(right, descriptors.len())));
        }
        let images = self.descriptors[0].len();
        let mut taken_for: Vec<(String, f64)> = all
            .iter()
            .zip(taken)
            .filter(|(_, count)| *count > 0)
            .map(|(told, count)| (told.task.name.clone(), share(count, images)))
            .collect();
        taken_for.sort_by(|a, b| b.1.total_cmp(&a.1));
        TaskFound { task: self.task.name.clone(), images, found, taken_for, called_new: share(new, images) }
    }
}

/// Leaves out the tasks of a data set; `None` if no task is left, or no limit.
fn unknown(dataset: &str, all: &[Told<'_>]) -> Option<UnknownFound> {
    let (left_out, known): (Vec<&Told<'_>>, Vec<&Told<'_>>) =
        all.iter().partition(|told| told.task.dataset == dataset);
    let signatures: Vec<&Signature> = known.iter().map(|told| &told.signature).collect();
    let discriminant = Discriminant::new(&signatures)?;
    let novelties = |tasks: &[&Told<'_>]| -> Option<Vec<f64>> {
        let descriptors = tasks.iter().flat_map(|told| &told.descriptors[0]);
        descriptors.map(|descriptor| known[best(&discriminant, descriptor)].novelty(descriptor)).collect()
    };
    let (old, new) = (novelties(&known)?, novelties(&left_out)?);
    let share =
        |all: &[f64]| all.iter().filter(|&&novelty| novelty > 1.0).count() as f64 / all.len().max(1) as f64;
    Some(UnknownFound {
        dataset: dataset.to_owned(),
        detection: Detection::of(&old, &new),
        called_new: share(&new),
        false_alarms: share(&old),
    })
}
