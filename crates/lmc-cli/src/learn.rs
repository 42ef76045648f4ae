//! `lmc learn`: a model file learns one more task.

use std::path::PathBuf;

use anyhow::Result;
use burn::tensor::Device;
use clap::Args;
use lmc::internals::file::partial::TaskIdentity;
use lmc::internals::training::config::EpochBudget;
use lmc::{
    Counting, Error, Evaluation, Event, LearnerConfig, Model, ModelConfig, ModelFile, NetworkConfig,
    Preparation, Preset, TaskData, TaskReport, TestSet,
};
use lmc_streams::{Catalog, FitKind, OwnTask, ReadReport, Resampling, Seed, Task, TaskSet};
use serde::Serialize;

use crate::compute::Compute;
use crate::interrupt;
use crate::output::{grouped, percent, print, print_json, print_text, say, spinner, table};
use crate::progress::Progress;
use crate::{learn_more, learn_plan};

/// Teach a model file a new task; the file is made if there is none. Its modules of earlier tasks stay as they are.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc learn shop.lmc --task fruit --data fruit/      a folder with a folder of pictures per class
  lmc learn shop.lmc --task bread --data bread.csv   a list with the columns path,label
  lmc learn shop.lmc --task tea --data tea/ --check fruit=fruit/     an old task, before and after
  lmc learn shop.lmc --task fruit --data new/ --more                 more pictures or classes for a task
  lmc learn digits.lmc --task mnist --data mnist     a known data set on this machine
A task that was interrupted resumes with the same command.")]
pub struct Arguments {
    /// The model file.
    pub model: PathBuf,
    /// Name of the task.
    #[arg(long)]
    pub task: String,
    /// Pictures of the task: a folder of class folders (or of train, val and test), a .csv, .npz or .parquet file, or the
    /// name of a data set.
    #[arg(long)]
    data: String,
    /// The task is learned already: give it more pictures or classes, as a new version of its head.
    #[arg(long)]
    more: bool,
    /// With --more: keep the new version even if it is less accurate on the validation images.
    #[arg(long, requires = "more")]
    pub replace: bool,
    /// Number of epochs; by default 20 to 100, by the number of images.
    #[arg(long)]
    epochs: Option<usize>,
    /// Share of the images to validate on, where the data have no split for it.
    #[arg(long, default_value_t = 0.15, value_name = "SHARE")]
    val_fraction: f64,
    /// Leave damaged pictures out and list them, instead of stopping.
    #[arg(long)]
    skip_damaged: bool,
    /// New model: side of the images in pixels.
    #[arg(long, value_name = "PIXELS")]
    image_size: Option<usize>,
    /// New model: channels of the images, 1 (grey) or 3.
    #[arg(long)]
    channels: Option<usize>,
    /// New model: how pictures become squares, crop (the centre) or stretch.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(FitKind::NAMES))]
    fit: Option<String>,
    /// New model: how pictures are resized, bicubic or bilinear.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(Resampling::NAMES))]
    resampling: Option<String>,
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
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    compute: Compute,
}

/// Accuracy of an old task before and after the new one, as shares of 1.
#[derive(Serialize)]
struct OldTask {
    task: String,
    /// On single images, whose task is not given.
    before: f64,
    after: f64,
    /// The task is given.
    task_given_before: f64,
    task_given_after: f64,
    /// Share of single images whose task was found.
    task_found_before: f64,
    task_found_after: f64,
}

impl OldTask {
    fn new(task: &str, head: usize, before: &Evaluation, after: &Evaluation) -> Self {
        let single = |found: &Evaluation| found.single.counted(Counting::Name);
        let given = |found: &Evaluation| found.task_given.counted(Counting::Name);
        Self {
            task: task.to_owned(),
            before: single(before),
            after: single(after),
            task_given_before: given(before),
            task_given_after: given(after),
            task_found_before: before.single.share(head),
            task_found_after: after.single.share(head),
        }
    }

