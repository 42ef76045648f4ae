//! What the things of `objects` are made of, back to front, in the unit box (-1..1, y down).

use super::mask::{Point, at};

/// One part of a thing that is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The form of the part.
    pub shape: Shape,
    /// The colour of the part.
    pub ink: Ink,
}

/// Which of the colours of a thing: chosen anew for every image.
#[derive(Clone, Copy, Debug)]
pub enum Ink {
    /// The main colour of the thing.
    Body,
    /// A second colour of the thing.
    Trim,
    /// The main colour of the thing in shadow.
    Dark,
    /// The main colour of the thing, paler.
    Pale,
}

/// The form of a part, in the unit box of the thing.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// A polygon through these corners.
    Corners(&'static [Point]),
    /// A closed smooth curve through these points.
    Round(&'static [Point]),
    /// An ellipse with this centre and these half axes.
    Disc(Point, f64, f64),
    /// A smooth line through these points, of this radius.
    Line(&'static [Point], f64),
}

/// The objects of the ten classes, each in several variants of several parts.
pub const OBJECTS: [&[&[Part]]; 10] = [
    &[AIRPLANE_ABOVE, AIRPLANE_SIDE],
    &[SAIL, STEAMER],
    &[CAR, VAN],
    &[MUG, GOBLET],
    &[FISH, FISH_LONG],
    &[DAISY, TULIP],
    &[HOUSE, TOWER],
    &[MUSHROOM, MUSHROOM_FLAT],
    &[LEAFY, CONIFER],
    &[UMBRELLA, PARASOL],
];

const fn corners(ink: Ink, points: &'static [Point]) -> Part {
    Part { shape: Shape::Corners(points), ink }
}

const fn round(ink: Ink, points: &'static [Point]) -> Part {
    Part { shape: Shape::Round(points), ink }
}

const fn disc(ink: Ink, x: f64, y: f64, across: f64, down: f64) -> Part {
    Part { shape: Shape::Disc(at(x, y), across, down), ink }
}

const fn line(ink: Ink, points: &'static [Point], radius: f64) -> Part {
    Part { shape: Shape::Line(points, radius), ink }
}

const AIRPLANE_ABOVE: &[Part] = &[
    corners(
        Ink::Pale,
        &[at(0.2, 0.0), at(-0.25, -1.0), at(-0.5, -1.0), at(-0.3, 0.0), at(-0.5, 1.0), at(-0.25, 1.0)],
    ),
    corners(
        Ink::Pale,
        &[at(-0.65, 0.0), at(-0.85, -0.4), at(-1.0, -0.4), at(-0.9, 0.0), at(-1.0, 0.4), at(-0.85, 0.4)],
    ),
    round(
        Ink::Body,
        &[
            at(1.0, 0.0),
            at(0.7, -0.16),
            at(-0.5, -0.13),
            at(-1.0, -0.05),
            at(-1.0, 0.05),
            at(-0.5, 0.13),
            at(0.7, 0.16),
        ],
    ),
    disc(Ink::Trim, 0.75, 0.0, 0.1, 0.08),
];
const AIRPLANE_SIDE: &[Part] = &[
    corners(Ink::Trim, &[at(-0.95, -0.65), at(-0.7, -0.65), at(-0.45, -0.1), at(-0.9, -0.1)]),
    round(
        Ink::Body,
        &[
            at(1.0, 0.05),
            at(0.75, -0.15),
            at(-0.4, -0.18),
            at(-1.0, -0.12),
            at(-0.9, 0.05),
            at(-0.3, 0.2),
            at(0.75, 0.2),
        ],
    ),
    corners(Ink::Dark, &[at(0.3, 0.05), at(-0.45, 0.6), at(-0.65, 0.6), at(-0.1, 0.05)]),
    line(Ink::Dark, &[at(-0.35, -0.05), at(0.6, -0.03)], 0.04),
];
const SAIL: &[Part] = &[
    line(Ink::Dark, &[at(0.05, -1.0), at(0.05, 0.5)], 0.05),
    corners(Ink::Pale, &[at(0.12, -0.95), at(0.8, 0.3), at(0.12, 0.3)]),
    corners(Ink::Trim, &[at(-0.02, -0.8), at(-0.02, 0.3), at(-0.65, 0.3)]),
    corners(Ink::Body, &[at(-0.9, 0.42), at(0.95, 0.42), at(0.6, 0.85), at(-0.6, 0.85)]),
];
const STEAMER: &[Part] = &[
    corners(Ink::Trim, &[at(-0.15, -0.8), at(0.15, -0.8), at(0.15, -0.1), at(-0.15, -0.1)]),
    corners(Ink::Trim, &[at(0.25, -0.6), at(0.45, -0.6), at(0.45, -0.1), at(0.25, -0.1)]),
    corners(Ink::Pale, &[at(-0.5, -0.2), at(0.6, -0.2), at(0.6, 0.25), at(-0.5, 0.25)]),
    corners(Ink::Body, &[at(-1.0, 0.2), at(1.0, 0.15), at(0.75, 0.75), at(-0.75, 0.75)]),
    line(Ink::Dark, &[at(-0.4, 0.02), at(0.5, 0.02)], 0.05),
];
const CAR: &[Part] = &[
    corners(Ink::Body, &[at(-0.5, 0.05), at(-0.3, -0.4), at(0.3, -0.4), at(0.6, 0.05)]),
    corners(Ink::Pale, &[at(-0.35, 0.0), at(-0.2, -0.3), at(0.22, -0.3), at(0.42, 0.0)]),
    round(
        Ink::Body,
        &[
            at(-1.0, 0.1),
            at(-0.4, -0.02),
            at(0.6, -0.02),
            at(1.0, 0.15),
            at(1.0, 0.45),
            at(0.0, 0.5),
            at(-1.0, 0.45),
        ],
    ),
    disc(Ink::Dark, -0.55, 0.47, 0.24, 0.24),
    disc(Ink::Dark, 0.55, 0.47, 0.24, 0.24),
    disc(Ink::Trim, -0.55, 0.47, 0.1, 0.1),
    disc(Ink::Trim, 0.55, 0.47, 0.1, 0.1),
];
const VAN: &[Part] = &[
    corners(Ink::Body, &[at(-0.95, -0.5), at(0.5, -0.5), at(0.95, 0.0), at(0.95, 0.45), at(-0.95, 0.45)]),
    corners(Ink::Pale, &[at(0.15, -0.38), at(0.45, -0.38), at(0.7, -0.02), at(0.15, -0.02)]),
    corners(Ink::Pale, &[at(-0.75, -0.38), at(0.0, -0.38), at(0.0, -0.02), at(-0.75, -0.02)]),
    disc(Ink::Dark, -0.5, 0.47, 0.24, 0.24),
    disc(Ink::Dark, 0.55, 0.47, 0.24, 0.24),
];
const MUG: &[Part] = &[
    line(Ink::Body, &[at(0.4, -0.45), at(0.85, -0.4), at(0.85, 0.3), at(0.4, 0.4)], 0.1),
    corners(Ink::Body, &[at(-0.65, -0.7), at(0.5, -0.7), at(0.45, 0.75), at(-0.6, 0.75)]),
    disc(Ink::Body, -0.07, 0.75, 0.52, 0.12),
    disc(Ink::Dark, -0.07, -0.7, 0.55, 0.15),
    line(Ink::Trim, &[at(-0.62, 0.1), at(0.46, 0.1)], 0.12),
];
const GOBLET: &[Part] = &[
    line(Ink::Body, &[at(0.35, -0.3), at(0.9, -0.35), at(0.75, 0.15), at(0.3, 0.15)], 0.08),
    round(
        Ink::Body,
        &[
            at(-0.8, -0.5),
            at(-0.8, -0.5),
            at(-0.6, 0.2),
            at(-0.15, 0.5),
            at(0.15, 0.5),
            at(0.45, 0.2),
            at(0.6, -0.5),
            at(0.6, -0.5),
        ],
    ),
    disc(Ink::Dark, -0.1, -0.5, 0.7, 0.16),
    disc(Ink::Pale, 0.0, 0.65, 0.9, 0.14),
];
const FISH: &[Part] = &[
    corners(Ink::Trim, &[at(-0.5, 0.0), at(-1.0, -0.5), at(-0.85, 0.0), at(-1.0, 0.5)]),
    corners(Ink::Trim, &[at(-0.2, -0.35), at(0.05, -0.75), at(0.4, -0.35)]),
    round(
        Ink::Body,
        &[
            at(1.0, 0.0),
            at(0.6, -0.42),
            at(0.0, -0.5),
            at(-0.6, -0.1),
            at(-0.6, 0.1),
            at(0.0, 0.5),
            at(0.6, 0.42),
        ],
    ),
    corners(Ink::Pale, &[at(0.15, 0.05), at(-0.2, 0.3), at(-0.15, 0.0)]),
    disc(Ink::Dark, 0.65, -0.1, 0.1, 0.1),
];
const FISH_LONG: &[Part] = &[
    corners(Ink::Body, &[at(-0.6, 0.0), at(-1.0, -0.4), at(-1.0, 0.4)]),
    corners(Ink::Dark, &[at(-0.3, -0.2), at(-0.1, -0.55), at(0.15, -0.2)]),
    corners(Ink::Dark, &[at(0.0, 0.2), at(-0.2, 0.5), at(0.3, 0.2)]),
    round(
        Ink::Body,
        &[at(1.0, 0.05), at(0.5, -0.27), at(-0.3, -0.25), at(-0.75, 0.0), at(-0.3, 0.25), at(0.5, 0.27)],
    ),
    line(Ink::Trim, &[at(-0.6, 0.0), at(0.4, 0.0)], 0.07),
    disc(Ink::Pale, 0.68, -0.05, 0.1, 0.1),
];
const DAISY: &[Part] = &[
    line(Ink::Trim, &[at(0.0, 0.0), at(0.08, 0.5), at(0.0, 1.0)], 0.07),
    disc(Ink::Body, 0.0, -0.72, 0.2, 0.3),
    disc(Ink::Body, 0.0, 0.08, 0.2, 0.3),
    disc(Ink::Body, -0.4, -0.32, 0.3, 0.2),
    disc(Ink::Body, 0.4, -0.32, 0.3, 0.2),
    disc(Ink::Pale, -0.28, -0.6, 0.21, 0.21),
    disc(Ink::Pale, 0.28, -0.6, 0.21, 0.21),
    disc(Ink::Pale, -0.28, -0.04, 0.21, 0.21),
    disc(Ink::Pale, 0.28, -0.04, 0.21, 0.21),
    disc(Ink::Dark, 0.0, -0.32, 0.2, 0.2),
];
const TULIP: &[Part] = &[
    line(Ink::Trim, &[at(0.0, 0.0), at(-0.05, 0.5), at(0.0, 1.0)], 0.07),
    round(Ink::Trim, &[at(0.0, 0.85), at(0.25, 0.4), at(0.55, 0.2), at(0.4, 0.6)]),
    round(Ink::Trim, &[at(0.0, 0.9), at(-0.3, 0.5), at(-0.5, 0.35), at(-0.35, 0.7)]),
    corners(
        Ink::Body,
        &[
            at(-0.5, -0.85),
            at(-0.22, -0.45),
            at(0.0, -0.95),
            at(0.22, -0.45),
            at(0.5, -0.85),
            at(0.48, -0.15),
            at(0.0, 0.15),
            at(-0.48, -0.15),
        ],
    ),
    line(Ink::Dark, &[at(-0.2, -0.4), at(0.0, 0.1), at(0.2, -0.4)], 0.04),
];
const HOUSE: &[Part] = &[
    corners(Ink::Trim, &[at(0.35, -0.85), at(0.58, -0.85), at(0.58, -0.2), at(0.35, -0.2)]),
    corners(Ink::Body, &[at(-0.75, -0.15), at(0.75, -0.15), at(0.75, 0.85), at(-0.75, 0.85)]),
    corners(Ink::Trim, &[at(-1.0, -0.1), at(0.0, -0.9), at(1.0, -0.1)]),
    corners(Ink::Dark, &[at(-0.18, 0.3), at(0.18, 0.3), at(0.18, 0.85), at(-0.18, 0.85)]),
    corners(Ink::Pale, &[at(-0.6, 0.1), at(-0.32, 0.1), at(-0.32, 0.4), at(-0.6, 0.4)]),
    corners(Ink::Pale, &[at(0.32, 0.1), at(0.6, 0.1), at(0.6, 0.4), at(0.32, 0.4)]),
];
const TOWER: &[Part] = &[
    corners(Ink::Body, &[at(-0.45, -0.45), at(0.45, -0.45), at(0.45, 0.95), at(-0.45, 0.95)]),
    corners(Ink::Trim, &[at(-0.6, -0.4), at(0.0, -1.0), at(0.6, -0.4)]),
    corners(Ink::Pale, &[at(-0.3, -0.25), at(-0.08, -0.25), at(-0.08, 0.05), at(-0.3, 0.05)]),
    corners(Ink::Pale, &[at(0.08, -0.25), at(0.3, -0.25), at(0.3, 0.05), at(0.08, 0.05)]),
    corners(Ink::Dark, &[at(-0.15, 0.45), at(0.15, 0.45), at(0.15, 0.95), at(-0.15, 0.95)]),
];
const MUSHROOM: &[Part] = &[
    corners(Ink::Pale, &[at(-0.22, -0.1), at(0.22, -0.1), at(0.3, 0.9), at(-0.3, 0.9)]),
    round(
        Ink::Body,
        &[at(-0.95, 0.05), at(-0.7, -0.6), at(0.0, -0.95), at(0.7, -0.6), at(0.95, 0.05), at(0.0, 0.1)],
    ),
    disc(Ink::Trim, -0.4, -0.35, 0.16, 0.14),
    disc(Ink::Trim, 0.1, -0.6, 0.16, 0.14),
    disc(Ink::Trim, 0.45, -0.2, 0.16, 0.14),
];
const MUSHROOM_FLAT: &[Part] = &[
    line(Ink::Pale, &[at(0.05, -0.2), at(-0.05, 0.3), at(0.0, 0.9)], 0.15),
    disc(Ink::Dark, 0.0, -0.22, 0.75, 0.16),
    round(
        Ink::Body,
        &[at(-0.95, -0.25), at(-0.5, -0.65), at(0.0, -0.75), at(0.5, -0.65), at(0.95, -0.25), at(0.0, -0.3)],
    ),
];
const LEAFY: &[Part] = &[
    corners(Ink::Trim, &[at(-0.13, 0.1), at(0.13, 0.1), at(0.18, 1.0), at(-0.18, 1.0)]),
    disc(Ink::Dark, -0.38, -0.1, 0.42, 0.38),
    disc(Ink::Body, 0.38, -0.12, 0.42, 0.38),
    disc(Ink::Body, 0.0, -0.5, 0.5, 0.45),
    disc(Ink::Pale, 0.15, -0.6, 0.2, 0.16),
];
const CONIFER: &[Part] = &[
    corners(Ink::Trim, &[at(-0.1, 0.6), at(0.1, 0.6), at(0.1, 1.0), at(-0.1, 1.0)]),
    corners(Ink::Dark, &[at(0.0, -0.2), at(0.65, 0.7), at(-0.65, 0.7)]),
    corners(Ink::Body, &[at(0.0, -0.65), at(0.52, 0.25), at(-0.52, 0.25)]),
    corners(Ink::Body, &[at(0.0, -1.0), at(0.38, -0.25), at(-0.38, -0.25)]),
];
const UMBRELLA: &[Part] = &[
    line(Ink::Dark, &[at(0.0, -0.8), at(0.0, 0.7), at(0.1, 0.92), at(0.3, 0.85), at(0.32, 0.7)], 0.05),
    corners(
        Ink::Body,
        &[
            at(-0.98, 0.0),
            at(-0.8, -0.45),
            at(-0.4, -0.75),
            at(0.0, -0.85),
            at(0.4, -0.75),
            at(0.8, -0.45),
            at(0.98, 0.0),
            at(0.65, -0.12),
            at(0.33, 0.0),
            at(0.0, -0.12),
            at(-0.33, 0.0),
            at(-0.65, -0.12),
        ],
    ),
    corners(Ink::Trim, &[at(0.0, -0.85), at(-0.33, 0.0), at(0.0, -0.12), at(0.33, 0.0)]),
];
const PARASOL: &[Part] = &[
    line(Ink::Trim, &[at(0.0, -0.9), at(0.0, 1.0)], 0.05),
    corners(Ink::Body, &[at(-1.0, -0.2), at(0.0, -0.85), at(1.0, -0.2)]),
    corners(Ink::Pale, &[at(-0.35, -0.2), at(0.0, -0.85), at(0.35, -0.2)]),
];
