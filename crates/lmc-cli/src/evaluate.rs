//! `lmc evaluate`: accuracy of a model under all test protocols, and novelty.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lmc::{Accuracy, Counting, Error, EvalCounts, Model, Protocol};
use lmc_streams::{Catalog, StreamRequest, TaskSet};
use serde::Serialize;

use crate::compute::Compute;
use crate::inference_options::{InferenceOptions, say_what_is_missing};
use crate::learn::{Source, evaluate};
use crate::output::{percent, print, print_json, print_text, spinner, table};

/// Accuracy of a model on labelled pictures, with the task given and without.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc evaluate shop.lmc --task fruit --data fruit/                     one task
  lmc evaluate shop.lmc --task fruit --data fruit/ --task tea --data tea/
  lmc evaluate runs/NAME/model.safetensors --stream s_minus            all tasks of a stream
  lmc evaluate shop.lmc --task fruit --data fruit/ --unseen cars/      are cars called new?

Protocols: 'task given' and 'batches of one task' take batches of one task, with its name and
without. 'mixed batches' shuffles all images of the command into batches. 'single images' takes
each image on its own. Images are the test split of the data, or all if there is none.

An answer counts if the name of the class is right; with --strict, if the task is right as well.
'paper's count' is what the paper's tables count, of batches of one task: the position of the
label, whichever task answered.")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// The task; may be repeated, with a --data each.
    #[arg(long, required_unless_present_any = ["stream", "unseen"])]
    task: Vec<String>,
    /// Pictures of the task, in any form that `lmc learn` reads.
    #[arg(long, required_unless_present_any = ["stream", "unseen"])]
    data: Vec<String>,
    /// Instead of tasks and data: those tasks of a stream that the model knows. A name or a file, as for `lmc streams`.
    #[arg(long, conflicts_with_all = ["task", "data"])]
    stream: Option<String>,
    /// Pictures of no task that the model knows: the share that is called new. May be repeated.
    #[arg(long, value_name = "DATA")]
    unseen: Vec<String>,
    /// Count an answer only if the task is right too, not the name of the class alone.
    #[arg(long)]
    strict: bool,
    /// Evaluate at most this many pictures of each task, evenly spread over its classes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at_most: Option<u32>,
    /// Print JSON: an object for one task, a list for several.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    inference: InferenceOptions,
    #[command(flatten)]
    compute: Compute,
}

#[derive(Serialize)]
struct Evaluated {
    task: String,
    images: usize,
    /// By class name, or with `--strict` by task and class name.
    accuracy: Accuracy,
    /// By label position, whichever task answered.
    paper_count: Accuracy,
    /// How answers were counted in `accuracy`.
    counted: Counting,
    /// Share of single images whose task was found.
    task_found: f64,
    /// Share that is called new, of at most 1000 images.
    #[serde(skip_serializing_if = "Option::is_none")]
    novel: Option<f64>,
    /// Which tasks the images were taken for.
    confusion: Confusion,
}

/// Result for pictures of no task.
#[derive(Serialize)]
struct Unseen {
    unseen: String,
    images: usize,
    novel: Option<f64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EvaluateResult {
    Task(Evaluated),
    Unseen(Unseen),
}

#[derive(Serialize)]
struct Confusion {
    task_batches: serde_json::Map<String, serde_json::Value>,
    single: serde_json::Map<String, serde_json::Value>,
}

/// Images of a set that novelty is measured on, at most.
const IMAGES_FOR_NOVELTY: usize = 1000;

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    let device = arguments.compute.init()?;
    if arguments.task.len() != arguments.data.len() {
        let problem = format!("{} tasks and {} data", arguments.task.len(), arguments.data.len());
        return Err(Error::setting("--task", problem, "give one --data for each --task").into());
    }
    let mut model = Model::load_on(&arguments.model, &device)?;
    arguments.inference.apply(&mut model);
    say_what_is_missing(&model)?;
    let counting = if arguments.strict { Counting::TaskAndName } else { Counting::Name };
    let mut sets = Vec::new();
    for (name, source) in arguments.task.iter().zip(&arguments.data) {
        model.head(name)?;
        let (task, _) = Source::WHOLE.read(name, source, &model, catalog)?;
        sets.push(model.test_images(name, &task)?);
    }
    if let Some(name) = &arguments.stream {
        sets = stream_sets(&model, name, catalog)?;
    }
    if let Some(most) = arguments.at_most {
        sets.iter_mut().for_each(|(_, set)| *set = set.thinned(most as usize));
    }
    let mut results = Vec::new();
    let mut strangers = Vec::new();
    for source in &arguments.unseen {
        let (task, _) = Source::WHOLE.read("unseen", source, &model, catalog)?;
        let set = if task.test.is_empty() { task.train } else { task.test };
        strangers.push((source, set.thinned(IMAGES_FOR_NOVELTY)));
    }
    let waiting = spinner("evaluating".into());
    for (found, (head, set)) in evaluate(&model, &sets)?.into_iter().zip(&sets) {
        results.push(Evaluated {
            task: model.network.heads[*head].task.clone(),
            images: found.single.images,
            accuracy: found.accuracy(counting),
            paper_count: found.accuracy(Counting::Label),
            counted: counting,
            task_found: found.single.share(*head),
            novel: model.novel_share(&set.thinned(IMAGES_FOR_NOVELTY))?,
            confusion: Confusion {
                task_batches: by_task(&model, &found.task_batch),
                single: by_task(&model, &found.single),
            },
        });
    }
    let mut unseen = Vec::new();
    for (source, set) in strangers {
        unseen.push(Unseen { unseen: source.clone(), images: set.len(), novel: model.novel_share(&set)? });
    }
    waiting.finish_and_clear();
    if arguments.json {
        let tasks = results.into_iter().map(EvaluateResult::Task);
        let all: Vec<EvaluateResult> = tasks.chain(unseen.into_iter().map(EvaluateResult::Unseen)).collect();
        return match all.as_slice() {
            [one] => print_json(one),
            all => print_json(&all),
        };
    }
    if !results.is_empty() {
        print_tasks(&results)?;
    }
    if !unseen.is_empty() {
        let share = |novel: Option<f64>| novel.map_or_else(|| "?".into(), percent);
        let row = |unseen: Unseen| vec![unseen.unseen, unseen.images.to_string(), share(unseen.novel)];
        let titles = ["of no task", "images", "called new"];
        print_text(&table(&titles, &titles[1..], unseen.into_iter().map(row).collect()))?;
    }
    Ok(())
}

