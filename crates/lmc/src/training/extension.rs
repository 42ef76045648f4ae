//! Extension: a task that is learned already gets more pictures or more classes (not in the paper).
//!
//! The modules that its head sees stay as they are; only the head gets a new version. Its classifier starts from the old one,
//! with further rows for new classes, and is trained by cross-entropy on the features of the new images. Images of classes
//! that the new data lack are not kept anywhere: for these the old head is a teacher (distillation), so that the new one
//! still knows them. The structural component, which scores what belongs to the task, stays, unless it depends on the
//! logits; the distribution of the task's scores then covers old and new images.
//!
//! The new version replaces the old one only if it is at least as accurate on the validation images of the new data: on all
//! of them, where the old version is wrong on images of classes that it does not know, and on images of the classes that
//! both know, told apart among these alone, so that new classes cannot hide what is lost. Without images of every known class
//! the versions cannot be compared.

use std::sync::Arc;

use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Device, Tensor};
use lmc_streams::names::check_name;
use lmc_streams::{BatchConfig, Random, TaskSet};
use serde::Serialize;

use super::config::LearnerConfig;
use super::step::cross_entropy;
use super::{EpochMetrics, TaskData, TaskReport};
use crate::error::{Error, Result};
use crate::events::Event;
use crate::file::history::{Act, LearnedFrom};
use crate::inference::route::Route;
use crate::inference::task_gaussian::TaskGaussian;
use crate::inference::{BatchPrior, Predictor};
use crate::model::Model;
use crate::network::head::Head;
use crate::network::layer::CachedResponses;
use crate::tensors::{correct, images, scalar, tensor, values, without_gradients};

/// Temperature of the old head's probabilities as targets.
const DISTILLATION_TEMPERATURE: f32 = 2.0;

/// How the extension of a task went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExtensionReport {
    /// Name of the task.
    pub task: String,
    /// Version of its head now.
    pub version: u32,
    /// Whether the new version replaced the old one.
    pub adopted: bool,
    /// Classes that came in addition.
    pub new_classes: Vec<String>,
    /// Classes of the task of which the new data have no training image.
    pub absent_classes: Vec<String>,
    /// Accuracy of the old version on the new validation images; `None` if there are none.
    pub accuracy_before: Option<f64>,
    /// Accuracy of the new version on the new validation images; `None` if there are none.
    pub accuracy: Option<f64>,
    /// Accuracy of the old version on validation images of classes that both know, among these; `None` if there are none.
    pub known_before: Option<f64>,
    /// Accuracy of the new version on the same images, among the same classes.
    pub known: Option<f64>,
    /// Epochs that were run.
    pub epochs: usize,
}

/// Features of images, computed once: the trunk is frozen.
pub(crate) struct FeatureSet {
    /// Row by row.
    features: Vec<f32>,
    length: usize,
    labels: Vec<u32>,
}

impl FeatureSet {
    /// Features of all images of a set behind the modules that a head sees.
    pub(crate) fn new(
        predictor: &Predictor,
        head: usize,
        batches: &BatchConfig,
        data: TaskData<'_>,
        set: &TaskSet,
    ) -> Result<Self> {
        let (mut features, mut labels, mut length) = (Vec::new(), Vec::with_capacity(set.len()), 0);
        for batch in batches.init(set)? {
            data.check_stop()?;
            let input = images(&batch, predictor.device());
            let found =
                predictor.trace(head, input, CachedResponses::default(), BatchPrior::Shared)?.features;
            length = found.dims()[1];
            features.extend(values(&found));
            labels.extend_from_slice(&batch.labels);
        }
        Ok(Self { features, length, labels })
    }

    /// Number of images.
    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Some of the rows, with their labels.
    pub(crate) fn rows(&self, positions: &[usize], device: &Device) -> (Tensor<2>, Vec<u32>) {
        let mut rows = Vec::with_capacity(positions.len() * self.length);
        for &at in positions {
            rows.extend_from_slice(&self.features[at * self.length..(at + 1) * self.length]);
        }
        let labels = positions.iter().map(|&at| self.labels[at]).collect();
        (tensor(rows, [positions.len(), self.length], device), labels)
    }

    /// Accuracy of a head without gradients; `None` without images.
    pub(crate) fn accuracy(&self, head: &Head, device: &Device) -> Option<f64> {
        self.accuracy_among(head, head.classes.len(), device)
    }

    /// Accuracy of a head without gradients on images of its first classes, told apart among these; `None` without images.
    fn accuracy_among(&self, head: &Head, classes: usize, device: &Device) -> Option<f64> {
        const ROWS: usize = 1024;
        let all: Vec<usize> =
            (0..self.labels.len()).filter(|&at| (self.labels[at] as usize) < classes).collect();
        let classes = classes.min(head.classes.len());
        let right = |part: &[usize]| {
            let (features, labels) = self.rows(part, device);
            correct(&head.logits(features).narrow(1, 0, classes), &labels)
        };
        let right: usize = all.chunks(ROWS).map(right).sum();
        (!all.is_empty()).then(|| right as f64 / all.len() as f64)
    }
}

