//! The invertible component: an additive coupling of a vector's halves (NICE), trained to map what it has seen to zero.
//! The structural component of the paper's heads, and of the trunk in its out-of-distribution study.
//!
//! ```text
//! u = x / ‖x‖;   y1 = u1 + A u2 + a;   y2 = u2 + B y1 + b;   loss = mean of (y2, y1)²
//! ```
//!
//! The map has an inverse whatever A and B are, so it cannot throw the input away: only on inputs like those it was
//! trained on can it come near zero.

use burn::tensor::module::max_pool2d;
use burn::tensor::ops::MaxPoolOptions;
use burn::tensor::{Device, Tensor};
use lmc_streams::Seed;

use crate::tensors::{Draw, Role, Visitor, Walk, join};

/// Sizes of an invertible component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvertibleConfig {
    /// Length of the vector. The first half is the shorter one when it is odd.
    pub length: usize,
    /// Whether the vector is brought to length 1 first.
    pub normalise: bool,
    /// Side to which maps are max-pooled first.
    pub pool: Option<usize>,
}

/// An additive coupling.
#[derive(Clone, Debug)]
pub struct Invertible {
    /// A, `[first half, second half]`.
    pub first: Tensor<2>,
    /// a, `[first half]`.
    pub first_bias: Tensor<1>,
    /// B, `[second half, first half]`.
    pub second: Tensor<2>,
    /// b, `[second half]`.
    pub second_bias: Tensor<1>,
    /// Whether the vector is brought to length 1 first.
    pub normalise: bool,
    /// Side to which maps are max-pooled first.
    pub pool: Option<usize>,
}

impl InvertibleConfig {
    /// Draws random parameters.
    pub fn init(&self, seed: &Seed, device: &Device) -> Invertible {
        let mut draw = Draw::new(seed, device);
        let half = self.length / 2;
        let rest = self.length - half;
        Invertible {
            first: draw.uniform([half, rest], rest),
            first_bias: draw.uniform([half], rest),
            second: draw.uniform([rest, half], half),
            second_bias: draw.uniform([rest], half),
            normalise: self.normalise,
            pool: self.pool,
        }
    }
}

impl Invertible {
    /// `(y1, y2)` of vectors `[batch, length]`.
    pub fn forward(&self, x: Tensor<2>) -> [Tensor<2>; 2] {
        let [half, rest] = self.first.dims();
        let (u1, u2) = (x.clone().narrow(1, 0, half), x.narrow(1, half, rest));
        let y1 = u1 + u2.clone().matmul(self.first.clone().transpose()) + self.first_bias.clone().unsqueeze();
        let y2 =
            u2 + y1.clone().matmul(self.second.clone().transpose()) + self.second_bias.clone().unsqueeze();
        [y1, y2]
    }

    /// The vectors that [`Invertible::forward`] maps to `(y1, y2)`.
    pub fn inverse(&self, [y1, y2]: [Tensor<2>; 2]) -> Tensor<2> {
        let u2 =
            y2 - y1.clone().matmul(self.second.clone().transpose()) - self.second_bias.clone().unsqueeze();
        let u1 = y1 - u2.clone().matmul(self.first.clone().transpose()) - self.first_bias.clone().unsqueeze();
        Tensor::cat(vec![u1, u2], 1)
    }

    /// Losses `[batch]` of vectors `[batch, length]`.
    pub fn losses(&self, x: Tensor<2>) -> Tensor<1> {
        let x = if self.normalise { unit_length(x) } else { x };
        let [images, length] = x.dims();
        let [y1, y2] = self.forward(x);
        let sum = y1.square().sum_dim(1) + y2.square().sum_dim(1); // [batch, 1]
        sum.div_scalar(length as f64).reshape([images])
    }

    /// Losses `[batch]` of maps `[batch, channel, row, column]`.
    pub fn map_losses(&self, maps: Tensor<4>) -> Tensor<1> {
        let [.., side, _] = maps.dims();
        let maps = match self.pool {
            // Windows that cover the map: kernel and stride are the ratio of the sides, rounded up and down.
            Some(pool) => {
                let stride = (side / pool).max(1);
                let kernel = side - stride * (pool - 1);
                max_pool2d(maps, MaxPoolOptions { stride: [stride; 2], ..MaxPoolOptions::new([kernel; 2]) })
            }
            None => maps,
        };
        self.losses(maps.flatten(1, 3))
    }
}

/// Vectors of length 1; those of length 0 stay.
pub(crate) fn unit_length(x: Tensor<2>) -> Tensor<2> {
    let length = x.clone().square().sum_dim(1).sqrt().clamp_min(1e-12); // [batch, 1]
    x / length
}

impl Walk for Invertible {
    fn walk(&mut self, path: &str, visitor: &mut impl Visitor) {
        visitor.visit(&join(path, "coupling1.weight"), Role::Structural, &mut self.first);
        visitor.visit(&join(path, "coupling1.bias"), Role::Structural, &mut self.first_bias);
        visitor.visit(&join(path, "coupling2.weight"), Role::Structural, &mut self.second);
        visitor.visit(&join(path, "coupling2.bias"), Role::Structural, &mut self.second_bias);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::{tensor, values};
    use proptest::prelude::*;

    #[test]
    fn maps_are_pooled_to_the_side_asked_for() {
        let device = Device::flex();
        for side in 3..20 {
            let config = InvertibleConfig { length: 2 * 9, normalise: false, pool: Some(3) };
            let coupling = config.init(&Seed::root(1), &device);
            let maps = Tensor::ones([4, 2, side, side], &device);
            assert_eq!(coupling.map_losses(maps).dims(), [4], "side {side}");
        }
    }

    proptest! {
        #[test]
        fn the_inverse_undoes_it(length in 2_usize..30, seed in 0_u64..1000) {
            let device = Device::flex();
            let coupling =
                InvertibleConfig { length, normalise: false, pool: None }.init(&Seed::root(seed), &device);
            let mut random = Seed::root(seed).named("x").random();
            let x: Vec<f32> = (0..3 * length).map(|_| random.normal() as f32).collect();
            let back = coupling.inverse(coupling.forward(tensor(x.clone(), [3, length], &device)));
            for (a, b) in x.iter().zip(values(&back)) {
                prop_assert!((a - b).abs() < 1e-5);
            }
        }
    }
}
