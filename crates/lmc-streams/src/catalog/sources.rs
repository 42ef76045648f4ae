//! From the names in a plan to images: substitutions, surveys, and reading only what a stream draws.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::recipe::{StreamSource, class_label};
use super::{Catalog, paper_file};
use crate::dataset::{Dataset, Keep, ReadOptions, Split};
use crate::datasets::known;
use crate::datasets::locate::Located;
use crate::error::{Error, Result};
use crate::formats;
use crate::generated::{self, Family};
use crate::plan::{Draw, StreamPlan, TaskPlan};
use crate::prepare::Prepare;
use crate::split::Survey;
use crate::stream::Stream;

/// The smaller set that may take the place of one that is not on this machine (docs/data.md, "Substitutions").
fn stand_in(name: &str) -> Option<&'static str> {
    match name {
        "dtd" => Some("dtd10"),
        "cifar100" | "mini-imagenet" => Some("tiny-imagenet"),
        _ => None,
    }
}

impl Catalog {
    /// Loads the images of a plan, and no others.
    pub fn load(&self, plan: &StreamPlan) -> Result<Stream> {
        let mut tasks: BTreeMap<&str, Vec<&TaskPlan>> = BTreeMap::new();
        for task in &plan.tasks {
            tasks.entry(&task.source).or_default().push(task);
        }
        let read = |(&source, tasks): (&&str, &Vec<&TaskPlan>)| -> Result<(String, Arc<Dataset>)> {
            let dataset = self.read_drawn(source, tasks, plan)?;
            Ok((source.to_owned(), Arc::new(dataset)))
        };
        // Collected before looking at errors, so that the same one is reported every time.
        let sets: Vec<Result<(String, Arc<Dataset>)>> = tasks.par_iter().map(read).collect();
        let sets = sets.into_iter().collect::<Result<HashMap<_, _>>>()?;
        Stream::assemble(plan, &sets)
    }

    /// Reads the images of a data set that `keep` names, prepared as the paper's streams need them. The source is a
    /// known or generated set, or the path of a user's own pictures, which become RGB squares of `image_size`.
    pub fn read(&self, source: &str, image_size: usize, keep: &Keep<'_>) -> Result<Dataset> {
        match self.find(source)? {
            FoundSource::Generated(family) => {
                draw_generated(family, &ReadOptions::keeping(Prepare::AS_IS, keep))
            }
            FoundSource::Known(located) => located.read(keep),
            FoundSource::Path(path) => {
                formats::read_any(path, &ReadOptions::keeping(Prepare::rgb_square(image_size), keep))
            }
        }
    }

    /// Reads a known or generated set, or a path, all by the caller's own preparation. Sets that are grey as a whole
    /// may stay grey where RGB is wanted: a [`crate::TaskSet`] replicates them.
    pub fn read_with(&self, source: &str, options: &ReadOptions<'_>) -> Result<Dataset> {
        // A user's own folder comes before a known name: `lmc learn --data mnist` beside a folder `mnist` means the folder.
        if Path::new(source).exists() {
            return formats::read_any(Path::new(source), options);
        }
        match self.find(source)? {
            FoundSource::Generated(family) if family.is_grey() => {
                let prepare = options.prepare.keeping_grey();
                draw_generated(family, &ReadOptions { prepare, ..*options })
            }
            FoundSource::Generated(family) => draw_generated(family, options),
            FoundSource::Known(located) => located.read_with(options),
            FoundSource::Path(path) => formats::read_any(path, options),
        }
    }

