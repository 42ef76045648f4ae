//! Experience replay: images of old tasks are kept and shown again (specification §2.3).
//!
//! The buffer is filled during the first epoch of each task; when it is full, an image of the task that has most makes room.
//! Every step shows, beside the batch, images of every old task. ER has a head per task; ER(A,S) a single one over the
//! classes of all tasks, in which a task with the same list of classes as an earlier one has the same outputs.

use burn::tensor::{Device, Tensor, TensorData};
use lmc::checkpoint::State;
use lmc::network::NetworkConfig;
use lmc::tensors::Plain;
use lmc::{Error, Learned, Material, Result};
use lmc_streams::{Batch, Normalisation, Random, Seed};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::method::{Answers, Capacity, Listen, Method};
use crate::monolith::{Monolith, all_logits, offset};
use crate::registry::MethodConfig;
use crate::training::{TrainingConfig, cross_entropy, parse};

/// Settings of ER.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayConfig {
    /// How it is trained.
    pub training: TrainingConfig,
    /// Images that are kept; 5571 by default, as much memory as LMC may take for six tasks.
    pub capacity: usize,
    /// One classifier over all classes, asked without the task.
    pub single_head: bool,
    /// As the authors ran it: batch norms see the batch and old images apart (ER each old task by itself), and ER's old heads
    /// are frozen. False by default: all pass together, as is usual, so that batch norms see in training what they follow
    /// for answering.
    pub released: bool,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self { training: TrainingConfig::default(), capacity: 5571, single_head: false, released: false }
    }
}

impl MethodConfig for ReplayConfig {
    type Method = Replay;

    fn preset(name: &str, stream: &str) -> Result<Self> {
        let training = TrainingConfig::preset(stream, &["s_minus"]);
        let capacity = match stream {
            "s_pl" => memory_of_lmc(5, 10),
            "s_long30" => memory_of_lmc(30, 5),
            "s_long" => memory_of_lmc(100, 5),
            _ => memory_of_lmc(6, 10),
        };
        Ok(Self { training, capacity, single_head: name == "er_a_s", released: false })
    }

    fn check(&self) -> Result<()> {
        if self.capacity == 0 {
            return Err(Error::setting("capacity", "it is 0", "use 1 or more"));
        }
        self.training.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Replay> {
        let seed = Seed::root(seed).named("replay");
        let mut network =
            Monolith::new(network, &self.training, seed, !self.released || self.single_head, device)?;
        network.single_head = self.single_head;
        let buffer = Buffer { capacity: self.capacity, stored: Vec::new() };
        Ok(Replay { config: self.clone(), network, buffer, classes: Vec::new(), scales: Vec::new() })
    }
}

/// Images that take the memory of LMC with a module per layer and task, as the authors count it: 24 bytes for a parameter
/// of the functional components and of one head, a byte for each colour of a pixel.
fn memory_of_lmc(tasks: usize, classes: usize) -> usize {
    24 * (113_088 + 577 * classes) * tasks / (3 * 32 * 32)
}

/// A network and what it was shown.
#[derive(Clone, Debug)]
pub struct Replay {
    config: ReplayConfig,
    network: Monolith,
    buffer: Buffer,
    /// Class names of each head.
    classes: Vec<Vec<String>>,
    /// What the images of each task are normalised by.
    scales: Vec<Option<Normalisation>>,
}

/// Images of all tasks, as many of each as there is room for.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The most that it holds.
    pub capacity: usize,
    /// What it holds.
    pub stored: Vec<Stored>,
}

/// An image that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its task.
    pub task: usize,
    /// Its label among the task's.
    pub label: u32,
    /// Its pixels.
    pub bytes: Vec<u8>,
}

impl Buffer {
    /// Keeps an image; if the buffer is full, one of the task that has most makes room. `seen` images of its task came so
    /// far, this one included: if its own task has most, each of them stays with the same probability.
    pub fn keep(&mut self, image: Stored, seen: usize, random: &mut Random) {
        if self.stored.len() < self.capacity {
            self.stored.push(image);
            return;
        }
        let counts = self.counts();
        // Of equals its own task: else it would grow past them.
        let most = (0..counts.len()).rev().max_by_key(|&task| (counts[task], task == image.task));
        let most = most.unwrap_or(0);
        let places = self.of_task(most);
        let among = if most == image.task { seen } else { places.len() };
        if let Some(&place) = places.get(random.below(among)) {
            self.stored[place] = image;
        }
    }

    /// Images by task.
    pub fn counts(&self) -> Vec<usize> {
        let tasks = self.stored.iter().map(|image| image.task + 1).max().unwrap_or(0);
        let mut counts = vec![0; tasks];
        self.stored.iter().for_each(|image| counts[image.task] += 1);
        counts
    }

