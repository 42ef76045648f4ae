//! `lmc evaluate`: how well a model tells a task, with its name given and without.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lmc::evaluation::Told;
use lmc::{Error, Learner};
use lmc_lab::Ways;
use lmc_streams::{Catalog, StreamRequest, TaskSet};
use serde::Serialize;

use crate::answers::{Answering, asked, head, relabelled};
use crate::learn::read;
use crate::output::{percent, print, print_json, spinner, table};
use crate::threads::{Threads, device};

/// Accuracy of a model on labelled pictures, with the task given and without.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc evaluate shop.lmc --task fruit --data fruit/                              one task
  lmc evaluate shop.lmc --task fruit --data fruit/ --task tea --data tea/       two, mixed with each other as well
  lmc evaluate runs/NAME/model.safetensors --stream s_minus --head-choice familiarity   a stream, as the paper did not
  lmc evaluate shop.lmc --task fruit --data fruit/ --unseen cars/               are pictures of no task called new?
The test split of the data is used, or all of them if they have none. 'mixed' shuffles all images of the command into
batches; 'single' asks one by one. Neither knows the task.")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// The task; may be repeated, with a --data each.
    #[arg(long, required_unless_present_any = ["stream", "unseen"])]
    task: Vec<String>,
    /// Its pictures, in any form that `lmc learn` reads.
    #[arg(long, required_unless_present_any = ["stream", "unseen"])]
    data: Vec<String>,
    /// Instead of tasks and data: those tasks of a stream that the model knows. A name or a file, as for `lmc streams`.
    #[arg(long, conflicts_with_all = ["task", "data"])]
    stream: Option<String>,
    /// Pictures of no task that the model knows: how many are called new? May be repeated.
    #[arg(long, value_name = "DATA")]
    unseen: Vec<String>,
    /// Ask at most this many pictures of each task, evenly spread over its classes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    at_most: Option<u32>,
    /// As JSON: an object for one task, a list for several.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    answering: Answering,
    #[command(flatten)]
    threads: Threads,
}

#[derive(Serialize)]
struct Evaluated {
    task: String,
    images: usize,
    accuracy: Ways,
    /// Share that is called new, of at most 1000 images.
    #[serde(skip_serializing_if = "Option::is_none")]
    novel: Option<f64>,
    /// Which tasks the images were taken for.
    confusion: Confusion,
}

/// What became of pictures of no task.
#[derive(Serialize)]
struct Unseen {
    unseen: String,
    images: usize,
    novel: Option<f64>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Task(Evaluated),
    Unseen(Unseen),
}

#[derive(Serialize)]
struct Confusion {
    task_batches: serde_json::Map<String, serde_json::Value>,
    single: serde_json::Map<String, serde_json::Value>,
}

/// Images of a set that are asked whether they are new, at most.
const ASKED_FOR_NOVELTY: usize = 1000;

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    arguments.threads.apply()?;
    if arguments.task.len() != arguments.data.len() {
        let problem = format!("{} tasks and {} data", arguments.task.len(), arguments.data.len());
        return Err(Error::setting("--task", problem, "give one --data for each --task").into());
    }
    let mut learner = Learner::load(&arguments.model, &device())?;
    arguments.answering.apply(&mut learner);
    let mut sets = Vec::new();
    for (name, source) in arguments.task.iter().zip(&arguments.data) {
        let head = head(&learner, name)?;
        let task = read(name, source, 0.0, &learner, catalog)?;
        sets.push((head, relabelled(&task, &learner.network.heads[head])?));
    }
    if let Some(name) = &arguments.stream {
        sets = stream_sets(&learner, name, catalog)?;
    }
    if let Some(most) = arguments.at_most {
        sets.iter_mut().for_each(|(_, set)| *set = set.thinned(most as usize));
    }
    let mut results = Vec::new();
    let mut strangers = Vec::new();
    for source in &arguments.unseen {
        let task = read("unseen", source, 0.0, &learner, catalog)?;
        let set = if task.test.is_empty() { task.train } else { task.test };
        strangers.push((source, set.thinned(ASKED_FOR_NOVELTY)));
    }
    let waiting = spinner("asking".into());
    for (asked, (head, set)) in asked(&learner, &sets)?.into_iter().zip(&sets) {
        results.push(Evaluated {
            task: learner.network.heads[*head].task.clone(),
            images: asked.single.images,
            accuracy: asked.ways,
            novel: learner.novel_share(&set.thinned(ASKED_FOR_NOVELTY))?,
            confusion: Confusion {
                task_batches: by_task(&learner, &asked.batches),
                single: by_task(&learner, &asked.single),
            },
        });
    }
    let mut unseen = Vec::new();
    for (source, set) in strangers {
        unseen.push(Unseen { unseen: source.clone(), images: set.len(), novel: learner.novel_share(&set)? });
    }
    waiting.finish_and_clear();
    if arguments.json {
        let tasks = results.into_iter().map(Answer::Task);
        let answers: Vec<Answer> = tasks.chain(unseen.into_iter().map(Answer::Unseen)).collect();
        return match answers.as_slice() {
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
        print(&table(&titles, &titles[1..], unseen.into_iter().map(row).collect()))?;
    }
    Ok(())
}

