//! Weights in the order in which tiles read them.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::ConvShape;
use crate::instruction_set::InstructionSet;
use crate::tile::{most_vectors, vectors};

/// Weights as `[list][block of columns][k][column]`: with many channels a list for each tap, with few one for all.
#[derive(Clone, Debug)]
pub struct PackedWeights {
    data: Vec<f32>,
    /// Length of the sums.
    pub steps: usize,
    /// Columns of a row, with those that fill up vectors.
    width: usize,
    blocks: Vec<ColumnBlock>,
}

/// Neighbouring columns that a tile computes together.
#[derive(Clone, Copy, Debug)]
pub struct ColumnBlock {
    /// Number of its first column.
    pub first: usize,
    /// How many columns it has.
    pub columns: usize,
    /// How many columns it has when filled up to whole vectors.
    filled: usize,
}

impl PackedWeights {
    /// The blocks of columns, from the first.
    pub fn blocks(&self) -> impl Iterator<Item = ColumnBlock> + '_ {
        self.blocks.iter().copied()
    }

    /// Rows `steps` of the weights of a list and block: `[k, column]`.
    pub fn rows(&self, list: usize, block: ColumnBlock, steps: Range<usize>) -> &[f32] {
        let start = (list * self.width + block.first) * self.steps;
        &self.data[start + steps.start * block.filled..start + steps.end * block.filled]
    }
}

/// Splits so many columns into blocks as wide as the tiles of an instruction set.
struct SplitColumns(usize);

impl WithSimd for SplitColumns {
    type Output = Vec<ColumnBlock>;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Vec<ColumnBlock> {
        let most = most_vectors::<S>() * S::F32_LANES;
        let block = |first: usize| {
            let columns = most.min(self.0 - first);
            ColumnBlock { first, columns, filled: vectors::<S>(columns) * S::F32_LANES }
        };
        (0..self.0).step_by(most).map(block).collect()
    }
}

/// Packs the weights that `weight(list, step, column)` gives.
pub fn pack(
    set: InstructionSet,
    [lists, steps, columns]: [usize; 3],
    weight: impl Fn(usize, usize, usize) -> f32,
) -> PackedWeights {
    let blocks = set.run(SplitColumns(columns));
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
    PackedWeights { data, steps, width, blocks }
}

/// Packs weights, `[output, input, row, column]`, for `y = conv(x)`: sums over inputs, columns are outputs.
pub fn forward(shape: &ConvShape, set: InstructionSet, weight: &[f32]) -> PackedWeights {
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

/// Packs weights, `[output, input, row, column]`, for `x = transposed conv(y)`: sums over outputs, columns are inputs
/// or, with few channels, taps and inputs.
pub fn transposed(shape: &ConvShape, set: InstructionSet, weight: &[f32]) -> PackedWeights {
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
