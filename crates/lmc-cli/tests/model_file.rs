//! A model file that cannot be lost: one owner at a time, what others write meanwhile, kills, modes, names, forged files.
#![allow(clippy::unwrap_used)]

mod machine;
mod pictures_of;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lmc_streams::generated::Family;
use machine::{Machine, Outcome};
use pictures_of::folder;
use serde_json::Value;

const SMALL: &str = "--width 8 --depth 2 --val-fraction 0.3";

/// A machine with a model that has learned digits, and pictures of textures.
fn shop() -> Machine {
    let machine = Machine::new();
    folder(&machine, "digits", Family::Digits, 2, 8);
    folder(&machine, "textures", Family::Textures, 2, 8);
    succeeds(&machine.lmc(&format!("learn shop.lmc --task digits --data digits --epochs 2 {SMALL}")));
    machine
}

fn succeeds(outcome: &Outcome) {
    assert_eq!(outcome.code, 0, "{} {}", outcome.out, outcome.err);
}

fn complains(outcome: &Outcome, code: i32, parts: &[&str]) {
    assert_eq!(outcome.code, code, "{} {}", outcome.out, outcome.err);
    for part in parts {
        assert!(outcome.err.contains(part), "'{part}' is not in: {}", outcome.err);
    }
    assert_eq!(outcome.err.trim_end().lines().filter(|line| line.starts_with("error")).count(), 1);
}

fn tasks(machine: &Machine, model: &str) -> Vec<String> {
    let inspected = machine.lmc(&format!("inspect {model} --json"));
    succeeds(&inspected);
    let inspected: Value = serde_json::from_str(&inspected.out).unwrap();
    let heads = inspected["heads"].as_array().unwrap();
    heads.iter().map(|head| head["task"].as_str().unwrap().to_owned()).collect()
}

/// Starts a process that learns textures for a long time.
fn slow(machine: &Machine) -> Child {
    slow_from(machine, "textures")
}

fn slow_from(machine: &Machine, data: &str) -> Child {
    let words = format!("learn shop.lmc --task {data} --data {data} --epochs 100000 --val-fraction 0.3");
    start(machine, &words)
}

fn start(machine: &Machine, words: &str) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("lmc"));
    command.current_dir(machine.path("")).env_remove("LMC_DATA").env("HOME", machine.path(""));
    command.args(words.split(' ')).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn wait_for(path: &Path) {
    let started = Instant::now();
    while !path.exists() {
        assert!(started.elapsed() < Duration::from_secs(60), "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Files whose names begin with a text.
fn files(machine: &Machine, beginning: &str) -> Vec<String> {
    let names = fs::read_dir(machine.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.retain(|name| name.starts_with(beginning));
    names.sort();
    names
}

/// Row 1 of issue 13: the second of two processes is told who is at work.
#[test]
fn one_process_at_a_time_changes_a_model() {
    let machine = shop();
    let first = slow(&machine);
    wait_for(&machine.path("shop.lmc.partial"));
    let holder = format!("process {}", first.id());
    let second = machine.lmc("learn shop.lmc --task other --data digits");
    complains(&second, 75, &["shop.lmc", &holder, "wait"]);
    complains(&machine.lmc("rename shop.lmc --task digits --to numbers"), 75, &[&holder]);
    complains(&machine.lmc("merge shop.lmc shop.lmc --out shop.lmc --replace"), 75, &[&holder]);
    succeeds(&machine.lmc("inspect shop.lmc"));
    kill(first);
    // What the killed process left does not keep anybody out, and its task goes on.
    complains(&machine.lmc("learn shop.lmc --task other --data digits"), 2, &["textures", "half learned"]);
    assert_eq!(tasks(&machine, "shop.lmc"), ["digits"]);
}

/// Row 1: programs that know nothing of locks lose nothing either.
#[test]
fn a_model_that_another_program_wrote_meanwhile_stays() {
    let machine = shop();
    fs::copy(machine.path("shop.lmc"), machine.path("other.lmc")).unwrap();
    succeeds(&machine.lmc("rename other.lmc --task digits --to numbers"));
    let child = start(&machine, "learn shop.lmc --task textures --data textures --epochs 60");
    wait_for(&machine.path("shop.lmc.partial"));
    fs::copy(machine.path("other.lmc"), machine.path("shop.lmc")).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("another program changed it") && said.contains("shop-2.lmc"), "{said}");
    assert_eq!(tasks(&machine, "shop.lmc"), ["numbers"]);
    assert_eq!(tasks(&machine, "shop-2.lmc"), ["digits", "textures"]);
    succeeds(&machine.lmc("verify shop.lmc shop-2.lmc"));
}

/// Row 1: whoever comes while another works is sent away, and nobody's task is lost.
#[test]
fn many_processes_on_one_file_lose_nothing() {
    let machine = shop();
    let word = |number: usize| {
        format!("learn shop.lmc --task t{number} --data textures --epochs 1 --val-fraction 0.3")
    };
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (machine, word) = (&machine, word(number));
            scope.spawn(move || {
                let started = Instant::now();
                loop {
                    match machine.lmc(&word) {
                        Outcome { code: 0, .. } => break,
                        Outcome { code: 75, .. } => std::thread::sleep(Duration::from_millis(20)),
                        Outcome { code, err, .. } => panic!("{code}: {err}"),
                    }
                    assert!(started.elapsed() < Duration::from_secs(120));
                }
            });
        }
    });
    let mut learned = tasks(&machine, "shop.lmc");
    learned.sort();
    assert_eq!(learned, ["digits", "t0", "t1", "t2", "t3", "t4", "t5"]);
    assert_eq!(files(&machine, "shop"), ["shop.lmc", "shop.lmc.dates"]);
}

