//! Two cheap references that need no task ID and that the paper lacks, on the features of the first task's network, which
//! never changes again: the nearest class mean, and streaming linear discriminant analysis (Hayes and Kanan 2020), which
//! adds one covariance for all classes. Each image is seen once. A task with the same list of classes as an earlier one
//! adds to those classes.

use burn::tensor::{Device, Tensor};
use lmc::checkpoint::State;
use lmc::events::Event;
use lmc::network::NetworkConfig;
use lmc::prediction::images;
use lmc::tensors::{Plain, values};
use lmc::{Error, Learned, Material, Result};
use lmc_streams::Seed;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::method::{Answer, Answers, Capacity, Hint, Listen, Method};
use crate::monolith::{Monolith, nothing_open};
use crate::registry::MethodConfig;
use crate::training::{TrainingConfig, parse};
use crate::trunk::FrozenTrunk;

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

/// Means and covariance while images come in, in 64 bits.
struct Moments {
    length: usize,
    means: Vec<f64>,
    counts: Vec<u64>,
    /// Empty if it is not asked for.
    covariance: Vec<f64>,
}

impl Moments {
    /// Adds the features of an image of a class. With t images before it and the mean μ of its class before it, 0 for the
    /// first: `Σ ← (t Σ + t / (t + 1) (x - μ)(x - μ)ᵀ) / (t + 1)`.
    fn add(&mut self, class: usize, row: &[f32]) {
        let seen = self.counts.iter().sum::<u64>() as f64;
        let mean = &mut self.means[class * self.length..(class + 1) * self.length];
        let apart: Vec<f64> = row.iter().zip(&*mean).map(|(x, mean)| f64::from(*x) - mean).collect();
        for (line, a) in self.covariance.chunks_mut(self.length.max(1)).zip(&apart) {
            let scaled = a * seen / (seen + 1.0);
            for (entry, b) in line.iter_mut().zip(&apart) {
                *entry = (seen * *entry + scaled * b) / (seen + 1.0);
            }
        }
        self.counts[class] += 1;
        let share = 1.0 / self.counts[class] as f64;
        mean.iter_mut().zip(&apart).for_each(|(mean, apart)| *mean += apart * share);
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

/// `Λ μ` for each mean, where Λ is the inverse of `(1 - shrinkage) Σ + shrinkage I`, by Cholesky's factors.
fn solve(covariance: &[f32], length: usize, shrinkage: f64, means: &[f64]) -> Result<Vec<Vec<f64>>> {
    let mut factor = vec![0.0_f64; length * length];
    for row in 0..length {
        for column in 0..=row {
            let mut entry = (1.0 - shrinkage) * f64::from(covariance[row * length + column]);
            if row == column {
                entry += shrinkage;
            }
            let (above, left) = (&factor[column * length..][..column], &factor[row * length..][..column]);
            let rest = entry - above.iter().zip(left).map(|(a, b)| a * b).sum::<f64>();
            factor[row * length + column] = if row == column {
                if rest <= 0.0 {
                    let problem = "the covariance of the features is not positive";
                    return Err(Error::setting("slda", problem, "use a larger shrinkage"));
                }
                rest.sqrt()
            } else {
                rest / factor[column * length + column]
            };
        }
    }
    let solved = means.chunks(length.max(1)).map(|mean| {
        let mut x = mean.to_vec();
        for row in 0..length {
            let known: f64 = factor[row * length..][..row].iter().zip(&x).map(|(a, b)| a * b).sum();
            x[row] = (x[row] - known) / factor[row * length + row];
        }
        for row in (0..length).rev() {
            let known: f64 = (row + 1..length).map(|below| factor[below * length + row] * x[below]).sum();
            x[row] = (x[row] - known) / factor[row * length + row];
        }
        x
    });
    Ok(solved.collect())
}

/// A linear rule over the classes of all tasks.
struct Linear {
    trunk: FrozenTrunk,
    rows: Vec<Vec<f64>>,
    biases: Vec<f64>,
    /// Classes that were seen at all.
    seen: Vec<bool>,
    /// Classes of each list.
    ranges: Vec<std::ops::Range<usize>>,
    list_of: Vec<usize>,
}

impl Linear {
    fn nearest(&self, features: &[f32], among: &mut dyn Iterator<Item = usize>) -> Answer {
        let score = |class: usize| {
            let products = self.rows[class].iter().zip(features).map(|(a, b)| a * f64::from(*b));
            products.sum::<f64>() + self.biases[class]
        };
        let scored = among.filter(|&class| self.seen[class]).map(|class| (class, score(class)));
        let best = scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let Some((class, _)) = best else { return Answer::default() };
        let list = self.ranges.iter().position(|range| range.contains(&class)).unwrap_or(0);
        let task = self.list_of.iter().position(|&other| other == list).unwrap_or(0);
        Answer { task, label: (class - self.ranges[list].start) as u32, weights: Vec::new() }
    }
}

impl Answers for Linear {
    fn answer(&self, images: &Tensor<4>, hints: &[Hint]) -> Result<Vec<Vec<Answer>>> {
        let features = self.trunk.features(images.clone())?;
        let length = features.dims()[1];
        let features = values(&features);
        let answer = |hint: &Hint| -> Vec<Answer> {
            let rows = features.chunks(length.max(1));
            match hint {
                Hint::Task(task) => {
                    let list = self.list_of.get(*task).copied().unwrap_or(0);
                    let own =
                        |row| Answer { task: *task, ..self.nearest(row, &mut self.ranges[list].clone()) };
                    rows.map(own).collect()
                }
                _ => rows.map(|row| self.nearest(row, &mut (0..self.rows.len()))).collect(),
            }
        };
        Ok(hints.iter().map(answer).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_covariance_by_hand() {
        let mut moments =
            Moments { length: 2, means: vec![0.0; 4], counts: vec![0; 2], covariance: vec![0.0; 4] };
        // t = 0: nothing. t = 1: (0 + 1/2 · 2²) / 2 = 1. t = 2: (2 · 1) / 3 and (2/3 · 2²) / 3.
        for (class, row) in [(0, [1.0, 0.0]), (0, [3.0, 0.0]), (1, [0.0, 2.0])] {
            moments.add(class, &row);
        }
        assert_eq!((moments.means, moments.counts), (vec![2.0, 0.0, 0.0, 2.0], vec![2, 1]));
        for (found, wanted) in moments.covariance.iter().zip([2.0 / 3.0, 0.0, 0.0, 8.0 / 9.0]) {
            assert!((found - wanted).abs() < 1e-12, "{:?}", moments.covariance);
        }
    }

    /// A covariance of 2 and 0.5 without correlation: means are divided by it.
    #[test]
    fn solving_by_hand() {
        let rows = solve(&[2.0, 0.0, 0.0, 0.5], 2, 1e-9, &[1.0, 1.0, 4.0, -1.0]).unwrap();
        for (found, wanted) in rows.concat().iter().zip([0.5, 2.0, 2.0, -2.0]) {
            assert!((found - wanted).abs() < 1e-6, "{rows:?}");
        }
    }
}
