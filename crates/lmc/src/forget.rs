//! Forgetting a task on purpose: its head goes, and the modules that no other head sees.
//!
//! What later heads were trained behind stays, because their predictions would change; the report says how many of these
//! modules were trained on images of the forgotten task. Its name goes everywhere: from the heads, from the origin of
//! modules and from the history.

use std::ops::Range;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::file::history::Act;
use crate::model::Model;
use crate::module::{LocalModule, StartedFrom};
use crate::network::layer::Layer;

/// What stands for the name of a task that was forgotten.
pub(crate) const FORGOTTEN: &str = "(forgotten)";

/// What was removed with a task, and what stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForgetReport {
    /// Name of the task.
    pub task: String,
    /// Modules per layer that were removed.
    pub removed: Vec<usize>,
    /// Modules per layer that were trained on the task and stay, because other tasks are classified behind them.
    pub kept: Vec<usize>,
    /// Modules per layer of the model now.
    pub modules: Vec<usize>,
}

impl Model {
    /// Forgets a task. Predictions of all others, with the task given, stay what they were under `Routing::AsLearned`.
    pub fn forget(&mut self, task: &str) -> Result<ForgetReport> {
        if self.training.is_some() {
            return Err(Error::setting("forget", "a task is being learned", "finish it first"));
        }
        let (number, _) = self.head(task)?;
        let modules = self.network.modules();
        let all = || modules.iter().map(|&count| 0..count).collect();
        let views: Vec<Vec<Range<usize>>> = self
            .network
            .heads
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != number)
            .map(|(_, head)| head.view.clone().unwrap_or_else(all))
            .collect();
        let mut report = ForgetReport {
            task: task.to_owned(),
            removed: Vec::new(),
            kept: Vec::new(),
            modules: Vec::new(),
        };
        self.network.heads.remove(number);
        for (at, layer) in self.network.layers.iter_mut().enumerate() {
            let is_seen = |module: usize| views.iter().any(|view| view[at].contains(&module));
            let places: Vec<usize> = (0..layer.modules().len()).filter(|&module| is_seen(module)).collect();
            let mut kept: Vec<LocalModule> =
                places.iter().map(|&place| layer.modules()[place].clone()).collect();
            report.removed.push(layer.modules().len() - kept.len());
            report.kept.push(kept.iter().filter(|module| module.origin.is_of(task)).count());
            for module in &mut kept {
                if module.origin.is_of(task) {
                    module.origin.task = FORGOTTEN.to_owned();
                }
                if let StartedFrom::Copy { module } = &mut module.origin.from
                    && let Some(place) = places.iter().position(|place| place == module)
                {
                    *module = place;
                }
            }
            *layer = Layer::new(layer.config, kept)?;
            // All modules of a view stay, so that it is a range still.
            for range in self.network.heads.iter_mut().filter_map(|head| head.view.as_mut()?.get_mut(at)) {
                let before = |end: usize| places.iter().filter(|&&place| place < end).count();
                *range = before(range.start)..before(range.end);
            }
        }
        report.modules = self.network.modules();
        self.history.forget(task);
        self.history.push(Act::Forgot { modules: report.removed.iter().sum() });
        Ok(report)
    }
}
