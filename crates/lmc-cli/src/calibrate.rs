//! `lmc calibrate`: measures anew what the data of a learned task say about its head.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use lmc::internals::inference::HeadChoice;
use lmc::{Device, Error, ModelFile, TaskData};
use lmc_streams::Catalog;
use serde::Serialize;

use crate::learn::Source;
use crate::output::{grouped, print, print_json, spinner};

/// Measure anew how the pictures of a learned task look, which modules they need, and when a picture is new.
///
/// Models of earlier versions have nothing of that. No parameter changes; what the task is answered with the task given may
/// change a little. Once every task is calibrated, heads are found by signature.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc calibrate shop.lmc --task fruit --data fruit/

The data should be those that the task was learned from: the same validation split is drawn from them.")]
pub struct Arguments {
    /// The model file.
    model: PathBuf,
    /// The task.
    #[arg(long)]
    task: String,
    /// Pictures of the task, in any form that `lmc learn` reads.
    #[arg(long)]
    data: String,
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
    task: String,
    train: usize,
    val: usize,
    /// Modules that the task needs, per layer.
    modules: Vec<usize>,
    /// Tasks that have no signature yet.
    missing: Vec<String>,
    /// Whether heads are found by signature now.
    by_signature: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    let mut file = ModelFile::open(&arguments.model)?;
    let Some(mut model) = file.load_to_change(&Device::flex())? else {
        return Err(Error::bad(&arguments.model, "there is no such model file", "check the path").into());
    };
    let head = model.head(&arguments.task)?.0;
    let source = Source { val_fraction: arguments.val_fraction, skip_damaged: arguments.skip_damaged };
    let (task, _) = source.read(&arguments.task, &arguments.data, &model, catalog)?;
    let waiting = spinner(format!("calibrating {}", arguments.task));
    model.recalibrate(TaskData::from(&task))?;
    waiting.finish_and_clear();
    file.save(&model)?;
    let predictor = model.predictor()?;
    let route = model.network.heads[head].route.as_ref();
    let modules = route.map(|route| route.modules(model.config.prediction.negligible_weight));
    let calibrated = Calibrated {
        task: arguments.task.clone(),
        train: task.train.len(),
        val: task.val.len(),
        modules: modules.unwrap_or_default().iter().map(Vec::len).collect(),
        missing: predictor.without_signature().into_iter().map(str::to_owned).collect(),
        by_signature: model.config.prediction.head_choice == HeadChoice::Signature,
    };
    if arguments.json {
        return print_json(&calibrated);
    }
    let needed: Vec<String> = calibrated.modules.iter().map(ToString::to_string).collect();
    print(&format!(
        "'{}': measured on {} training and {} validation pictures; it needs {} modules per layer",
        calibrated.task,
        grouped(calibrated.train as u64),
        grouped(calibrated.val as u64),
        needed.join(" ")
    ))?;
    print(&match (calibrated.missing.is_empty(), calibrated.by_signature) {
        (true, true) => "all tasks have a signature: heads are found by it".to_owned(),
        (true, false) => {
            "all tasks have a signature; choose heads by it with --head-choice signature".to_owned()
        }
        (false, _) => format!("still without a signature: {}", calibrated.missing.join(", ")),
    })?;
    print(&format!("written: {}", arguments.model.display()))
}
