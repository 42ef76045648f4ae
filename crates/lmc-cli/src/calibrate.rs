//! `lmc calibrate`: measures anew what the data of a learned task say about its head.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lmc::internals::inference::HeadChoice;
use lmc::{Device, Error, Model, ModelFile, Task, TaskData};
use lmc_streams::{Catalog, StreamRequest};
use serde::Serialize;

use crate::learn::Source;
use crate::output::{grouped, print, print_json, spinner};

/// Measure anew how the pictures of a learned task look, which modules they need, and when a picture is new.
///
/// Models of earlier versions have nothing of that. No parameter changes; predictions with the task given may change a little,
/// because the prior over modules is stored now. Once every task is calibrated, heads are found by signature.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc calibrate shop.lmc --task fruit --data fruit/
  lmc calibrate runs/NAME/model.safetensors --stream s_minus     all tasks of a stream that the model knows

The data should be those that the task was learned from: the same validation split is drawn from
them.")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// The task.
    #[arg(long, required_unless_present = "stream", requires = "data")]
    task: Option<String>,
    /// Pictures of the task, in any form that `lmc learn` reads.
    #[arg(long, requires = "task")]
    data: Option<String>,
    /// Instead of a task and its data: those tasks of a stream that the model knows.
    #[arg(long, conflicts_with_all = ["task", "data"])]
    stream: Option<String>,
    /// Share of the training pictures to validate on, where the data have no validation split.
    #[arg(long, default_value_t = 0.15)]
    val_fraction: f64,
    /// Leave out damaged pictures, and say so.
    #[arg(long)]
    skip_damaged: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Calibrated {
    tasks: Vec<CalibratedTask>,
    /// Tasks that have no signature yet.
    missing: Vec<String>,
    /// Whether heads are found by signature now.
    by_signature: bool,
}

#[derive(Serialize)]
struct CalibratedTask {
    task: String,
    train: usize,
    val: usize,
    /// Modules that the task needs, per layer.
    modules: Vec<usize>,
}

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    let mut file = ModelFile::open(&arguments.model)?;
    let Some(mut model) = file.load_to_change(&Device::flex())? else {
        return Err(Error::bad(&arguments.model, "there is no such model file", "check the path").into());
    };
    let mut tasks = Vec::new();
    for task in data(arguments, &model, catalog)? {
        let waiting = spinner(format!("calibrating {}", task.name));
        model.recalibrate(TaskData::from(&task))?;
        waiting.finish_and_clear();
        let route = model.head(&task.name)?.1.route.as_ref();
        let modules = route.map(|route| route.modules(model.config.prediction.negligible_weight));
        let modules = modules.unwrap_or_default().iter().map(Vec::len).collect();
        tasks.push(CalibratedTask {
            task: task.name.clone(),
            train: task.train.len(),
            val: task.val.len(),
            modules,
        });
    }
    file.save(&model)?;
    let predictor = model.predictor()?;
    let calibrated = Calibrated {
        tasks,
        missing: predictor.without_signature().into_iter().map(str::to_owned).collect(),
        by_signature: model.config.prediction.head_choice == HeadChoice::Signature,
    };
    if arguments.json { print_json(&calibrated) } else { show(arguments, &calibrated) }
}

/// The tasks with their data.
fn data(arguments: &Arguments, model: &Model, catalog: &Catalog) -> Result<Vec<Task>> {
    if let (Some(name), Some(data)) = (&arguments.task, &arguments.data) {
        model.head(name)?;
        let source = Source { val_fraction: arguments.val_fraction, skip_damaged: arguments.skip_damaged };
        return Ok(vec![source.read(name, data, model, catalog)?.0]);
    }
    let name = arguments.stream.as_deref().unwrap_or_default();
    let waiting = spinner(format!("loading {name}"));
    let mut stream = catalog.stream(&StreamRequest::named(name))?;
    waiting.finish_and_clear();
    stream.tasks.retain(|task| model.tasks().any(|known| known == task.name));
    if stream.tasks.is_empty() {
        let problem = format!("the model knows none of the tasks of stream '{name}'");
        return Err(Error::setting("--stream", problem, "see the tasks with lmc inspect").into());
    }
    Ok(stream.tasks)
}

fn show(arguments: &Arguments, calibrated: &Calibrated) -> Result<()> {
    for task in &calibrated.tasks {
        let needed: Vec<String> = task.modules.iter().map(ToString::to_string).collect();
        print(&format!(
            "'{}': measured on {} training and {} validation pictures; modules per layer that it needs: {}",
            task.task,
            grouped(task.train as u64),
            grouped(task.val as u64),
            needed.join(" ")
        ))?;
    }
    print(&match (calibrated.missing.is_empty(), calibrated.by_signature) {
        (true, true) => "all tasks have a signature: heads are found by it".to_owned(),
        (true, false) => {
            "all tasks have a signature; this model chooses heads in another way, unless told --head-choice signature"
                .to_owned()
        }
        (false, _) => format!("still without a signature: {}", calibrated.missing.join(", ")),
    })?;
    print(&format!("written: {}", arguments.model.display()))
}
