//! A method of one's own, in full: majority classifies every image as the most frequent label of its task. CONTRIBUTING.md
//! ("Add a method") walks through it. `cargo run -p lmc-methods --example add_a_method`

use burn::tensor::{Device, Tensor};
use lmc::internals::inference::evaluation::{Classification, Classify, Evaluator};
use lmc::internals::training::checkpoint::State;
use lmc::{NetworkConfig, Protocol, Result, TaskData, TaskReport, TestSet};
use lmc_methods::checkpoint::parse;
use lmc_methods::method::given_task;
use lmc_methods::{Capacity, Listen, Method, MethodConfig};
use lmc_streams::{Catalog, DataDirs, OwnTask};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Settings of majority: none.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MajorityConfig {}

impl MethodConfig for MajorityConfig {
    type Method = Majority;
    fn preset(_: &str, _: &str) -> Result<Self> {
        Ok(Self::default())
    }
    fn init(&self, _: &NetworkConfig, _: u64, _: &Device) -> Result<Majority> {
        Ok(Majority::default())
    }
}

/// The most frequent label of each task.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Majority {
    labels: Vec<u32>,
    /// Epochs of the open task that are done.
    open: Option<usize>,
}

impl Method for Majority {
    fn begin(&mut self, _: TaskData<'_>) -> Result<()> {
        self.open = Some(0);
        Ok(())
    }
    fn epoch(&mut self, data: TaskData<'_>, _: Listen<'_>) -> Result<bool> {
        let (set, classes) = (data.train, data.classes.len() as u32);
        let count = |label: &u32| (0..set.len()).filter(|&at| set.label(at) == *label).count();
        self.labels.push((0..classes).max_by_key(count).unwrap_or(0));
        self.open = Some(1);
        Ok(false)
    }
    fn finish(&mut self, data: TaskData<'_>) -> Result<TaskReport> {
        self.open = None;
        Ok(TaskReport { task: data.name.to_owned(), epochs: 1, ..TaskReport::default() })
    }
    fn progress(&self) -> Option<(usize, usize)> {
        self.open.map(|done| (done, 1))
    }
    fn classifier(&self) -> Result<Box<dyn Classify>> {
        Ok(Box::new(self.clone()))
    }
    fn capacity(&self) -> Capacity {
        Capacity { parameters: self.labels.len(), ..Capacity::default() }
    }
    fn state(&self) -> Result<State> {
        Ok(State { document: json!(self), tensors: Vec::new() })
    }
    fn restore(&mut self, state: State) -> Result<()> {
        *self = parse(&state.document)?;
        Ok(())
    }
}

impl Classify for Majority {
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> Result<Vec<Vec<Classification>>> {
        let classify = |&protocol: &Protocol| {
            let task = given_task("majority", protocol, task)?;
            let label = self.labels.get(task).copied().unwrap_or(0);
            Ok(vec![Classification { task, label, weights: Vec::new() }; images.dims()[0]])
        };
        protocols.iter().map(classify).collect()
    }
}

fn main() -> Result<()> {
    let device = Device::flex();
    let mut method = MajorityConfig::default().init(&NetworkConfig::default(), 1, &device)?;
    let name = "generated-digits";
    let own = OwnTask { name: name.into(), val_fraction: 0.1, ..OwnTask::default() };
    let task = own.read(name, &Catalog::new(DataDirs::default()))?;
    method.learn((&task).into(), &mut |_| Ok(()))?;
    let classifier = method.classifier()?;
    let evaluator =
        Evaluator { classifier: &*classifier, batch: 64, device, outputs: None, classes: Vec::new() };
    let test = TestSet { task: 0, images: &task.test, normalisation: None };
    for counts in evaluator.evaluate(&test, &[Protocol::TaskGiven])? {
        println!("{} of {} test images classified correctly", counts.correct, counts.images);
    }
    Ok(())
}