    /// What a source is. A known or generated name comes before a folder of that name: `./mnist` is the folder.
    fn find<'a>(&self, source: &'a str) -> Result<FoundSource<'a>> {
        if let Some(family) = Family::from_name(source) {
            Ok(FoundSource::Generated(family))
        } else if known::find(source).is_ok() {
            self.locate(source).map(FoundSource::Known)
        } else if Path::new(source).exists() {
            Ok(FoundSource::Path(Path::new(source)))
        } else {
            Err(self.unknown(source))
        }
    }

    /// Where a known data set lies; the error says how to get it.
    pub fn locate(&self, name: &str) -> Result<Located> {
        self.dirs.locate(name)?.ok_or_else(|| self.not_here(name))
    }

    /// What to read for a data set: itself, or what stands in for it on this machine, and a sentence that says
    /// so.
    pub fn resolve(&self, name: &str) -> Result<(String, Option<String>)> {
        if known::find(name).is_err() || self.dirs.locate(name)?.is_some() {
            return Ok((name.to_owned(), None));
        }
        let other = self.locate_stand_in(name)?.name;
        let text = format!("{other} stands in for {name}");
        Ok((other, Some(text)))
    }

    /// Where the stand-in for a known data set lies; the error says how to get the set itself.
    fn locate_stand_in(&self, name: &str) -> Result<Located> {
        let located = stand_in(name).map(|other| self.dirs.locate(other)).transpose()?;
        located.flatten().ok_or_else(|| self.not_here(name))
    }

    /// What a data set holds, without decoding any image.
    pub fn survey(&self, source: &str, image_size: usize) -> Result<Survey> {
        let seen: Mutex<[Vec<Vec<u32>>; 3]> = Mutex::default();
        let note = |split: Split, label: u32, rank: u32| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let classes = &mut seen[split as usize];
            if classes.len() <= label as usize {
                classes.resize(label as usize + 1, Vec::new());
            }
            classes[label as usize].push(rank);
            false
        };
        let Dataset { name, classes, .. } = self.read(source, image_size, &note)?;
        let mut ranks = seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        for split in &mut ranks {
            split.resize(classes.len(), Vec::new());
            split.iter_mut().for_each(|class| class.sort_unstable());
        }
        Ok(Survey { name, classes, ranks })
    }

    /// A data set for a recipe, with its stand-in where it is missing or where generated sets are asked for.
    pub(super) fn source(&self, name: &str, generated: bool, image_size: usize) -> Result<StreamSource> {
        let (dataset, source, substitution) = match generated_stand_in(name).filter(|_| generated) {
            Some(family) => {
                let text = format!("{} stands in for {name}", family.name());
                (family.name().to_owned(), family.name().to_owned(), Some(text))
            }
            None => {
                let (source, substitution) = self.resolve(name)?;
                (name.to_owned(), source, substitution)
            }
        };
        let survey = self.survey(&source, image_size)?;
        let substitution =
            substitution.or_else(|| incomplete(&survey).filter(|_| known::find(&source).is_ok()));
        // A user's own data go by their name, not by the path of today.
        let own = known::find(&dataset).is_err() && Family::from_name(&dataset).is_none();
        let dataset = if own { survey.name.clone() } else { dataset };
        Ok(StreamSource { dataset, source, substitution, survey })
    }

    /// The paper's plan with the substitutions that this machine needs.
    pub(super) fn substitute(&self, mut plan: StreamPlan) -> Result<StreamPlan> {
        for task in &mut plan.tasks {
            if self.dirs.locate(&task.source)?.is_some() {
                continue;
            }
            let other = self.locate_stand_in(&task.source)?;
            let classes = other.classes().unwrap_or_default();
            let enough = |number: usize| {
                classes.get(number).cloned().ok_or_else(|| {
                    let problem =
                        format!("it has {} classes, too few to stand in for {}", classes.len(), task.dataset);
                    Error::bad(&other.path, problem, "get the whole set again")
                })
            };
            if task.dataset == "dtd" {
                for (label, class) in task.classes.iter_mut().enumerate() {
                    class.name = enough(label)?;
                }
                let rule = "label i of the task is class i of dtd10, same ranks";
                task.substitution = Some(format!("dtd10 stands in for dtd: {rule}"));
            } else {
                let names = paper_file::cifar100_classes()?;
                for class in &mut task.classes {
                    let number = names.iter().position(|name| *name == class.name).unwrap_or(usize::MAX);
                    class.name = enough(number)?;
                    class.draws[Split::Test as usize] = Draw::All(50);
                }
                let rule = "class i of those that the paper's streams name, in alphabetical order, is class i of \
                            tiny-imagenet, same ranks; 50 test images a class";
                task.substitution = Some(format!("tiny-imagenet stands in for cifar100: {rule}"));
            }
            task.source.clone_from(&other.name);
        }
        Ok(plan)
    }

    /// Reads the images that some tasks draw, and checks that the source is the one they were drawn from.
    fn read_drawn(&self, source: &str, tasks: &[&TaskPlan], plan: &StreamPlan) -> Result<Dataset> {
        let image_size = plan.image_size;
        let mut classes = plan.class_names.get(source).cloned();
        if classes.is_none() && known::find(source).is_ok() {
            classes = self.dirs.locate(source)?.and_then(|located| located.classes());
        }
        let classes = match classes {
            Some(classes) => classes,
            None => self.survey(source, image_size)?.classes,
        };
        let wanted = WantedRanks::by(tasks, &classes, source)?;
        let highest: Vec<AtomicU32> = (0..3 * classes.len()).map(|_| AtomicU32::new(0)).collect();
        let keep = |split: Split, label: u32, rank: u32| {
            if let Some(highest) = highest.get(split as usize * classes.len() + label as usize) {
                highest.fetch_max(rank.saturating_add(1), Ordering::Relaxed);
            }
            wanted.has(split, label, rank)
        };
        let dataset = self.read(source, image_size, &keep)?;
        // A user's own folder may well be called 'mnist'.
        if known::find(source).is_ok() && dataset.classes.len() == classes.len() {
            check_counts(&dataset, &highest)?;
        }
        Ok(dataset)
    }

    fn not_here(&self, name: &str) -> Error {
        let cure = match known::find(name) {
            Ok(known) if known.files.is_empty() => known.about.to_owned(),
            _ => format!("get it with 'lmc data get {name}'; streams also have '--variant generated'"),
        };
        Error::NotHere { name: name.to_owned(), looked_in: self.dirs.describe(), cure }
    }

    /// The error for a source that is neither a known name nor a path that exists.
    fn unknown(&self, name: &str) -> Error {
        if looks_like_a_path(name) {
            return formats::no_such_path(Path::new(name));
        }
        let families = Family::ALL.iter().map(|family| family.name());
        let names = known::all().iter().map(|known| known.name).chain(families);
        Error::unknown(
            "data set, folder or file",
            name,
            names,
            "'lmc data list' shows the data sets; your own data are given by their path",
        )
    }
}

