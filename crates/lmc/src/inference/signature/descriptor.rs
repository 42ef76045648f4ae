//! Descriptor: 349 numbers that say how an image looks, whatever it shows: colours, textures at several scales, how the
//! channels go together. It has no parameters, so those of models that were trained apart can be compared.
//!
//! | numbers | what |
//! | --- | --- |
//! | 21 | colour: mean, log deviation and skewness of the channels; shares of light and dark; saturation; flat areas |
//! | 63 | texture: mean size of the 8 × 8 cosine coefficients of the luminance |
//! | 90 | fine texture: mean size and peakedness of the 4 × 4 cosine coefficients of all channels |
//! | 63 | correlations of ten maps (channels, their derivatives, distance from the centre), deviations and means |
//! | 45 | autocorrelation of each channel and of its second derivative |
//! | 67 | layout: where it is light, dark and coloured ([`super::layout`]) |
//!
//! Channels are opponent colours: `o0 = (r+g+b)/3`, `o1 = (r-g)/2`, `o2 = (r+g-2b)/4`. A constant `FLOOR` is added before
//! every logarithm and division: what is fainter is noise, and a grey image has chroma numbers that are constant, not
//! infinite. Images of another side than 32 are resampled to it.
//!
//! All sums run in a fixed order and logarithms are computed in software, so that the numbers are the same on all machines.

use super::FLOOR;
use super::layout::{self, Layout};
use super::planes::{
    Moments, PADDED, PIXELS, Plane, SIDE, across, bend_across, bend_down, dot, down, log, opponent_colours,
    pad, planes_of, sum,
};
use super::resample::Resample;
use super::texture::{block_cosines, cosines};

/// Version of the descriptor. Any change of a number is a new one.
pub const VERSION: u32 = 2;

/// Number of numbers.
pub const LENGTH: usize = 282 + layout::LENGTH;

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
    layout: Layout,
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
            layout: Layout::default(),
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
        let planes = planes_of(planes);
        let (channels, saturation) = opponent_colours(&planes);
        let mut numbers = Vec::with_capacity(LENGTH);
        let maps = self.maps(&channels);
        let moments: Vec<Moments> = maps.iter().map(|map| Moments::of(map)).collect();
        self.colour(&channels, &saturation, &moments, &mut numbers);
        self.texture(&channels, &mut numbers);
        correlations(&moments, &mut numbers);
        for (channel, moments) in channels.iter().zip(&moments) {
            autocorrelation(channel, moments, &mut numbers);
        }
        self.layout.describe(&planes, &channels, &mut numbers);
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
