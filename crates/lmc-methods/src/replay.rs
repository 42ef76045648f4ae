//! Experience replay: images of earlier tasks are kept and shown again (specification §2.3).
//!
//! The buffer takes in the images of a task before its first epoch; when it is full, an image of the task that has most
//! makes room.
//! Every step shows, beside the batch, images of every earlier task. ER has a head per task; ER(A,S) a single one over the
//! classes of all tasks, in which a task with the same list of classes as an earlier one has the same outputs.

mod buffer;

use burn::tensor::{Device, Tensor, TensorData};
use lmc::internals::training::checkpoint::State;
use lmc::internals::training::step::cross_entropy;
use lmc::{Error, NetworkConfig, Result, TaskData};
use lmc_streams::{Batch, ImageShape, Normalisation, PixelScale, Random, Seed, TaskSet};
use serde::{Deserialize, Serialize};

use self::buffer::{Buffer, StoredImage};
use crate::checkpoint::parse;
use crate::headed_network::{BatchLoss, HeadedNetwork, all_logits, offset};
use crate::method::no_open_task;
use crate::registry::MethodConfig;
use crate::single_network::{Objective, SingleNetwork};
use crate::training::TrainingConfig;

/// Settings of ER.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayConfig {
    /// Hyperparameters of training.
    pub training: TrainingConfig,
    /// Number of images that are kept; 5571 by default, as much memory as LMC may take for six tasks.
    pub capacity: usize,
    /// Whether all heads are one classifier over the classes of all tasks, which needs no task ID; false by default.
    pub single_head: bool,
    /// Whether it is as the authors ran it: batch norms see the batch and replayed images apart (ER each earlier task by
    /// itself), and ER's earlier heads are frozen. False by default: all images pass together, as is usual, so that batch
    /// norms normalise in training by the statistics that they follow for evaluation.
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
        let objective = Rehearsal {
            config: self.clone(),
            buffer: Buffer { capacity: self.capacity, stored: Vec::new() },
            classes: Vec::new(),
            normalisations: Vec::new(),
            draws: None,
        };
        SingleNetwork::new(network, &self.training, objective, seed, device)
    }
}

/// Number of images that take the memory of LMC with a module per layer and task, as the authors count it: 24 bytes for a parameter
/// of the functional components and of one head, a byte for each colour of a pixel.
fn memory_of_lmc(tasks: usize, classes: usize) -> usize {
    24 * (113_088 + 577 * classes) * tasks / (3 * 32 * 32)
}

/// A network that is trained on images of earlier tasks too.
pub type Replay = SingleNetwork<Rehearsal>;

/// Cross-entropy of the newest task and of replayed images.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    config: ReplayConfig,
    buffer: Buffer,
    /// Class names of each head.
    classes: Vec<Vec<String>>,
    /// Statistics that the images of each task are normalised with.
    normalisations: Vec<Option<Normalisation>>,
    /// Set at the beginning of each epoch; not part of the state.
    draws: Option<EpochDraws>,
}

/// What replayed images are drawn from during an epoch.
#[derive(Clone, Debug)]
struct EpochDraws {
    /// Places in the buffer of the images of each earlier task.
    places: Vec<Vec<usize>>,
    /// Images of each earlier task in a step: about a batch together.
    each: usize,
    random: Random,
}

impl EpochDraws {
    /// Draws the replayed images of a step: task and place in the buffer of each.
    fn of_step(&mut self) -> Vec<(usize, usize)> {
        let Self { places, each, random } = self;
        let tasks = places.iter().enumerate().filter(|(_, places)| !places.is_empty());
        let draw = |(task, places): (usize, &Vec<usize>)| {
            (0..*each).map(|_| (task, places[random.below(places.len())])).collect::<Vec<_>>()
        };
        tasks.flat_map(draw).collect()
    }
}

/// Task and label of a replayed image.
type ReplayedLabel = (usize, u32);

