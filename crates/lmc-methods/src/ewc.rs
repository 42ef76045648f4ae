//! Elastic weight consolidation: weights that mattered for earlier tasks are held where they were (specification §2.2).
//!
//! The penalty is `strength · Σ F (θ - θ*)²` over the trunk, scales and shifts of batch norms included, heads excluded. F
//! is the diagonal of the Fisher information, exact over the network's own predictions, in evaluation mode, with the head
//! of its task. Three ways to sum over tasks: an anchor θ* for each (the textbook's), one anchor for all (what the authors
//! ran), and the running mean of online EWC.

mod fisher;

use burn::tensor::{Device, Tensor};
use lmc::internals::tensors::{Role, Visitor, Walk, below, freeze, plain, prefixed};
use lmc::internals::training::checkpoint::State;
use lmc::{Error, NetworkConfig, Result, TaskData};
use lmc_streams::{Batch, Seed};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::fisher::fisher;
use crate::checkpoint::{fill_from, parse};
use crate::headed_network::{BatchLoss, HeadedNetwork};
use crate::registry::{MethodConfig, Width};
use crate::single_network::{Objective, SingleNetwork};
use crate::training::TrainingConfig;
use crate::trunk::Trunk;

/// How the penalties of several tasks are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchors {
    /// The Fisher information of every task around the weights at its end: the textbook's.
    PerTask,
    /// The sum over all tasks around the weights at the start of the current one. Released: this.
    Latest,
    /// The running mean over all tasks around the same weights: online EWC.
    RunningMean,
}

/// Settings of EWC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EwcConfig {
    /// Hyperparameters of training.
    pub training: TrainingConfig,
    /// Width of the network.
    pub width: Width,
    /// Weight of the penalty, 0 or more; 1e5 by default, 1e3 on S_in and for colours out of distribution.
    pub strength: f64,
    /// How the penalties of several tasks are summed.
    pub anchors: Anchors,
    /// Number of training images, evenly spread, that the Fisher information is computed from; 200 by default. Released:
    /// all, which costs more than training here.
    pub fisher_images: usize,
}

impl Default for EwcConfig {
    fn default() -> Self {
        Self {
            training: TrainingConfig::default(),
            width: Width::Modules(24),
            strength: 1e5,
            anchors: Anchors::PerTask,
            fisher_images: 200,
        }
    }
}

impl MethodConfig for EwcConfig {
    type Method = Ewc;

