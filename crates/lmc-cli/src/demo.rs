//! `lmc demo`: six tasks that the program draws itself; the last is the first again, with little data.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use lmc::{Accuracy, LearnerConfig, NetworkConfig, Preset};
use lmc_lab::report::growth::{self, Theme};
use lmc_lab::report::{curve, module_usage, page::Page};
use lmc_lab::run_directory::RunDirectory;
use lmc_lab::{Experiment, Metrics, Run};
use lmc_streams::{Catalog, Stream, replace_file};

use crate::compute::Compute;
use crate::interrupt;
use crate::output::{percent, print, print_text, spinner, table};
use crate::progress::Progress;

/// Watch a network grow over six generated tasks, beside plain fine-tuning, in one to three minutes.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Where the model and the report go.
    #[arg(long, default_value = "lmc-demo", value_name = "DIR")]
    out: PathBuf,
    /// Epochs per task; fewer are quicker and worse.
    #[arg(long, default_value_t = 30)]
    epochs: usize,
    /// Delete what an earlier demo left in the folder, and start anew.
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    compute: Compute,
}

/// The stream of the demo.
const STREAM: &str = r#"# Six tasks that lmc draws itself; the last is the first again, with little data.
name = "demo"
seed = 1

[[task]]
name = "objects"
data = "generated-objects"
train = 60
val = 20
test = 30

[[task]]
name = "digits"
data = "generated-digits"
train = 40
val = 20
test = 30

[[task]]
name = "textures"
data = "generated-textures"
train = 40
val = 20
test = 30

[[task]]
name = "garments"
data = "generated-garments"
train = 40
val = 20
test = 30

[[task]]
name = "plates"
data = "generated-plates"
train = 40
val = 20
test = 30

[[task]]
name = "objects again"
data = "generated-objects"
train = 8
val = 8
test = 30
"#;

/// Runs the verb.
pub fn run(arguments: &Arguments, catalog: &Catalog) -> Result<()> {
    let device = arguments.compute.init()?;
    let started = Instant::now();
    let out = &arguments.out;
    for directory in [out.clone(), out.join("finetune")] {
        RunDirectory::new(&directory).refuse_foreign()?;
    }
    refuse_foreign_files(out)?;
    fs::create_dir_all(out).map_err(lmc_streams::Error::io("create", out))?;
    let file = out.join("stream.toml");
    replace_file(&file, STREAM.as_bytes())?;
    let experiment = experiment(&file, arguments.epochs)?;
    let waiting = spinner("drawing pictures".to_owned());
    let stream = catalog.stream(&experiment.request()?)?;
    waiting.finish_and_clear();
    interrupt::listen()?;
    let mut progress = Progress::new(false);
    progress.say("LMC learns six tasks; modules of learned tasks are frozen.");
    // A demo that is over is shown again from the beginning; one that was stopped goes on.
    let fresh = |directory: &Path| RunDirectory::new(directory).is_finished();
    let finetune = out.join("finetune");
    let again = arguments.fresh || fresh(out);
    let job = Run {
        experiment: &experiment,
        stream: &stream,
        directory: out,
        fresh: again,
        tensorboard: false,
        device: &device,
        stop: interrupt::flag(),
    };
    let metrics = lmc_lab::run(&job, &mut |notice| progress.follow(&notice))?;
    progress.say("The same stream by plain fine-tuning, one network for all.");
    let baseline = baseline(&experiment)?;
    let job = Run { experiment: &baseline, directory: &finetune, fresh: again || fresh(&finetune), ..job };
    let baseline = lmc_lab::run(&job, &mut |notice| progress.follow(&notice))?.matrix;
    let report = out.join("report.html");
    replace_file(&report, page(&stream, &metrics, &baseline, out).as_bytes())?;
    for (theme, name) in [(Theme::Light, "growth-light.svg"), (Theme::Dark, "growth-dark.svg")] {
        replace_file(&out.join(name), growth::svg(&metrics, theme).as_bytes())?;
    }
    show(&metrics, &baseline)?;
    print("")?;
    print(&format!("{} s in all. Look at {}", started.elapsed().as_secs(), report.display()))?;
    print(&format!("Next: {}", next(out)))
}

/// Complains about a file in the place of one that the demo writes, unless an earlier demo did.
fn refuse_foreign_files(out: &Path) -> Result<()> {
    let stream = out.join("stream.toml");
    let earlier =
        lmc_streams::StreamFile::read(&stream).is_ok_and(|file| file.name.as_deref() == Some("demo"));
    for name in ["stream.toml", "report.html", "growth-light.svg", "growth-dark.svg"] {
        let path = out.join(name);
        if !earlier && path.symlink_metadata().is_ok() {
            let problem = "no demo wrote it, and this one would replace it";
            return Err(lmc_streams::Error::bad(&path, problem, "choose another folder with --out").into());
        }
    }
    Ok(())
}

