//! `lmc predict`: classifies pictures whose task is not given.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use lmc::{ClassShare, Error, Model, Prediction, Protocol, TaskEvidence, TaskShare};
use lmc_streams::{Picture, SkippedFiles, pictures_below};
use serde::Serialize;

use crate::compute::Compute;
use crate::inference_options::{InferenceOptions, say_what_is_missing};
use crate::output::{percent, print, print_json, print_text, say, table};

/// Classify pictures. Without --task the model finds the task of each picture by itself.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc predict shop.lmc photo.jpg more/               files and folders
  lmc predict shop.lmc more/ --explain               why this task, and which modules ran
  lmc predict shop.lmc more/ --batch-by-task         all pictures are of one task, which is not given
  lmc predict shop.lmc more/ --task fruit --json     the task is given; for a script")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// Pictures, or folders of pictures: PNG, JPEG, WebP, GIF, BMP, TIFF.
    #[arg(required = true)]
    pictures: Vec<PathBuf>,
    /// The task, if it is known.
    #[arg(long)]
    task: Option<String>,
    /// All pictures are of one task: they are classified in batches, which share modules and head.
    #[arg(long)]
    batch_by_task: bool,
    /// Show the next best classes, why this task and not another, and the weight of each module.
    #[arg(long)]
    explain: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    inference: InferenceOptions,
    #[command(flatten)]
    compute: Compute,
}

/// One picture in the output: its prediction, or why there is none.
#[derive(Serialize)]
struct PictureResult {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
    /// The next best classes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    alternatives: Vec<ClassShare>,
    /// The tasks that were considered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<TaskShare>,
    /// Log-likelihood of each task, the largest 0, where heads are found by signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Vec<TaskEvidence>>,
    /// Whether the picture fits no task; absent when the model was not calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    novel: Option<bool>,
    /// Weight of each module, `[layer][module]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<Vec<Vec<f64>>>,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    let device = arguments.compute.init()?;
    let mut model = Model::load_on(&arguments.model, &device)?;
    arguments.inference.apply(&mut model);
    if model.tasks().next().is_none() {
        return Err(
            Error::bad(&arguments.model, "this model knows no task", "teach it one: lmc learn").into()
        );
    }
    let task = arguments.task.as_deref();
    let protocol = match (task, arguments.batch_by_task) {
        (Some(_), true) => Protocol::TaskGiven,
        (None, true) => Protocol::TaskBatch,
        (_, false) => Protocol::Single,
    };
    let predictor = model.predictor()?;
    match task {
        Some(task) => drop(predictor.head(task)?),
        None => say_what_is_missing(&model)?,
    }
    let mut results = Vec::new();
    for files in find(&arguments.pictures)?.chunks(predictor.images_at_once(protocol)) {
        let mut pictures = Vec::with_capacity(files.len());
        let mut problems = Vec::with_capacity(files.len());
        for file in files {
            match Picture::open(file) {
                Ok(picture) => {
                    // One whole picture at a time; prepared ones are small.
                    pictures.push(predictor.prepare_picture(picture));
                    problems.push(None);
                }
                Err(problem) => problems.push(Some(problem.to_string())),
            }
        }
        let mut predictions = predictor.predict_pictures(&pictures, protocol, task)?.into_iter();
        let mut evidence = match arguments.explain {
            true => predictor.evidence(&pictures)?.unwrap_or_default().into_iter(),
            false => Vec::new().into_iter(),
        };
        for (file, problem) in files.iter().zip(problems) {
            let file = file.display().to_string();
            let (prediction, evidence) = match problem {
                None => (predictions.next(), evidence.next()),
                Some(_) => (None, None),
            };
            results.push(PictureResult::new(file, problem, prediction, evidence, arguments.explain));
        }
    }
    let failures = results.iter().filter(|result| result.error.is_some()).count();
    if arguments.json {
        print_json(&results)?;
    } else {
        show(&results, arguments.explain)?;
    }
    if failures > 0 {
        bail!("{failures} of {} pictures could not be read; see the list", results.len());
    }
    Ok(())
}

