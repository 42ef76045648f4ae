//! A run that is killed, five times at random moments, ends bit for bit like one that was not.
#![allow(clippy::unwrap_used)]

mod machine;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lmc_streams::Seed;
use machine::Machine;

const STREAM: &str = r#"
name = "two"
[[task]]
name = "digits"
data = "generated-digits"
classes = 3
train = 40
val = 10
test = 10
[[task]]
name = "textures"
data = "generated-textures"
classes = 3
train = 40
val = 10
test = 10
"#;

const EXPERIMENT: &str = r#"
stream = "two.toml"
preset = "s_minus"
[network]
width = 8
depth = 2
[learner]
epochs = 12
batch = 16
[learner.projection]
epochs = 2
epochs_after = 1
[learner.expansion]
threshold = 1.5
[learner.statistics]
window = 10
"#;

fn command(machine: &Machine, out: &str, threads: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("lmc"));
    let words = ["run", "experiment.toml", "--out", out, "--threads", threads];
    command.current_dir(machine.path("")).env_remove("LMC_DATA").env("HOME", machine.path(""));
    command.args(words).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn results(machine: &Machine, out: &str) -> Vec<(String, Vec<u8>)> {
    ["metrics.json", "model.safetensors", "accuracy_matrix.csv", "module_weights.json"]
        .iter()
        .map(|name| (name.to_string(), fs::read(machine.path(out).join(name)).unwrap()))
        .collect()
}

#[test]
fn killed_five_times_ends_bit_for_bit_the_same() {
    let machine = Machine::new();
    fs::write(machine.path("two.toml"), STREAM).unwrap();
    fs::write(machine.path("experiment.toml"), EXPERIMENT).unwrap();
    let started = Instant::now();
    let whole = command(&machine, "whole", "2").output().unwrap();
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let took = started.elapsed();
    let mut random = Seed::root(1).random();
    for _ in 0..5 {
        let mut child = command(&machine, "killed", "1").spawn().unwrap();
        let pause = took.mul_f64(random.between(0.1, 0.6)).max(Duration::from_millis(50));
        std::thread::sleep(pause);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = command(&machine, "killed", "1").output().unwrap();
    assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
    for ((name, ours), (_, theirs)) in results(&machine, "killed").into_iter().zip(results(&machine, "whole"))
    {
        assert!(ours == theirs, "{name} differs");
    }
    // Once more: it is done.
    assert!(command(&machine, "killed", "1").status().unwrap().success());
}

#[test]
fn another_configuration_does_not_go_on_in_the_same_directory() {
    let machine = Machine::new();
    fs::write(machine.path("two.toml"), STREAM).unwrap();
    fs::write(machine.path("experiment.toml"), EXPERIMENT).unwrap();
    let quick = "run experiment.toml --set learner.epochs=1 --out run";
    assert_eq!(machine.lmc(quick).code, 0);
    let other = machine.lmc("run experiment.toml --set learner.epochs=1 --set seed=2 --out run");
    assert_eq!(other.code, 2);
    assert!(other.err.contains("another configuration"), "{}", other.err);
    for (change, part) in [
        ("learner.epoch=3", "epoch"),
        ("learner.composition.temperature=-1", "composition.temperature"),
        ("stream=s_minux", "s_minus"),
        ("preset=s_minux", "s_minus"),
        ("epochs", "'='"),
    ] {
        let bad = machine.lmc(&format!("run experiment.toml --set {change}"));
        assert_eq!(bad.code, 2, "{change}");
        assert!(bad.err.contains(part), "{change}: {}", bad.err);
    }
}

#[test]
fn a_run_does_not_go_on_with_other_images() {
    let machine = Machine::new();
    fs::write(machine.path("two.toml"), STREAM).unwrap();
    fs::write(machine.path("experiment.toml"), EXPERIMENT).unwrap();
    let mut child = command(&machine, "run", "1").spawn().unwrap();
    let checkpoint = machine.path("run/checkpoint.safetensors");
    while !checkpoint.exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = fs::read(&checkpoint).unwrap();
    // The same names and numbers, other pictures.
    fs::write(machine.path("two.toml"), STREAM.replace("\"generated-digits\"", "\"generated-plates\""))
        .unwrap();
    let other = machine.lmc("run experiment.toml --out run");
    assert_eq!(other.code, 2);
    assert!(other.err.contains("other images") && other.err.contains("--fresh"), "{}", other.err);
    assert!(fs::read(&checkpoint).unwrap() == before);
    fs::write(machine.path("two.toml"), STREAM).unwrap();
    assert_eq!(machine.lmc("run experiment.toml --out run").code, 0);
}
