//! Merging: models that were trained apart become one, without data and without training (paper §4.3).
//!
//! Layer by layer the modules of all models stand side by side, with their statistics; the heads follow one another.
//! Because modules are chosen by their own local scores, nothing has to be learned for that.

use lmc_streams::names::check_name;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::file::history::{Act, History};
use crate::model::Model;
use crate::module::{LocalModule, StartedFrom};
use crate::network::Network;
use crate::network::head::Head;
use crate::network::layer::Layer;

/// Report of a merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MergeReport {
    /// Names of the models.
    pub models: Vec<String>,
    /// Modules per layer of each model.
    pub modules: Vec<Vec<usize>>,
    /// Tasks that got another name: model, old name, new name.
    pub renamed: Vec<[String; 3]>,
    /// Models whose composition settings differ from the first model's, all of whose settings are kept.
    pub differences: Vec<String>,
}

/// Makes one model of several, each with a name.
pub fn merge(models: &[(String, Model)]) -> Result<(Model, MergeReport)> {
    let Some((first_name, first)) = models.first() else {
        return Err(Error::setting("merge", "there are no models", "name two or more"));
    };
    let names = distinct_names(models);
    let mut merged = MergeReport {
        models: names.clone(),
        modules: models.iter().map(|(_, model)| model.network.modules()).collect(),
        renamed: Vec::new(),
        differences: Vec::new(),
    };
    for (name, model) in models {
        // It becomes a part of names of tasks, and goes into the history.
        check_name("model", name)?;
        check(first_name, &first.network, name, model)?;
        if model.preparation != first.preparation {
            let problem = format!("pictures are prepared differently in '{first_name}' and '{name}'");
            return Err(Error::setting("merge", problem, "merge models that prepare pictures alike"));
        }
        if model.config.composition != first.config.composition {
            merged
                .differences
                .push(format!("'{name}' composes its modules with other settings than '{first_name}'"));
        }
    }
    let config = first.network.config.clone();
    let mut heads: Vec<Head> = Vec::new();
    for (at, (name, (_, model))) in names.iter().zip(models).enumerate() {
        for head in &model.network.heads {
            let collides = models.iter().enumerate().any(|(other, (_, model))| {
                other != at && model.network.heads.iter().any(|other| other.task == head.task)
            });
            let mut head = head.clone();
            // The modules of this head stand behind those of the models before it.
            for (layer, range) in head.view.iter_mut().flatten().enumerate() {
                let before: usize =
                    models[..at].iter().map(|(_, model)| model.network.layers[layer].modules().len()).sum();
                *range = range.start + before..range.end + before;
            }
            if collides {
                let new = free_name(&format!("{name}:{}", head.task), models, &heads);
                check_name("task", &new)?;
                merged.renamed.push([name.clone(), head.task.clone(), new.clone()]);
                head.task = new;
            }
            heads.push(head);
        }
    }
    let mut layers: Vec<Layer> = Vec::with_capacity(config.depth);
    for number in 0..config.depth {
        let mut modules: Vec<LocalModule> = Vec::new();
        for (name, (_, model)) in names.iter().zip(models) {
            let before = modules.len();
            let renamed = merged.renamed.iter().filter(|[model, ..]| model == name);
            let renamed: Vec<&[String; 3]> = renamed.collect();
            for module in model.network.layers[number].modules() {
                let mut module = module.clone();
                // What the module's task is called now, and where its parent stands now.
                if let Some([_, _, new]) = renamed.iter().find(|[_, old, _]| module.origin.is_of(old)) {
                    new.clone_into(&mut module.origin.task);
                }
                if let StartedFrom::Copy { module } = &mut module.origin.from {
                    *module += before;
                }
                module.origin.model.get_or_insert_with(|| name.clone());
                modules.push(module);
            }
        }
        layers.push(Layer::new(first.network.layers[number].config, modules)?);
    }
    let network = Network { config, layers, heads, device: first.network.device.clone() };
    let mut model = Model::with(network, first.config.clone(), first.preparation, first.seed);
    model.history = merged_history(&names, models, &merged.renamed);
    Ok((model, merged))
}

/// A name that no task of any model and no head so far has: with a number behind it, if need be.
fn free_name(wanted: &str, models: &[(String, Model)], heads: &[Head]) -> String {
    let is_taken = |name: &str| {
        heads.iter().any(|head| head.task == name)
            || models.iter().any(|(_, model)| model.tasks().any(|task| task == name))
    };
    let mut name = wanted.to_owned();
    let mut number = 2;
    while is_taken(&name) {
        name = format!("{wanted}-{number}");
        number += 1;
    }
    name
}

/// The histories of all models, one after another, with the new names of their tasks.
fn merged_history(names: &[String], models: &[(String, Model)], renamed: &[[String; 3]]) -> History {
    let mut history = History::default();
    for (name, (_, model)) in names.iter().zip(models) {
        let mut own = model.history.clone();
        for [_, from, to] in renamed.iter().filter(|[model, ..]| model == name) {
            own.rename(from, to);
        }
        for mut entry in own.entries {
            entry.model.get_or_insert_with(|| name.clone());
            history.entries.push(entry);
        }
    }
    history.push(Act::Merged { models: names.to_vec() });
    history
}

/// Names of the models; the same one twice gets a number.
fn distinct_names(models: &[(String, Model)]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in models {
        let mut distinct = name.clone();
        let mut number = 2;
        while names.contains(&distinct) {
            distinct = format!("{name}-{number}");
            number += 1;
        }
        names.push(distinct);
    }
    names
}

fn check(first_name: &str, first: &Network, name: &str, model: &Model) -> Result<()> {
    let (a, b) = (&first.config, &model.network.config);
    let differ = |what: &str, a: String, b: String| {
        let problem = format!("{what} is {a} in '{first_name}' and {b} in '{name}'");
        Err(Error::setting("merge", problem, "merge models of one shape"))
    };
    for (what, a, b) in [
        ("the number of image channels", a.channels, b.channels),
        ("the image size", a.size, b.size),
        ("the number of layers (depth)", a.depth, b.depth),
        ("the number of channels (width)", a.width, b.width),
    ] {
        if a != b {
            return differ(what, a.to_string(), b.to_string());
        }
    }
    if a.structural != b.structural {
        return differ(
            "the structural component",
            format!("{:?}", a.structural),
            format!("{:?}", b.structural),
        );
    }
    if a.heads != b.heads {
        return differ(
            "the structural component of heads",
            format!("{:?}", a.heads),
            format!("{:?}", b.heads),
        );
    }
    if model.training.is_some() || model.network.has_trainable_modules() {
        let problem = format!("'{name}' is in the middle of a task");
        return Err(Error::setting("merge", problem, "finish the task first"));
    }
    Ok(())
}
