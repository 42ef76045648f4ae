//! Layout: where an image is light, dark and coloured, coarsely. A picture on an empty ground, a centred sign and a photograph
//! differ there, whatever happened to their finest details.
//!
//! | numbers | what |
//! | --- | --- |
//! | 20 | of five square frames from the border to the centre: means of the channels, log deviation of the luminance |
//! | 35 | the lowest cosine waves of the luminance over the whole image, with their signs |
//! | 12 | how much colour there is of each hue |

use super::FLOOR;
use super::planes::{PIXELS, Plane, SIDE, dot, log};
use super::texture::cosines;

/// Distances from the border at which the frames begin.
const FRAMES: [usize; 5] = [0, 1, 4, 8, 12];
/// Waves along each side, with the constant one.
const WAVES: usize = 6;
/// Parts of the circle of hues.
const HUES: usize = 12;

/// Numbers of the layout.
pub const LENGTH: usize = 4 * FRAMES.len() + WAVES * WAVES - 1 + HUES;

/// Prepared tables.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The frame of each pixel.
    frames: Vec<u8>,
    /// Pixels of each frame.
    sizes: [f32; FRAMES.len()],
    /// The lowest waves, a row for each.
    waves: [[f32; SIDE]; SIDE],
}

impl Default for Layout {
    /// Prepares the tables.
    fn default() -> Self {
        let frame = |at: usize| {
            let (row, column) = (at / SIDE, at % SIDE);
            let border = row.min(column).min(SIDE - 1 - row).min(SIDE - 1 - column);
            FRAMES.iter().rposition(|&start| start <= border).unwrap_or(0) as u8
        };
        let frames: Vec<u8> = (0..PIXELS).map(frame).collect();
        let mut sizes = [0.0; FRAMES.len()];
        frames.iter().for_each(|&frame| sizes[usize::from(frame)] += 1.0);
        Self { frames, sizes, waves: cosines() }
    }
}

impl Layout {
    /// Adds the numbers of an image. `planes` are red, green and blue, `channels` its opponent colours.
    pub fn describe(&self, planes: &[Box<Plane>; 3], channels: &[Box<Plane>; 3], numbers: &mut Vec<f32>) {
        self.frames(channels, numbers);
        self.waves(&channels[0], numbers);
        hues(planes, numbers);
    }

    fn frames(&self, channels: &[Box<Plane>; 3], numbers: &mut Vec<f32>) {
        let mut sums = [[0.0_f32; FRAMES.len()]; 4];
        for (at, &frame) in self.frames.iter().enumerate() {
            let frame = usize::from(frame);
            for (sums, channel) in sums.iter_mut().zip(channels) {
                sums[frame] += channel[at];
            }
            sums[3][frame] += channels[0][at] * channels[0][at];
        }
        for (frame, &size) in self.sizes.iter().enumerate() {
            let [luminance, red_green, blue, square] = sums.map(|sums| sums[frame] / size);
            let deviation = (square - luminance * luminance).max(0.0).sqrt();
            numbers.extend([luminance, red_green, blue, log(deviation + FLOOR)]);
        }
    }

    fn waves(&self, luminance: &Plane, numbers: &mut Vec<f32>) {
        // Along rows first; the result is transposed: [wave across][row].
        let mut rows = [[0.0_f32; SIDE]; WAVES];
        for (row, values) in luminance.chunks_exact(SIDE).enumerate() {
            for (rows, wave) in rows.iter_mut().zip(&self.waves) {
                rows[row] = dot(values, wave);
            }
        }
        for down in 0..WAVES {
            for (across, rows) in rows.iter().enumerate() {
                if (down, across) != (0, 0) {
                    // The transform is orthonormal: divided by the side, a wave of full contrast has a size of about 1/2.
                    numbers.push(dot(rows, &self.waves[down]) / SIDE as f32);
                }
            }
        }
    }
}

