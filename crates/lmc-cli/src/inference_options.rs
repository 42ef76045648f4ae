//! Options of `predict` and `evaluate`: how a model classifies, if not as it was made.

use clap::{Args, ValueEnum};
use lmc::Model;
use lmc::internals::inference::{HeadChoice, Routing};
use lmc::internals::network::composition::Selection;

use crate::output::say;

/// How a model classifies, if not as it was made.
#[derive(Args, Debug, Clone, Copy)]
pub struct InferenceOptions {
    /// Modules that a picture may pass through: all_modules (the paper's), or as_learned, those that were there when the
    /// task was learned. By default what the model was made with.
    #[arg(long, value_name = "ROUTING")]
    routing: Option<RoutingName>,
    /// How a head is chosen when the task is not given: signature, by how the picture looks; task_gaussian, by how likely the
    /// scores of a head and its layers are for its task; or structural_loss (the paper's). By default what the model was
    /// made with.
    #[arg(long, value_name = "CHOICE")]
    head_choice: Option<HeadChoiceName>,
    /// Modules of a layer that take part: soft, all by their weights, or hard, the best one for each picture, as in
    /// LMC(A,H). By default what the model was made with.
    #[arg(long, value_name = "SELECTION")]
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
    Signature,
    StructuralLoss,
    #[value(alias = "familiarity")]
    TaskGaussian,
}

/// Says which tasks have no signature, if heads should be found by one.
pub fn say_what_is_missing(model: &Model) -> anyhow::Result<()> {
    let without = model.predictor()?.without_signature().join(", ");
    if model.config.prediction.head_choice == HeadChoice::Signature && !without.is_empty() {
        say(&format!(
            "note: no signature of {without}: heads are chosen by their scores (task_gaussian) instead; add it with \
             lmc calibrate"
        ));
    }
    Ok(())
}

impl InferenceOptions {
    /// Changes how a model classifies.
    pub fn apply(self, model: &mut Model) {
        let prediction = &mut model.config.prediction;
        match self.routing {
            Some(RoutingName::AllModules) => prediction.routing = Routing::AllModules,
            Some(RoutingName::AsLearned) => prediction.routing = Routing::AsLearned,
            None => {}
        }
        match self.head_choice {
            Some(HeadChoiceName::Signature) => prediction.head_choice = HeadChoice::Signature,
            Some(HeadChoiceName::StructuralLoss) => prediction.head_choice = HeadChoice::StructuralLoss,
            Some(HeadChoiceName::TaskGaussian) => prediction.head_choice = HeadChoice::TaskGaussian,
            None => {}
        }
        match self.selection {
            Some(SelectionName::Soft) => model.config.composition.selection = Selection::Soft,
            Some(SelectionName::Hard) => model.config.composition.selection = Selection::Hard,
            None => {}
        }
    }
}
