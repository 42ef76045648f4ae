//! 3x3 convolutions with 16 instead of 36 multiplications for 2x2 outputs (Winograd, F(2x2, 3x3)).
//!
//! `Y = A^T [(G g G^T) * (B^T d B)] A` for each 4x4 patch `d` of the input and each kernel `g`, where `*` is a product
//! at each of 16 places: summed over channels, 16 matrix products. The sums of the patches need additions only. Frozen
//! modules use it, whose weights are transformed once; a 2x2 output is then just one pool.

use pulp::{Simd, WithSimd};

use crate::conv::{ConvShape, PackedWeights, multiply, pack};
use crate::instruction_set::InstructionSet;
use crate::tile::Start;

/// Places of a transformed patch.
pub const PLACES: usize = 16;

/// A convolution with stride 1 that is ready to run on groups of images.
#[derive(Clone, Copy, Debug)]
pub struct Winograd {
    /// Rows and columns of the input.
    input: [usize; 2],
    /// Zeros around the input on each side.
    padding: usize,
    /// Rows and columns of the output.
    output: [usize; 2],
    inputs: usize,
    outputs: usize,
    set: InstructionSet,
}

impl Winograd {
    /// Prepares `y = conv(x)`, if it pays for this shape: a 3x3 kernel and channels that fill vectors.
    pub fn forward(shape: &ConvShape, set: InstructionSet) -> Option<Self> {
        Self::suits(shape).then_some(Self {
            input: [shape.height, shape.width],
            padding: shape.padding,
            output: [shape.out_height, shape.out_width],
            inputs: shape.inputs,
            outputs: shape.outputs,
            set,
        })
    }

    /// Prepares `x = transposed conv(y)` of the same convolution, if it pays for this shape.
    pub fn transposed(shape: &ConvShape, set: InstructionSet) -> Option<Self> {
        Self::suits(shape).then_some(Self {
            input: [shape.out_height, shape.out_width],
            padding: 2 - shape.padding,
            output: [shape.height, shape.width],
            inputs: shape.outputs,
            outputs: shape.inputs,
            set,
        })
    }

    /// Whether the algorithm can be used for a convolution and pays.
    fn suits(shape: &ConvShape) -> bool {
        let whole = |channels: usize| channels > 0 && channels.is_multiple_of(16);
        shape.kernel == 3
            && shape.stride == 1
            && shape.padding <= 2
            && whole(shape.inputs)
            && whole(shape.outputs)
    }

    /// Transforms and packs weights, `[output, input, row, column]`.
    pub fn pack(&self, weight: &[f32]) -> PackedWeights {
        let kernel = |input: usize, output: usize| {
            let start = (output * self.inputs + input) * 9;
            std::array::from_fn(|tap| weight[start + tap])
        };
        self.pack_kernels(kernel)
    }

    /// Transforms and packs weights for the transposed form, from those of the convolution that it belongs to,
    /// `[output, input, row, column]`: kernels are turned by half a turn.
    pub fn pack_transposed(&self, weight: &[f32]) -> PackedWeights {
        let kernel = |input: usize, output: usize| {
            let start = (input * self.outputs + output) * 9;
            std::array::from_fn(|tap| weight[start + 8 - tap])
        };
        self.pack_kernels(kernel)
    }

    /// Transforms and packs `kernel(input, output)`.
    fn pack_kernels(&self, kernel: impl Fn(usize, usize) -> [f32; 9]) -> PackedWeights {
        let pairs = (0..self.inputs).flat_map(|input| (0..self.outputs).map(move |output| (input, output)));
        let transformed: Vec<[f32; PLACES]> =
            pairs.map(|(input, output)| transform(kernel(input, output))).collect();
        pack(self.set, [PLACES, self.inputs, self.outputs], |place, input, output| {
            transformed[input * self.outputs + output][place]
        })
    }

    /// How many images an input holds.
    pub fn images(&self, x: &[f32]) -> usize {
        x.len() / (self.input[0] * self.input[1] * self.inputs).max(1)
    }

    /// Channels of the output.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// How many tiles of 2x2 outputs an image has, `[down, across]`.
    fn tiles(&self) -> [usize; 2] {
        self.output.map(|side| side.div_ceil(2))
    }

    /// How many tiles some images have.
    fn tiles_of(&self, images: usize) -> usize {
        images * self.tiles()[0] * self.tiles()[1]
    }

    /// Floats of the transformed patches of some images.
    pub fn patches_size(&self, images: usize) -> usize {
        PLACES * self.tiles_of(images) * self.inputs
    }

    /// Floats of the products of some images' patches with weights.
    pub fn products_size(&self, images: usize) -> usize {
        PLACES * self.tiles_of(images) * self.outputs
    }

    /// Computes `B^T d B` for all patches of some images: `[place, tile, channel]`.
    pub fn transform(&self, x: &[f32], patches: &mut [f32]) {
        self.set.run(Transform { shape: self, x, patches });
    }

