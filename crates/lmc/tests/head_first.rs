//! Laws of finding the head first: what a task knows of its images never changes, order does not matter, and what a head
//! says of an image does not depend on the company that the image comes in.
#![allow(clippy::unwrap_used)]

mod small;

use std::path::Path;

use lmc::internals::inference::signature::{Signature, statistics};
use lmc::internals::inference::{BatchPrior, HeadChoice, Routing};
use lmc::internals::network::head::HeadSelection;
use lmc::internals::tensors::images;
use lmc::{Device, Model, Picture, Protocol, TaskData, TestSet};
use lmc_streams::{BatchConfig, Task};
use small::{learn, learner, task};

/// A model that finds heads by signature and knows these families.
fn knowing(families: &[&str], seed: u64) -> Model {
    let mut model = learner(seed);
    model.config.prediction.head_choice = HeadChoice::Signature;
    model.config.prediction.routing = Routing::AsLearned;
    for (number, family) in families.iter().enumerate() {
        learn(&mut model, family, number);
    }
    model
}

fn pictures(family: &str, count: usize) -> Vec<Picture> {
    let set = task(family).test.thinned(count);
    (0..set.len()).map(|at| set.picture(at)).collect()
}

/// Log-likelihoods of each picture, by name of the task.
fn evidence(model: &Model, pictures: &[Picture]) -> Vec<Vec<(String, f64)>> {
    let found = model.predictor().unwrap().evidence(pictures).unwrap().unwrap();
    let by_name = |tasks: Vec<lmc::TaskEvidence>| {
        let mut tasks: Vec<_> = tasks.into_iter().map(|found| (found.task, found.log_likelihood)).collect();
        tasks.sort_by(|a, b| a.0.cmp(&b.0));
        tasks
    };
    found.into_iter().map(by_name).collect()
}

#[test]
fn single_pictures_find_their_task() {
    let model = knowing(&["digits", "textures", "garments"], 7);
    for family in ["digits", "textures", "garments"] {
        let found = model.predict_all(&pictures(family, 40), Protocol::Single, None).unwrap();
        let own = found.iter().filter(|found| found.task == family).count();
        assert!(own >= 38, "{own} of 40 {family}");
        for prediction in &found {
            let tasks: f64 = prediction.tasks.iter().map(|task| task.posterior).sum();
            assert!((tasks - 1.0).abs() < 1e-9);
            let others: f64 = prediction.alternatives.iter().map(|class| class.probability).sum();
            assert!(prediction.probability > 0.0 && prediction.probability + others <= 1.0 + 1e-9);
        }
    }
}

#[test]
fn another_task_changes_nothing_of_what_is_known() {
    let mut model = knowing(&["digits", "textures"], 7);
    let known = |model: &Model| {
        let heads = model.network.heads[..2].iter();
        heads.map(|head| (head.signature.clone(), head.route.clone())).collect::<Vec<_>>()
    };
    let given = |model: &Model| model.predict_all(&pictures("digits", 16), Protocol::Single, Some("digits"));
    let (before, answers) = (known(&model), given(&model).unwrap());
    learn(&mut model, "garments", 2);
    assert_eq!(known(&model), before);
    assert_eq!(given(&model).unwrap(), answers, "bit for bit, with the task given");
}

#[test]
fn scores_do_not_depend_on_the_order_of_tasks_and_merging_commutes() {
    let (a, b) = (knowing(&["digits", "textures"], 1), knowing(&["garments"], 2));
    let ab = Model::merge([a.clone(), b.clone()]).unwrap();
    let ba = Model::merge([b, a.clone()]).unwrap();
    let shown = [pictures("digits", 8), pictures("garments", 8)].concat();
    for (one, other) in evidence(&ab, &shown).iter().zip(evidence(&ba, &shown)) {
        for ((task, one), (same, other)) in one.iter().zip(other) {
            assert_eq!(*task, same);
            assert!((one - other).abs() <= 1e-3 * (1.0 + one.abs()), "{task}: {one} and {other}");
        }
    }
    let answer = |model: &Model| {
        let found = model.predict_all(&shown, Protocol::Single, None).unwrap();
        found.into_iter().map(|found| (found.task, found.class)).collect::<Vec<_>>()
    };
    assert_eq!(answer(&ab), answer(&ba));
    // What a task says of an image, it says after a merge too.
    let given = |model: &Model| model.predict_all(&shown, Protocol::Single, Some("textures")).unwrap();
    for (alone, merged) in given(&a).iter().zip(given(&ab)) {
        assert_eq!((&alone.class, alone.probability), (&merged.class, merged.probability));
    }
}

#[test]
fn an_image_is_classified_alike_alone_in_a_batch_and_in_mixed_company() {
    let model = knowing(&["digits", "textures"], 7);
    let predictor = model.predictor().unwrap();
    let set = task("digits").test;
    let batch = BatchConfig::stored(16).init(&set).unwrap().next().unwrap();
    let all = images(&batch, predictor.device());
    let together = predictor.predict(&all, BatchPrior::Shared, HeadSelection::Sample).unwrap();
    for (at, one) in BatchConfig::stored(1).init(&set).unwrap().take(16).enumerate() {
        let one = images(&one, predictor.device());
        let alone = predictor.predict(&one, BatchPrior::PerImage, HeadSelection::Sample).unwrap();
        assert_eq!(alone.heads[0], together.heads[at]);
        for (a, b) in alone.logits[0].iter().zip(&together.logits[at]) {
            assert!((a - b).abs() < 1e-4, "{a} and {b}");
        }
    }
    // A batch of one task is the sum of its images.
    let batch = predictor.predict(&all, BatchPrior::Shared, HeadSelection::Batch).unwrap();
    assert!(batch.heads.iter().all(|&head| head == 0), "{:?}", batch.heads);
}

