//! The inner loops: tiles of matrix products that stay in registers.
//!
//! A tile has up to [`ROWS`] rows and a few vectors of columns. [`pixels`] sums over the channels of a few pixels,
//! for convolutions; [`channels`] sums over pixels for a few channels, for gradients of weights.

use pulp::Simd;

/// The most rows of a tile: with them and the widest vectors every register has its use.
pub const ROWS: usize = 6;

/// How many vectors of columns a tile has at most: AVX-512 and NEON have 32 registers, AVX2 has 16.
pub const fn most_vectors<S: Simd>() -> usize {
    match S::F32_LANES {
        8 => 2,
        _ => 4,
    }
}

/// How many vectors a tile of `columns` columns has.
#[inline(always)]
pub fn vectors<S: Simd>(columns: usize) -> usize {
    match columns.div_ceil(S::F32_LANES) {
        vectors @ 0..=2 => vectors,
        _ => 4,
    }
}

/// Offsets, in floats, of an input pixel and an output pixel that a tap of a convolution connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// Offset in the input.
    pub input: u32,
    /// Offset in the output.
    pub output: u32,
}

/// What the sums of a tile start from.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// The numbers that are in the output already.
    Existing,
    /// These numbers, one for each column, in every row.
    From(&'a [f32]),
}

/// A tile of an output: `out[row][column] (+)= sum over s and k of a[row][s][k] b[s][k][column]`.
#[derive(Clone, Copy, Debug)]
pub struct Pixels<'a> {
    /// Left factors, contiguous in `k`.
    pub a: &'a [f32],
    /// Right factors, `[s, k, column]`, with as many columns as the vectors of the tile hold.
    pub b: &'a [f32],
    /// How many values `k` has.
    pub steps: usize,
    /// How many values `s` has.
    pub stretches: usize,
    /// Distance in `a` of two neighbouring values of `s`.
    pub distance: usize,
    /// Number of the tile's first column in the output.
    pub first: usize,
    /// How many columns are computed; the rest of the last vector is filled up with zeros.
    pub columns: usize,
    /// What the sums start from.
    pub start: Start<'a>,
}

/// Computes tiles for `rows`, a list of `(offset in a, offset in out)`, six at a time.
///
/// # Safety
/// For every row, `a` holds `stretches` times `steps` floats, `distance` apart, from the first offset on, and `out`
/// holds `first + columns` floats from the second on.
#[inline(always)]
pub unsafe fn pixels<S: Simd>(
    simd: S,
    tile: &Pixels<'_>,
    rows: impl ExactSizeIterator<Item = (usize, usize)>,
    out: &mut [f32],
) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match vectors::<S>(tile.columns) {
            1 => pixels_wide::<S, 1>(simd, tile, rows, out),
            2 => pixels_wide::<S, 2>(simd, tile, rows, out),
            _ => pixels_wide::<S, 4>(simd, tile, rows, out),
        }
    }
}

/// Computes tiles with `V` vectors of columns.
///
/// # Safety
/// As for [`pixels`].
#[inline(always)]
unsafe fn pixels_wide<S: Simd, const V: usize>(
    simd: S,
    tile: &Pixels<'_>,
    mut rows: impl ExactSizeIterator<Item = (usize, usize)>,
    out: &mut [f32],
) {
    let factors = tile.stretches * tile.steps * V * S::F32_LANES;
    assert!(factors <= tile.b.len(), "a tile reaches outside its right factors");
    while rows.len() > 0 {
        let mut place = [(0, 0); ROWS];
        let count = rows.len().min(ROWS);
        for (place, row) in place.iter_mut().zip(rows.by_ref().take(count)) {
            *place = row;
        }
        // SAFETY: the caller's promise, for the rows that were taken.
        unsafe {
            match count {
                1 => pixels_tile::<S, 1, V>(simd, tile, &place, out),
                2 => pixels_tile::<S, 2, V>(simd, tile, &place, out),
                3 => pixels_tile::<S, 3, V>(simd, tile, &place, out),
                4 => pixels_tile::<S, 4, V>(simd, tile, &place, out),
                5 => pixels_tile::<S, 5, V>(simd, tile, &place, out),
                _ => pixels_tile::<S, 6, V>(simd, tile, &place, out),
            }
        }
    }
}

