//! Calibration: what a task's data say about its head, measured once when the task is learned, and again by `lmc calibrate`.
//!
//! | what | from | for |
//! | --- | --- | --- |
//! | signature | training images; its limit also from validation images | finding the head, novelty |
//! | route | validation images, or training images if there are none | the prior and the modules of the head |
//! | distributions of scores | validation images | close heads, novelty, head choice `task_gaussian` |

use std::sync::Arc;

use lmc_streams::{BatchConfig, Seed, TaskSet};

use super::evaluation::Protocol;
use super::route::Route;
use super::signature::{Describer, Signature};
use super::task_gaussian::TaskGaussian;
use super::views::profile;
use super::{BatchPrior, HeadChoice, Routing};
use crate::error::{Error, Result};
use crate::file::history::Act;
use crate::model::Model;
use crate::network::forward::LayerTrace;
use crate::network::layer::CachedResponses;
use crate::tensors::images;
use crate::training::TaskData;

impl Model {
    /// Measures what the data of a task say about its head. The head must be frozen and have a view.
    pub fn calibrate(&mut self, head: usize, data: TaskData<'_>) -> Result<()> {
        let gaussian = self.score_distribution(head, data)?;
        let route = self.route(head, data)?;
        let signature = self.signature(head, data)?;
        let head = &mut self.network.heads[head];
        (head.gaussian, head.route, head.signature) = (gaussian, route, Some(Arc::new(signature)));
        Ok(())
    }

    /// Calibrates a learned task on its data, whose classes may come in any order. Once all tasks of a model that classifies
    /// behind the modules of its tasks are calibrated, heads are found by signature.
    pub fn recalibrate(&mut self, data: TaskData<'_>) -> Result<()> {
        let (number, head) = self.head(data.name)?;
        if self.progress().is_some() {
            return Err(Error::setting("calibrate", "a task is being learned", "finish it first"));
        }
        let labels = head.labels_of(data.classes)?;
        let (train, val) = (data.train.with_labels(&labels), data.val.with_labels(&labels));
        if train.is_empty() {
            return Err(Error::setting(format!("task '{}'", data.name), "there are no images", "give some"));
        }
        if self.network.heads[number].view.is_none() {
            // Nothing says which modules were there: all that are there now.
            let all = self.network.modules().into_iter().map(|modules| 0..modules).collect();
            self.network.heads[number].view = Some(all);
        }
        self.calibrate(number, TaskData { train: &train, val: &val, ..data })?;
        let complete = self.network.heads.iter().all(|head| head.signature.is_some() && head.route.is_some());
        let prediction = &mut self.config.prediction;
        if complete && prediction.routing == Routing::AsLearned {
            prediction.head_choice = HeadChoice::Signature;
        }
        self.history.push(Act::Calibrated { task: data.name.to_owned(), data: data.content_hash() });
        Ok(())
    }

    /// The distribution of a head's scores in its own view, each image alone, for head choice `task_gaussian`.
    fn score_distribution(&self, head: usize, data: TaskData<'_>) -> Result<Option<TaskGaussian>> {
        let val = data.val;
        let predictor = self.predictor()?;
        let mut profiles = Vec::with_capacity(val.len());
        for batch in BatchConfig::stored(predictor.images_at_once(Protocol::Single)).init(val)? {
            data.check_stop()?;
            let traces = predictor.batch(&images(&batch, predictor.device()), BatchPrior::PerImage)?;
            profiles.extend_from_slice(traces.profiles(head)?);
        }
        TaskGaussian::of_with_others(&profiles, self.config.novelty.false_alarms, |far| {
            let mut elsewhere = Vec::with_capacity(far.len());
            let far = val.part(far);
            for batch in BatchConfig::stored(predictor.images_at_once(Protocol::Single)).init(&far)? {
                data.check_stop()?;
                let traces = predictor.batch(&images(&batch, predictor.device()), BatchPrior::PerImage)?;
                let mut included = vec![false; batch.len()];
                for (other, found) in
                    self.network.heads.iter().enumerate().filter(|(other, _)| *other != head)
                {
                    if let Some(task) = &found.gaussian {
                        let of_task = traces.profiles(other)?.iter().map(|profile| task.includes(profile));
                        included.iter_mut().zip(of_task).for_each(|(any, one)| *any |= one);
                    }
                }
                elsewhere.extend(included);
            }
            Ok(elsewhere)
        })
    }

