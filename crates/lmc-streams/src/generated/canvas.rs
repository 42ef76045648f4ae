//! Colours on the square: painting through masks, light, blur, grain and smooth noise.

use super::mask::{Mask, SIDE};
use crate::picture::Picture;
use crate::seed::Random;

/// Red, green and blue, 0 to 1.
pub type Colour = [f64; 3];

/// The picture while it is drawn.
#[derive(Clone, Debug)]
pub struct Canvas(Vec<Colour>);

impl Canvas {
    /// Makes a canvas of one colour.
    pub fn plain(colour: Colour) -> Self {
        Self(vec![colour; SIDE * SIDE])
    }

    /// Makes a canvas with a colour for every pixel, computed from the middle of the pixel (in pixels).
    pub fn painted(mut colour: impl FnMut(f64, f64) -> Colour) -> Self {
        Self((0..SIDE * SIDE).map(middle).map(|(x, y)| colour(x, y)).collect())
    }

    /// Lays a colour over what the mask covers.
    pub fn paint(&mut self, mask: &Mask, colour: Colour) {
        self.paint_with(mask, |_, _| colour);
    }

    /// Lays colours over what the mask covers; transparent where its coverage is partial.
    pub fn paint_with(&mut self, mask: &Mask, mut colour: impl FnMut(f64, f64) -> Colour) {
        for (i, (pixel, &covered)) in self.0.iter_mut().zip(mask.values()).enumerate() {
            if covered > 0.0 {
                let (x, y) = middle(i);
                *pixel = mix(*pixel, colour(x, y), covered.min(1.0));
            }
        }
    }

    /// Multiplies by a light that grows from `dark` to `bright` along the direction `angle`.
    pub fn light(&mut self, angle: f64, dark: f64, bright: f64) {
        let (across, down) = (libm::cos(angle), libm::sin(angle));
        for (i, pixel) in self.0.iter_mut().enumerate() {
            let (x, y) = middle(i);
            let half = SIDE as f64 / 2.0;
            let t = (0.5 + ((x - half) * across + (y - half) * down) / SIDE as f64).clamp(0.0, 1.0);
            *pixel = pixel.map(|value| value * (dark + (bright - dark) * t));
        }
    }

    /// Softens the picture; `variance` is that of the blur in square pixels.
    pub fn blur(&mut self, variance: f64) {
        // Repeated three-pixel averages: each pass along an axis with weight w has variance 2 w.
        let passes = (variance / 0.5).ceil().max(0.0) as usize;
        for _ in 0..passes {
            let weight = variance / passes as f64 / 2.0;
            self.average(weight, 1);
            self.average(weight, SIDE);
        }
    }

    fn average(&mut self, weight: f64, step: usize) {
        let from = self.0.clone();
        for (i, pixel) in self.0.iter_mut().enumerate() {
            let position = if step == 1 { i % SIDE } else { i / SIDE };
            let before = from[if position == 0 { i } else { i - step }];
            let after = from[if position == SIDE - 1 { i } else { i + step }];
            for channel in 0..3 {
                let sides = before[channel] + after[channel] - 2.0 * pixel[channel];
                pixel[channel] += weight * sides;
            }
        }
    }

    /// Adds camera noise, partly the same in all channels, partly not.
    pub fn grain(&mut self, amount: f64, random: &mut Random) {
        for pixel in &mut self.0 {
            let bits = random.bits();
            let lane = |n: u32| f64::from((bits >> (16 * n)) as u16) / 32_768.0 - 1.0;
            for (value, n) in pixel.iter_mut().zip(1..) {
                *value += amount * (lane(0) + 0.7 * lane(n));
            }
        }
    }

    /// Spreads values around `middle`; a factor below 1 gives a flatter picture.
    pub fn contrast(&mut self, factor: f64, middle: f64) {
        for pixel in &mut self.0 {
            *pixel = pixel.map(|value| middle + (value - middle) * factor);
        }
    }

    /// Gives the finished picture in colour.
    pub fn into_rgb(self) -> Picture {
        let pixels = self.0.iter().flatten().map(|&value| to_byte(value)).collect();
        Picture { width: SIDE, height: SIDE, channels: 3, pixels }
    }

    /// Gives the finished picture in grey: the red channel of a canvas painted in greys.
    pub fn into_grey(self) -> Picture {
        let pixels = self.0.iter().map(|&[value, _, _]| to_byte(value)).collect();
        Picture { width: SIDE, height: SIDE, channels: 1, pixels }
    }
}

/// The grey of this brightness, 0 to 1.
pub const fn grey(value: f64) -> Colour {
    [value; 3]
}

/// Mixes two colours: `t` = 0 gives the first, 1 the second.
pub fn mix(a: Colour, b: Colour, t: f64) -> Colour {
    [a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t]
}

/// The brightness of a colour as people see it, 0 to 1.
pub fn brightness(colour: Colour) -> f64 {
    0.3 * colour[0] + 0.59 * colour[1] + 0.11 * colour[2]
}