/// What a name or path of a user stands for.
enum FoundSource<'a> {
    Generated(Family),
    Known(Located),
    Path(&'a Path),
}

fn draw_generated(family: Family, options: &ReadOptions<'_>) -> Result<Dataset> {
    generated::dataset(family, &generated::standard_seed(), options)
}

/// Whether a name can only be meant as a path: no data set has a separator, a dot or a leading `~` in its name.
fn looks_like_a_path(name: &str) -> bool {
    name.contains(std::path::is_separator) || name.contains('.') || name.starts_with('~')
}

/// A sentence about a known set of which only a part is here: other machines may draw other images.
fn incomplete(survey: &Survey) -> Option<String> {
    let (train, test) = known::official_counts(&survey.name)?;
    let all = train.iter().chain(&test).sum::<u32>() as usize;
    let here: usize = survey.ranks.iter().flatten().map(Vec::len).sum();
    (here < all)
        .then(|| format!("a part of {}: {here} of its {all} images are here to draw from", survey.name))
}

/// The generated set in the place of a real one. DTD's also takes the place of CIFAR-100, which never
/// appears beside it.
fn generated_stand_in(name: &str) -> Option<Family> {
    Family::stand_in_for(if name == "cifar100" { "dtd" } else { name })
}

/// A rank means nothing if the source is not the official one: every class must be complete, or carry
/// explicit ranks (then they have gaps).
fn check_counts(dataset: &Dataset, highest: &[AtomicU32]) -> Result<()> {
    let Some((train, test)) = known::official_counts(&dataset.name) else { return Ok(()) };
    let classes = dataset.classes.len();
    for (split, set, official) in [(Split::Train, &dataset.train, train), (Split::Test, &dataset.test, test)]
    {
        for (label, (&found, &official)) in set.source_counts().iter().zip(&official).enumerate() {
            let highest =
                highest.get(split as usize * classes + label).map_or(0, |h| h.load(Ordering::Relaxed));
            let counted_in_file_order = highest == found;
            if found != official && (counted_in_file_order || found > official) {
                let name = &dataset.classes[label];
                let problem =
                    format!("class '{name}' has {found} {split} images, the official set has {official}");
                let cure = format!("get it again: lmc data verify {0}, lmc data get {0}", dataset.name);
                return Err(Error::setting(format!("data set '{}'", dataset.name), problem, cure));
            }
        }
    }
    Ok(())
}

/// Which images some tasks draw from a source.
struct WantedRanks {
    classes: usize,
    drawn: Vec<DrawnRanks>, // [split * classes + label]
}

/// Which images of one class and split are drawn.
#[derive(Clone, Default)]
struct DrawnRanks {
    all: bool,
    ranks: HashSet<u32>,
}

impl WantedRanks {
    fn by(tasks: &[&TaskPlan], names: &[String], source: &str) -> Result<Self> {
        let classes = names.len();
        let mut drawn = vec![DrawnRanks::default(); 3 * classes];
        for task in tasks {
            for class in &task.classes {
                let label = class_label(names, &class.name, source)?;
                for (draw, from) in class.draws.iter().zip(task.from) {
                    drawn[from as usize * classes + label].add(draw);
                }
            }
        }
        Ok(Self { classes, drawn })
    }

    fn has(&self, split: Split, label: u32, rank: u32) -> bool {
        let drawn = self.drawn.get(split as usize * self.classes + label as usize);
        drawn.is_some_and(|drawn| drawn.all || drawn.ranks.contains(&rank))
    }
}

impl DrawnRanks {
    fn add(&mut self, draw: &Draw) {
        match draw {
            Draw::All(_) => self.all = true,
            Draw::Ranks(ranks) => self.ranks.extend(ranks),
        }
    }
}
