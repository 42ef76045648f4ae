//! The partial: the checkpoint of a task that a model file is learning (`shop.lmc.partial`), and what it belongs to.
//!
//! A task resumes only on the model file that it was begun on, with the same settings and the same data: class names,
//! labels and pixels. Where the data lie does not matter.

use serde::{Deserialize, Serialize};

use super::model_file::ModelFile;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::training::TaskData;
use crate::training::checkpoint::State;
use crate::training::config::LearnerConfig;

/// What a partial belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskIdentity {
    /// Fingerprint of the model file before the task; empty if there was none.
    model: String,
    task: String,
    /// Where the data lie, for messages.
    data: String,
    images: usize,
    config: LearnerConfig,
    /// Hash of class names, labels and pixels; earlier versions wrote none.
    #[serde(default)]
    content: Option<String>,
}

impl TaskIdentity {
    /// The identity of a task of a model file; `source` says where the data lie.
    pub fn new(file: &ModelFile, data: TaskData<'_>, source: &str, config: LearnerConfig) -> Self {
        Self {
            model: file.fingerprint().unwrap_or_default().to_owned(),
            task: data.name.to_owned(),
            data: source.to_owned(),
            images: data.train.len(),
            config,
            content: Some(data.content_hash()),
        }
    }

    /// Why a partial of this identity cannot be resumed as `wanted`; `None` if it can.
    fn difference(&self, wanted: &Self) -> Option<&'static str> {
        let same_data = match &self.content {
            Some(_) => self.content == wanted.content,
            None => (&self.data, self.images) == (&wanted.data, wanted.images),
        };
        if self.task != wanted.task {
            Some("it is another task")
        } else if self.model != wanted.model {
            Some("the model file has changed since")
        } else if !same_data {
            Some("it was begun with other data: class names, labels or pixels differ")
        } else if self.config != wanted.config {
            Some("it was begun with other settings")
        } else {
            None
        }
    }
}

impl ModelFile {
    /// Writes the state of an open task beside the model file, with its mode and owner.
    pub fn save_partial(&self, model: &Model, identity: &TaskIdentity) -> Result<()> {
        model.state()?.save_like(identity, &self.partial(), self.path())
    }

    /// The state of a task that was interrupted; `None` if none was. One that does not fit is an error.
    pub fn resume(&self, wanted: &TaskIdentity, model: &Model) -> Result<Option<Model>> {
        let path = self.partial();
        if !path.exists() {
            return Ok(None);
        }
        let (state, found) = self.load_partial()?;
        if let Some(difference) = found.difference(wanted) {
            let problem =
                format!("this is task '{}' from {}, half learned; {difference}", found.task, found.data);
            let cure = match found.model == wanted.model {
                true => "finish it with the command that began it, or delete the file",
                false => "delete the file to begin the task anew",
            };
            return Err(Error::bad(&path, problem, cure));
        }
        let mut resumed = Model::from_state(state, &path, &model.network.device.clone().inner())?;
        // Checkpoints of earlier versions hold the settings of the task instead of the model's.
        resumed.config = model.config.clone();
        resumed.preparation = model.preparation;
        Ok(Some(resumed))
    }

    /// Drops a partial whose task the model has learned: its process was killed after the model was saved. True if it
    /// did.
    pub fn drop_spent_partial(&self, model: &Model) -> Result<bool> {
        let path = self.partial();
        if !path.exists() {
            return Ok(false);
        }
        let (_, found) = self.load_partial()?;
        let spent = model.tasks().any(|task| task == found.task);
        if spent {
            self.remove_partial()?;
        }
        Ok(spent)
    }

    /// Complains about a half-learned task: it would not fit to a model that is changed otherwise.
    pub fn check_no_partial(&self) -> Result<()> {
        if !self.partial().exists() {
            return Ok(());
        }
        let problem = "a task of this model is half learned";
        let cure = "finish it with the command that began it, or delete this file";
        Err(Error::bad(&self.partial(), problem, cure))
    }

    fn load_partial(&self) -> Result<(State, TaskIdentity)> {
        let path = self.partial();
        State::load(&path).map_err(|error| match error {
            Error::Input(lmc_streams::Error::BadData { problem, .. }) => {
                let cure = "delete the file; its task begins anew with the next `lmc learn`";
                Error::bad(&path, format!("the state of a half-learned task: {problem}"), cure)
            }
            error => error,
        })
    }

    /// Removes the partial, if there is one.
    pub fn remove_partial(&self) -> Result<()> {
        let path = self.partial();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(lmc_streams::Error::io("remove", &path)(error).into())
            }
            _ => Ok(()),
        }
    }
}