/// Row 2: a task goes on only with the data that it was begun with, wherever they lie.
#[test]
fn a_task_does_not_go_on_with_other_data() {
    let machine = shop();
    let child = slow(&machine);
    wait_for(&machine.path("shop.lmc.partial"));
    kill(child);
    let again = "learn shop.lmc --task textures --data textures --epochs 100000 --val-fraction 0.3";
    let classes: Vec<_> =
        fs::read_dir(machine.path("textures")).unwrap().map(|entry| entry.unwrap().path()).collect();
    // A class with another name, in the same place of the alphabet.
    let renamed =
        classes[0].with_file_name(format!("{}x", classes[0].file_name().unwrap().to_string_lossy()));
    fs::rename(&classes[0], &renamed).unwrap();
    complains(&machine.lmc(again), 2, &["shop.lmc.partial", "other data", "delete"]);
    fs::rename(&renamed, &classes[0]).unwrap();
    // Two pictures change their classes: names and numbers are the same.
    let (a, b, aside) = (classes[0].join("0.png"), classes[1].join("0.png"), machine.path("aside.png"));
    for (from, to) in [(&a, &aside), (&b, &a), (&aside, &b)] {
        fs::rename(from, to).unwrap();
    }
    complains(&machine.lmc(again), 2, &["other data"]);
    for (from, to) in [(&a, &aside), (&b, &a), (&aside, &b)] {
        fs::rename(from, to).unwrap();
    }
    // The folder itself may move.
    fs::rename(machine.path("textures"), machine.path("moved")).unwrap();
    let mut child = start(&machine, &again.replace("--data textures", "--data moved"));
    std::thread::sleep(Duration::from_secs(2));
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    kill(child);
}

/// Row 4: killed after the model was saved and before its partial was removed.
#[test]
fn a_partial_whose_task_is_learned_is_dropped() {
    let machine = shop();
    let learn = "learn shop.lmc --task textures --data textures --epochs 3 --val-fraction 0.3";
    let child = slow(&machine);
    wait_for(&machine.path("shop.lmc.partial"));
    kill(child);
    let partial = fs::read(machine.path("shop.lmc.partial")).unwrap();
    fs::remove_file(machine.path("shop.lmc.partial")).unwrap();
    succeeds(&machine.lmc(learn));
    let learned = fs::read(machine.path("shop.lmc")).unwrap();
    fs::write(machine.path("shop.lmc.partial"), &partial).unwrap();
    let again = machine.lmc(learn);
    succeeds(&again);
    assert!(again.out.contains("already from these pictures"), "{}", again.out);
    assert!(!machine.path("shop.lmc.partial").exists());
    assert!(fs::read(machine.path("shop.lmc")).unwrap() == learned);
    fs::write(machine.path("shop.lmc.partial"), &partial).unwrap();
    succeeds(&machine.lmc("learn shop.lmc --task third --data digits --epochs 1"));
}

