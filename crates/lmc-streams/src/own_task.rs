//! A task of a user's own: any data that we read, with its own splits or with ours.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::dataset::{Dataset, ReadOptions};
use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::preparation::Preparation;
use crate::read_report::ReadReport;
use crate::seed::Seed;
use crate::task::{Task, TaskSet};
use crate::transform::{Looks, Transform};

/// How a user's data become a task.
#[derive(Clone, Debug)]
pub struct OwnTask {
    /// Name of the task.
    pub name: String,
    /// How pictures are prepared: the same for files, known data sets and generated ones, so that
    /// pictures are prepared for predictions as they were for training.
    pub preparation: Preparation,
    /// Share of each class's training images to validate on, where the data have no split for it; 0 or more, less
    /// than 1.
    pub val_fraction: f64,
    /// Decides which images those are.
    pub seed: Seed,
    /// Whether damaged pictures are left out and reported instead of being an error.
    pub skip_damaged: bool,
}

/// A task without a name, with a validation share of 0.15 and damaged pictures an error.
impl Default for OwnTask {
    fn default() -> Self {
        Self {
            name: String::new(),
            preparation: Preparation::default(),
            val_fraction: 0.15,
            seed: Seed::root(1),
            skip_damaged: false,
        }
    }
}

impl OwnTask {
    /// Reads a path, or a known or generated data set by its name.
    pub fn read(&self, source: &str, catalog: &Catalog) -> Result<Task> {
        self.read_with_report(source, catalog).map(|(task, _)| task)
    }

    /// Reads as [`OwnTask::read`] does, and reports what was read and what was left out.
    pub fn read_with_report(&self, source: &str, catalog: &Catalog) -> Result<(Task, ReadReport)> {
        if !(0.0..1.0).contains(&self.val_fraction) {
            let problem = format!("{} is not a share", self.val_fraction);
            return Err(Error::setting("val fraction", problem, "use 0 or more and less than 1"));
        }
        self.preparation.check()?;
        let options =
            ReadOptions { skip_damaged: self.skip_damaged, ..ReadOptions::all(self.preparation.prepare()) };
        let dataset = catalog.read_with(source, &options)?;
        check_classes(&dataset, Path::new(source))?;
        let train = self.set(&dataset.train);
        let (train, val) = match &dataset.val {
            Some(val) if !val.is_empty() => (train, self.set(val)),
            _ => self.split(&train, dataset.classes.len()),
        };
        let task = Task {
            name: self.name.clone(),
            dataset: dataset.name,
            classes: dataset.classes,
            train,
            val,
            test: self.set(&dataset.test),
            looks: Looks::One(Transform::Identity),
            substitution: None,
        };
        let report = ReadReport::of(&task, dataset.left_out);
        Ok((task, report))
    }

    fn set(&self, images: &Arc<ImageSet>) -> TaskSet {
        if images.is_empty() {
            return TaskSet::empty();
        }
        TaskSet::of_all(images.clone(), self.preparation.channels, Transform::Identity)
    }

    /// Cuts the validation images from the training images, class by class; a class of one image keeps it.
    fn split(&self, all: &TaskSet, classes: usize) -> (TaskSet, TaskSet) {
        let (mut train, mut val) = (Vec::new(), Vec::new());
        for class in 0..classes {
            let mut positions = all.of_label(class as u32, usize::MAX);
            self.seed.numbered(class as u64).random().shuffle(&mut positions);
            let wanted = (positions.len() as f64 * self.val_fraction).round() as usize;
            let count = wanted.clamp(usize::from(self.val_fraction > 0.0), positions.len());
            let count = count.min(positions.len().saturating_sub(1));
            val.extend(positions.split_off(positions.len() - count));
            train.extend(positions);
        }
        train.sort_unstable();
        val.sort_unstable();
        (all.part(&train), all.part(&val))
    }
}

