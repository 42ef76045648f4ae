//! `lmc learn`: a model file learns one more task.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use lmc::events::Event;
use lmc::network::NetworkConfig;
use lmc::{Error, Learned, Learner, LearnerConfig, Material, checkpoint, presets};
use lmc_streams::{Catalog, OwnTask, Seed, Task, TaskSet};
use serde::{Deserialize, Serialize};

use crate::answers::accuracies;
use crate::interrupt;
use crate::output::{grouped, percent, print, print_json, spinner, table};
use crate::progress::Progress;
use crate::threads::{Threads, device};

/// Teach a model file a new task; the file is made if there is none. What it knew stays as it is.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc learn shop.lmc --task fruit --data fruit/              a folder with one folder of pictures per class
  lmc learn shop.lmc --task bread --data bread.csv           a list with the columns path,label
  lmc learn shop.lmc --task tea --data tea/ --check fruit=fruit/   and what became of the old task
  lmc learn digits.lmc --task mnist --data mnist             a known data set on this machine
A task that was interrupted goes on with the same command.")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// Name of the new task.
    #[arg(long)]
    task: String,
    /// Its pictures: a folder of class folders (or of train, val and test), a .csv, .npz or .parquet file, or the
    /// name of a data set.
    #[arg(long)]
    data: String,
    /// Epochs; by default 20 to 100, by the number of images.
    #[arg(long)]
    epochs: Option<usize>,
    /// Share of the images to validate on, where the data have no split for it.
    #[arg(long, default_value_t = 0.15, value_name = "SHARE")]
    val_fraction: f64,
    /// New model: side of the images in pixels.
    #[arg(long, value_name = "PIXELS")]
    image_size: Option<usize>,
    /// New model: channels of the images, 1 (grey) or 3.
    #[arg(long)]
    channels: Option<usize>,
    /// New model: channels of all maps.
    #[arg(long)]
    width: Option<usize>,
    /// New model: layers of modules.
    #[arg(long)]
    depth: Option<usize>,
    /// New model: hyperparameters, for instance s_minus for those of the paper's stream S-.
    #[arg(long)]
    preset: Option<String>,
    /// New model: root of all randomness.
    #[arg(long)]
    seed: Option<u64>,
    /// Data of old tasks, TASK=PATH or PATH: their accuracy before and after.
    #[arg(long, num_args = 1.., value_name = "TASK=PATH")]
    check: Vec<String>,
    /// The result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    threads: Threads,
}

/// What a checkpoint of this verb remembers.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Progressed {
    /// Of the model before the task; empty if there was none.
    model: String,
    task: String,
    data: String,
    images: usize,
    config: LearnerConfig,
}

#[derive(Serialize)]
struct Checked {
    task: String,
    before: f64,
    after: f64,
}

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    arguments.threads.apply()?;
    let mut learner = if arguments.model.exists() {
        let learner = Learner::load(&arguments.model, &device())?;
        refuse_shape(arguments, &learner.network.config)?;
        learner
    } else {
        new_model(arguments)?
    };
    if learner.network.heads.iter().any(|head| head.task == arguments.task) {
        let problem = format!("'{}' has learned it already", arguments.model.display());
        return Err(
            Error::setting(format!("task '{}'", arguments.task), problem, "choose another name").into()
        );
    }
    let task = read(&arguments.task, &arguments.data, arguments.val_fraction, &learner, catalog)?;
    let old = old_tasks(&arguments.check, &learner, catalog)?;
    let before = accuracies(&learner, &old)?;
    let base = learner.config.clone();
    learner.config = scaled(&base, arguments.epochs, task.train.len())?;
    let partial = partial_path(&arguments.model);
    let progressed = Progressed {
        model: fingerprint(&arguments.model)?,
        task: arguments.task.clone(),
        data: arguments.data.clone(),
        images: task.train.len(),
        config: learner.config.clone(),
    };
    if partial.exists() {
        learner = resume(&partial, &progressed)?;
    }
    interrupt::listen()?;
    let mut progress = Progress::new(arguments.json);
    let material = Material { task: &task.name, classes: &task.classes, train: &task.train, val: &task.val };
    let learned = learner.learn(material, &mut |learner, event| {
        progress.show(&event);
        if let Event::EpochEnded { epoch, .. } = event {
            checkpoint::save(learner, &progressed, &partial)?;
            if interrupt::asked() {
                return Err(Error::Stopped { done: format!("epoch {}, which is saved", epoch + 1) });
            }
        }
        Ok(())
    })?;
    learner.config = base;
    learner.save(&arguments.model)?;
    remove(&partial)?;
    let after = accuracies(&learner, &old)?;
    let checked: Vec<Checked> = old
        .iter()
        .zip(before.iter().zip(after))
        .map(|((head, _), (before, after))| Checked {
            task: learner.network.heads[*head].task.clone(),
            before: before.headline(true),
            after: after.headline(true),
        })
        .collect();
    report(arguments, &task, &learned, &checked)
}

fn new_model(arguments: &Arguments) -> Result<Learner> {
    let defaults = NetworkConfig::default();
    let network = NetworkConfig {
        size: arguments.image_size.unwrap_or(defaults.size),
        channels: arguments.channels.unwrap_or(defaults.channels),
        width: arguments.width.unwrap_or(defaults.width),
        depth: arguments.depth.unwrap_or(defaults.depth),
        ..defaults
    };
    let config = presets::preset(arguments.preset.as_deref().unwrap_or("own"))?;
    Ok(Learner::new(&network, config, arguments.seed.unwrap_or(180), &device())?)
}