/// Row 5: a private model stays private, a read-only one stays.
#[cfg(unix)]
#[test]
fn modes_are_kept_and_read_only_models_refused() {
    use std::os::unix::fs::PermissionsExt;
    let machine = shop();
    let path = machine.path("shop.lmc");
    let mode = |name: &str| fs::metadata(machine.path(name)).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let child = slow(&machine);
    wait_for(&machine.path("shop.lmc.partial"));
    assert_eq!((mode("shop.lmc.partial"), mode("shop.lmc.lock")), (0o600, 0o600));
    kill(child);
    fs::remove_file(machine.path("shop.lmc.partial")).unwrap();
    succeeds(&machine.lmc("learn shop.lmc --task textures --data textures --epochs 1"));
    assert_eq!((mode("shop.lmc"), mode("shop.lmc.dates")), (0o600, 0o600));
    // What is made of a private model is private too.
    succeeds(&machine.lmc("merge shop.lmc shop.lmc --out both.lmc"));
    succeeds(&machine.lmc("forget shop.lmc --task digits --out without.lmc"));
    assert_eq!((mode("both.lmc"), mode("without.lmc")), (0o600, 0o600));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let before = fs::read(&path).unwrap();
    complains(
        &machine.lmc("learn shop.lmc --task third --data digits"),
        2,
        &["shop.lmc", "read-only", "chmod"],
    );
    complains(&machine.lmc("rename shop.lmc --task digits --to x"), 2, &["read-only"]);
    assert!(fs::read(&path).unwrap() == before);
    assert_eq!(files(&machine, "shop"), ["shop.lmc", "shop.lmc.dates"]);
}

/// Row 6: the names that a merge makes are unique, also when somebody has them already.
#[test]
fn merged_tasks_have_names_of_their_own() {
    let machine = shop();
    fs::copy(machine.path("shop.lmc"), machine.path("a.lmc")).unwrap();
    fs::copy(machine.path("shop.lmc"), machine.path("b.lmc")).unwrap();
    succeeds(&machine.lmc("learn b.lmc --task a:digits --data textures --epochs 1"));
    succeeds(&machine.lmc("merge a.lmc b.lmc --out both.lmc"));
    assert_eq!(tasks(&machine, "both.lmc"), ["a:digits-2", "b:digits", "a:digits"]);
    succeeds(&machine.lmc("verify both.lmc"));
    // The same once more says nothing new; another model of that name stays.
    succeeds(&machine.lmc("merge a.lmc b.lmc --out both.lmc"));
    complains(&machine.lmc("merge b.lmc a.lmc --out both.lmc"), 2, &["both.lmc", "--replace"]);
    assert_eq!(tasks(&machine, "both.lmc").len(), 3);
    succeeds(&machine.lmc("merge b.lmc a.lmc --out both.lmc --replace"));
}

/// Row 7: names cannot steer the terminal.
#[test]
fn names_with_control_characters_are_refused_or_written_out() {
    let machine = shop();
    complains(&machine.lmc("learn shop.lmc --task \u{1b}[2Jx --data textures"), 2, &["task name", "u{1b}"]);
    complains(&machine.lmc("rename shop.lmc --task digits --to a\u{9b}b"), 2, &["task name"]);
    fs::copy(machine.path("shop.lmc"), machine.path("m\u{1b}[2J.lmc")).unwrap();
    complains(&machine.lmc("merge shop.lmc m\u{1b}[2J.lmc --out both.lmc"), 2, &["model name"]);
    folder(&machine, "bad", Family::Textures, 2, 8);
    let class = fs::read_dir(machine.path("bad")).unwrap().next().unwrap().unwrap().path();
    fs::rename(&class, machine.path("bad/\u{1b}]0;title\u{7}")).unwrap();
    complains(&machine.lmc("learn shop.lmc --task bad --data bad"), 2, &["class name"]);
    let picture = fs::read_dir(machine.path("digits")).unwrap().next().unwrap().unwrap().path().join("0.png");
    fs::create_dir(machine.path("in")).unwrap();
    for name in ["red\u{1b}[31m.png", "two\nlines.png", "c1\u{9b}2J.png", "rtl\u{202e}gnp.png"] {
        fs::copy(&picture, machine.path("in").join(name)).unwrap();
    }
    fs::write(machine.path("in/broken\u{1b}[5m.png"), "no picture").unwrap();
    for words in ["predict shop.lmc in", "predict shop.lmc in --json", "learn n.lmc --task x --data in"] {
        let outcome = machine.lmc(words);
        for text in [&outcome.out, &outcome.err] {
            let steers = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
            assert!(!text.contains(steers), "{words}: {text:?}");
        }
    }
    let listed: Value = serde_json::from_str(&machine.lmc("predict shop.lmc in --json").out).unwrap();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|found| found["file"].as_str().unwrap()).collect();
    assert!(names.contains(&"in/c1\u{9b}2J.png") && names.contains(&"in/two\nlines.png"), "{names:?}");
}

