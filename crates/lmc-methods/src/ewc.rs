//! Elastic weight consolidation: weights that mattered for old tasks are held where they were (specification §2.2).
//!
//! The penalty is `strength · Σ F (θ - θ*)²` over the trunk, batch norms' scales and shifts included, heads excluded. F is the
//! diagonal of the Fisher information, exact over the network's own predictions, in evaluation mode, with the head of its
//! task. Three ways to sum over tasks: an anchor θ* for each (the textbook's), one anchor for all (what the authors ran),
//! and the running mean of online EWC.

mod fisher;

use burn::tensor::{Device, Tensor};
use lmc::checkpoint::State;
use lmc::network::NetworkConfig;
use lmc::tensors::{Plain, Role, Visitor, Walk, plain};
use lmc::{Error, Learned, Material, Result};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::fisher::fisher;
use crate::method::{Answers, Capacity, Listen, Method};
use crate::monolith::Monolith;
use crate::registry::{MethodConfig, Width};
use crate::training::{TrainingConfig, below, fill_from, parse, prefixed};
use crate::trunk::Trunk;

/// How the tasks' penalties are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Anchors {
    /// Every task's Fisher information around its own weights: the textbook's.
    PerTask,
    /// The sum of all around the weights at the start of the current task. Released: this.
    Latest,
    /// Their running mean around the same: online EWC.
    RunningMean,
}

/// Settings of EWC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EwcConfig {
    /// How it is trained.
    pub training: TrainingConfig,
    /// The network's width.
    pub width: Width,
    /// Of the penalty, 0 or more; 1e5 by default, 1e3 on S_in and for colours out of distribution.
    pub strength: f64,
    /// How tasks are summed.
    pub anchors: Anchors,
    /// Training images that the Fisher information is computed from, evenly spread; 200 by default. Released: all, which
    /// costs more than learning here.
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
        let network = Monolith::new(&self.width.apply(network), &self.training, seed, false, device)?;
        Ok(Ewc { config: self.clone(), network, memories: Vec::new(), tasks: 0 })
    }
}

/// A network whose weights are held where they mattered.
#[derive(Clone, Debug)]
pub struct Ewc {
    config: EwcConfig,
    network: Monolith,
    /// One for each task, or one for all.
    memories: Vec<Memory>,
    tasks: usize,
}

/// Fisher information and the weights that it belongs to, in the trunk's order.
#[derive(Clone, Debug)]
struct Memory {
    fisher: Trunk,
    anchor: Trunk,
}

impl Ewc {
    /// Adds what the task that was just learned holds on to.
    fn remember(&mut self, material: Material<'_>) -> Result<()> {
        let new = fisher(&self.network, material.train, self.config.fisher_images)?;
        let anchor = self.network.trunk.clone();
        self.tasks += 1;
        if self.config.anchors == Anchors::PerTask {
            self.memories.push(Memory { fisher: new, anchor });
            return Ok(());
        }
        let tasks = self.tasks as f32;
        let share = match self.config.anchors {
            Anchors::RunningMean => |old: f32, new: f32, tasks: f32| (new + (tasks - 1.0) * old) / tasks,
            _ => |old: f32, new: f32, _: f32| old + new,
        };
        let fisher = match self.memories.pop() {
            Some(before) => combined(&before.fisher, &new, |old, new| share(old, new, tasks))?,
            None => new,
        };
        self.memories.push(Memory { fisher, anchor });
        Ok(())
    }
}

/// Two trunks, number by number.
fn combined(a: &Trunk, b: &Trunk, with: impl Fn(f32, f32) -> f32) -> Result<Trunk> {
    let mut numbers = plain(a);
    for (a, b) in numbers.iter_mut().zip(plain(b)) {
        a.values.iter_mut().zip(b.values).for_each(|(a, b)| *a = with(*a, b));
    }
    let mut trunk = a.clone();
    fill_from(&mut trunk, numbers)?;
    Ok(trunk)
}

/// Sums `F (θ - θ*)²`.
struct Penalty<'a> {
    memory: &'a [(Vec<Tensor<1>>, Vec<Tensor<1>>)],
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
        for (fisher, anchor) in self.memory {
            let moved = tensor.clone().reshape([length]) - anchor[at].clone();
            let term = (moved.clone() * moved * fisher[at].clone()).sum();
            self.total = Some(match self.total.take() {
                Some(total) => total + term,
                None => term,
            });
        }
    }
}

/// All tensors of a trunk as vectors, in its order.
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

