//! Learning without forgetting: while a new task is trained, the heads of earlier tasks are distilled from the network as
//! it was before it (Li and Hoiem 2016). Not in the paper; a baseline that, like LMC, keeps no images.
//!
//! ```text
//! objective = cross-entropy + strength T² Σ over earlier heads of the cross-entropy of softmax(logits / T)
//!             against the distillation targets, the same probabilities before the task
//! ```

use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Device, Tensor, TensorData};
use lmc::internals::tensors::{NamedTensor, images, values};
use lmc::internals::training::checkpoint::State;
use lmc::internals::training::step::cross_entropy;
use lmc::{Error, NetworkConfig, Result, TaskData};
use lmc_streams::{Batch, Seed};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::headed_network::{BatchLoss, HeadedNetwork};
use crate::registry::{MethodConfig, Width};
use crate::single_network::{Objective, SingleNetwork};
use crate::training::TrainingConfig;

/// Settings of LwF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LwfConfig {
    /// Hyperparameters of training.
    pub training: TrainingConfig,
    /// Width of the network.
    pub width: Width,
    /// Weight of the distillation loss against the cross-entropy of the new task; 1 by default.
    pub strength: f64,
    /// Temperature T of the softmax in the distillation loss; 2 by default, as its authors have it.
    pub temperature: f64,
}

impl Default for LwfConfig {
    fn default() -> Self {
        Self {
            training: TrainingConfig::default(),
            width: Width::Modules(24),
            strength: 1.0,
            temperature: 2.0,
        }
    }
}

impl MethodConfig for LwfConfig {
    type Method = Lwf;

    fn preset(_: &str, stream: &str) -> Result<Self> {
        Ok(Self { width: Width::of_largest(stream), ..Self::default() })
    }

    fn check(&self) -> Result<()> {
        for (field, value) in [("strength", self.strength), ("temperature", self.temperature)] {
            let cure = if field == "strength" { "use 0 or more" } else { "use more than 0" };
            if !(value.is_finite() && value >= 0.0) || (field == "temperature" && value == 0.0) {
                return Err(Error::setting(field, format!("{value} is not possible"), cure));
            }
        }
        self.width.check()?;
        self.training.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Lwf> {
        let seed = Seed::root(seed).named("lwf");
        let objective = Distillation { config: self.clone(), targets: Vec::new() };
        SingleNetwork::new(&self.width.apply(network), &self.training, objective, seed, device)
    }
}

/// A network whose earlier heads are distilled.
pub type Lwf = SingleNetwork<Distillation>;

/// Cross-entropy of the newest task, and distillation of the heads of earlier tasks.
#[derive(Clone, Debug)]
pub struct Distillation {
    config: LwfConfig,
    /// Distillation targets: softened probabilities of each earlier head for each training image of the open task before
    /// it was trained, `[head][image, class]`.
    targets: Vec<NamedTensor>,
}

/// Name of the tensors of distillation targets in states, in front of the number of the head.
const TARGETS: &str = "said";

impl Distillation {
    /// Computes the distillation targets for the training images of a task.
    fn targets(&self, network: &HeadedNetwork, data: TaskData<'_>) -> Result<Vec<NamedTensor>> {
        let normalisation = network.training.normalisation(data.train);
        let (frozen, device) = (network.classifier()?, network.device.clone().inner());
        let mut targets: Vec<Vec<f32>> = vec![Vec::new(); frozen.heads.len()];
        for batch in network.training.stored(normalisation.as_ref()).init(data.train)? {
            data.check_stop()?;
            let features = frozen.trunk.features(images(&batch, &device))?;
            for (head, targets) in frozen.heads.iter().zip(&mut targets) {
                let logits = head.logits(features.clone()).div_scalar(self.config.temperature as f32);
                targets.extend(values(&softmax(logits, 1)));
            }
        }
        let named = |(number, (head, values))| NamedTensor {
            name: format!("{TARGETS}{number}"),
            shape: vec![data.train.len(), crate::trunk::LinearHead::classes(head)],
            values,
        };
        Ok(frozen.heads.iter().zip(targets).enumerate().map(named).collect())
    }
}

/// The rows `[image, class]` of a table at these positions.
fn rows_at(table: &NamedTensor, positions: &[u32], device: &Device) -> Tensor<2> {
    let classes = table.shape[1];
    let row = |&position: &u32| &table.values[position as usize * classes..(position as usize + 1) * classes];
    let values: Vec<f32> = positions.iter().flat_map(row).copied().collect();
    Tensor::from_data(TensorData::new(values, [positions.len(), classes]), device)
}

impl Objective for Distillation {
    fn trains_old_heads(&self) -> bool {
        true
    }

    fn begin(&mut self, network: &HeadedNetwork, data: TaskData<'_>) -> Result<usize> {
        self.targets = self.targets(network, data)?;
        Ok(network.heads.len())
    }

    fn loss(&mut self, network: &mut HeadedNetwork, batch: &Batch) -> Result<BatchLoss> {
        let (strength, temperature) = (self.config.strength as f32, self.config.temperature as f32);
        let features = network.training_features(batch)?;
        let logits = network.newest_head()?.logits(features.clone());
        let mut loss = cross_entropy(logits.clone(), &batch.labels);
        // Without strength earlier heads get no gradient, so that weight decay leaves them alone too: Finetune.
        let heads = network.heads.iter().zip(&self.targets).filter(|_| strength > 0.0);
        for (head, targets) in heads {
            let softened = log_softmax(head.logits(features.clone()).div_scalar(temperature), 1);
            let targets = rows_at(targets, &batch.positions, &network.device);
            let distillation = -(softened * targets).sum_dim(1).mean();
            loss = loss + distillation.mul_scalar(strength * temperature * temperature);
        }
        Ok(BatchLoss { loss, logits })
    }

    fn finish(&mut self, _: &HeadedNetwork, _: TaskData<'_>) -> Result<()> {
        self.targets.clear();
        Ok(())
    }

    fn state(&self) -> State {
        State { document: Value::Null, tensors: self.targets.clone() }
    }

    fn restore(&mut self, _: &HeadedNetwork, state: &State) -> Result<()> {
        let number = |tensor: &NamedTensor| tensor.name.strip_prefix(TARGETS)?.parse::<usize>().ok();
        self.targets = state.tensors.iter().filter(|tensor| number(tensor).is_some()).cloned().collect();
        self.targets.sort_by_key(number);
        Ok(())
    }
}
