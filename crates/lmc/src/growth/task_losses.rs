//! The test for expansion on a whole task, and score statistics taken at the end of a task. Both are ours, not the paper's.
//!
//! The paper asks in every training batch whether a layer needs a module, and compares with a window that was filled while
//! the module was trained. With a few hundred images neither works: the window still holds the losses of an untrained
//! decoder, and among hundreds of batches one is unusual by chance. Here every image of a task, training and validation,
//! gives its structural losses *once*, in evaluation mode behind the modules that the task's head sees. Batches are then
//! drawn from them with replacement:
//!
//! - at the end of a task, a hundred such batches are the window of every module that was trained on it
//!   ([`StatisticsSource::TaskEnd`](crate::internals::module::statistics::StatisticsSource));
//! - at the beginning of a task and after each projection phase, the *mean z* of a hundred such batches decides whether a
//!   layer gets a module ([`ExpansionTiming::BetweenPhases`](super::expansion::ExpansionTiming)).

use lmc_streams::{BatchConfig, Seed};
use serde::{Deserialize, Serialize};

use super::expansion::ExpansionConfig;
use crate::error::Result;
use crate::inference::BatchPrior;
use crate::model::Model;
use crate::module::statistics::{Statistics, StatisticsConfig};
use crate::network::composition::mean;
use crate::network::forward::LayerTrace;
use crate::network::layer::Layer;
use crate::tensors::images;
use crate::training::TaskData;
use crate::training::epoch::TaskCaches;
use crate::training::step::ExpansionRequest;

/// Batches that are drawn for one test, and the fewest that stand in a window: enough for a deviation within 10 %.
const DRAWS: usize = 100;

/// The largest z-score that is reported; a module that was only ever given equal batches has no deviation.
const LARGEST_Z: f64 = 1e9;

/// One test for expansion on all images of a task: the z-scores of the layers, and which layer grew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpansionTest {
    /// The epoch before which the layers were tested, from 0.
    pub epoch: usize,
    /// Mean z-score of each layer: that of the module which the task fits best. `None` for a layer that was not tested
    /// because it has a trainable module, or because a layer below it grew.
    pub z: Vec<Option<f64>>,
    /// The same for the spread of the images' losses, where it was tested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<Option<f64>>,
    /// The layer that got a module, from 0.
    pub layer: Option<usize>,
}

/// Structural losses and weights of all images of a task, layer by layer.
#[derive(Clone, Debug)]
pub(crate) struct TaskLosses {
    layers: Vec<LayerTrace>,
    /// Positions of the images in each batch that is drawn.
    draws: Vec<Vec<usize>>,
}

/// Mean z-scores of one module over the batches that are drawn.
#[derive(Clone, Copy, Debug)]
struct ModuleScore {
    z: f64,
    spread: f64,
}

impl TaskLosses {
    /// Passes every training and validation image once through the modules that a head sees, and draws batches of the
    /// training's size.
    pub(crate) fn of(
        model: &Model,
        head: usize,
        data: TaskData<'_>,
        caches: &TaskCaches,
        draws: usize,
        seed: &Seed,
    ) -> Result<Self> {
        let predictor = model.predictor()?;
        let size = model.config.batch;
        let mut layers: Vec<LayerTrace> = Vec::new();
        for (set, cache, name) in [(data.train, caches.train(), "train"), (data.val, caches.val(), "val")] {
            if set.is_empty() {
                continue;
            }
            // Images are stored by class. Shuffled, they give batches whose prior is that of training.
            for batch in BatchConfig::shuffled(size, seed.named(name)).init(set)? {
                data.check_stop()?;
                let cached = cache.map(|cache| cache.responses(&batch.positions, predictor.device()));
                let input = images(&batch, predictor.device());
                let trace = predictor.trace(head, input, cached.unwrap_or_default(), BatchPrior::Shared)?;
                if layers.is_empty() {
                    layers = trace.layers;
                } else {
                    layers.iter_mut().zip(trace.layers).for_each(|(all, more)| append(all, more));
                }
            }
        }
        let count = layers.first().and_then(|layer| layer.losses.first()).map_or(0, Vec::len);
        let mut random = seed.named("draws").random();
        let draw = |_| (0..size).map(|_| random.below(count)).collect();
        let draws = if count == 0 { Vec::new() } else { (0..draws).map(draw).collect() };
        Ok(Self { layers, draws })
    }

