//! Learning without forgetting: on the images of a new task the old heads are to say what they said before it (Li and Hoiem
//! 2016). Not in the paper; a reference that, like LMC, keeps no images.

use burn::tensor::activation::{log_softmax, softmax};
use burn::tensor::{Device, Tensor, TensorData};
use lmc::checkpoint::State;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::tensors::{Plain, values, without_gradients};
use lmc::{Error, Learned, Material, Result};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::method::{Answers, Capacity, Listen, Method};
use crate::monolith::Monolith;
use crate::registry::{MethodConfig, Width};
use crate::training::{TrainingConfig, cross_entropy};

/// Settings of LwF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LwfConfig {
    /// How it is trained.
    pub training: TrainingConfig,
    /// The network's width.
    pub width: Width,
    /// Of what old heads are to say, against the cross-entropy of the new task; 1 by default.
    pub strength: f64,
    /// Of the softmax over what they say; 2 by default, as its authors have it.
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
        let network = Monolith::new(&self.width.apply(network), &self.training, seed, true, device)?;
        Ok(Lwf { config: self.clone(), network, said: Vec::new() })
    }
}

/// A network whose old heads are held to what they said.
#[derive(Clone, Debug)]
pub struct Lwf {
    config: LwfConfig,
    network: Monolith,
    /// Softened probabilities of each old head for each training image of the open task, `[head][image, class]`.
    said: Vec<Plain>,
}

impl Lwf {
    /// What the old heads say about the images of a task before it is learned.
    fn listen_to_old(&self, material: Material<'_>) -> Result<Vec<Plain>> {
        let normalisation = self.config.training.normalisation(material.train);
        let (trunk, device) = (self.network.trunk.frozen()?, self.network.device.clone().inner());
        let heads: Vec<_> = self.network.heads.iter().map(without_gradients).collect();
        let mut said: Vec<Vec<f32>> = vec![Vec::new(); heads.len()];
        for batch in self.config.training.stored(normalisation.as_ref()).init(material.train)? {
            let features = trunk.features(images(&batch, &device))?;
            for (head, said) in heads.iter().zip(&mut said) {
                let logits = head.logits(features.clone()).div_scalar(self.config.temperature as f32);
                said.extend(values(&softmax(logits, 1)));
            }
        }
        let named = |(number, (values, head)): (usize, (Vec<f32>, &crate::trunk::Classifier))| Plain {
            name: format!("said{number}"),
            shape: vec![material.train.len(), head.classes()],
            values,
        };
        Ok(said.into_iter().zip(&heads).enumerate().map(named).collect())
    }
}

/// The rows of these images.
fn rows(of: &Plain, positions: &[u32], device: &Device) -> Tensor<2> {
    let classes = of.shape[1];
    let row = |&position: &u32| &of.values[position as usize * classes..(position as usize + 1) * classes];
    let values: Vec<f32> = positions.iter().flat_map(row).copied().collect();
    Tensor::from_data(TensorData::new(values, [positions.len(), classes]), device)
}

impl Method for Lwf {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        self.said = self.listen_to_old(material)?;
        self.network.begin(material)
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        let (said, temperature) = (&self.said, self.config.temperature as f32);
        let strength = self.config.strength as f32;
        self.network.epoch(material, listen, &mut |network, batch| {
            let features = network.trunk.train(network.images(batch))?;
            let logits = network.head()?.logits(features.clone());
            let mut loss = cross_entropy(logits.clone(), &batch.labels);
            // Without strength old heads get no gradient, so that weight decay leaves them alone too: Finetune.
            let heads = network.heads.iter().zip(said).filter(|_| strength > 0.0);
            for (head, said) in heads {
                let now = log_softmax(head.logits(features.clone()).div_scalar(temperature), 1);
                let before = rows(said, &batch.positions, &network.device);
                let differs = -(now * before).sum_dim(1).mean();
                loss = loss + differs.mul_scalar(strength * temperature * temperature);
            }
            Ok((loss, logits))
        })
    }

    fn finish(&mut self, _: Material<'_>) -> Result<Learned> {
        self.said.clear();
        self.network.finish()
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
        Ok(self.network.state(&Value::Null, self.said.clone()))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let mut said: Vec<Plain> =
            state.tensors.iter().filter(|plain| plain.name.starts_with("said")).cloned().collect();
        said.sort_by_key(|plain| plain.name["said".len()..].parse::<usize>().unwrap_or(0));
        self.said = said;
        self.network.restore(&state)
    }
}
