//! One root seed, named sub-seeds.
//!
//! Every random act of the project takes a [`Seed`] and names what it is for, so that adding a draw in
//! one place never shifts the draws of another: `child = blake3(key = parent, name)`. Numbers come from
//! ChaCha8, and the few distributions below are our own, because those of a library may change with its
//! version, and the logarithms of a C library with the machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A source of randomness that is a value: the same seed gives the same numbers everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The root seed of a run, from the number that a user gives.
    pub fn root(number: u64) -> Self {
        Self(blake3::derive_key("lmc root seed v1", &number.to_le_bytes()))
    }

    /// The sub-seed for one purpose, for instance `seed.named("batches")`.
    pub fn named(&self, name: &str) -> Self {
        Self(*blake3::keyed_hash(&self.0, name.as_bytes()).as_bytes())
    }

    /// The `number`-th sub-seed: one per epoch, per image, per task.
    pub fn numbered(&self, number: u64) -> Self {
        Self(*blake3::keyed_hash(&self.0, &number.to_le_bytes()).as_bytes())
    }

    /// Starts a generator from this seed.
    pub fn random(&self) -> Random {
        Random(ChaCha8Rng::from_seed(self.0))
    }
}

/// A running generator of random numbers.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws an integer in `0..bound`, without bias; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // Lemire's method: the high half of a product is uniform once its short low halves are refused.
        let bound = bound as u64;
        let refuse_below = if bound == 0 { 0 } else { bound.wrapping_neg() % bound };
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= refuse_below {
                return (product >> 64) as usize;
            }
        }
    }

    /// Draws a number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws a number in `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws a standard normal number (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.unit())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Draws true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Draws one element; `None` from an empty slice.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// Puts the elements in a random order (Fisher-Yates from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Draws an order of the numbers `0..n`.
    pub fn permutation(&mut self, n: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n as u32).collect();
        self.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_give_different_streams_and_repeat() {
        let root = Seed::root(180);
        assert_eq!(root.named("a").random().bits(), Seed::root(180).named("a").random().bits());
        let mut seen = std::collections::HashSet::new();
        for seed in
            [root, root.named("a"), root.named("b"), root.numbered(0), root.numbered(1), Seed::root(1)]
        {
            assert!(seen.insert(seed.random().bits()));
        }
    }

    #[test]
    fn the_stream_is_pinned_for_ever() {
        // Written down once: a change here changes every generated image and every batch order.
        let mut random = Seed::root(180).named("pinned").random();
        assert_eq!([random.below(1000), random.below(1000), random.below(1000)], PINNED);
    }
    const PINNED: [usize; 3] = [354, 681, 208];

    #[test]
    fn below_is_even_and_in_range() {
        let mut random = Seed::root(3).random();
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7)] += 1;
        }
        assert!(counts.iter().all(|&c| (9_500..10_500).contains(&c)), "{counts:?}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn normal_has_mean_zero_and_variance_one() {
        let mut random = Seed::root(4).random();
        let draws: Vec<f64> = (0..50_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    #[test]
    fn a_permutation_holds_every_number_once() {
        let mut order = Seed::root(5).random().permutation(100);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