/// The document of a [`Rehearsal`]; the images are in the tensor `buffer`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RehearsalRecord {
    classes: Vec<Vec<String>>,
    /// Mean and deviation of each channel, by task.
    #[serde(alias = "scales")]
    normalisations: Vec<Option<(Vec<f32>, Vec<f32>)>>,
    /// Task and label of each image in the buffer.
    labels: Vec<ReplayedLabel>,
    /// Bytes of an image.
    #[serde(alias = "length")]
    image_bytes: usize,
}

impl Rehearsal {
    /// Offers the training images of a task to the buffer.
    fn fill(&mut self, train: &TaskSet, task: usize, random: &mut Random) {
        for position in 0..train.len() {
            let mut bytes = vec![0; train.shape().bytes()];
            train.write(position, &mut bytes);
            let image = StoredImage { task, label: train.label(position), bytes };
            self.buffer.keep(image, position + 1, random);
        }
    }

    /// Features `[image, feature]` of the batch and, behind them, of the replayed images: through the batch norms
    /// together, or apart as released.
    fn features(
        &self,
        network: &mut HeadedNetwork,
        batch: &Batch,
        pixels: Vec<f32>,
        replayed: &[ReplayedLabel],
    ) -> Result<Tensor<2>> {
        let (count, [_, channels, height, width]) = (batch.labels.len(), batch.shape);
        let all = [batch.images.clone(), pixels].concat();
        let shape = [count + replayed.len(), channels, height, width];
        let images: Tensor<4> = Tensor::from_data(TensorData::new(all, shape), &network.device);
        let spans: Vec<usize> = match (self.config.released, self.config.single_head) {
            (false, _) => vec![count + replayed.len()],
            (true, true) => vec![count, replayed.len()],
            (true, false) => {
                let tasks = replayed.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len);
                std::iter::once(count).chain(tasks).collect()
            }
        };
        let (mut at, mut parts) = (0, Vec::new());
        for span in spans.into_iter().filter(|&span| span > 0) {
            parts.push(network.trunk.training_pass(images.clone().narrow(0, at, span))?);
            at += span;
        }
        Ok(Tensor::cat(parts, 0))
    }

    /// Draws images of earlier tasks, as many of each as make about a batch together: their pixels, normalised, and
    /// their tasks and labels.
    fn replayed(&mut self, batch: &Batch) -> Result<(Vec<f32>, Vec<ReplayedLabel>)> {
        let draws = self.draws.as_mut().ok_or_else(no_open_task)?;
        let drawn = draws.of_step();
        let [_, channels, height, width] = batch.shape;
        let mut stored = Batch::default();
        stored.clear(ImageShape { channels, height, width });
        let mut labels = Vec::with_capacity(drawn.len());
        for group in drawn.chunk_by(|a, b| a.0 == b.0) {
            let task = group[0].0;
            let scale = PixelScale::new(self.normalisations[task].as_ref(), channels)?;
            for (_, place) in group {
                let image = &self.buffer.stored[*place];
                stored.push(&image.bytes, image.label, 0, &scale);
                labels.push((task, image.label));
            }
        }
        Ok((stored.images, labels))
    }
}

/// The objective of ER: the mean over tasks of the cross-entropy with the head of each.
fn head_per_task(
    network: &HeadedNetwork,
    batch: &Batch,
    replayed: &[ReplayedLabel],
    features: &Tensor<2>,
) -> BatchLoss {
    let count = batch.labels.len();
    let head_of = |task: usize| &network.heads[network.head_of[task]];
    let logits = head_of(network.head_of.len() - 1).logits(features.clone().narrow(0, 0, count));
    let mut loss = cross_entropy(logits.clone(), &batch.labels);
    let (mut at, mut tasks) = (count, 1.0);
    for group in replayed.chunk_by(|a, b| a.0 == b.0) {
        let labels: Vec<u32> = group.iter().map(|(_, label)| *label).collect();
        let part = features.clone().narrow(0, at, labels.len());
        loss = loss + cross_entropy(head_of(group[0].0).logits(part), &labels);
        at += labels.len();
        tasks += 1.0;
    }
    BatchLoss { loss: loss.div_scalar(tasks), logits }
}

