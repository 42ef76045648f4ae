//! Two cheap task-agnostic baselines that the paper lacks, on the features of the first task's network, which is frozen
//! afterwards: the nearest class mean (NCM), and streaming linear discriminant analysis (SLDA, Hayes and Kanan 2020), which
//! adds one covariance for all classes. Each image is seen once. A task with the same list of classes as an earlier one
//! adds to those classes.

mod linear;
mod moments;

use burn::tensor::Device;
use lmc::internals::inference::evaluation::Classify;
use lmc::internals::tensors::{NamedTensor, images, values};
use lmc::internals::training::EpochMetrics;
use lmc::internals::training::checkpoint::State;
use lmc::{Error, NetworkConfig, Result, TaskData, TaskReport};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};

use self::linear::{LinearClassifier, solve};
use self::moments::Moments;
use crate::checkpoint::{damaged, document, parse};
use crate::finetune::{CrossEntropy, Finetune};
use crate::method::{Capacity, Listen, Method, no_open_task};
use crate::registry::MethodConfig;
use crate::single_network::SingleNetwork;
use crate::training::TrainingConfig;

/// The rule that separates classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The nearest class mean.
    NearestMean,
    /// The nearest class mean in the metric of the covariance that all classes share.
    Discriminant,
}

/// Settings of NCM and SLDA.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassMeansConfig {
    /// Hyperparameters of training of the first task's network.
    pub training: TrainingConfig,
    /// The rule that separates classes.
    pub rule: Rule,
    /// Share of the identity in the covariance, above 0 and below 1; 1e-4 by default, as its authors have it.
    pub shrinkage: f64,
}

impl Default for ClassMeansConfig {
    fn default() -> Self {
        Self { training: TrainingConfig::default(), rule: Rule::NearestMean, shrinkage: 1e-4 }
    }
}

/// The largest number of features whose covariance is kept: 2 GiB.
const MOST_FEATURES: usize = 16_384;

impl MethodConfig for ClassMeansConfig {
    type Method = ClassMeans;

    fn preset(name: &str, _: &str) -> Result<Self> {
        let rule = if name == "slda" { Rule::Discriminant } else { Rule::NearestMean };
        Ok(Self { rule, ..Self::default() })
    }

    fn check(&self) -> Result<()> {
        if !(self.shrinkage > 0.0 && self.shrinkage < 1.0) {
            let problem = format!("{} is not possible", self.shrinkage);
            return Err(Error::setting("shrinkage", problem, "use a number between 0 and 1"));
        }
        self.training.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<ClassMeans> {
        let seed = Seed::root(seed).named("features");
        let network = SingleNetwork::new(network, &self.training, CrossEntropy, seed, device)?;
        let length = network.network.config.features();
        let covariance = match self.rule {
            Rule::NearestMean => Vec::new(),
            Rule::Discriminant if length > MOST_FEATURES => {
                let problem = format!("a covariance of {length} features is too large");
                let cure =
                    format!("use more layers or a smaller width, for {MOST_FEATURES} features or fewer");
                return Err(Error::setting("network", problem, cure));
            }
            Rule::Discriminant => vec![0.0; length * length],
        };
        Ok(ClassMeans {
            config: self.clone(),
            network,
            lists: Vec::new(),
            list_of: Vec::new(),
            means: Vec::new(),
            counts: Vec::new(),
            covariance,
            open: None,
        })
    }
}

/// Means of classes in the features of the first task's network.
#[derive(Clone, Debug)]
pub struct ClassMeans {
    config: ClassMeansConfig,
    network: Finetune,
    /// Lists of classes, each of one task or more.
    lists: Vec<Vec<String>>,
    /// The list of classes of each task.
    list_of: Vec<usize>,
    /// Mean of each class of all lists, `[class, feature]`. In 32 bits between tasks, so that a state on disk is exact.
    means: Vec<f32>,
    /// Number of images of each class.
    counts: Vec<u64>,
    /// Covariance `[feature, feature]` of all classes around their means; empty for NCM.
    covariance: Vec<f32>,
    /// The open task, unless it is the first, and whether its epoch is done.
    open: Option<(String, bool)>,
}

/// What the document holds besides the first task's network.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassesRecord {
    lists: Vec<Vec<String>>,
    list_of: Vec<usize>,
    counts: Vec<u64>,
    open: Option<(String, bool)>,
}

impl ClassMeans {
    fn length(&self) -> usize {
        self.network.network.config.features()
    }

    /// Number of classes before those of a list.
    fn offset(&self, list: usize) -> usize {
        self.lists[..list].iter().map(Vec::len).sum()
    }

    /// Adds the images of a task to its classes.
    fn add_images(&mut self, data: TaskData<'_>) -> Result<()> {
        let Some(&list) = self.list_of.last() else { return Err(no_open_task()) };
        let (offset, length) = (self.offset(list), self.length());
        let normalisation = self.config.training.normalisation(data.train);
        let trunk = self.network.network.trunk.frozen()?;
        let device = self.network.network.device.clone().inner();
        let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
        let mut moments = Moments {
            length,
            means: wide(&self.means),
            counts: self.counts.clone(),
            covariance: wide(&self.covariance),
        };
        for batch in self.config.training.stored(normalisation.as_ref()).init(data.train)? {
            data.check_stop()?;
            let features = values(&trunk.features(images(&batch, &device))?);
            for (row, &label) in features.chunks(length.max(1)).zip(&batch.labels) {
                moments.add(offset + label as usize, row);
            }
        }
        self.means = moments.means.into_iter().map(|value| value as f32).collect();
        self.covariance = moments.covariance.into_iter().map(|value| value as f32).collect();
        self.counts = moments.counts;
        Ok(())
    }
}