/// How much colour there is of each hue. A pixel counts by its saturation, for the two hues next to its own.
fn hues([red, green, blue]: &[Box<Plane>; 3], numbers: &mut Vec<f32>) {
    let mut amounts = [0.0_f32; HUES + 1];
    for at in 0..PIXELS {
        let (red, green, blue) = (red[at], green[at], blue[at]);
        let most = red.max(green).max(blue);
        let saturation = most - red.min(green).min(blue);
        if saturation <= 0.0 {
            continue;
        }
        // The hexagon of hues: 0 red, 2 green, 4 blue.
        let hue = if most == red {
            (green - blue) / saturation
        } else if most == green {
            2.0 + (blue - red) / saturation
        } else {
            4.0 + (red - green) / saturation
        };
        let place = (if hue < 0.0 { hue + 6.0 } else { hue }) * (HUES as f32 / 6.0);
        let first = (place as usize).min(HUES - 1);
        let share = place - first as f32;
        amounts[first] += saturation * (1.0 - share);
        amounts[first + 1] += saturation * share;
    }
    amounts[0] += amounts[HUES];
    numbers.extend(amounts[..HUES].iter().map(|amount| log(amount / PIXELS as f32 + FLOOR)));
}

#[cfg(test)]
mod tests {
    use super::super::planes::opponent_colours;
    use super::*;

    fn describe(pixel: impl Fn(usize, usize) -> [f32; 3]) -> Vec<f32> {
        let plane = |channel: usize| -> Box<Plane> {
            let mut plane = Box::new([0.0; PIXELS]);
            (0..PIXELS).for_each(|at| plane[at] = pixel(at / SIDE, at % SIDE)[channel]);
            plane
        };
        let planes = [plane(0), plane(1), plane(2)];
        let (channels, _) = opponent_colours(&planes);
        let mut numbers = Vec::new();
        Layout::default().describe(&planes, &channels, &mut numbers);
        assert_eq!(numbers.len(), LENGTH);
        numbers
    }

    #[test]
    fn a_bright_border_is_in_the_first_frame_and_pure_green_in_one_hue() {
        let border =
            |row: usize, column: usize| [0, SIDE - 1].iter().any(|&edge| row == edge || column == edge);
        let numbers = describe(|row, column| if border(row, column) { [0.0, 0.9, 0.0] } else { [0.5; 3] });
        let near = |found: f32, expected: f32| (found - expected).abs() < 1e-5;
        // Luminance 0.3, (r-g)/2, (r+g-2b)/4, no deviation; then grey.
        assert!(near(numbers[0], 0.3) && near(numbers[1], -0.45) && near(numbers[2], 0.225));
        assert!(near(numbers[3], FLOOR.ln()) || numbers[3] < -3.8, "{}", numbers[3]);
        assert!((0..4).all(|frame| near(numbers[4 + 4 * frame], 0.5)));
        let hues = &numbers[LENGTH - HUES..];
        let green = 0.9 * 124.0 / PIXELS as f32;
        assert!(near(hues[4], (green + FLOOR).ln()), "{hues:?}");
        assert!(hues.iter().enumerate().all(|(at, &hue)| at == 4 || near(hue, FLOOR.ln())));
    }

    #[test]
    fn waves_have_signs_and_a_flat_image_has_none() {
        let waves = |numbers: Vec<f32>| numbers[20..55].to_vec();
        assert!(waves(describe(|_, _| [0.7; 3])).iter().all(|wave| wave.abs() < 1e-5));
        let left = waves(describe(|_, column| if column < SIDE / 2 { [1.0; 3] } else { [0.0; 3] }));
        let right = waves(describe(|_, column| if column < SIDE / 2 { [0.0; 3] } else { [1.0; 3] }));
        // The first number is the lowest wave across: √2/32 · Σ cos over the left half = √2/π up to the grid.
        assert!((left[0] - 2.0_f32.sqrt() / std::f32::consts::PI).abs() < 1e-3, "{}", left[0]);
        assert!((left[0] + right[0]).abs() < 1e-5);
        // Half a period down is nothing.
        assert!(left[WAVES - 1].abs() < 1e-5);
    }
}