    /// Multiplies patches with weights, `[place, tile, channel]`: the products replace (`fresh`) or are added to what
    /// is in `products`.
    pub fn multiply(&self, patches: &[f32], weights: &PackedWeights, fresh: bool, products: &mut [f32]) {
        assert_eq!(patches.len() * self.outputs, products.len() * self.inputs, "as many products as patches");
        self.set.run(Multiply { shape: self, patches, weights, fresh, products });
    }

    /// Computes `bias + A^T m A` for all tiles of some images: `[image, row, column, output]`.
    pub fn finish(&self, products: &[f32], bias: &[f32], y: &mut [f32]) {
        self.set.run(Finish { shape: self, products, bias, y });
    }
}

/// Transforms a kernel: `G g G^T`.
fn transform(kernel: [f32; 9]) -> [f32; PLACES] {
    // G times a column of the kernel.
    let times = |a: f32, b: f32, c: f32| [a, 0.5 * (a + b + c), 0.5 * (a - b + c), c];
    let columns: [[f32; 4]; 3] = std::array::from_fn(|c| times(kernel[c], kernel[3 + c], kernel[6 + c]));
    let mut places = [0.0; PLACES];
    for (row, places) in places.chunks_exact_mut(4).enumerate() {
        places.copy_from_slice(&times(columns[0][row], columns[1][row], columns[2][row]));
    }
    places
}

/// Reads a vector from the beginning of some floats.
#[inline(always)]
fn read<S: Simd>(from: &[f32]) -> S::f32s {
    assert!(from.len() >= S::F32_LANES, "a vector outside its numbers");
    // SAFETY: there are enough floats; unaligned reads may start anywhere.
    unsafe { from.as_ptr().cast::<S::f32s>().read_unaligned() }
}

/// Writes a vector to the beginning of some floats.
#[inline(always)]
fn write<S: Simd>(to: &mut [f32], vector: S::f32s) {
    assert!(to.len() >= S::F32_LANES, "a vector outside its numbers");
    // SAFETY: there is enough place; unaligned writes may start anywhere.
    unsafe { to.as_mut_ptr().cast::<S::f32s>().write_unaligned(vector) };
}

/// A call of [`Winograd::transform`].
struct Transform<'a> {
    shape: &'a Winograd,
    x: &'a [f32],
    patches: &'a mut [f32],
}

impl WithSimd for Transform<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, x, patches } = self;
        let ([height, width], channels) = (shape.input, shape.inputs);
        let [rows, columns] = shape.tiles();
        let plane = patches.len() / PLACES;
        // B^T times a column of a patch.
        let times = |d: [S::f32s; 4]| {
            [
                simd.sub_f32s(d[0], d[2]),
                simd.add_f32s(d[1], d[2]),
                simd.sub_f32s(d[2], d[1]),
                simd.sub_f32s(d[1], d[3]),
            ]
        };
        let images = x.chunks_exact(height * width * channels);
        let mut tile = 0;
        for image in images {
            for at in 0..rows * columns {
                let (row, column) = (2 * (at / columns), 2 * (at % columns));
                // Where the pixels of the patch start; those outside the image are zero.
                let starts: [Option<usize>; PLACES] = std::array::from_fn(|place| {
                    let r = (row + place / 4).checked_sub(shape.padding).filter(|&r| r < height)?;
                    let c = (column + place % 4).checked_sub(shape.padding).filter(|&c| c < width)?;
                    Some((r * width + c) * channels)
                });
                for channel in (0..channels).step_by(S::F32_LANES) {
                    let pixel = |r: usize, c: usize| match starts[4 * r + c] {
                        Some(start) => read::<S>(&image[start + channel..]),
                        None => simd.splat_f32s(0.0),
                    };
                    let down: [[S::f32s; 4]; 4] =
                        std::array::from_fn(|c| times([pixel(0, c), pixel(1, c), pixel(2, c), pixel(3, c)]));
                    for r in 0..4 {
                        let across = times([down[0][r], down[1][r], down[2][r], down[3][r]]);
                        for (c, vector) in across.into_iter().enumerate() {
                            write::<S>(
                                &mut patches[(4 * r + c) * plane + tile * channels + channel..],
                                vector,
                            );
                        }
                    }
                }
                tile += 1;
            }
        }
    }
}

/// A call of [`Winograd::multiply`].
struct Multiply<'a> {
    shape: &'a Winograd,
    patches: &'a [f32],
    weights: &'a PackedWeights,
    fresh: bool,
    products: &'a mut [f32],
}

