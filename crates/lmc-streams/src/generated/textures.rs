//! `generated-textures`, for DTD: ten kinds of surface, any colour, scale, direction and light.

use super::canvas::{Canvas, Noise, any_colour, brightness, colour_against, mix};
use crate::picture::Picture;
use crate::seed::Random;

/// Class names in label order.
pub const CLASSES: [&str; 10] =
    ["banded", "chequered", "dotted", "woven", "wavy", "blotchy", "cracked", "scaly", "meshed", "zigzagged"];

/// Draws one piece of surface of the class `label`; an unknown label does no harm.
pub fn draw(label: u32, random: &mut Random) -> Picture {
    let pale = any_colour(random, 0.8, (0.1, 1.0));
    let contrast = random.between(0.25, 0.5);
    let dark = colour_against(random, pale, 0.8, contrast);
    // Mostly dark figures on a pale ground, as in most photos of surfaces.
    let swap = (brightness(dark) > brightness(pale)) != random.chance(0.2);
    let (ground, ink) = if swap { (dark, pale) } else { (pale, dark) };
    let stain = any_colour(random, 0.6, (0.2, 0.9));
    let surface = Surface::any(random);
    let stained = random.between(0.0, 0.25);
    let mut canvas = Canvas::painted(|x, y| {
        let t = surface.pattern(label, x, y).clamp(0.0, 1.0);
        let patch = stained * surface.noise.at(x * 0.11 + 3.0, y * 0.11);
        mix(mix(ground, ink, t), stain, patch)
    });
    canvas.blur(random.between(0.0, 0.5));
    canvas.light(random.between(0.0, 6.3), random.between(0.6, 1.0), random.between(0.9, 1.15));
    canvas.grain(random.between(0.005, 0.04), random);
    canvas.into_rgb()
}

/// Where the surface lies before the camera, and how it is bent.
struct Surface {
    noise: Noise,
    cell: f64, // pixels per unit of the pattern
    turn: (f64, f64),
    shift: (f64, f64),
    squeeze: f64,
    bend: f64,
    fill: f64, // how much of a cell the figure takes, 0 to 1
    soft: f64, // width of an edge, in units of the pattern
}

impl Surface {
    fn any(random: &mut Random) -> Self {
        let angle = random.between(0.0, std::f64::consts::TAU);
        let cell = random.between(5.0, 9.0);
        Self {
            noise: Noise::new(random),
            cell,
            turn: (libm::cos(angle), libm::sin(angle)),
            shift: (random.between(0.0, 16.0), random.between(0.0, 16.0)),
            squeeze: random.between(0.75, 1.35),
            bend: random.between(0.0, 0.5),
            fill: random.between(0.2, 0.8),
            soft: random.between(0.8, 2.0) / cell,
        }
    }

    /// How much ink lies at a pixel, 0 to 1.
    fn pattern(&self, label: u32, x: f64, y: f64) -> f64 {
        let (x, y) = (x / self.cell, y / self.cell);
        let bend = |at: f64| self.bend * (self.noise.at(x * 0.45 + at, y * 0.45 + at) - 0.5);
        let (x, y) = (x + bend(1.0), y + bend(8.0));
        let (cos, sin) = self.turn;
        let u = (x * cos + y * sin) * self.squeeze + self.shift.0;
        let v = (y * cos - x * sin) / self.squeeze + self.shift.1;
        match label {
            0 => self.edge(self.fill * 0.5 - wave(u)),
            1 => {
                let (a, b) = (wave(u * 0.5) - 0.25, wave(v * 0.5) - 0.25);
                self.edge(if a * b > 0.0 { a.abs().min(b.abs()) } else { -a.abs().min(b.abs()) } * 2.0)
            }
            2 => {
                // Every other row is moved by half a cell.
                let row = v.floor();
                let (a, b) = ((u + 0.5 * (row % 2.0)).rem_euclid(1.0) - 0.5, v - row - 0.5);
                self.edge(0.16 + 0.22 * self.fill - (a * a + b * b).sqrt())
            }
            3 => self.woven(u, v),
            4 => {
                let swing = 0.45 * libm::sin(v * 2.4);
                self.edge(self.fill * 0.4 + 0.05 - wave(u + swing))
            }
            5 => self.edge((self.noise.rough(u * 0.9, v * 0.9) - 0.62 + 0.25 * self.fill) * 2.0),
            6 => {
                let (near, next) = self.cells(u, v);
                self.edge(0.04 + 0.12 * self.fill - (next - near))
            }
            7 => self.scaly(u * 0.65, v * 0.65),
            8 => self.edge(0.07 + 0.1 * self.fill - wave(u).min(wave(v))),
            _ => {
                let swing = 2.0 * wave(v * 0.6);
                self.edge(self.fill * 0.4 + 0.05 - wave(u + swing))
            }
        }
    }

    /// A soft step: ink where `inside` is positive.
    fn edge(&self, inside: f64) -> f64 {
        (0.5 + inside / self.soft).clamp(0.0, 1.0)
    }

    /// Two sets of bands that pass over and under each other.
    fn woven(&self, u: f64, v: f64) -> f64 {
        let over = (u.floor() + v.floor()).rem_euclid(2.0) < 0.5;
        let (across, along) = if over { (u, v) } else { (v, u) };
        let off = (across - across.floor() - 0.5).abs();
        let dip = (along - along.floor() - 0.5).abs();
        // Rounded bands, darker at their rims, one direction lighter than the other.
        let body = if over { 0.95 } else { 0.55 };
        body * (1.0 - 1.1 * off * off - 1.1 * dip * dip) * self.edge(0.3 + 0.15 * self.fill - off)
    }

    /// Rows of round scales, each hanging over the row below it.
    fn scaly(&self, u: f64, v: f64) -> f64 {
        const RADIUS: f64 = 0.54;
        let row = (v * 2.0).floor();
        for centre in [row, row + 1.0] {
            let a = (u + 0.5 * centre.rem_euclid(2.0)).rem_euclid(1.0) - 0.5;
            let b = v - centre * 0.5;
            let distance = (a * a + b * b).sqrt();
            if distance < RADIUS {
                let rim = self.edge(distance - RADIUS + 0.09);
                return (0.5 * (1.0 - distance / RADIUS) * self.fill).max(rim);
            }
        }
        1.0
    }

    /// Distances to the nearest and the second nearest of points scattered one per cell.
    fn cells(&self, u: f64, v: f64) -> (f64, f64) {
        let (column, row) = (u.floor() as i64, v.floor() as i64);
        let (mut near, mut next) = (9.0_f64, 9.0_f64);
        for (i, j) in (-1..=1).flat_map(|i| (-1..=1).map(move |j| (i, j))) {
            let (c, r) = (column + i, row + j);
            let a = c as f64 + self.noise.knot(c, r) - u;
            let b = r as f64 + self.noise.knot(c + 7, r + 5) - v;
            let distance = (a * a + b * b).sqrt();
            next = next.min(near.max(distance));
            near = near.min(distance);
        }
        (near, next)
    }
}

/// Distance to the nearest whole number: a triangle wave from 0 to a half.
fn wave(t: f64) -> f64 {
    (t - t.round()).abs()
}