/// Checks that there are two classes or more and that each has training images.
fn check_classes(dataset: &Dataset, place: &Path) -> Result<()> {
    if dataset.classes.len() < 2 {
        let problem = format!("there is {} class in it", dataset.classes.len());
        return Err(Error::bad(place, problem, "a task needs two classes or more"));
    }
    let counts = dataset.train.by_class();
    let empty = |class: &usize| counts.get(*class).is_none_or(Vec::is_empty);
    if let Some(class) = (0..dataset.classes.len()).find(empty) {
        let problem = format!("class '{}' has no training images", dataset.classes[class]);
        return Err(Error::bad(place, problem, "add some, or remove the class"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Split;
    use crate::datasets::dirs::DataDirs;
    use crate::generated::{Family, draw, standard_seed};
    use crate::preparation::{FitKind, Resampling};

    fn own(val_fraction: f64, preparation: Preparation) -> OwnTask {
        OwnTask { name: "t".into(), preparation, val_fraction, seed: Seed::root(1), skip_damaged: false }
    }

    #[test]
    fn validation_images_are_cut_from_each_class() {
        let mut set = ImageSet::new(2);
        let shape = crate::image_set::ImageShape { channels: 1, height: 1, width: 1 };
        for image in 0..11_u32 {
            let label = u32::from(image == 10);
            set.push_planar(&[image as u8], shape, label, image, (Path::new("t"), "")).unwrap();
        }
        let all = TaskSet::of_all(Arc::new(set), 1, Transform::Identity);
        let (train, val) = own(0.2, Preparation::default()).split(&all, 2);
        assert_eq!((train.len(), val.len()), (9, 2), "2 of the 10, none of the 1");
        let (train, val) = own(0.0, Preparation::default()).split(&all, 2);
        assert_eq!((train.len(), val.len()), (11, 0));
    }

    #[test]
    fn generated_images_of_the_default_size_stay_bit_identical() {
        let catalog = Catalog::new(DataDirs::default());
        for family in [Family::Digits, Family::Objects] {
            let (task, report) =
                own(0.1, Preparation::default()).read_with_report(family.name(), &catalog).unwrap();
            for position in [0, 777, 1999] {
                let drawn = draw(
                    family,
                    &standard_seed(),
                    Split::Test,
                    task.test.label(position),
                    task.test.rank(position),
                );
                assert_eq!(task.test.picture(position), drawn.into_rgb(), "{} {position}", family.name());
            }
            assert_eq!(report.classes.len(), 10);
            assert!(
                report.classes.iter().all(|class| (class.train, class.val, class.test) == (1350, 150, 200))
            );
            assert_eq!(report.pictures(Split::Val), 1500);
        }
    }

    #[test]
    fn generated_images_are_resized_and_converted() {
        let catalog = Catalog::new(DataDirs::default());
        for (family, preparation) in [
            (Family::Digits, Preparation { size: 28, channels: 3, ..Preparation::default() }),
            (Family::Objects, Preparation { size: 16, channels: 1, ..Preparation::default() }),
            (
                Family::Objects,
                Preparation {
                    size: 24,
                    channels: 3,
                    fit: FitKind::Stretch,
                    resampling: Resampling::Bilinear,
                },
            ),
        ] {
            let task = own(0.1, preparation).read(family.name(), &catalog).unwrap();
            let drawn = draw(family, &standard_seed(), Split::Test, 0, 3);
            assert_eq!(task.test.picture(3), preparation.apply(drawn), "{}", family.name());
            let shape = task.train.shape();
            assert_eq!((shape.channels, shape.width), (preparation.channels, preparation.size));
        }
    }

    #[test]
    fn wrong_settings_names_and_paths_are_complained_about() {
        let catalog = Catalog::new(DataDirs::default());
        let fails = |own: OwnTask, source: &str| own.read(source, &catalog).unwrap_err().to_string();
        let text = fails(own(1.0, Preparation::default()), "generated-digits");
        assert!(text.contains("val fraction"), "{text}");
        let small = Preparation { size: 8, ..Preparation::default() };
        assert!(fails(own(0.1, small), "generated-digits").starts_with("size: 8 pixels"));
        let named = |source: &str| fails(own(0.1, Preparation::default()), source);
        let text = named("nowhere");
        assert!(text.starts_with("there is no data set, folder or file called 'nowhere'"), "{text}");
        let text = named("generated-digit");
        assert!(text.contains("did you mean 'generated-digits'?"), "{text}");
        for path in ["no/where", "./nowhere", "photos.csv", "nowhere/"] {
            assert_eq!(named(path), format!("{path}: there is no such folder or file; check the path"));
        }
        let text = named("~/photos");
        assert!(text.starts_with("~/photos: there is no such folder or file; only a shell"), "{text}");
        // A known name without its files is neither.
        assert!(named("mnist").contains("is not on this machine (looked in no folder)"));
    }
}