    /// Why predictions without the task differ from those with it, in one sentence.
    fn why(&self) -> String {
        let (lost, given) = (1.0 - self.task_found_after, self.task_given_after - self.after);
        let same = if self.task_given_before == self.task_given_after {
            "with the task given nothing changed"
        } else {
            "with the task given other modules take part now, because this model lets all modules compete"
        };
        let reason = match (given > 0.0005, lost > 0.0) {
            (true, true) => format!(
                "without it {} are lost, because {} of the pictures are taken for another task",
                percent(given),
                percent(lost)
            ),
            (true, false) => format!("without it {} are lost, though every task was found", percent(given)),
            (false, true) => {
                format!("without it nothing is lost, though {} are taken for another task", percent(lost))
            }
            (false, false) => "without it nothing is lost, because every task was found".to_owned(),
        };
        format!("'{}': {same}; {reason}", self.task)
    }
}

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    let device = arguments.compute.init()?;
    let mut file = ModelFile::open(&arguments.model)?;
    if !file.is_locked() {
        say(
            "note: this file system has no locks; if another program changes the model, both results are kept",
        );
    }
    let mut model = match file.load(&device)? {
        Some(model) => {
            refuse_changes(arguments, &model)?;
            model
        }
        None => new_model(arguments, &device)?,
    };
    if file.drop_spent_partial(&model)? {
        say("note: an earlier process was stopped after it had saved the model; what it left is removed");
    }
    if arguments.more {
        file.check_no_partial()?;
    }
    let source = Source { val_fraction: arguments.val_fraction, skip_damaged: arguments.skip_damaged };
    let (task, found) = source.read(&arguments.task, &arguments.data, &model, catalog)?;
    let data = TaskData::from(&task);
    let known = model.tasks().any(|task| task == arguments.task);
    let epochs = epochs(arguments, &model.config)?;
    if known && is_repeated(arguments, &model, data, epochs)? {
        return show_repeated(arguments);
    }
    let old = old_tasks(&arguments.check, &model, catalog)?;
    if arguments.more {
        return learn_more::run(arguments, &mut file, model, data, epochs);
    }
    let identity =
        TaskIdentity::new(&file, data, &arguments.data, model.config.for_task(&task.train, epochs)?);
    if let Some(resumed) = file.resume(&identity, &model)? {
        model = resumed;
    }
    if !arguments.json {
        learn_plan::show(&found, &model.plan(data, epochs)?, model.progress())?;
    }
    let before = evaluate(&model, &old)?;
    if model.progress().is_none() {
        model.begin_for(data, epochs)?;
    }
    interrupt::listen()?;
    let mut shown = Progress::new(arguments.json);
    let learned = model.learn_with(data.until(interrupt::flag()), &mut |model, event| {
        shown.show(&event);
        match event {
            Event::EpochEnded { .. } => file.save_partial(model, &identity),
            Event::Step { epoch, step, steps, .. } if interrupt::asked() => {
                Err(Error::Stopped { done: format!("step {} of {steps} of epoch {}", step + 1, epoch + 1) })
            }
            _ => Ok(()),
        }
    });
    if let Err(Error::Stopped { .. }) = &learned {
        // Only now is the model whole.
        file.save_partial(&model, &identity)?;
    }
    let report = learned?;
    let saved = file.save(&model);
    if matches!(saved, Ok(()) | Err(Error::Changed { .. })) {
        // The task is learned, even if the model had to go beside the file.
        file.remove_partial()?;
    }
    saved?;
    let after = evaluate(&model, &old)?;
    let checked = old.iter().zip(before.iter().zip(&after)).map(|((head, _), (before, after))| {
        OldTask::new(&model.network.heads[*head].task, *head, before, after)
    });
    show(arguments, &task, &found, &report, &checked.collect::<Vec<_>>())
}

