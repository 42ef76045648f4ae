//! A pool of worker processes that works off the runs of a sweep on this machine.
//!
//! Each run is `lmc run DIR/config.toml --out DIR` in a process of its own: one that fails or is killed takes no other
//! with it. A run that another process works on is left to that one and looked at again later, so two pools may work off
//! the same sweep. If the pool's own process dies, its workers notice that their standard input has ended, save, and stop.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lmc::Event;
use lmc_streams::{Error, read_text, replace_file};

use crate::error::Result;
use crate::events::RunEvent;
use crate::run_directory::{LARGEST_TEXT, RunDirectory};
use crate::sweep::PlannedRun;

/// How the workers are started.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The program `lmc`.
    pub program: PathBuf,
    /// Number of runs at a time, 1 or more.
    pub jobs: usize,
    /// Arguments that every run gets besides its directory: threads, data folder.
    pub arguments: Vec<String>,
    /// Set from outside to stop the pool once all states are saved.
    pub stop: &'static AtomicBool,
}

/// Exit code of `lmc run` if another process works in the run directory.
pub const LOCKED_EXIT_CODE: u8 = 75;

/// How a run of the sweep ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was finished before, or by another process.
    FinishedBefore,
    /// It was finished by this pool.
    Finished,
    /// It failed, for this reason.
    Failed(String),
    /// It was stopped with its state saved, or not yet begun when the pool was stopped.
    Stopped,
}

/// What the pool tells whoever watches it.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A run was started.
    Started(&'a PlannedRun),
    /// A run ended after this time.
    Ended(&'a PlannedRun, &'a Outcome, Duration),
    /// About a second has passed; how far each active run is.
    Active(&'a [ActiveRun<'a>]),
}

/// A run that a worker is working on.
#[derive(Debug)]
pub struct ActiveRun<'a> {
    /// The run.
    pub run: &'a PlannedRun,
    /// How far the run is.
    pub progress: RunProgress,
    /// When its worker was started.
    pub since: Instant,
}

/// How far a run is in its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunProgress {
    /// Number of tasks in the stream; 0 before the run has begun.
    pub tasks: usize,
    /// Number of the task that is being learned, from 0.
    pub task: usize,
    /// Epochs of the task that are done.
    pub epoch: usize,
    /// Epochs that the task gets.
    pub epochs: usize,
}

impl RunProgress {
    /// Reads the progress of a run from its events. A run without a readable events file counts as not begun.
    pub fn of(directory: &RunDirectory) -> Self {
        let mut progress = Self::default();
        let Ok(events) = read_text(&directory.events, LARGEST_TEXT) else { return progress };
        for line in events.lines() {
            // The last line may be half written.
            match serde_json::from_str(line) {
                Ok(RunEvent::StreamStarted { tasks }) => progress.tasks = tasks,
                Ok(RunEvent::Learning(Event::TaskStarted { number, epoch, epochs, .. })) => {
                    progress = Self { task: number, epoch, epochs, ..progress };
                }
                Ok(RunEvent::Learning(Event::EpochEnded { epoch, epochs, .. })) => {
                    progress = Self { epoch: epoch + 1, epochs, ..progress };
                }
                _ => {}
            }
        }
        progress
    }

    /// The part of the whole run that is done, from 0 to 1.
    pub fn share(&self) -> f64 {
        let task = self.epoch as f64 / self.epochs.max(1) as f64;
        (self.task as f64 + task.min(1.0)) / self.tasks.max(1) as f64
    }
}

/// A worker process.
struct Worker {
    number: usize,
    child: Child,
    since: Instant,
    /// Length of the log in bytes before the worker was started.
    log: u64,
}

