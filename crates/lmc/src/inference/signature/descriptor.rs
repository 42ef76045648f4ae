//! Descriptor: 282 numbers that say how an image looks, whatever it shows: colours, textures at several scales, how the
//! channels go together. It has no parameters, so those of models that were trained apart can be compared.
//!
//! | numbers | what |
//! | --- | --- |
//! | 21 | colour: mean, log deviation and skewness of the channels; shares of light and dark; saturation; flat areas |
//! | 63 | texture: mean size of the 8 × 8 cosine coefficients of the luminance |
//! | 90 | fine texture: mean size and peakedness of the 4 × 4 cosine coefficients of all channels |
//! | 63 | correlations of ten maps (channels, their derivatives, distance from the centre), deviations and means |
//! | 45 | autocorrelation of each channel and of its second derivative |
//!
//! Channels are opponent colours: `o0 = (r+g+b)/3`, `o1 = (r-g)/2`, `o2 = (r+g-2b)/4`. A constant `FLOOR` is added before
//! every logarithm and division: what is fainter is noise, and a grey image has chroma numbers that are constant, not
//! infinite. Images of another side than 32 are resampled to it.
//!
//! All sums run in a fixed order and logarithms are computed in software, so that the numbers are the same on all machines.

use std::f64::consts::PI;

use super::resample::Resample;

/// Version of the descriptor. Any change of a number is a new one.
pub const VERSION: u32 = 1;

/// Number of numbers.
pub const LENGTH: usize = 282;

/// Side of the images that are described.
const SIDE: usize = 32;
const PIXELS: usize = SIDE * SIDE;

/// The size, as a share of full brightness, below which nothing counts.
const FLOOR: f32 = 0.02;

/// Thresholds of luminance.
const LEVELS: [f64; 8] = [0.06, 0.15, 0.25, 0.4, 0.55, 0.7, 0.85, 0.94];
/// How gradually a threshold is crossed.
const LEVEL_WIDTH: f64 = 0.03;
/// Number of grey values that thresholds tell apart: as many as the sum of three bytes has.
const GREYS: usize = 766;

/// Differences of neighbours below which an area is flat.
const FLAT: [f32; 2] = [0.02, 0.06];

/// Largest skewness that counts.
const MOST_SKEWNESS: f32 = 4.0;
/// Largest correlation that counts.
const MOST_CORRELATION: f32 = 0.99;

