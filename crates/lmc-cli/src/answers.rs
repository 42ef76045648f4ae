//! What `learn`, `predict` and `evaluate` share: heads by name, data with a head's labels, accuracies.

use anyhow::Result;
use clap::{Args, ValueEnum};
use lmc::composition::Selection;
use lmc::evaluation::{Told, ask, ask_mixed};
use lmc::head::Head;
use lmc::prediction::{Company, HeadChoice, Routing};
use lmc::{Error, Learner};
use lmc_lab::Ways;
use lmc_streams::{Seed, Task, TaskSet};

/// How a model answers, if not as it was made.
#[derive(Args, Debug, Clone, Copy)]
pub struct Answering {
    /// Which modules a picture may pass through: all_modules (the paper's), or as_learned, those that were there when
    /// the head was learned. By default what the model was made with.
    #[arg(long, value_name = "HOW")]
    routing: Option<RoutingName>,
    /// What heads are compared by when the task is not given: structural_loss (the paper's), or familiarity, how likely
    /// what a head and the layers before it say is for its task. By default what the model was made with.
    #[arg(long, value_name = "HOW")]
    head_choice: Option<HeadChoiceName>,
    /// Which modules of a layer take part: soft, all by their weights, or hard, the best one for each picture, as in
    /// LMC(A,H). By default what the model was made with.
    #[arg(long, value_name = "HOW")]
    selection: Option<SelectionName>,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
#[value(rename_all = "snake_case")]
enum SelectionName {
    Soft,
    Hard,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
#[value(rename_all = "snake_case")]
enum RoutingName {
    AllModules,
    AsLearned,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
#[value(rename_all = "snake_case")]
enum HeadChoiceName {
    StructuralLoss,
    Familiarity,
}

impl Answering {
    /// Changes how a model answers.
    pub fn apply(self, learner: &mut Learner) {
        let prediction = &mut learner.config.prediction;
        match self.routing {
            Some(RoutingName::AllModules) => prediction.routing = Routing::AllModules,
            Some(RoutingName::AsLearned) => prediction.routing = Routing::AsLearned,
            None => {}
        }
        match self.head_choice {
            Some(HeadChoiceName::StructuralLoss) => prediction.head_choice = HeadChoice::StructuralLoss,
            Some(HeadChoiceName::Familiarity) => prediction.head_choice = HeadChoice::Familiarity,
            None => {}
        }
        match self.selection {
            Some(SelectionName::Soft) => learner.config.composition.selection = Selection::Soft,
            Some(SelectionName::Hard) => learner.config.composition.selection = Selection::Hard,
            None => {}
        }
    }
}

/// The head of a task.
pub fn head(learner: &Learner, task: &str) -> Result<usize> {
    let heads = &learner.network.heads;
    heads.iter().position(|head| head.task == task).ok_or_else(|| {
        let known: Vec<&str> = heads.iter().map(|head| head.task.as_str()).collect();
        let cure = format!("the model knows {}", known.join(", "));
        lmc_streams::Error::unknown("task", task, known.iter().copied(), cure).into()
    })
}

/// The test images of a task, or all of them if it has no such split, with labels in the order of a head's classes.
pub fn relabelled(task: &Task, head: &Head) -> Result<TaskSet> {
    let mut labels = Vec::with_capacity(task.classes.len());
    for class in &task.classes {
        let label = head.classes.iter().position(|known| known == class).ok_or_else(|| {
            let cure = format!("its classes are {}", head.classes.join(", "));
            let known = head.classes.iter().map(String::as_str);
            lmc_streams::Error::unknown("class", class, known, format!("task '{}': {cure}", head.task))
        })?;
        labels.push(label as u32);
    }
    let set = if task.test.is_empty() { &task.train } else { &task.test };
    Ok(set.with_labels(&labels))
}

/// Accuracy of sets, each with its head, in all ways.
pub fn accuracies(learner: &Learner, sets: &[(usize, TaskSet)]) -> Result<Vec<Ways>> {
    Ok(asked(learner, sets)?.into_iter().map(|asked| asked.ways).collect())
}

/// How a set was told.
pub struct Answered {
    /// Accuracy.
    pub ways: Ways,
    /// Images that each head answered, in batches of the task.
    pub batches: Told,
    /// Images that each head answered, one by one.
    pub single: Told,
}

/// How sets were told, each with its head.
pub fn asked(learner: &Learner, sets: &[(usize, TaskSet)]) -> Result<Vec<Answered>> {
    if sets.is_empty() {
        return Ok(Vec::new());
    }
    let (predictor, size) = (learner.predictor()?, learner.config.batch);
    let seed = Seed::root(learner.seed).named("mixed");
    let all: Vec<&TaskSet> = sets.iter().map(|(_, set)| set).collect();
    let mixed = ask_mixed(&predictor, &all, size, &seed)?;
    let mut answered = Vec::new();
    for ((head, set), mixed) in sets.iter().zip(mixed) {
        if set.is_empty() {
            return Err(Error::setting("data", "there are no images", "give some").into());
        }
        let batches = ask(&predictor, set, *head, size, Company::Batch)?;
        let single = ask(&predictor, set, *head, size, Company::Alone)?;
        let ways = Ways {
            task_given: batches.given.accuracy(),
            task_batches: Some(batches.chosen.accuracy()),
            mixed: Some(mixed.accuracy()),
            single: Some(single.chosen.accuracy()),
        };
        answered.push(Answered { ways, batches: batches.chosen, single: single.chosen });
    }
    Ok(answered)
}
