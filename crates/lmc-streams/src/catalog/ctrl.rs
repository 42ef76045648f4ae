//! S-, S+, S_in, S_out, S_pl: the five short CTrL streams (specification §3.3).

use super::recipe::{ClassRule, TaskRecipe};
use crate::seed::Seed;
use crate::transform::{Colour, Looks, Transform};

/// Images per class: 4,000 / 2,000 and 400 / 200 over ten classes.
const LARGE: (u32, u32) = (400, 200);
const SMALL: (u32, u32) = (40, 20);
/// The last task of S_in: 50 / 30.
const TINY: (u32, u32) = (5, 3);

fn ten(source: usize, (train, val): (u32, u32)) -> TaskRecipe {
    TaskRecipe::ten(source, train, val)
}

/// Small tasks on the data sets `1..sources`.
fn between(sources: usize) -> impl Iterator<Item = TaskRecipe> {
    (1..sources).map(|source| ten(source, SMALL))
}

/// Direct transfer: a large task comes back with little data.
pub fn s_minus(sources: usize) -> Vec<TaskRecipe> {
    [ten(0, LARGE)].into_iter().chain(between(sources)).chain([ten(0, SMALL)]).collect()
}

/// Backward transfer: a small task comes back with much data.
pub fn s_plus(sources: usize) -> Vec<TaskRecipe> {
    [ten(0, SMALL)].into_iter().chain(between(sources)).chain([ten(0, LARGE)]).collect()
}

/// Another input distribution: white digits on a coloured background return on another colour.
pub fn s_in(sources: usize, seed: &Seed) -> Vec<TaskRecipe> {
    let mut colours = Colour::PAPER;
    seed.named("colours").random().shuffle(&mut colours);
    let rainbow = |size, colour| TaskRecipe { looks: Looks::One(Transform::Rainbow(colour)), ..ten(0, size) };
    let (first, last) = (rainbow(LARGE, colours[0]), rainbow(TINY, colours[1]));
    [first].into_iter().chain(between(sources)).chain([last]).collect()
}

/// Another output distribution: the first task returns with its labels moved.
/// Paper: "randomly permuted"; the released code moves each label up by one.
pub fn s_out(sources: usize) -> Vec<TaskRecipe> {
    let rotated = TaskRecipe { classes: ClassRule::Rotated(10), ..ten(0, SMALL) };
    [ten(0, LARGE)].into_iter().chain(between(sources)).chain([rotated]).collect()
}

/// Plasticity: unrelated tasks, the last one large.
pub fn s_pl(sources: usize) -> Vec<TaskRecipe> {
    let size = |source: usize| if source + 1 == sources { LARGE } else { SMALL };
    (0..sources).map(|source| ten(source, size(source))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(tasks: &[TaskRecipe]) -> Vec<(usize, u32)> {
        tasks.iter().map(|task| (task.source, task.per_class[0])).collect()
    }

    #[test]
    fn shapes_of_the_five() {
        let middle = [(1, 40), (2, 40), (3, 40), (4, 40)];
        let with = |first, last| [&[first], &middle[..], &[last]].concat();
        assert_eq!(shape(&s_minus(5)), with((0, 400), (0, 40)));
        assert_eq!(shape(&s_plus(5)), with((0, 40), (0, 400)));
        assert_eq!(shape(&s_in(5, &Seed::root(1))), with((0, 400), (0, 5)));
        assert_eq!(shape(&s_out(5)), with((0, 400), (0, 40)));
        assert_eq!(shape(&s_pl(5)), [(0, 40), (1, 40), (2, 40), (3, 40), (4, 400)]);
    }

    #[test]
    fn the_colours_of_s_in_differ() {
        for seed in 0..20 {
            let tasks = s_in(5, &Seed::root(seed));
            assert_ne!(tasks[0].looks, tasks[5].looks);
        }
    }
}
