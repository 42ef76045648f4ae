//! Pipes, devices, sockets and folders where a file should be: said at once, never waited for or read without end.
#![cfg(unix)]
#![allow(clippy::panic)]

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lmc_streams::datasets::verify::sha256_of;
use lmc_streams::formats::{cifar, idx, mat, read_any};
use lmc_streams::regular_file::{open_file, read_file};
use lmc_streams::{Picture, Prepare, ReadOptions, Split, StreamFile};

/// Runs something that must not hang. The thread of one that does is left behind: the test has failed anyway.
fn in_time<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(run()));
    receiver.recv_timeout(Duration::from_secs(5)).unwrap_or_else(|_| panic!("{what} hangs"))
}

/// The message with which each reader refuses a path.
fn refusals(path: &Path) -> Vec<(&'static str, String)> {
    fn options() -> ReadOptions<'static> {
        ReadOptions::all(Prepare::rgb_square(16))
    }
    type Refuse = fn(&Path) -> Option<lmc_streams::Error>;
    let readers: [(&str, Refuse); 10] = [
        ("open", |path| open_file(path).err()),
        ("read", |path| read_file(path, 1 << 20).err()),
        ("picture", |path| Picture::open(path).err()),
        ("stream file", |path| StreamFile::read(path).err()),
        ("list", |path| lmc_streams::formats::manifest::read(path, &options()).err()),
        ("npz", |path| lmc_streams::formats::npz::read(path, &options()).err()),
        ("parquet", |path| {
            let files = [(Split::Train, path.to_owned())];
            lmc_streams::formats::parquet::read("x", &files, None, &options()).err()
        }),
        ("idx", |path| idx::read(path, path, Split::Train, 10, &options()).err()),
        ("mat", |path| mat::read(path, Split::Train, &options()).err()),
        ("checksum", |path| sha256_of(path).err()),
    ];
    readers
        .into_iter()
        .map(|(name, refuse)| {
            let path = path.to_owned();
            let error = in_time(name, move || refuse(&path));
            (name, error.unwrap_or_else(|| panic!("{name} takes it")).to_string())
        })
        .collect()
}

fn pipe(path: &Path) -> bool {
    Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success())
}

#[test]
fn every_reader_names_what_is_no_regular_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    let _listener = UnixListener::bind(at("socket")).unwrap();
    let mut cases: Vec<(PathBuf, &str)> =
        vec![("/dev/zero".into(), "device"), (at("folder"), "folder"), (at("socket"), "socket")];
    if pipe(&at("pipe")) {
        symlink(at("pipe"), at("link")).unwrap();
        cases.extend([(at("pipe"), "pipe"), (at("link"), "pipe")]);
    } else {
        eprintln!("skipped: there is no mkfifo here, so pipes are not tried");
    }
    for (path, kind) in cases {
        for (reader, error) in refusals(&path) {
            let expected = format!("{}: this is a {kind}, not a regular file; name a file", path.display());
            assert_eq!(error, expected, "{reader}");
        }
    }
}

#[test]
fn an_archive_that_is_a_pipe_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cifar.tar.gz");
    if !pipe(&path) {
        return eprintln!("skipped: there is no mkfifo here");
    }
    let error = in_time("cifar", move || {
        cifar::read(&path, cifar::Kind::Ten, &ReadOptions::all(Prepare::AS_IS)).unwrap_err().to_string()
    });
    assert!(error.contains("this is a pipe"), "{error}");
}

#[test]
fn a_list_names_the_line_whose_picture_is_a_pipe_or_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.csv");
    let mut cases = vec![("/dev/zero", "device")];
    if pipe(&folder.path().join("pipe.png")) {
        cases.push(("pipe.png", "pipe"));
    }
    for (picture, kind) in cases {
        fs::write(&list, format!("path,label\n{picture},a\n")).unwrap();
        let path = list.clone();
        let error = in_time(kind, move || {
            read_any(&path, &ReadOptions::all(Prepare::rgb_square(16))).unwrap_err().to_string()
        });
        assert!(error.contains("list.csv, line 2") && error.contains(&format!("a {kind}")), "{error}");
    }
}
