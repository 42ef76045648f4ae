//! Files: a model comes back as it was, a killed training goes on bit for bit, and damage is named, not suffered.
#![allow(clippy::unwrap_used)]

mod small;

use std::path::Path;

use lmc::internals::inference::evaluation::Evaluator;
use lmc::internals::tensors::plain;
use lmc::{Device, Error, Event, Model, Picture, Protocol, TestSet};
use proptest::prelude::*;
use small::{grown, learner, task};

fn bytes(learner: &Model) -> Vec<u8> {
    learner.to_bytes(Path::new("model")).unwrap()
}

fn read(bytes: &[u8]) -> Result<Model, Error> {
    Model::from_bytes(bytes, Path::new("model"), &Device::flex())
}

#[test]
fn a_model_comes_back_as_it_was() {
    let learner = grown();
    let back = read(&bytes(&learner)).unwrap();
    assert_eq!(plain(&back.network), plain(&learner.network));
    assert_eq!(back.config, learner.config);
    assert_eq!(bytes(&back), bytes(&learner));
    for (ours, theirs) in back.network.layers.iter().zip(&learner.network.layers) {
        for (ours, theirs) in ours.modules().iter().zip(theirs.modules()) {
            assert_eq!((&ours.origin, &ours.statistics), (&theirs.origin, &theirs.statistics));
        }
    }
    assert!(back.network.heads.iter().zip(&learner.network.heads).all(|(a, b)| a.gaussian == b.gaussian));
}

/// Learns digits and textures, and at every epoch saves and goes on from the file alone.
#[test]
fn training_resumes_from_its_checkpoint_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut resumed = learner(7);
    for family in ["digits", "textures"] {
        let task = task(family);
        loop {
            let stop = resumed.learn_with(&task, &mut |learner, event| match event {
                Event::EpochEnded { .. } => {
                    learner.save_checkpoint(&17_u32, &path)?;
                    Err(Error::Stopped { done: "an epoch".into() })
                }
                _ => Ok(()),
            });
            match stop {
                Err(Error::Stopped { .. }) => {
                    let (back, number) = Model::load_checkpoint::<u32>(&path, &Device::flex()).unwrap();
                    assert_eq!(number, 17);
                    resumed = back;
                }
                other => break drop(other.unwrap()),
            }
        }
    }
    assert_eq!(bytes(&resumed), bytes(&grown()));
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let learn = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut learner = learner(7);
            small::learn(&mut learner, "digits", 0);
            small::learn(&mut learner, "textures", 1);
            bytes(&learner)
        })
    };
    assert_eq!(learn(1), learn(2));
}

#[test]
fn training_without_a_cache_ends_the_same() {
    let mut uncached = learner(7);
    uncached.config.cache_mib = 0;
    small::learn(&mut uncached, "digits", 0);
    small::learn(&mut uncached, "textures", 1);
    assert_eq!(plain(&uncached.network), plain(&grown().network));
}

fn header(bytes: &[u8]) -> (usize, serde_json::Value) {
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    (8 + length, serde_json::from_slice(&bytes[8..8 + length]).unwrap())
}

fn with_header(header: &serde_json::Value, rest: &[u8]) -> Vec<u8> {
    let text = serde_json::to_vec(header).unwrap();
    [&(text.len() as u64).to_le_bytes()[..], &text, rest].concat()
}

fn problem(bytes: &[u8]) -> String {
    let error = read(bytes).map(drop).unwrap_err();
    assert!(matches!(error, Error::Input(_)), "{error}");
    error.to_string()
}

#[test]
fn damage_is_named() {
    let whole = bytes(&grown());
    let (end, json) = header(&whole);
    assert!(problem(&[]).contains("0 bytes"));
    assert!(problem(&whole[..whole.len() / 2]).contains("not a whole model"));
    assert!(problem(&[&(1_u64 << 30).to_le_bytes()[..], b"{}"].concat()).contains("header claims"));
    let mut flipped = whole.clone();
    flipped[end + 1000] ^= 4;
    assert!(problem(&flipped).contains("checksum"));
    let mut newer = json.clone();
    let document = newer["__metadata__"]["lmc"].as_str().unwrap();
    let changed = document.replace("\"format\":3", "\"format\":9");
    assert_ne!(document, changed);
    newer["__metadata__"]["lmc"] = changed.into();
    assert!(problem(&with_header(&newer, &whole[end..])).contains("update lmc"));
    let mut foreign = json.clone();
    foreign.as_object_mut().unwrap().remove("__metadata__");
    assert!(problem(&with_header(&foreign, &whole[end..])).contains("not a model of lmc"));
    let mut renamed = json;
    let tensor = renamed.as_object_mut().unwrap().remove("layer0.module0.functional.conv.bias").unwrap();
    renamed["layer9.module0.functional.conv.bias"] = tensor;
    assert!(problem(&with_header(&renamed, &whole[end..])).contains("checksum"));
}

