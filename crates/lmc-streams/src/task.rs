//! A task: classes to distinguish, and three sets of images.

use std::sync::Arc;

use crate::dataset::Split;
use crate::image_set::{ImageSet, ImageShape};
use crate::picture::Picture;
use crate::transform::{Looks, Transform};

/// One task: the classes to distinguish and the images of three splits.
#[derive(Clone, Debug)]
pub struct Task {
    /// Name of the task, unique in its stream.
    pub name: String,
    /// The data set that the task is defined on.
    pub dataset: String,
    /// Class names; the label of an image is the position of its class here.
    pub classes: Vec<String>,
    /// Images that parameters are fitted to.
    pub train: TaskSet,
    /// Images by which epochs and settings are chosen.
    pub val: TaskSet,
    /// Images on which the result is measured.
    pub test: TaskSet,
    /// The colour transforms of the images.
    pub looks: Looks,
    /// What stands in for `dataset`, and how, when it is not on this machine.
    pub substitution: Option<String>,
}

impl Task {
    /// The images of a split.
    pub fn set(&self, split: Split) -> &TaskSet {
        match split {
            Split::Train => &self.train,
            Split::Val => &self.val,
            Split::Test => &self.test,
        }
    }
}

/// The images of one split of a task: a view into a data set, so that tasks cost no memory of their own.
#[derive(Clone, Debug)]
pub struct TaskSet {
    source: Arc<ImageSet>,
    shape: ImageShape,
    items: Vec<TaskItem>,
    transforms: Vec<Transform>,
}

/// One image of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskItem {
    /// Position of the image in the source.
    pub index: u32,
    /// Label of the image in the task.
    pub label: u32,
    /// Position of the image's colour transform among those of the task.
    pub look: u8,
}

impl TaskSet {
    /// A view of `items` of `source`, as images with `channels` channels.
    pub(crate) fn new(source: Arc<ImageSet>, channels: usize, items: Vec<TaskItem>, looks: &Looks) -> Self {
        let shape = ImageShape { channels: channels.max(source.shape().channels), ..source.shape() };
        Self { source, shape, items, transforms: looks.transforms() }
    }

    /// Number of images of the set.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the set has no images.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The shape of every image.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The label of an image: the position of its class in [`Task::classes`].
    pub fn label(&self, position: usize) -> u32 {
        self.items[position].label
    }

    /// Where an image comes from: its rank within its class in the source, for checking.
    pub fn rank(&self, position: usize) -> u32 {
        self.source.rank(self.items[position].index as usize)
    }

    /// The label that the source gives to an image, for checking.
    pub fn source_label(&self, position: usize) -> u32 {
        self.source.label(self.items[position].index as usize)
    }

    /// Writes the planar bytes of an image into `target`, whose length is `shape().bytes()`.
    pub fn write(&self, position: usize, target: &mut [u8]) {
        let item = self.items[position];
        let area = self.shape.height * self.shape.width;
        self.transforms[usize::from(item.look)].write(self.source.image(item.index as usize), area, target);
    }

    /// Copies an image into a picture, with its colour transform.
    pub fn picture(&self, position: usize) -> Picture {
        let mut planar = vec![0; self.shape.bytes()];
        self.write(position, &mut planar);
        Picture::from_planar(self.shape.width, self.shape.height, &planar)
    }

    /// The same images in other colours; the out-of-distribution grid normalises with the statistics of
    /// each pair's training images in the colours of the test.
    pub fn with_transform(&self, transform: Transform) -> Self {
        let items = self.items.iter().map(|item| TaskItem { look: 0, ..*item }).collect();
        Self { items, transforms: vec![transform], ..self.clone() }
    }

    /// Positions of the first `most` images of a label.
    pub fn of_label(&self, label: u32, most: usize) -> Vec<usize> {
        let has_label = |&position: &usize| self.items[position].label == label;
        (0..self.len()).filter(has_label).take(most).collect()
    }

    /// The subset of the images at these positions.
    pub fn part(&self, positions: &[usize]) -> Self {
        Self { items: positions.iter().map(|&position| self.items[position]).collect(), ..self.clone() }
    }

    /// The same images with other labels: `labels[label]` instead of `label`. Labels beyond the list stay.
    pub fn with_labels(&self, labels: &[u32]) -> Self {
        let other = |item: &TaskItem| {
            let label = labels.get(item.label as usize).copied().unwrap_or(item.label);
            TaskItem { label, ..*item }
        };
        Self { items: self.items.iter().map(other).collect(), ..self.clone() }
    }

    /// The subset of at most this many images, evenly spaced, so that every class keeps its share.
    pub fn thinned(&self, most: usize) -> Self {
        let count = self.len().min(most);
        let positions: Vec<usize> = (0..count).map(|at| at * self.len() / count.max(1)).collect();
        self.part(&positions)
    }

    /// Makes a set without images.
    pub fn empty() -> Self {
        let looks = Looks::One(Transform::Identity);
        Self::new(Arc::new(ImageSet::new(0)), 0, Vec::new(), &looks)
    }

    /// Makes a view of all images of a set, with their own labels.
    pub fn of_all(source: Arc<ImageSet>, channels: usize, transform: Transform) -> Self {
        let item = |index: usize| TaskItem { index: index as u32, label: source.label(index), look: 0 };
        let items = (0..source.len()).map(item).collect();
        Self::new(source, channels, items, &Looks::One(transform))
    }
}

/// A tiny set of grey 2 x 1 images for the tests of this crate: image `i` holds the bytes `2i, 2i + 1`.
#[cfg(test)]
pub(crate) fn counting_set(images: u32) -> Arc<ImageSet> {
    let mut set = ImageSet::new(2);
    let shape = ImageShape { channels: 1, height: 1, width: 2 };
    for image in 0..images {
        let bytes = [(2 * image) as u8, (2 * image + 1) as u8];
        let rank = set.count(image % 2);
        set.push_planar(&bytes, shape, image % 2, rank, (std::path::Path::new("test"), "")).unwrap();
    }
    Arc::new(set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::Colour;

    #[test]
    fn a_view_transforms_and_replicates() {
        let items = vec![TaskItem { index: 1, label: 7, look: 1 }, TaskItem { index: 0, label: 3, look: 0 }];
        let looks = Looks::Mixed(Transform::Identity, Transform::Digit(Colour::RED));
        let set = TaskSet::new(counting_set(2), 3, items, &looks);
        assert_eq!(set.shape().bytes(), 6);
        assert_eq!(set.picture(0).pixels, [2, 0, 0, 3, 0, 0]);
        assert_eq!(set.picture(1).pixels, [0, 0, 0, 1, 1, 1]);
        assert_eq!((set.label(0), set.rank(0), set.source_label(0)), (7, 0, 1));
        assert_eq!(set.with_transform(Transform::Digit(Colour::BLUE)).picture(0).pixels, [0, 0, 2, 0, 0, 3]);
    }

    #[test]
    fn thinning_keeps_the_shares() {
        let set = TaskSet::of_all(counting_set(10), 1, Transform::Identity);
        let ranks: Vec<u8> = (0..4).map(|at| set.thinned(4).picture(at).pixels[0]).collect();
        assert_eq!(ranks, [0, 4, 10, 14]);
        assert_eq!((set.thinned(99).len(), set.thinned(0).len()), (10, 0));
    }

    #[test]
    fn an_empty_set_is_empty() {
        assert!(TaskSet::empty().is_empty());
    }
}