    /// The route of a head; `None` if it does not know which modules were there.
    fn route(&self, head: usize, data: TaskData<'_>) -> Result<Option<Route>> {
        let Some(view) = self.network.heads[head].view.clone() else { return Ok(None) };
        let set = if data.val.is_empty() { data.train } else { data.val };
        let mut probe = self.clone();
        let prediction = &mut probe.config.prediction;
        (prediction.head_choice, prediction.routing) = (HeadChoice::Signature, Routing::AsLearned);
        prediction.negligible_weight = 0.0;
        // Losses in batches of the task, as in training; then weights of all modules under the prior that follows.
        probe.network.heads[head].route = None;
        let losses = probe.layer_means(head, set, data, &mut |layer| &layer.losses)?;
        let weights = view.iter().map(|range| vec![1.0; range.len()]).collect();
        let mut route = Route { losses, weights, spare: None, gaussian: None };
        probe.network.heads[head].route = Some(route.clone());
        route.weights = probe.layer_means(head, set, data, &mut |layer| &layer.weights)?;
        route.spare = probe.spare_weight(head, &route, data)?;
        // Scores behind the modules that are left.
        probe.config.prediction.negligible_weight = self.config.prediction.negligible_weight;
        probe.network.heads[head].route = Some(route.clone());
        let predictor = probe.predictor()?;
        let view = predictor.classifying_view(head)?;
        let mut profiles = Vec::with_capacity(data.val.len());
        for batch in BatchConfig::stored(predictor.images_at_once(Protocol::Single)).init(data.val)? {
            data.check_stop()?;
            let input = images(&batch, predictor.device());
            let trace = predictor.pass(view, input, CachedResponses::default(), BatchPrior::PerImage)?;
            let losses = predictor.head_losses(head, &trace);
            profiles.extend(losses.iter().enumerate().map(|(image, &loss)| profile(loss, &trace, image)));
        }
        route.gaussian = TaskGaussian::of(&profiles, self.half_of_false_alarms());
        Ok(Some(route))
    }

    /// Mean over a set's images of a number for each module that a head classifies behind, `[layer][module]`.
    fn layer_means(
        &self,
        head: usize,
        set: &TaskSet,
        data: TaskData<'_>,
        of: &mut dyn FnMut(&LayerTrace) -> &Vec<Vec<f64>>,
    ) -> Result<Vec<Vec<f64>>> {
        let predictor = self.predictor()?;
        let mut sums: Vec<Vec<f64>> = Vec::new();
        for batch in BatchConfig::stored(self.config.batch).init(set)? {
            data.check_stop()?;
            let input = images(&batch, predictor.device());
            let trace = predictor.trace(head, input, CachedResponses::default(), BatchPrior::Shared)?;
            sums.resize(trace.layers.len(), Vec::new());
            for (sums, layer) in sums.iter_mut().zip(&trace.layers) {
                let numbers = of(layer);
                sums.resize(numbers.len(), 0.0);
                sums.iter_mut().zip(numbers).for_each(|(sum, images)| *sum += images.iter().sum::<f64>());
            }
        }
        let images = set.len().max(1) as f64;
        sums.iter_mut().flatten().for_each(|sum| *sum /= images);
        Ok(sums)
    }

    /// The signature of a task, with the limit of novelty.
    fn signature(&self, head: usize, data: TaskData<'_>) -> Result<Signature> {
        let describer = Describer::of(&self.network.config);
        let classes = self.network.heads[head].classes.len();
        let seed = Seed::root(self.seed).named("signature").named(data.name);
        Signature::learn(&describer, classes, data, self.half_of_false_alarms(), &seed)
    }

    /// Two rules call images new; each may raise half of the false alarms.
    fn half_of_false_alarms(&self) -> f64 {
        self.config.novelty.false_alarms / 2.0
    }
}
