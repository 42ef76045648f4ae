//! Out-of-distribution coloured MNIST: five pairs of digits, each trained in one colour scheme and tested
//! in all of them (specification §3.6).

use super::recipe::{ClassRule, TaskRecipe};
use crate::transform::{Colour, Looks, Transform};

/// The colour schemes; the sixth is tested but belongs to no training task.
pub const SCHEMES: [Transform; 6] = [
    Transform::Background(Colour::RED),
    Transform::Background(Colour::GREEN),
    Transform::Background(Colour::BLUE),
    Transform::Digit(Colour::RED),
    Transform::Digit(Colour::GREEN),
    Transform::Digit(Colour::BLUE),
];

/// The pair of digits of training task `number`.
pub fn pair(number: usize) -> [usize; 2] {
    [2 * number, 2 * number + 1]
}

/// The five training tasks: pair `i` of digits in scheme `i`.
pub fn train() -> Vec<TaskRecipe> {
    (0..5).map(|number| task(number, SCHEMES[number], [4000, 200, 1000])).collect()
}

/// Every pair in every scheme, test images only: task `6 i + j` is pair `i` in scheme `j`.
pub fn test() -> Vec<TaskRecipe> {
    (0..5).flat_map(|number| SCHEMES.map(|scheme| task(number, scheme, [0, 0, 1000]))).collect()
}

fn task(number: usize, scheme: Transform, per_class: [u32; 3]) -> TaskRecipe {
    let classes = ClassRule::Numbers(pair(number).to_vec());
    TaskRecipe { name: None, source: 0, classes, per_class, looks: Looks::One(scheme) }
}