/// All protocols, in the order of the columns.
const PROTOCOLS: [Protocol; 4] =
    [Protocol::Single, Protocol::Mixed, Protocol::TaskBatch, Protocol::TaskGiven];

/// Accuracies, and which heads classified.
fn print_tasks(results: &[Evaluated]) -> Result<()> {
    let cell = |share: Option<f64>| share.map_or_else(|| "-".into(), percent);
    let mut rows: Vec<Vec<String>> = results
        .iter()
        .map(|result| {
            let mut row = vec![result.task.clone(), result.images.to_string()];
            row.extend(PROTOCOLS.map(|protocol| cell(result.accuracy.of(protocol))));
            row.push(percent(result.task_found));
            row.push(cell(result.paper_count.of(Protocol::TaskBatch)));
            row.push(result.novel.map_or_else(|| "?".into(), percent));
            row
        })
        .collect();
    if results.len() > 1 {
        let mean = |protocol: Protocol| {
            let shares: Option<Vec<f64>> =
                results.iter().map(|result| result.accuracy.of(protocol)).collect();
            cell(shares.map(|shares| shares.iter().sum::<f64>() / results.len() as f64))
        };
        let images: usize = results.iter().map(|result| result.images).sum();
        let mut row = vec!["mean".into(), images.to_string()];
        row.extend(PROTOCOLS.map(mean));
        let tasks = results.len() as f64;
        row.push(percent(results.iter().map(|result| result.task_found).sum::<f64>() / tasks));
        let counts: Option<Vec<f64>> =
            results.iter().map(|result| result.paper_count.of(Protocol::TaskBatch)).collect();
        row.push(cell(counts.map(|counts| counts.iter().sum::<f64>() / tasks)));
        row.push(String::new());
        rows.push(row);
    }
    let titles = [
        "task",
        "images",
        "single images",
        "mixed batches",
        "batches of one task",
        "task given",
        "task found",
        "paper's count",
        "called new",
    ];
    print_text(&table(&titles, &titles[1..], rows))?;
    print("")?;
    print("taken for the task (single images):")?;
    let rows = results
        .iter()
        .map(|result| {
            let shares: Vec<String> = result
                .confusion
                .single
                .iter()
                .filter_map(|(task, images)| Some((task, images.as_u64()?)))
                .map(|(task, images)| {
                    format!("{task} {}", percent(images as f64 / result.images.max(1) as f64))
                })
                .collect();
            vec![result.task.clone(), shares.join(", ")]
        })
        .collect();
    print_text(&table(&["task", "classified by the head of"], &[], rows))
}

/// The tasks of a stream that the model knows, with their heads.
fn stream_sets(model: &Model, name: &str, catalog: &Catalog) -> Result<Vec<(usize, TaskSet)>> {
    let waiting = spinner(format!("loading {name}"));
    let stream = catalog.stream(&StreamRequest::named(name))?;
    waiting.finish_and_clear();
    let mut sets = Vec::new();
    for task in &stream.tasks {
        if model.tasks().any(|known| known == task.name) {
            sets.push(model.test_images(&task.name, task)?);
        }
    }
    if sets.is_empty() {
        let problem = format!("the model knows none of the tasks of stream '{name}'");
        return Err(Error::setting("--stream", problem, "see the tasks with lmc inspect").into());
    }
    Ok(sets)
}

fn by_task(model: &Model, counts: &EvalCounts) -> serde_json::Map<String, serde_json::Value> {
    let heads = model.network.heads.iter().zip(&counts.by_task).filter(|(_, images)| **images > 0);
    heads.map(|(head, images)| (head.task.clone(), (*images).into())).collect()
}