/// Works off `runs` and returns the outcome of each; `notice` hears how it goes. [`PoolConfig::stop`] ends it early.
pub fn work(
    config: &PoolConfig,
    runs: &[PlannedRun],
    notice: &mut dyn FnMut(&Notice<'_>),
) -> Result<Vec<Outcome>> {
    const PAUSE: Duration = Duration::from_millis(100);
    const LOOK: Duration = Duration::from_secs(1);
    const AGAIN: Duration = Duration::from_secs(5);
    let asked = || config.stop.load(Ordering::Relaxed);
    let mut outcomes: Vec<Option<Outcome>> =
        runs.iter().map(|run| run.directory.is_finished().then_some(Outcome::FinishedBefore)).collect();
    let mut waiting: Vec<(usize, Instant)> = Vec::new();
    for number in (0..runs.len()).filter(|&number| outcomes[number].is_none()) {
        waiting.push((number, Instant::now()));
    }
    let mut workers: Vec<Worker> = Vec::new();
    let mut looked = Instant::now();
    while !workers.is_empty() || (!waiting.is_empty() && !asked()) {
        let due = |waiting: &[(usize, Instant)]| waiting.iter().position(|(_, when)| *when <= Instant::now());
        while let Some(at) = due(&waiting).filter(|_| !asked() && workers.len() < config.jobs.max(1)) {
            let (number, _) = waiting.remove(at);
            if runs[number].directory.is_finished() {
                // Another process has finished it in the meantime.
                outcomes[number] = Some(Outcome::FinishedBefore);
                continue;
            }
            match start(config, &runs[number], number) {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    let failed = Outcome::Failed(error.to_string());
                    notice(&Notice::Ended(&runs[number], &failed, Duration::ZERO));
                    outcomes[number] = Some(failed);
                    continue;
                }
            }
            notice(&Notice::Started(&runs[number]));
        }
        let mut active = Vec::new();
        for mut worker in workers {
            let run = &runs[worker.number];
            let status = match worker.child.try_wait() {
                Ok(None) => {
                    if asked() {
                        // The end of its input tells it to save and stop.
                        drop(worker.child.stdin.take());
                    }
                    active.push(worker);
                    continue;
                }
                Ok(Some(status)) => status,
                Err(error) => {
                    outcomes[worker.number] = Some(Outcome::Failed(format!("its process is lost: {error}")));
                    continue;
                }
            };
            if status.code() == Some(i32::from(LOCKED_EXIT_CODE)) {
                waiting.push((worker.number, Instant::now() + AGAIN));
                continue;
            }
            let outcome = outcome(&run.directory, status, worker.log);
            if let Outcome::Failed(why) = &outcome {
                // If this cannot be written, the screen still shows it.
                let _ = replace_file(&run.directory.failed, format!("{why}\n").as_bytes());
            }
            notice(&Notice::Ended(run, &outcome, worker.since.elapsed()));
            outcomes[worker.number] = Some(outcome);
        }
        workers = active;
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let active: Vec<ActiveRun<'_>> = workers
                .iter()
                .map(|worker| ActiveRun {
                    run: &runs[worker.number],
                    progress: RunProgress::of(&runs[worker.number].directory),
                    since: worker.since,
                })
                .collect();
            notice(&Notice::Active(&active));
        }
        if !workers.is_empty() || !waiting.is_empty() {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Stopped)).collect())
}

fn start(config: &PoolConfig, run: &PlannedRun, number: usize) -> Result<Worker> {
    let path = &run.directory.log;
    let io = |action| Error::io(action, path);
    let log = OpenOptions::new().create(true).append(true).open(path).map_err(io("write"))?;
    let length = log.metadata().map_err(io("read"))?.len();
    let mut command = Command::new(&config.program);
    command.arg("run").arg(&run.directory.config).arg("--out").arg(&run.directory.path);
    command.args(&config.arguments).arg("--stop-at-end-of-input");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().map_err(Error::io("start", &config.program))?;
    Ok(Worker { number, child, since: Instant::now(), log: length })
}

/// The outcome that an exit status stands for.
fn outcome(directory: &RunDirectory, status: ExitStatus, log: u64) -> Outcome {
    // A terminal sends Ctrl-C to all its programs: to a worker at the same time as to the pool.
    const INTERRUPTED: i32 = 130;
    match status.code() {
        Some(0) => Outcome::Finished,
        Some(INTERRUPTED) => Outcome::Stopped,
        None if was_interrupted(status) => Outcome::Stopped,
        Some(code) => Outcome::Failed(last_error(&directory.log, log).unwrap_or(format!("exit code {code}"))),
        None => {
            Outcome::Failed(format!("its process was killed ({status}); start the sweep again to resume it"))
        }
    }
}

#[cfg(unix)]
fn was_interrupted(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    const SIGINT: i32 = 2;
    status.signal() == Some(SIGINT)
}

#[cfg(not(unix))]
fn was_interrupted(_: ExitStatus) -> bool {
    false
}

/// The error that a worker wrote last into the log.
fn last_error(log: &Path, from: u64) -> Option<String> {
    let mut file = fs::File::open(log).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let line = text.lines().rev().find_map(|line| line.strip_prefix("error: "))?;
    Some(line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_ctrl_c_ended_has_not_failed() {
        use std::os::unix::process::ExitStatusExt;
        let folder = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(folder.path());
        let outcome = |raw: i32| outcome(&directory, ExitStatus::from_raw(raw), 0);
        assert_eq!([0, 130 << 8, 2].map(outcome), [Outcome::Finished, Outcome::Stopped, Outcome::Stopped]);
        assert!(matches!(outcome(9), Outcome::Failed(why) if why.contains("killed")));
        assert!(matches!(outcome(2 << 8), Outcome::Failed(why) if why.contains("exit code 2")));
    }

    #[test]
    fn how_far_a_run_is_by_hand() {
        let folder = tempfile::tempdir().unwrap();
        let directory = RunDirectory::new(folder.path());
        assert_eq!(RunProgress::of(&directory).share(), 0.0);
        let lines = [
            r#"{"event":"stream_started","tasks":4}"#,
            r#"{"event":"task_started","task":"a","number":2,"epochs":10,"epoch":0,"modules":[1]}"#,
            r#"{"event":"epoch_ended","epoch":4,"epochs":10,"loss":1.0,"cross_entropy":1.0,"train_accuracy":0.5,"val_accuracy":null,"modules":[1]}"#,
            r#"{"event":"epoch_en"#,
        ];
        fs::write(&directory.events, lines.join("\n")).unwrap();
        let progress = RunProgress::of(&directory);
        assert_eq!(progress, RunProgress { tasks: 4, task: 2, epoch: 5, epochs: 10 });
        assert!((progress.share() - 0.625).abs() < 1e-12);
    }
}