/// Shifts (down, right) of the autocorrelation; of the second derivative's, the first [`DETAIL_SHIFTS`].
const SHIFTS: [(usize, usize); 8] = [(0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (2, 2), (0, 4), (4, 0)];
const DETAIL_SHIFTS: usize = 5;

/// Maps whose correlations are described.
const MAPS: usize = 10;

/// Rows and columns of zeros behind a plane, for shifts.
const MARGIN: usize = 4;
const PADDED: usize = SIDE + 2 * MARGIN;

type Plane = [f32; PIXELS];

/// Describes images of one shape.
#[derive(Clone, Debug)]
pub struct Describer {
    channels: usize,
    side: usize,
    resample: Option<Resample>,
    /// For each threshold, how far each grey value is beyond it.
    levels: Vec<[f32; LEVELS.len()]>,
    cosines8: [[f32; 8]; 8],
    cosines4: [[f32; 4]; 4],
    /// Distance from the centre, squared and scaled.
    radius: Box<Plane>,
}

impl Describer {
    /// Prepares for planar images of so many channels (1 or 3) and so many pixels a side.
    pub fn new(channels: usize, side: usize) -> Self {
        let level = |grey: usize, at: f64| {
            let value = grey as f64 / (GREYS - 1) as f64;
            (1.0 / (1.0 + libm::exp((at - value) / LEVEL_WIDTH))) as f32
        };
        let mut radius = Box::new([0.0; PIXELS]);
        for (at, value) in radius.iter_mut().enumerate() {
            let place = |position: usize| 2.0 * position as f32 / (SIDE - 1) as f32 - 1.0;
            let (row, column) = (place(at / SIDE), place(at % SIDE));
            *value = 0.3 * (row * row + column * column);
        }
        Self {
            channels,
            side,
            resample: (side != SIDE).then(|| Resample::new(side, SIDE)),
            levels: (0..GREYS).map(|grey| LEVELS.map(|at| level(grey, at))).collect(),
            cosines8: cosines(),
            cosines4: cosines(),
            radius,
        }
    }

    /// Bytes of an image as numbers.
    pub(super) fn bytes_per_image(&self) -> usize {
        self.channels * self.side * self.side * size_of::<f32>()
    }

    /// Describes an image: `[channel, row, column]`, values from 0 to 1. Numbers that are missing count as 0, and numbers
    /// that are not finite too.
    pub fn describe(&self, image: &[f32]) -> Vec<f32> {
        self.describe_planes(&self.planes(image))
    }

    /// Red, green and blue of an image at the side that is described.
    pub fn planes(&self, image: &[f32]) -> [Vec<f32>; 3] {
        std::array::from_fn(|channel| {
            let channel = channel.min(self.channels.saturating_sub(1));
            let size = image.len() / self.channels.max(1);
            let values = image.get(channel * size..(channel + 1) * size).unwrap_or_default();
            match &self.resample {
                Some(resample) => resample.apply(values),
                None => values.to_vec(),
            }
        })
    }

    /// Describes red, green and blue planes at the side that is described.
    pub fn describe_planes(&self, planes: &[Vec<f32>; 3]) -> Vec<f32> {
        let (channels, saturation) = opponent_colours(planes);
        let mut numbers = Vec::with_capacity(LENGTH);
        let maps = self.maps(&channels);
        let moments: Vec<Moments> = maps.iter().map(|map| Moments::of(map)).collect();
        self.colour(&channels, &saturation, &moments, &mut numbers);
        self.texture(&channels, &mut numbers);
        correlations(&moments, &mut numbers);
        for (channel, moments) in channels.iter().zip(&moments) {
            autocorrelation(channel, moments, &mut numbers);
        }
        debug_assert_eq!(numbers.len(), LENGTH);
        numbers
    }

    /// The maps whose correlations are described.
    fn maps(&self, [o0, o1, o2]: &[Box<Plane>; 3]) -> [Box<Plane>; MAPS] {
        let size = |of: Plane| -> Box<Plane> { Box::new(of.map(f32::abs)) };
        let sum = |a: Plane, b: Plane| -> Box<Plane> {
            let mut sum = Box::new([0.0; PIXELS]);
            for at in 0..PIXELS {
                sum[at] = a[at].abs() + b[at].abs();
            }
            sum
        };
        [
            o0.clone(),
            o1.clone(),
            o2.clone(),
            size(across(o0)),
            size(down(o0)),
            size(bend_across(o0)),
            size(bend_down(o0)),
            sum(across(o1), across(o2)),
            sum(down(o1), down(o2)),
            self.radius.clone(),
        ]
    }

    fn colour(
        &self,
        channels: &[Box<Plane>; 3],
        saturation: &Plane,
        moments: &[Moments],
        numbers: &mut Vec<f32>,
    ) {
        let channel_moments = &moments[..3];
        numbers.extend(channel_moments.iter().map(|moments| moments.mean));
        numbers.extend(channel_moments.iter().map(|moments| log(moments.deviation() + FLOOR)));
        numbers.extend(channel_moments.iter().map(|moments| {
            let cubes = sum(moments.centred.iter().map(|value| value * value * value)) / PIXELS as f32;
            let deviation = moments.deviation() + FLOOR;
            let skewness = cubes / (deviation * deviation * deviation);
            skewness.clamp(-MOST_SKEWNESS, MOST_SKEWNESS) / 2.0
        }));
        let mut beyond = [0.0_f32; LEVELS.len()];
        for value in channels[0].iter() {
            let grey = (value * (GREYS - 1) as f32 + 0.5) as usize;
            let levels = &self.levels[grey.min(GREYS - 1)];
            beyond.iter_mut().zip(levels).for_each(|(sum, level)| *sum += level);
        }
        numbers.extend(beyond.iter().map(|sum| sum / PIXELS as f32));
        let saturation = Moments::of(saturation);
        numbers.extend([log(saturation.mean + FLOOR), log(saturation.deviation() + FLOOR)]);
        let mut flat = [0_usize; 2];
        let luminance = &channels[0];
        for at in 0..PIXELS {
            let neighbours = [(at % SIDE + 1 < SIDE, at + 1), (at / SIDE + 1 < SIDE, at + SIDE)];
            for (_, next) in neighbours.into_iter().filter(|(inside, _)| *inside) {
                let difference = (luminance[next] - luminance[at]).abs();
                flat.iter_mut().zip(FLAT).for_each(|(count, most)| *count += usize::from(difference < most));
            }
        }
        numbers.extend(flat.map(|count| count as f32 / (2 * SIDE * (SIDE - 1)) as f32));
    }

    fn texture(&self, channels: &[Box<Plane>; 3], numbers: &mut Vec<f32>) {
        let coarse = block_cosines::<8, 4>(&channels[0], &self.cosines8);
        numbers.extend(coarse.iter().skip(1).map(|(size, _)| log(size + FLOOR)));
        for channel in channels {
            for (size, square) in block_cosines::<4, 2>(channel, &self.cosines4).into_iter().skip(1) {
                let size = log(size + FLOOR);
                numbers.extend([size, log(square.sqrt() + FLOOR) - size]);
            }
        }
    }
}

/// The opponent colours of an image, and its saturation.
fn opponent_colours(planes: &[Vec<f32>; 3]) -> ([Box<Plane>; 3], Box<Plane>) {
    let plane = |values: &[f32]| -> Box<Plane> {
        let mut plane = Box::new([0.0; PIXELS]);
        // Comparisons with what is no number are false.
        let clamped = |value: f32| if value > 0.0 { value.min(1.0) } else { 0.0 };
        plane.iter_mut().zip(values).for_each(|(to, from)| *to = clamped(*from));
        plane
    };
    let [mut a, mut b, mut c] = [plane(&planes[0]), plane(&planes[1]), plane(&planes[2])];
    let mut saturation = Box::new([0.0; PIXELS]);
    for at in 0..PIXELS {
        let (red, green, blue) = (a[at], b[at], c[at]);
        saturation[at] = red.max(green).max(blue) - red.min(green).min(blue);
        a[at] = (red + green + blue) / 3.0;
        b[at] = (red - green) / 2.0;
        c[at] = (red + green - 2.0 * blue) / 4.0;
    }
    ([a, b, c], saturation)
}

/// A map less its mean, and its variance.
struct Moments {
    mean: f32,
    centred: Box<Plane>,
    variance: f32,
}

impl Moments {
    fn of(map: &Plane) -> Self {
        let mean = sum(map.iter().copied()) / PIXELS as f32;
        let centred = Box::new(map.map(|value| value - mean));
        let variance = dot(&*centred, &*centred) / PIXELS as f32;
        Self { mean, centred, variance }
    }

    fn deviation(&self) -> f32 {
        self.variance.sqrt()
    }

    /// Deviation that is never 0.
    fn scale(&self) -> f32 {
        (self.variance + FLOOR * FLOOR).sqrt()
    }
}

fn correlations(moments: &[Moments], numbers: &mut Vec<f32>) {
    for (at, first) in moments.iter().enumerate() {
        for second in &moments[at + 1..] {
            let covariance = dot(&*first.centred, &*second.centred) / PIXELS as f32;
            let correlation = covariance / (first.scale() * second.scale());
            let correlation = correlation.clamp(-MOST_CORRELATION, MOST_CORRELATION);
            numbers.push(libm::atanh(f64::from(correlation)) as f32);
        }
    }
    let told = &moments[..MAPS - 1];
    numbers.extend(told.iter().map(|moments| log(moments.scale())));
    numbers.extend(told.iter().map(|moments| 3.0 * moments.mean));
}

fn autocorrelation(channel: &Plane, moments: &Moments, numbers: &mut Vec<f32>) {
    let shifted = |plane: &Plane, shifts: &[(usize, usize)], square: f32, numbers: &mut Vec<f32>| {
        let padded = pad(plane);
        for &(rows, columns) in shifts {
            let products: f32 = (0..SIDE)
                .map(|row| {
                    let (here, there) = (row * PADDED, (row + rows) * PADDED + columns);
                    dot(&padded[here..here + SIDE], &padded[there..there + SIDE])
                })
                .sum();
            numbers.push(products / ((SIDE - rows) * (SIDE - columns)) as f32 / square);
        }
    };
    shifted(&moments.centred, &SHIFTS, moments.variance + FLOOR * FLOOR, numbers);
    let detail = bend_down(&bend_across(channel)).map(|value| value / 4.0);
    let square = dot(&detail, &detail) / PIXELS as f32 + FLOOR * FLOOR;
    shifted(&detail, &SHIFTS[..DETAIL_SHIFTS], square, numbers);
    let size = sum(detail.iter().map(|value| value.abs())) / PIXELS as f32;
    let scale = log(square) / 2.0;
    numbers.extend([scale, log(size + FLOOR) - scale]);
}

/// A plane with zeros around it: products with what lies outside are nothing.
fn pad(plane: &Plane) -> [f32; PADDED * PADDED] {
    let mut padded = [0.0; PADDED * PADDED];
    for (row, values) in plane.chunks_exact(SIDE).enumerate() {
        padded[row * PADDED..row * PADDED + SIDE].copy_from_slice(values);
    }
    padded
}

/// Differences of horizontal neighbours; borders are reflected, here and below.
fn across(plane: &Plane) -> Plane {
    let mut differences = [0.0; PIXELS];
    for (to, from) in differences.chunks_exact_mut(SIDE).zip(plane.chunks_exact(SIDE)) {
        for at in 0..SIDE - 1 {
            to[at] = from[at + 1] - from[at];
        }
        to[SIDE - 1] = from[SIDE - 2] - from[SIDE - 1];
    }
    differences
}

/// Differences of vertical neighbours.
fn down(plane: &Plane) -> Plane {
    let mut differences = [0.0; PIXELS];
    for at in 0..PIXELS {
        let below = if at / SIDE + 1 < SIDE { at + SIDE } else { at - SIDE };
        differences[at] = plane[below] - plane[at];
    }
    differences
}

/// Second differences along rows.
fn bend_across(plane: &Plane) -> Plane {
    let mut bends = [0.0; PIXELS];
    for (to, from) in bends.chunks_exact_mut(SIDE).zip(plane.chunks_exact(SIDE)) {
        for at in 1..SIDE - 1 {
            to[at] = from[at - 1] - 2.0 * from[at] + from[at + 1];
        }
        to[0] = 2.0 * (from[1] - from[0]);
        to[SIDE - 1] = 2.0 * (from[SIDE - 2] - from[SIDE - 1]);
    }
    bends
}

/// Second differences along columns.
fn bend_down(plane: &Plane) -> Plane {
    let mut bends = [0.0; PIXELS];
    for at in 0..PIXELS {
        let row = at / SIDE;
        let above = if row > 0 { at - SIDE } else { at + SIDE };
        let below = if row + 1 < SIDE { at + SIDE } else { at - SIDE };
        bends[at] = plane[above] - 2.0 * plane[at] + plane[below];
    }
    bends
}

/// The orthonormal cosine transform of `N` values: a row for each frequency.
fn cosines<const N: usize>() -> [[f32; N]; N] {
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
fn block_cosines<const N: usize, const STRIDE: usize>(
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

/// Lanes in which sums run side by side.
const LANES: usize = 16;

/// Sum of products. The length is a multiple of [`LANES`].
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum()
}

fn sum(values: impl Iterator<Item = f32>) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for (at, value) in values.enumerate() {
        lanes[at % LANES] += value;
    }
    lanes.iter().sum()
}

fn log(value: f32) -> f32 {
    libm::log(f64::from(value)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: &[f32], expected: &[f32]) {
        for (at, (a, b)) in found.iter().zip(expected).enumerate() {
            assert!((a - b).abs() < 2e-4, "number {at}: {a}, not {b}");
        }
    }

    #[test]
    fn a_flat_grey_image_by_hand() {
        let numbers = Describer::new(1, SIDE).describe(&[0.5; PIXELS]);
        assert_eq!(numbers.len(), LENGTH);
        let nothing = FLOOR.ln();
        // Means, deviations and skewness of luminance and both chroma channels.
        near(&numbers[..9], &[0.5, 0.0, 0.0, nothing, nothing, nothing, 0.0, 0.0, 0.0]);
        let beyond = |level: f64| (1.0 / (1.0 + ((level - 0.5) / LEVEL_WIDTH).exp())) as f32;
        let expected = LEVELS.map(beyond);
        // A grey value is one of 766.
        assert!(
            numbers[9..17].iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01),
            "{:?}",
            &numbers[9..17]
        );
        near(&numbers[17..21], &[nothing, nothing, 1.0, 1.0]);
        near(&numbers[21..84], &[nothing; 63]);
        assert!(numbers.iter().all(|number| number.is_finite()));
        // Nothing goes together in an image without variation.
        near(&numbers[174..219], &[0.0; 45]);
    }

    #[test]
    fn grey_is_three_equal_channels_and_size_hardly_matters() {
        let picture = |side: usize| -> Vec<f32> {
            let at = |place: usize| (place % side) as f32 / side as f32;
            (0..side * side).map(at).collect()
        };
        let grey = picture(SIDE);
        let colour = [grey.clone(), grey.clone(), grey.clone()].concat();
        assert_eq!(Describer::new(1, SIDE).describe(&grey), Describer::new(3, SIDE).describe(&colour));
        let (large, small) =
            (Describer::new(1, 128).describe(&picture(128)), Describer::new(1, SIDE).describe(&grey));
        let most = large.iter().zip(&small).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(most < 0.5, "{most}");
    }

    #[test]
    fn numbers_that_are_none_and_images_that_are_cut_do_no_harm() {
        let describer = Describer::new(3, SIDE);
        let strange = [f32::NAN, f32::INFINITY, -4.0, 1e30, 0.3];
        let image: Vec<f32> = (0..3 * PIXELS).map(|at| strange[at % strange.len()]).collect();
        assert!(describer.describe(&image).iter().all(|number| number.is_finite()));
        assert!(describer.describe(&[]).iter().all(|number| number.is_finite()));
    }
}