impl Model {
    /// Gives a learned task more pictures or classes. The new version of its head is kept if it is at least as accurate on
    /// the validation images as the old one, or if `replace` says so; else the model stays as it is.
    pub fn extend(
        &mut self,
        data: TaskData<'_>,
        epochs: Option<usize>,
        replace: bool,
        listen: &mut dyn FnMut(Event) -> Result<()>,
    ) -> Result<ExtensionReport> {
        let (number, old) = self.head(data.name)?;
        let old = old.clone();
        let (labels, new_classes) = self.check_extension(&old, data)?;
        let train = data.train.with_labels(&labels);
        let val = data.val.with_labels(&labels);
        let absent = |(label, _): &(usize, &String)| train.of_label(*label as u32, 1).is_empty();
        let absent_classes: Vec<String> =
            old.classes.iter().enumerate().filter(absent).map(|(_, name)| name.clone()).collect();
        let config = self.config.for_task(&train, epochs)?;
        let seed = self.task_seed(number).named("extension").numbered(u64::from(old.version));
        let predictor = self.predictor()?;
        let shuffled = BatchConfig::shuffled(self.config.batch, seed.named("features"));
        let labelled = TaskData { train: &train, val: &val, ..data };
        let train = FeatureSet::new(&predictor, number, &shuffled, data, &train)?;
        let stored = BatchConfig::stored(self.config.batch);
        let val = FeatureSet::new(&predictor, number, &stored, data, &val)?;
        let known_classes = old.classes.len();
        let plain = without_gradients(&old);
        // Of the classes that it does not know, the old version has nothing right.
        let images = val.labels.len().max(1) as f64;
        let known_images =
            val.labels.iter().filter(|&&label| (label as usize) < known_classes).count() as f64;
        let known_before = val.accuracy_among(&plain, known_classes, predictor.device());
        let before = (!val.labels.is_empty()).then(|| known_before.unwrap_or(0.0) * known_images / images);

        let head = old.with_classes(&new_classes, &seed.named("head"), &self.network.device);
        let mut fitted = Fitting {
            train,
            val,
            config: &config,
            absent: &absent_classes,
            old: &old,
            device: &self.network.device,
        }
        .run(head, &mut seed.named("batches").random(), listen)?;
        let mut report = ExtensionReport {
            task: data.name.to_owned(),
            version: old.version,
            adopted: replace
                || absent_classes.is_empty()
                    && is_as_good(fitted.accuracy, before)
                    && is_as_good(fitted.known, known_before),
            new_classes,
            absent_classes,
            accuracy_before: before,
            accuracy: fitted.accuracy,
            known_before,
            known: fitted.known,
            epochs: fitted.epochs,
        };
        if report.adopted {
            report.version += 1;
            fitted.head.version = report.version;
            fitted.head.freeze();
            self.network.heads[number] = fitted.head;
            let pooled = self.pool_calibration(number, &old, labelled);
            pooled.inspect_err(|_| self.network.heads[number] = old)?;
            self.note_extension(data, &report, config);
        }
        Ok(report)
    }

    /// Labels of the data in the order of the head's classes, new ones behind them, and the names of the new ones.
    fn check_extension(&self, head: &Head, data: TaskData<'_>) -> Result<(Vec<u32>, Vec<String>)> {
        let fail =
            |problem: &str, cure: &str| Err(Error::setting(format!("task '{}'", data.name), problem, cure));
        if self.progress().is_some() {
            return fail("another task is being learned", "finish it first");
        }
        if data.train.is_empty() {
            return fail("there are no training images", "give some");
        }
        let mut new_classes: Vec<String> = Vec::new();
        let mut labels = Vec::with_capacity(data.classes.len());
        for class in data.classes {
            let label = head.classes.iter().chain(&new_classes).position(|known| known == class);
            labels.push(label.unwrap_or(head.classes.len() + new_classes.len()) as u32);
            if label.is_none() {
                check_name("class", class)?;
                new_classes.push(class.clone());
            }
        }
        Ok((labels, new_classes))
    }