    /// Places of a task's images.
    fn of_task(&self, task: usize) -> Vec<usize> {
        (0..self.stored.len()).filter(|&at| self.stored[at].task == task).collect()
    }
}

impl Replay {
    /// Images of old tasks, as many of each as make about a batch: the images normalised, tasks, labels.
    fn replayed(
        &self,
        places: &[Vec<usize>],
        batch: &Batch,
        random: &mut Random,
    ) -> (Vec<f32>, Vec<(usize, u32)>) {
        let tasks = places.len().max(1);
        let each = self.config.training.batch.div_ceil(tasks);
        let [_, channels, height, width] = batch.shape;
        let mut pixels = Vec::with_capacity(each * tasks * channels * height * width);
        let mut labels = Vec::with_capacity(each * tasks);
        for (task, places) in places.iter().enumerate().filter(|(_, places)| !places.is_empty()) {
            for _ in 0..each {
                let image = &self.buffer.stored[places[random.below(places.len())]];
                let planes = image.bytes.chunks_exact((height * width).max(1)).enumerate();
                for (channel, plane) in planes {
                    let (mean, deviation) = match &self.scales[task] {
                        Some(scale) => (scale.mean[channel], scale.deviation[channel]),
                        None => (0.0, 1.0),
                    };
                    pixels.extend(plane.iter().map(|&byte| (f32::from(byte) / 255.0 - mean) / deviation));
                }
                labels.push((task, image.label));
            }
        }
        (pixels, labels)
    }
}

