//! A method of one's own: majority, which answers the most frequent label of each task. A floor for the others, and all that
//! a method needs; CONTRIBUTING.md ("Add a method") walks through it. `cargo run -p lmc-methods --example add_a_method`

use burn::tensor::{Device, Tensor};
use lmc::checkpoint::State;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::{Error, Learned, Material, Result};
use lmc_methods::training::parse;
use lmc_methods::{Answer, Answers, Capacity, Hint, Listen, Method, MethodConfig};
use lmc_streams::{BatchConfig, Catalog, DataDirs, OwnTask, Seed};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Settings of majority.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MajorityConfig {
    /// Training images that are counted, evenly spaced; 0, the default, for all.
    pub images: usize,
}

/// The most frequent label of each task.
#[derive(Clone, Debug)]
pub struct Majority {
    config: MajorityConfig,
    labels: Vec<u32>,
    /// The open task, and whether it was counted.
    open: Option<(String, bool)>,
}

impl MethodConfig for MajorityConfig {
    type Method = Majority;

    fn preset(_: &str, _: &str) -> Result<Self> {
        Ok(Self::default())
    }

    fn init(&self, _: &NetworkConfig, _: u64, _: &Device) -> Result<Majority> {
        Ok(Majority { config: self.clone(), labels: Vec::new(), open: None })
    }
}

impl Method for Majority {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        self.open = Some((material.task.to_owned(), false));
        Ok(())
    }

    fn epoch(&mut self, material: Material<'_>, _: Listen<'_>) -> Result<bool> {
        let all = if self.config.images == 0 { material.train.len() } else { self.config.images };
        let set = material.train.thinned(all);
        let count = |label: &u32| (0..set.len()).filter(|&at| set.label(at) == *label).count();
        self.labels.push((0..material.classes.len() as u32).max_by_key(count).unwrap_or(0));
        self.open = Some((material.task.to_owned(), true));
        Ok(false)
    }

    fn finish(&mut self, material: Material<'_>) -> Result<Learned> {
        self.open = None;
        let (task, modules) = (material.task.to_owned(), Vec::new());
        Ok(Learned {
            task,
            best_epoch: 0,
            epochs: 1,
            val_accuracy: None,
            modules_before: Vec::new(),
            modules,
        })
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.open.as_ref().map(|(_, counted)| (usize::from(*counted), 1))
    }

    fn answers(&self) -> Result<Box<dyn Answers>> {
        Ok(Box::new(self.clone()))
    }

    fn normalises(&self) -> bool {
        false
    }

    fn capacity(&self) -> Capacity {
        Capacity { parameters: self.labels.len(), ..Capacity::default() }
    }

    fn state(&self) -> Result<State> {
        let document = json!({ "labels": self.labels, "open": self.open });
        Ok(State { document, tensors: Vec::new() })
    }

    fn restore(&mut self, state: State) -> Result<()> {
        self.labels = parse(&state.document["labels"])?;
        self.open = parse(&state.document["open"])?;
        Ok(())
    }
}

impl Answers for Majority {
    fn answer(&self, images: &Tensor<4>, hints: &[Hint]) -> Result<Vec<Vec<Answer>>> {
        let answer = |hint: &Hint| {
            let Hint::Task(task) = *hint else {
                return Err(Error::setting(
                    "majority",
                    "it does not answer without a task ID",
                    "give the task",
                ));
            };
            let label = self.labels.get(task).copied().unwrap_or(0);
            Ok(vec![Answer { task, label, weights: Vec::new() }; images.dims()[0]])
        };
        hints.iter().map(answer).collect()
    }
}

fn main() -> Result<()> {
    let (catalog, network, device) =
        (Catalog::new(DataDirs::default()), NetworkConfig::default(), Device::flex());
    let mut method = MajorityConfig::default().init(&network, 1, &device)?;
    for (number, name) in ["generated-digits", "generated-textures"].into_iter().enumerate() {
        let own =
            OwnTask { name: name.into(), size: 32, channels: 3, val_fraction: 0.1, seed: Seed::root(1) };
        let task = own.read(name, &catalog)?;
        let material =
            Material { task: &task.name, classes: &task.classes, train: &task.train, val: &task.val };
        method.begin(material)?;
        while method.epoch(material, &mut |_| Ok(()))? {}
        method.finish(material)?;
        // As after a run that was killed: a new one takes the state and goes on.
        let state = method.state()?;
        method = MajorityConfig::default().init(&network, 1, &device)?;
        method.restore(state)?;
        let mut right = 0;
        for batch in BatchConfig::stored(64).init(&task.test)? {
            let answers = method.answers()?.answer(&images(&batch, &device), &[Hint::Task(number)])?;
            right += answers[0].iter().zip(&batch.labels).filter(|(a, label)| a.label == **label).count();
        }
        println!("{name}: {:.1} % right", 100.0 * right as f64 / task.test.len().max(1) as f64);
    }
    Ok(())
}