impl Method for Ewc {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        self.network.begin(material)
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        let strength = self.config.strength as f32;
        let memory: Vec<_> =
            self.memories.iter().map(|memory| (vectors(&memory.fisher), vectors(&memory.anchor))).collect();
        self.network.epoch(material, listen, &mut |network, batch| {
            let (loss, logits) = network.plain(batch)?;
            if memory.is_empty() || strength == 0.0 {
                return Ok((loss, logits));
            }
            let mut penalty = Penalty { memory: &memory, at: 0, total: None };
            network.trunk.walk("", &mut penalty);
            Ok(match penalty.total {
                Some(total) => (loss + total.mul_scalar(strength), logits),
                None => (loss, logits),
            })
        })
    }

    fn finish(&mut self, material: Material<'_>) -> Result<Learned> {
        let learned = self.network.finish()?;
        if self.config.strength > 0.0 {
            self.remember(material)?;
        }
        Ok(learned)
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

    fn capacity(&self) -> Capacity {
        self.network.capacity()
    }

    fn state(&self) -> Result<State> {
        let mut tensors: Vec<Plain> = Vec::new();
        for (number, memory) in self.memories.iter().enumerate() {
            tensors.extend(prefixed(&format!("fisher{number}"), plain(&memory.fisher)));
            tensors.extend(prefixed(&format!("anchor{number}"), plain(&memory.anchor)));
        }
        let more = json!({ "memories": self.memories.len(), "tasks": self.tasks });
        Ok(self.network.state(&more, tensors))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        self.network.restore(&state)?;
        let more = &state.document["more"];
        let memories: usize = parse(&more["memories"])?;
        self.tasks = parse(&more["tasks"])?;
        self.memories.clear();
        for number in 0..memories {
            let read = |name: &str| -> Result<Trunk> {
                let mut trunk = self.network.trunk.clone();
                lmc::tensors::freeze(&mut trunk);
                fill_from(
                    &mut trunk,
                    below(&format!("{name}{number}"), &state.tensors).into_values().collect(),
                )?;
                Ok(trunk)
            };
            let memory = Memory { fisher: read("fisher")?, anchor: read("anchor")? };
            self.memories.push(memory);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lmc_streams::{Catalog, DataDirs, OwnTask};

    use super::*;

    fn small(anchors: Anchors) -> Result<Ewc> {
        let network = NetworkConfig { width: 4, depth: 2, ..NetworkConfig::default() };
        let config = EwcConfig { width: Width::Network, anchors, fisher_images: 4, ..EwcConfig::default() };
        config.init(&network, 1, &Device::flex())
    }

    /// The same task twice: two memories, the sum, the mean.
    #[test]
    fn how_tasks_are_summed() -> Result<()> {
        let own =
            OwnTask { name: "digits".into(), size: 32, channels: 3, val_fraction: 0.1, seed: Seed::root(1) };
        let task = own.read("generated-digits", &Catalog::new(DataDirs::default()))?;
        let material =
            Material { task: &task.name, classes: &task.classes, train: &task.train, val: &task.val };
        for (anchors, memories, times) in
            [(Anchors::PerTask, 2, 1.0), (Anchors::Latest, 1, 2.0), (Anchors::RunningMean, 1, 1.0)]
        {
            let mut ewc = small(anchors)?;
            ewc.network.begin(material)?;
            let once = plain(&fisher(&ewc.network, material.train, 4)?);
            ewc.remember(material)?;
            ewc.remember(material)?;
            assert_eq!(ewc.memories.len(), memories, "{anchors:?}");
            let found = plain(&ewc.memories[0].fisher);
            assert!(once.iter().flat_map(|plain| &plain.values).any(|&value| value > 0.0));
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
        lmc::tensors::train(&mut network.trunk);
        // Where F is 2 and all weights have moved by 0.5, and where F is 3 and they have moved by -1.
        let memory: Vec<_> = [(2.0, 0.5), (3.0, -1.0)]
            .into_iter()
            .map(|(fisher, moved): (f32, f32)| {
                let now = vectors(&network.trunk);
                let fishers = now.iter().map(|weights| weights.clone() * 0.0 + fisher).collect::<Vec<_>>();
                (fishers, now.into_iter().map(|weights| weights - moved).collect::<Vec<_>>())
            })
            .collect();
        let mut penalty = Penalty { memory: &memory, at: 0, total: None };
        network.trunk.walk("", &mut penalty);
        let total = penalty.total.unwrap();
        let count = lmc::tensors::parameter_count(&network.trunk) as f64;
        let value = f64::from(lmc::tensors::values(&total)[0]);
        assert!((value / (count * (2.0 * 0.25 + 3.0)) - 1.0).abs() < 1e-4, "{value} for {count}");
        let gradients = total.backward();
        let slope = network.trunk.0[1].parameters.weight.grad(&gradients).unwrap();
        for slope in lmc::tensors::values(&slope) {
            assert!((slope - (2.0 * 2.0 * 0.5 - 2.0 * 3.0)).abs() < 1e-3, "{slope}");
        }
        Ok(())
    }
}