/// All pictures, those of folders in the order of their paths. Files of folders that are no pictures are counted.
fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut skipped = SkippedFiles::default();
    for path in paths {
        if path.is_dir() {
            let found = pictures_below(path)?;
            if found.pictures.is_empty() {
                let problem = match found.skipped.is_empty() {
                    true => "this folder is empty".to_owned(),
                    false => format!("there are no pictures in this folder ({})", found.skipped),
                };
                return Err(lmc_streams::Error::bad(path, problem, "name another").into());
            }
            files.extend(found.pictures);
            skipped.extend(found.skipped);
        } else if path.exists() {
            files.push(path.clone());
        } else {
            return Err(
                lmc_streams::Error::bad(path, "there is no such file or folder", "check the path").into()
            );
        }
    }
    if !skipped.is_empty() {
        say(&format!("note: {skipped}"));
    }
    Ok(files)
}

impl PictureResult {
    fn new(
        file: String,
        error: Option<String>,
        prediction: Option<Prediction>,
        evidence: Option<Vec<TaskEvidence>>,
        explain: bool,
    ) -> Self {
        let mut result = Self {
            file,
            error,
            task: None,
            class: None,
            probability: None,
            alternatives: Vec::new(),
            tasks: Vec::new(),
            evidence,
            novel: None,
            weights: None,
        };
        if let Some(found) = prediction {
            (result.task, result.class) = (Some(found.task), Some(found.class));
            (result.probability, result.novel) = (Some(found.probability), found.novel);
            (result.alternatives, result.tasks) = (found.alternatives, found.tasks);
            result.weights = explain.then_some(found.module_weights);
        }
        result
    }

    /// Why this task, and which modules ran: some lines.
    fn explanation(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let (Some(task), Some(class)) = (&self.task, &self.class) else { return lines };
        let share =
            |found: &ClassShare| format!("{} of {} {}", found.class, found.task, percent(found.probability));
        let others: Vec<String> = self.alternatives.iter().map(share).collect();
        lines.push(match others.is_empty() {
            true => format!("class: {class}, and no other was considered"),
            false => format!("class: {class}, before {}", others.join(", ")),
        });
        let tasks: Vec<String> =
            self.tasks.iter().map(|found| format!("{} {}", found.task, percent(found.posterior))).collect();
        lines.push(match &self.evidence {
            Some(evidence) => {
                let mut evidence: Vec<&TaskEvidence> = evidence.iter().collect();
                evidence.sort_by(|a, b| b.log_likelihood.total_cmp(&a.log_likelihood));
                let behind = evidence.iter().take(MOST_TASKS).map(|found| match found.log_likelihood {
                    0.0 => format!("{} looks likeliest", found.task),
                    behind => format!("{} is e^{:.1} times less likely", found.task, -behind),
                });
                let behind = behind.collect::<Vec<_>>().join(", ");
                match tasks.len() {
                    1 => format!("task: {task}, because by its looks {behind}"),
                    _ => format!(
                        "task: {} with how sure their heads are; by its looks {behind}",
                        tasks.join(", ")
                    ),
                }
            }
            None => format!("task: {}", tasks.join(", ")),
        });
        if let Some(weights) = &self.weights {
            let ran = |layer: &Vec<f64>| {
                let ran = layer.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
                ran.map(|(module, weight)| format!("{module} ({weight:.2})")).collect::<Vec<_>>().join(" ")
            };
            lines.push(format!("modules: {}", weights.iter().map(ran).collect::<Vec<_>>().join(" | ")));
        }
        lines
    }
}

/// Tasks that an explanation names at most.
const MOST_TASKS: usize = 4;

fn show(results: &[PictureResult], explain: bool) -> Result<()> {
    let titles = ["picture", "task", "class", "probability", "novel"];
    let rows = results
        .iter()
        .map(|result| {
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            vec![
                result.file.clone(),
                result.error.clone().unwrap_or_else(|| text(&result.task)),
                text(&result.class),
                result.probability.map_or(String::new(), percent),
                match result.novel {
                    Some(true) => "never seen this".into(),
                    _ => String::new(),
                },
            ]
        })
        .collect();
    print_text(&table(&titles, &["probability"], rows))?;
    if !explain {
        return Ok(());
    }
    for result in results {
        print("")?;
        print(&result.file)?;
        for line in result.explanation() {
            print(&format!("  {line}"))?;
        }
    }
    Ok(())
}