    /// The window of a module: the drawn batches, each with the images that give the module weight. `None` if there are
    /// no such images.
    fn statistics(&self, layer: usize, module: usize, config: &StatisticsConfig) -> Option<Statistics> {
        let trace = self.layers.get(layer)?;
        let (losses, weights) = (trace.losses.get(module)?, trace.weights.get(module)?);
        let mut statistics = Statistics::default();
        for draw in &self.draws {
            let used = draw.iter().filter(|&&image| weights[image] > 0.0).map(|&image| losses[image]);
            statistics.push(&used.collect::<Vec<_>>(), config);
        }
        (!statistics.window.is_empty()).then_some(statistics)
    }

    /// Mean z-scores of the modules of a layer.
    fn scores(&self, number: usize, layer: &Layer, config: &StatisticsConfig) -> Vec<ModuleScore> {
        let Some(trace) = self.layers.get(number) else { return Vec::new() };
        let score = |(module, losses): (&crate::module::LocalModule, &Vec<f64>)| {
            let (mut z, mut spread) = (Vec::new(), Vec::new());
            for draw in &self.draws {
                let drawn: Vec<f64> = draw.iter().map(|&image| losses[image]).collect();
                z.push(module.statistics.z(&drawn, config));
                spread.push(module.statistics.spread_z(&drawn));
            }
            ModuleScore { z: mean(&z).min(LARGEST_Z), spread: mean(&spread).min(LARGEST_Z) }
        };
        layer.modules().iter().zip(&trace.losses).map(score).collect()
    }

    /// Logarithms of the priors of a layer's modules for all images together.
    fn prior(&self, model: &Model, layer: usize) -> Vec<f64> {
        self.layers.get(layer).map_or(Vec::new(), |trace| model.config.composition.prior(&trace.losses))
    }
}

fn append(all: &mut LayerTrace, more: LayerTrace) {
    let join = |all: &mut Vec<Vec<f64>>, more: Vec<Vec<f64>>| {
        all.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
    };
    join(&mut all.losses, more.losses);
    join(&mut all.weights, more.weights);
}

impl ExpansionConfig {
    /// The score that is compared with the threshold.
    fn score(&self, score: ModuleScore) -> f64 {
        if self.test_spread { score.z.max(score.spread) } else { score.z }
    }
}

impl Model {
    /// Tests the layers from the input upwards, up to the first one that needs a module: all of its modules are frozen, and
    /// for each of them the mean z of the task reaches the threshold. `None` if no layer can grow.
    pub(crate) fn test_expansion(
        &self,
        head: usize,
        epoch: usize,
        data: TaskData<'_>,
    ) -> Result<Option<(ExpansionTest, Option<ExpansionRequest>)>> {
        let layers = &self.network.layers;
        let tested = |layer: &Layer| layer.trainable().is_none() && !layer.modules().is_empty();
        if !layers.iter().any(tested) || layers.iter().any(|layer| layer.frozen_count() == 0) {
            return Ok(None);
        }
        let seed = self.task_seed(head).named("expansion test").numbered(epoch as u64);
        let losses = TaskLosses::of(self, head, data, &self.caches, DRAWS, &seed)?;
        let config = &self.config.expansion;
        let mut test = ExpansionTest { epoch, ..ExpansionTest::default() };
        let mut request = None;
        for (number, layer) in layers.iter().enumerate() {
            let scores = losses.scores(number, layer, &self.config.statistics);
            let best = scores.iter().min_by(|a, b| config.score(**a).total_cmp(&config.score(**b)));
            let best = best.filter(|_| tested(layer) && request.is_none());
            test.z.push(best.map(|score| score.z));
            if config.test_spread {
                test.spread.push(best.map(|score| score.spread));
            }
            if best.is_some_and(|score| config.score(*score) >= config.threshold) {
                let z = scores.iter().map(|score| config.score(*score)).collect();
                test.layer = Some(number);
                request = Some(ExpansionRequest { layer: number, z, prior: losses.prior(self, number) });
            }
        }
        Ok(Some((test, request)))
    }

    /// Takes the score statistics of all modules behind the first `before` of each layer from all images of the task of a
    /// head.
    pub(crate) fn take_statistics(
        &mut self,
        head: usize,
        before: &[usize],
        data: TaskData<'_>,
    ) -> Result<()> {
        if self.network.modules() == before {
            return Ok(());
        }
        let seed = self.task_seed(head).named("statistics");
        let draws = self.config.statistics.window;
        let losses = TaskLosses::of(self, head, data, &TaskCaches::default(), draws, &seed)?;
        let config = self.config.statistics.clone();
        for (number, layer) in self.network.layers.iter_mut().enumerate() {
            let first = before.get(number).copied().unwrap_or(0);
            for (module, found) in layer.modules_mut().iter_mut().enumerate().skip(first) {
                if let Some(statistics) = losses.statistics(number, module, &config) {
                    found.statistics = statistics;
                }
            }
        }
        Ok(())
    }
}
