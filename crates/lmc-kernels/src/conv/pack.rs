//! Weights in the order in which tiles read them.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::ConvShape;
use crate::instruction_set::InstructionSet;
use crate::tile::{most_vectors, vectors};

/// Weights as `[list][block of columns][k][column]`: a list per tap (deep) or one for all (shallow).
#[derive(Clone, Debug)]
pub struct Packed {
    data: Vec<f32>,
    /// Length of the sums.
    pub steps: usize,
    /// Columns of a row with filling.
    width: usize,
    blocks: Vec<Block>,
}

/// Some columns that a tile computes together.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// First column.
    pub first: usize,
    /// How many columns.
    pub columns: usize,
    /// How many with filling up to whole vectors.
    filled: usize,
}

impl Packed {
    /// Blocks of columns.
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        self.blocks.iter().copied()
    }

    /// Rows `steps` of the weights of a list and block.
    pub fn rows(&self, list: usize, block: Block, steps: Range<usize>) -> &[f32] {
        let start = (list * self.width + block.first) * self.steps;
        &self.data[start + steps.start * block.filled..start + steps.end * block.filled]
    }
}

/// Blocks of `columns` columns for an instruction set, as wide as its tiles.
struct Blocks(usize);

impl WithSimd for Blocks {
    type Output = Vec<Block>;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Vec<Block> {
        let most = most_vectors::<S>() * S::F32_LANES;
        let block = |first: usize| {
            let columns = most.min(self.0 - first);
            Block { first, columns, filled: vectors::<S>(columns) * S::F32_LANES }
        };
        (0..self.0).step_by(most).map(block).collect()
    }
}

/// Packs `weight(list, step, column)`.
pub fn pack(
    set: InstructionSet,
    [lists, steps, columns]: [usize; 3],
    weight: impl Fn(usize, usize, usize) -> f32,
) -> Packed {
    let blocks = set.run(Blocks(columns));
    let width = blocks.iter().map(|block| block.filled).sum::<usize>();
    let mut data = vec![0.0; lists * steps * width];
    let mut rest = &mut data[..];
    for list in 0..lists {
        for block in &blocks {
            for step in 0..steps {
                let (row, later) = std::mem::take(&mut rest).split_at_mut(block.filled);
                for (column, value) in row[..block.columns].iter_mut().enumerate() {
                    *value = weight(list, step, block.first + column);
                }
                rest = later;
            }
        }
    }
    Packed { data, steps, width, blocks }
}

/// For `y = conv(x)`: sums over inputs, columns are outputs.
pub fn forward(shape: &ConvShape, set: InstructionSet, weight: &[f32]) -> Packed {
    let ConvShape { inputs, outputs, kernel, .. } = *shape;
    let taps = kernel * kernel;
    assert_eq!(weight.len(), shape.weights(), "weights of {shape:?}");
    if shape.is_shallow() {
        let at =
            |step: usize, output: usize| weight[(output * inputs + step % inputs) * taps + step / inputs];
        return pack(set, [1, taps * inputs, outputs], |_, step, output| at(step, output));
    }
    pack(set, [taps, inputs, outputs], |tap, input, output| weight[(output * inputs + input) * taps + tap])
}

/// For `x = transposed conv(y)`: sums over outputs, columns are inputs (shallow: taps and inputs).
pub fn transposed(shape: &ConvShape, set: InstructionSet, weight: &[f32]) -> Packed {
    let ConvShape { inputs, outputs, kernel, .. } = *shape;
    let taps = kernel * kernel;
    assert_eq!(weight.len(), shape.weights(), "weights of {shape:?}");
    if shape.is_shallow() {
        // Filled up to what the rows of patches are filled up to, so that tiles write whole vectors.
        let columns = super::shallow::patch_size(shape);
        let at = |column: usize, output: usize| {
            weight[(output * inputs + column % inputs) * taps + column / inputs]
        };
        let at = |_, output, column| if column < taps * inputs { at(column, output) } else { 0.0 };
        return pack(set, [1, outputs, columns], at);
    }
    pack(set, [taps, outputs, inputs], |tap, output, input| weight[(output * inputs + input) * taps + tap])
}
