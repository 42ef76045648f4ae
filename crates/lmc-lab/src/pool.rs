//! A pool of local processes that works off the runs of a sweep.
//!
//! A run is `lmc run DIR/config.toml --out DIR` in a process of its own: one that fails, or is killed, takes no other with
//! it. A run that another process is working on is left to that one and looked at again later, so two pools may work off
//! the same sweep. When the pool's own process dies, its runs notice that their standard input has ended, save, and stop.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lmc::Result;
use lmc::events::Event;
use lmc_streams::{Error, replace_file};

use crate::run_directory::RunDirectory;
use crate::sweep::Planned;

/// How runs are started.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The program: `lmc`.
    pub program: PathBuf,
    /// Runs at a time.
    pub jobs: usize,
    /// Words after those that every run gets: threads, data folder.
    pub words: Vec<String>,
}

/// Exit code of a run whose directory another process works on.
pub const LOCKED: u8 = 75;

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was finished before.
    Before,
    /// It is finished.
    Finished,
    /// It failed, and why.
    Failed(String),
    /// It was told to stop, or not begun when the pool was.
    Stopped,
}

/// What the pool tells whoever watches.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A run was started.
    Started(&'a Planned),
    /// A run is over.
    Ended(&'a Planned, &'a Outcome, Duration),
    /// Time goes by; runs that are going on, and how far each is.
    Going(&'a [Going<'a>]),
}

/// A run that is going on.
#[derive(Debug)]
pub struct Going<'a> {
    /// The run.
    pub run: &'a Planned,
    /// How far it is.
    pub reached: Reached,
    /// Since when, in this session.
    pub since: Instant,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reached {
    /// Tasks of the stream.
    pub tasks: usize,
    /// The task that is being learned, from 0.
    pub task: usize,
    /// Epochs of it that are done.
    pub epoch: usize,
    /// Epochs that it gets.
    pub epochs: usize,
}

impl Reached {
    /// Reads it off the events of a run.
    pub fn of(directory: &RunDirectory) -> Self {
        let mut reached = Self::default();
        for event in fs::read_to_string(&directory.events).unwrap_or_default().lines() {
            // The last line may be half written.
            match serde_json::from_str(event) {
                Ok(Event::StreamStarted { tasks }) => reached.tasks = tasks,
                Ok(Event::TaskStarted { number, epoch, epochs, .. }) => {
                    reached = Self { task: number, epoch, epochs, ..reached };
                }
                Ok(Event::EpochEnded { epoch, epochs, .. }) => {
                    reached = Self { epoch: epoch + 1, epochs, ..reached };
                }
                _ => {}
            }
        }
        reached
    }

    /// As a share of the whole run.
    pub fn share(&self) -> f64 {
        let task = self.epoch as f64 / self.epochs.max(1) as f64;
        (self.task as f64 + task.min(1.0)) / self.tasks.max(1) as f64
    }
}

/// A process at work.
struct Job {
    number: usize,
    child: Child,
    since: Instant,
    /// Where its words begin in the log.
    log: u64,
}