impl WithSimd for Multiply<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Winograd { inputs, outputs, .. } = *self.shape;
        let zeros = [0.0; 64];
        let start = if self.fresh { Start::From(&zeros) } else { Start::Existing };
        let tiles = self.patches.len() / PLACES / inputs;
        let planes =
            self.patches.chunks_exact(tiles * inputs).zip(self.products.chunks_exact_mut(tiles * outputs));
        for (place, (from, to)) in planes.enumerate() {
            let rows = (0..tiles).map(|tile| (tile * inputs, tile * outputs));
            // SAFETY: the planes hold all channels of all tiles.
            unsafe { multiply(simd, from, self.weights, place, &rows, start, to) };
        }
    }
}

/// A call of [`Winograd::finish`].
struct Finish<'a> {
    shape: &'a Winograd,
    products: &'a [f32],
    bias: &'a [f32],
    y: &'a mut [f32],
}

impl WithSimd for Finish<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, products, bias, y } = self;
        let ([height, width], channels) = (shape.output, shape.outputs);
        let [rows, columns] = shape.tiles();
        let plane = products.len() / PLACES;
        // A^T times a column of products.
        let times = |m: [S::f32s; 4]| {
            let middle = simd.add_f32s(m[1], m[2]);
            let difference = simd.sub_f32s(m[1], m[2]);
            [simd.add_f32s(m[0], middle), simd.sub_f32s(difference, m[3])]
        };
        let mut tile = 0;
        for image in y.chunks_exact_mut(height * width * channels) {
            for at in 0..rows * columns {
                let (row, column) = (2 * (at / columns), 2 * (at % columns));
                for channel in (0..channels).step_by(S::F32_LANES) {
                    let product = |r: usize, c: usize| {
                        read::<S>(&products[(4 * r + c) * plane + tile * channels + channel..])
                    };
                    let down: [[S::f32s; 2]; 4] = std::array::from_fn(|c| {
                        times([product(0, c), product(1, c), product(2, c), product(3, c)])
                    });
                    let bias = read::<S>(&bias[channel..]);
                    for (r, across) in
                        (0..2.min(height - row)).map(|r| (r, times(down.map(|column| column[r]))))
                    {
                        for (c, vector) in across.into_iter().enumerate().take(width - column) {
                            let place = ((row + r) * width + column + c) * channels + channel;
                            write::<S>(&mut image[place..], simd.add_f32s(vector, bias));
                        }
                    }
                }
                tile += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::Conv;

    /// Numbers that look random.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|at| ((at * 7919 + seed * 104_729) % 2003) as f32 / 2003.0 - 0.5).collect()
    }

    /// The same but for rounding, relative to the largest number.
    fn close(a: &[f32], b: &[f32]) -> bool {
        let largest = a.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 5e-6 * largest)
    }

    #[test]
    fn equals_the_direct_convolution_and_its_transposed_form() {
        let set = InstructionSet::best();
        for (side, padding, inputs, outputs) in
            [([5, 4], 2, 16, 32), ([7, 7], 1, 64, 16), ([6, 9], 0, 16, 80)]
        {
            let images = 3;
            let shape = ConvShape::new(side, [inputs, outputs], 3, padding);
            let conv = Conv::new(shape, images, set);
            let (x, weight, bias) =
                (numbers(images * shape.in_size(), 1), numbers(shape.weights(), 2), numbers(outputs, 3));
            let (mut direct, mut transformed) =
                (vec![0.0; images * shape.out_size()], vec![0.0; images * shape.out_size()]);
            conv.forward(&x, &conv.pack(&weight), &bias, &mut direct);
            let winograd = Winograd::forward(&shape, set).unwrap();
            let mut patches = vec![0.0; winograd.patches_size(images)];
            let mut products = vec![f32::NAN; winograd.products_size(images)];
            winograd.transform(&x, &mut patches);
            winograd.multiply(&patches, &winograd.pack(&weight), true, &mut products);
            winograd.finish(&products, &bias, &mut transformed);
            assert!(close(&direct, &transformed), "{shape:?}");

            let zeros = vec![0.0; inputs];
            let (mut direct_back, mut back) = (vec![0.0; x.len()], vec![0.0; x.len()]);
            conv.transposed(&direct, &conv.pack_transposed(&weight), Some(&zeros), &mut direct_back);
            let winograd = Winograd::transposed(&shape, set).unwrap();
            let mut patches = vec![0.0; winograd.patches_size(images)];
            let mut products = vec![f32::NAN; winograd.products_size(images)];
            winograd.transform(&direct, &mut patches);
            winograd.multiply(&patches, &winograd.pack_transposed(&weight), true, &mut products);
            winograd.finish(&products, &zeros, &mut back);
            assert!(close(&direct_back, &back), "{shape:?}, transposed");
        }
    }

    #[test]
    fn kernels_that_do_not_suit_are_left_to_the_direct_convolution() {
        let set = InstructionSet::best();
        for (channels, kernel, padding) in
            [([3, 64], 3, 2), ([64, 64], 5, 2), ([64, 64], 3, 3), ([64, 17], 3, 2)]
        {
            assert!(Winograd::forward(&ConvShape::new([8, 8], channels, kernel, padding), set).is_none());
        }
    }
}