impl Method for ClassMeans {
    fn begin(&mut self, data: TaskData<'_>) -> Result<()> {
        let first = self.list_of.is_empty();
        let same = self.lists.iter().position(|list| list == data.classes);
        let list = same.unwrap_or(self.lists.len());
        if same.is_none() {
            self.lists.push(data.classes.to_vec());
            self.means.resize(self.means.len() + data.classes.len() * self.length(), 0.0);
            self.counts.resize(self.counts.len() + data.classes.len(), 0);
        }
        self.list_of.push(list);
        if first {
            return self.network.begin(data);
        }
        self.open = Some((data.name.to_owned(), false));
        Ok(())
    }

    fn epoch(&mut self, data: TaskData<'_>, listen: Listen<'_>) -> Result<bool> {
        if self.network.progress().is_some() {
            return self.network.epoch(data, listen);
        }
        let Some((_, done)) = self.open.as_mut() else { return Err(no_open_task()) };
        *done = true;
        // Nothing is trained: the images are counted at the end of the task.
        listen(EpochMetrics::new(data.name, 0, 0).end(1, None, self.network.network.modules()))?;
        Ok(false)
    }

    fn finish(&mut self, data: TaskData<'_>) -> Result<TaskReport> {
        let modules = self.network.network.modules();
        let report = match self.open.take() {
            Some((task, _)) => TaskReport {
                task,
                epochs: 1,
                modules_before: modules.clone(),
                modules,
                ..TaskReport::default()
            },
            None => self.network.finish(data)?,
        };
        self.add_images(data)?;
        Ok(report)
    }

    fn progress(&self) -> Option<(usize, usize)> {
        match &self.open {
            Some((_, done)) => Some((usize::from(*done), 1)),
            None => self.network.progress(),
        }
    }

    fn classifier(&self) -> Result<Box<dyn Classify>> {
        let length = self.length();
        let means: Vec<f64> = self.means.iter().map(|&value| f64::from(value)).collect();
        // Nearest in a metric P: largest 2 xᵀPμ - μᵀPμ. The identity for NCM, the inverse covariance for SLDA.
        let rows: Vec<Vec<f64>> = match self.config.rule {
            Rule::NearestMean => means.chunks(length).map(<[f64]>::to_vec).collect(),
            Rule::Discriminant => solve(&self.covariance, length, self.config.shrinkage, &means)?,
        };
        let biases = rows
            .iter()
            .zip(means.chunks(length))
            .map(|(row, mean)| -0.5 * row.iter().zip(mean).map(|(a, b)| a * b).sum::<f64>());
        Ok(Box::new(LinearClassifier {
            trunk: self.network.network.trunk.frozen()?,
            biases: biases.collect(),
            rows,
            seen: self.counts.iter().map(|&count| count > 0).collect(),
            ranges: (0..self.lists.len())
                .map(|list| self.offset(list)..self.offset(list) + self.lists[list].len())
                .collect(),
            list_of: self.list_of.clone(),
        }))
    }

    fn normalises(&self) -> bool {
        self.config.training.normalise
    }

    fn outputs_of(&self, task: usize) -> usize {
        let of = &self.list_of;
        of.get(task).and_then(|list| of.iter().position(|other| other == list)).unwrap_or(task)
    }

    fn is_class_incremental(&self) -> bool {
        true
    }

    fn capacity(&self) -> Capacity {
        let network = self.network.capacity();
        let numbers = self.means.len() + self.covariance.len();
        Capacity { parameters: network.parameters + numbers, ..network }
    }

    fn state(&self) -> Result<State> {
        let named = |name: &str, values: &[f32]| NamedTensor {
            name: name.into(),
            shape: vec![values.len()],
            values: values.to_vec(),
        };
        let tensors = vec![named("means", &self.means), named("covariance", &self.covariance)];
        let record = ClassesRecord {
            lists: self.lists.clone(),
            list_of: self.list_of.clone(),
            counts: self.counts.clone(),
            open: self.open.clone(),
        };
        self.network.state_with(State { document: document(&record)?, tensors })
    }

    fn restore(&mut self, state: State) -> Result<()> {
        let record: ClassesRecord = parse(&self.network.restore_network(&state)?)?;
        ClassesRecord { lists: self.lists, list_of: self.list_of, counts: self.counts, open: self.open } =
            record;
        let find = |name: &str| {
            state.tensors.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.values.clone())
        };
        self.means = find("means").unwrap_or_default();
        self.covariance = find("covariance").unwrap_or_default();
        let classes: usize = self.lists.iter().map(Vec::len).sum();
        if self.means.len() != classes * self.length() || self.counts.len() != classes {
            return Err(damaged("its class means are not whole"));
        }
        Ok(())
    }
}
