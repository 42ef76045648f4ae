//! Head rules: the ways to choose a head, compared on the networks of finished runs of LMC.
//!
//! Training does not depend on them, so one trained network serves all. What is measured of a run is kept in its directory
//! (`head_rules.json`): an interrupted comparison goes on, and a table can be made again without the networks.

use std::time::Instant;

use burn::tensor::Device;
use lmc::internals::inference::evaluation::Evaluator;
use lmc::internals::inference::{HeadChoice, PredictionConfig, Routing};
use lmc::{Accuracy, Counting, EvalCounts, Model, Protocol, TestSet};
use lmc_streams::{Catalog, Seed, TaskSet};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::measured;
use crate::records::RunRecord;
use crate::report::Spread;

/// A way to choose a head, and the modules that it then sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadRule {
    /// The paper's: all modules, the smallest structural loss.
    Paper,
    /// The smallest structural loss, then the modules that the head was learned with.
    StructuralLoss,
    /// The distribution of scores behind the modules that the head was learned with.
    Scores,
    /// By signature; the modules of the route.
    Signature,
    /// By signature; all modules that the head was learned with.
    SignatureAllModules,
}

impl HeadRule {
    /// All rules.
    pub const ALL: [Self; 5] =
        [Self::Paper, Self::StructuralLoss, Self::Scores, Self::Signature, Self::SignatureAllModules];

    /// Name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::StructuralLoss => "structural_loss",
            Self::Scores => "scores",
            Self::Signature => "signature",
            Self::SignatureAllModules => "signature_all_modules",
        }
    }

    /// Name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::StructuralLoss => "structural loss",
            Self::Scores => "scores",
            Self::Signature => "signature",
            Self::SignatureAllModules => "signature, no module left out",
        }
    }

    /// The settings of the rule.
    pub fn prediction(self) -> PredictionConfig {
        let (routing, head_choice) = match self {
            Self::Paper => (Routing::AllModules, HeadChoice::StructuralLoss),
            Self::StructuralLoss => (Routing::AsLearned, HeadChoice::StructuralLoss),
            Self::Scores => (Routing::AsLearned, HeadChoice::TaskGaussian),
            Self::Signature | Self::SignatureAllModules => (Routing::AsLearned, HeadChoice::Signature),
        };
        let standard = PredictionConfig { routing, head_choice, ..PredictionConfig::default() };
        match self {
            Self::SignatureAllModules => PredictionConfig { negligible_weight: 0.0, ..standard },
            _ => standard,
        }
    }
}

/// What a rule gives on the tasks of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleResult {
    /// The rule.
    pub rule: HeadRule,
    /// By task.
    pub tasks: Vec<RuleTask>,
}

/// What a rule gives on one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleTask {
    /// Name of the task.
    pub task: String,
    /// Test images.
    pub images: usize,
    /// Accuracy by class name.
    pub by_name: Accuracy,
    /// Accuracy by the position of the label, whichever head answered: the paper's count.
    pub by_label: Accuracy,
    /// Share of single images whose task was found.
    pub task_found: f64,
    /// Share of single images that are called new.
    pub called_new: Option<f64>,
    /// Microseconds for an image, when single images are classified in batches.
    pub microseconds: f64,
}

/// Content of `head_rules.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct RulesFile {
    /// Test images of each task, at most.
    at_most: usize,
    rules: Vec<RuleResult>,
}

/// A run of LMC with what every rule gives.
#[derive(Clone, Debug, Serialize)]
pub struct RuleRun {
    /// The stream.
    pub stream: String,
    /// The root seed.
    pub seed: u64,
    /// The results.
    pub rules: Vec<RuleResult>,
}

/// Name of the file.
const FILE: &str = "head_rules.json";

/// Whether a run is one of LMC that keeps a network, or was measured already.
pub fn concerns(run: &RunRecord) -> bool {
    measured::concerns(run, FILE)
}

