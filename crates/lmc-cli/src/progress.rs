//! Learning as it is seen: a bar per task on a terminal, a line per event elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use lmc::{DropReason, DroppedModules, Event, ExpansionTest};
use lmc_lab::{Notice, RunEvent};
use lmc_streams::names::shown;

use crate::output::say;

/// Renders events.
pub struct Progress {
    bar: ProgressBar,
    watched: bool,
    quiet: bool,
    accuracy: Option<f64>,
    /// The epoch before which a test of all pictures made a layer grow.
    tested: Option<usize>,
    modules: String,
    steps: u64,
    started: Instant,
    said: Instant,
}

/// When nobody watches, this often a line says how far it is.
const SAY_EVERY: Duration = Duration::from_secs(60);

impl Progress {
    /// `quiet` says nothing at all.
    pub fn new(quiet: bool) -> Self {
        Self {
            bar: ProgressBar::hidden(),
            watched: io::stderr().is_terminal(),
            quiet,
            accuracy: None,
            tested: None,
            modules: String::new(),
            steps: 1,
            started: Instant::now(),
            said: Instant::now(),
        }
    }

    /// A line above the bar.
    pub fn say(&self, line: &str) {
        match (self.quiet, self.watched) {
            (true, _) => {}
            (false, true) => self.bar.println(shown(line)),
            (false, false) => say(line),
        }
    }

    /// Shows what a run does.
    pub fn follow(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Event(RunEvent::Learning(event)) => self.show(event),
            Notice::Event(_) => {}
            Notice::Evaluating { after, task } => self.evaluating(after, task),
        }
    }

    /// Shows an event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::TaskStarted { task, epochs, epoch, modules, .. } => {
                self.tested = None;
                self.start(task, *epochs as u64);
                self.modules = listed(modules);
                let again = if *epoch > 0 { format!(" resumes after epoch {epoch}") } else { String::new() };
                self.say(&format!(
                    "task '{task}'{again}: {epochs} epochs, modules per layer {}",
                    self.modules
                ));
            }
            Event::Step { epoch, step, steps, loss } => {
                self.steps = (*steps).max(1) as u64;
                self.bar.set_position(*epoch as u64 * self.steps + *step as u64 + 1);
                let accuracy =
                    self.accuracy.map_or(String::new(), |value| format!(" val {:.1} %", 100.0 * value));
                self.bar.set_message(format!("loss {loss:.3}{accuracy} modules {}", self.modules));
            }
            Event::ExpansionTested(test) => {
                self.tested = test.layer.map(|_| test.epoch);
                self.say(&format!("  epoch {}: {}", test.epoch + 1, tested(test)));
            }
            // A test of all pictures has said it already.
            Event::Expanded { epoch, .. } if self.tested == Some(*epoch) => (),
            Event::Expanded { layer, z, epoch, .. } => {
                let z: Vec<String> = z.iter().map(|z| format!("{z:.1}")).collect();
                self.say(&format!(
                    "  epoch {}: never seen this (z {}), new module in layer {layer}",
                    epoch + 1,
                    z.join(", ")
                ));
            }
            Event::EpochEnded { epoch, epochs, loss, val_accuracy, modules, .. } => {
                self.modules = listed(modules);
                self.accuracy = val_accuracy.or(self.accuracy);
                self.bar.set_length(*epochs as u64 * self.steps);
                if !self.watched && self.said.elapsed() > SAY_EVERY {
                    self.said = Instant::now();
                    let done = epoch + 1;
                    let left =
                        self.started.elapsed().mul_f64((*epochs - done) as f64 / done as f64).as_secs();
                    self.say(&format!(
                        "  epoch {done} of {epochs}: loss {loss:.3}, about {left} s left for this task"
                    ));
                }
            }
            Event::TaskLearned { task, val_accuracy, modules, dropped, .. } => {
                self.bar.finish_and_clear();
                if let Some(dropped) = dropped {
                    self.say(&format!("  {}", reason(dropped)));
                }
                let accuracy = val_accuracy
                    .map_or(String::new(), |value| format!(", validation {:.1} %", 100.0 * value));
                let seconds = self.started.elapsed().as_secs();
                self.say(&format!(
                    "  '{task}' learned in {seconds} s{accuracy}, modules per layer {}",
                    listed(modules)
                ));
            }
            Event::ProjectionStarted { .. } | Event::ProjectionEnded { .. } => {}
        }
    }

    /// Shows that a test set is being evaluated.
    fn evaluating(&mut self, after: &str, task: &str) {
        if self.watched && !self.quiet {
            if self.bar.is_finished() || self.bar.is_hidden() {
                self.bar = ProgressBar::new_spinner();
                self.bar.enable_steady_tick(Duration::from_millis(120));
            }
            self.bar.set_message(format!("evaluating after '{after}': {task}"));
        }
    }

    fn start(&mut self, task: &str, epochs: u64) {
        self.started = Instant::now();
        self.accuracy = None;
        if !self.watched || self.quiet {
            return;
        }
        let style = "{prefix:20!} {bar:24} {percent:>3} % {eta:>4} {wide_msg}";
        self.bar = ProgressBar::new(epochs * self.steps).with_prefix(task.to_owned());
        if let Ok(style) = ProgressStyle::with_template(style) {
            self.bar.set_style(style);
        }
    }
}

/// What a test for expansion found, by layer.
pub fn tested(test: &ExpansionTest) -> String {
    let number = |z: &Option<f64>| z.map_or("-".to_owned(), |z| format!("{z:.1}"));
    let z: Vec<String> = test.z.iter().map(number).collect();
    let spread: Vec<String> = test.spread.iter().map(number).collect();
    let spread =
        if spread.is_empty() { String::new() } else { format!(", of their spread {}", spread.join(" ")) };
    let answer = match test.layer {
        Some(layer) => format!("never seen this, new module in layer {layer}"),
        None => "no layer needs a module".to_owned(),
    };
    format!("mean z of the pictures by layer {}{spread}: {answer}", z.join(" "))
}

/// Which modules were dropped, and why.
pub fn reason(dropped: &DroppedModules) -> String {
    let modules = listed(&dropped.modules);
    match dropped.reason {
        DropReason::AfterBestEpoch => {
            format!("dropped modules per layer {modules}: they came after the best epoch")
        }
        DropReason::NoGain { with, without } => format!(
            "dropped modules per layer {modules}: validation {:.1} % with them, {:.1} % without",
            100.0 * with,
            100.0 * without
        ),
    }
}

fn listed(modules: &[usize]) -> String {
    modules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