impl Method for Replay {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        let known = self.classes.iter().position(|classes| classes == material.classes);
        let head = match known.filter(|_| self.config.single_head) {
            Some(head) => head,
            None => {
                self.classes.push(material.classes.to_vec());
                self.classes.len() - 1
            }
        };
        self.scales.push(self.config.training.normalisation(material.train));
        self.network.begin_with(material, head)
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        let Some((epoch, _)) = self.network.progress() else { return Err(crate::monolith::nothing_open()) };
        let task = self.network.head_of.len() - 1;
        let seed = self.network.seed.named("replayed").numbered(task as u64).numbered(epoch as u64);
        let mut random = seed.random();
        if epoch == 0 {
            let mut keep = seed.named("kept").random();
            for position in 0..material.train.len() {
                let mut bytes = vec![0; material.train.shape().bytes()];
                material.train.write(position, &mut bytes);
                let image = Stored { task, label: material.train.label(position), bytes };
                self.buffer.keep(image, position + 1, &mut keep);
            }
        }
        let places: Vec<Vec<usize>> = (0..task).map(|task| self.buffer.of_task(task)).collect();
        let mut network = self.network.clone();
        let (single, released) = (self.config.single_head, self.config.released);
        let more = network.epoch(material, listen, &mut |network, batch| {
            let (pixels, old) = self.replayed(&places, batch, &mut random);
            let (count, [_, channels, height, width]) = (batch.labels.len(), batch.shape);
            let all = [batch.images.clone(), pixels].concat();
            let shape = [count + old.len(), channels, height, width];
            let images: Tensor<4> = Tensor::from_data(TensorData::new(all, shape), &network.device);
            let by_task = old.chunk_by(|a, b| a.0 == b.0);
            let (mut at, mut parts) = (0, Vec::new());
            let spans: Vec<usize> = match (released, single) {
                (false, _) => vec![count + old.len()],
                (true, true) => vec![count, old.len()],
                (true, false) => std::iter::once(count).chain(by_task.clone().map(<[_]>::len)).collect(),
            };
            for span in spans.into_iter().filter(|&span| span > 0) {
                parts.push(network.trunk.train(images.clone().narrow(0, at, span))?);
                at += span;
            }
            let features = Tensor::cat(parts, 0);
            let head = network.head_of[task];
            if single {
                let logits = all_logits(&network.heads, &features);
                let start = offset(&network.heads, head);
                let own: Vec<u32> = batch.labels.iter().map(|label| label + start).collect();
                let now = logits.clone().narrow(0, 0, count);
                let mut loss = cross_entropy(now, &own);
                if !old.is_empty() {
                    let global =
                        |(task, label): &(usize, u32)| offset(&network.heads, network.head_of[*task]) + label;
                    let labels: Vec<u32> = old.iter().map(global).collect();
                    loss = loss + cross_entropy(logits.clone().narrow(0, count, old.len()), &labels);
                }
                let classes = network.heads[head].classes();
                return Ok((loss, logits.narrow(0, 0, count).narrow(1, start as usize, classes)));
            }
            let logits = network.heads[head].logits(features.clone().narrow(0, 0, count));
            let mut loss = cross_entropy(logits.clone(), &batch.labels);
            let (mut at, mut tasks) = (count, 1.0);
            for group in by_task {
                let head = &network.heads[network.head_of[group[0].0]];
                let labels: Vec<u32> = group.iter().map(|(_, label)| *label).collect();
                let part = features.clone().narrow(0, at, labels.len());
                loss = loss + cross_entropy(head.logits(part), &labels);
                at += labels.len();
                tasks += 1.0;
            }
            Ok((loss.div_scalar(tasks), logits))
        })?;
        self.network = network;
        Ok(more)
    }

    fn finish(&mut self, _: Material<'_>) -> Result<Learned> {
        self.network.finish()
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.network.progress()
    }

    fn answers(&self) -> Result<Box<dyn Answers>> {
        Ok(Box::new(self.network.answers()?))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn outputs_of(&self, task: usize) -> usize {
        let of = &self.network.head_of;
        of.get(task).and_then(|head| of.iter().position(|other| other == head)).unwrap_or(task)
    }

    fn is_class_incremental(&self) -> bool {
        self.config.single_head
    }

    fn capacity(&self) -> Capacity {
        self.network.capacity()
    }

    fn state(&self) -> Result<State> {
        // Three bytes fit into a float without loss.
        let length = self.buffer.stored.first().map_or(0, |image| image.bytes.len());
        let packed = length.div_ceil(3);
        let pack = |bytes: &[u8]| {
            bytes.iter().enumerate().map(|(at, &byte)| u32::from(byte) << (8 * at)).sum::<u32>() as f32
        };
        let values: Vec<f32> =
            self.buffer.stored.iter().flat_map(|image| image.bytes.chunks(3).map(pack)).collect();
        let shape = vec![self.buffer.stored.len(), packed];
        let buffer = Plain { name: "buffer".into(), shape, values };
        let scales: Vec<Option<(Vec<f32>, Vec<f32>)>> = self
            .scales
            .iter()
            .map(|scale| scale.as_ref().map(|scale| (scale.mean.clone(), scale.deviation.clone())))
            .collect();
        let labels: Vec<(usize, u32)> =
            self.buffer.stored.iter().map(|image| (image.task, image.label)).collect();
        let more = json!({ "classes": self.classes, "scales": scales, "labels": labels, "length": length });
        Ok(self.network.state(&more, vec![buffer]))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        self.network.restore(&state)?;
        let more = &state.document["more"];
        self.classes = parse(&more["classes"])?;
        let scales: Vec<Option<(Vec<f32>, Vec<f32>)>> = parse(&more["scales"])?;
        let scale = |scale: Option<(Vec<f32>, Vec<f32>)>| {
            scale.map(|(mean, deviation)| Normalisation { mean, deviation })
        };
        self.scales = scales.into_iter().map(scale).collect();
        let labels: Vec<(usize, u32)> = parse(&more["labels"])?;
        let length: usize = parse(&more["length"])?;
        let buffer = state.tensors.iter().find(|plain| plain.name == "buffer");
        let packed = length.div_ceil(3);
        let values = buffer.map(|plain| plain.values.as_slice()).unwrap_or_default();
        if values.len() != packed * labels.len() {
            return Err(Error::setting("checkpoint", "its buffer is not whole", "start the run anew"));
        }
        let unpack = |value: &f32| {
            let bits = *value as u32;
            [bits as u8, (bits >> 8) as u8, (bits >> 16) as u8]
        };
        self.buffer.stored = values
            .chunks(packed.max(1))
            .zip(labels)
            .map(|(values, (task, label))| {
                let mut bytes: Vec<u8> = values.iter().flat_map(unpack).collect();
                bytes.truncate(length);
                Stored { task, label, bytes }
            })
            .collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_by_hand() {
        assert_eq!([memory_of_lmc(6, 10), memory_of_lmc(5, 10)], [5571, 4642]);
    }

    proptest! {
        /// Full when it can be, never too full, and no task gives way to one that has more.
        #[test]
        fn the_buffer_is_balanced(capacity in 1_usize..40, tasks in vec(0_usize..60, 1..7), seed in 0_u64..99) {
            let mut buffer = Buffer { capacity, stored: Vec::new() };
            let mut random = Seed::root(seed).random();
            for (task, &images) in tasks.iter().enumerate() {
                for image in 0..images {
                    buffer.keep(Stored { task, label: 0, bytes: Vec::new() }, image + 1, &mut random);
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
            let stored = Stored { task: 0, label: image / 200, bytes: Vec::new() };
            buffer.keep(stored, image as usize + 1, &mut random);
        }
        for label in 0..5 {
            let count = buffer.stored.iter().filter(|image| image.label == label).count();
            assert!((10..=30).contains(&count), "{count} of class {label}, not about 20");
        }
    }
}
