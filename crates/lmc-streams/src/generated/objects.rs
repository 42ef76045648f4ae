//! `generated-objects`, for CIFAR-10: ten kinds of thing in any colour, on a cluttered ground, partly
//! hidden, near or far, in any light. The hardest family.

use super::canvas::{Canvas, Colour, Noise, any_colour, colour_against, mix};
use super::mask::{Map, Mask, Point, SIDE, at, curve, ellipse, jitter};
use super::parts::{OBJECTS, Part, Shape};
use crate::picture::Picture;
use crate::seed::Random;

/// Class names in label order.
pub const CLASSES: [&str; 10] =
    ["airplane", "boat", "car", "cup", "fish", "flower", "house", "mushroom", "tree", "umbrella"];

/// Draws one object of the class `label`; an unknown label does no harm.
pub fn draw(label: u32, random: &mut Random) -> Picture {
    let (mut canvas, ground) = scenery(random);
    for _ in 0..1 + random.below(4) {
        clutter(&mut canvas, random);
    }

    let middle = SIDE as f64 / 2.0;
    let centre = at(middle + 1.7 * random.normal(), middle + 1.7 * random.normal());
    let size = random.between(10.0, 15.0);
    let facing = if random.chance(0.5) { 1.0 } else { -1.0 };
    let map = Map::new(
        centre,
        (facing * size * random.between(0.8, 1.2), size * random.between(0.85, 1.15)),
        0.14 * random.normal(),
        0.12 * random.normal(),
    );
    let body = colour_against(random, ground, 0.9, 0.2);
    let inks =
        [body, any_colour(random, 0.9, (0.2, 1.0)), mix(body, [0.05; 3], 0.65), mix(body, [1.0; 3], 0.6)];
    let noise = Noise::new(random);
    let (rough, loose) = (random.between(0.05, 0.35), random.between(0.01, 0.05));
    for part in variant(label, random) {
        let ink = inks[part.ink as usize % inks.len()];
        canvas.paint_with(&cover(part, &map, size, loose, random), |x, y| {
            let shade = 1.0 + rough * 2.0 * (noise.rough(x * 0.25, y * 0.25) - 0.5);
            ink.map(|value| value * shade)
        });
    }

    if random.chance(0.3) {
        clutter(&mut canvas, random);
    }
    canvas.light(random.between(0.0, 6.3), random.between(0.5, 1.0), random.between(0.9, 1.2));
    canvas.blur(random.between(0.1, 0.8));
    canvas.contrast(random.between(0.65, 1.05), 0.45);
    canvas.grain(random.between(0.0, 0.03), random);
    canvas.into_rgb()
}

fn variant(label: u32, random: &mut Random) -> &'static [Part] {
    let ways = OBJECTS.get(label as usize).copied().unwrap_or_default();
    random.pick(ways).copied().unwrap_or_default()
}

/// The pixels of one part of an object.
fn cover(part: &Part, map: &Map, size: f64, loose: f64, random: &mut Random) -> Mask {
    match part.shape {
        Shape::Corners(points) => Mask::filled(&map.apply_all(&jitter(points, loose, random))),
        Shape::Round(points) => Mask::filled(&map.apply_all(&curve(&jitter(points, loose, random), true))),
        Shape::Disc(centre, across, down) => Mask::filled(&map.apply_all(&ellipse(centre, across, down))),
        Shape::Line(points, radius) => {
            Mask::stroked(&map.apply_all(&curve(&jitter(points, loose, random), false)), radius * size)
        }
    }
}

/// A ground of two colours, in clouds or with a horizon, and its mean colour.
fn scenery(random: &mut Random) -> (Canvas, Colour) {
    let (a, b) = (any_colour(random, 0.7, (0.2, 1.0)), any_colour(random, 0.7, (0.1, 0.9)));
    let noise = Noise::new(random);
    let scale = random.between(0.05, 0.2);
    let horizon = random.chance(0.5).then(|| random.between(12.0, 26.0));
    let canvas = Canvas::painted(|x, y| {
        let cloud = noise.rough(x * scale, y * scale);
        match horizon {
            Some(level) => {
                let t = (0.5 + (y - level) / 2.0 + 2.0 * (cloud - 0.5)).clamp(0.0, 1.0);
                mix(a, b, t).map(|value| value * (0.8 + 0.4 * cloud))
            }
            None => mix(a, b, ((cloud - 0.5) * 2.5 + 0.5).clamp(0.0, 1.0)),
        }
    });
    (canvas, mix(a, b, 0.5))
}

/// Something that has nothing to do with the object: a stone, a post, a beam, a shred.
fn clutter(canvas: &mut Canvas, random: &mut Random) {
    let side = SIDE as f64;
    let mut place = || at(random.between(-2.0, side + 2.0), random.between(-2.0, side + 2.0));
    let (a, b, c) = (place(), place(), place());
    let mask = match random.below(4) {
        0 => Mask::filled(&ellipse(a, random.between(1.5, 5.0), random.between(1.5, 5.0))),
        1 => Mask::stroked(&[a, b], random.between(0.5, 1.6)),
        2 => Mask::filled(&[a, nearer(a, b), nearer(a, c)]),
        _ => {
            let (wide, high) = (random.between(1.5, 4.5), random.between(1.5, 6.0));
            Mask::filled(&Map::new(a, (wide, high), 0.2 * random.normal(), 0.0).apply_all(&SQUARE))
        }
    };
    canvas.paint(&mask, any_colour(random, 0.8, (0.1, 1.0)));
}

const SQUARE: [Point; 4] = [at(-1.0, -1.0), at(1.0, -1.0), at(1.0, 1.0), at(-1.0, 1.0)];

/// A third of the way, so that shreds stay small.
fn nearer(from: Point, to: Point) -> Point {
    at(from.x + (to.x - from.x) / 3.0, from.y + (to.y - from.y) / 3.0)
}
