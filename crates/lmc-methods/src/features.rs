//! Two cheap references that need no task ID and that the paper lacks, on the features of the first task's network, which
//! never changes again: the nearest class mean, and streaming linear discriminant analysis (Hayes and Kanan 2020), which
//! adds one covariance for all classes. Each image is seen once. A task with the same list of classes as an earlier one
//! adds to those classes.

mod linear;
mod moments;

use burn::tensor::Device;
use lmc::checkpoint::State;
use lmc::events::Event;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::tensors::{Plain, values};
use lmc::{Error, Learned, Material, Result};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::linear::{Linear, solve};
use self::moments::Moments;
use crate::method::{Answers, Capacity, Listen, Method};
use crate::monolith::{Monolith, nothing_open};
use crate::registry::MethodConfig;
use crate::training::{TrainingConfig, parse};

/// How classes are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// By the distance to the mean of a class.
    NearestMean,
    /// By the same in the metric of the covariance that all classes share.
    Discriminant,
}

/// Settings of NCM and SLDA.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeaturesConfig {
    /// How the first task's network is trained.
    pub training: TrainingConfig,
    /// How classes are told apart.
    pub rule: Rule,
    /// Share of the identity in the covariance, above 0 and below 1; 1e-4 by default, as its authors have it.
    pub shrinkage: f64,
}

impl Default for FeaturesConfig {
    fn default() -> Self {
        Self { training: TrainingConfig::default(), rule: Rule::NearestMean, shrinkage: 1e-4 }
    }
}

impl MethodConfig for FeaturesConfig {
    type Method = Features;

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

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Features> {
        let seed = Seed::root(seed).named("features");
        let network = Monolith::new(network, &self.training, seed, false, device)?;
        let length = network.network.features();
        let covariance = match self.rule {
            Rule::NearestMean => Vec::new(),
            Rule::Discriminant => vec![0.0; length * length],
        };
        Ok(Features {
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

/// Means of classes in the features of the first task.
#[derive(Clone, Debug)]
pub struct Features {
    config: FeaturesConfig,
    network: Monolith,
    /// Lists of classes.
    lists: Vec<Vec<String>>,
    /// The list of each task.
    list_of: Vec<usize>,
    /// Mean of each class of all lists, `[class, feature]`. 32-bit between tasks: so a state on disk is exact.
    means: Vec<f32>,
    /// Images of each class.
    counts: Vec<u64>,
    /// `[feature, feature]`, of all classes around their means.
    covariance: Vec<f32>,
    /// The open task, after the first, and whether it was seen.
    open: Option<(String, bool)>,
}

impl Features {
    fn length(&self) -> usize {
        self.network.network.features()
    }

    /// Classes before those of a list.
    fn offset(&self, list: usize) -> usize {
        self.lists[..list].iter().map(Vec::len).sum()
    }

    /// Adds the images of a task to its classes.
    fn take_in(&mut self, material: Material<'_>) -> Result<()> {
        let Some(&list) = self.list_of.last() else { return Err(nothing_open()) };
        let (offset, length) = (self.offset(list), self.length());
        let normalisation = self.config.training.normalisation(material.train);
        let trunk = self.network.trunk.frozen()?;
        let device = self.network.device.clone().inner();
        let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
        let mut moments = Moments {
            length,
            means: wide(&self.means),
            counts: self.counts.clone(),
            covariance: wide(&self.covariance),
        };
        for batch in self.config.training.stored(normalisation.as_ref()).init(material.train)? {
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

impl Method for Features {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        let first = self.list_of.is_empty();
        let known = self.lists.iter().position(|list| list == material.classes);
        let list = known.unwrap_or(self.lists.len());
        if known.is_none() {
            self.lists.push(material.classes.to_vec());
            self.means.resize(self.means.len() + material.classes.len() * self.length(), 0.0);
            self.counts.resize(self.counts.len() + material.classes.len(), 0);
        }
        self.list_of.push(list);
        if first {
            return self.network.begin(material);
        }
        self.open = Some((material.task.to_owned(), false));
        Ok(())
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        if self.network.progress().is_some() {
            return self.network.epoch(material, listen, &mut |network, batch| network.plain(batch));
        }
        let Some((_, seen)) = self.open.as_mut() else { return Err(nothing_open()) };
        *seen = true;
        listen(Event::EpochEnded {
            epoch: 0,
            epochs: 1,
            loss: 0.0,
            cross_entropy: 0.0,
            train_accuracy: 0.0,
            val_accuracy: None,
            modules: self.capacity().modules,
        })?;
        Ok(false)
    }

    fn finish(&mut self, material: Material<'_>) -> Result<Learned> {
        let modules = self.capacity().modules;
        let learned = match self.open.take() {
            Some((task, _)) => Learned {
                task,
                best_epoch: 0,
                epochs: 1,
                val_accuracy: None,
                modules_before: modules.clone(),
                modules,
            },
            None => self.network.finish()?,
        };
        self.take_in(material)?;
        Ok(learned)
    }

    fn progress(&self) -> Option<(usize, usize)> {
        match &self.open {
            Some((_, seen)) => Some((usize::from(*seen), 1)),
            None => self.network.progress(),
        }
    }

    fn answers(&self) -> Result<Box<dyn Answers>> {
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
        Ok(Box::new(Linear {
            trunk: self.network.trunk.frozen()?,
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
        let plain = |name: &str, values: &[f32]| Plain {
            name: name.into(),
            shape: vec![values.len()],
            values: values.to_vec(),
        };
        let tensors = vec![plain("means", &self.means), plain("covariance", &self.covariance)];
        let more = json!({
            "lists": self.lists, "list_of": self.list_of, "counts": self.counts, "open": self.open,
        });
        Ok(self.network.state(&more, tensors))
    }

    fn restore(&mut self, state: State) -> Result<()> {
        self.network.restore(&state)?;
        let more = &state.document["more"];
        self.lists = parse(&more["lists"])?;
        self.list_of = parse(&more["list_of"])?;
        self.counts = parse(&more["counts"])?;
        self.open = parse(&more["open"])?;
        let find = |name: &str| {
            state.tensors.iter().find(|plain| plain.name == name).map(|plain| plain.values.clone())
        };
        self.means = find("means").unwrap_or_default();
        self.covariance = find("covariance").unwrap_or_default();
        let classes: usize = self.lists.iter().map(Vec::len).sum();
        if self.means.len() != classes * self.length() || self.counts.len() != classes {
            return Err(Error::setting("checkpoint", "its class means are not whole", "start the run anew"));
        }
        Ok(())
    }
}
