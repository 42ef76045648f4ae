//! Head first: find the head of an image by how it looks, then ask only the modules of that head.
//!
//! ```text
//! s_t(x)          log-likelihood of task t                                      signature/discriminant.rs
//! close           tasks within 10 of the best
//! c_t(x)          logarithm of the largest probability of a class behind the route of task t
//! p(t | x)        softmax over close tasks of s_t(x) / 4 + c_t(x) / 2
//! p(name | x)     sum over t of p(t | x) p_t(name | x)
//! ```
//!
//! The numbers of a descriptor are not as independent as the likelihood takes them to be. That hardly matters between data
//! sets, but tasks of one data set, which differ by their classes only, would be told apart with far too much confidence;
//! hence the divisor. Among them the network says more: a head that knows the class of an image is surer of its answer.
//! Images that are known to be of one task share what is wrong with its statistics: their sum counts as that of four at most.
//! Nearly always one task is close, and then one route is all that runs. What a head says of an image depends on nothing but
//! the image, so that it is the same in a batch of one task, in a mixed batch and alone.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use burn::tensor::{Int, Tensor, TensorData};

use super::novelty::Novelty;
use super::signature::{Describer, Discriminant, OwnDistance};
use super::views::profile;
use super::{BatchPredictions, BatchPrior, Decision, Predictor};
use crate::error::{Error, Result};
use crate::network::composition::softmax;
use crate::network::head::HeadSelection;
use crate::network::layer::CachedResponses;
use crate::tensors::values;

/// Tasks whose log-likelihood is this much below the best are not considered.
const CLOSE: f64 = 10.0;

/// Weight of the log-likelihood of how an image looks among close tasks.
const LOOKS: f64 = 0.25;

/// Weight of how sure the head of a close task is.
const CONFIDENCE: f64 = 0.5;

/// As how many images those count, at most, that are known to be of one task.
const MOST_IMAGES: f64 = 4.0;

/// What is computed once for all images.
#[derive(Debug)]
pub(crate) struct HeadFirst {
    describer: Describer,
    discriminant: Discriminant,
    /// For novelty, by head; prepared when a head is first asked.
    distances: Vec<OnceCell<Option<OwnDistance>>>,
}

/// What a head says of an image behind its route.
#[derive(Debug)]
struct HeadResult {
    logits: Vec<f64>,
    weights: Vec<Vec<f64>>,
    profile: Vec<f64>,
}

/// A batch whose heads are found first.
#[derive(Debug)]
pub struct RoutedBatch<'a> {
    predictor: &'a Predictor,
    images: Tensor<4>,
    /// By image.
    descriptors: OnceCell<Vec<Vec<f32>>>,
    /// Log-likelihoods, `[image][head]`.
    scores: OnceCell<Vec<Vec<f64>>>,
    /// What heads said so far, `[head][image]`.
    results: RefCell<Vec<Vec<Option<Rc<HeadResult>>>>>,
}

impl Predictor {
    /// Tasks that have no signature or no route; where there are any, heads are chosen by scores.
    pub fn without_signature(&self) -> Vec<&str> {
        let without = self.heads.iter().filter(|head| head.signature.is_none() || head.route.is_none());
        without.map(|head| head.task.as_str()).collect()
    }

    /// Prepares a batch, if heads are chosen by signature and all have one.
    pub(crate) fn routed(&self, images: &Tensor<4>) -> Result<Option<RoutedBatch<'_>>> {
        let has_all =
            self.routes.iter().all(Option::is_some) && self.heads.iter().all(|head| head.signature.is_some());
        if self.heads.is_empty() || !has_all {
            return Ok(None);
        }
        let count = images.dims()[0];
        self.check_memory(count)?;
        Ok(Some(RoutedBatch {
            predictor: self,
            images: images.clone(),
            descriptors: OnceCell::new(),
            scores: OnceCell::new(),
            results: RefCell::new(vec![vec![None; count]; self.heads.len()]),
        }))
    }

    /// The comparison of all signatures.
    fn head_first(&self) -> Result<&HeadFirst> {
        let prepare = || {
            let signatures: Option<Vec<_>> =
                self.heads.iter().map(|head| head.signature.as_deref()).collect();
            let discriminant = Discriminant::new(&signatures?)?;
            let describer = Describer::new(self.preparation.channels, self.preparation.size);
            let distances = self.heads.iter().map(|_| OnceCell::new()).collect();
            Some(Rc::new(HeadFirst { describer, discriminant, distances }))
        };
        self.head_first.get_or_init(prepare).as_deref().ok_or_else(|| {
            let cure = "calibrate its tasks anew (lmc calibrate), or choose heads by task_gaussian";
            Error::setting("model", "the signatures of its tasks cannot be compared", cure)
        })
    }
}

