//! Finetune: one network without structural components, all of whose trunk is trained on every task (specification §2.1).
//! Heads are one per task, given by its ID, and those of earlier tasks are frozen: what it forgets, the trunk forgets.
//! Finetune-L is the same with as many parameters as 24 modules.

use burn::tensor::Device;
use lmc::{NetworkConfig, Result};
use lmc_streams::{Batch, Seed};
use serde::{Deserialize, Serialize};

use crate::headed_network::{BatchLoss, HeadedNetwork};
use crate::registry::{MethodConfig, Width};
use crate::single_network::{Objective, SingleNetwork};
use crate::training::TrainingConfig;

/// Settings of Finetune and Finetune-L.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FinetuneConfig {
    /// Hyperparameters of training.
    pub training: TrainingConfig,
    /// Width of the network: `network`, or that of a network with as many parameters as some modules.
    pub width: Width,
}

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
        SingleNetwork::new(&self.width.apply(network), &self.training, CrossEntropy, seed, device)
    }
}

/// One network for all tasks, trained for cross-entropy alone.
pub type Finetune = SingleNetwork<CrossEntropy>;

/// Cross-entropy of the newest task, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropy;

impl Objective for CrossEntropy {
    fn loss(&mut self, network: &mut HeadedNetwork, batch: &Batch) -> Result<BatchLoss> {
        network.cross_entropy(batch)
    }
}
