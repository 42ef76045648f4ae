//! Where ink goes: points, affine maps, smooth curves, and anti-aliased coverage.
//!
//! Only `+ - * /`, `sqrt` and the crate `libm`: these give the same bits on every machine, which the
//! mathematics of the platform does not.

use crate::seed::Random;

/// Every generated image is a square of this side.
pub const SIDE: usize = 32;

/// A point: in pixels on a mask, in the unit box (-1..1, y down) in a drawing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Distance to the right.
    pub x: f64,
    /// Distance downwards.
    pub y: f64,
}

/// Makes a point; a short name, because outlines are made of many.
pub const fn at(x: f64, y: f64) -> Point {
    Point { x, y }
}

/// An affine map from the unit box of a drawing to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    across: Point,
    down: Point,
    centre: Point,
}

impl Map {
    /// Slants, scales and turns (radians, clockwise) the drawing, then puts its middle on `centre`.
    pub fn new(centre: Point, (width, height): (f64, f64), turn: f64, slant: f64) -> Self {
        let (sin, cos) = (libm::sin(turn), libm::cos(turn));
        let across = at(cos * width, sin * width);
        let down = at(-sin * height + slant * across.x, cos * height + slant * across.y);
        Self { across, down, centre }
    }

    /// Maps a point of the drawing to pixels.
    pub fn apply(&self, p: Point) -> Point {
        at(
            self.centre.x + self.across.x * p.x + self.down.x * p.y,
            self.centre.y + self.across.y * p.x + self.down.y * p.y,
        )
    }

    /// Maps many points of the drawing to pixels.
    pub fn apply_all(&self, points: &[Point]) -> Vec<Point> {
        points.iter().map(|&p| self.apply(p)).collect()
    }
}

/// Moves every point a little: no two hands draw the same line.
pub fn jitter(points: &[Point], amount: f64, random: &mut Random) -> Vec<Point> {
    points.iter().map(|p| at(p.x + amount * random.normal(), p.y + amount * random.normal())).collect()
}

/// A Catmull-Rom curve through the points; a point given twice is a corner.
pub fn curve(points: &[Point], closed: bool) -> Vec<Point> {
    const STEPS: usize = 4;
    let n = points.len();
    if n < 3 {
        return points.to_vec();
    }
    let point = |i: usize| {
        // `i` counts from one before the first point.
        if closed { points[(i + n - 1) % n] } else { points[i.saturating_sub(1).min(n - 1)] }
    };
    let pieces = if closed { n } else { n - 1 };
    let mut result = Vec::with_capacity(pieces * STEPS + 1);
    for piece in 0..pieces {
        let [a, b, c, d] = [point(piece), point(piece + 1), point(piece + 2), point(piece + 3)];
        for step in 0..STEPS {
            let t = step as f64 / STEPS as f64;
            let mix = |a: f64, b: f64, c: f64, d: f64| {
                b + 0.5 * t * (c - a + t * (2.0 * a - 5.0 * b + 4.0 * c - d + t * (3.0 * (b - c) + d - a)))
            };
            result.push(at(mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y)));
        }
    }
    if !closed {
        result.push(points[n - 1]);
    }
    result
}

/// The outline of an ellipse, as points.
pub fn ellipse(centre: Point, across: f64, down: f64) -> Vec<Point> {
    const POINTS: usize = 16;
    (0..POINTS)
        .map(|i| {
            let angle = std::f64::consts::TAU * i as f64 / POINTS as f64;
            at(centre.x + across * libm::cos(angle), centre.y + down * libm::sin(angle))
        })
        .collect()
}

/// How much of each pixel is covered, 0 to 1.
#[derive(Clone, Debug)]
pub struct Mask(Vec<f64>);

impl Mask {
    /// Makes a mask that covers nothing.
    pub fn empty() -> Self {
        Self(vec![0.0; SIDE * SIDE])
    }

    /// Covers the inside of a closed outline (even-odd rule), in pixels.
    pub fn filled(outline: &[Point]) -> Self {
        const SLICES: usize = 4; // per pixel row; exact across
        let mut mask = Self::empty();
        let mut crossings: Vec<f64> = Vec::new();
        let top = outline.iter().fold(f64::INFINITY, |top, p| top.min(p.y));
        let bottom = outline.iter().fold(f64::NEG_INFINITY, |bottom, p| bottom.max(p.y));
        let rows = pixels(top, bottom);
        for slice in rows.start * SLICES..rows.end * SLICES {
            let y = (slice as f64 + 0.5) / SLICES as f64;
            crossings.clear();
            for (i, &a) in outline.iter().enumerate() {
                let b = outline[(i + 1) % outline.len()];
                if (a.y <= y) != (b.y <= y) {
                    crossings.push(a.x + (y - a.y) * (b.x - a.x) / (b.y - a.y));
                }
            }
            crossings.sort_unstable_by(f64::total_cmp);
            for pair in crossings.chunks_exact(2) {
                mask.cover(slice / SLICES, pair[0], pair[1], 1.0 / SLICES as f64);
            }
        }
        mask
    }

