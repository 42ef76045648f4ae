//! What users may count on when they bring pictures of their own: nothing is dropped silently, and pictures are
//! prepared for training as for predictions.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod picture_tree;

use std::fs;
use std::path::Path;

use image::ImageFormat;
use lmc_streams::formats::{folder, manifest};
use lmc_streams::{
    Catalog, DataDirs, FitKind, OwnTask, Picture, Preparation, ReadOptions, Resampling, Seed, Split,
    pictures_below,
};
use picture_tree::{all, encode, png, tree};
use tempfile::TempDir;

fn skipping() -> ReadOptions<'static> {
    ReadOptions { skip_damaged: true, ..all() }
}

fn own(preparation: Preparation) -> OwnTask {
    OwnTask { name: "t".into(), preparation, val_fraction: 0.0, seed: Seed::root(1), skip_damaged: false }
}

fn nothing() -> Catalog {
    Catalog::new(DataDirs::default())
}

#[test]
fn other_files_are_counted_and_not_dropped_silently() {
    let text: &[u8] = b"text";
    let dir = tree(&[
        ("ant/1.png", &png(1)),
        ("ant/notes.txt", text),
        ("ant/raw/1.HEIC", text),
        ("bee/1.png", &png(2)),
        ("bee/1.heic", text),
        ("bee/LICENSE", text),
        ("bee/.hidden.txt", text),
        ("loose.png", &png(3)),
    ]);
    let (task, report) =
        own(Preparation::default()).read_with_report(dir.path().to_str().unwrap(), &nothing()).unwrap();
    assert_eq!(task.train.len(), 2);
    let line = "5 files skipped: 2 .heic, 1 without extension, 1 .png, 1 .txt";
    assert_eq!(report.left_out.lines(), [line]);
    assert_eq!((report.classes[1].name.as_str(), report.classes[1].train), ("bee", 1));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["classes"][0], serde_json::json!({"name": "ant", "train": 1, "val": 0, "test": 0}));
    assert_eq!(json["skipped"]["heic"], 2);
    let listing = pictures_below(&dir.path().join("bee")).unwrap();
    assert_eq!((listing.pictures.len(), listing.skipped.total()), (1, 2));
}

#[test]
fn split_folders_in_any_case_and_the_usual_spellings() {
    for [train, val, test] in
        [["Train", "VALID", "Test"], ["training", "Validation", "testing"], ["TRAIN", "dev", "TEST"]]
    {
        let dir = tree(&[
            (&format!("{train}/a/1.png"), &png(1)),
            (&format!("{train}/b/1.png"), &png(2)),
            (&format!("{val}/a/1.png"), &png(3)),
            (&format!("{test}/b/1.png"), &png(4)),
            ("readme.md", b"text"),
            (&format!("{test}/list.txt"), b"text"),
        ]);
        let data = folder::read(dir.path(), &all()).unwrap();
        assert_eq!(data.classes, ["a", "b"], "{train}");
        assert_eq!(data.val.unwrap().image(0)[0], 3, "{val}");
        assert_eq!(data.test.image(0)[0], 4, "{test}");
        assert_eq!(data.left_out.skipped.to_string(), "2 files skipped: 1 .md, 1 .txt");
    }
    for [first, second] in [["training", "val"], ["Train", "val"], ["train", "valid"]] {
        let other = if second == "val" { "train" } else { "val" };
        let files = [first, second, other].map(|split| format!("{split}/a/1.png"));
        let picture = png(1);
        let dir = tree(&files.each_ref().map(|file| (file.as_str(), &picture[..])));
        let error = folder::read(dir.path(), &all()).unwrap_err().to_string();
        let both = if second == "val" { [first, other] } else { [second, other] };
        assert!(both.iter().all(|name| error.contains(&format!("'{name}'"))), "{error}");
        assert!(error.contains("both folders of") && error.contains("; join the two"), "{error}");
    }
}