    fn preset(name: &str, stream: &str) -> Result<Self> {
        let mut config = Self { width: Width::of_largest(stream), ..Self::default() };
        if name == "online_ewc" {
            config.anchors = Anchors::RunningMean;
        }
        if stream == "s_in" {
            config.strength = 1e3;
            config.training.learning_rate = 1e-2;
        }
        if stream == "ood" {
            config.strength = 1e3;
            config.width = Width::Channels(256);
            config.training = TrainingConfig { epochs: 50, weight_decay: 0.0, ..config.training };
        }
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        if !(self.strength.is_finite() && self.strength >= 0.0) {
            return Err(Error::setting(
                "strength",
                format!("{} is not possible", self.strength),
                "use 0 or more",
            ));
        }
        if self.fisher_images == 0 {
            return Err(Error::setting("fisher_images", "it is 0", "use 1 or more"));
        }
        self.width.check()?;
        self.training.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Ewc> {
        // With strength 0 it is Finetune, number by number.
        let seed = Seed::root(seed).named("finetune");
        let objective = Consolidation { config: self.clone(), memories: Vec::new(), tasks: 0 };
        SingleNetwork::new(&self.width.apply(network), &self.training, objective, seed, device)
    }
}

/// A network whose weights are held where they mattered.
pub type Ewc = SingleNetwork<Consolidation>;

/// Cross-entropy, and a penalty on weights that leave the anchors of earlier tasks.
#[derive(Clone, Debug)]
pub struct Consolidation {
    config: EwcConfig,
    /// One for each task, or one for all.
    memories: Vec<Memory>,
    /// Number of tasks that the memories are of.
    tasks: usize,
}

/// Fisher information and the weights that it belongs to.
#[derive(Clone, Debug)]
struct Memory {
    fisher: Trunk,
    anchor: Trunk,
    /// Both as vectors, in the order of the trunk's walk.
    vectors: (Vec<Tensor<1>>, Vec<Tensor<1>>),
}

impl Memory {
    fn new(fisher: Trunk, anchor: Trunk) -> Self {
        let vectors = (vectors(&fisher), vectors(&anchor));
        Self { fisher, anchor, vectors }
    }
}

impl Consolidation {
    /// Adds the Fisher information and the weights of the task that was just learned.
    fn remember(&mut self, network: &HeadedNetwork, data: TaskData<'_>) -> Result<()> {
        let new = fisher(network, data, self.config.fisher_images)?;
        self.tasks += 1;
        let tasks = self.tasks as f32;
        let before = match self.config.anchors {
            Anchors::PerTask => None,
            Anchors::Latest | Anchors::RunningMean => self.memories.pop(),
        };
        let fisher = match before {
            None => new,
            Some(before) => combined(&before.fisher, &new, |old, new| match self.config.anchors {
                Anchors::RunningMean => (new + (tasks - 1.0) * old) / tasks,
                Anchors::PerTask | Anchors::Latest => old + new,
            })?,
        };
        self.memories.push(Memory::new(fisher, network.trunk.clone()));
        Ok(())
    }
}

/// Combines the tensors of two trunks number by number.
fn combined(a: &Trunk, b: &Trunk, with: impl Fn(f32, f32) -> f32) -> Result<Trunk> {
    let mut numbers = plain(a);
    for (a, b) in numbers.iter_mut().zip(plain(b)) {
        a.values.iter_mut().zip(b.values).for_each(|(a, b)| *a = with(*a, b));
    }
    let mut trunk = a.clone();
    fill_from(&mut trunk, numbers)?;
    Ok(trunk)
}

/// Sums `F (θ - θ*)²` over memories and the parameters of a trunk.
struct Penalty<'a> {
    memories: &'a [Memory],
    /// Number of the next tensor in the trunk's walk.
    at: usize,
    total: Option<Tensor<1>>,
}

impl Visitor for Penalty<'_> {
    fn visit<const D: usize>(&mut self, _: &str, role: Role, tensor: &mut Tensor<D>) {
        let at = self.at;
        self.at += 1;
        if role == Role::Buffer {
            return;
        }
        let length = tensor.dims().iter().product::<usize>();
        for Memory { vectors: (fisher, anchor), .. } in self.memories {
            let moved = tensor.clone().reshape([length]) - anchor[at].clone();
            let term = (moved.clone() * moved * fisher[at].clone()).sum();
            self.total = Some(match self.total.take() {
                Some(total) => total + term,
                None => term,
            });
        }
    }
}

/// All tensors of a trunk as vectors without gradients, in the order of its walk.
fn vectors(trunk: &Trunk) -> Vec<Tensor<1>> {
    struct Collect(Vec<Tensor<1>>);
    impl Visitor for Collect {
        fn visit<const D: usize>(&mut self, _: &str, _: Role, tensor: &mut Tensor<D>) {
            let length = tensor.dims().iter().product::<usize>();
            self.0.push(tensor.clone().detach().reshape([length]));
        }
    }
    let mut collect = Collect(Vec::new());
    trunk.clone().walk("", &mut collect);
    collect.0
}

impl Objective for Consolidation {
    fn loss(&mut self, network: &mut HeadedNetwork, batch: &Batch) -> Result<BatchLoss> {
        let BatchLoss { mut loss, logits } = network.cross_entropy(batch)?;
        let strength = self.config.strength as f32;
        if strength != 0.0 {
            let mut penalty = Penalty { memories: &self.memories, at: 0, total: None };
            network.trunk.walk("", &mut penalty);
            if let Some(total) = penalty.total {
                loss = loss + total.mul_scalar(strength);
            }
        }
        Ok(BatchLoss { loss, logits })
    }

    fn finish(&mut self, network: &HeadedNetwork, data: TaskData<'_>) -> Result<()> {
        if self.config.strength > 0.0 { self.remember(network, data) } else { Ok(()) }
    }

    fn state(&self) -> State {
        let mut tensors = Vec::new();
        for (number, memory) in self.memories.iter().enumerate() {
            tensors.extend(prefixed(&format!("fisher{number}"), plain(&memory.fisher)));
            tensors.extend(prefixed(&format!("anchor{number}"), plain(&memory.anchor)));
        }
        State { document: json!({ "memories": self.memories.len(), "tasks": self.tasks }), tensors }
    }