fn experiment(stream: &Path, epochs: usize) -> Result<Experiment> {
    const STEPS: usize = 7;
    let mut learner: LearnerConfig = Preset::Own.learner();
    learner.scale_epochs(epochs.max(1), STEPS);
    Ok(Experiment {
        stream: stream.display().to_string(),
        variant: "auto".into(),
        stream_seed: None,
        method: "lmc_a".into(),
        preset: "own".into(),
        seed: 1,
        checkpoint_epochs: 5,
        evaluate: lmc_lab::Evaluate::default(),
        test_images: None,
        network: NetworkConfig { width: 32, ..NetworkConfig::default() },
        learner: toml::Table::try_from(learner)?,
    })
}

/// The same stream by fine-tuning, on images that are not normalised either.
fn baseline(lmc: &Experiment) -> Result<Experiment> {
    let epochs = lmc.learner.get("epochs").cloned().unwrap_or(100.into());
    let training = toml::Table::from_iter([("epochs".into(), epochs), ("normalise".into(), false.into())]);
    let changes = toml::Table::from_iter([("training".into(), training.into())]);
    let learner = lmc_methods::find("finetune")?
        .resolve("own", changes)
        .map_err(|problem| lmc::Error::setting("demo", problem, "report this as a bug of lmc"))?;
    Ok(Experiment { method: "finetune".into(), learner, ..lmc.clone() })
}

/// One row per task, and the mean.
fn rows(metrics: &Metrics, baseline: &[Vec<Option<f64>>]) -> Vec<Vec<String>> {
    let last = baseline.last().map_or(&[][..], Vec::as_slice);
    let mut rows = Vec::new();
    let mut sums = [0.0; 7];
    for (number, task) in metrics.tasks.iter().enumerate() {
        let single = |named: &Option<Accuracy>| named.as_ref().and_then(|named| named.single).unwrap_or(0.0);
        let (after, end) = (single(&task.after_by_name), single(&task.end_by_name));
        let cell = |row: &[Option<f64>]| row.get(number).copied().flatten().unwrap_or_default();
        let (baseline_after, baseline_end) = (cell(&baseline[number]), cell(last));
        let numbers = [
            after,
            end,
            end - after,
            task.end.task_given,
            baseline_after,
            baseline_end,
            baseline_end - baseline_after,
        ];
        let modules: Vec<String> = task.report.modules.iter().map(ToString::to_string).collect();
        rows.push(vec![task.task.clone(), modules.join(" ")]);
        rows[number].extend(numbers.iter().zip(FORMATS).map(|(number, format)| format(*number)));
        sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number / metrics.tasks.len() as f64);
    }
    let mut total = vec!["mean".to_owned(), format!("{} modules", metrics.modules())];
    total.extend(sums.iter().zip(FORMATS).map(|(sum, format)| format(*sum)));
    rows.push(total);
    rows
}

fn points(change: f64) -> String {
    format!("{:+.1}", 100.0 * change)
}

const TITLES: [&str; 9] = [
    "task",
    "modules per layer",
    "one picture, right after",
    "at the end",
    "change",
    "task given",
    "fine-tuning right after",
    "at the end ",
    "change ",
];

/// How the numbers of a row are written.
const FORMATS: [fn(f64) -> String; 7] = [percent, percent, points, percent, percent, percent, points];

/// How the numbers of the table were counted.
const COUNTED: &str = "Test accuracy. LMC: every picture on its own, no task given, right if the class name is; beside it \
    with the task given, at the end. Fine-tuning is always given the task.";

fn show(metrics: &Metrics, baseline: &[Vec<Option<f64>>]) -> Result<()> {
    print("")?;
    print_text(&table(&TITLES, &TITLES[2..], rows(metrics, baseline)))?;
    print(COUNTED)
}

fn next(out: &Path) -> String {
    format!("lmc inspect {}", out.join("model.safetensors").display())
}

fn page(stream: &Stream, metrics: &Metrics, baseline: &[Vec<Option<f64>>], out: &Path) -> String {
    let mut page = Page::new(
        "A network that grows and does not forget",
        "Six generated tasks, learned one after the other by Local Module Composition. At test pictures come one by one, and \
         nobody says which task they belong to.",
    );
    page.section("One picture, no task", COUNTED);
    page.table(&TITLES, &rows(metrics, baseline));
    let names: Vec<String> = stream.tasks.iter().map(|task| task.name.clone()).collect();
    let lines = |matrix: &[Vec<Option<f64>>], faint: bool| -> Vec<curve::Series> {
        names
            .iter()
            .enumerate()
            .map(|(task, name)| {
                let points =
                    matrix.iter().enumerate().skip(task).filter_map(|(after, row)| Some((after, row[task]?)));
                curve::Series { name: name.clone(), points: points.collect(), colour: task, faint }
            })
            .collect()
    };
    page.section(
        "Over the stream",
        "One line per task, from when it was learned to the end, in batches of pictures of one task that is not named; \
         dashed: fine-tuning, which is given the task.",
    );
    let all: Vec<curve::Series> = [lines(&metrics.matrix, false), lines(baseline, true)].concat();
    let about = "accuracy of each task over the stream";
    page.figure(&curve::figure(&names, &all, curve::Scale::Percent, about));
    page.section(
        "Which modules each task uses",
        "One column per layer, from the input on the left; one square per module, oldest on top; darker is more used.",
    );
    page.figures(&module_usage::figures(metrics));
    page.section("Try next", "The model is an ordinary model file.");
    page.commands(&next(out));
    page.html()
}
