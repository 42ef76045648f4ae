//! `lmc streams`: which streams there are, and what is in them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use lmc_streams::{Catalog, PAPER_STREAMS, Split, Stream, StreamRequest, Task, Variant, sheet};
use serde::Serialize;

use crate::output::{grouped, print, print_json, print_text, say, spinner, table};

/// The verbs below `lmc streams`.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// The streams of the paper.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// The tasks of a stream: classes, counts, transform, substitutions.
    #[command(after_help = "Examples:
  lmc streams show s_minus                         the paper's stream, image for image
  lmc streams show s_minus --sheet s_minus.png     and a picture with a row of samples per task
  lmc streams show s_in --seed 7                   the same kind of stream from another seed
  lmc streams show s_pl --variant generated        from generated images, on any machine
  lmc streams show s_minus --from photos,mnist     from your own data sets
  lmc streams show my_stream.toml --json           a stream of your own, for a script")]
    Show(Show),
}

/// Arguments of `lmc streams show`.
#[derive(Args, Debug)]
pub struct Show {
    /// A stream of the paper, or the path of a .toml file.
    name: String,
    /// Seed of all draws; the paper's streams are those of seed 180.
    #[arg(long)]
    seed: Option<u64>,
    /// full, mini (a tenth of the images), generated, generated-mini; by default the real data if they are
    /// on this machine, else generated.
    #[arg(long, default_value = "auto", hide_default_value = true)]
    variant: Variant,
    /// Data sets to use instead of the stream's own, by role: names or paths, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "DATA")]
    from: Vec<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    /// Write a picture with a row of samples per task to this PNG file.
    #[arg(long, value_name = "PNG")]
    sheet: Option<PathBuf>,
}

/// Runs a verb.
pub fn run(verb: Verb, catalog: &Catalog) -> Result<()> {
    match verb {
        Verb::List { json } => list(json),
        Verb::Show(arguments) => show(arguments, catalog),
    }
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    tasks: usize,
    datasets: &'static [&'static str],
    about: &'static str,
}

fn list(json: bool) -> Result<()> {
    let streams = PAPER_STREAMS.map(|stream| Listed {
        name: stream.name,
        tasks: stream.tasks,
        datasets: stream.sources,
        about: stream.about,
    });
    if json {
        return print_json(&streams);
    }
    let row = |s: &Listed| vec![s.name.into(), s.tasks.to_string(), s.about.into(), s.datasets.join(", ")];
    let rows = streams.iter().map(row).collect();
    print_text(&table(&["stream", "tasks", "what it tests", "data sets"], &["tasks"], rows))?;
    print("")?;
    print("Look at one: lmc streams show s_minus --sheet s_minus.png")
}

/// That generated images stand in for real ones, and why; `found` is what the request led to.
pub fn generated_instead(request: &StreamRequest, found: Variant, catalog: &Catalog) -> Option<String> {
    if request.variant != Variant::Auto || !found.is_generated() {
        return None;
    }
    // Why: what the real variant would have said.
    let full = StreamRequest { variant: Variant::Full, ..request.clone() };
    let reason = catalog.plan(&full).err()?;
    Some(format!("generated images stand in, because {reason}"))
}

fn show(arguments: Show, catalog: &Catalog) -> Result<()> {
    let Show { name, seed, variant, from, json, sheet } = arguments;
    let busy = spinner(format!("reading the images of {name}"));
    let request = StreamRequest { name, seed, variant, sources: from };
    let stream = catalog.stream(&request)?;
    if let Some(path) = &sheet {
        sheet::write_png(&sheet::of_stream(&stream), path)
            .with_context(|| format!("the picture {} was not written", path.display()))?;
    }
    busy.finish_and_clear();
    if let Some(note) = generated_instead(&request, stream.variant, catalog) {
        say(&format!("note: {note}"));
    }
    if json {
        return print_json(&Shown::from(&stream));
    }
    describe(&stream)?;
    match sheet {
        Some(path) => {
            print("")?;
            print(&format!("Picture: {}", path.display()))
        }
        None => Ok(()),
    }
}

/// The JSON form of a stream.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    seed: u64,
    variant: String,
    substitutions: &'a [String],
    tasks: Vec<ShownTask<'a>>,
}

#[derive(Serialize)]
struct ShownTask<'a> {
    name: &'a str,
    dataset: &'a str,
    classes: &'a [String],
    train: usize,
    val: usize,
    test: usize,
    transform: String,
    substitution: Option<&'a str>,
}

impl<'a> From<&'a Stream> for Shown<'a> {
    fn from(stream: &'a Stream) -> Self {
        let task = |task: &'a Task| ShownTask {
            name: &task.name,
            dataset: &task.dataset,
            classes: &task.classes,
            train: task.train.len(),
            val: task.val.len(),
            test: task.test.len(),
            transform: task.looks.to_string(),
            substitution: task.substitution.as_deref(),
        };
        Self {
            name: &stream.name,
            seed: stream.seed,
            variant: stream.variant.to_string(),
            substitutions: &stream.substitutions,
            tasks: stream.tasks.iter().map(task).collect(),
        }
    }
}

fn describe(stream: &Stream) -> Result<()> {
    let row = |(number, task): (usize, &Task)| {
        let mut row = vec![(number + 1).to_string(), task.name.clone(), task.dataset.clone(), classes(task)];
        row.extend(Split::ALL.map(|split| grouped(task.set(split).len() as u64)));
        row.push(task.looks.to_string());
        row.push(task.substitution.as_deref().map(short).unwrap_or_default());
        row
    };
    let titles = ["#", "task", "data set", "classes", "train", "val", "test", "transform", "substitution"];
    let rows = stream.tasks.iter().enumerate().map(row).collect();
    print(&format!("{}, seed {}, {}", stream.name, stream.seed, stream.variant))?;
    print("")?;
    print_text(&table(&titles, &["#", "train", "val", "test"], rows))?;
    for substitution in &stream.substitutions {
        print(&format!("Substitution: {substitution}"))?;
    }
    Ok(())
}

/// A substitution in a word; the sentences stand below the table.
fn short(substitution: &str) -> String {
    match substitution.split_once(" stands in for ") {
        Some((name, _)) => name.to_owned(),
        None => "in part".to_owned(),
    }
}

/// Class names, shortened: the label order matters, so the first ones are shown.
fn classes(task: &Task) -> String {
    const SHOWN: usize = 3;
    let names = task.classes.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match task.classes.len() {
        count if count > SHOWN => format!("{count}: {names}, ..."),
        count => format!("{count}: {names}"),
    }
}
