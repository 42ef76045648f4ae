//! `lmc predict`: what pictures show, without being told which task they belong to.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use lmc::head::HeadSelection;
use lmc::prediction::{Company, Predictions, images};
use lmc::{Error, Learner};
use lmc_streams::formats::decode::decode;
use lmc_streams::formats::folder::pictures_below;
use lmc_streams::{Batch, Channels, Fit, Prepare};
use serde::Serialize;

use crate::answers::{Answering, head};
use crate::output::{percent, print, print_json, table};
use crate::threads::{Threads, device};

/// Say what pictures show. Without --task the model finds the task of each picture by itself.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc predict shop.lmc photo.jpg more/               files and folders
  lmc predict shop.lmc more/ --explain               and which modules answered with what weight
  lmc predict shop.lmc more/ --batch-by-task         all pictures are of one task, which is still unknown
  lmc predict shop.lmc more/ --task fruit --json     the task is known; for a script")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// Pictures, or folders of pictures.
    #[arg(required = true)]
    pictures: Vec<PathBuf>,
    /// The task, if it is known.
    #[arg(long)]
    task: Option<String>,
    /// All pictures are of one task: they are asked in batches, which agree on modules and head.
    #[arg(long)]
    batch_by_task: bool,
    /// Which modules answered with what weight.
    #[arg(long)]
    explain: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    answering: Answering,
    #[command(flatten)]
    threads: Threads,
}

#[derive(Serialize)]
struct Answer {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
    /// Fits no head and no module; absent when the model was not calibrated.
    #[serde(skip_serializing_if = "Option::is_none")]
    novel: Option<bool>,
    /// `[layer][module]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<Vec<Vec<f64>>>,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    arguments.threads.apply()?;
    let mut learner = Learner::load(&arguments.model, &device())?;
    arguments.answering.apply(&mut learner);
    if learner.network.heads.is_empty() {
        return Err(
            Error::bad(&arguments.model, "this model knows no task", "teach it one: lmc learn").into()
        );
    }
    let given = arguments.task.as_deref().map(|task| head(&learner, task)).transpose()?;
    let (company, selection) = match (given, arguments.batch_by_task) {
        (Some(head), true) => (Company::Batch, HeadSelection::Given(head)),
        (Some(head), false) => (Company::Alone, HeadSelection::Given(head)),
        (None, true) => (Company::Batch, HeadSelection::Batch),
        (None, false) => (Company::Alone, HeadSelection::Sample),
    };
    let files = find(&arguments.pictures)?;
    let predictor = learner.predictor()?;
    let prepare = Prepare {
        fit: Fit::CentreSquare(learner.network.config.size),
        channels: if learner.network.config.channels == 1 { Channels::Grey } else { Channels::Rgb },
        invert: false,
    };
    let mut answers = Vec::new();
    for chunk in files.chunks(learner.config.batch) {
        let loaded: Vec<std::result::Result<Vec<u8>, String>> =
            chunk.iter().map(|file| load(file, &prepare)).collect();
        let batch = batch(&loaded, &learner);
        let predictions = match batch.shape[0] {
            0 => None,
            _ => Some(predictor.predict(&images(&batch, predictor.device()), company, selection)?),
        };
        let mut image = 0;
        for (file, loaded) in chunk.iter().zip(&loaded) {
            let answer = match (loaded, &predictions) {
                (Ok(_), Some(predictions)) => {
                    image += 1;
                    answer(file, &learner, predictions, image - 1, arguments.explain)
                }
                (Err(problem), _) => failed(file, problem),
                (Ok(_), None) => failed(file, "not asked"),
            };
            answers.push(answer);
        }
    }
    let failures = answers.iter().filter(|answer| answer.error.is_some()).count();
    if arguments.json {
        print_json(&answers)?;
    } else {
        show(&answers, arguments.explain)?;
    }
    if failures > 0 {
        bail!("{failures} of {} pictures could not be read; see the list", answers.len());
    }
    Ok(())
}

/// All pictures, folders in the order of their paths.
fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let found = pictures_below(path)?;
            if found.is_empty() {
                let problem = "there are no pictures (.png, .jpg, .jpeg, .webp) in this folder";
                return Err(lmc_streams::Error::bad(path, problem, "name another").into());
            }
            files.extend(found);
        } else if path.exists() {
            files.push(path.clone());
        } else {
            return Err(
                lmc_streams::Error::bad(path, "there is no such file or folder", "check the path").into()
            );
        }
    }
    Ok(files)
}

fn load(file: &Path, prepare: &Prepare) -> std::result::Result<Vec<u8>, String> {
    let bytes = fs::read(file).map_err(|error| error.to_string())?;
    let picture = decode(&bytes).map_err(|problem| problem.in_file(file).to_string())?;
    Ok(prepare.apply(picture).to_planar())
}

fn batch(loaded: &[std::result::Result<Vec<u8>, String>], learner: &Learner) -> Batch {
    let config = &learner.network.config;
    let mut batch = Batch::default();
    for planar in loaded.iter().flatten() {
        batch.images.extend(planar.iter().map(|&byte| f32::from(byte) / 255.0));
        batch.labels.push(0);
    }
    batch.shape = [batch.labels.len(), config.channels, config.size, config.size];
    batch
}

fn answer(file: &Path, learner: &Learner, predictions: &Predictions, image: usize, explain: bool) -> Answer {
    let head = &learner.network.heads[predictions.heads[image]];
    let label = predictions.label(image);
    Answer {
        file: file.display().to_string(),
        error: None,
        task: Some(head.task.clone()),
        class: head.classes.get(label).cloned(),
        probability: predictions.probabilities(image).get(label).copied(),
        novel: learner.is_novel(predictions, image),
        weights: explain.then(|| predictions.weights(image)),
    }
}

fn failed(file: &Path, problem: &str) -> Answer {
    Answer {
        file: file.display().to_string(),
        error: Some(problem.to_owned()),
        task: None,
        class: None,
        probability: None,
        novel: None,
        weights: None,
    }
}

fn show(answers: &[Answer], explain: bool) -> Result<()> {
    let mut titles = vec!["picture", "task", "class", "probability", "novel"];
    if explain {
        titles.push("weights of modules, layer by layer");
    }
    let rows = answers
        .iter()
        .map(|answer| {
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            let mut row = vec![
                answer.file.clone(),
                answer.error.clone().unwrap_or_else(|| text(&answer.task)),
                text(&answer.class),
                answer.probability.map_or(String::new(), percent),
                match answer.novel {
                    Some(true) => "never seen this".into(),
                    _ => String::new(),
                },
            ];
            if let Some(weights) = &answer.weights {
                let layer = |layer: &Vec<f64>| {
                    layer.iter().map(|weight| format!("{weight:.2}")).collect::<Vec<_>>().join(" ")
                };
                row.push(weights.iter().map(layer).collect::<Vec<_>>().join(" | "));
            }
            row
        })
        .collect();
    print(&table(&titles, &["probability"], rows))
}
