//! The plug-and-play pair: two learners that are merged after training apart (specification §3.7).

use super::recipe::{ClassRule, TaskRecipe};
use crate::transform::{Colour, Looks, Transform};

/// Black digits, 95 % on the background `majority` and 5 % on the other of red and green.
pub fn looks(majority: Colour) -> Looks {
    let minority = if majority == Colour::RED { Colour::GREEN } else { Colour::RED };
    Looks::Mixed(Transform::Background(majority), Transform::Background(minority))
}

/// Learner 1, from (mnist, fashion-mnist): MNIST, much Fashion-MNIST, coloured MNIST mostly red.
pub fn first() -> Vec<TaskRecipe> {
    vec![TaskRecipe::ten(0, 80, 40), TaskRecipe::ten(1, 100, 40), coloured(0, Colour::RED)]
}

/// Learner 2, from (fashion-mnist, mnist, svhn): little Fashion-MNIST, coloured MNIST mostly green, SVHN.
pub fn second() -> Vec<TaskRecipe> {
    vec![TaskRecipe::ten(0, 5, 5), coloured(1, Colour::GREEN), TaskRecipe::ten(2, 80, 40)]
}

/// Coloured MNIST keeps the digits' own order in both learners.
fn coloured(source: usize, majority: Colour) -> TaskRecipe {
    let classes = ClassRule::Numbers((0..10).collect());
    TaskRecipe { classes, looks: looks(majority), ..TaskRecipe::ten(source, 10, 10) }
}
