//! Experts: a network of its own for every task (specification §2.1). Nothing is shared, so nothing is forgotten and
//! nothing transferred; one module per layer and task.

use burn::tensor::{Device, Tensor};
use lmc::internals::inference::evaluation::{Classification, Classify};
use lmc::internals::tensors::{below, prefixed};
use lmc::internals::training::checkpoint::State;
use lmc::{NetworkConfig, Protocol, Result, TaskData, TaskReport};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::checkpoint::parse;
use crate::finetune::{CrossEntropy, Finetune};
use crate::headed_network::HeadedClassifier;
use crate::method::{Capacity, Listen, Method, given_task, no_open_task, unknown_task};
use crate::registry::MethodConfig;
use crate::single_network::SingleNetwork;
use crate::training::TrainingConfig;

/// Settings of Experts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpertsConfig {
    /// Hyperparameters of training, the same for each network.
    pub training: TrainingConfig,
}

/// A network per task.
#[derive(Clone, Debug)]
pub struct Experts {
    config: ExpertsConfig,
    network: NetworkConfig,
    seed: Seed,
    device: Device,
    experts: Vec<Finetune>,
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
    fn new_expert(&self) -> Result<Finetune> {
        let seed = self.seed.named("expert").numbered(self.experts.len() as u64);
        SingleNetwork::new(&self.network, &self.config.training, CrossEntropy, seed, &self.device)
    }

    fn newest(&mut self) -> Result<&mut Finetune> {
        self.experts.last_mut().ok_or_else(no_open_task)
    }

    fn modules(&self) -> Vec<usize> {
        vec![self.experts.len(); self.network.depth]
    }
}

impl Method for Experts {
    fn begin(&mut self, data: TaskData<'_>) -> Result<()> {
        let mut expert = self.new_expert()?;
        expert.begin(data)?;
        self.experts.push(expert);
        Ok(())
    }

    fn epoch(&mut self, data: TaskData<'_>, listen: Listen<'_>) -> Result<bool> {
        self.newest()?.epoch(data, listen)
    }

    fn finish(&mut self, data: TaskData<'_>) -> Result<TaskReport> {
        let report = self.newest()?.finish(data)?;
        let modules_before = vec![self.experts.len() - 1; self.network.depth];
        Ok(TaskReport { modules_before, modules: self.modules(), ..report })
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.experts.last().and_then(Method::progress)
    }

    fn classifier(&self) -> Result<Box<dyn Classify>> {
        let experts = self.experts.iter().map(|expert| expert.network.classifier());
        Ok(Box::new(ExpertsClassifier(experts.collect::<Result<_>>()?)))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn capacity(&self) -> Capacity {
        let one = self.experts.last().map(Method::capacity).unwrap_or_default();
        let parameters = self.experts.iter().map(|expert| expert.capacity().parameters).sum();
        Capacity { modules: self.modules(), parameters, ..one }
    }

    fn state(&self) -> Result<State> {
        let (mut documents, mut tensors) = (Vec::new(), Vec::new());
        for (number, expert) in self.experts.iter().enumerate() {
            let state = expert.state()?;
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
            expert.restore(State { document, tensors })?;
            self.experts.push(expert);
        }
        Ok(())
    }
}

/// Networks of all tasks in evaluation mode; each classifies the images of its own task.
struct ExpertsClassifier(Vec<HeadedClassifier>);

impl Classify for ExpertsClassifier {
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> Result<Vec<Vec<Classification>>> {
        let classify = |&protocol: &Protocol| {
            let task = given_task("experts", protocol, task)?;
            let expert = self.0.get(task).ok_or_else(|| unknown_task(task))?;
            // Every expert knows its task as its first.
            let mut found =
                expert.classify(images, Some(0), &[Protocol::TaskGiven])?.pop().unwrap_or_default();
            found.iter_mut().for_each(|found| found.task = task);
            Ok(found)
        };
        protocols.iter().map(classify).collect()
    }
}