/// Whether a task that the model knows was learned from these very data; if not, only --more may go on.
fn is_repeated(
    arguments: &Arguments,
    model: &Model,
    data: TaskData<'_>,
    epochs: Option<usize>,
) -> Result<bool> {
    let (content, config) = (data.content_hash(), model.config.for_task(data.train, epochs)?);
    let same_data = || model.history.learned_from(&arguments.task).filter(|from| from.data == content);
    if same_data().any(|from| from.config == config) {
        return Ok(true);
    }
    if arguments.more {
        return Ok(false);
    }
    let from = match (same_data().next(), model.history.learned_from(&arguments.task).next()) {
        (Some(_), _) => " with other settings",
        (None, Some(_)) => ", from other pictures",
        (None, None) => "",
    };
    let problem = format!("'{}' has learned it already{from}", arguments.model.display());
    let cure = "choose another name, or add --more to give the task these pictures too";
    Err(Error::setting(format!("task '{}'", arguments.task), problem, cure).into())
}

fn show_repeated(arguments: &Arguments) -> Result<()> {
    if arguments.json {
        return print_json(&serde_json::json!({ "task": arguments.task, "already_learned": true }));
    }
    let (task, model) = (&arguments.task, arguments.model.display());
    print(&format!("'{task}': {model} has learned it already from these pictures; nothing to do"))
}

fn new_model(arguments: &Arguments, device: &Device) -> Result<Model> {
    let preset: Preset = arguments.preset.as_deref().unwrap_or("own").parse()?;
    let defaults = ModelConfig::new(preset);
    let network = NetworkConfig {
        size: arguments.image_size.unwrap_or(defaults.network.size),
        channels: arguments.channels.unwrap_or(defaults.network.channels),
        width: arguments.width.unwrap_or(defaults.network.width),
        depth: arguments.depth.unwrap_or(defaults.network.depth),
        ..defaults.network
    };
    let mut preparation = Preparation::default();
    if let Some(fit) = &arguments.fit {
        preparation.fit = fit.parse()?;
    }
    if let Some(resampling) = &arguments.resampling {
        preparation.resampling = resampling.parse()?;
    }
    let seed = arguments.seed.unwrap_or(defaults.seed);
    Ok(ModelConfig { network, preparation, seed, device: device.clone(), ..defaults }.init()?)
}

/// A model has one shape, one preparation and one method for life.
fn refuse_changes(arguments: &Arguments, model: &Model) -> Result<()> {
    let (network, preparation) = (&model.network.config, &model.preparation);
    let number = |value: Option<usize>| value.map(|value| value.to_string());
    for (field, wanted, has) in [
        ("--image-size", number(arguments.image_size), network.size.to_string()),
        ("--channels", number(arguments.channels), network.channels.to_string()),
        ("--width", number(arguments.width), network.width.to_string()),
        ("--depth", number(arguments.depth), network.depth.to_string()),
        ("--fit", arguments.fit.clone(), preparation.fit.to_string()),
        ("--resampling", arguments.resampling.clone(), preparation.resampling.to_string()),
    ] {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != has) {
            let problem = format!("the model was made with {has}, not {wanted}");
            return Err(Error::setting(field, problem, "leave it out, or begin a new model").into());
        }
    }
    let preset = arguments.preset.as_deref().map(str::parse::<Preset>).transpose()?;
    for (field, differs) in [
        ("--preset", preset.is_some_and(|preset| preset.learner() != model.config)),
        ("--seed", arguments.seed.is_some_and(|seed| seed != model.seed)),
    ] {
        if differs {
            let problem = "the model was made with another one";
            return Err(Error::setting(field, problem, "leave it out, or begin a new model").into());
        }
    }
    Ok(())
}

/// The number of epochs to scale the task's phases to; `None` to let the number of images decide.
fn epochs(arguments: &Arguments, config: &LearnerConfig) -> Result<Option<usize>> {
    match (arguments.epochs, config.budget) {
        (Some(0), _) => Err(Error::setting("--epochs", "it is 0", "use 1 or more").into()),
        (None, EpochBudget::Fixed) => Ok(Some(config.epochs)),
        (epochs, _) => Ok(epochs),
    }
}

/// How a user's data are read.
pub struct Source {
    /// Share of the training images to validate on, where the data have no split for it.
    pub val_fraction: f64,
    /// Whether damaged pictures are left out.
    pub skip_damaged: bool,
}

impl Source {
    /// All images of a source, for evaluation.
    pub const WHOLE: Self = Self { val_fraction: 0.0, skip_damaged: false };

