//! Images of earlier tasks that replay keeps: a fixed number, shared out among the tasks.

use lmc::Result;
use lmc::internals::tensors::NamedTensor;
use lmc_streams::Random;

use crate::checkpoint::damaged;

/// Images of all tasks, as many of each task as there is room for.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Largest number of images.
    pub capacity: usize,
    /// The images.
    pub stored: Vec<StoredImage>,
}

/// An image in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredImage {
    /// Number of the image's task.
    pub task: usize,
    /// Label among those of the task.
    pub label: u32,
    /// Pixels, channel by channel.
    pub bytes: Vec<u8>,
}

impl Buffer {
    /// Keeps an image; if the buffer is full, one of the task that has most makes room. `seen` images of its task came so
    /// far, this one included: if its own task has most, each of them stays with the same probability.
    pub fn keep(&mut self, image: StoredImage, seen: usize, random: &mut Random) {
        if self.stored.len() < self.capacity {
            self.stored.push(image);
            return;
        }
        let counts = self.counts();
        // Of equals the image's own task: else it would grow past them.
        let most = (0..counts.len()).rev().max_by_key(|&task| (counts[task], task == image.task));
        let most = most.unwrap_or(0);
        let places = self.of_task(most);
        let among = if most == image.task { seen } else { places.len() };
        if let Some(&place) = places.get(random.below(among)) {
            self.stored[place] = image;
        }
    }

    /// Number of images of each task.
    pub fn counts(&self) -> Vec<usize> {
        let tasks = self.stored.iter().map(|image| image.task + 1).max().unwrap_or(0);
        let mut counts = vec![0; tasks];
        self.stored.iter().for_each(|image| counts[image.task] += 1);
        counts
    }

    /// Places in the buffer of the images of a task.
    pub fn of_task(&self, task: usize) -> Vec<usize> {
        (0..self.stored.len()).filter(|&at| self.stored[at].task == task).collect()
    }

    /// The images as a tensor `[image, number]`: three bytes fit into a 32-bit float without loss.
    pub fn pack(&self) -> NamedTensor {
        let packed = self.image_bytes().div_ceil(3);
        let pack = |bytes: &[u8]| {
            bytes.iter().enumerate().map(|(at, &byte)| u32::from(byte) << (8 * at)).sum::<u32>() as f32
        };
        let values = self.stored.iter().flat_map(|image| image.bytes.chunks(3).map(pack)).collect();
        NamedTensor { name: "buffer".into(), shape: vec![self.stored.len(), packed], values }
    }

    /// Number of bytes of an image.
    pub fn image_bytes(&self) -> usize {
        self.stored.first().map_or(0, |image| image.bytes.len())
    }

    /// Takes back what [`Buffer::pack`] gave, with the task and label of each image.
    pub fn unpack(&mut self, values: &[f32], labels: Vec<(usize, u32)>, image_bytes: usize) -> Result<()> {
        let packed = image_bytes.div_ceil(3);
        if values.len() != packed * labels.len() {
            return Err(damaged("its buffer is not whole"));
        }
        let unpack = |value: &f32| {
            let bits = *value as u32;
            [bits as u8, (bits >> 8) as u8, (bits >> 16) as u8]
        };
        let image = |(values, (task, label)): (&[f32], (usize, u32))| {
            let mut bytes: Vec<u8> = values.iter().flat_map(unpack).collect();
            bytes.truncate(image_bytes);
            StoredImage { task, label, bytes }
        };
        self.stored = values.chunks(packed.max(1)).zip(labels).map(image).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lmc_streams::Seed;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The buffer is full when it can be, never too full, and no task gives way to one that has more.
        #[test]
        fn the_buffer_is_balanced(capacity in 1_usize..40, tasks in vec(0_usize..60, 1..7), seed in 0_u64..99) {
            let mut buffer = Buffer { capacity, stored: Vec::new() };
            let mut random = Seed::root(seed).random();
            for (task, &images) in tasks.iter().enumerate() {
                for image in 0..images {
                    buffer.keep(StoredImage { task, label: 0, bytes: Vec::new() }, image + 1, &mut random);
                    prop_assert!(buffer.stored.len() <= capacity);
                }
            }
            prop_assert_eq!(buffer.stored.len(), capacity.min(tasks.iter().sum()));
            let mut counts = buffer.counts();
            counts.resize(tasks.len(), 0);
            let most = counts.iter().copied().max().unwrap_or(0);
            for (count, &shown) in counts.into_iter().zip(&tasks) {
                prop_assert!(count >= shown.min(most.saturating_sub(1)), "{} of {}: {}", count, shown, most);
            }
        }
    }

    /// Sets come class by class; the first class must not be gone at the end.
    #[test]
    fn early_images_stay_as_often_as_late_ones() {
        let mut buffer = Buffer { capacity: 100, stored: Vec::new() };
        let mut random = Seed::root(1).random();
        for image in 0..1000_u32 {
            let stored = StoredImage { task: 0, label: image / 200, bytes: Vec::new() };
            buffer.keep(stored, image as usize + 1, &mut random);
        }
        for label in 0..5 {
            let count = buffer.stored.iter().filter(|image| image.label == label).count();
            assert!((10..=30).contains(&count), "{count} of class {label}, not about 20");
        }
    }

    #[test]
    fn what_is_packed_comes_back() -> Result<()> {
        let image =
            |task: usize, byte: u8| StoredImage { task, label: 7, bytes: vec![byte, 255, 0, byte / 2] };
        let buffer = Buffer { capacity: 3, stored: vec![image(0, 9), image(1, 200)] };
        let labels: Vec<(usize, u32)> = buffer.stored.iter().map(|image| (image.task, image.label)).collect();
        let mut back = Buffer { capacity: 3, stored: Vec::new() };
        back.unpack(&buffer.pack().values, labels.clone(), buffer.image_bytes())?;
        assert_eq!(back.stored, buffer.stored);
        assert!(back.unpack(&[1.0], labels, 4).is_err());
        Ok(())
    }
}
