//! Class pools: which images of a source may go to training, validation and test (specification §3.1, §3.2).
//!
//! Per class the source's training images are permuted once, by a seed that is the same for all streams,
//! and the last of them are the validation pool. So no image that one stream trains on is ever validated
//! on by another.

use crate::dataset::Split;
use crate::seed::{Random, Seed};

/// What there is in a data set: class names, and the ranks present per split and class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The data set's own name, however it was found: draws are seeded by it.
    pub name: String,
    /// Class names in label order.
    pub classes: Vec<String>,
    /// Ranks that are present, in order, `[split][class]`.
    pub ranks: [Vec<Vec<u32>>; 3],
}

impl Survey {
    /// The ranks of a split, per class.
    pub fn split(&self, split: Split) -> &[Vec<u32>] {
        &self.ranks[split as usize]
    }

    fn has(&self, split: Split) -> bool {
        self.split(split).iter().any(|ranks| !ranks.is_empty())
    }
}

/// The pools of a data set, and from which source split each is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pools {
    /// Ranks that may be drawn, `[split][class]`.
    pub ranks: [Vec<Vec<u32>>; 3],
    /// The source split that these ranks refer to, `[split]`.
    pub from: [Split; 3],
}

impl Pools {
    /// The pools of a data set.
    ///
    /// Where the source has no validation split the pool is cut from its training images: 500 a class from
    /// the sets of the paper, 50 from CIFAR-100, 40 from DTD. Where it has no test split either, a fifth of
    /// the images becomes the test pool.
    pub fn of(survey: &Survey) -> Self {
        let name = survey.name.as_str();
        // 17 is the authors' number; the permutation itself is ours.
        let seed = Seed::root(17).named("split").named(name);
        let (own_val, own_test) = (survey.has(Split::Val), survey.has(Split::Test));
        let mut pools = survey.ranks.clone();
        for (class, ranks) in survey.split(Split::Train).iter().enumerate() {
            let mut order = ranks.clone();
            seed.numbered(class as u64).random().shuffle(&mut order);
            if !own_test {
                let fifth = (ranks.len() / 5).max(usize::from(ranks.len() >= 3));
                pools[Split::Test as usize][class] = cut(&mut order, fifth);
            }
            if !own_val {
                let size = val_pool(name, order.len()).max(usize::from(order.len() >= 2));
                pools[Split::Val as usize][class] = cut(&mut order, size);
            }
            pools[Split::Train as usize][class] = order;
        }
        let from = |own: bool, split: Split| if own { split } else { Split::Train };
        Self { ranks: pools, from: [Split::Train, from(own_val, Split::Val), from(own_test, Split::Test)] }
    }

    /// Draws `wanted` images of a class without replacement; all of them, in file order, if there are not more.
    pub fn draw(&self, split: Split, class: usize, wanted: u32, random: &mut Random) -> Vec<u32> {
        let pool = &self.ranks[split as usize][class];
        let mut drawn = pool.clone();
        if pool.len() <= wanted as usize {
            drawn.sort_unstable();
        } else {
            random.shuffle(&mut drawn);
            drawn.truncate(wanted as usize);
        }
        drawn
    }
}

/// Size of the validation pool of a class with `images` training images.
fn val_pool(name: &str, images: usize) -> usize {
    match name {
        "mnist" | "fashion-mnist" | "svhn" | "cifar10" => 500.min(images / 2),
        "cifar100" => 50.min(images / 2),
        "dtd" | "dtd10" => 40.min(images / 2),
        _ if name.starts_with("generated-") => 500.min(images / 2),
        // The paper's sizes are a tenth of a large class and half of a small one: the same for any other set.
        _ if images <= 100 => images / 2,
        _ => (images / 10).clamp(50, 500),
    }
}

/// Takes the last `count` elements away.
fn cut(order: &mut Vec<u32>, count: usize) -> Vec<u32> {
    order.split_off(order.len() - count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(train: u32, val: u32, test: u32) -> Survey {
        let ranks = |n: u32| vec![(0..n).collect::<Vec<u32>>(); 2];
        Survey {
            name: "photos".into(),
            classes: vec!["a".into(), "b".into()],
            ranks: [ranks(train), ranks(val), ranks(test)],
        }
    }

    fn sizes(name: &str, survey: &Survey) -> [usize; 3] {
        let named = Survey { name: name.into(), ..survey.clone() };
        Pools::of(&named).ranks.map(|split| split[0].len())
    }

    #[test]
    fn pool_sizes_of_the_paper() {
        assert_eq!(sizes("cifar10", &survey(5000, 0, 1000)), [4500, 500, 1000]);
        assert_eq!(sizes("svhn", &survey(4659, 0, 1595)), [4159, 500, 1595]);
        assert_eq!(sizes("cifar100", &survey(500, 0, 100)), [450, 50, 100]);
        assert_eq!(sizes("dtd", &survey(80, 0, 40)), [40, 40, 40]);
        assert_eq!(sizes("generated-digits", &survey(1500, 0, 200)), [1000, 500, 200]);
    }

    #[test]
    fn a_folder_without_splits_gets_them() {
        assert_eq!(sizes("photos", &survey(50, 0, 0)), [20, 20, 10]);
        assert_eq!(sizes("photos", &survey(50, 7, 0)), [40, 7, 10]);
        assert_eq!(sizes("photos", &survey(3, 0, 0)), [1, 1, 1], "three images are enough for one of each");
        let pools = Pools::of(&survey(50, 0, 0));
        assert_eq!(pools.from, [Split::Train; 3]);
        let mut all: Vec<u32> = pools.ranks.iter().flat_map(|split| split[1].clone()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..50).collect::<Vec<_>>(), "pools are disjoint and complete");
        assert_ne!(pools.ranks[0][0], pools.ranks[0][1], "classes are permuted independently");
    }

    #[test]
    fn draws_are_without_replacement_and_all_means_file_order() {
        let pools = Pools::of(&survey(5000, 0, 1000));
        let mut random = Seed::root(1).random();
        let mut drawn = pools.draw(Split::Train, 0, 400, &mut random);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 400);
        assert_eq!(pools.draw(Split::Test, 0, 1000, &mut random), (0..1000).collect::<Vec<_>>());
    }
}