/// Row 8: what killed processes left is tidied, and nothing else.
#[test]
fn leftovers_of_killed_processes_are_removed() {
    let machine = shop();
    for name in [".lmc-tmp-Ab12cd", ".lmc-notes"] {
        fs::write(machine.path(name), "left").unwrap();
    }
    fs::write(machine.path("shop.lmc.lock"), "process 1 (lmc) on nowhere").unwrap();
    succeeds(&machine.lmc("rename shop.lmc --task digits --to numbers"));
    assert_eq!(files(&machine, ".lmc-"), [".lmc-notes"]);
    assert_eq!(files(&machine, "shop"), ["shop.lmc", "shop.lmc.dates"]);
}

#[test]
fn more_pictures_and_classes_make_a_new_version_of_a_head() {
    let machine = Machine::new();
    folder(&machine, "two", Family::Digits, 2, 20);
    folder(&machine, "four", Family::Digits, 4, 20);
    folder(&machine, "textures", Family::Textures, 2, 8);
    succeeds(&machine.lmc("learn m.lmc --task digits --data two --epochs 8 --width 8 --depth 2"));
    succeeds(&machine.lmc("learn m.lmc --task textures --data textures --epochs 2"));
    let count = |task: &str, data: &str| -> Value {
        let evaluated = machine.lmc(&format!("evaluate m.lmc --task {task} --data {data} --json"));
        succeeds(&evaluated);
        serde_json::from_str(&evaluated.out).unwrap()
    };
    let textures = count("textures", "textures");
    let more = machine.lmc("learn m.lmc --task digits --data four --more --epochs 40 --json");
    succeeds(&more);
    let more: Value = serde_json::from_str(&more.out).unwrap();
    assert_eq!((&more["adopted"], &more["version"]), (&Value::from(true), &Value::from(2)));
    assert_eq!(more["new_classes"].as_array().unwrap().len(), 2);
    assert!(more["accuracy"].as_f64() >= more["accuracy_before"].as_f64());
    // Four classes are told apart better than by chance, and the other task is as it was.
    assert!(count("digits", "four")["accuracy"]["task_given"].as_f64().unwrap() > 0.4);
    assert_eq!(count("textures", "textures")["accuracy"]["task_given"], textures["accuracy"]["task_given"]);
    succeeds(&machine.lmc("verify m.lmc"));
    let before = fs::read(machine.path("m.lmc")).unwrap();
    let again = machine.lmc("learn m.lmc --task digits --data four --more --epochs 40");
    assert!(again.code == 0 && again.out.contains("already from these"), "{} {}", again.out, again.err);
    complains(&machine.lmc("learn m.lmc --task nothing --data four --more"), 2, &["nothing", "digits"]);
    // New classes cannot hide what is lost of a class that has no pictures here.
    let part = machine.path("four").read_dir().unwrap().next().unwrap().unwrap().path();
    fs::rename(&part, machine.path("away")).unwrap();
    let kept = machine.lmc("learn m.lmc --task digits --data four --more --epochs 4");
    assert!(kept.code == 0 && kept.out.contains("pictures of every class"), "{} {}", kept.out, kept.err);
    fs::rename(machine.path("away"), part).unwrap();
    // A version that cannot be compared does not replace the old one, unless it is told to.
    let blind = "learn m.lmc --task digits --data two --more --val-fraction 0 --epochs 1";
    let kept = machine.lmc(blind);
    assert!(kept.code == 0 && kept.out.contains("kept version 2"), "{} {}", kept.out, kept.err);
    assert!(fs::read(machine.path("m.lmc")).unwrap() == before);
    let replaced = machine.lmc(&format!("{blind} --replace"));
    assert!(
        replaced.out.contains("version 3") && replaced.out.contains("no pictures of"),
        "{}",
        replaced.out
    );
    let history = machine.lmc("history m.lmc");
    for part in ["learned 'digits'", "version 2", "version 3", "202", "0.1.0"] {
        assert!(history.out.contains(part), "'{part}' is not in: {}", history.out);
    }
}

