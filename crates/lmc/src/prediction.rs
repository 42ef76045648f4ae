//! The prediction for one picture: task, class, probability, novelty, module weights.

use lmc_streams::{Batch, ImageShape, Picture, PixelScale};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::inference::evaluation::Protocol;
use crate::inference::{BatchPredictions, Predictor};
use crate::tensors::images;

/// Task, class and novelty of one picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Name of the task whose head classified the picture.
    pub task: String,
    /// Name of the class.
    pub class: String,
    /// Probability of the class among those of the task.
    pub probability: f64,
    /// Whether the picture fits no task; `None` if the model was never calibrated.
    pub novel: Option<bool>,
    /// Weight of each module in the picture's forward pass, `[layer][module]`, up to the last module that the task's head
    /// sees.
    pub module_weights: Vec<Vec<f64>>,
}

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

    /// Brings a picture to the size and the channels of the network; what is prepared already stays as it is.
    pub fn prepare_picture(&self, picture: Picture) -> Picture {
        self.preparation.apply(picture)
    }

    /// Brings pictures to the shape of the network.
    fn prepare(&self, pictures: &[Picture]) -> Result<Batch> {
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
        let head = &self.heads[found.heads[image]];
        let label = found.label(image);
        let probability = found.probabilities(image).get(label).copied();
        if probability.is_some_and(|probability| !probability.is_finite()) {
            return Err(Error::NotFinite { what: "a probability" });
        }
        match (head.classes.get(label), probability) {
            (Some(class), Some(probability)) => Ok(Prediction {
                task: head.task.clone(),
                class: class.clone(),
                probability,
                novel: self.is_novel(found, image),
                module_weights: found.weights(image),
            }),
            _ => Err(Error::setting(format!("task '{}'", head.task), "it has no classes", "learn it anew")),
        }
    }
}