/// The objective of ER(A,S): cross-entropy over the outputs of all heads, of the batch and of the replayed images.
fn single_head(
    network: &HeadedNetwork,
    batch: &Batch,
    replayed: &[ReplayedLabel],
    features: &Tensor<2>,
) -> BatchLoss {
    let (count, head) = (batch.labels.len(), network.head_of[network.head_of.len() - 1]);
    let logits = all_logits(&network.heads, features);
    let start = offset(&network.heads, head);
    let own: Vec<u32> = batch.labels.iter().map(|label| label + start).collect();
    let mut loss = cross_entropy(logits.clone().narrow(0, 0, count), &own);
    if !replayed.is_empty() {
        let output = |(task, label): &ReplayedLabel| offset(&network.heads, network.head_of[*task]) + label;
        let outputs: Vec<u32> = replayed.iter().map(output).collect();
        loss = loss + cross_entropy(logits.clone().narrow(0, count, replayed.len()), &outputs);
    }
    let classes = network.heads[head].classes();
    BatchLoss { loss, logits: logits.narrow(0, 0, count).narrow(1, start as usize, classes) }
}

impl Objective for Rehearsal {
    fn trains_old_heads(&self) -> bool {
        !self.config.released || self.config.single_head
    }

    fn single_head(&self) -> bool {
        self.config.single_head
    }

    fn begin(&mut self, _: &HeadedNetwork, data: TaskData<'_>) -> Result<usize> {
        self.normalisations.push(self.config.training.normalisation(data.train));
        let same = self.classes.iter().position(|classes| classes == data.classes);
        Ok(same.filter(|_| self.config.single_head).unwrap_or_else(|| {
            self.classes.push(data.classes.to_vec());
            self.classes.len() - 1
        }))
    }

    fn begin_epoch(
        &mut self,
        network: &HeadedNetwork,
        data: TaskData<'_>,
        epoch: usize,
        left_after: Option<usize>,
    ) -> Result<()> {
        let task = network.head_of.len() - 1;
        let seed = network.seed.named("replayed").numbered(task as u64).numbered(epoch as u64);
        if epoch == 0 && left_after.is_none() {
            self.fill(data.train, task, &mut seed.named("kept").random());
        }
        let places = (0..task).map(|task| self.buffer.of_task(task)).collect();
        let each = self.config.training.batch.div_ceil(task.max(1));
        let mut draws = EpochDraws { places, each, random: seed.random() };
        (0..left_after.unwrap_or(0)).for_each(|_| drop(draws.of_step()));
        self.draws = Some(draws);
        Ok(())
    }

    fn loss(&mut self, network: &mut HeadedNetwork, batch: &Batch) -> Result<BatchLoss> {
        let (pixels, replayed) = self.replayed(batch)?;
        let features = self.features(network, batch, pixels, &replayed)?;
        Ok(match self.config.single_head {
            true => single_head(network, batch, &replayed, &features),
            false => head_per_task(network, batch, &replayed, &features),
        })
    }

    fn finish(&mut self, _: &HeadedNetwork, _: TaskData<'_>) -> Result<()> {
        self.draws = None;
        Ok(())
    }

    fn state(&self) -> State {
        let moments = |scale: &Normalisation| (scale.mean.clone(), scale.deviation.clone());
        let record = RehearsalRecord {
            classes: self.classes.clone(),
            normalisations: self.normalisations.iter().map(|scale| scale.as_ref().map(moments)).collect(),
            labels: self.buffer.stored.iter().map(|image| (image.task, image.label)).collect(),
            image_bytes: self.buffer.image_bytes(),
        };
        State { document: serde_json::json!(record), tensors: vec![self.buffer.pack()] }
    }

    fn restore(&mut self, _: &HeadedNetwork, state: &State) -> Result<()> {
        let record: RehearsalRecord = parse(&state.document)?;
        self.classes = record.classes;
        let normalisation = |(mean, deviation)| Normalisation { mean, deviation };
        self.normalisations =
            record.normalisations.into_iter().map(|moments| moments.map(normalisation)).collect();
        let buffer = state.tensors.iter().find(|tensor| tensor.name == "buffer");
        let values = buffer.map(|tensor| tensor.values.as_slice()).unwrap_or_default();
        self.buffer.unpack(values, record.labels, record.image_bytes)
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