#[test]
fn a_task_is_forgotten_and_others_stay() {
    let machine = shop();
    succeeds(&machine.lmc("learn shop.lmc --task textures --data textures --epochs 3"));
    let predicted = |model: &str| machine.lmc(&format!("predict {model} digits --task digits --json")).out;
    let before = predicted("shop.lmc");
    let forgot = machine.lmc("forget shop.lmc --task textures --out without.lmc");
    succeeds(&forgot);
    assert_eq!(tasks(&machine, "without.lmc"), ["digits"]);
    assert_eq!(tasks(&machine, "shop.lmc"), ["digits", "textures"]);
    let strip = |text: String| -> Vec<Value> {
        let found: Value = serde_json::from_str(&text).unwrap();
        found.as_array().unwrap().iter().map(|found| found["probability"].clone()).collect()
    };
    assert_eq!(strip(predicted("without.lmc")), strip(before));
    let bytes = fs::read(machine.path("without.lmc")).unwrap();
    let name = b"textures";
    assert!(!bytes.windows(name.len()).any(|window| window == name), "a trace is left");
    succeeds(&machine.lmc("verify without.lmc"));
    // The first task's modules stay, because the second is classified behind them; its name goes.
    let first = machine.lmc("forget shop.lmc --task digits --out second.lmc");
    assert!(first.out.contains("stay, because later tasks"), "{}", first.out);
    let bytes = fs::read(machine.path("second.lmc")).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"digits"), "a trace is left");
    succeeds(&machine.lmc("verify second.lmc"));
    complains(&machine.lmc("forget shop.lmc --task fruit --out x.lmc"), 2, &["fruit", "digits"]);
    complains(
        &machine.lmc("forget shop.lmc --task digits --out without.lmc"),
        2,
        &["without.lmc", "--replace"],
    );
    // A model without tasks can learn again.
    succeeds(&machine.lmc("forget without.lmc --task digits --out empty.lmc"));
    succeeds(&machine.lmc("learn empty.lmc --task textures --data textures --epochs 1"));
}

#[test]
fn tasks_and_classes_get_other_names() {
    let machine = shop();
    let before: Value = serde_json::from_str(&machine.lmc("predict shop.lmc digits --json").out).unwrap();
    let class = before[0]["class"].as_str().unwrap().to_owned();
    succeeds(&machine.lmc("rename shop.lmc --task digits --to numbers"));
    succeeds(&machine.lmc(&format!("rename shop.lmc --task numbers --class {class} --to nought")));
    let after: Value = serde_json::from_str(&machine.lmc("predict shop.lmc digits --json").out).unwrap();
    assert_eq!((&after[0]["task"], &after[0]["class"]), (&"numbers".into(), &"nought".into()));
    assert_eq!(after[0]["probability"], before[0]["probability"]);
    complains(&machine.lmc("rename shop.lmc --task digits --to x"), 2, &["digits", "numbers"]);
    complains(&machine.lmc("rename shop.lmc --task numbers --to numbers"), 2, &["numbers"]);
    complains(&machine.lmc("rename nowhere.lmc --task numbers --to x"), 2, &["nowhere.lmc"]);
    // What was learned is still known to be learned, by its new name.
    let history = machine.lmc("history shop.lmc").out;
    assert!(
        history.contains("learned 'numbers'") && history.contains("'digits' became 'numbers'"),
        "{history}"
    );
}

/// Two equal runs end in equal files; when they happened is beside them.
#[test]
fn dates_are_outside_of_the_model() {
    let machine = shop();
    succeeds(&machine.lmc(&format!("learn twin.lmc --task digits --data digits --epochs 2 {SMALL}")));
    let read = |name: &str| fs::read(machine.path(name)).unwrap();
    assert!(read("shop.lmc") == read("twin.lmc"));
    let dates = fs::read_to_string(machine.path("shop.lmc.dates")).unwrap();
    assert!(dates.starts_with("20") && dates.contains("Z "), "{dates}");
    fs::remove_file(machine.path("shop.lmc.dates")).unwrap();
    assert!(machine.lmc("history shop.lmc").out.contains("unknown"));
    fs::write(machine.path("shop.lmc.dates"), [0xff; 64]).unwrap();
    succeeds(&machine.lmc("history shop.lmc"));
}

#[test]
fn verification_finds_damage() {
    let machine = shop();
    let whole = machine.lmc("verify shop.lmc");
    succeeds(&whole);
    assert!(
        whole.out.lines().count() == 1 && whole.out.contains("shop.lmc: whole; 1 task,"),
        "{}",
        whole.out
    );
    let mut bytes = fs::read(machine.path("shop.lmc")).unwrap();
    let middle = bytes.len() - 100;
    bytes[middle] ^= 1;
    fs::write(machine.path("bad.lmc"), bytes).unwrap();
    let found = machine.lmc("verify shop.lmc bad.lmc");
    assert_eq!(found.code, 2);
    assert!(found.out.contains("NOT WHOLE: bad.lmc") && found.out.contains("checksum"), "{}", found.out);
}