/// Accuracies, and which heads answered.
fn print_tasks(results: &[Evaluated]) -> Result<()> {
    let mut rows: Vec<Vec<String>> = results
        .iter()
        .map(|result| {
            let Ways { task_given, task_batches, mixed, single } = result.accuracy;
            let mut row = vec![result.task.clone(), result.images.to_string()];
            let ways = [Some(task_given), task_batches, mixed, single];
            row.extend(ways.map(|way| way.map_or_else(|| "-".into(), percent)));
            row.push(result.novel.map_or_else(|| "?".into(), percent));
            row
        })
        .collect();
    if results.len() > 1 {
        let mean = |way: fn(&Ways) -> f64| {
            percent(results.iter().map(|result| way(&result.accuracy)).sum::<f64>() / results.len() as f64)
        };
        let means: [fn(&Ways) -> f64; 4] = [
            |ways| ways.task_given,
            |ways| or_zero(ways.task_batches),
            |ways| or_zero(ways.mixed),
            |ways| or_zero(ways.single),
        ];
        let images: usize = results.iter().map(|result| result.images).sum();
        let mut row = vec!["mean".into(), images.to_string()];
        row.extend(means.map(mean));
        row.push(String::new());
        rows.push(row);
    }
    let titles = [
        "task",
        "images",
        "task given",
        "batches of one task",
        "mixed batches",
        "single images",
        "called new",
    ];
    print(&table(&titles, &titles[1..], rows))?;
    print("\ntaken for (single images):")?;
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
    print(&table(&["task", "answered by the head of"], &[], rows))
}

/// LMC is always asked in all ways.
fn or_zero(way: Option<f64>) -> f64 {
    way.unwrap_or(0.0)
}

/// The tasks of a stream that the model knows, with their heads.
fn stream_sets(learner: &Learner, name: &str, catalog: &Catalog) -> Result<Vec<(usize, TaskSet)>> {
    let waiting = spinner(format!("loading {name}"));
    let stream = catalog.stream(&StreamRequest::named(name))?;
    waiting.finish_and_clear();
    let mut sets = Vec::new();
    for task in &stream.tasks {
        if let Some(head) = learner.network.heads.iter().position(|head| head.task == task.name) {
            sets.push((head, relabelled(task, &learner.network.heads[head])?));
        }
    }
    if sets.is_empty() {
        let problem = format!("the model knows none of the tasks of stream '{name}'");
        return Err(Error::setting("--stream", problem, "see the tasks with lmc inspect").into());
    }
    Ok(sets)
}

fn by_task(learner: &Learner, told: &Told) -> serde_json::Map<String, serde_json::Value> {
    let heads = learner.network.heads.iter().zip(&told.heads).filter(|(_, images)| **images > 0);
    heads.map(|(head, images)| (head.task.clone(), (*images).into())).collect()
}
