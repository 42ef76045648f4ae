//! What users may count on when a data set is downloaded: against a small server of our own on this machine.

#![allow(clippy::unwrap_used)] // also in what the tests share

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::{Compression, write::GzEncoder};
use lmc_streams::datasets::get::{GetConfig, Got, Progress, WantedFile, get_files};
use lmc_streams::datasets::known::Unpack;
use lmc_streams::datasets::verify::sha256_of;
use proptest::prelude::*;

mod server;
use server::{Manner, Server};

/// Bytes that differ from position to position.
fn content(length: usize) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn impatient() -> GetConfig {
    GetConfig {
        attempts: 3,
        back_off: Duration::from_millis(5),
        connect_timeout: Duration::from_secs(2),
        stall_timeout: Duration::from_millis(300),
        lowest_rate: 1024,
        proxy: false,
    }
}

/// A new data folder; the files are to come into `set` in it.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("set")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Puts a file there beforehand.
    fn put(&self, name: &str, bytes: &[u8]) {
        fs::create_dir_all(self.folder()).unwrap();
        fs::write(self.file(name), bytes).unwrap();
    }

    fn wanted(&self, bytes: &[u8], addresses: &[String]) -> WantedFile {
        let sample = self.root.path().join("sample");
        fs::write(&sample, bytes).unwrap();
        let sha256 = sha256_of(&sample).unwrap();
        fs::remove_file(sample).unwrap();
        WantedFile {
            name: "a.bin".to_owned(),
            addresses: addresses.to_vec(),
            sha256,
            bytes: bytes.len() as u64,
            unpack: Unpack::Keep,
        }
    }

    fn get(&self, wanted: &WantedFile) -> Result<Got, String> {
        self.get_telling(wanted, &mut |_| ())
    }

    fn get_telling(
        &self,
        wanted: &WantedFile,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Got, String> {
        let result = get_files("set", std::slice::from_ref(wanted), &self.folder(), &impatient(), progress);
        result.map_err(|error| {
            let line = error.to_string();
            assert!(!line.contains('\n'), "more than one line: {line}");
            line
        })
    }

    /// Names in the folder; none, when there is no folder.
    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.folder()) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn assert_same(path: &Path, bytes: &[u8]) {
    assert!(fs::read(path).unwrap() == bytes, "{} has other bytes", path.display());
}