/// A model has one shape and one method for life.
fn refuse_shape(arguments: &Arguments, network: &NetworkConfig) -> Result<()> {
    for (field, asked, has) in [
        ("--image-size", arguments.image_size, network.size),
        ("--channels", arguments.channels, network.channels),
        ("--width", arguments.width, network.width),
        ("--depth", arguments.depth, network.depth),
    ] {
        if let Some(asked) = asked.filter(|&asked| asked != has) {
            let problem = format!("the model was made with {has}, not {asked}");
            return Err(Error::setting(field, problem, "leave it out, or begin a new model").into());
        }
    }
    for (field, given) in [("--preset", arguments.preset.is_some()), ("--seed", arguments.seed.is_some())] {
        if given {
            let problem = "the model has its own already";
            return Err(Error::setting(field, problem, "leave it out, or begin a new model").into());
        }
    }
    Ok(())
}

/// The model's settings with phases for this task: few images need more epochs.
fn scaled(base: &LearnerConfig, epochs: Option<usize>, images: usize) -> Result<LearnerConfig> {
    const STEPS: usize = 2000;
    let steps = images.div_ceil(base.batch).max(1);
    let automatic = *base == presets::preset("own")?;
    let default = if automatic { (STEPS / steps).clamp(20, 100) } else { base.epochs };
    let epochs = epochs.unwrap_or(default);
    if epochs == 0 {
        return Err(Error::setting("--epochs", "it is 0", "use 1 or more").into());
    }
    let mut config = base.clone();
    presets::scale_epochs(&mut config, epochs, steps);
    Ok(config)
}

/// Reads the data of a task for a model.
pub fn read(
    name: &str,
    source: &str,
    val_fraction: f64,
    learner: &Learner,
    catalog: &Catalog,
) -> Result<Task> {
    let waiting = spinner(format!("reading {source}"));
    let config = &learner.network.config;
    let own = OwnTask {
        name: name.to_owned(),
        size: config.size,
        channels: config.channels,
        val_fraction,
        seed: Seed::root(learner.seed).named("validation").named(name),
    };
    let task = own.read(source, catalog)?;
    waiting.finish_and_clear();
    Ok(task)
}

/// Heads and test images of the tasks that are checked.
fn old_tasks(check: &[String], learner: &Learner, catalog: &Catalog) -> Result<Vec<(usize, TaskSet)>> {
    let mut tasks = Vec::new();
    for text in check {
        let (name, source) = match text.split_once('=') {
            Some((name, source)) => (Some(name), source),
            None => (None, text.as_str()),
        };
        let task = read("check", source, 0.0, learner, catalog)?;
        let head = match name {
            Some(name) => crate::answers::head(learner, name)?,
            None => {
                let fits = |head: &lmc::head::Head| same_classes(&head.classes, &task.classes);
                learner.network.heads.iter().position(fits).ok_or_else(|| {
                    let problem = "no task of the model has these classes";
                    Error::setting(format!("--check {text}"), problem, "name the task: --check TASK=PATH")
                })?
            }
        };
        tasks.push((head, crate::answers::relabelled(&task, &learner.network.heads[head])?));
    }
    Ok(tasks)
}

fn same_classes(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && b.iter().all(|class| a.contains(class))
}

fn partial_path(model: &Path) -> PathBuf {
    let mut name = model.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn fingerprint(model: &Path) -> Result<String> {
    if !model.exists() {
        return Ok(String::new());
    }
    let bytes = fs::read(model).with_context(|| format!("cannot read {}", model.display()))?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

/// Goes on with a task that was interrupted, if it is the same.
fn resume(partial: &Path, wanted: &Progressed) -> Result<Learner> {
    let (learner, found) = checkpoint::load::<Progressed>(partial, &device())?;
    if found != *wanted {
        let problem = format!("this is task '{}' from {}, half learned", found.task, found.data);
        let cure = "finish it with the command that began it, or delete the file";
        return Err(Error::bad(partial, problem, cure).into());
    }
    Ok(learner)
}

fn remove(partial: &Path) -> Result<()> {
    if partial.exists() {
        fs::remove_file(partial).map_err(lmc_streams::Error::io("remove", partial))?;
    }
    Ok(())
}

fn report(arguments: &Arguments, task: &Task, learned: &Learned, checked: &[Checked]) -> Result<()> {
    if arguments.json {
        return print_json(&serde_json::json!({ "learned": learned, "checked": checked }));
    }
    let layers = learned.modules.iter().zip(&learned.modules_before).enumerate();
    let rows = layers
        .map(|(layer, (after, before))| {
            vec![layer.to_string(), before.to_string(), (after - before).to_string(), after.to_string()]
        })
        .collect();
    let titles = ["layer", "modules before", "new", "after"];
    print(&table(&titles, &titles, rows))?;
    let accuracy = learned.val_accuracy.map_or("not measured".to_owned(), percent);
    print(&format!(
        "'{}': {} classes, {} training images, validation accuracy {accuracy} (best epoch {} of {})",
        task.name,
        task.classes.len(),
        grouped(task.train.len() as u64),
        learned.best_epoch + 1,
        learned.epochs
    ))?;
    if !checked.is_empty() {
        let rows = checked
            .iter()
            .map(|row| vec![row.task.clone(), percent(row.before), percent(row.after)])
            .collect();
        print(&table(&["old task", "before", "after"], &["before", "after"], rows))?;
    }
    print(&format!("written: {}", arguments.model.display()))
}
