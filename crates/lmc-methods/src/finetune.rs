//! Finetune: one network without structural components, all of whose trunk is trained on every task (specification §2.1).
//! Heads are one per task, given by its ID, and old ones stay as they are. What it forgets, the trunk forgets.

use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Device, Int, Tensor, TensorData};
use lmc::adam::OptimiserConfig;
use lmc::functional::Functional;
use lmc::head::{Head, HeadConfig, HeadStructuralKind};
use lmc::module::FrozenFunctional;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::tensors::{Visitor, Walk, freeze, train, values, without_gradients};
use lmc::{Material, Result};
use lmc_streams::{BatchConfig, Seed, TaskSet};

/// Settings of Finetune.
#[derive(Clone, Debug)]
pub struct FinetuneConfig {
    /// Sizes; structural components are left out.
    pub network: NetworkConfig,
    /// How parameters are trained.
    pub optimiser: OptimiserConfig,
    /// Images per batch.
    pub batch: usize,
    /// Epochs per task.
    pub epochs: usize,
    /// Root seed.
    pub seed: u64,
}

/// One network for all tasks.
#[derive(Clone, Debug)]
pub struct Finetune {
    config: FinetuneConfig,
    trunk: Trunk,
    heads: Vec<Head>,
    device: Device,
}

#[derive(Clone, Debug)]
struct Trunk(Vec<Functional>);

impl Walk for Trunk {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        for (number, functional) in self.0.iter_mut().enumerate() {
            functional.walk(&format!("{path}layer{number}"), visitor);
        }
    }
}

/// What is trained in a task.
struct Trained<'a>(&'a mut Trunk, &'a mut Head);

impl Walk for Trained<'_> {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        self.0.walk(path, visitor);
        self.1.walk("head", visitor);
    }
}

impl FinetuneConfig {
    /// A network that knows nothing.
    pub fn init(&self, device: &Device) -> Result<Finetune> {
        self.network.check()?;
        let device = device.clone().autodiff();
        let seed = Seed::root(self.seed).named("finetune");
        let layers = self.network.layers().into_iter().enumerate();
        let trunk =
            layers.map(|(number, layer)| layer.functional.init(&seed.numbered(number as u64), &device));
        Ok(Finetune { config: self.clone(), trunk: Trunk(trunk.collect()), heads: Vec::new(), device })
    }
}

impl Finetune {
    /// Learns a task, and keeps the epoch that was best on the validation images. `listen` hears of every epoch.
    pub fn learn(&mut self, material: Material<'_>, listen: &mut dyn FnMut(usize)) -> Result<()> {
        let number = self.heads.len();
        let seed = Seed::root(self.config.seed).named("finetune task").numbered(number as u64);
        let head = HeadConfig {
            features: self.config.network.features(),
            classes: material.classes.len(),
            structural: HeadStructuralKind::Invertible,
        };
        let mut head = head.init(material.task, material.classes.to_vec(), &seed, &self.device);
        train(&mut head);
        train(&mut self.trunk);
        let mut adam = self.config.optimiser.init();
        let mut best: Option<(f64, Trunk, Head)> = None;
        for epoch in 0..self.config.epochs {
            let order =
                BatchConfig::shuffled(self.config.batch, seed.named("batches").numbered(epoch as u64));
            for batch in order.init(material.train)? {
                let mut x = images(&batch, &self.device);
                for functional in &mut self.trunk.0 {
                    x = functional.forward(x, false)?;
                }
                let labels: Vec<i32> = batch.labels.iter().map(|&label| label as i32).collect();
                let targets: Tensor<1, Int> =
                    Tensor::from_data(TensorData::new(labels, [batch.labels.len()]), &self.device);
                let logits = head.logits(x.flatten(1, 3));
                let loss = CrossEntropyLossConfig::new().init(&self.device).forward(logits, targets);
                let mut gradients = loss.backward();
                adam.step(&mut Trained(&mut self.trunk, &mut head), &mut gradients);
            }
            let accuracy = accuracy(&self.trunk, &head, material.val, self.config.batch)?;
            if best.as_ref().is_none_or(|(best, ..)| accuracy > *best) {
                best = Some((accuracy, self.trunk.clone(), head.clone()));
            }
            listen(epoch);
        }
        if let Some((_, trunk, restored)) = best {
            self.trunk = trunk;
            head = restored;
        }
        freeze(&mut head);
        self.heads.push(head);
        Ok(())
    }

    /// Share of a set that is told right with the head of a task.
    pub fn accuracy(&self, task: usize, set: &TaskSet) -> Result<f64> {
        match self.heads.get(task) {
            Some(head) => accuracy(&self.trunk, head, set, self.config.batch),
            None => Ok(0.0),
        }
    }
}

fn accuracy(trunk: &Trunk, head: &Head, set: &TaskSet, batch: usize) -> Result<f64> {
    let layers: Vec<FrozenFunctional> =
        without_gradients(trunk).0.iter().map(FrozenFunctional::new).collect::<Result<_>>()?;
    let head = without_gradients(head);
    let (mut right, mut seen) = (0_usize, 0_usize);
    for batch in BatchConfig::stored(batch).init(set)? {
        let mut x = images(&batch, &head.weight.device());
        for layer in &layers {
            x = layer.forward(x)?;
        }
        let logits = values(&head.logits(x.flatten(1, 3)));
        for (row, &label) in logits.chunks(head.classes.len().max(1)).zip(&batch.labels) {
            let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
            right += usize::from(best == Some(label as usize));
            seen += 1;
        }
    }
    Ok(right as f64 / seen.max(1) as f64)
}