/// Works off `runs` and gives what became of each. `notice` may stop it: true to stop when all states are saved.
pub fn work(
    config: &PoolConfig,
    runs: &[Planned],
    notice: &mut dyn FnMut(&Notice<'_>) -> bool,
) -> Result<Vec<Outcome>> {
    const PAUSE: Duration = Duration::from_millis(100);
    const LOOK: Duration = Duration::from_secs(1);
    const AGAIN: Duration = Duration::from_secs(5);
    let mut outcomes: Vec<Option<Outcome>> =
        runs.iter().map(|run| run.directory.is_finished().then_some(Outcome::Before)).collect();
    let mut waiting: Vec<(usize, Instant)> = Vec::new();
    for number in (0..runs.len()).filter(|&number| outcomes[number].is_none()) {
        waiting.push((number, Instant::now()));
    }
    let mut jobs: Vec<Job> = Vec::new();
    let mut stop = false;
    let mut looked = Instant::now();
    while !jobs.is_empty() || (!waiting.is_empty() && !stop) {
        let due = |waiting: &[(usize, Instant)]| waiting.iter().position(|(_, when)| *when <= Instant::now());
        while let Some(at) = due(&waiting).filter(|_| !stop && jobs.len() < config.jobs.max(1)) {
            let (number, _) = waiting.remove(at);
            if runs[number].directory.is_finished() {
                // By somebody else, in the meantime.
                outcomes[number] = Some(Outcome::Before);
                continue;
            }
            match start(config, &runs[number], number) {
                Ok(job) => jobs.push(job),
                Err(error) => {
                    let failed = Outcome::Failed(error.to_string());
                    stop |= notice(&Notice::Ended(&runs[number], &failed, Duration::ZERO));
                    outcomes[number] = Some(failed);
                    continue;
                }
            }
            stop |= notice(&Notice::Started(&runs[number]));
        }
        let mut going_on = Vec::new();
        for mut job in jobs {
            let run = &runs[job.number];
            let status = match job.child.try_wait() {
                Ok(None) => {
                    if stop {
                        // The end of its input tells it to save and stop.
                        drop(job.child.stdin.take());
                    }
                    going_on.push(job);
                    continue;
                }
                Ok(Some(status)) => status,
                Err(error) => {
                    outcomes[job.number] = Some(Outcome::Failed(format!("its process is lost: {error}")));
                    continue;
                }
            };
            if status.code() == Some(i32::from(LOCKED)) {
                waiting.push((job.number, Instant::now() + AGAIN));
                continue;
            }
            let outcome = outcome(&run.directory, status, job.log);
            if let Outcome::Failed(why) = &outcome {
                // Without space for this line the screen still has it.
                let _ = replace_file(&run.directory.failed, format!("{why}\n").as_bytes());
            }
            stop |= notice(&Notice::Ended(run, &outcome, job.since.elapsed()));
            outcomes[job.number] = Some(outcome);
        }
        jobs = going_on;
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let going: Vec<Going<'_>> = jobs
                .iter()
                .map(|job| Going {
                    run: &runs[job.number],
                    reached: Reached::of(&runs[job.number].directory),
                    since: job.since,
                })
                .collect();
            stop |= notice(&Notice::Going(&going));
        }
        if !jobs.is_empty() || !waiting.is_empty() {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Stopped)).collect())
}

fn start(config: &PoolConfig, run: &Planned, number: usize) -> Result<Job> {
    let path = &run.directory.log;
    let io = |action| Error::io(action, path);
    let log = OpenOptions::new().create(true).append(true).open(path).map_err(io("write"))?;
    let length = log.metadata().map_err(io("read"))?.len();
    let mut command = Command::new(&config.program);
    command.arg("run").arg(&run.directory.config).arg("--out").arg(&run.directory.path);
    command.args(&config.words).arg("--stop-at-end-of-input");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().map_err(Error::io("start", &config.program))?;
    Ok(Job { number, child, since: Instant::now(), log: length })
}

/// What an exit status means.
fn outcome(directory: &RunDirectory, status: ExitStatus, log: u64) -> Outcome {
    // A terminal sends Ctrl-C to all programs in it: to a run at the same time as to the pool, or before it can save.
    const INTERRUPTED: i32 = 130;
    match status.code() {
        Some(0) => Outcome::Finished,
        Some(INTERRUPTED) => Outcome::Stopped,
        None if was_interrupted(status) => Outcome::Stopped,
        Some(code) => Outcome::Failed(last_words(&directory.log, log).unwrap_or(format!("exit code {code}"))),
        None => Outcome::Failed(format!("its process was killed ({status}); start the sweep again to go on")),
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

/// The error that a run ended with.
fn last_words(log: &Path, from: u64) -> Option<String> {
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
        assert_eq!(Reached::of(&directory).share(), 0.0);
        let lines = [
            r#"{"event":"stream_started","tasks":4}"#,
            r#"{"event":"task_started","task":"a","number":2,"epochs":10,"epoch":0,"modules":[1]}"#,
            r#"{"event":"epoch_ended","epoch":4,"epochs":10,"loss":1.0,"cross_entropy":1.0,"train_accuracy":0.5,"val_accuracy":null,"modules":[1]}"#,
            r#"{"event":"epoch_en"#,
        ];
        fs::write(&directory.events, lines.join("\n")).unwrap();
        let reached = Reached::of(&directory);
        assert_eq!(reached, Reached { tasks: 4, task: 2, epoch: 5, epochs: 10 });
        assert!((reached.share() - 0.625).abs() < 1e-12);
    }
}