#[test]
fn all_damaged_pictures_are_named_at_once_or_left_out() {
    let cut = &encode(9, 40, 40, ImageFormat::Png)[..60];
    let good = encode(5, 40, 40, ImageFormat::Png);
    let mut files: Vec<(String, &[u8])> =
        vec![("train/a/good.png".into(), &good), ("test/b/good.png".into(), &good)];
    files.extend((0..12).map(|at| (format!("train/b/{at:02}.png"), cut)));
    files.extend([("train/b/good.png".into(), &good[..]), ("test/a/text.png".into(), b"words")]);
    let dir = tree(&files.iter().map(|(name, content)| (name.as_str(), *content)).collect::<Vec<_>>());
    let error = folder::read(dir.path(), &all()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: 13 damaged pictures: ", dir.path().display())), "{error}");
    assert!(error.contains("train/b/00.png (the PNG picture is damaged"), "{error}");
    assert!(
        error.contains("09.png") && !error.contains("10.png") && error.contains("and 3 more;"),
        "{error}"
    );
    assert!(!error.contains('\n') && error.ends_with("leave them out with --skip-damaged"), "{error}");
    let data = folder::read(dir.path(), &skipping()).unwrap();
    assert_eq!((data.train.len(), data.test.len(), data.left_out.damaged.len()), (2, 1, 13));
    // What was left out is counted at the source: ranks stay those of the folder.
    assert_eq!((data.train.source_counts(), data.train.rank(1)), (&[1, 13][..], 12));
    let last = data.left_out.damaged.last().unwrap();
    assert!(last.place.ends_with("test/a/text.png") && last.problem.contains("not a PNG"), "{last:?}");

    let task = OwnTask { skip_damaged: true, ..own(Preparation::default()) };
    let (_, report) = task.read_with_report(dir.path().to_str().unwrap(), &nothing()).unwrap();
    assert!(report.left_out.lines()[0].starts_with("13 damaged pictures left out: "));
    assert_eq!((report.pictures(Split::Train), report.pictures(Split::Test)), (2, 1));
}

#[test]
fn the_damaged_pictures_of_a_list_are_named_by_their_lines() {
    let csv = b"path,label\na.png,x\ngone.png,x\ntext.png,y\na.png,y\n";
    let dir = tree(&[("list.csv", csv), ("a.png", &png(1)), ("text.png", b"words")]);
    let list = dir.path().join("list.csv");
    let error = manifest::read(&list, &all()).unwrap_err().to_string();
    assert!(
        error.contains("2 damaged pictures: ") && error.contains("list.csv, line 3 (there is no file"),
        "{error}"
    );
    assert!(
        error.contains("list.csv, line 4 ('") && error.contains("text.png': this is not a PNG"),
        "{error}"
    );
    let data = manifest::read(&list, &skipping()).unwrap();
    assert_eq!((data.train.len(), data.left_out.damaged.len()), (2, 2));
}

#[test]
fn a_class_without_intact_pictures_is_an_error_even_when_damage_is_skipped() {
    let dir = tree(&[("a/1.png", &png(1)), ("b/1.png", b"words")]);
    let task = OwnTask { skip_damaged: true, ..own(Preparation::default()) };
    let error = task.read(dir.path().to_str().unwrap(), &nothing()).unwrap_err().to_string();
    assert!(error.contains("class 'b' has no training images"), "{error}");
}

/// Ten images of 28 x 28 pixels as IDX files, and the same as pictures.
fn small_mnist() -> (TempDir, Vec<Picture>) {
    let value = |image: usize, at: usize| ((image * 31 + at * at * 7 + at / 28 * 13) % 256) as u8;
    let pictures: Vec<Picture> = (0..10)
        .map(|image| {
            let pixels = (0..784).map(|at| value(image, at)).collect();
            Picture { width: 28, height: 28, channels: 1, pixels }
        })
        .collect();
    let mut images = vec![0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 28, 0, 0, 0, 28];
    pictures.iter().for_each(|picture| images.extend(&picture.pixels));
    let labels: Vec<u8> = [0, 0, 8, 1, 0, 0, 0, 10].into_iter().chain(0..10).collect();
    let dir = tree(&[
        ("mnist/train-images-idx3-ubyte", &images),
        ("mnist/train-labels-idx1-ubyte", &labels),
        ("mnist/t10k-images-idx3-ubyte", &images),
        ("mnist/t10k-labels-idx1-ubyte", &labels),
    ]);
    (dir, pictures)
}

#[test]
fn a_known_data_set_is_prepared_as_pictures_for_predictions_are() {
    let (dir, pictures) = small_mnist();
    let catalog = Catalog::new(DataDirs::only(dir.path()));
    for preparation in [
        Preparation::default(),
        Preparation { size: 48, channels: 1, ..Preparation::default() },
        Preparation { fit: FitKind::Stretch, resampling: Resampling::Bilinear, ..Preparation::default() },
    ] {
        let task = own(preparation).read("mnist", &catalog).unwrap();
        assert_eq!(task.train.shape().channels, preparation.channels);
        for (at, picture) in pictures.iter().enumerate() {
            assert_eq!(task.train.picture(at), preparation.apply(picture.clone()), "{preparation:?}");
        }
    }
    // The streams of the paper keep their own rule.
    let paper = catalog.read("mnist", 32, &|_, _, _| true).unwrap();
    assert_ne!(paper.train.picture(0).into_rgb(), Preparation::default().apply(pictures[0].clone()));
}

#[test]
fn a_known_name_comes_before_a_folder_and_a_damaged_set_is_named() {
    let (dir, _) = small_mnist();
    fs::remove_file(dir.path().join("mnist/t10k-labels-idx1-ubyte")).unwrap();
    let catalog = Catalog::new(DataDirs::only(dir.path()));
    let error = own(Preparation::default()).read("mnist", &catalog).unwrap_err().to_string();
    let place = Path::new(dir.path()).join("mnist").display().to_string();
    assert!(error.starts_with(&place) && error.contains("'mnist' is damaged or incomplete"), "{error}");
    assert!(error.contains("lmc data get mnist"), "{error}");
}