    fn restore(&mut self, network: &HeadedNetwork, state: &State) -> Result<()> {
        let memories: usize = parse(&state.document["memories"])?;
        self.tasks = parse(&state.document["tasks"])?;
        self.memories.clear();
        for number in 0..memories {
            let read = |name: &str| -> Result<Trunk> {
                let mut trunk = network.trunk.clone();
                freeze(&mut trunk);
                let tensors = below(&format!("{name}{number}"), &state.tensors).into_values().collect();
                fill_from(&mut trunk, tensors)?;
                Ok(trunk)
            };
            self.memories.push(Memory::new(read("fisher")?, read("anchor")?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lmc::internals::tensors::{parameter_count, train, values};
    use lmc_streams::{Catalog, DataDirs, OwnTask};

    use super::*;
    use crate::method::Method as _;

    fn small(anchors: Anchors) -> Result<Ewc> {
        let network = NetworkConfig { width: 4, depth: 2, ..NetworkConfig::default() };
        let config = EwcConfig { width: Width::Network, anchors, fisher_images: 4, ..EwcConfig::default() };
        config.init(&network, 1, &Device::flex())
    }

    /// The same task twice gives two memories, their sum, or their mean.
    #[test]
    fn how_tasks_are_summed() -> Result<()> {
        let own = OwnTask { name: "digits".into(), val_fraction: 0.1, ..OwnTask::default() };
        let task = own.read("generated-digits", &Catalog::new(DataDirs::default()))?;
        for (anchors, memories, times) in
            [(Anchors::PerTask, 2, 1.0), (Anchors::Latest, 1, 2.0), (Anchors::RunningMean, 1, 1.0)]
        {
            let mut ewc = small(anchors)?;
            ewc.begin((&task).into())?;
            let SingleNetwork { network, objective, .. } = &mut ewc;
            let once = plain(&fisher(network, (&task).into(), 4)?);
            objective.remember(network, (&task).into())?;
            objective.remember(network, (&task).into())?;
            assert_eq!(objective.memories.len(), memories, "{anchors:?}");
            let found = plain(&objective.memories[0].fisher);
            assert!(once.iter().flat_map(|tensor| &tensor.values).any(|&value| value > 0.0));
            for (once, found) in once.iter().zip(&found) {
                for (once, found) in once.values.iter().zip(&found.values) {
                    assert!((found - times * once).abs() <= 1e-6 * once.abs(), "{anchors:?} {found} {once}");
                }
            }
        }
        Ok(())
    }

    /// The value and the slope of `F (θ - θ*)²`, summed over two memories.
    #[test]
    fn the_penalty_by_hand() -> Result<()> {
        let mut network = small(Anchors::PerTask)?.network;
        train(&mut network.trunk);
        // Where F is 2 and all weights have moved by 0.5, and where F is 3 and they have moved by -1.
        let memories = [(2.0_f32, 0.5_f32), (3.0, -1.0)].map(|(fisher, moved)| {
            let now = vectors(&network.trunk);
            let fishers = now.iter().map(|weights| weights.clone() * 0.0 + fisher).collect();
            let anchors = now.into_iter().map(|weights| weights - moved).collect();
            let trunk = || network.trunk.clone();
            Memory { fisher: trunk(), anchor: trunk(), vectors: (fishers, anchors) }
        });
        let mut penalty = Penalty { memories: &memories, at: 0, total: None };
        network.trunk.walk("", &mut penalty);
        let total = penalty.total.unwrap();
        let count = parameter_count(&network.trunk) as f64;
        let value = f64::from(values(&total)[0]);
        assert!((value / (count * (2.0 * 0.25 + 3.0)) - 1.0).abs() < 1e-4, "{value} for {count}");
        let gradients = total.backward();
        let slope = network.trunk.0[1].parameters.weight.grad(&gradients).unwrap();
        for slope in values(&slope) {
            assert!((slope - (2.0 * 2.0 * 0.5 - 2.0 * 3.0)).abs() < 1e-3, "{slope}");
        }
        Ok(())
    }
}