#[test]
fn with_one_task_it_always_answers() {
    let model = knowing(&["digits"], 3);
    let strange = [Picture::filled(32, 32, [0, 0, 0]), Picture::filled(32, 32, [255, 0, 255])];
    for found in model.predict_all(&strange, Protocol::Single, None).unwrap() {
        assert_eq!((found.task.as_str(), found.tasks[0].posterior), ("digits", 1.0));
    }
}

#[test]
fn heads_with_the_same_names_help_each_other() {
    // Two halves of one family: the names are the same, and which half an image is of cannot matter.
    let half = |name: &str, odd: usize| {
        let whole = task("digits");
        let positions: Vec<usize> = (0..whole.train.len()).filter(|at| at % 2 == odd).collect();
        Task { name: name.into(), train: whole.train.part(&positions), ..whole }
    };
    let mut model = knowing(&[], 5);
    for (name, odd) in [("one", 0), ("two", 1)] {
        model.learn(&half(name, odd)).unwrap();
    }
    let found = model.predict_all(&pictures("digits", 20), Protocol::Single, None).unwrap();
    let both = found.iter().filter(|found| found.tasks.len() == 2).count();
    assert!(both > 0, "no image was close to both");
    for prediction in &found {
        let mut names: Vec<&str> = prediction.alternatives.iter().map(|class| class.class.as_str()).collect();
        names.push(&prediction.class);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name stands once, whichever heads have it");
    }
    let set = task("digits").test;
    let evaluated = model.evaluate(&[TestSet { task: 0, images: &set, normalisation: None }]).unwrap();
    let single = &evaluated[0].single;
    assert!(single.named >= single.strict, "a right name of the other half is right by name only");
    assert_eq!(single.named, single.correct, "with equal names in equal order, labels are names");
}

#[test]
fn negligible_modules_do_not_run() {
    let mut model = knowing(&["digits", "textures"], 7);
    let ran = |model: &Model| {
        let found = model.predict_all(&pictures("textures", 8), Protocol::Single, Some("textures")).unwrap();
        found.iter().map(|found| found.module_weights.concat().iter().filter(|w| **w > 0.0).count()).max()
    };
    let weights = model.network.heads[1].route.as_ref().unwrap().weights.clone();
    let smallest = weights.concat().into_iter().fold(1.0, f64::min);
    assert!(weights.iter().any(|layer| layer.len() > 1) && smallest > 0.0, "{weights:?}");
    model.config.prediction.negligible_weight = 0.0;
    let all = ran(&model);
    model.config.prediction.negligible_weight = 0.99;
    assert!(ran(&model) < all);
    assert_eq!(ran(&model), Some(model.network.layers.len()), "one module of each layer");
}

#[test]
fn impossible_statistics_in_a_file_are_refused() {
    let good = knowing(&["digits"], 3);
    let read = |model: &Model| {
        let bytes = model.to_bytes(Path::new("m.lmc")).unwrap();
        Model::from_bytes(&bytes, Path::new("m.lmc"), &Device::flex())
    };
    let whole = read(&good).unwrap();
    assert_eq!(whole.network.heads[0].signature, good.network.heads[0].signature);
    assert_eq!(whole.network.heads[0].route, good.network.heads[0].route);
    let forgeries: [fn(&mut Signature); 4] = [
        |signature| signature.counts[0] = -1.0,
        |signature| signature.counts.fill(0.0),
        |signature| signature.within[0] = -0.5,
        |signature| signature.within.truncate(statistics::TRIANGLE - 1),
    ];
    for (number, forge) in forgeries.into_iter().enumerate() {
        let mut model = good.clone();
        let mut signature = (**model.network.heads[0].signature.as_ref().unwrap()).clone();
        forge(&mut signature);
        model.network.heads[0].signature = Some(signature.into());
        let refused = match model.to_bytes(Path::new("m.lmc")) {
            Ok(bytes) => Model::from_bytes(&bytes, Path::new("m.lmc"), &Device::flex()).is_err(),
            Err(_) => true,
        };
        assert!(refused, "forgery {number}");
    }
    let mut model = good.clone();
    model.network.heads[0].route.as_mut().unwrap().weights[0].push(0.5);
    let error = read(&model).unwrap_err().to_string();
    assert!(error.contains("route of task 'digits'"), "{error}");
}

#[test]
fn a_model_without_signatures_is_calibrated_task_by_task() {
    let mut model = knowing(&["digits", "textures"], 7);
    model.config.prediction.head_choice = HeadChoice::TaskGaussian;
    let learned = model.network.heads.clone();
    for head in &mut model.network.heads {
        (head.signature, head.route) = (None, None);
    }
    let old = model.predict_all(&pictures("digits", 8), Protocol::Single, None).unwrap();
    model.config.prediction.head_choice = HeadChoice::Signature;
    let fallen_back = model.predict_all(&pictures("digits", 8), Protocol::Single, None).unwrap();
    assert_eq!(fallen_back, old, "without signatures heads are chosen by their scores");
    model.config.prediction.head_choice = HeadChoice::TaskGaussian;
    assert_eq!(model.predictor().unwrap().without_signature(), ["digits", "textures"]);
    model.recalibrate(TaskData::from(&task("digits"))).unwrap();
    assert_eq!(model.config.prediction.head_choice, HeadChoice::TaskGaussian, "one is missing still");
    model.recalibrate(TaskData::from(&task("textures"))).unwrap();
    assert_eq!(model.config.prediction.head_choice, HeadChoice::Signature);
    for (now, then) in model.network.heads.iter().zip(learned) {
        assert_eq!((&now.signature, &now.route), (&then.signature, &then.route), "as when it was learned");
    }
}