    /// Covers a line through the points with round ends, in pixels.
    pub fn stroked(line: &[Point], radius: f64) -> Self {
        let mut mask = Self::empty();
        mask.stroke(line, radius);
        mask
    }

    /// Covers a line through the points with round ends, in pixels, too.
    pub fn stroke(&mut self, line: &[Point], radius: f64) {
        let reach = radius + 1.0;
        for pair in line.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let along = at(b.x - a.x, b.y - a.y);
            let length = (along.x * along.x + along.y * along.y).max(1e-12);
            // Only pixels near this piece of the line: most are far from it.
            for row in pixels(a.y.min(b.y) - reach, a.y.max(b.y) + reach) {
                for column in pixels(a.x.min(b.x) - reach, a.x.max(b.x) + reach) {
                    let from = at(column as f64 + 0.5 - a.x, row as f64 + 0.5 - a.y);
                    let t = ((from.x * along.x + from.y * along.y) / length).clamp(0.0, 1.0);
                    let off = at(from.x - t * along.x, from.y - t * along.y);
                    let distance = (off.x * off.x + off.y * off.y).sqrt();
                    let covered = (radius + 0.5 - distance).clamp(0.0, 1.0);
                    let pixel = &mut self.0[row * SIDE + column];
                    *pixel = pixel.max(covered);
                }
            }
        }
    }

    /// Coverage of every pixel, row by row.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    fn cover(&mut self, row: usize, from: f64, to: f64, weight: f64) {
        for column in pixels(from, to) {
            let left = from.max(column as f64);
            let right = to.min(column as f64 + 1.0);
            self.0[row * SIDE + column] += weight * (right - left).max(0.0);
        }
    }
}

/// The pixels that the span touches, inside the image.
fn pixels(from: f64, to: f64) -> std::ops::Range<usize> {
    let limit = SIDE as f64;
    (from.clamp(0.0, limit).floor() as usize)..(to.clamp(0.0, limit).ceil() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rectangle_covers_its_area() {
        // From (2.5, 3) to (5, 4.5): columns 2 (half), 3, 4; row 3 whole, row 4 half.
        let mask = Mask::filled(&[at(2.5, 3.0), at(5.0, 3.0), at(5.0, 4.5), at(2.5, 4.5)]);
        let pixel = |column: usize, row: usize| mask.values()[row * SIDE + column];
        assert_eq!([pixel(2, 3), pixel(3, 3), pixel(4, 3), pixel(5, 3)], [0.5, 1.0, 1.0, 0.0]);
        assert_eq!([pixel(2, 4), pixel(3, 4)], [0.25, 0.5]);
        assert_eq!(mask.values().iter().sum::<f64>(), 2.5 * 1.5);
    }

    #[test]
    fn a_stroke_is_as_wide_as_asked() {
        // A horizontal line through pixel centres with radius 1: three rows whole, nothing beyond 1.5.
        let mask = Mask::stroked(&[at(8.0, 10.5), at(24.0, 10.5)], 1.0);
        let column: Vec<f64> = (8..14).map(|row| mask.values()[row * SIDE + 16]).collect();
        assert_eq!(column, [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]);
    }

    #[test]
    fn a_quarter_turn_maps_right_to_down() {
        let map = Map::new(at(16.0, 16.0), (10.0, 5.0), std::f64::consts::FRAC_PI_2, 0.0);
        let p = map.apply(at(1.0, 0.0));
        assert!((p.x - 16.0).abs() < 1e-9 && (p.y - 26.0).abs() < 1e-9, "{p:?}");
    }

    #[test]
    fn a_curve_passes_through_its_points() {
        let points = [at(0.0, 0.0), at(1.0, 2.0), at(3.0, 1.0)];
        let line = curve(&points, false);
        assert_eq!((line[0], line[4], line[8], line.len()), (points[0], points[1], points[2], 9));
        assert_eq!(curve(&points, true).len(), 12);
    }

    proptest! {
        #[test]
        fn coverage_stays_in_range(points in prop::collection::vec((-50.0..80.0, -50.0..80.0), 1..9)) {
            let points: Vec<Point> = points.into_iter().map(|(x, y)| at(x, y)).collect();
            let mut mask = Mask::filled(&points);
            mask.stroke(&points, 1.5);
            prop_assert!(mask.values().iter().all(|v| (0.0..=1.0 + 1e-9).contains(v)));
        }
    }
}
