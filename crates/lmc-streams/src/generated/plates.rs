//! `generated-plates`, for SVHN: printed house numbers photographed badly; the middle digit counts.

use super::canvas::{Canvas, Noise, any_colour, colour_against, mix};
use super::glyphs;
use super::mask::{Map, Mask, SIDE, at, curve, jitter};
use crate::picture::Picture;
use crate::seed::Random;

/// Class names in label order.
pub const CLASSES: [&str; 10] = glyphs::NAMES;

/// Draws one plate of the class `label`; an unknown label does no harm.
pub fn draw(label: u32, random: &mut Random) -> Picture {
    let wall = any_colour(random, 0.5, (0.15, 0.95));
    let contrast = random.between(0.1, 0.35);
    let ink = colour_against(random, wall, 0.45, contrast);
    let noise = Noise::new(random);
    let (rough, scale) = (random.between(0.0, 0.25), random.between(0.08, 0.4));
    let mut canvas = Canvas::painted(|x, y| {
        let shade = 1.0 + rough * (noise.rough(x * scale, y * scale) - 0.5);
        wall.map(|value| value * shade)
    });

    let type_face = TypeFace::any(random);
    let shadow = mix(wall, [0.0; 3], random.between(0.2, 0.6));
    let with_shadow = random.chance(0.35);
    let mut letters = Mask::empty();
    let mut fallen = Mask::empty();
    for (label, column) in [(random.below(10) as u32, -1.0), (label, 0.0), (random.below(10) as u32, 1.0)] {
        // Numbers have one to three digits: a neighbour may be missing.
        if column != 0.0 && random.chance(0.15) {
            continue;
        }
        type_face.print(&mut letters, label, column, 0.0, random);
        if with_shadow {
            type_face.print(&mut fallen, label, column, 1.4, random);
        }
    }
    canvas.paint(&fallen, shadow);
    canvas.paint(&letters, ink);

    canvas.light(random.between(0.0, 6.3), random.between(0.6, 1.0), random.between(0.85, 1.15));
    canvas.blur(random.between(0.1, 1.8));
    canvas.contrast(random.between(0.5, 1.0), random.between(0.3, 0.6));
    canvas.grain(random.between(0.005, 0.04), random);
    canvas.into_rgb()
}

/// What the digits of one plate have in common.
struct TypeFace {
    map: Map,
    spacing: f64, // from digit to digit, in the units of a glyph
    radius: f64,  // pixels
    worn: f64,
}

impl TypeFace {
    fn any(random: &mut Random) -> Self {
        let middle = SIDE as f64 / 2.0;
        let centre = at(middle + 1.6 * random.normal(), middle + 1.4 * random.normal());
        let height = random.between(7.5, 13.5);
        let size = (height * random.between(0.65, 1.0), height);
        let map = Map::new(centre, size, 0.12 * random.normal(), 0.16 * random.normal());
        Self {
            map,
            spacing: random.between(1.5, 2.0),
            radius: height * random.between(0.09, 0.2),
            worn: random.between(0.0, 0.04),
        }
    }

    fn print(&self, onto: &mut Mask, label: u32, column: f64, fall: f64, random: &mut Random) {
        for line in glyphs::printed(label) {
            let line = curve(&jitter(line, self.worn, random), false);
            let place = |p: &super::mask::Point| {
                let pixel = self.map.apply(at(p.x + column * self.spacing, p.y));
                at(pixel.x + fall, pixel.y + fall)
            };
            onto.stroke(&line.iter().map(place).collect::<Vec<_>>(), self.radius);
        }
    }
}
