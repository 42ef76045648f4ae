//! Novelty: how well images of no learned task are told from known ones, on the networks of finished runs of LMC.
//!
//! | unknown images | known images |
//! | --- | --- |
//! | a data set of the stream, after its tasks were forgotten | test images of the other tasks |
//! | tiny-imagenet, generated families, noise, single colours | test images of all tasks |
//! | digits of the stream, inverted or turned by a quarter | test images of all tasks |
//!
//! Forgetting a task removes its head, its signature and the modules that no other head sees. Modules that later tasks were
//! trained behind stay, so that the network may have seen what it calls new; a network that was trained without the task
//! would not have. What is measured of a run is kept in its directory (`novelty.json`).

use burn::tensor::Device;
use lmc::Model;
use lmc::internals::inference::novelty::Novelty;
use lmc::internals::inference::{HeadChoice, Routing};
use lmc_streams::generated::Family;
use lmc_streams::{Catalog, Picture, Seed, Split, Stream, Task, TaskSet, Transform};
use serde::{Deserialize, Serialize};

use crate::detection::Detection;
use crate::error::Result;
use crate::measured;
use crate::records::RunRecord;
use crate::report::Spread;

/// The set whose pictures are of no stream but the longest.
const STRANGERS: &str = "tiny-imagenet";

/// Side of the pictures that are made here.
const SIDE: usize = 32;

/// What a rule makes of unknown images.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleDetection {
    /// How well they are told from known ones.
    pub detection: Detection,
    /// Share of the unknown images that are called new.
    pub called_new: f64,
    /// Share of the known images that are called new.
    pub false_alarms: f64,
}

/// What becomes of one kind of unknown images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnknownResult {
    /// What the images are.
    pub unknown: String,
    /// How many there are.
    pub images: usize,
    /// By how they look alone.
    pub looks: Option<RuleDetection>,
    /// By their scores alone.
    pub scores: Option<RuleDetection>,
    /// By both rules, as models are asked.
    pub both: Option<RuleDetection>,
}

/// Content of `novelty.json`.
#[derive(Debug, Serialize, Deserialize)]
struct NoveltyFile {
    at_most: usize,
    unknown: Vec<UnknownResult>,
}

/// A run of LMC with what becomes of unknown images.
#[derive(Clone, Debug, Serialize)]
pub struct NoveltyRun {
    /// The stream.
    pub stream: String,
    /// The root seed.
    pub seed: u64,
    /// By kind of unknown images.
    pub unknown: Vec<UnknownResult>,
}

/// Name of the file.
const FILE: &str = "novelty.json";

/// Whether a run is one of LMC that keeps a network, or was measured already.
pub fn concerns(run: &RunRecord) -> bool {
    measured::concerns(run, FILE)
}

/// Measures a run, unless it was. `progress` hears what is being done.
pub fn measure(
    run: &RunRecord,
    at_most: usize,
    catalog: &Catalog,
    device: &Device,
    progress: &mut dyn FnMut(&str),
) -> Result<NoveltyRun> {
    let known: Option<NoveltyFile> = measured::read(run, FILE)?;
    let unknown = match known.filter(|known| known.at_most == at_most) {
        Some(known) => known.unknown,
        None => {
            let (stream, mut model) = measured::load(run, catalog, device, progress)?;
            let prediction = &mut model.config.prediction;
            (prediction.routing, prediction.head_choice) = (Routing::AsLearned, HeadChoice::Signature);
            let mut show = |unknown: &str| progress(&format!("{}: {unknown}", run.directory.display()));
            let unknown = of_model(&model, &stream, at_most, catalog, &mut show)?;
            let found = NoveltyFile { at_most, unknown };
            measured::write(run, FILE, &found)?;
            found.unknown
        }
    };
    Ok(NoveltyRun { stream: run.experiment.stream.clone(), seed: run.experiment.seed, unknown })
}

