//! `lmc data`: which data sets there are, how to get them, what is in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use indicatif::ProgressBar;
use lmc_streams::datasets::get::{Progress, get};
use lmc_streams::datasets::known::{self, KnownDataset};
use lmc_streams::datasets::verify::{Condition, Verified, verify, verify_listed};
use lmc_streams::generated::{Family, TEST_PER_CLASS, TRAIN_PER_CLASS};
use lmc_streams::{Catalog, DataDirs, Split, Survey, sheet};
use serde::Serialize;

use crate::output::{download_bar, grouped, print, print_json, print_text, spinner, table};

/// The verbs below `lmc data`.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Known data sets: what they are, and whether and where they are on this machine.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Download data sets: resumable, checked, unpacked.
    #[command(after_help = "Examples:
  lmc data get mnist fashion-mnist
  lmc data get cifar10 --data-dir /data/lmc")]
    Get {
        /// Names of data sets, as in 'lmc data list'.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Compare the files on this machine with their checksums.
    Verify {
        /// Names of data sets; by default all that are on this machine.
        names: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// What is in a data set: classes, counts, a contact sheet with ten images a class.
    #[command(after_help = "Examples:
  lmc data show cifar10 --sheet cifar10.png
  lmc data show generated-plates --sheet plates.png
  lmc data show photos/ --sheet photos.png         your own pictures, one folder per class")]
    Show {
        /// A known or generated data set, or a path to your own data.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Write a contact sheet to this PNG file.
        #[arg(long, value_name = "PNG")]
        sheet: Option<PathBuf>,
    },
}

/// Runs a verb.
pub fn run(verb: Verb, data_dir: Option<&Path>) -> Result<()> {
    match verb {
        Verb::List { json } => list(&DataDirs::search(data_dir)?, json),
        Verb::Get { names } => get_all(&names, data_dir),
        Verb::Verify { names, json } => verify_all(&names, &Catalog::new(DataDirs::search(data_dir)?), json),
        Verb::Show { name, json, sheet } => {
            show(&name, &Catalog::new(DataDirs::search(data_dir)?), json, sheet.as_deref())
        }
    }
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: String,
    classes: usize,
    /// Images at the source.
    train: u64,
    test: u64,
    present: bool,
    path: Option<PathBuf>,
    /// What is wrong with it where it lies.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<String>,
    layout: Option<&'static str>,
    /// Images here, where not all of the source is.
    train_here: Option<u64>,
    test_here: Option<u64>,
    licence: &'static str,
    about: &'static str,
}

fn list(dirs: &DataDirs, json: bool) -> Result<()> {
    let known = known::all().iter().map(|known| {
        let (located, damaged) = match dirs.locate(known.name) {
            Ok(located) => (located, None),
            Err(problem) => (None, Some(problem.to_string())),
        };
        let here = located.as_ref().map(|l| l.images().unwrap_or([known.train.into(), known.test.into()]));
        Listed {
            name: known.name,
            title: known.title.to_owned(),
            classes: known.classes,
            train: known.train.into(),
            test: known.test.into(),
            present: located.is_some(),
            layout: located.as_ref().map(lmc_streams::Located::layout),
            path: located.map(|located| located.path),
            damaged,
            train_here: here.map(|[train, _]| train),
            test_here: here.map(|[_, test]| test),
            licence: known.licence,
            about: known.about,
        }
    });
    let generated = Family::ALL.into_iter().map(|family| Listed {
        name: family.name(),
        title: format!("drawn by lmc, for {}", family.stands_for()),
        classes: 10,
        train: 10 * u64::from(TRAIN_PER_CLASS),
        test: 10 * u64::from(TEST_PER_CLASS),
        present: true,
        path: None,
        damaged: None,
        layout: None,
        train_here: Some(10 * u64::from(TRAIN_PER_CLASS)),
        test_here: Some(10 * u64::from(TEST_PER_CLASS)),
        licence: "that of lmc",
        about: "generated from a seed, on every machine the same",
    });
    let sets: Vec<Listed> = known.chain(generated).collect();
    if json {
        return print_json(&sets);
    }
    let row = |set: &Listed| {
        let place = match (&set.path, set.present) {
            (Some(path), _) => path.display().to_string(),
            (None, true) => "generated".to_owned(),
            (None, false) if set.damaged.is_some() => "damaged".to_owned(),
            (None, false) => "-".to_owned(),
        };
        let counts = |train: u64, test: u64| format!("{} / {}", grouped(train), grouped(test));
        let here = match (set.train_here, set.test_here) {
            (Some(train), Some(test)) => counts(train, test),
            _ => "-".to_owned(),
        };
        let source = counts(set.train, set.test);
        vec![set.name.into(), set.classes.to_string(), source, here, place, set.licence.into()]
    };
    let titles = ["data set", "classes", "train / test", "here", "where", "licence"];
    let right = ["classes", "train / test", "here"];
    print_text(&table(&titles, &right, sets.iter().map(row).collect()))?;
    for set in &sets {
        if let Some(problem) = &set.damaged {
            print(&format!("note: {}: {problem}", set.name))?;
        }
    }
    print("")?;
    print(&format!("Searched: {}. Get one: lmc data get mnist", dirs.describe()))
}

fn get_all(names: &[String], data_dir: Option<&Path>) -> Result<()> {
    // All names are looked up before anything is downloaded.
    let sets =
        names.iter().map(|name| known::find(name)).collect::<lmc_streams::Result<Vec<&KnownDataset>>>()?;
    let Some(dir) = DataDirs::download_dir(data_dir) else {
        bail!("no folder to put data into: name one with --data-dir, or set LMC_DATA");
    };
    for set in sets {
        let mut bar = ProgressBar::hidden();
        let got = get(set, &dir, &mut |progress| match progress {
            Progress::Started { file, bytes, bytes_so_far } => {
                bar = download_bar(bytes, file);
                bar.set_position(bytes_so_far);
            }
            Progress::Received { bytes_so_far } => bar.set_position(bytes_so_far),
            Progress::Retrying { address, reason } => {
                bar.println(format!("{address}: {reason}; trying again"));
            }
            Progress::TryingMirror { address, reason } => {
                bar.println(format!("{reason}; now from {address}"));
            }
            Progress::Replacing { file } => bar.println(format!("{file} is another file: replacing it")),
            Progress::Verifying { file } => bar.set_message(format!("{file}: checking")),
            Progress::Unpacking { file } => bar.set_message(format!("{file}: unpacking")),
            Progress::Done { .. } | Progress::AlreadyThere { .. } => bar.finish_and_clear(),
        })?;
        let count = |files: &[String]| files.len();
        print(&format!(
            "{}: {} file(s) downloaded, {} already there, in {}",
            set.name,
            count(&got.downloaded),
            count(&got.already_there),
            got.folder.display()
        ))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Checked {
    dataset: String,
    file: PathBuf,
    right: bool,
    condition: String,
}

fn verify_all(names: &[String], catalog: &Catalog, json: bool) -> Result<()> {
    let mut checked = Vec::new();
    let all = names.is_empty();
    let wanted = known::all().iter().map(|known| known.name.to_owned());
    let names: Vec<String> = if all { wanted.collect() } else { names.to_vec() };
    for name in &names {
        let set = known::find(name)?;
        let located = match catalog.locate(name) {
            Err(_) if all => continue,
            located => located?,
        };
        let busy = spinner(format!("checking {name}"));
        let root = located.path.parent().unwrap_or(Path::new("."));
        let mut files = verify_listed(root, name)?;
        if files.is_empty() {
            // Only what is here can be wrong; a set may also lie here in a form of which no checksum is known.
            files = verify(set, &located.path)?;
            files.retain(|file| file.condition != Condition::Absent);
        }
        busy.finish_and_clear();
        if files.is_empty() {
            let condition = format!("here as {}, of which no checksum is known", located.layout());
            let (dataset, file) = (name.clone(), located.path.clone());
            checked.push(Checked { dataset, file, right: true, condition });
        }
        checked.extend(files.into_iter().map(|file| check(name, file)));
    }
    let wrong = checked.iter().filter(|file| !file.right).count();
    if json {
        print_json(&checked)?;
    } else if checked.is_empty() {
        print(&format!("nothing to verify: no data set in {}", catalog.dirs().describe()))?;
    } else {
        let row = |c: &Checked| vec![c.dataset.clone(), c.file.display().to_string(), c.condition.clone()];
        print_text(&table(&["data set", "file", "condition"], &[], checked.iter().map(row).collect()))?;
    }
    if wrong > 0 {
        bail!("{wrong} file(s) are not the official ones: move them away and run 'lmc data get'");
    }
    Ok(())
}

fn check(dataset: &str, file: Verified) -> Checked {
    let condition = match &file.condition {
        Condition::Right => "right".to_owned(),
        Condition::RightAsListed => "right, as the README of the data lists it".to_owned(),
        Condition::Absent => "absent".to_owned(),
        Condition::Unpacked => "unpacked; the archive itself is gone".to_owned(),
        Condition::WrongSize { found } => format!("wrong: {found} bytes instead of {}", file.bytes),
        Condition::WrongChecksum { found } => format!("wrong: SHA-256 {found} instead of {}", file.sha256),
    };
    let right = file.is_right() || file.condition == Condition::Unpacked;
    Checked { dataset: dataset.to_owned(), file: file.path, right, condition }
}

#[derive(Serialize)]
struct Shown {
    name: String,
    classes: Vec<ShownClass>,
    shape: [usize; 3],
    substitution: Option<String>,
}

#[derive(Serialize)]
struct ShownClass {
    name: String,
    train: usize,
    val: usize,
    test: usize,
}

fn show(name: &str, catalog: &Catalog, json: bool, path: Option<&Path>) -> Result<()> {
    const PER_CLASS: usize = 10;
    let busy = spinner(format!("reading {name}"));
    let (name, substitution) = catalog.resolve(name)?;
    let survey = catalog.survey(&name, 32)?;
    // Ten images a class from the training split, or from the test split where there is no other.
    let split = if has(&survey, Split::Train) { Split::Train } else { Split::Test };
    let last =
        |label: u32| survey.split(split).get(label as usize)?.iter().take(PER_CLASS).next_back().copied();
    let keep = |of: Split, label: u32, rank: u32| of == split && last(label).is_some_and(|last| rank <= last);
    let dataset = catalog.read(&name, 32, &keep)?;
    let shape = dataset.shape();
    if let Some(path) = path {
        let mut page = dataset.clone();
        page.train = Arc::clone(dataset.split(split).unwrap_or(&dataset.train));
        sheet::write_png(&sheet::of_dataset(&page, &survey), path)
            .with_context(|| format!("the picture {} was not written", path.display()))?;
    }
    busy.finish_and_clear();
    let count = |split: Split, label: usize| survey.split(split).get(label).map_or(0, Vec::len);
    let class = |(label, name): (usize, &String)| ShownClass {
        name: name.clone(),
        train: count(Split::Train, label),
        val: count(Split::Val, label),
        test: count(Split::Test, label),
    };
    let classes: Vec<ShownClass> = survey.classes.iter().enumerate().map(class).collect();
    if json {
        let shape = [shape.channels, shape.height, shape.width];
        return print_json(&Shown { name: dataset.name, classes, shape, substitution });
    }
    let total = |split: Split| survey.split(split).iter().map(Vec::len).sum::<usize>() as u64;
    let [train, val, test] = Split::ALL.map(|split| grouped(total(split)));
    let row = |(label, class): (usize, &ShownClass)| {
        let counts = [class.train, class.val, class.test].map(|count| grouped(count as u64));
        [vec![label.to_string(), class.name.clone()], counts.to_vec()].concat()
    };
    const SHOWN: usize = 60;
    let rows = classes.iter().enumerate().take(SHOWN).map(row).collect();
    let size = format!("{} x {} pixels, {} channel(s)", shape.width, shape.height, shape.channels);
    print(&format!(
        "{}: {} classes, {size}; {train} train, {val} val, {test} test",
        dataset.name,
        classes.len()
    ))?;
    print("")?;
    print_text(&table(
        &["label", "class", "train", "val", "test"],
        &["label", "train", "val", "test"],
        rows,
    ))?;
    if classes.len() > SHOWN {
        print(&format!("... and {} more classes", classes.len() - SHOWN))?;
    }
    if let Some(text) = substitution {
        print(&format!("Substitution: {text}"))?;
    }
    match path {
        Some(path) => {
            print("")?;
            print(&format!("Picture: {}", path.display()))
        }
        None => Ok(()),
    }
}

fn has(survey: &Survey, split: Split) -> bool {
    survey.split(split).iter().any(|ranks| !ranks.is_empty())
}