/// Measures what is missing of a run. `progress` hears what is being done.
pub fn measure(
    run: &RunRecord,
    rules: &[HeadRule],
    at_most: usize,
    catalog: &Catalog,
    device: &Device,
    progress: &mut dyn FnMut(&str),
) -> Result<RuleRun> {
    let mut known: RulesFile = measured::read(run, FILE)?.unwrap_or_default();
    if known.at_most != at_most {
        known = RulesFile { at_most, rules: Vec::new() };
    }
    let missing: Vec<HeadRule> =
        rules.iter().copied().filter(|rule| known.rules.iter().all(|known| known.rule != *rule)).collect();
    if !missing.is_empty() {
        let (stream, mut model) = measured::load(run, catalog, device, progress)?;
        let mut sets = Vec::new();
        for task in &stream.tasks {
            let (head, images) = model.test_images(&task.name, task)?;
            sets.push((head, images.thinned(at_most)));
        }
        for rule in missing {
            progress(&format!("{}: {}", run.directory.display(), rule.title()));
            known.rules.push(RuleResult { rule, tasks: evaluate(&mut model, rule, &sets)? });
            measured::write(run, FILE, &known)?;
        }
    }
    let wanted = |result: &RuleResult| rules.contains(&result.rule);
    let rules = known.rules.into_iter().filter(wanted).collect();
    Ok(RuleRun { stream: run.experiment.stream.clone(), seed: run.experiment.seed, rules })
}

fn evaluate(model: &mut Model, rule: HeadRule, sets: &[(usize, TaskSet)]) -> Result<Vec<RuleTask>> {
    model.config.prediction = rule.prediction();
    let predictor = model.predictor()?;
    let evaluator = Evaluator {
        classifier: &predictor,
        batch: model.config.batch,
        device: predictor.device().clone(),
        outputs: None,
        classes: model.network.heads.iter().map(|head| &head.classes[..]).collect(),
    };
    let sets: Vec<TestSet<'_>> =
        sets.iter().map(|(task, images)| TestSet { task: *task, images, normalisation: None }).collect();
    let mixed = evaluator.evaluate_mixed(&sets, &Seed::root(model.seed).named("mixed"))?;
    let mut results = Vec::with_capacity(sets.len());
    for (set, mixed) in sets.iter().zip(mixed) {
        let counts = evaluator.evaluate(set, &[Protocol::TaskGiven, Protocol::TaskBatch])?;
        let [given, batches] = &counts[..] else { return Err(missing()) };
        let started = Instant::now();
        let single = evaluator.evaluate(set, &[Protocol::Single])?.pop().ok_or_else(missing)?;
        let microseconds = started.elapsed().as_secs_f64() * 1e6 / set.images.len().max(1) as f64;
        let accuracy = |counting: Counting| {
            let share = |counts: &EvalCounts| counts.counted(counting);
            Accuracy {
                task_given: share(given),
                task_batches: Some(share(batches)),
                mixed: Some(share(&mixed)),
                single: Some(share(&single)),
            }
        };
        results.push(RuleTask {
            task: model.network.heads[set.task].task.clone(),
            images: set.images.len(),
            by_name: accuracy(Counting::Name),
            by_label: accuracy(Counting::Label),
            task_found: single.share(set.task),
            called_new: model.novel_share(set.images)?,
            microseconds,
        });
    }
    Ok(results)
}

fn missing() -> Error {
    Error::setting("evaluation", "there are no counts for a protocol", "report this as a bug of lmc")
}

/// Means over tasks, of one rule on one stream, over seeds.
#[derive(Clone, Debug, Serialize)]
pub struct RuleRow {
    /// The stream.
    pub stream: String,
    /// The rule.
    pub rule: HeadRule,
    /// Accuracy by name in %: single images, mixed batches, batches of one task, task given.
    pub by_name: [Option<Spread>; 4],
    /// The paper's count in batches of one task, in %.
    pub paper_count: Option<Spread>,
    /// Single images whose task was found, in %.
    pub task_found: Option<Spread>,
    /// Single images that were called new, in %.
    pub called_new: Option<Spread>,
    /// Microseconds for an image.
    pub microseconds: Option<Spread>,
}