/// Computes one tile with `P` rows and `V` vectors of columns.
///
/// # Safety
/// As for [`pixels`]; and `b` holds `stretches` times `steps` times `V` vectors.
#[inline(always)]
unsafe fn pixels_tile<S: Simd, const P: usize, const V: usize>(
    simd: S,
    tile: &Pixels<'_>,
    place: &[(usize, usize); ROWS],
    out: &mut [f32],
) {
    let lanes = S::F32_LANES;
    let whole = tile.columns == V * lanes;
    let mut sums = [[simd.splat_f32s(0.0); V]; P];
    for (p, row) in sums.iter_mut().enumerate() {
        let from = match tile.start {
            Start::Existing => &out[place[p].1 + tile.first..][..tile.columns],
            Start::From(numbers) => numbers,
        };
        load(simd, row, from, whole);
    }
    for stretch in 0..tile.stretches {
        // SAFETY: the caller promises that the offsets lie in `a`, and the length of `b` was asserted.
        let a: [*const f32; P] =
            std::array::from_fn(|p| unsafe { tile.a.as_ptr().add(place[p].0 + stretch * tile.distance) });
        // SAFETY: as above.
        let b = unsafe { tile.b.as_ptr().add(stretch * tile.steps * V * lanes) };
        for step in 0..tile.steps {
            let mut right = [simd.splat_f32s(0.0); V];
            for (v, vector) in right.iter_mut().enumerate() {
                // SAFETY: as above; unaligned reads may start anywhere.
                *vector = unsafe { b.add((step * V + v) * lanes).cast::<S::f32s>().read_unaligned() };
            }
            for (p, row) in sums.iter_mut().enumerate() {
                // SAFETY: the caller promises `steps` floats in `a` from here on.
                let left = simd.splat_f32s(unsafe { *a[p].add(step) });
                for (sum, &vector) in row.iter_mut().zip(&right) {
                    *sum = simd.mul_add_e_f32s(left, vector, *sum);
                }
            }
        }
    }
    for (p, row) in sums.iter().enumerate() {
        store(simd, row, &mut out[place[p].1 + tile.first..][..tile.columns], whole);
    }
}

/// A tile of a gradient of weights: `out[row][column] += sum over pairs of a[input + row] b[output + column]`.
#[derive(Clone, Copy, Debug)]
pub struct Channels<'a> {
    /// Left factors, one for each row from a pair's input on.
    pub a: &'a [f32],
    /// Right factors, one for each column from a pair's output on.
    pub b: &'a [f32],
    /// The pairs of pixels that are summed over.
    pub pairs: &'a [Pair],
    /// Number of the tile's first column, in `b` and in the output.
    pub first: usize,
    /// How many columns the tile has.
    pub columns: usize,
    /// Distance of two neighbouring rows in the output.
    pub stride: usize,
}

/// Computes tiles for `rows` rows, about six at a time.
///
/// # Safety
/// For every pair, `a` holds `rows` floats from `input` on and `b` holds `first + columns` from `output` on.
#[inline(always)]
pub unsafe fn channels<S: Simd>(simd: S, tile: &Channels<'_>, rows: usize, out: &mut [f32]) {
    // SAFETY: the caller's promise is passed on.
    unsafe {
        match vectors::<S>(tile.columns) {
            1 => channels_wide::<S, 1>(simd, tile, rows, out),
            2 => channels_wide::<S, 2>(simd, tile, rows, out),
            _ => channels_wide::<S, 4>(simd, tile, rows, out),
        }
    }
}

