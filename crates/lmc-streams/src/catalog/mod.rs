//! The streams that we know by name, and how any stream is planned and loaded.
//!
//! A [`StreamRequest`] becomes a [`StreamPlan`] (which images, by rank), and the plan a [`Stream`] (the
//! images themselves). With seed 180 and real data the plans are the paper's own, image for image; with
//! any other seed, other data sets or generated ones they are drawn by the same rules.

pub mod cmnist_ood;
pub mod ctrl;
pub mod long;
pub mod paper_file;
pub mod plug_and_play;
pub mod recipe;
mod sources;

use std::path::Path;

use crate::datasets::dirs::DataDirs;
use crate::error::{Error, Result};
use crate::plan::{StreamPlan, Variant};
use crate::seed::Seed;
use crate::stream::Stream;
use crate::stream_file::StreamFile;
use recipe::{Recipe, TaskRecipe};

pub use recipe::class_label;

/// The seed from which the authors generated the streams of the paper.
pub const PAPER_SEED: u64 = 180;

/// A stream of the paper, by name.
#[derive(Clone, Copy, Debug)]
pub struct PaperStream {
    /// The name by which users call the stream.
    pub name: &'static str,
    /// The stream's name in the authors' files, which is understood too.
    pub file_name: &'static str,
    /// Number of tasks, with the paper's data sets.
    pub tasks: usize,
    /// What the stream tests, in a few words.
    pub about: &'static str,
    /// The data sets that the stream draws from, by role.
    pub sources: &'static [&'static str],
}

const CTRL: &[&str] = &["cifar10", "mnist", "dtd", "fashion-mnist", "svhn"];
const LONG: &[&str] = &["mnist", "svhn", "cifar10", "fashion-mnist", "cifar100"];

/// All streams of the paper.
pub const PAPER_STREAMS: [PaperStream; 11] = [
    paper("s_minus", "s_minus", 6, "direct transfer: a large first task returns with little data", CTRL),
    paper("s_plus", "s_plus", 6, "knowledge update: a small first task returns with much data", CTRL),
    paper("s_in", "s_in", 6, "same labels, other inputs: digits return on another background", IN),
    paper("s_out", "s_out", 6, "same inputs, other labels: the first task returns with labels moved", CTRL),
    paper("s_pl", "s_pl", 5, "plasticity: unrelated tasks, the last one large", PL),
    paper("s_long", "s_long", 100, "a hundred tasks of five classes, most of them tiny", LONG),
    paper("s_long30", "s_long", 30, "the first thirty tasks of s_long", LONG),
    paper("cmnist_ood_train", "s_ood_train", 5, "pairs of digits, each in a colour scheme of its own", MNIST),
    paper("cmnist_ood_test", "s_ood_test", 30, "every pair in every colour scheme, test images only", MNIST),
    paper("plug_and_play_1", "s_pnp_comp_1", 3, "first of two learners that are merged later", FIRST),
    paper("plug_and_play_2", "s_pnp_comp_2", 3, "second of two learners that are merged later", SECOND),
];

const IN: &[&str] = &["mnist", "cifar10", "dtd", "fashion-mnist", "svhn"];
const PL: &[&str] = &["mnist", "dtd", "fashion-mnist", "svhn", "cifar10"];
const MNIST: &[&str] = &["mnist"];
const FIRST: &[&str] = &["mnist", "fashion-mnist"];
const SECOND: &[&str] = &["fashion-mnist", "mnist", "svhn"];

const fn paper(
    name: &'static str,
    file_name: &'static str,
    tasks: usize,
    about: &'static str,
    sources: &'static [&'static str],
) -> PaperStream {
    PaperStream { name, file_name, tasks, about, sources }
}

impl PaperStream {
    /// Finds a stream by its name or by its name in the authors' files.
    pub fn find(name: &str) -> Result<&'static Self> {
        let by_name = PAPER_STREAMS.iter().find(|stream| stream.name == name);
        by_name.or_else(|| PAPER_STREAMS.iter().find(|stream| stream.file_name == name)).ok_or_else(|| {
            let known = PAPER_STREAMS.iter().map(|stream| stream.name);
            Error::unknown(
                "stream",
                name,
                known,
                "'lmc streams list' shows all; a path to a .toml file works too",
            )
        })
    }

    /// The recipe for any seed and any number of data sets.
    fn recipe(&self, seed: u64, sources: usize) -> Recipe {
        let draws = Seed::root(seed).named("stream");
        let mut tasks: Vec<TaskRecipe> = match self.name {
            "s_minus" => ctrl::s_minus(sources),
            "s_plus" => ctrl::s_plus(sources),
            "s_in" => ctrl::s_in(sources, &draws),
            "s_out" => ctrl::s_out(sources),
            "s_pl" => ctrl::s_pl(sources),
            "cmnist_ood_train" => cmnist_ood::train(),
            "cmnist_ood_test" => cmnist_ood::test(),
            "plug_and_play_1" => plug_and_play::first(),
            "plug_and_play_2" => plug_and_play::second(),
            _ => long::s_long(sources, &draws),
        };
        if self.name == "s_long30" {
            tasks.truncate(self.tasks);
        }
        Recipe { name: self.name.to_owned(), seed, image_size: 32, tasks }
    }

    /// The paper's own plan, image for image.
    fn paper_plan(&self) -> Result<StreamPlan> {
        let mut plan = paper_file::plan(self.name, self.file_name)?;
        plan.tasks.truncate(self.tasks);
        if plan.tasks.len() != self.tasks {
            let problem = format!("it has {} tasks instead of {}", plan.tasks.len(), self.tasks);
            return Err(Error::setting(self.name, problem, "the program is damaged: install it again"));
        }
        Ok(plan)
    }
}

