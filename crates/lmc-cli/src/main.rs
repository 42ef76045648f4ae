//! `lmc`, the Local Module Composer: one file per verb, each thin over the libraries.
//!
//! Exit codes: 0 done; 1 the machine failed (network, disk); 2 the input is wrong (usage, data, names);
//! 70 a bug of ours; 75 another process works on the same run or model; 130 stopped by Ctrl-C.

mod bench;
mod bench_growth;
mod bench_methods;
mod bench_signature;
mod calibrate;
mod compute;
mod data;
mod demo;
mod evaluate;
mod forget;
mod head_rules;
mod history;
mod inference_options;
mod inspect;
mod interrupt;
mod learn;
mod learn_more;
mod learn_plan;
mod merge;
mod novelty;
mod output;
mod predict;
mod progress;
mod rename;
mod report;
mod run;
mod streams;
mod sweep;
mod tell_apart;
mod verify;

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use clap::{Parser, Subcommand};
use lmc_streams::{Catalog, DataDirs, Error};

/// Local Module Composer: a continual learner whose network grows out of small modules.
#[derive(Parser, Debug)]
#[command(name = "lmc", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Examples:
  lmc demo                                       a network grows over six generated tasks
  lmc learn shop.lmc --task fruit --data fruit/  a model file learns your own pictures
  lmc predict shop.lmc photo.jpg                 and classifies, without being given the task
  lmc history shop.lmc                           what it learned when, and from how many pictures
  lmc run experiments/ctrl/lmc_a/s_minus.toml    an experiment of the paper
  lmc sweep experiments/table1/generated.toml    the paper's table 1, without any data
  lmc report runs --out report                   all runs as tables beside the paper's, and a page
  lmc streams show s_minus --sheet s_minus.png   a stream of the paper as a table and a picture
  lmc streams list                               all streams
  lmc data list                                  data sets: known, and on this machine
  lmc bench                                      how fast this machine trains")]
struct Cli {
    /// Folder with data sets; searched before $LMC_DATA and the platform's data folder.
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Data sets: list, get, verify, show.
    #[command(subcommand)]
    Data(data::Verb),
    /// Streams of tasks: list, show.
    #[command(subcommand)]
    Streams(streams::Verb),
    Demo(demo::Arguments),
    Learn(learn::Arguments),
    Predict(predict::Arguments),
    Evaluate(evaluate::Arguments),
    Inspect(inspect::Arguments),
    Merge(merge::Arguments),
    Forget(forget::Arguments),
    Calibrate(calibrate::Arguments),
    Rename(rename::Arguments),
    History(history::Arguments),
    Verify(verify::Arguments),
    TellApart(tell_apart::Arguments),
    HeadRules(head_rules::Arguments),
    Novelty(novelty::Arguments),
    Run(run::Arguments),
    Sweep(sweep::Arguments),
    Report(report::Arguments),
    Bench(bench::Bench),
}

impl Cli {
    fn run(self) -> Result<()> {
        match self.verb {
            Verb::Bench(bench) => bench::run(&bench),
            Verb::Data(verb) => data::run(verb, self.data_dir.as_deref()),
            Verb::Streams(verb) => streams::run(verb, &catalog(self.data_dir.as_deref())?),
            Verb::Demo(arguments) => demo::run(&arguments, &catalog(self.data_dir.as_deref())?),
            Verb::Learn(arguments) => learn::run(&arguments, &catalog(self.data_dir.as_deref())?),
            Verb::Predict(arguments) => predict::run(&arguments),
            Verb::Evaluate(arguments) => evaluate::run(&arguments, &catalog(self.data_dir.as_deref())?),
            Verb::Inspect(arguments) => inspect::run(&arguments),
            Verb::Merge(arguments) => merge::run(&arguments),
            Verb::Forget(arguments) => forget::run(&arguments),
            Verb::Calibrate(arguments) => calibrate::run(&arguments, &catalog(self.data_dir.as_deref())?),
            Verb::Rename(arguments) => rename::run(&arguments),
            Verb::History(arguments) => history::run(&arguments),
            Verb::Verify(arguments) => verify::run(&arguments),
            Verb::TellApart(arguments) => tell_apart::run(&arguments, &catalog(self.data_dir.as_deref())?),
            Verb::HeadRules(arguments) => head_rules::run(&arguments, &catalog(self.data_dir.as_deref())?),
            Verb::Novelty(arguments) => novelty::run(&arguments, &catalog(self.data_dir.as_deref())?),
            Verb::Sweep(arguments) => sweep::run(&arguments, self.data_dir.as_deref()),
            Verb::Report(arguments) => report::run(&arguments),
            Verb::Run(arguments) => run::run(&arguments, &catalog(self.data_dir.as_deref())?),
        }
    }
}

fn catalog(folder: Option<&Path>) -> Result<Catalog> {
    Ok(Catalog::new(DataDirs::search(folder)?))
}

/// What the last panic said. Decoders of other crates may panic on hostile files; our readers turn that into
/// an error, and nobody should see the noise in between.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

fn main() -> ExitCode {
    panic::set_hook(Box::new(|info| {
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string().replace('\n', " ");
    }));
    let cli = Cli::parse();
    match panic::catch_unwind(AssertUnwindSafe(|| cli.run())) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            output::say(&format!("error: {error:#}"));
            ExitCode::from(exit_code(&error))
        }
        Err(_) => {
            let what = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone();
            output::say(&format!(
                "error: a bug in lmc ({what}); please report it with the command that you ran"
            ));
            ExitCode::from(70)
        }
    }
}

/// 1 for what the machine did, 2 for what the user can correct.
fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<sweep::Failed>() {
        return 1;
    }
    let learning = match error.downcast_ref::<lmc_lab::Error>() {
        Some(lmc_lab::Error::Locked { .. }) => return lmc_lab::worker_pool::LOCKED_EXIT_CODE,
        Some(lmc_lab::Error::Lmc(learning)) => Some(learning),
        None => error.downcast_ref::<lmc::Error>(),
    };
    let input = match learning {
        Some(lmc::Error::Stopped { .. }) => return interrupt::EXIT_CODE,
        Some(lmc::Error::Locked { .. }) => return lmc_lab::worker_pool::LOCKED_EXIT_CODE,
        Some(lmc::Error::Changed { .. }) => return 1,
        Some(lmc::Error::Input(input)) => Some(input),
        _ => error.downcast_ref::<Error>(),
    };
    match input {
        Some(Error::Download(_)) => 1,
        Some(Error::Io { action, .. }) if *action != "read" => 1,
        // Our own output could not be written.
        None if error.downcast_ref::<std::io::Error>().is_some() => 1,
        _ => 2,
    }
}
