//! `lmc verify`: whether model files are whole.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use lmc::internals::file::verify::{Verified, verify};
use serde::Serialize;

use crate::output::{counted, grouped, print, print_json};

/// Check model files: checksum, bounds, laws; one line each. The exit code is 0 if all are whole.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc verify shop.lmc
  lmc verify backups/*.lmc --json")]
pub struct Arguments {
    /// Model files.
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct FileResult {
    file: String,
    #[serde(flatten)]
    verified: Option<Verified>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    let result = |path: &PathBuf| {
        let file = path.display().to_string();
        match verify(path) {
            Ok(verified) => FileResult { file, verified: Some(verified), error: None },
            Err(error) => FileResult { file, verified: None, error: Some(error.to_string()) },
        }
    };
    let results: Vec<FileResult> = arguments.models.iter().map(result).collect();
    if arguments.json {
        print_json(&results)?;
    } else {
        results.iter().try_for_each(|result| print(&line(result)))?;
    }
    let bad = results.iter().filter(|result| result.error.is_some()).count();
    if bad > 0 {
        bail!("{bad} of {} model files cannot be relied on; see the list", results.len());
    }
    Ok(())
}

fn line(result: &FileResult) -> String {
    match (&result.verified, &result.error) {
        (Some(found), _) => format!(
            "{}: whole; {}, {}, {} parameters, {} bytes, fingerprint {}",
            result.file,
            counted(found.tasks, "task"),
            counted(found.modules, "module"),
            grouped(found.parameters as u64),
            grouped(found.bytes as u64),
            &found.fingerprint[..16]
        ),
        (None, Some(error)) => format!("NOT WHOLE: {error}"),
        (None, None) => String::new(),
    }
}