/// Puts the stream file in front of an error that a setting or name in it caused.
fn in_file(error: Error, path: &Path) -> Error {
    match error {
        Error::Setting { field, problem, cure } => Error::bad(path, format!("{field}: {problem}"), cure),
        Error::Unknown { ref cure, .. } => {
            let text = error.to_string();
            let problem = text.strip_suffix(&format!("; {cure}")).unwrap_or(&text);
            Error::bad(path, problem, cure.as_str())
        }
        other => other,
    }
}

/// Which stream a user wants, and in which edition.
#[derive(Clone, Debug, Default)]
pub struct StreamRequest {
    /// A stream of the paper, or the path of a stream file.
    pub name: String,
    /// The seed; by default 180 (the paper's) or what the file says.
    pub seed: Option<u64>,
    /// Which edition of the stream: real or generated images, all or a tenth.
    pub variant: Variant,
    /// Data sets to use instead of the stream's own, by role: names or paths.
    pub sources: Vec<String>,
}

impl StreamRequest {
    /// A stream by name, everything else by default.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// Plans and loads streams from the data on this machine.
#[derive(Clone, Debug)]
pub struct Catalog {
    dirs: DataDirs,
}

impl Catalog {
    /// Makes a catalogue over these folders.
    pub fn new(dirs: DataDirs) -> Self {
        Self { dirs }
    }

    /// The folders in which known data sets are searched.
    pub fn dirs(&self) -> &DataDirs {
        &self.dirs
    }

    /// Plans a stream and loads its images.
    pub fn stream(&self, request: &StreamRequest) -> Result<Stream> {
        self.load(&self.plan(request)?)
    }

    /// Decides which images make up the stream.
    pub fn plan(&self, request: &StreamRequest) -> Result<StreamPlan> {
        if request.variant != Variant::Auto {
            return self.plan_variant(request, request.variant);
        }
        match self.plan_variant(request, Variant::Full) {
            // On a machine without the data, generated sets stand in, so that every command runs anywhere;
            // plan and stream say so.
            Err(Error::NotHere { .. }) if request.sources.is_empty() => {
                self.plan_variant(request, Variant::Generated)
            }
            result => result,
        }
    }

    fn plan_variant(&self, request: &StreamRequest, variant: Variant) -> Result<StreamPlan> {
        let full = if variant.is_generated() { Variant::Generated } else { Variant::Full };
        let path = Path::new(&request.name);
        let is_file = path.extension().is_some_and(|extension| extension == "toml");
        let plan = if is_file {
            let folder = path.parent().unwrap_or(Path::new(""));
            let (sources, recipe) = StreamFile::read(path)?.recipe(folder, request.seed)?;
            if !request.sources.is_empty() {
                return Err(Error::setting(
                    "data sets",
                    "a stream file names its own",
                    "edit the file instead",
                ));
            }
            self.draw(&recipe, &sources, full).map_err(|error| in_file(error, path))?
        } else {
            let stream = PaperStream::find(&request.name)?;
            let seed = request.seed.unwrap_or(PAPER_SEED);
            if full == Variant::Generated && !request.sources.is_empty() {
                let problem = "data sets are named, and generated ones are asked for";
                return Err(Error::setting("variant", problem, "leave one of the two out"));
            }
            if seed == PAPER_SEED && request.sources.is_empty() && full == Variant::Full {
                self.substitute(stream.paper_plan()?)?
            } else {
                let sources = self.roles(stream, request)?;
                self.draw(&stream.recipe(seed, sources.len()), &sources, full)?
            }
        };
        Ok(if variant.is_mini() { plan.mini() } else { plan })
    }

    /// The data sets of a stream: its own, or those that the user names.
    fn roles(&self, stream: &PaperStream, request: &StreamRequest) -> Result<Vec<String>> {
        if request.sources.is_empty() {
            return Ok(stream.sources.iter().map(ToString::to_string).collect());
        }
        let (given, own) = (request.sources.len(), stream.sources.len());
        let any_number = stream.sources.len() == 5;
        if !any_number && given != own {
            let problem =
                format!("{given} given, but {} has {own} roles: {}", stream.name, stream.sources.join(", "));
            return Err(Error::setting("data sets", problem, "name one per role, in this order"));
        }
        Ok(request.sources.clone())
    }

    fn draw(&self, recipe: &Recipe, sources: &[String], variant: Variant) -> Result<StreamPlan> {
        let generated = variant.is_generated();
        let sources: Vec<_> = sources
            .iter()
            .map(|name| self.source(name, generated, recipe.image_size))
            .collect::<Result<_>>()?;
        recipe.plan(&sources, variant)
    }
}