#[test]
fn names_and_shapes_are_plain_safetensors() {
    let bytes = bytes(&grown());
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let shape = |name: &str| file.tensor(name).unwrap().shape().to_vec();
    assert_eq!(shape("layer1.module0.functional.conv.weight"), [8, 8, 3, 3]);
    assert_eq!(shape("layer0.module0.structural.deconv2.weight"), [8, 3, 3, 3]);
    assert_eq!(shape("head1.classifier.weight")[0], 10);
    assert_eq!(shape("head0.structural.coupling1.bias").len(), 1);
}

#[test]
#[ignore = "needs python3 with the package safetensors; run with --include-ignored"]
fn python_reads_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    grown().save(&path).unwrap();
    let script = "import sys\nfrom safetensors import safe_open\n\
        f = safe_open(sys.argv[1], framework='numpy')\n\
        assert f.get_slice('layer1.module0.functional.conv.weight').get_shape() == [8, 8, 3, 3]\n\
        assert f.get_tensor('head0.structural.coupling1.bias').ndim == 1\n\
        assert 'lmc' in f.metadata()\n";
    let output = std::process::Command::new("python3").arg("-c").arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_open_task_is_not_mistaken_for_another() {
    let mut model = learner(7);
    let (digits, textures) = (task("digits"), task("textures"));
    model.begin((&digits).into()).unwrap();
    let error = model.learn(&textures).unwrap_err().to_string();
    assert!(error.contains("'textures'") && error.contains("task 'digits' is open"), "{error}");
    let mut smaller = digits.clone();
    smaller.train = smaller.train.thinned(32);
    let error = model.learn(&smaller).unwrap_err().to_string();
    assert!(error.contains("steps per epoch"), "{error}");
    assert_eq!(model.progress(), Some((0, 3)), "nothing was trained");
    model.learn(&digits).unwrap();
}

#[test]
fn whoever_trains_in_steps_gets_novelty_too() {
    let task = task("digits");
    let (mut whole, mut steps) = (learner(7), learner(7));
    whole.learn(&task).unwrap();
    steps.begin((&task).into()).unwrap();
    while steps.progress().is_some_and(|(done, all)| done < all) {
        steps.epoch((&task).into(), &mut |_, _| Ok(())).unwrap();
    }
    steps.finish((&task).into()).unwrap();
    assert!(steps.network.heads[0].gaussian.is_some());
    assert_eq!(bytes(&steps), bytes(&whole));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_damage_is_a_panic(at in 0_usize..4000, byte in any::<u8>(), cut in 0_usize..200_000) {
        let mut bytes = bytes(&grown());
        let length = bytes.len();
        bytes[at % length] = byte;
        let _ = read(&bytes);
        bytes.truncate(length.saturating_sub(cut));
        let _ = read(&bytes);
    }
}

#[test]
fn forged_settings_are_refused() {
    type Forge = fn(&mut Model);
    let forgeries: [(&str, Forge); 4] = [
        ("batch", |model| model.config.batch = usize::MAX),
        ("batch", |model| model.config.batch = 0),
        ("window", |model| model.config.statistics.window = usize::MAX),
        ("epochs", |model| model.config.epochs = usize::MAX),
    ];
    for (field, forge) in forgeries {
        let mut model = grown();
        forge(&mut model);
        // Its checksum fits: who forges a file can compute one.
        let problem = problem(&bytes(&model));
        assert!(problem.contains(field), "{field}: {problem}");
    }
}

#[test]
fn results_that_are_not_finite_are_an_error() {
    let mut model = grown();
    let weight = &mut model.network.heads[0].weight;
    *weight = weight.ones_like() * 3e38;
    let forged = read(&bytes(&model)).unwrap();
    let predictor = forged.predictor().unwrap();
    let picture = Picture::filled(32, 32, [255, 200, 90]);
    for protocol in [Protocol::Single, Protocol::TaskGiven] {
        let error =
            predictor.predict_pictures(std::slice::from_ref(&picture), protocol, Some("digits")).unwrap_err();
        assert!(matches!(error, Error::NotFinite { .. }), "{error}");
    }
    let set = task("digits").test;
    let evaluator = Evaluator {
        classifier: &predictor,
        batch: 16,
        device: predictor.device().clone(),
        outputs: None,
        classes: Vec::new(),
    };
    let set = TestSet { images: &set, task: 0, normalisation: None };
    let error = evaluator.evaluate(&set, &[Protocol::TaskGiven]).unwrap_err();
    assert!(matches!(error, Error::NotFinite { .. }), "{error}");
}
