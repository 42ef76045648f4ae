//! Experts: a network of its own for every task (specification §2.1). Nothing is shared, so nothing is forgotten and
//! nothing transferred; four modules per task.

use burn::tensor::{Device, Tensor};
use lmc::checkpoint::State;
use lmc::network::NetworkConfig;
use lmc::{Error, Learned, Material, Result};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::method::{Answer, Answers, Capacity, Hint, Listen, Method};
use crate::monolith::{Headed, Monolith, nothing_open};
use crate::registry::MethodConfig;
use crate::training::{TrainingConfig, below, parse, prefixed};

/// Settings of Experts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpertsConfig {
    /// How each is trained.
    pub training: TrainingConfig,
}

/// A network per task.
#[derive(Clone, Debug)]
pub struct Experts {
    config: ExpertsConfig,
    network: NetworkConfig,
    seed: Seed,
    device: Device,
    experts: Vec<Monolith>,
}

impl MethodConfig for ExpertsConfig {
    type Method = Experts;

    fn preset(_: &str, _: &str) -> Result<Self> {
        Ok(Self::default())
    }

    fn check(&self) -> Result<()> {
        self.training.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Experts> {
        network.check()?;
        let (network, device, seed) = (network.clone(), device.clone(), Seed::root(seed).named("experts"));
        Ok(Experts { config: self.clone(), network, seed, device, experts: Vec::new() })
    }
}

impl Experts {
    fn new_expert(&self) -> Result<Monolith> {
        let seed = self.seed.named("expert").numbered(self.experts.len() as u64);
        Monolith::new(&self.network, &self.config.training, seed, false, &self.device)
    }

    fn last(&mut self) -> Result<&mut Monolith> {
        self.experts.last_mut().ok_or_else(nothing_open)
    }

    fn modules(&self) -> Vec<usize> {
        vec![self.experts.len(); self.network.depth]
    }
}

impl Method for Experts {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        let mut expert = self.new_expert()?;
        expert.begin(material)?;
        self.experts.push(expert);
        Ok(())
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        self.last()?.epoch(material, listen, &mut |network, batch| network.plain(batch))
    }

    fn finish(&mut self, _: Material<'_>) -> Result<Learned> {
        let learned = self.last()?.finish()?;
        let before = vec![self.experts.len() - 1; self.network.depth];
        Ok(Learned { modules_before: before, modules: self.modules(), ..learned })
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.experts.last().and_then(Monolith::progress)
    }

    fn answers(&self) -> Result<Box<dyn Answers>> {
        Ok(Box::new(Own(self.experts.iter().map(Monolith::answers).collect::<Result<_>>()?)))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn capacity(&self) -> Capacity {
        let one = self.experts.last().map(Monolith::capacity).unwrap_or_default();
        let parameters = self.experts.iter().map(|expert| expert.capacity().parameters).sum();
        Capacity { modules: self.modules(), parameters, ..one }
    }

    fn state(&self) -> Result<State> {
        let (mut documents, mut tensors) = (Vec::new(), Vec::new());
        for (number, expert) in self.experts.iter().enumerate() {
            let state = expert.state(&Value::Null, Vec::new());
            documents.push(state.document);
            tensors.extend(prefixed(&format!("expert{number}"), state.tensors));
        }
        Ok(State { document: json!(documents), tensors })
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let documents: Vec<Value> = parse(&state.document)?;
        self.experts.clear();
        for (number, document) in documents.into_iter().enumerate() {
            let tensors = below(&format!("expert{number}"), &state.tensors).into_values().collect();
            let mut expert = self.new_expert()?;
            expert.restore(&State { document, tensors })?;
            self.experts.push(expert);
        }
        Ok(())
    }
}

/// Every task is answered by its own.
struct Own(Vec<Headed>);

impl Answers for Own {
    fn answer(&self, images: &Tensor<4>, hints: &[Hint]) -> Result<Vec<Vec<Answer>>> {
        let answer = |hint: &Hint| {
            let task = hint.told("experts")?;
            let Some(expert) = self.0.get(task) else {
                return Err(Error::setting("task", format!("none has number {task}"), "learn it first"));
            };
            let mut answers = expert.answer(images, &[Hint::Task(0)])?.pop().unwrap_or_default();
            answers.iter_mut().for_each(|answer| answer.task = task);
            Ok(answers)
        };
        hints.iter().map(answer).collect()
    }
}