    /// Calibrates the head on the new images, whose labels are in the order of its classes, and pools that with what the
    /// old images said. Modules and prior stay those of the old ones.
    fn pool_calibration(&mut self, number: usize, old: &Head, data: TaskData<'_>) -> Result<()> {
        self.calibrate(number, data)?;
        let known = self.history.learned_from(&old.task).map(|from| from.val).sum::<usize>();
        let new = data.val.len();
        let counts = (if known == 0 { new } else { known }, new);
        let head = &mut self.network.heads[number];
        // Scores of an old component say nothing of the new one's.
        let same_scores = !head.scores_logits();
        let pool = |before: Option<&TaskGaussian>, now: Option<&TaskGaussian>| match (before, now) {
            (Some(before), Some(now)) if same_scores => before.pooled(counts.0, now, counts.1),
            (before, now) => now.or(before).cloned(),
        };
        head.gaussian = pool(old.gaussian.as_ref(), head.gaussian.as_ref());
        if let (Some(before), Some(now)) = (&old.route, &head.route) {
            let gaussian = pool(before.gaussian.as_ref(), now.gaussian.as_ref());
            head.route = Some(Route { gaussian, ..before.clone() });
        }
        if let (Some(before), Some(now)) = (&old.signature, &head.signature) {
            head.signature = Some(Arc::new(before.pooled(now)));
        }
        Ok(())
    }

    fn note_extension(&mut self, data: TaskData<'_>, report: &ExtensionReport, config: LearnerConfig) {
        let (epochs, val_accuracy) = (report.epochs, report.accuracy);
        let trained = TaskReport { epochs, val_accuracy, ..TaskReport::default() };
        self.history.push(Act::Extended {
            task: report.task.clone(),
            head: report.version,
            new_classes: report.new_classes.clone(),
            from: Box::new(LearnedFrom::new(data, &trained, config)),
        });
    }
}

/// Whether a new accuracy is measured and not below the old one.
fn is_as_good(new: Option<f64>, old: Option<f64>) -> bool {
    matches!((new, old), (Some(new), Some(old)) if new >= old)
}

/// What a new version of a head is trained with.
struct Fitting<'a> {
    train: FeatureSet,
    val: FeatureSet,
    config: &'a LearnerConfig,
    absent: &'a [String],
    old: &'a Head,
    device: &'a Device,
}

/// The best state of a new version of a head.
struct Fitted {
    head: Head,
    accuracy: Option<f64>,
    /// On images of the classes of the old version, among these.
    known: Option<f64>,
    epochs: usize,
}

impl Fitting<'_> {
    /// Trains a head; keeps the epoch with the best validation accuracy, or the last one without validation images.
    fn run(
        &self,
        mut head: Head,
        random: &mut Random,
        listen: &mut dyn FnMut(Event) -> Result<()>,
    ) -> Result<Fitted> {
        let epochs = self.config.epochs;
        let inner = self.device.clone().inner();
        let mut adam = self.config.optimiser.init();
        head.unfreeze_classifier();
        let mut best: Option<(f64, Head)> = None;
        let mut order: Vec<usize> = (0..self.train.labels.len()).collect();
        let steps = order.len().div_ceil(self.config.batch.max(1));
        for epoch in 0..epochs {
            let mut metrics = EpochMetrics::new(&head.task, epoch, steps);
            random.shuffle(&mut order);
            for part in order.chunks(self.config.batch.max(1)) {
                let (features, labels) = self.train.rows(part, self.device);
                let logits = head.logits(features.clone());
                let entropy = cross_entropy(logits.clone(), &labels);
                let mut loss = entropy.clone();
                if !self.absent.is_empty() {
                    loss = loss + self.distillation(logits.clone(), &features);
                }
                if head.scores_logits() {
                    loss = loss + head.losses(features).mean().mul_scalar(self.config.structural_weight);
                }
                let event = metrics.batch(
                    scalar(&loss),
                    scalar(&entropy),
                    correct(&logits, &labels),
                    labels.len(),
                )?;
                let mut gradients = loss.backward();
                adam.step(&mut head, &mut gradients);
                listen(event)?;
            }
            let accuracy = self.val.accuracy(&without_gradients(&head), &inner);
            if let Some(accuracy) = accuracy
                && best.as_ref().is_none_or(|(before, _)| accuracy > *before)
            {
                best = Some((accuracy, head.clone()));
            }
            listen(metrics.end(epochs, accuracy, Vec::new()))?;
        }
        let (accuracy, head) = match best {
            Some((accuracy, head)) => (Some(accuracy), head),
            None => (None, head),
        };
        let known = self.val.accuracy_among(&without_gradients(&head), self.old.classes.len(), &inner);
        Ok(Fitted { head, accuracy, known, epochs })
    }

    /// Cross-entropy against the old head's softened probabilities of its own classes.
    fn distillation(&self, logits: Tensor<2>, features: &Tensor<2>) -> Tensor<1> {
        let known = self.old.classes.len();
        let [rows, _] = logits.dims();
        let soft = |logits: Tensor<2>| logits.div_scalar(DISTILLATION_TEMPERATURE);
        let target = softmax(soft(self.old.logits(features.clone()).detach()), 1);
        let own = log_softmax(soft(logits.narrow(1, 0, known)), 1);
        let weight = DISTILLATION_TEMPERATURE * DISTILLATION_TEMPERATURE / rows as f32;
        (target * own).sum().mul_scalar(-weight)
    }
}
