//! Planes: the opponent colours of an image, their derivatives, and sums in a fixed order.

use super::FLOOR;

/// Side of the images that are described.
pub const SIDE: usize = 32;
/// Pixels of a plane.
pub const PIXELS: usize = SIDE * SIDE;

/// One number for each pixel.
pub type Plane = [f32; PIXELS];

/// Rows and columns of zeros behind a plane, for shifts.
const MARGIN: usize = 4;
/// Side of a plane with zeros behind it.
pub const PADDED: usize = SIDE + 2 * MARGIN;

/// Red, green and blue, from 0 to 1; numbers that are missing count as 0.
pub fn planes_of(planes: &[Vec<f32>; 3]) -> [Box<Plane>; 3] {
    std::array::from_fn(|channel| {
        let mut plane = Box::new([0.0; PIXELS]);
        // Comparisons with what is no number are false.
        let clamped = |value: f32| if value > 0.0 { value.min(1.0) } else { 0.0 };
        plane.iter_mut().zip(&planes[channel]).for_each(|(to, from)| *to = clamped(*from));
        plane
    })
}

/// The opponent colours of an image, and its saturation.
pub fn opponent_colours([red, green, blue]: &[Box<Plane>; 3]) -> ([Box<Plane>; 3], Box<Plane>) {
    let [mut a, mut b, mut c, mut saturation] = std::array::from_fn(|_| Box::new([0.0; PIXELS]));
    for at in 0..PIXELS {
        let (red, green, blue) = (red[at], green[at], blue[at]);
        saturation[at] = red.max(green).max(blue) - red.min(green).min(blue);
        a[at] = (red + green + blue) / 3.0;
        b[at] = (red - green) / 2.0;
        c[at] = (red + green - 2.0 * blue) / 4.0;
    }
    ([a, b, c], saturation)
}

/// A map less its mean, and its variance.
#[derive(Debug)]
pub struct Moments {
    /// Mean over pixels.
    pub mean: f32,
    /// The map less its mean.
    pub centred: Box<Plane>,
    /// Mean square of the centred map.
    pub variance: f32,
}

impl Moments {
    /// Takes the moments of a map.
    pub fn of(map: &Plane) -> Self {
        let mean = sum(map.iter().copied()) / PIXELS as f32;
        let centred = Box::new(map.map(|value| value - mean));
        let variance = dot(&*centred, &*centred) / PIXELS as f32;
        Self { mean, centred, variance }
    }

    /// Square root of the variance.
    pub fn deviation(&self) -> f32 {
        self.variance.sqrt()
    }

    /// Deviation that is never 0.
    pub fn scale(&self) -> f32 {
        (self.variance + FLOOR * FLOOR).sqrt()
    }
}

/// A plane with zeros around it: products with what lies outside are nothing.
pub fn pad(plane: &Plane) -> [f32; PADDED * PADDED] {
    let mut padded = [0.0; PADDED * PADDED];
    for (row, values) in plane.chunks_exact(SIDE).enumerate() {
        padded[row * PADDED..row * PADDED + SIDE].copy_from_slice(values);
    }
    padded
}

/// Differences of horizontal neighbours; borders are reflected, here and below.
pub fn across(plane: &Plane) -> Plane {
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
pub fn down(plane: &Plane) -> Plane {
    let mut differences = [0.0; PIXELS];
    for at in 0..PIXELS {
        let below = if at / SIDE + 1 < SIDE { at + SIDE } else { at - SIDE };
        differences[at] = plane[below] - plane[at];
    }
    differences
}

/// Second differences along rows.
pub fn bend_across(plane: &Plane) -> Plane {
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
pub fn bend_down(plane: &Plane) -> Plane {
    let mut bends = [0.0; PIXELS];
    for at in 0..PIXELS {
        let row = at / SIDE;
        let above = if row > 0 { at - SIDE } else { at + SIDE };
        let below = if row + 1 < SIDE { at + SIDE } else { at - SIDE };
        bends[at] = plane[above] - 2.0 * plane[at] + plane[below];
    }
    bends
}

/// Lanes in which sums run side by side.
const LANES: usize = 16;

/// Sum of products. The length is a multiple of `LANES`.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum()
}

/// Sum of values, side by side.
pub fn sum(values: impl Iterator<Item = f32>) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    for (at, value) in values.enumerate() {
        lanes[at % LANES] += value;
    }
    lanes.iter().sum()
}

/// Logarithm, the same on all machines.
pub fn log(value: f32) -> f32 {
    libm::log(f64::from(value)) as f32
}
