//! `lmc merge`: several models become one, without data and without training.

use std::path::{Path, PathBuf};

use anyhow::Result;
use burn::tensor::Device;
use clap::Args;
use lmc::{Error, Model, ModelFile};

use crate::output::{print, print_json, print_text, table};

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
    let mut out = NewModelFile::open(&arguments.out, arguments.replace)?;
    let mut models = Vec::new();
    for path in &arguments.models {
        models.push((name(path), out.read(path)?));
    }
    let (model, merged) = Model::merge_named(&models)?;
    out.save(&model)?;
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
    print_text(&table(&["model", "modules per layer", "tasks"], &["tasks"], rows))?;
    for [model, old, new] in &merged.renamed {
        print(&format!("task '{old}' of {model} is now '{new}'"))?;
    }
    for difference in &merged.differences {
        print(&format!("note: {difference}; the latter's are kept"))?;
    }
    print(&format!("written: {}", arguments.out.display()))
}

/// The file of a model that is made of others, whose dates it takes over. It is opened before these are read, so that none
/// of them, which it may be itself, changes unseen.
pub struct NewModelFile {
    file: ModelFile,
    replace: bool,
    made_of: Vec<PathBuf>,
}

impl NewModelFile {
    /// Opens the file, which need not exist.
    pub fn open(out: &Path, replace: bool) -> Result<Self> {
        let mut file = ModelFile::open(out)?;
        if file.partial().exists() {
            // A task that is learned already left it behind, or there is something to finish first.
            file.load_to_change(&Device::flex())?;
            file.check_no_partial()?;
        }
        Ok(Self { file, replace, made_of: Vec::new() })
    }

    /// Reads a model that the new one is made of.
    pub fn read(&mut self, path: &Path) -> Result<Model> {
        self.made_of.push(path.to_owned());
        let own = match self.file.is_at(path) {
            true => self.file.load(&Device::flex())?,
            false => None,
        };
        match own {
            Some(model) => Ok(model),
            None => Ok(Model::load(path)?),
        }
    }

    /// Writes the new model. Another model of that name stays, unless it may be replaced.
    pub fn save(mut self, model: &Model) -> Result<()> {
        if self.file.fingerprint().is_some() && !self.replace && !self.file.holds(model)? {
            let problem = "there is another file of that name already";
            let cure = "choose another name, or add --replace";
            return Err(Error::bad(self.file.path(), problem, cure).into());
        }
        for path in &self.made_of {
            self.file.made_of(path);
        }
        Ok(self.file.save(model)?)
    }
}

fn name(path: &Path) -> String {
    path.file_stem().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}