#[test]
fn a_file_arrives_whole_and_is_not_fetched_twice() {
    let (place, bytes) = (Place::new(), content(300_000));
    let server = Server::start(&bytes, &[Manner::Whole]);
    let wanted = place.wanted(&bytes, &[server.address("a.bin")]);
    let mut events = Vec::new();
    let got = place.get_telling(&wanted, &mut |event| events.push(format!("{event:?}"))).unwrap();
    assert_eq!(got.downloaded, ["a.bin"]);
    assert_same(&place.file("a.bin"), &bytes);
    assert_eq!(place.names(), ["a.bin"]);
    assert!(events[0].starts_with("Started") && events[1].starts_with("Received"), "{events:?}");
    assert!(events.iter().any(|event| event == "Received { bytes_so_far: 300000 }"), "{events:?}");
    assert_eq!(events[events.len() - 2..], ["Verifying { file: \"a.bin\" }", "Done { file: \"a.bin\" }"]);

    let got = place.get(&wanted).unwrap();
    assert_eq!((got.downloaded.len(), got.already_there.len()), (0, 1));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_cut_download_goes_on_from_where_it_stopped() {
    let (place, bytes) = (Place::new(), content(200_000));
    let server = Server::start(&bytes, &[Manner::CutAfter(70_000), Manner::Whole]);
    place.get(&place.wanted(&bytes, &[server.address("a.bin")])).unwrap();
    assert_same(&place.file("a.bin"), &bytes);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!((requests[0].range, requests[1].range), (None, Some(70_000)));
    assert_eq!(requests[1].sent, 130_000);
}

#[test]
fn what_arrived_before_giving_up_serves_the_next_run() {
    let (place, bytes) = (Place::new(), content(100_000));
    let server = Server::start(&bytes, &[Manner::CutAfter(40_000), Manner::CutAfter(0)]);
    let wanted = place.wanted(&bytes, &[server.address("a.bin")]);
    let error = place.get(&wanted).unwrap_err();
    assert!(error.contains("keeps breaking") && error.contains("is kept"), "{error}");
    assert_eq!(server.requests().len(), 3);
    assert_eq!(place.names(), ["a.bin.part"]);

    let server = Server::start(&bytes, &[Manner::Whole]);
    place.get(&WantedFile { addresses: vec![server.address("a.bin")], ..wanted }).unwrap();
    assert_eq!((server.requests()[0].range, server.requests()[0].sent), (Some(40_000), 60_000));
    assert_same(&place.file("a.bin"), &bytes);
    assert_eq!(place.names(), ["a.bin"]);
}

#[test]
fn servers_that_cannot_resume_are_asked_for_the_whole() {
    for first in [Manner::IgnoreRange, Manner::Status(416), Manner::WrongRange] {
        let (place, bytes) = (Place::new(), content(50_000));
        let server = Server::start(&bytes, &[first, Manner::Whole]);
        place.put("a.bin.part", &bytes[..20_000]);
        place.get(&place.wanted(&bytes, &[server.address("a.bin")])).unwrap();
        assert_same(&place.file("a.bin"), &bytes);
        let requests = server.requests();
        assert_eq!(requests[0].range, Some(20_000), "{first:?}");
        assert_eq!(requests.last().unwrap().sent, 50_000, "{first:?}");
    }
}

#[test]
fn a_stalled_or_busy_server_is_asked_again() {
    for first in [Manner::StallAfter(10_000), Manner::Status(503), Manner::CutBeforeAnswer] {
        let (place, bytes) = (Place::new(), content(50_000));
        let server = Server::start(&bytes, &[first, Manner::Whole]);
        let started = Instant::now();
        place.get(&place.wanted(&bytes, &[server.address("a.bin")])).unwrap();
        assert_same(&place.file("a.bin"), &bytes);
        assert_eq!(server.requests().len(), 2, "{first:?}");
        assert!(started.elapsed() < Duration::from_secs(3), "{first:?}: {:?}", started.elapsed());
    }
}

#[test]
fn a_server_that_sends_a_byte_now_and_then_is_given_up_and_the_mirror_goes_on() {
    let (place, bytes) = (Place::new(), content(50_000));
    let drip = Server::start(&bytes, &[Manner::DripAfter(10_000)]);
    let mirror = Server::start(&bytes, &[Manner::Whole]);
    let started = Instant::now();
    place.get(&place.wanted(&bytes, &[drip.address("a.bin"), mirror.address("a.bin")])).unwrap();
    assert_same(&place.file("a.bin"), &bytes);
    assert_eq!(drip.requests().len(), 3);
    assert!(mirror.requests()[0].range.is_some_and(|from| from >= 10_000));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());

    let place = Place::new();
    let alone = Server::start(&bytes, &[Manner::DripAfter(10_000)]);
    let line = place.get(&place.wanted(&bytes, &[alone.address("a.bin")])).unwrap_err();
    assert!(line.contains("less than 1024 bytes a second"), "{line}");
}

#[test]
fn a_wrong_file_is_thrown_away_and_the_mirror_asked() {
    let (place, bytes) = (Place::new(), content(50_000));
    let mut other = bytes.clone();
    other[49_999] ^= 1;
    let (wrong, right) = (Server::start(&other, &[Manner::Whole]), Server::start(&bytes, &[Manner::Whole]));
    let wanted = place.wanted(&bytes, &[wrong.address("a.bin"), right.address("a.bin")]);
    let mut mirrors = Vec::new();
    place
        .get_telling(&wanted, &mut |event| {
            if let Progress::TryingMirror { address, reason } = event {
                mirrors.push((address.to_owned(), reason.to_owned()));
            }
        })
        .unwrap();
    assert_same(&place.file("a.bin"), &bytes);
    assert_eq!(right.requests()[0].range, None, "the wrong bytes must not be built upon");
    assert_eq!(mirrors.len(), 1);
    assert!(mirrors[0].0 == wanted.addresses[1] && mirrors[0].1.contains("SHA-256"), "{mirrors:?}");
}