/// Computes tiles with `V` vectors of columns.
///
/// # Safety
/// As for [`channels`].
#[inline(always)]
unsafe fn channels_wide<S: Simd, const V: usize>(simd: S, tile: &Channels<'_>, rows: usize, out: &mut [f32]) {
    let strips = rows.div_ceil(ROWS);
    let mut row = 0;
    for strip in 0..strips {
        // Strips of nearly equal height: 27 rows are 6, 6, 5, 5, 5 rather than 6, 6, 6, 6, 3.
        let end = rows * (strip + 1) / strips;
        // SAFETY: the caller's promise, for some of the rows.
        unsafe {
            match end - row {
                1 => channels_tile::<S, 1, V>(simd, tile, row, out),
                2 => channels_tile::<S, 2, V>(simd, tile, row, out),
                3 => channels_tile::<S, 3, V>(simd, tile, row, out),
                4 => channels_tile::<S, 4, V>(simd, tile, row, out),
                5 => channels_tile::<S, 5, V>(simd, tile, row, out),
                _ => channels_tile::<S, 6, V>(simd, tile, row, out),
            }
        }
        row = end;
    }
}

/// Computes one tile with `P` rows, from `first_row` on, and `V` vectors of columns.
///
/// # Safety
/// As for [`channels`].
#[inline(always)]
unsafe fn channels_tile<S: Simd, const P: usize, const V: usize>(
    simd: S,
    tile: &Channels<'_>,
    first_row: usize,
    out: &mut [f32],
) {
    let lanes = S::F32_LANES;
    let whole = tile.columns == V * lanes;
    let place = |p: usize| (first_row + p) * tile.stride + tile.first;
    let mut sums = [[simd.splat_f32s(0.0); V]; P];
    for (p, row) in sums.iter_mut().enumerate() {
        load(simd, row, &out[place(p)..][..tile.columns], whole);
    }
    let (a, b) = (tile.a.as_ptr(), tile.b.as_ptr());
    for pair in tile.pairs {
        let mut right = [simd.splat_f32s(0.0); V];
        if whole {
            for (v, vector) in right.iter_mut().enumerate() {
                // SAFETY: the caller promises V whole vectors from here on; unaligned reads may start anywhere.
                *vector = unsafe {
                    b.add(pair.output as usize + tile.first + v * lanes).cast::<S::f32s>().read_unaligned()
                };
            }
        } else {
            let from = pair.output as usize + tile.first;
            load(simd, &mut right, &tile.b[from..from + tile.columns], false);
        }
        for (p, row) in sums.iter_mut().enumerate() {
            // SAFETY: the caller promises all rows from `input` on.
            let left = simd.splat_f32s(unsafe { *a.add(pair.input as usize + first_row + p) });
            for (sum, &vector) in row.iter_mut().zip(&right) {
                *sum = simd.mul_add_e_f32s(left, vector, *sum);
            }
        }
    }
    for (p, row) in sums.iter().enumerate() {
        store(simd, row, &mut out[place(p)..][..tile.columns], whole);
    }
}

/// Reads vectors; where the numbers end before the vectors do, the rest is zero.
#[inline(always)]
fn load<S: Simd, const V: usize>(simd: S, vectors: &mut [S::f32s; V], from: &[f32], whole: bool) {
    let lanes = S::F32_LANES;
    if whole {
        assert!(from.len() == V * lanes, "vectors of another length");
        for (v, vector) in vectors.iter_mut().enumerate() {
            // SAFETY: `from` holds V whole vectors.
            *vector = unsafe { from.as_ptr().add(v * lanes).cast::<S::f32s>().read_unaligned() };
        }
    } else {
        for (v, vector) in vectors.iter_mut().enumerate() {
            let part = &from[(v * lanes).min(from.len())..((v + 1) * lanes).min(from.len())];
            *vector = simd.partial_load_f32s(part);
        }
    }
}

/// Writes vectors; where the place ends before the vectors do, the rest is dropped.
#[inline(always)]
fn store<S: Simd, const V: usize>(simd: S, vectors: &[S::f32s; V], to: &mut [f32], whole: bool) {
    let lanes = S::F32_LANES;
    if whole {
        assert!(to.len() == V * lanes, "vectors of another length");
        for (v, &vector) in vectors.iter().enumerate() {
            // SAFETY: `to` holds V whole vectors.
            unsafe { to.as_mut_ptr().add(v * lanes).cast::<S::f32s>().write_unaligned(vector) };
        }
    } else {
        let length = to.len();
        for (v, &vector) in vectors.iter().enumerate() {
            simd.partial_store_f32s(&mut to[(v * lanes).min(length)..((v + 1) * lanes).min(length)], vector);
        }
    }
}
