//! A task of a user's own: any data that we read, with its own splits or with ours.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::dataset::{Dataset, ReadOptions};
use crate::error::{Error, Result};
use crate::formats;
use crate::image_set::ImageSet;
use crate::prepare::{Channels, Fit, Prepare};
use crate::seed::Seed;
use crate::task::{Task, TaskSet};
use crate::transform::{Looks, Transform};

/// How a user's data become a task.
#[derive(Clone, Debug)]
pub struct OwnTask {
    /// The task's name.
    pub name: String,
    /// How pictures are prepared.
    pub preparation: crate::Preparation,
    /// Share of each class's training images to validate on, where the data have no split for it.
    pub val_fraction: f64,
    /// Which images those are.
    pub seed: Seed,
    /// Whether damaged pictures are left out instead of refused.
    pub skip_damaged: bool,
}

impl Default for OwnTask {
    fn default() -> Self {
        Self { name: String::new(), preparation: Default::default(), val_fraction: 0.15, seed: Seed::root(1), skip_damaged: false }
    }
}

impl OwnTask {
    /// Reads a path, or a known or generated data set by its name.
    pub fn read(&self, source: &str, catalog: &Catalog) -> Result<Task> {
        if !(0.0..1.0).contains(&self.val_fraction) {
            let problem = format!("{} is not a share", self.val_fraction);
            return Err(Error::setting("val fraction", problem, "use 0 or more and less than 1"));
        }
        let dataset = self.dataset(source, catalog)?;
        let place = Path::new(source);
        self.check_classes(&dataset, place)?;
        let train = TaskSet::of_all(dataset.train.clone(), self.preparation.channels, Transform::Identity);
        let (train, val) = match &dataset.val {
            Some(val) if !val.is_empty() => (train, self.set(val)),
            _ => self.split(&train, dataset.classes.len()),
        };
        Ok(Task {
            name: self.name.clone(),
            dataset: dataset.name,
            classes: dataset.classes,
            train,
            val,
            test: self.set(&dataset.test),
            looks: Looks::One(Transform::Identity),
            substitution: None,
        })
    }

    fn set(&self, images: &Arc<ImageSet>) -> TaskSet {
        if images.is_empty() {
            return TaskSet::empty();
        }
        TaskSet::of_all(images.clone(), self.preparation.channels, Transform::Identity)
    }

    fn dataset(&self, source: &str, catalog: &Catalog) -> Result<Dataset> {
        let path = Path::new(source);
        if path.exists() {
            let channels = if self.preparation.channels == 1 { Channels::Grey } else { Channels::Rgb };
            let prepare = Prepare { fit: Fit::CentreSquare(self.preparation.size), channels, invert: false };
            return formats::read_any(path, &ReadOptions::all(prepare));
        }
        let dataset = catalog.read(source, self.preparation.size, &|_, _, _| true)?;
        let shape = dataset.shape();
        if (shape.height, shape.width) != (self.preparation.size, self.preparation.size) || shape.channels > self.preparation.channels {
            let problem = format!(
                "its images are {}x{}x{}, not {}x{}x{} (channels x rows x columns)",
                shape.channels, shape.height, shape.width, self.preparation.channels, self.preparation.size, self.preparation.size
            );
            let cure = "make a model of that shape, or give the pictures as a folder, which is resized";
            return Err(Error::setting(format!("data set '{source}'"), problem, cure));
        }
        Ok(dataset)
    }

    fn check_classes(&self, dataset: &Dataset, place: &Path) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datasets::locate::DataDirs;

    fn own(val_fraction: f64) -> OwnTask {
        OwnTask { name: "t".into(), val_fraction, ..Default::default() }
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
        let (train, val) = own(0.2).split(&all, 2);
        assert_eq!((train.len(), val.len()), (9, 2), "2 of the 10, none of the 1");
        let (train, val) = own(0.0).split(&all, 2);
        assert_eq!((train.len(), val.len()), (11, 0));
    }

    #[test]
    fn wrong_shares_and_names_are_complained_about() {
        let catalog = Catalog::new(DataDirs::default());
        let error = own(1.0).read("generated-digits", &catalog).unwrap_err().to_string();
        assert!(error.contains("val fraction"), "{error}");
        assert!(own(0.1).read("nowhere", &catalog).is_err());
    }
}