#[test]
fn when_every_address_has_a_wrong_file_nothing_is_left_and_both_sums_are_named() {
    let (place, bytes) = (Place::new(), content(50_000));
    let other = content(50_001)[1..].to_vec();
    let server = Server::start(&other, &[Manner::Whole]);
    let wanted = place.wanted(&bytes, &[server.address("a.bin"), server.address("b/a.bin")]);
    let found = place.wanted(&other, &[]).sha256;
    let error = place.get(&wanted).unwrap_err();
    assert!(error.contains(&wanted.sha256) && error.contains(&found), "{error}");
    assert!(error.contains(&wanted.addresses[0]) && error.contains(place.folder().to_str().unwrap()));
    assert!(!place.folder().exists(), "{:?}", place.names());
}

#[test]
fn absent_too_short_too_long_and_endless_files_lead_to_the_mirror() {
    let bytes = content(50_000);
    for (manner, length, reason) in [
        (Manner::Status(404), 50_000, "answered 404"),
        (Manner::Whole, 49_999, "has 49999 bytes instead of 50000"),
        (Manner::Whole, 50_001, "has 50001 bytes instead of 50000"),
        (Manner::WithoutLength, 400_000, "more than 50000 bytes"),
    ] {
        let place = Place::new();
        let first = Server::start(&content(length), &[manner]);
        let mirror = Server::start(&bytes, &[Manner::Whole]);
        let wanted = place.wanted(&bytes, &[first.address("a.bin"), mirror.address("a.bin")]);
        let mut reasons = Vec::new();
        let mut note = |event: Progress<'_>| {
            if let Progress::TryingMirror { reason, .. } = event {
                reasons.push(reason.to_owned());
            }
        };
        place.get_telling(&wanted, &mut note).unwrap();
        assert!(reasons.len() == 1 && reasons[0].contains(reason), "{reasons:?}");
        assert_eq!(mirror.requests()[0].range, None, "{manner:?}");
        assert_same(&place.file("a.bin"), &bytes);
    }
}

#[test]
fn a_file_without_a_stated_length_arrives() {
    let (place, bytes) = (Place::new(), content(90_000));
    let server = Server::start(&bytes, &[Manner::WithoutLength]);
    place.get(&place.wanted(&bytes, &[server.address("a.bin")])).unwrap();
    assert_same(&place.file("a.bin"), &bytes);
}