    /// Reads the data of a task, prepared as the model's pictures are.
    pub fn read(
        &self,
        name: &str,
        source: &str,
        model: &Model,
        catalog: &Catalog,
    ) -> Result<(Task, ReadReport)> {
        let waiting = spinner(format!("reading {source}"));
        let own = OwnTask {
            name: name.to_owned(),
            preparation: model.preparation,
            val_fraction: self.val_fraction,
            seed: Seed::root(model.seed).named("validation").named(name),
            skip_damaged: self.skip_damaged,
        };
        let found = own.read_with_report(source, catalog)?;
        waiting.finish_and_clear();
        Ok(found)
    }
}

/// Heads and test images of the tasks that are checked.
fn old_tasks(check: &[String], model: &Model, catalog: &Catalog) -> Result<Vec<(usize, TaskSet)>> {
    let mut tasks = Vec::new();
    for text in check {
        let (name, source) = match text.split_once('=') {
            Some((name, source)) => (Some(name), source),
            None => (None, text.as_str()),
        };
        let (data, _) = Source::WHOLE.read("check", source, model, catalog)?;
        let task = match name {
            Some(name) => name.to_owned(),
            None => {
                let mut heads = model.network.heads.iter();
                let fits =
                    heads.find(|head| same_classes(&head.classes, &data.classes)).ok_or_else(|| {
                        let problem = "no task of the model has these classes";
                        Error::setting(format!("--check {text}"), problem, "name the task: --check TASK=PATH")
                    })?;
                fits.task.clone()
            }
        };
        tasks.push(model.test_images(&task, &data)?);
    }
    Ok(tasks)
}

fn same_classes(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && b.iter().all(|class| a.contains(class))
}

/// Evaluates sets, each with the number of its head.
pub fn evaluate(model: &Model, sets: &[(usize, TaskSet)]) -> Result<Vec<Evaluation>> {
    if sets.is_empty() {
        return Ok(Vec::new());
    }
    if sets.iter().any(|(_, images)| images.is_empty()) {
        return Err(Error::setting("data", "there are no images", "give some").into());
    }
    let sets: Vec<TestSet<'_>> =
        sets.iter().map(|(task, images)| TestSet { task: *task, images, normalisation: None }).collect();
    Ok(model.evaluate(&sets)?)
}

fn show(
    arguments: &Arguments,
    task: &Task,
    found: &ReadReport,
    report: &TaskReport,
    checked: &[OldTask],
) -> Result<()> {
    if arguments.json {
        let result = serde_json::json!({ "data": found, "learned": report, "checked": checked });
        return print_json(&result);
    }
    let layers = report.modules.iter().zip(&report.modules_before).enumerate();
    let rows = layers
        .map(|(layer, (after, before))| {
            vec![layer.to_string(), before.to_string(), (after - before).to_string(), after.to_string()]
        })
        .collect();
    let titles = ["layer", "modules before", "new", "after"];
    print_text(&table(&titles, &titles, rows))?;
    let accuracy = report.val_accuracy.map_or("not measured".to_owned(), percent);
    print(&format!(
        "'{}': {} classes, {} training images, validation accuracy {accuracy} (best epoch {} of {})",
        task.name,
        task.classes.len(),
        grouped(task.train.len() as u64),
        report.best_epoch + 1,
        report.epochs
    ))?;
    if !checked.is_empty() {
        let row = |old: &OldTask| {
            let shares = [
                old.before,
                old.after,
                old.task_given_before,
                old.task_given_after,
                old.task_found_before,
                old.task_found_after,
            ];
            std::iter::once(old.task.clone()).chain(shares.map(percent)).collect()
        };
        let titles = [
            "old task, single images",
            "before",
            "after",
            "task given, before",
            "task given, after",
            "task found, before",
            "task found, after",
        ];
        print_text(&table(&titles, &titles[1..], checked.iter().map(row).collect()))?;
        checked.iter().try_for_each(|old| print(&old.why()))?;
    }
    print(&format!("written: {}", arguments.model.display()))
}