fn of_model(
    model: &Model,
    stream: &Stream,
    at_most: usize,
    catalog: &Catalog,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<UnknownResult>> {
    let test = |task: &Task| pictures(&task.test.thinned(at_most));
    let mut results = Vec::new();
    for dataset in datasets(stream) {
        progress(&dataset);
        let (left_out, others): (Vec<&Task>, Vec<&Task>) =
            stream.tasks.iter().partition(|task| task.dataset == dataset);
        if others.is_empty() {
            continue;
        }
        let mut without = model.clone();
        for task in &left_out {
            without.forget(&task.name)?;
        }
        let known = novelties(&without, &others.iter().flat_map(|task| test(task)).collect::<Vec<_>>())?;
        let new = novelties(&without, &left_out.iter().flat_map(|task| test(task)).collect::<Vec<_>>())?;
        results.push(UnknownResult::of(format!("{dataset}, forgotten"), &known, &new));
    }
    let known = novelties(model, &stream.tasks.iter().flat_map(test).collect::<Vec<_>>())?;
    for (name, new) in strangers(stream, at_most, catalog)? {
        progress(&name);
        results.push(UnknownResult::of(name, &known, &novelties(model, &new)?));
    }
    Ok(results)
}

fn datasets(stream: &Stream) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for task in &stream.tasks {
        if !found.contains(&task.dataset) {
            found.push(task.dataset.clone());
        }
    }
    found
}

fn pictures(set: &TaskSet) -> Vec<Picture> {
    (0..set.len()).map(|at| set.picture(at)).collect()
}

fn novelties(model: &Model, pictures: &[Picture]) -> Result<Vec<Novelty>> {
    Ok(model.predictor()?.novelties(pictures)?)
}

/// Images of no task of a stream.
fn strangers(stream: &Stream, at_most: usize, catalog: &Catalog) -> Result<Vec<(String, Vec<Picture>)>> {
    let mut found = Vec::new();
    let known = datasets(stream);
    let mut sources: Vec<&str> = Family::ALL.map(Family::name).to_vec();
    if catalog.dirs().locate(STRANGERS)?.is_some() {
        sources.insert(0, STRANGERS);
    }
    for source in sources.into_iter().filter(|source| known.iter().all(|known| known != source)) {
        let read = catalog.read(source, SIDE, &|split, _, rank| split == Split::Test && rank < 50)?;
        let images = read.test;
        found.push((
            source.to_owned(),
            pictures(&TaskSet::of_all(images, 3, Transform::Identity).thinned(at_most)),
        ));
    }
    let mut random = Seed::root(1).named("strangers").random();
    let noise = |_| Picture {
        width: SIDE,
        height: SIDE,
        channels: 3,
        pixels: (0..SIDE * SIDE * 3).map(|_| random.below(256) as u8).collect(),
    };
    found.push(("uniform noise".into(), (0..at_most).map(noise).collect()));
    let mut colour = || [0; 3].map(|_: u8| random.below(256) as u8);
    let flat = (0..at_most).map(|_| Picture::filled(SIDE, SIDE, colour())).collect();
    found.push(("single colours".into(), flat));
    let are_digits =
        |task: &&Task| [Family::Digits.name(), Family::Digits.stands_for()].contains(&&task.dataset[..]);
    if let Some(digits) = stream.tasks.iter().find(are_digits) {
        let digits = pictures(&digits.test.thinned(at_most));
        found.push(("digits, inverted".into(), digits.iter().map(inverted).collect()));
        found.push(("digits, turned by a quarter".into(), digits.iter().map(turned).collect()));
    }
    Ok(found)
}

fn inverted(picture: &Picture) -> Picture {
    Picture { pixels: picture.pixels.iter().map(|&value| 255 - value).collect(), ..picture.clone() }
}

/// The picture turned by a quarter, counter-clockwise.
fn turned(picture: &Picture) -> Picture {
    let Picture { width, height, channels, ref pixels } = *picture;
    let pixel = |row: usize, column: usize| {
        // What is in the last column comes first.
        let at = (column * width + (width - 1 - row)) * channels;
        pixels[at..at + channels].iter().copied()
    };
    let turned = (0..width).flat_map(|row| (0..height).flat_map(move |column| pixel(row, column)));
    Picture { width: height, height: width, channels, pixels: turned.collect() }
}

impl UnknownResult {
    fn of(unknown: String, known: &[Novelty], new: &[Novelty]) -> Self {
        let rule = |level: &dyn Fn(&Novelty) -> Option<f64>| {
            let levels = |all: &[Novelty]| all.iter().map(level).collect::<Option<Vec<f64>>>();
            let (known, new) = (levels(known)?, levels(new)?);
            let share = |all: &[f64]| {
                all.iter().filter(|&&level| level > 1.0).count() as f64 / all.len().max(1) as f64
            };
            Some(RuleDetection {
                detection: Detection::of(&known, &new)?,
                called_new: share(&new),
                false_alarms: share(&known),
            })
        };
        Self {
            unknown,
            images: new.len(),
            looks: rule(&|novelty| novelty.looks),
            scores: rule(&|novelty| novelty.scores),
            both: rule(&|novelty| novelty.level()),
        }
    }
}

