//! Labelled 8-bit images of one shape, kept as bytes.

use std::path::Path;

use crate::error::{Error, Result};
use crate::picture::Picture;

/// The shape of every image of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ImageShape {
    /// Number of channels, 1 or 3.
    pub channels: usize,
    /// Height of an image in pixels.
    pub height: usize,
    /// Width of an image in pixels.
    pub width: usize,
}

impl ImageShape {
    /// Number of bytes of one image.
    pub fn bytes(&self) -> usize {
        self.channels * self.height * self.width
    }
}

/// Images, labels and ranks of one split, in the order of the source.
///
/// The *rank* of an image is its position among the images of its class in the source split's own order:
/// the number by which the paper's stream file names images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSet {
    shape: ImageShape,
    pixels: Vec<u8>,  // planar, one image after the other: [image, channel, row, column]
    labels: Vec<u32>, // [image]
    ranks: Vec<u32>,  // [image]
    source_counts: Vec<u32>,
}

impl ImageSet {
    /// Makes an empty set; the first picture pushed decides the shape.
    pub fn new(classes: usize) -> Self {
        let shape = ImageShape { channels: 0, height: 0, width: 0 };
        Self {
            shape,
            pixels: Vec::new(),
            labels: Vec::new(),
            ranks: Vec::new(),
            source_counts: vec![0; classes],
        }
    }

    /// Makes room for `images` more images of `shape`, so that the memory used is what the images need.
    pub fn reserve(&mut self, images: usize, shape: ImageShape) {
        self.pixels.reserve_exact(images.saturating_mul(shape.bytes()));
        self.labels.reserve_exact(images);
        self.ranks.reserve_exact(images);
    }

    /// Counts an image of the source and returns its rank in file order, whether it is kept or not.
    pub fn count(&mut self, label: u32) -> u32 {
        let count = &mut self.source_counts[label as usize];
        *count += 1;
        *count - 1
    }

    /// Adds a prepared picture. `place` is for the message when its shape differs from the others'.
    pub fn push(&mut self, picture: &Picture, label: u32, rank: u32, place: (&Path, &str)) -> Result<()> {
        let shape = ImageShape { channels: picture.channels, height: picture.height, width: picture.width };
        self.agree(shape, place)?;
        if picture.channels == 1 {
            self.pixels.extend_from_slice(&picture.pixels);
        } else {
            for channel in 0..picture.channels {
                self.pixels.extend(picture.pixels.iter().skip(channel).step_by(picture.channels));
            }
        }
        self.labels.push(label);
        self.ranks.push(rank);
        Ok(())
    }

    /// Adds an image whose bytes are planar already.
    pub fn push_planar(
        &mut self,
        planar: &[u8],
        shape: ImageShape,
        label: u32,
        rank: u32,
        place: (&Path, &str),
    ) -> Result<()> {
        self.agree(shape, place)?;
        self.pixels.extend_from_slice(planar);
        self.labels.push(label);
        self.ranks.push(rank);
        Ok(())
    }

    fn agree(&mut self, shape: ImageShape, (path, row): (&Path, &str)) -> Result<()> {
        if shape.bytes() == 0 {
            return Err(Error::bad_at(path, row, "an image without pixels", "remove it"));
        }
        if self.labels.is_empty() {
            self.shape = shape;
        }
        if self.shape == shape {
            return Ok(());
        }
        let describe = |s: ImageShape| format!("{} x {} with {} channel(s)", s.width, s.height, s.channels);
        Err(Error::bad_at(
            path,
            row,
            format!("the image is {}, those before it are {}", describe(shape), describe(self.shape)),
            "make all images one size, or ask for a size so that they are resized",
        ))
    }

    /// Gives back memory that was reserved and not needed.
    pub fn shrink(&mut self) {
        self.pixels.shrink_to_fit();
        self.labels.shrink_to_fit();
        self.ranks.shrink_to_fit();
    }

    /// Number of images that are kept.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether no image is kept.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The shape of every image; all zero for an empty set.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// Number of bytes of all images together.
    pub fn bytes(&self) -> usize {
        self.pixels.len()
    }

    /// The planar bytes of an image.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.shape.bytes();
        &self.pixels[index * size..(index + 1) * size]
    }

    /// Copies an image into a picture.
    pub fn picture(&self, index: usize) -> Picture {
        Picture::from_planar(self.shape.width, self.shape.height, self.image(index))
    }

    /// The label of an image: an index into the class names of its data set.
    pub fn label(&self, index: usize) -> u32 {
        self.labels[index]
    }

    /// The rank of an image within its class.
    pub fn rank(&self, index: usize) -> u32 {
        self.ranks[index]
    }

    /// How many images of each class the source holds (whether kept here or not).
    pub fn source_counts(&self) -> &[u32] {
        &self.source_counts
    }

    /// Lists the pairs (rank, index) of every class in order of rank.
    pub fn by_class(&self) -> Vec<Vec<(u32, u32)>> {
        let mut classes = vec![Vec::new(); self.source_counts.len()];
        for (index, (&label, &rank)) in self.labels.iter().zip(&self.ranks).enumerate() {
            classes[label as usize].push((rank, index as u32));
        }
        classes.iter_mut().for_each(|class| class.sort_unstable());
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_come_back_and_ranks_count_per_class() {
        let mut set = ImageSet::new(2);
        let here = (Path::new("x"), "image 0");
        for (value, label) in [(1, 1), (2, 0), (3, 1)] {
            let picture =
                Picture { width: 1, height: 1, channels: 3, pixels: vec![value, value + 10, value + 20] };
            let rank = set.count(label);
            set.push(&picture, label, rank, here).unwrap();
        }
        assert_eq!(set.image(2), [3, 13, 23]);
        assert_eq!(set.by_class(), [vec![(0, 1)], vec![(0, 0), (1, 2)]]);
        assert_eq!(set.source_counts(), [1, 2]);
        assert_eq!(set.bytes(), 9);
    }

    #[test]
    fn another_size_is_refused_with_place_and_cure() {
        let mut set = ImageSet::new(1);
        let grey =
            |side: usize| Picture { width: side, height: side, channels: 1, pixels: vec![0; side * side] };
        set.push(&grey(2), 0, 0, (Path::new("a.png"), "image 0")).unwrap();
        let error = set.push(&grey(3), 0, 1, (Path::new("b.png"), "image 1")).unwrap_err().to_string();
        assert!(error.contains("b.png") && error.contains("3 x 3") && error.contains("2 x 2"), "{error}");
        assert_eq!(set.len(), 1);
    }
}