impl RoutedBatch<'_> {
    fn count(&self) -> usize {
        self.images.dims()[0]
    }

    fn descriptors(&self) -> Result<&[Vec<f32>]> {
        let describer = &self.predictor.head_first()?.describer;
        let describe = || describer.describe_all(&values(&self.images), self.count());
        Ok(self.descriptors.get_or_init(describe))
    }

    /// Log-likelihoods of all tasks, `[image][head]`.
    pub fn scores(&self) -> Result<&[Vec<f64>]> {
        let discriminant = &self.predictor.head_first()?.discriminant;
        let descriptors = self.descriptors()?;
        let score = || descriptors.iter().map(|descriptor| discriminant.scores(descriptor)).collect();
        Ok(self.scores.get_or_init(score))
    }

    /// Asks a head about images that it was not asked about before: one pass through its route.
    fn ask(&self, head: usize, images: &[usize]) -> Result<()> {
        let mut results = self.results.borrow_mut();
        let new: Vec<usize> = images.iter().copied().filter(|&at| results[head][at].is_none()).collect();
        if new.is_empty() {
            return Ok(());
        }
        let input = match new.len() == self.count() {
            true => self.images.clone(),
            false => {
                let places: Vec<i32> = new.iter().map(|&at| at as i32).collect();
                let places = TensorData::new(places, [new.len()]);
                self.images.clone().select(0, Tensor::<1, Int>::from_data(places, &self.images.device()))
            }
        };
        let predictor = self.predictor;
        let view = predictor.classifying_view(head)?;
        let trace = predictor.pass(view, input, CachedResponses::default(), BatchPrior::PerImage)?;
        let rows = predictor.logit_rows(head, trace.features.clone())?;
        let losses = predictor.head_losses(head, &trace);
        for (at, (logits, loss)) in rows.into_iter().zip(losses).enumerate() {
            let weights = predictor.views[view].weights(&trace, at);
            let profile = profile(loss, &trace, at);
            results[head][new[at]] = Some(Rc::new(HeadResult { logits, weights, profile }));
        }
        Ok(())
    }

    fn result(&self, head: usize, image: usize) -> Result<Rc<HeadResult>> {
        self.ask(head, &[image])?;
        let found = self.results.borrow()[head][image].clone();
        found.ok_or_else(|| Error::setting("head", "it was not asked", "report this as a bug of lmc"))
    }

    /// How sure a head is of its answers on some images: the sum of the logarithms of its largest probabilities.
    fn confidence(&self, head: usize, images: &[usize]) -> Result<f64> {
        let mut sum = 0.0;
        for &image in images {
            let probabilities = softmax(&self.result(head, image)?.logits);
            sum += libm::log(probabilities.iter().copied().fold(f64::MIN_POSITIVE, f64::max));
        }
        Ok(sum)
    }

    /// Posterior probabilities of the close tasks of images that are known to be of one task, the likeliest first.
    fn posterior(&self, images: &[usize]) -> Result<Vec<(usize, f64)>> {
        let scores = self.scores()?;
        let share = (MOST_IMAGES / images.len().max(1) as f64).min(1.0);
        let total = |head: usize| share * images.iter().map(|&image| scores[image][head]).sum::<f64>();
        let totals: Vec<f64> = (0..self.predictor.heads.len()).map(total).collect();
        let best = totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let close: Vec<usize> = (0..totals.len()).filter(|&head| totals[head] >= best - CLOSE).collect();
        if let [only] = close[..] {
            return Ok(vec![(only, 1.0)]);
        }
        let mut evidence = Vec::with_capacity(close.len());
        for &head in &close {
            self.ask(head, images)?;
            evidence.push(LOOKS * totals[head] + CONFIDENCE * share * self.confidence(head, images)?);
        }
        let posterior = softmax(&evidence);
        let mut tasks: Vec<(usize, f64)> = close.into_iter().zip(posterior).collect();
        tasks.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(tasks)
    }

    /// Classifies the batch; `novelty` asks whether images are new.
    pub fn classify(&self, selection: HeadSelection, novelty: bool) -> Result<BatchPredictions> {
        let all: Vec<usize> = (0..self.count()).collect();
        let tasks: Vec<Vec<(usize, f64)>> = match selection {
            HeadSelection::Given(head) => {
                self.predictor.own_view(head)?;
                vec![vec![(head, 1.0)]; all.len()]
            }
            HeadSelection::Batch => vec![self.posterior(&all)?; all.len()],
            HeadSelection::Sample => {
                let mut first: Vec<Vec<usize>> = vec![Vec::new(); self.predictor.heads.len()];
                for (image, scores) in self.scores()?.iter().enumerate() {
                    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let close = first.iter_mut().zip(scores).filter(|(_, score)| **score >= best - CLOSE);
                    close.for_each(|(images, _)| images.push(image));
                }
                // Each head sees its images together.
                first.iter().enumerate().try_for_each(|(head, images)| self.ask(head, images))?;
                all.iter().map(|&image| self.posterior(&[image])).collect::<Result<_>>()?
            }
        };
        for head in 0..self.predictor.heads.len() {
            let considered = |image: &usize| tasks[*image].iter().any(|(task, _)| *task == head);
            self.ask(head, &all.iter().copied().filter(considered).collect::<Vec<_>>())?;
        }
        let mut found = BatchPredictions {
            heads: Vec::with_capacity(all.len()),
            logits: Vec::with_capacity(all.len()),
            head_losses: Vec::new(),
            decisions: Vec::with_capacity(all.len()),
            traces: Vec::new(),
        };
        for (image, tasks) in tasks.into_iter().enumerate() {
            let results = tasks.iter().map(|&(head, _)| self.result(head, image));
            let results = results.collect::<Result<Vec<_>>>()?;
            let asked = tasks.iter().zip(&results);
            let asked: Vec<_> =
                asked.map(|(&(head, posterior), result)| (head, posterior, &result.logits[..])).collect();
            let classes = self.predictor.mixture(&asked)?;
            let head = classes.first().map_or(0, |class| class.head);
            let own = tasks.iter().position(|(task, _)| *task == head).unwrap_or(0);
            let novelty =
                if novelty { self.novelty(tasks[0].0, image, &results[0])? } else { Novelty::default() };
            found.heads.push(head);
            found.logits.push(results[own].logits.clone());
            found.decisions.push(Decision { tasks, classes, weights: results[own].weights.clone(), novelty });
        }
        Ok(found)
    }

    /// How new an image is for its likeliest task: by how it looks, and by its scores.
    fn novelty(&self, head: usize, image: usize, result: &HeadResult) -> Result<Novelty> {
        let known = &self.predictor.heads[head];
        let gaussian = known.route.as_ref().and_then(|route| route.gaussian.as_ref());
        let scores = gaussian.map(|task| task.novelty(&result.profile));
        let Some(reach) = known.signature.as_ref().and_then(|signature| signature.reach) else {
            return Ok(Novelty { looks: None, scores });
        };
        let prepare = || OwnDistance::new(known.signature.as_deref()?);
        let distance = self.predictor.head_first()?.distances[head].get_or_init(prepare);
        let descriptor = &self.descriptors()?[image];
        let looks = distance.as_ref().map(|distance| reach.novelty(distance.log_distance(descriptor)));
        Ok(Novelty { looks, scores })
    }
}