/// One kind of unknown images on one stream, over seeds; numbers in %.
#[derive(Clone, Debug, Serialize)]
pub struct NoveltyRow {
    /// The stream.
    pub stream: String,
    /// What the images are.
    pub unknown: String,
    /// Area under the ROC curve: by looks, by scores, by both.
    pub auroc: [Option<Spread>; 3],
    /// Hits at 1 % false alarms, by both.
    pub hits_at_1: Option<Spread>,
    /// Hits at 5 % false alarms, by both.
    pub hits_at_5: Option<Spread>,
    /// Called new, by both, at the limit of the model.
    pub called_new: Option<Spread>,
    /// False alarms at that limit.
    pub false_alarms: Option<Spread>,
}

/// A row for each stream and kind of images, in the order in which they come.
pub fn rows(runs: &[NoveltyRun]) -> Vec<NoveltyRow> {
    let mut rows: Vec<NoveltyRow> = Vec::new();
    for run in runs {
        for result in &run.unknown {
            if rows.iter().any(|row| row.stream == run.stream && row.unknown == result.unknown) {
                continue;
            }
            let same = runs
                .iter()
                .filter(|other| other.stream == run.stream)
                .filter_map(|run| run.unknown.iter().find(|other| other.unknown == result.unknown));
            let same: Vec<&UnknownResult> = same.collect();
            let spread = |of: &dyn Fn(&UnknownResult) -> Option<f64>| {
                let numbers: Option<Vec<f64>> = same.iter().map(|result| Some(100.0 * of(result)?)).collect();
                Spread::of(&numbers?)
            };
            let auroc = |rule: Option<RuleDetection>| Some(rule?.detection.auroc);
            rows.push(NoveltyRow {
                stream: run.stream.clone(),
                unknown: result.unknown.clone(),
                auroc: [
                    spread(&|result| auroc(result.looks)),
                    spread(&|result| auroc(result.scores)),
                    spread(&|result| auroc(result.both)),
                ],
                hits_at_1: spread(&|result| Some(result.both?.detection.hits_at_1)),
                hits_at_5: spread(&|result| Some(result.both?.detection.hits_at_5)),
                called_new: spread(&|result| Some(result.both?.called_new)),
                false_alarms: spread(&|result| Some(result.both?.false_alarms)),
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_turned_and_inverted() {
        let picture = Picture { width: 2, height: 2, channels: 1, pixels: vec![1, 2, 3, 4] };
        assert_eq!(turned(&picture).pixels, [2, 4, 1, 3]);
        let wide = Picture { width: 3, height: 1, channels: 1, pixels: vec![1, 2, 3] };
        assert_eq!((turned(&wide).width, turned(&wide).pixels), (1, vec![3, 2, 1]));
        assert_eq!(inverted(&picture).pixels, [254, 253, 252, 251]);
    }

    #[test]
    fn both_rules_call_new_what_either_does() {
        let novelty = |looks: f64, scores: f64| Novelty { looks: Some(looks), scores: Some(scores) };
        let known = [novelty(0.0, 0.5), novelty(0.9, 0.2)];
        let new = [novelty(1.5, 0.0), novelty(0.1, 2.0)];
        let found = UnknownResult::of("x".into(), &known, &new);
        let both = found.both.unwrap();
        assert_eq!((both.called_new, both.false_alarms, both.detection.auroc), (1.0, 0.0, 1.0));
        assert_eq!(found.looks.unwrap().called_new, 0.5);
        // 1.5 is above both known ones, 0.1 above one of them.
        assert_eq!(found.looks.unwrap().detection.auroc, 0.75);
        let blind = Novelty { looks: Some(2.0), scores: None };
        let found = UnknownResult::of("x".into(), &known, &[blind]);
        assert!(found.scores.is_none() && found.both.unwrap().called_new == 1.0);
    }

    #[test]
    fn rows_are_spreads_over_seeds() {
        let novelty = |level: f64| Novelty { looks: Some(level), scores: None };
        let run = |seed: u64, level: f64| NoveltyRun {
            stream: "s".into(),
            seed,
            unknown: vec![UnknownResult::of("noise".into(), &[novelty(0.0)], &[novelty(level)])],
        };
        let rows = rows(&[run(1, 2.0), run(2, 0.5)]);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].called_new.unwrap().mean, 50.0);
        assert!(rows[0].auroc[1].is_none() && rows[0].auroc[2].unwrap().mean == 100.0);
    }
}
