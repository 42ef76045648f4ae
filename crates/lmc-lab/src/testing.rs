//! Testing a method: how many images are told right, with the task given and without, in batches of one task, in mixed
//! batches and one by one (specification §1.10, §4).

use burn::tensor::{Device, Tensor, TensorData};
use lmc::Result;
use lmc::evaluation::Told;
use lmc::prediction::images;
use lmc_methods::{Answer, Answers, Hint, Method};
use lmc_streams::{BatchConfig, Normalisation, Seed, TaskSet};

/// A method as it is now, and the test images of the tasks that it has learned.
pub struct Test<'a> {
    answers: Box<dyn Answers>,
    /// The first task with the outputs of each.
    outputs: Vec<usize>,
    class_incremental: bool,
    normalisations: &'a [Option<Normalisation>],
    batch: usize,
    device: Device,
}

impl<'a> Test<'a> {
    /// `normalisations` are those of all tasks, if the method wants any.
    pub fn new(
        method: &dyn Method,
        tasks: usize,
        normalisations: &'a [Option<Normalisation>],
        batch: usize,
        device: &Device,
    ) -> Result<Self> {
        Ok(Self {
            answers: method.answers()?,
            outputs: (0..tasks).map(|task| method.outputs_of(task)).collect(),
            class_incremental: method.is_class_incremental(),
            normalisations,
            batch,
            device: device.clone(),
        })
    }

    /// Whether an answer to an image of a task with a label is right.
    fn is_right(&self, answer: &Answer, task: usize, label: u32) -> bool {
        let outputs = |task: usize| self.outputs.get(task).copied().unwrap_or(task);
        answer.label == label && (!self.class_incremental || outputs(answer.task) == outputs(task))
    }

    /// Asks a whole set of a task in stored order, with all these hints.
    pub fn ask(&self, set: &TaskSet, task: usize, hints: &[Hint]) -> Result<Vec<Told>> {
        let mut told = vec![Told::default(); hints.len()];
        let normalisation = self.normalisations.get(task).cloned().flatten();
        for batch in (BatchConfig { normalisation, ..BatchConfig::stored(self.batch) }).init(set)? {
            let answered = self.answers.answer(&images(&batch, &self.device), hints)?;
            for (told, answers) in told.iter_mut().zip(answered) {
                for (answer, &label) in answers.iter().zip(&batch.labels) {
                    told.count(self.is_right(answer, task, label), answer.task, &answer.weights);
                }
            }
        }
        Ok(told)
    }

    /// Asks the sets of the first tasks in batches into which all their images are shuffled.
    pub fn ask_mixed(&self, sets: &[TaskSet], seed: &Seed) -> Result<Vec<Told>> {
        let places =
            |(task, set): (usize, &TaskSet)| (0..set.len()).map(move |at| (task, at)).collect::<Vec<_>>();
        let mut order: Vec<(usize, usize)> = sets.iter().enumerate().flat_map(places).collect();
        seed.random().shuffle(&mut order);
        let mut told = vec![Told::default(); sets.len()];
        let Some(shape) = sets.iter().find(|set| !set.is_empty()).map(TaskSet::shape) else {
            return Ok(told);
        };
        let area = (shape.height * shape.width).max(1);
        let mut bytes = vec![0; shape.bytes()];
        for places in order.chunks(self.batch.max(1)) {
            let mut pixels = Vec::with_capacity(places.len() * bytes.len());
            for &(task, position) in places {
                sets[task].write(position, &mut bytes);
                for (channel, plane) in bytes.chunks_exact(area).enumerate() {
                    let (mean, deviation) = match self.normalisations.get(task) {
                        Some(Some(scale)) => (scale.mean[channel], scale.deviation[channel]),
                        _ => (0.0, 1.0),
                    };
                    pixels.extend(plane.iter().map(|&byte| (f32::from(byte) / 255.0 - mean) / deviation));
                }
            }
            let shape = [places.len(), shape.channels, shape.height, shape.width];
            let images = Tensor::from_data(TensorData::new(pixels, shape), &self.device);
            let answers = self.answers.answer(&images, &[Hint::Mixed])?.pop().unwrap_or_default();
            for (answer, &(task, position)) in answers.iter().zip(places) {
                let right = self.is_right(answer, task, sets[task].label(position));
                told[task].count(right, answer.task, &answer.weights);
            }
        }
        Ok(told)
    }
}
