//! Experience replay: images of old tasks are kept and shown again (specification §2.3).
//!
//! The buffer is filled during the first epoch of each task; when it is full, an image of the task that has most makes room.
//! Every step shows, beside the batch, images of every old task. ER has a head per task; ER(A,S) a single one over the
//! classes of all tasks, in which a task with the same list of classes as an earlier one has the same outputs.

mod buffer;

use burn::tensor::{Device, Tensor, TensorData};
use lmc::checkpoint::State;
use lmc::network::NetworkConfig;
use lmc::{Error, Learned, Material, Result};
use lmc_streams::{Batch, Normalisation, Random, Seed, TaskSet};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::buffer::{Buffer, Stored};
use crate::method::{Answers, Capacity, Listen, Method};
use crate::monolith::{Monolith, Objective, all_logits, offset};
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

impl Replay {
    /// Keeps images of a task.
    fn fill(&mut self, train: &TaskSet, task: usize, random: &mut Random) {
        for position in 0..train.len() {
            let mut bytes = vec![0; train.shape().bytes()];
            train.write(position, &mut bytes);
            let image = Stored { task, label: train.label(position), bytes };
            self.buffer.keep(image, position + 1, random);
        }
    }

    /// Features of the batch and, behind them, of the old images: through the batch norms together, or as released.
    fn features(
        &self,
        network: &mut Monolith,
        batch: &Batch,
        pixels: Vec<f32>,
        old: &[Old],
    ) -> Result<Tensor<2>> {
        let (count, [_, channels, height, width]) = (batch.labels.len(), batch.shape);
        let all = [batch.images.clone(), pixels].concat();
        let shape = [count + old.len(), channels, height, width];
        let images: Tensor<4> = Tensor::from_data(TensorData::new(all, shape), &network.device);
        let spans: Vec<usize> = match (self.config.released, self.config.single_head) {
            (false, _) => vec![count + old.len()],
            (true, true) => vec![count, old.len()],
            (true, false) => {
                let tasks = old.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len);
                std::iter::once(count).chain(tasks).collect()
            }
        };
        let (mut at, mut parts) = (0, Vec::new());
        for span in spans.into_iter().filter(|&span| span > 0) {
            parts.push(network.trunk.train(images.clone().narrow(0, at, span))?);
            at += span;
        }
        Ok(Tensor::cat(parts, 0))
    }

    /// Images of old tasks, as many of each as make about a batch: the images normalised, tasks, labels.
    fn replayed(&self, places: &[Vec<usize>], batch: &Batch, random: &mut Random) -> (Vec<f32>, Vec<Old>) {
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

/// An old image that is shown again: its task and its label among the task's.
type Old = (usize, u32);

/// The objective of ER: the mean over tasks of the cross-entropy with the head of each.
fn head_per_task(network: &Monolith, batch: &Batch, old: &[Old], features: &Tensor<2>) -> Objective {
    let count = batch.labels.len();
    let head_of = |task: usize| &network.heads[network.head_of[task]];
    let logits = head_of(network.head_of.len() - 1).logits(features.clone().narrow(0, 0, count));
    let mut loss = cross_entropy(logits.clone(), &batch.labels);
    let (mut at, mut tasks) = (count, 1.0);
    for group in old.chunk_by(|a, b| a.0 == b.0) {
        let labels: Vec<u32> = group.iter().map(|(_, label)| *label).collect();
        let part = features.clone().narrow(0, at, labels.len());
        loss = loss + cross_entropy(head_of(group[0].0).logits(part), &labels);
        at += labels.len();
        tasks += 1.0;
    }
    (loss.div_scalar(tasks), logits)
}

/// The objective of ER(A,S): cross-entropy over the outputs of all heads, of the batch and of what is shown again.
fn single_head(network: &Monolith, batch: &Batch, old: &[Old], features: &Tensor<2>) -> Objective {
    let (count, head) = (batch.labels.len(), network.head_of[network.head_of.len() - 1]);
    let logits = all_logits(&network.heads, features);
    let start = offset(&network.heads, head);
    let own: Vec<u32> = batch.labels.iter().map(|label| label + start).collect();
    let mut loss = cross_entropy(logits.clone().narrow(0, 0, count), &own);
    if !old.is_empty() {
        let global = |(task, label): &Old| offset(&network.heads, network.head_of[*task]) + label;
        let labels: Vec<u32> = old.iter().map(global).collect();
        loss = loss + cross_entropy(logits.clone().narrow(0, count, old.len()), &labels);
    }
    let classes = network.heads[head].classes();
    (loss, logits.narrow(0, 0, count).narrow(1, start as usize, classes))
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
        if epoch == 0 {
            self.fill(material.train, task, &mut seed.named("kept").random());
        }
        let mut random = seed.random();
        let places: Vec<Vec<usize>> = (0..task).map(|task| self.buffer.of_task(task)).collect();
        let mut network = self.network.clone();
        let more = network.epoch(material, listen, &mut |network, batch| {
            let (pixels, old) = self.replayed(&places, batch, &mut random);
            let features = self.features(network, batch, pixels, &old)?;
            match self.config.single_head {
                true => Ok(single_head(network, batch, &old, &features)),
                false => Ok(head_per_task(network, batch, &old, &features)),
            }
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
        let scales: Vec<Option<(Vec<f32>, Vec<f32>)>> = self
            .scales
            .iter()
            .map(|scale| scale.as_ref().map(|scale| (scale.mean.clone(), scale.deviation.clone())))
            .collect();
        let labels: Vec<(usize, u32)> =
            self.buffer.stored.iter().map(|image| (image.task, image.label)).collect();
        let more = json!({ "classes": self.classes, "scales": scales, "labels": labels, "length": self.buffer.image_bytes() });
        Ok(self.network.state(&more, vec![self.buffer.pack()]))
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
        let buffer = state.tensors.iter().find(|plain| plain.name == "buffer");
        let values = buffer.map(|plain| plain.values.as_slice()).unwrap_or_default();
        self.buffer.unpack(values, labels, parse(&more["length"])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_by_hand() {
        assert_eq!([memory_of_lmc(6, 10), memory_of_lmc(5, 10)], [5571, 4642]);
    }
}
