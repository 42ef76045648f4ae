//! What is measured on the network of a finished run of LMC is kept beside it, in a file of its own: an interrupted comparison
//! goes on, and its table can be made again without the network.

use std::path::PathBuf;

use burn::tensor::Device;
use lmc::{Model, TaskData};
use lmc_streams::{Catalog, Stream, read_text, replace_file};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::records::RunRecord;
use crate::run_directory::{LARGEST_TEXT, RunDirectory, damaged};

fn path(run: &RunRecord, file: &str) -> PathBuf {
    run.directory.join(file)
}

/// Whether a run is one of LMC that keeps a network, or was measured already.
pub(crate) fn concerns(run: &RunRecord, file: &str) -> bool {
    let method = run.experiment.method.as_str();
    method.starts_with("lmc")
        && (RunDirectory::new(&run.directory).model.exists() || path(run, file).exists())
}

/// What was measured; `None` if nothing was.
pub(crate) fn read<T: DeserializeOwned>(run: &RunRecord, file: &str) -> Result<Option<T>> {
    let path = path(run, file);
    if !path.exists() {
        return Ok(None);
    }
    let found = serde_json::from_str(&read_text(&path, LARGEST_TEXT)?);
    found.map(Some).map_err(|error| damaged(&path, error.to_string()))
}

/// Keeps what was measured, in place of what was before.
pub(crate) fn write<T: Serialize>(run: &RunRecord, file: &str, measured: &T) -> Result<()> {
    let text = serde_json::to_string_pretty(measured).map_err(|error| Error::unwritable("results", error))?;
    Ok(replace_file(&path(run, file), text.as_bytes())?)
}

/// The stream of a run and its network, whose tasks get the signatures and routes that they lack.
pub(crate) fn load(
    run: &RunRecord,
    catalog: &Catalog,
    device: &Device,
    progress: &mut dyn FnMut(&str),
) -> Result<(Stream, Model)> {
    let name = run.directory.display();
    progress(&format!("{name}: loading"));
    let stream = catalog.stream(&run.experiment.request()?)?;
    let mut model = Model::load_on(&RunDirectory::new(&run.directory).model, device)?;
    for task in &stream.tasks {
        let head = model.head(&task.name)?.1;
        if head.signature.is_none() || head.route.is_none() {
            progress(&format!("{name}: calibrating {}", task.name));
            model.recalibrate(TaskData::from(task))?;
        }
    }
    Ok((stream, model))
}
