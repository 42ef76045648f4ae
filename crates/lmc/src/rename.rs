//! Other names for tasks and classes; nothing that is computed changes.

use lmc_streams::names::check_name;

use crate::error::{Error, Result};
use crate::file::history::Act;
use crate::model::Model;
use crate::network::head;

impl Model {
    /// Gives a task another name, everywhere.
    pub fn rename_task(&mut self, task: &str, to: &str) -> Result<()> {
        check_name("task", to)?;
        let (number, _) = self.head(task)?;
        if self.tasks().any(|known| known == to) {
            return Err(Error::setting(
                format!("task '{to}'"),
                "the model has one of that name",
                "choose another name",
            ));
        }
        for layer in &mut self.network.layers {
            layer.rename_origins(task, to);
        }
        to.clone_into(&mut self.network.heads[number].task);
        self.history.rename(task, to);
        self.history.push(Act::Renamed {
            task: to.to_owned(),
            class: false,
            from: task.to_owned(),
            to: to.to_owned(),
        });
        Ok(())
    }

    /// Gives a class of a task another name.
    pub fn rename_class(&mut self, task: &str, class: &str, to: &str) -> Result<()> {
        check_name("class", to)?;
        let number = head::find(&self.network.heads, task)?;
        let classes = &mut self.network.heads[number].classes;
        if classes.iter().any(|known| known == to) {
            let problem = format!("task '{task}' has one of that name");
            return Err(Error::setting(format!("class '{to}'"), problem, "choose another name"));
        }
        let Some(found) = classes.iter_mut().find(|known| *known == class) else {
            let cure = format!("task '{task}': its classes are {}", classes.join(", "));
            let known = classes.iter().map(String::as_str);
            return Err(lmc_streams::Error::unknown("class", class, known, cure).into());
        };
        to.clone_into(found);
        let (task, from, to) = (task.to_owned(), class.to_owned(), to.to_owned());
        self.history.push(Act::Renamed { task, class: true, from, to });
        Ok(())
    }
}