/// Protocols in the order of [`RuleRow::by_name`].
pub const PROTOCOLS: [Protocol; 4] =
    [Protocol::Single, Protocol::Mixed, Protocol::TaskBatch, Protocol::TaskGiven];

/// A row for each stream and rule, in the order in which they come.
pub fn rows(runs: &[RuleRun]) -> Vec<RuleRow> {
    let mut rows: Vec<RuleRow> = Vec::new();
    for run in runs {
        for result in &run.rules {
            if rows.iter().any(|row| row.stream == run.stream && row.rule == result.rule) {
                continue;
            }
            let of_stream = runs.iter().filter(|other| other.stream == run.stream);
            let results: Vec<&RuleResult> = of_stream
                .filter_map(|run| run.rules.iter().find(|other| other.rule == result.rule))
                .collect();
            let spread = |of: &dyn Fn(&RuleTask) -> Option<f64>| {
                let mean = |result: &&RuleResult| {
                    let all: Option<Vec<f64>> = result.tasks.iter().map(of).collect();
                    all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
                };
                Spread::of(&results.iter().map(mean).collect::<Option<Vec<f64>>>()?)
            };
            let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
            rows.push(RuleRow {
                stream: run.stream.clone(),
                rule: result.rule,
                by_name: PROTOCOLS.map(|protocol| spread(&|task| percent(task.by_name.of(protocol)))),
                paper_count: spread(&|task| percent(task.by_label.of(Protocol::TaskBatch))),
                task_found: spread(&|task| Some(100.0 * task.task_found)),
                called_new: spread(&|task| percent(task.called_new)),
                microseconds: spread(&|task| Some(task.microseconds)),
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stream: &str, seed: u64, single: [f64; 2]) -> RuleRun {
        let task = |single: f64| RuleTask {
            task: "digits".into(),
            images: 10,
            by_name: Accuracy { task_given: 0.5, task_batches: Some(0.4), mixed: None, single: Some(single) },
            by_label: Accuracy { task_batches: Some(0.6), ..Accuracy::default() },
            task_found: 1.0,
            called_new: None,
            microseconds: 100.0,
        };
        let result = RuleResult { rule: HeadRule::Paper, tasks: single.map(task).to_vec() };
        RuleRun { stream: stream.into(), seed, rules: vec![result] }
    }

    #[test]
    fn rows_are_means_over_tasks_and_spreads_over_seeds() {
        let runs = [run("a", 1, [0.2, 0.4]), run("b", 1, [1.0, 1.0]), run("a", 2, [0.4, 0.6])];
        let rows = rows(&runs);
        assert_eq!(rows.iter().map(|row| row.stream.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let single = rows[0].by_name[0].unwrap();
        assert!((single.mean - 40.0).abs() < 1e-9 && single.runs == 2, "{single:?}");
        assert!((single.deviation.unwrap() - 10.0 * 2.0_f64.sqrt()).abs() < 1e-9);
        assert!(rows[0].by_name[1].is_none() && rows[0].called_new.is_none());
        assert!((rows[1].paper_count.unwrap().mean - 60.0).abs() < 1e-9);
    }

    #[test]
    fn every_rule_has_its_settings() {
        for (at, rule) in HeadRule::ALL.into_iter().enumerate() {
            rule.prediction().check().unwrap();
            let same = HeadRule::ALL[..at].iter().any(|other| other.prediction() == rule.prediction());
            assert!(!same, "{rule:?}");
            assert_eq!(serde_json::to_value(rule).unwrap(), rule.name());
        }
    }
}
