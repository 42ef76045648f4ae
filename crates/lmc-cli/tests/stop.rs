//! SIGTERM in the middle of an epoch: the state is on disk within seconds, and the same command ends bit for bit as if
//! nothing had happened.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod machine;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use machine::Machine;

/// One epoch of one task, which takes seconds.
const STREAM: &str = r#"
name = "long"
[[task]]
name = "digits"
data = "generated-digits"
classes = 3
train = 1200
val = 30
test = 30
"#;

const EXPERIMENT: &str = r#"
stream = "long.toml"
preset = "s_minus"
[network]
width = 16
"#;

/// Stopping takes a step and a write; this is for a busy machine.
const SOON: Duration = Duration::from_secs(5);

fn machine() -> Machine {
    let machine = Machine::new();
    fs::write(machine.path("long.toml"), STREAM).unwrap();
    fs::write(machine.path("experiment.toml"), EXPERIMENT).unwrap();
    machine
}

fn start(machine: &Machine, words: &str) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("lmc"));
    command.current_dir(machine.path("")).env_remove("LMC_DATA").env("HOME", machine.path(""));
    command.args(words.split(' ')).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Sends SIGTERM and waits; gives the exit code and the messages.
fn terminate(child: Child) -> (Option<i32>, String) {
    let asked = Instant::now();
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < SOON, "it took {:?}", asked.elapsed());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Waits until a program has begun to train, by a line that it adds to its events.
fn wait_for_training(child: &mut Child, events: &Path) {
    let lines = || fs::read_to_string(events).unwrap_or_default().matches("task_started").count();
    let before = lines();
    while lines() == before && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn results(machine: &Machine, out: &str) -> Vec<Vec<u8>> {
    ["metrics.json", "model.safetensors", "accuracy_matrix.csv", "module_weights.json"]
        .map(|name| fs::read(machine.path(out).join(name)).unwrap())
        .to_vec()
}

#[test]
fn a_run_stops_in_the_middle_of_an_epoch_and_goes_on() {
    let machine = machine();
    for (method, epochs) in [("lmc_a", "learner"), ("er", "learner.training")] {
        let short = format!("--set {epochs}.epochs=1 --set {epochs}.batch=8 --threads 1");
        let words = |out: &str| format!("run experiment.toml --set method={method} {short} --out {out}");
        let (whole, stopped) = (format!("{method}-whole"), format!("{method}-stopped"));
        assert!(start(&machine, &words(&whole)).wait().unwrap().success());
        let events = machine.path(&stopped).join("events.jsonl");
        for round in 0..2 {
            let mut child = start(&machine, &words(&stopped));
            wait_for_training(&mut child, &events);
            std::thread::sleep(Duration::from_millis(200));
            let (code, messages) = terminate(child);
            assert_eq!(code, Some(130), "{method}, round {round}: {messages}");
            assert!(messages.contains("of epoch 1 of task 'digits'"), "{method}, round {round}: {messages}");
            assert!(!fs::read_to_string(&events).unwrap().contains("epoch_ended"), "{method}");
        }
        assert!(start(&machine, &words(&stopped)).wait().unwrap().success());
        assert!(results(&machine, &whole) == results(&machine, &stopped), "{method}");
        let events = |out: &str| -> Vec<String> {
            let text = fs::read_to_string(machine.path(out).join("events.jsonl")).unwrap();
            // Every session says where it begins.
            text.lines().filter(|line| !line.contains("task_started")).map(str::to_owned).collect()
        };
        assert_eq!(events(&whole), events(&stopped), "{method}");
    }
}

#[test]
fn a_sweep_stops_its_runs_in_the_middle_of_an_epoch() {
    let machine = machine();
    let sweep = "[base]\nstream = \"long.toml\"\npreset = \"s_minus\"\nnetwork = { width = 16 }\n\
                 [grid]\nmethod = [\"finetune\"]\n\
                 [[rule]]\nunless.method = \"lmc_*\"\nset.learner.training = { epochs = 1, batch = 8 }\n\
                 set.learner.width = \"network\"\n";
    fs::write(machine.path("sweep.toml"), sweep).unwrap();
    let words = "sweep sweep.toml --out swept --jobs 1";
    let child = start(&machine, words);
    let runs = || {
        let folders = fs::read_dir(machine.path("swept")).into_iter().flatten();
        folders.map(|entry| entry.unwrap().path()).find(|path| path.join("events.jsonl").exists())
    };
    let begun = || {
        runs()
            .is_some_and(|run| fs::read_to_string(run.join("events.jsonl")).unwrap().contains("task_started"))
    };
    while !begun() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    let (code, messages) = terminate(child);
    assert_eq!(code, Some(130), "{messages}");
    let run = runs().unwrap();
    assert!(run.join("checkpoint.safetensors").exists() && !run.join("failed.txt").exists());
    assert!(!fs::read_to_string(run.join("events.jsonl")).unwrap().contains("epoch_ended"));
    assert!(start(&machine, words).wait().unwrap().success());
    let resumed = fs::read_to_string(run.join("metrics.json")).unwrap();
    fs::remove_dir_all(machine.path("swept")).unwrap();
    assert!(start(&machine, words).wait().unwrap().success());
    assert_eq!(fs::read_to_string(run.join("metrics.json")).unwrap(), resumed);
}

#[test]
fn learning_stops_in_the_middle_of_an_epoch_and_goes_on() {
    let machine = machine();
    let words = |model: &str| {
        format!(
            "learn {model} --task digits --data generated-digits --epochs 1 --width 16 --threads 1 --json"
        )
    };
    assert!(start(&machine, &words("whole.lmc")).wait().unwrap().success());
    // Before it listens to signals there is nothing to save, and it ends at once.
    let mut pause = Duration::from_millis(100);
    let messages = loop {
        let child = start(&machine, &words("stopped.lmc"));
        std::thread::sleep(pause);
        let (code, messages) = terminate(child);
        if code == Some(130) {
            break messages;
        }
        assert_eq!(code, None, "{messages}");
        pause = pause.mul_f64(1.3);
    };
    assert!(messages.contains("step") && messages.contains("epoch 1"), "{messages}");
    assert!(machine.path("stopped.lmc.partial").exists() && !machine.path("stopped.lmc").exists());
    assert!(start(&machine, &words("stopped.lmc")).wait().unwrap().success());
    assert!(!machine.path("stopped.lmc.partial").exists());
    let model = |name: &str| fs::read(machine.path(name)).unwrap();
    assert!(model("whole.lmc") == model("stopped.lmc"));
}
