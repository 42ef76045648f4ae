//! S_long: a hundred tasks of five classes (specification §3.4).

use super::recipe::{ClassRule, TaskRecipe};
use crate::seed::Seed;
use crate::transform::{Looks, Transform};

/// Number of tasks of S_long.
pub const TASKS: usize = 100;

/// Draws, for every task, a data set, five of its classes and a size; small tasks become more frequent.
pub fn s_long(sources: usize, seed: &Seed) -> Vec<TaskRecipe> {
    let mut random = seed.named("s_long").random();
    const LARGE: (u32, u32) = (1000, 500);
    const SMALL: (u32, u32) = (5, 3);
    (0..TASKS)
        .map(|task| {
            let sizes: &[(u32, u32)] = match task {
                0..=32 => &[LARGE, SMALL],
                33..=65 => &[LARGE, SMALL, SMALL, SMALL],
                _ => &[SMALL],
            };
            let source = random.below(sources);
            let (train, val) = random.pick(sizes).copied().unwrap_or(SMALL);
            TaskRecipe {
                name: None,
                source,
                classes: ClassRule::DrawnForTask(5),
                per_class: [train, val, 1000],
                looks: Looks::One(Transform::Identity),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_tasks_become_rare_and_end() {
        let tasks = s_long(5, &Seed::root(3));
        assert_eq!(tasks.len(), 100);
        let large =
            |range: std::ops::Range<usize>| tasks[range].iter().filter(|t| t.per_class[0] == 1000).count();
        assert!(large(0..33) > large(33..66) && large(33..66) > 0);
        assert_eq!(large(66..100), 0);
        assert!((0..5).all(|source| tasks.iter().any(|task| task.source == source)));
    }
}
