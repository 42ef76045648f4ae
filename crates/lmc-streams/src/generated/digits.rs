//! `generated-digits`, for MNIST: the ten digits written by hand, white on black.

use super::canvas::{Canvas, grey};
use super::glyphs;
use super::mask::{Map, Mask, SIDE, at, curve, jitter};
use crate::picture::Picture;
use crate::seed::Random;

/// Class names in label order.
pub const CLASSES: [&str; 10] = glyphs::NAMES;

/// Draws one digit of the class `label`; an unknown label does no harm.
pub fn draw(label: u32, random: &mut Random) -> Picture {
    let lines = glyphs::written(label, random);
    let middle = SIDE as f64 / 2.0;
    let centre = at(middle + 1.5 * random.normal(), middle + 1.5 * random.normal());
    let height = random.between(7.0, 11.5);
    let size = (height * random.between(0.7, 1.25), height);
    let map = Map::new(centre, size, 0.18 * random.normal(), -0.1 + 0.28 * random.normal());
    let unsteady = random.between(0.03, 0.13);
    let radius = random.between(0.7, 1.9);
    let mut ink = Mask::empty();
    for line in lines {
        ink.stroke(&map.apply_all(&curve(&jitter(line, unsteady, random), false)), radius);
    }
    let mut canvas = Canvas::plain(grey(0.0));
    canvas.paint(&ink, grey(random.between(0.8, 1.0)));
    canvas.blur(random.between(0.0, 0.4));
    canvas.into_grey()
}
