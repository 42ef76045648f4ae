//! `lmc merge`: several models become one, without data and without training.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use lmc::{Error, Model, ModelFile};

use crate::output::{print, print_json, table};

/// Merge models of several sites into one that knows all their tasks. No data, no training.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  lmc merge berlin.lmc lagos.lmc --out both.lmc
  lmc merge a.lmc b.lmc c.lmc --out all.lmc --json")]
pub struct Arguments {
    /// Model files, two or more.
    #[arg(required = true, num_args = 2..)]
    models: Vec<PathBuf>,
    /// The merged model file.
    #[arg(long)]
    out: PathBuf,
    /// Replace the merged model file if there is another one already.
    #[arg(long)]
    replace: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut models = Vec::new();
    for path in &arguments.models {
        models.push((name(path), Model::load(path)?));
    }
    let (model, merged) = Model::merge_named(&models)?;
    save_new(&arguments.out, &model, arguments.replace, &arguments.models)?;
    if arguments.json {
        return print_json(&merged);
    }
    let listed = |modules: &[usize]| modules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let mut rows: Vec<Vec<String>> = merged
        .models
        .iter()
        .zip(&merged.modules)
        .zip(&models)
        .map(|((name, modules), (_, model))| {
            vec![name.clone(), listed(modules), model.network.heads.len().to_string()]
        })
        .collect();
    let tasks = model.network.heads.len().to_string();
    rows.push(vec![arguments.out.display().to_string(), listed(&model.network.modules()), tasks]);
    print(&table(&["model", "modules per layer", "tasks"], &["tasks"], rows))?;
    for [model, old, new] in &merged.renamed {
        print(&format!("task '{old}' of {model} is now '{new}'"))?;
    }
    for difference in &merged.differences {
        print(&format!("note: {difference}; the latter's are kept"))?;
    }
    print(&format!("written: {}", arguments.out.display()))
}

/// Writes a new model file made of others, whose dates it takes over. Another model of that name stays, unless it may be
/// replaced.
pub fn save_new(out: &Path, model: &Model, replace: bool, made_of: &[PathBuf]) -> Result<()> {
    let mut file = ModelFile::open(out)?;
    if file.fingerprint().is_some() && !replace && !file.holds(model)? {
        let problem = "there is another file of that name already";
        return Err(Error::bad(out, problem, "choose another name, or add --replace").into());
    }
    for path in made_of {
        file.take_dates(path);
    }
    Ok(file.save(model)?)
}

fn name(path: &Path) -> String {
    path.file_stem().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}