/// Draws a colour of any hue, of a strength up to `strength` and of a brightness within bounds.
pub fn any_colour(random: &mut Random, strength: f64, (dark, bright): (f64, f64)) -> Colour {
    let hue = random.between(0.0, 6.0);
    let strength = strength * random.unit().sqrt();
    let value = random.between(dark, bright);
    // Each channel is a trapezoid over the hue circle, shifted by a third of it.
    [0.0, 4.0, 2.0].map(|shift| {
        let position = (hue + shift) % 6.0;
        let channel = ((position - 3.0).abs() - 1.0).clamp(0.0, 1.0);
        value * (1.0 - strength * (1.0 - channel))
    })
}

/// Draws a colour that stands out against another by at least `contrast` in brightness.
pub fn colour_against(random: &mut Random, other: Colour, strength: f64, contrast: f64) -> Colour {
    // After a few misses the brightness is simply moved to the far side.
    for _ in 0..8 {
        let colour = any_colour(random, strength, (0.05, 1.0));
        if (brightness(colour) - brightness(other)).abs() >= contrast {
            return colour;
        }
    }
    grey(if brightness(other) > 0.5 { 0.1 } else { 0.9 })
}

/// Smooth noise between 0 and 1 on a lattice of period 16.
#[derive(Clone, Debug)]
pub struct Noise(Vec<f64>);

impl Noise {
    const PERIOD: usize = 16;

    /// Draws the random numbers of the lattice.
    pub fn new(random: &mut Random) -> Self {
        Self((0..Self::PERIOD * Self::PERIOD).map(|_| random.unit()).collect())
    }

    /// The value of the noise at a place; features are about one unit wide.
    pub fn at(&self, x: f64, y: f64) -> f64 {
        let ease = |t: f64| t * t * (3.0 - 2.0 * t);
        let (column, row) = (x.floor(), y.floor());
        let (across, down) = (ease(x - column), ease(y - row));
        let (column, row) = (column as i64, row as i64);
        let upper = self.knot(column, row) * (1.0 - across) + self.knot(column + 1, row) * across;
        let lower = self.knot(column, row + 1) * (1.0 - across) + self.knot(column + 1, row + 1) * across;
        upper * (1.0 - down) + lower * down
    }

    /// The value of noise with detail at three sizes.
    pub fn rough(&self, x: f64, y: f64) -> f64 {
        let finer = 0.28 * self.at(2.0 * x + 5.3, 2.0 * y + 1.7);
        0.57 * self.at(x, y) + finer + 0.15 * self.at(4.0 * x + 2.1, 4.0 * y + 9.4)
    }

    /// The random number of a lattice point, for patterns made of cells.
    pub fn knot(&self, column: i64, row: i64) -> f64 {
        let wrap = |n: i64| n.rem_euclid(Self::PERIOD as i64) as usize;
        self.0[wrap(row) * Self::PERIOD + wrap(column)]
    }
}

fn middle(pixel: usize) -> (f64, f64) {
    ((pixel % SIDE) as f64 + 0.5, (pixel / SIDE) as f64 + 0.5)
}

fn to_byte(value: f64) -> u8 {
    (value * 255.0 + 0.5) as u8 // saturates below 0 and above 255
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use crate::generated::mask::at;

    #[test]
    fn blur_spreads_and_keeps_the_sum() {
        let mut canvas = Canvas::plain(grey(0.0));
        canvas.0[10 * SIDE + 10] = grey(1.0);
        canvas.blur(0.5); // one pass with weight 1/4 each way
        let value = |column: usize, row: usize| canvas.0[row * SIDE + column][0];
        assert_eq!([value(10, 10), value(9, 10), value(9, 9), value(8, 10)], [0.25, 0.125, 0.0625, 0.0]);
        assert!((canvas.0.iter().map(|p| p[0]).sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn paint_blends_by_coverage_and_bytes_round() {
        let mut canvas = Canvas::plain(grey(0.0));
        canvas.paint(
            &Mask::filled(&[at(0.0, 0.0), at(1.5, 0.0), at(1.5, 1.0), at(0.0, 1.0)]),
            [1.0, 2.0, -1.0],
        );
        assert_eq!(canvas.into_rgb().pixels[..9], [255, 255, 0, 128, 255, 0, 0, 0, 0]);
    }

    #[test]
    fn light_runs_from_dark_to_bright() {
        let mut canvas = Canvas::plain(grey(1.0));
        canvas.light(0.0, 0.0, 1.0);
        let row: Vec<f64> = canvas.0[..SIDE].iter().map(|p| p[0]).collect();
        assert_eq!((row[0], row[31]), (0.5 / 32.0, 31.5 / 32.0));
    }

    #[test]
    fn noise_meets_its_knots_and_stays_in_range() {
        let noise = Noise::new(&mut Seed::root(1).random());
        assert_eq!(noise.at(3.0, -2.0), noise.knot(3, 14));
        assert!(
            (0..1000).all(|i| (0.0..=1.0).contains(&noise.rough(f64::from(i) * 0.37, f64::from(i) * -0.11)))
        );
    }

    #[test]
    fn a_colour_stands_out() {
        let mut random = Seed::root(2).random();
        for _ in 0..200 {
            let ground = any_colour(&mut random, 1.0, (0.0, 1.0));
            let ink = colour_against(&mut random, ground, 0.8, 0.3);
            assert!((brightness(ink) - brightness(ground)).abs() >= 0.3);
        }
    }
}
