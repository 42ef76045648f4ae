//! A sweep does all its runs whatever happens, and ends with the same numbers however often it was killed.
#![allow(clippy::unwrap_used)]

mod machine;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lmc_streams::Seed;
use machine::Machine;
use serde_json::Value;

const STREAM: &str = r#"
name = "two"
[[task]]
name = "digits"
data = "generated-digits"
classes = 3
train = 20
val = 10
test = 10
[[task]]
name = "textures"
data = "generated-textures"
classes = 3
train = 20
val = 10
test = 10
"#;

const SWEEP: &str = r#"
[base]
stream = "two.toml"
preset = "s_minus"
network = { width = 8, depth = 2 }

[grid]
method = ["finetune", "er_a_s", "mntdp_a", "lmc_a"]

[[rule]]
unless.method = "lmc_*"
set.learner.training = { epochs = 6, batch = 16 }

[[rule]]
when.method = "lmc_*"
set.learner = { epochs = 6, batch = 16, statistics.window = 6, projection = { epochs = 2, epochs_after = 1 } }
"#;

fn machine() -> Machine {
    let machine = Machine::new();
    fs::write(machine.path("two.toml"), STREAM).unwrap();
    fs::write(machine.path("sweep.toml"), SWEEP).unwrap();
    machine
}

/// A program at home on a machine, to be started and watched.
fn at_home(machine: &Machine, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(machine.path("")).env_remove("LMC_DATA").env("HOME", machine.path(""));
    command
}

