//! Finetune: one network without structural components, all of whose trunk is trained on every task (specification §2.1).
//! Heads are one per task, given by its ID, and old ones stay as they are. What it forgets, the trunk forgets.
//! Finetune-L is the same with as many parameters as 24 modules.

use burn::tensor::Device;
use lmc::checkpoint::State;
use lmc::network::NetworkConfig;
use lmc::{Learned, Material, Result};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::method::{Answers, Capacity, Listen, Method};
use crate::monolith::Monolith;
use crate::registry::{MethodConfig, Width};
use crate::training::TrainingConfig;

/// Settings of Finetune and Finetune-L.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FinetuneConfig {
    /// How it is trained.
    pub training: TrainingConfig,
    /// `network`, or as many parameters as some modules have.
    pub width: Width,
}

/// One network for all tasks.
#[derive(Clone, Debug)]
pub struct Finetune(Monolith);

impl MethodConfig for FinetuneConfig {
    type Method = Finetune;

    fn preset(name: &str, stream: &str) -> Result<Self> {
        let width = if name == "finetune_l" { Width::of_largest(stream) } else { Width::Network };
        Ok(Self { width, ..Self::default() })
    }

    fn check(&self) -> Result<()> {
        self.width.check()?;
        self.training.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Finetune> {
        let seed = Seed::root(seed).named("finetune");
        Ok(Finetune(Monolith::new(&self.width.apply(network), &self.training, seed, false, device)?))
    }
}

impl Method for Finetune {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        self.0.begin(material)
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        self.0.epoch(material, listen, &mut |network, batch| network.plain(batch))
    }

    fn finish(&mut self, _: Material<'_>) -> Result<Learned> {
        self.0.finish()
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.0.progress()
    }

    fn answers(&self) -> Result<Box<dyn Answers>> {
        Ok(Box::new(self.0.answers()?))
    }

    fn normalises(&self) -> bool {
        self.0.training.normalise
    }

    fn capacity(&self) -> Capacity {
        self.0.capacity()
    }

    fn state(&self) -> Result<State> {
        Ok(self.0.state(&Value::Null, Vec::new()))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        self.0.restore(&state)
    }
}
