//! Texture: how large the cosine coefficients of small blocks are.

use std::f64::consts::PI;

use super::planes::{Plane, SIDE};

/// The orthonormal cosine transform of `N` values: a row for each frequency.
pub fn cosines<const N: usize>() -> [[f32; N]; N] {
    std::array::from_fn(|frequency| {
        let scale = if frequency == 0 { 1.0 } else { 2.0 } / N as f64;
        std::array::from_fn(|at| {
            let angle = PI * (2 * at + 1) as f64 * frequency as f64 / (2 * N) as f64;
            (scale.sqrt() * libm::cos(angle)) as f32
        })
    })
}

/// Columns of a table of blocks: room for frequencies times blocks along one side.
const COLUMNS: usize = 64;

/// Mean size and mean square of the cosine coefficients of all `N` × `N` blocks at a stride, row frequency first.
pub fn block_cosines<const N: usize, const STRIDE: usize>(
    plane: &Plane,
    cosines: &[[f32; N]; N],
) -> Vec<(f32, f32)> {
    let blocks = (SIDE - N) / STRIDE + 1;
    // Along columns, for all places in a row at once; the result is transposed: [column][frequency, block].
    let mut columns = [[0.0_f32; COLUMNS]; SIDE];
    for (frequency, cosines) in cosines.iter().enumerate() {
        for block in 0..blocks {
            let mut row = [0.0_f32; SIDE];
            for (at, &cosine) in cosines.iter().enumerate() {
                let from = (STRIDE * block + at) * SIDE;
                let values = &plane[from..from + SIDE];
                row.iter_mut().zip(values).for_each(|(sum, value)| *sum += cosine * value);
            }
            for (column, value) in columns.iter_mut().zip(row) {
                column[frequency * blocks + block] = value;
            }
        }
    }
    // Along rows, for all frequencies and blocks at once.
    let (mut sizes, mut squares) = ([[0.0_f32; COLUMNS]; N], [[0.0_f32; COLUMNS]; N]);
    for ((cosines, sizes), squares) in cosines.iter().zip(&mut sizes).zip(&mut squares) {
        for block in 0..blocks {
            let mut found = [0.0_f32; COLUMNS];
            for (at, &cosine) in cosines.iter().enumerate() {
                let values = &columns[STRIDE * block + at];
                found.iter_mut().zip(values).for_each(|(sum, value)| *sum += cosine * value);
            }
            for at in 0..COLUMNS {
                sizes[at] += found[at].abs();
                squares[at] += found[at] * found[at];
            }
        }
    }
    let count = (blocks * blocks) as f32;
    let mut coefficients = Vec::with_capacity(N * N);
    for row in 0..N {
        for column in 0..N {
            let range = row * blocks..(row + 1) * blocks;
            let mean = |table: &[[f32; COLUMNS]; N]| table[column][range.clone()].iter().sum::<f32>() / count;
            coefficients.push((mean(&sizes), mean(&squares)));
        }
    }
    coefficients
}