#[test]
fn redirects_are_followed() {
    let (place, bytes) = (Place::new(), content(30_000));
    let server = Server::start(&bytes, &[Manner::Redirect, Manner::Redirect, Manner::Whole]);
    place.get(&place.wanted(&bytes, &[server.address("a.bin")])).unwrap();
    assert_same(&place.file("a.bin"), &bytes);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn offline_is_one_line_with_the_address_and_the_folder() {
    let place = Place::new();
    let closed = Server::closed_address("a.bin");
    let wanted = place.wanted(b"abc", std::slice::from_ref(&closed));
    let second = WantedFile { name: "b.bin".to_owned(), ..wanted.clone() };
    let started = Instant::now();
    let error = get_files("set", &[wanted, second], &place.folder(), &impatient(), &mut |_| ())
        .unwrap_err()
        .to_string();
    assert!(started.elapsed() < Duration::from_secs(3));
    assert!(error.contains("offline") && !error.contains('\n'), "{error}");
    assert_eq!(error.matches(&closed).count(), 2, "an address for each file: {error}");
    assert!(error.contains(place.folder().to_str().unwrap()), "{error}");
    assert!(!place.folder().exists(), "an empty folder looks like a data set");
}

#[test]
fn a_name_that_cannot_be_looked_up_is_offline_at_once() {
    // No name server knows an empty label, and none is asked.
    let place = Place::new();
    let wanted = place.wanted(b"abc", &["http://no..where/a.bin".to_owned()]);
    let mut events = Vec::new();
    let error = place.get_telling(&wanted, &mut |event| events.push(format!("{event:?}"))).unwrap_err();
    assert!(error.contains("offline") && error.contains("no..where"), "{error}");
    assert_eq!(events.len(), 1, "asked once, not again: {events:?}");
}

#[test]
fn a_file_where_the_folder_should_be_is_named_with_the_cure() {
    let (place, bytes) = (Place::new(), content(10));
    fs::write(place.folder(), "not a folder").unwrap();
    let server = Server::start(&bytes, &[Manner::Whole]);
    let error = place.get(&place.wanted(&bytes, &[server.address("a.bin")])).unwrap_err();
    assert!(error.contains(place.folder().to_str().unwrap()) && error.contains("in the way"), "{error}");
    assert_eq!(server.requests().len(), 0);
    assert_eq!(fs::read_to_string(place.folder()).unwrap(), "not a folder");
}

/// Runs itself once more in a process that may write 32 kB into a file: what follows then fails as on a full disk.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_with_the_cure() {
    const NAME: &str = "a_full_disk_is_named_with_the_cure";
    if std::env::var_os("LMC_TEST_SMALL_FILES").is_none() {
        let program = std::env::current_exe().unwrap();
        let limited = "ulimit -f 64 && trap '' XFSZ && exec \"$0\" \"$@\"";
        let mut child = std::process::Command::new("sh");
        child.args(["-c", limited]).arg(program).args(["--exact", NAME]).env("LMC_TEST_SMALL_FILES", "1");
        let found = child.output().unwrap();
        let text = String::from_utf8_lossy(&found.stdout);
        assert!(found.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let (place, bytes) = (Place::new(), content(100_000));
    let server = Server::start(&bytes, &[Manner::Whole]);
    let addresses = [server.address("a.bin"), server.address("b/a.bin")];
    // What the file should be does not matter: it never gets whole.
    let wanted = WantedFile { bytes: bytes.len() as u64, ..place.wanted(&bytes[..10], &addresses) };
    let error = place.get(&wanted).unwrap_err();
    assert!(error.contains("a.bin.part") && error.contains("free some space"), "{error}");
    assert_eq!(server.requests().len(), 1, "no mirror helps against a full disk");
    assert!(!place.file("a.bin").exists());
}

#[test]
fn leftovers_that_cannot_be_right_are_started_again() {
    let bytes = content(50_000);
    let mut wrong = bytes.clone();
    wrong[7] ^= 1;
    for part in [content(60_000), wrong.clone(), wrong[..30_000].to_vec()] {
        let place = Place::new();
        let server = Server::start(&bytes, &[Manner::Whole]);
        place.put("a.bin.part", &part);
        place.get(&place.wanted(&bytes, &[server.address("a.bin")])).unwrap();
        assert_same(&place.file("a.bin"), &bytes);
        assert_eq!(place.names(), ["a.bin"]);
    }
}

#[test]
fn a_complete_part_needs_no_server() {
    let (place, bytes) = (Place::new(), content(50_000));
    place.put("a.bin.part", &bytes);
    place.get(&place.wanted(&bytes, &[Server::closed_address("a.bin")])).unwrap();
    assert_same(&place.file("a.bin"), &bytes);
}

#[test]
fn a_wrong_file_of_that_name_stays_until_the_right_one_is_complete() {
    let (place, bytes) = (Place::new(), content(50_000));
    place.put("a.bin", b"something else");
    let wanted = place.wanted(&bytes, &[Server::closed_address("a.bin")]);
    place.get(&wanted).unwrap_err();
    assert_same(&place.file("a.bin"), b"something else");
    let server = Server::start(&bytes, &[Manner::Whole]);
    let mut replacing = false;
    place
        .get_telling(&WantedFile { addresses: vec![server.address("a.bin")], ..wanted }, &mut |event| {
            replacing |= matches!(event, Progress::Replacing { .. });
        })
        .unwrap();
    assert!(replacing);
    assert_same(&place.file("a.bin"), &bytes);
}

#[test]
fn two_at_once_do_not_disturb_each_other() {
    let (place, bytes) = (Place::new(), content(50_000));
    let server = Server::start(&bytes, &[Manner::Whole]);
    let wanted = place.wanted(&bytes, &[server.address("a.bin")]);
    let mut second = None;
    place
        .get_telling(&wanted, &mut |event| {
            if matches!(event, Progress::Started { .. }) {
                second = Some(place.get(&wanted).unwrap_err());
            }
        })
        .unwrap();
    let error = second.unwrap();
    assert!(error.contains("another lmc is getting 'set'") && error.contains("wait"), "{error}");
    assert_same(&place.file("a.bin"), &bytes);
    assert_eq!(server.requests().len(), 1);
}

/// A gzipped tar archive; names are written raw.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, bytes) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        tar.append(&header, *bytes).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn wanted_archive(place: &Place, bytes: &[u8], server: &Server) -> WantedFile {
    let unpack = Unpack::TarGz { folder: "dtd", limit: 1 << 20 };
    WantedFile { unpack, ..place.wanted(bytes, &[server.address("a.bin")]) }
}

#[test]
fn an_archive_is_unpacked_once() {
    let place = Place::new();
    let bytes = archive(&[("dtd/images/a.jpg", b"picture"), ("dtd/labels/train1.txt", b"a.jpg\n")]);
    let server = Server::start(&bytes, &[Manner::Whole]);
    let wanted = wanted_archive(&place, &bytes, &server);
    assert_eq!(place.get(&wanted).unwrap().unpacked, [place.file("dtd")]);
    assert_same(&place.file("dtd/images/a.jpg"), b"picture");
    assert_eq!(place.names(), ["a.bin", "dtd"]);
    // Without the archive the folder is enough; without the folder the archive is.
    fs::rename(place.file("a.bin"), place.root.path().join("aside")).unwrap();
    assert_eq!(place.get(&wanted).unwrap().already_there, ["a.bin"]);
    fs::rename(place.root.path().join("aside"), place.file("a.bin")).unwrap();
    fs::remove_dir_all(place.file("dtd")).unwrap();
    place.get(&wanted).unwrap();
    assert_same(&place.file("dtd/images/a.jpg"), b"picture");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn an_archive_that_leaves_its_folder_is_refused_and_nothing_is_unpacked() {
    let place = Place::new();
    let bytes = archive(&[("dtd/good", b"fine"), ("../evil", b"bad")]);
    let server = Server::start(&bytes, &[Manner::Whole]);
    let error = place.get(&wanted_archive(&place, &bytes, &server)).unwrap_err();
    assert!(error.contains("a.bin, entry '../evil': leads out of the folder"), "{error}");
    assert_eq!(place.names(), ["a.bin"]);
    assert!(!place.root.path().join("evil").exists());
}

#[test]
fn an_interrupted_unpacking_leaves_no_folder_and_can_be_done_again() {
    let place = Place::new();
    let whole = archive(&[("dtd/a", &content(40_000)), ("dtd/b", &content(40_000))]);
    let half = &whole[..whole.len() / 2];
    let server = Server::start(half, &[Manner::Whole]);
    let error = place.get(&wanted_archive(&place, half, &server)).unwrap_err();
    assert!(error.contains("cannot be unpacked"), "{error}");
    assert_eq!(place.names(), ["a.bin"]);
    // As after a kill: a draft lies there, the folder does not.
    fs::create_dir_all(place.file(".dtd.unpacking/dtd/half")).unwrap();
    let server = Server::start(&whole, &[Manner::Whole]);
    place.get(&wanted_archive(&place, &whole, &server)).unwrap();
    assert_eq!(place.names(), ["a.bin", "dtd"]);
    assert!(!place.file("dtd/half").exists() && place.file("dtd/b").exists());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Wherever the connection breaks, and however often, the file is the same in the end and no byte
    /// that had arrived is sent again.
    #[test]
    fn any_cuts_give_the_same_file(
        length in 1_usize..300_000,
        cuts in prop::collection::vec(0_usize..90_000, 0..5),
    ) {
        let (place, bytes) = (Place::new(), content(length));
        let manners: Vec<_> = cuts.iter().map(|&n| Manner::CutAfter(n)).chain([Manner::Whole]).collect();
        let server = Server::start(&bytes, &manners);
        let config = GetConfig { attempts: 9, back_off: Duration::from_micros(1), ..impatient() };
        let wanted = place.wanted(&bytes, &[server.address("a.bin")]);
        get_files("set", &[wanted], &place.folder(), &config, &mut |_| ()).unwrap();
        assert_same(&place.file("a.bin"), &bytes);
        prop_assert_eq!(server.requests().iter().map(|request| request.sent).sum::<usize>(), length);
    }
}