/// What came out of every run, by name.
fn metrics(machine: &Machine, out: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = fs::read_dir(machine.path(out))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("metrics.json").exists())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path.join("metrics.json")).unwrap())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn killed_twice_ends_with_the_same_table() {
    let machine = machine();
    let started = Instant::now();
    let whole = machine.lmc("sweep sweep.toml --out whole --json");
    assert_eq!(whole.code, 0, "{}", whole.err);
    let took = started.elapsed();
    let mut random = Seed::root(2).random();
    for _ in 0..2 {
        let mut command = at_home(&machine, assert_cmd::cargo::cargo_bin("lmc"));
        command.args(["sweep", "sweep.toml", "--out", "killed", "--jobs", "2"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(took.mul_f64(random.between(0.1, 0.5)).max(Duration::from_millis(50)));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // Runs of the killed sweeps may still be saving: the next one waits for them.
    let last = machine.lmc("sweep sweep.toml --out killed --jobs 1 --json");
    assert_eq!(last.code, 0, "{}", last.err);
    let numbers = |text: &str| -> Vec<(Value, Value, Value, Value)> {
        let lines: Vec<Value> = serde_json::from_str(text).unwrap();
        let take = |line: &Value, key: &str| line[key].clone();
        lines
            .iter()
            .map(|line| {
                (take(line, "name"), take(line, "accuracy"), take(line, "forgetting"), take(line, "modules"))
            })
            .collect()
    };
    assert_eq!(numbers(&last.out), numbers(&whole.out));
    let (ours, theirs) = (metrics(&machine, "killed"), metrics(&machine, "whole"));
    assert_eq!(ours.len(), 4);
    for ((name, ours), (_, theirs)) in ours.iter().zip(&theirs) {
        assert!(ours == theirs, "{name} differs");
    }
    // Once more: nothing is left to do.
    let again = machine.lmc("sweep sweep.toml --out killed --json");
    assert!(
        again.code == 0 && again.out.matches("finished before").count() == 4,
        "{}{}",
        again.out,
        again.err
    );
    let table = |out: &str| fs::read_to_string(machine.path(out).join("report/table1.csv")).unwrap();
    assert_eq!(table("killed"), table("whole"));
}

#[test]
fn a_cut_of_the_generated_table_from_end_to_end() {
    let machine = Machine::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/table1/generated.toml");
    fs::copy(file, machine.path("generated.toml")).unwrap();
    let cut = "--only stream=s_minus --only method=experts,er_a_s,lmc_a --set network.width=4";
    let swept = machine.lmc(&format!("sweep generated.toml {cut} --out runs"));
    assert_eq!(swept.code, 0, "{}{}", swept.out, swept.err);
    for part in ["Experts", "ER(A,S)", "LMC(A)", "67.2 ± 1.5"] {
        assert!(swept.out.contains(part), "{part} is missing in {}", swept.out);
    }
    let read = |name: &str| fs::read_to_string(machine.path("runs/report").join(name)).unwrap();
    let page = read("index.html");
    for part in ["Table 1", "Transfer", "LMC(A)", "generated-objects", "<svg"] {
        assert!(page.contains(part), "{part} is missing in the page");
    }
    // Nothing comes from the network.
    assert!(!page.contains("<script") && !page.contains("src=\"http") && !page.contains("@import"));
    // Experts forget nothing.
    let again = machine.lmc(&format!("sweep generated.toml {cut} --out runs --json"));
    let lines: Vec<Value> = serde_json::from_str(&again.out).unwrap();
    let experts = lines.iter().find(|line| line["name"].as_str().unwrap().starts_with("experts")).unwrap();
    assert_eq!(experts["forgetting"].as_f64(), Some(0.0));
    assert_eq!(read("runs.csv").lines().count(), 4);
    // Any column of it can be asked for.
    let asked = machine.lmc("report runs --metric M");
    assert!(asked.code == 0 && asked.out.contains("24") && asked.out.contains("modules"), "{}", asked.out);
}

#[test]
fn generated_images_that_stand_in_are_told_once_per_stream() {
    let machine = machine();
    let sweep = "[grid]\nstream = [\"s_minus\", \"s_pl\"]\nmethod = [\"finetune\", \"lmc_a\"]\n";
    fs::write(machine.path("paper.toml"), sweep).unwrap();
    let planned = machine.lmc("sweep paper.toml --plan");
    assert_eq!(planned.code, 0, "{}", planned.err);
    for stream in ["s_minus", "s_pl"] {
        let note = format!("note: {stream}: generated images stand in");
        assert_eq!(planned.err.matches(&note).count(), 1, "{}", planned.err);
    }
    // Asked for, they stand in for nothing.
    let planned = machine.lmc("sweep paper.toml --plan --set variant=generated");
    assert!(planned.code == 0 && !planned.err.contains("note"), "{}", planned.err);
}

#[test]
fn a_failed_run_is_reported_and_stops_no_other() {
    let machine = machine();
    let text = r#"
[base]
stream = "two.toml"
network = { width = 4, depth = 2 }
learner.training = { epochs = 2, batch = 16 }
[grid]
method = "finetune"
learner.training.learning_rate = [1e30, 0.001]
"#;
    fs::write(machine.path("rates.toml"), text).unwrap();
    let swept = machine.lmc("sweep rates.toml --out runs --jobs 1");
    assert_eq!(swept.code, 1, "{}{}", swept.out, swept.err);
    assert!(
        swept.out.contains("diverged") && swept.err.contains("1 of 2 runs failed"),
        "{}{}",
        swept.out,
        swept.err
    );
    assert_eq!(metrics(&machine, "runs").len(), 1);
    let failed = fs::read_dir(machine.path("runs"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().join("failed.txt").exists());
    assert_eq!(failed.count(), 1);
}

/// Two networks, of which only the small one's state fits into the files that are allowed: as on a disk that is full.
#[cfg(unix)]
#[test]
fn a_full_disk_stops_only_the_runs_that_it_hits() {
    let machine = machine();
    let text = "[base]\nstream = \"two.toml\"\nmethod = \"finetune\"\nlearner.training = { epochs = 1, batch = 16 }\n\
                network.depth = 2\n[grid]\nnetwork.width = [64, 2]\n";
    fs::write(machine.path("widths.toml"), text).unwrap();
    let program = assert_cmd::cargo::cargo_bin("lmc");
    let script = format!(
        "trap '' XFSZ; ulimit -f 500; exec '{}' sweep widths.toml --out runs --jobs 1",
        program.display()
    );
    let output = at_home(&machine, "sh").args(["-c", &script]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    assert!(out.contains("cannot write") && err.contains("1 of 2 runs failed"), "{out}{err}");
    assert_eq!(metrics(&machine, "runs").len(), 1);
    let report = fs::read_to_string(machine.path("runs/report/report.md")).unwrap();
    assert!(report.contains("1 failed") && report.contains("cannot write"), "{report}");
    // With room again the same command ends what is left.
    let again = machine.lmc("sweep widths.toml --out runs --jobs 1");
    assert_eq!(again.code, 0, "{}{}", again.out, again.err);
    assert_eq!(metrics(&machine, "runs").len(), 2);
}

/// A run that is killed from outside is reported; the others go on.
#[cfg(target_os = "linux")]
#[test]
fn a_killed_child_is_reported_and_stops_no_other() {
    let machine = machine();
    let text = "[base]\nstream = \"two.toml\"\nmethod = \"finetune\"\nnetwork = { width = 8, depth = 2 }\n\
                [grid]\nlearner.training.epochs = [5000, 1]\n";
    fs::write(machine.path("long.toml"), text).unwrap();
    let mut command = at_home(&machine, assert_cmd::cargo::cargo_bin("lmc"));
    command.args(["sweep", "long.toml", "--out", "runs", "--jobs", "1", "--json"]);
    let sweep = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    // The first run is a child of the sweep, and has begun to learn.
    let child = loop {
        assert!(started.elapsed() < Duration::from_secs(60), "no run was started");
        std::thread::sleep(Duration::from_millis(50));
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", sweep.id())).unwrap_or_default();
        let learning = fs::read_dir(machine.path("runs"))
            .is_ok_and(|runs| runs.flatten().any(|run| run.path().join("checkpoint.safetensors").exists()));
        match children.split_whitespace().next() {
            Some(child) if learning => break child.to_owned(),
            _ => {}
        }
    };
    assert!(Command::new("kill").args(["-9", &child]).status().unwrap().success());
    let output = sweep.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(lines[0]["problem"].as_str().unwrap().contains("killed"), "{lines:?}");
    assert_eq!(lines[1]["status"], "finished");
    assert!(fs::read_to_string(machine.path("runs/report/report.md")).unwrap().contains("killed"));
}

/// Where nobody can hear it, the work goes on.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_cannot_speak_ends_all_the_same() {
    let machine = machine();
    let text = "stream = \"two.toml\"\nmethod = \"finetune\"\nnetwork = { width = 4, depth = 2 }\nlearner.training = { epochs = 1 }";
    fs::write(machine.path("experiment.toml"), text).unwrap();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = at_home(&machine, assert_cmd::cargo::cargo_bin("lmc"));
    command.args(["run", "experiment.toml", "--out", "run"]).stderr(full());
    assert!(command.output().unwrap().status.success());
    assert!(machine.path("run/metrics.json").exists());
    // Results that cannot be printed are an error, still without a word.
    assert_eq!(command.stdout(full()).status().unwrap().code(), Some(1));
}

#[test]
fn a_run_directory_has_one_process_at_a_time() {
    let machine = machine();
    fs::create_dir(machine.path("run")).unwrap();
    let file = fs::File::create(machine.path("run/.lock")).unwrap();
    file.try_lock().unwrap();
    fs::write(machine.path("experiment.toml"), "stream = \"two.toml\"").unwrap();
    let second = machine.lmc("run experiment.toml --out run");
    assert_eq!(second.code, 75, "{}", second.err);
    assert!(second.err.contains("another process"), "{}", second.err);
}

#[test]
fn damage_is_named_and_fresh_begins_anew() {
    let machine = machine();
    let text = "stream = \"two.toml\"\nmethod = \"finetune\"\nnetwork = { width = 4, depth = 2 }\nlearner.training = { epochs = 1 }";
    fs::write(machine.path("experiment.toml"), text).unwrap();
    assert_eq!(machine.lmc("run experiment.toml --out run").code, 0);
    let before = fs::read(machine.path("run/metrics.json")).unwrap();
    fs::write(machine.path("run/notes.txt"), "mine").unwrap();
    for (file, content) in [("metrics.json", "{"), ("checkpoint.safetensors", "no")] {
        fs::write(machine.path("run").join(file), content).unwrap();
        let bad = machine.lmc("run experiment.toml --out run");
        assert_eq!(bad.code, 2, "{file}: {}", bad.err);
        assert!(bad.err.contains(file) && bad.err.contains("--fresh"), "{file}: {}", bad.err);
        assert_eq!(fs::read_to_string(machine.path("run").join(file)).unwrap(), content);
        let fresh = machine.lmc("run experiment.toml --out run --fresh");
        assert_eq!(fresh.code, 0, "{file}: {}", fresh.err);
        assert!(fs::read(machine.path("run/metrics.json")).unwrap() == before);
    }
    assert_eq!(fs::read_to_string(machine.path("run/notes.txt")).unwrap(), "mine");
    // Of another version, and results of nobody knows what.
    let config = fs::read_to_string(machine.path("run/config.toml")).unwrap();
    fs::write(machine.path("run/config.toml"), config.replace("format 1", "format 9")).unwrap();
    let bad = machine.lmc("run experiment.toml --out run");
    assert!(
        bad.code == 2 && bad.err.contains("another version") && bad.err.contains("--fresh"),
        "{}",
        bad.err
    );
    let report = machine.lmc("report run --out report");
    assert!(report.code == 2 && report.err.contains("another version"), "{}", report.err);
    // Without a configuration that lmc wrote, the folder is not ours, and `--fresh` does not change that.
    for content in [None, Some("stream = 3")] {
        match content {
            None => fs::remove_file(machine.path("run/config.toml")).unwrap(),
            Some(content) => fs::write(machine.path("run/config.toml"), content).unwrap(),
        }
        for fresh in ["", " --fresh"] {
            let bad = machine.lmc(&format!("run experiment.toml --out run{fresh}"));
            assert!(bad.code == 2 && bad.err.contains("config"), "{content:?}{fresh}: {}", bad.err);
            assert!(fs::read(machine.path("run/metrics.json")).unwrap() == before);
        }
    }
    assert_eq!(machine.lmc("run experiment.toml --set method=experts --out other").code, 0);
    // Finished, but of other images than the stream has now.
    fs::write(machine.path("two.toml"), STREAM.replace("generated-digits", "generated-garments")).unwrap();
    let bad = machine.lmc("run experiment.toml --set method=experts --out other");
    assert!(bad.code == 2 && bad.err.contains("other images"), "{}", bad.err);
}

#[test]
fn unknown_names_list_the_nearest() {
    let machine = machine();
    for (from, to, part) in [
        ("\"finetune\"", "\"finetun\"", "finetune"),
        ("epochs = 6, batch = 16 }", "epoks = 6 }", "epochs"),
        ("[grid]", "[grids]", "grid"),
        ("when.method", "when.metod", "method"),
        ("\"two.toml\"", "\"s_minu\"", "s_minus"),
        ("[grid]", "variant = \"generatd\"\n[grid]", "generated"),
    ] {
        fs::write(machine.path("bad.toml"), SWEEP.replace(from, to)).unwrap();
        let bad = machine.lmc("sweep bad.toml");
        assert_eq!(bad.code, 2, "{to}: {}", bad.err);
        assert!(bad.err.contains(part), "{to}: {}", bad.err);
    }
    fs::write(machine.path("large.toml"), "stream = \"two.toml\"\nnetwork.size = 64").unwrap();
    let large = machine.lmc("run large.toml");
    assert!(
        large.code == 2 && large.err.contains("network.size") && large.err.contains("use 32"),
        "{}",
        large.err
    );
    let none = machine.lmc("sweep sweep.toml --only method=nothing");
    assert!(none.code == 2 && none.err.contains("no run"), "{}", none.err);
    let metric = machine.lmc("report . --metric A_singel");
    assert!(metric.code == 2 && metric.err.contains("did you mean 'A_single'"), "{}", metric.err);
}

#[test]
fn tensorboard_reads_what_is_written() {
    let machine = machine();
    let text = "stream = \"two.toml\"\nmethod = \"finetune\"\nnetwork = { width = 4, depth = 2 }\nlearner.training = { epochs = 2 }";
    fs::write(machine.path("experiment.toml"), text).unwrap();
    let run = machine.lmc("run experiment.toml --out run --tensorboard");
    assert_eq!(run.code, 0, "{}", run.err);
    let script = "
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]); events.Reload()
print(','.join(str(event.step) for event in events.Scalars('learning/loss')), len(events.Scalars('test/mean')))
";
    let folder = machine.path("run/tensorboard");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    let python = std::env::var("LMC_PYTHON").unwrap_or_else(|_| "python3".into());
    match Command::new(python).arg("-c").arg(script).arg(&folder).output() {
        Ok(output) if output.status.success() => {
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1,2,3,4 2");
        }
        _ => eprintln!("skipped: Python has no package tensorboard; set LMC_PYTHON to one that has"),
    }
}
