//! The prediction for one picture: task, class, probability, novelty, module weights.

use lmc_streams::{Batch, ImageShape, Picture, PixelScale};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::inference::evaluation::Protocol;
use crate::inference::{BatchPredictions, Predictor};
use crate::network::head::Head;
use crate::tensors::images;

/// Task, class and novelty of one picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Name of the task whose head classified the picture.
    pub task: String,
    /// Name of the class.
    pub class: String,
    /// Probability of the class name: that of each task considered, times the posterior of the task, summed.
    pub probability: f64,
    /// The next best class names with their probabilities, the likeliest first.
    pub alternatives: Vec<ClassShare>,
    /// The tasks that were considered with their posterior probabilities, the likeliest first.
    pub tasks: Vec<TaskShare>,
    /// Whether the picture fits no task; `None` if the model was never calibrated.
    pub novel: Option<bool>,
    /// How unlike the pictures of its task it is: 0 is typical, and above 1 it is called new.
    pub novelty: Option<f64>,
    /// Weight of each module in the picture's forward pass, `[layer][module]`, up to the last module that the task's head
    /// sees.
    pub module_weights: Vec<Vec<f64>>,
}

/// A class name and its probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassShare {
    /// Name of the class.
    pub class: String,
    /// The task that says most for it.
    pub task: String,
    /// Probability of the name.
    pub probability: f64,
}

/// A task and the probability that a picture is of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskShare {
    /// Name of the task.
    pub task: String,
    /// Posterior probability among the tasks considered.
    pub posterior: f64,
}

/// How likely a task is for how a picture looks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskEvidence {
    /// Name of the task.
    pub task: String,
    /// Log-likelihood, that of the likeliest task being 0.
    pub log_likelihood: f64,
}

/// Number of alternatives that a prediction has at most.
const ALTERNATIVES: usize = 4;

impl Predictor {
    /// Classifies pictures of any size under a protocol; [`Protocol::TaskGiven`] needs the task. Pictures are prepared as
    /// the model's training images were.
    pub fn predict_pictures(
        &self,
        pictures: &[Picture],
        protocol: Protocol,
        task: Option<&str>,
    ) -> Result<Vec<Prediction>> {
        let head = task.map(|task| self.head(task)).transpose()?;
        let (prior, selection) = Self::conditions(protocol, head)?;
        let mut predictions = Vec::with_capacity(pictures.len());
        for pictures in pictures.chunks(self.images_at_once(protocol)) {
            let batch = self.prepare(pictures)?;
            let found = self.predict(&images(&batch, self.device()), prior, selection)?;
            for image in 0..batch.len() {
                predictions.push(self.prediction(&found, image)?);
            }
        }
        Ok(predictions)
    }

    /// How likely every task is for how pictures look, `[picture][task]`; `None` if heads are not found by signature.
    pub fn evidence(&self, pictures: &[Picture]) -> Result<Option<Vec<Vec<TaskEvidence>>>> {
        let mut found = Vec::with_capacity(pictures.len());
        for pictures in pictures.chunks(self.images_at_once(Protocol::Single)) {
            let batch = self.prepare(pictures)?;
            let Some(routed) = self.routed(&images(&batch, self.device()))? else { return Ok(None) };
            for scores in routed.scores()? {
                let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let task = |(head, score): (&Head, &f64)| TaskEvidence {
                    task: head.task.clone(),
                    log_likelihood: score - best,
                };
                found.push(self.heads.iter().zip(scores).map(task).collect());
            }
        }
        Ok(Some(found))
    }

    /// Brings a picture to the size and the channels of the network; what is prepared already stays as it is.
    pub fn prepare_picture(&self, picture: Picture) -> Picture {
        self.preparation.apply(picture)
    }

    /// Brings pictures to the shape of the network.
    pub(crate) fn prepare(&self, pictures: &[Picture]) -> Result<Batch> {
        let shape = ImageShape {
            channels: self.preparation.channels,
            height: self.preparation.size,
            width: self.preparation.size,
        };
        let scale = PixelScale::new(None, shape.channels)?;
        let mut batch = Batch::default();
        batch.clear(shape);
        for (position, picture) in pictures.iter().enumerate() {
            if picture.width == 0 || picture.height == 0 {
                let problem = format!("picture {position} has no pixels");
                return Err(Error::setting("pictures", problem, "leave it out"));
            }
            let prepared = self.preparation.apply(picture.clone()).to_planar();
            batch.push(&prepared, 0, position as u32, &scale);
        }
        Ok(batch)
    }

    fn prediction(&self, found: &BatchPredictions, image: usize) -> Result<Prediction> {
        let decision = &found.decisions[image];
        let mut classes = decision.classes.iter().map(|found| {
            let head = &self.heads[found.head];
            let (task, class) = (head.task.clone(), head.classes[found.label].clone());
            ClassShare { class, task, probability: found.probability }
        });
        let Some(ClassShare { class, task, probability }) = classes.next() else {
            let head = &self.heads[found.heads[image]];
            return Err(Error::setting(
                format!("task '{}'", head.task),
                "it has no classes",
                "learn it anew",
            ));
        };
        if !probability.is_finite() {
            return Err(Error::NotFinite { what: "a probability" });
        }
        let share =
            |&(head, posterior): &(usize, f64)| TaskShare { task: self.heads[head].task.clone(), posterior };
        Ok(Prediction {
            task,
            class,
            probability,
            alternatives: classes.take(ALTERNATIVES).collect(),
            tasks: decision.tasks.iter().map(share).collect(),
            novel: decision.is_novel(),
            novelty: decision.novelty.level(),
            module_weights: decision.weights.clone(),
        })
    }
}
