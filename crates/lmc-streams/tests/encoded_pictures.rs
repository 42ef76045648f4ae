//! A user's own pictures, in folders or listed in a CSV: read as documented, and explained when bad.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod picture_tree;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use image::ImageFormat;
use lmc_streams::formats::{dtd, folder, manifest, omniglot, read_any};
use lmc_streams::{Catalog, DataDirs, Dataset, Prepare, ReadOptions, Result, Split};
use picture_tree::{all, encode, png, tree};
use tempfile::TempDir;

/// The message of a failure: one line, with a cure.
fn message(result: Result<Dataset>) -> String {
    let text = result.unwrap_err().to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

#[test]
fn a_folder_of_classes() {
    let dir = tree(&[
        ("zebra/b.PNG", &png(3)),
        ("zebra/a.webp", &encode(2, 2, 2, ImageFormat::WebP)),
        ("zebra/deep/er/c.png", &png(4)),
        ("ant/x.Jpeg", &encode(1, 2, 2, ImageFormat::Jpeg)),
        ("ant/notes.txt", b"ignored"),
        ("ant/.hidden.png", b"ignored"),
        (".git/x.png", b"ignored"),
        ("readme.md", b"ignored"),
    ]);
    let data = read_any(dir.path(), &all()).unwrap();
    assert_eq!(data.classes, ["ant", "zebra"]);
    let first = |at| data.train.image(at)[0];
    assert_eq!([0, 1, 2, 3].map(first), [1, 2, 3, 4]);
    assert_eq!([0, 1, 2, 3].map(|at| data.train.rank(at)), [0, 0, 1, 2]);
    assert_eq!(data.name, dir.path().file_name().unwrap().to_str().unwrap());
    assert!(data.val.is_none() && data.test.is_empty());
}

#[test]
fn a_folder_of_splits_and_what_is_kept() {
    let dir = tree(&[
        ("train/a/1.png", &png(1)),
        ("train/b/1.png", b"broken, but not wanted"),
        ("train/b/2.png", &png(2)),
        ("valid/a/1.png", &png(3)),
        ("test/b/1.png", &png(4)),
    ]);
    let keep = |split, label, rank| (split, label, rank) != (Split::Train, 1, 0);
    let data = folder::read(dir.path(), &ReadOptions::keeping(Prepare::AS_IS, &keep)).unwrap();
    assert_eq!((data.train.len(), data.val.as_ref().unwrap().len(), data.test.len()), (2, 1, 1));
    assert_eq!(data.train.source_counts(), [1, 2]);
    assert_eq!((data.test.label(0), data.train.rank(1)), (1, 1));
    let text = message(folder::read(dir.path(), &all()));
    assert_says(&text, &["train/b/1.png: this is not a PNG", "; convert it"]);
}

#[test]
fn without_train_a_folder_called_test_is_a_class() {
    let dir = tree(&[("test/1.png", &png(1)), ("val/1.png", &png(2))]);
    assert_eq!(folder::read(dir.path(), &all()).unwrap().classes, ["test", "val"]);
}

#[test]
fn one_class_only_is_fine() {
    assert_eq!(folder::read(tree(&[("a/1.png", &png(1))]).path(), &all()).unwrap().len(), 1);
}

#[test]
fn sizes_that_differ() {
    let wide = encode(0, 3, 2, ImageFormat::Png);
    let dir = tree(&[("a/1.png", &png(1)), ("b/2.png", &wide)]);
    let text = message(folder::read(dir.path(), &all()));
    assert_says(&text, &["b/2.png, class 'b'", "3 x 2", "2 x 2", "ask for a size"]);
    let resized = folder::read(dir.path(), &ReadOptions::all(Prepare::rgb_square(4))).unwrap();
    assert_eq!((resized.len(), resized.shape().width), (2, 4));
}

#[test]
fn an_empty_class_folder() {
    let dir = tree(&[("a/1.png", &png(1)), ("b/readme.txt", b"")]);
    assert_says(
        &message(folder::read(dir.path(), &all())),
        &["/b: class 'b' has no picture", "; add pictures"],
    );
}

#[test]
fn a_class_only_in_test() {
    let dir = tree(&[("train/a/1.png", &png(1)), ("test/b/1.png", &png(1))]);
    let text = message(folder::read(dir.path(), &all()));
    assert_says(&text, &["test/b: class 'b' is not among the training classes", "; add training pictures"]);
}

#[test]
fn a_stray_folder_beside_train() {
    let dir = tree(&[("train/a/1.png", &png(1)), ("holdout/a/1.png", &png(1))]);
    assert_says(
        &message(folder::read(dir.path(), &all())),
        &["/holdout: a folder beside 'train'", "; rename it"],
    );
}

#[test]
fn a_giant_picture() {
    // A 1 x 1 PNG whose header is changed to 60,000 x 60,000, with the checksum to match.
    let mut giant = encode(0, 1, 1, ImageFormat::Png);
    giant[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let mut crc = flate2::Crc::new();
    crc.update(&giant[12..29]);
    giant[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    let dir = tree(&[("a/giant.png", &giant)]);
    assert_says(
        &message(folder::read(dir.path(), &all())),
        &["a/giant.png: the picture is larger", "smaller"],
    );
}

#[test]
fn a_name_that_is_not_utf8() {
    let dir = tree(&[("a/1.png", &png(1))]);
    fs::write(dir.path().join("a").join(OsStr::from_bytes(b"\xff2.png")), png(2)).unwrap();
    let text = message(folder::read(dir.path(), &all()));
    assert_says(&text, &["'\u{fffd}2.png' is not valid UTF-8; rename it"]);
}

#[test]
fn a_broken_link() {
    let dir = tree(&[("a/1.png", &png(1))]);
    symlink("nowhere.png", dir.path().join("a/2.png")).unwrap();
    assert_says(
        &message(folder::read(dir.path(), &all())),
        &["a/2.png: a link that leads nowhere", "; repair"],
    );
}

#[test]
fn links_are_followed_but_not_in_circles() {
    let dir = tree(&[("a/1.png", &png(1)), ("b/1.png", &png(2))]);
    symlink(dir.path().join("a"), dir.path().join("a/again")).unwrap();
    symlink(dir.path().join("b/1.png"), dir.path().join("a/link.png")).unwrap();
    let data = folder::read(dir.path(), &all()).unwrap();
    assert_eq!(data.train.source_counts(), [2, 1], "a: its own and the linked one, once each");
    symlink(dir.path(), dir.path().join("b/up")).unwrap();
    assert_says(&message(folder::read(dir.path(), &all())), &["b/up", "leads back up", "; remove the link"]);
}

#[test]
fn a_truncated_picture_and_a_text_called_png() {
    let whole = encode(9, 40, 40, ImageFormat::Png);
    let dir = tree(&[("a/cut.png", &whole[..whole.len() / 2])]);
    assert_says(
        &message(folder::read(dir.path(), &all())),
        &["a/cut.png: the PNG picture is damaged", "intact copy"],
    );
    let dir = tree(&[("a/text.png", b"just some words")]);
    assert_says(
        &message(folder::read(dir.path(), &all())),
        &["a/text.png: this is not a PNG", "; convert it"],
    );
}

#[test]
fn a_missing_folder_and_unknown_forms() {
    assert_says(
        &message(read_any(Path::new("/no/such/place"), &all())),
        &["/no/such/place", "check the path"],
    );
    assert_says(&message(folder::read(Path::new("/no/such/place"), &all())), &["cannot read /no/such/place"]);
    let dir = tree(&[("data.xlsx", b"")]);
    let forms = ["one subfolder of pictures per class", ".csv", ".npz", ".parquet"];
    assert_says(&message(read_any(&dir.path().join("data.xlsx"), &all())), &forms);
    assert_says(&message(read_any(dir.path(), &all())), &forms);
}

#[test]
fn a_csv_list() {
    let csv = "label , extra, split,path\n10,x,,i/a.png\n9,\"y,z\",Test,i/b.png\n10,,validation,i/a.png\n";
    let dir = tree(&[("list.csv", csv.as_bytes()), ("i/a.png", &png(1)), ("i/b.png", &png(2))]);
    let data = read_any(&dir.path().join("list.csv"), &all()).unwrap();
    // Numbers are sorted as numbers.
    assert_eq!(data.classes, ["9", "10"]);
    assert_eq!((data.name.as_str(), data.train.len(), data.test.len()), ("list", 1, 1));
    assert_eq!((data.train.label(0), data.test.image(0)[0], data.val.unwrap().len()), (1, 2, 1));
}

#[test]
fn bad_csv_lists() {
    let cases: [(&[u8], &[&str]); 11] = [
        (b"path,label\na.png,x\ngone.png,y\n", &["list.csv, line 3: there is no file", "gone.png'; correct"]),
        (
            b"path,label\na.png,x\ntext.png,y\n",
            &["list.csv, line 3: '", "text.png': this is not a PNG", "; conv"],
        ),
        (b"path,label\na.png,x\nwide.png,y\n", &["list.csv, line 3: the image is 3 x 2", "ask for a size"]),
        (b"path,label\na.png,x\n\xff.png,y\n", &["line 3: not valid UTF-8; save the file as UTF-8"]),
        (b"path,label\na.png,x\nb.png,x,train\n", &["line 3: 3 fields where the first line has 2; make"]),
        (b"path,label\na.png,\n", &["line 2: the label is empty; fill it in"]),
        (b"path,label\n,x\n", &["line 2: the path is empty; fill it in"]),
        (
            b"path,label,split\na.png,x,holdout\n",
            &["line 2: unknown split 'holdout'; write train, val or test"],
        ),
        (b"file,class\na.png,x\n", &["no column path and no column label; begin the file with"]),
        (b"path,label\n", &["it lists no pictures; add a line"]),
        (b"", &["no column path and no column label"]),
    ];
    for (csv, parts) in cases {
        let wide = encode(0, 3, 2, ImageFormat::Png);
        let dir = tree(&[("list.csv", csv), ("a.png", &png(1)), ("text.png", b"words"), ("wide.png", &wide)]);
        assert_says(&message(manifest::read(&dir.path().join("list.csv"), &all())), parts);
    }
}

fn dtd_files(train: &str) -> TempDir {
    tree(&[
        ("dtd/images/banded/banded_0001.jpg", &png(1)),
        ("dtd/images/banded/banded_0002.jpg", &png(2)),
        ("dtd/images/zigzagged/zigzagged_0001.jpg", &png(3)),
        ("dtd/labels/train1.txt", train.as_bytes()),
        ("dtd/labels/val1.txt", b"banded/banded_0001.jpg\n"),
        ("dtd/labels/test1.txt", b"banded/banded_0002.jpg\n\n"),
    ])
}

#[test]
fn dtd_joins_train_and_val_in_list_order() {
    let dir = dtd_files("zigzagged/zigzagged_0001.jpg\nbanded/banded_0002.jpg\n");
    for root in [dir.path().to_owned(), dir.path().join("dtd")] {
        let data = dtd::read(&root, &all()).unwrap();
        assert_eq!(data.classes, ["banded", "zigzagged"]);
        assert_eq!([0, 1, 2].map(|at| data.train.image(at)[0]), [3, 2, 1]);
        assert_eq!([0, 1, 2].map(|at| data.train.rank(at)), [0, 0, 1]);
        assert_eq!((data.val.is_none(), data.test.len()), (true, 1));
    }
}

#[test]
fn bad_dtd_lists() {
    for (line, part) in [
        ("banded/banded_0009.jpg", "train1.txt, line 1: there is no file"),
        ("banded/../../secret.jpg", "train1.txt, line 1: 'banded/../../secret.jpg' is not class/file"),
        ("woven/woven_0001.jpg", "train1.txt, line 1: 'woven/woven_0001.jpg' is not class/file"),
    ] {
        assert_says(&message(dtd::read(dtd_files(line).path(), &all())), &[part, "; "]);
    }
    let empty = TempDir::new().unwrap();
    assert_says(&message(dtd::read(empty.path(), &all())), &["no folders 'images' and 'labels'", "; unpack"]);
}

#[test]
fn sets_of_pictures_are_found_by_name() {
    let dir = tree(&[
        ("dtd/dtd/images/banded/a.jpg", &png(1)),
        ("dtd/dtd/labels/train1.txt", b"banded/a.jpg\n"),
        ("dtd/dtd/labels/val1.txt", b""),
        ("dtd/dtd/labels/test1.txt", b"banded/a.jpg\n"),
        ("omniglot/images_background/Greek/character01/0393_01.png", &png(0)),
        ("mini-imagenet/train/n02/1.png", &png(1)),
        ("mini-imagenet/val/n01/1.png", &png(2)),
        ("mini-imagenet/test/n03/1.png", &png(3)),
    ]);
    let catalog = Catalog::new(DataDirs::only(dir.path()));
    let read = |name: &str| catalog.read(name, 32, &|_, _, _| true).unwrap();
    assert_eq!((read("dtd").train.len(), read("dtd").shape().width), (1, 32));
    // Black ink at the source, white in the paper.
    assert_eq!((read("omniglot").train.image(0)[0], read("omniglot").shape().width), (255, 28));
    // The classes of the three parts differ; labels count through them.
    assert_eq!(read("mini-imagenet").classes, ["n02", "n01", "n03"]);
    assert_eq!(read("mini-imagenet").train.len(), 3);
    let twice = tree(&[("train/a/1.png", &png(1)), ("test/a/1.png", &png(1))]);
    assert_says(
        &message(folder::read_class_splits(twice.path(), &all())),
        &["class 'a' occurs twice", "; every"],
    );
}

#[test]
fn bad_omniglot_folders() {
    let empty = TempDir::new().unwrap();
    assert_says(&message(omniglot::read(empty.path(), &all())), &["no drawing", "; put the two zip files"]);
    let text = tree(&[("images_background/Greek/character01/0393_01.png", b"words")]);
    assert_says(
        &message(omniglot::read(text.path(), &all())),
        &["0393_01.png: this is not a PNG", "; convert"],
    );
}
