//! The ten digits as lines of a pen: what `digits` writes by hand and `plates` prints.

use super::mask::{Point, at};
use crate::seed::Random;

/// Names of the ten digits, in label order.
pub const NAMES: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// One line of the pen; a point given twice is a corner.
type PenLine = &'static [Point];
/// One way of writing a digit, as the lines of a pen.
type Glyph = &'static [PenLine];

/// Draws one of the ways in which people write this digit.
pub fn written(label: u32, random: &mut Random) -> Glyph {
    let ways = WRITTEN.get(label as usize).copied().unwrap_or_default();
    random.pick(ways).copied().unwrap_or_default()
}

/// The way in which a machine prints this digit.
pub fn printed(label: u32) -> Glyph {
    WRITTEN.get(label as usize).and_then(|ways| ways.last()).copied().unwrap_or_default()
}

/// The ways of writing each digit; the last of each is the printed one.
const WRITTEN: [&[Glyph]; 10] = [
    &[&[ZERO_OPEN], &[ZERO]],
    &[&[&[at(0.05, -1.0), at(-0.05, 1.0)]], &[ONE, ONE_FOOT], &[ONE]],
    &[&[TWO_LOOP], &[TWO]],
    &[&[THREE_FLAT], &[THREE]],
    &[
        &[&[at(-0.35, -0.9), at(-0.5, 0.1), at(-0.5, 0.1), at(0.55, 0.05)], &[at(0.35, -0.65), at(0.2, 1.0)]],
        &[&[at(0.2, -1.0), at(-0.6, 0.35), at(-0.6, 0.35), at(0.6, 0.35)], &[at(0.25, -1.0), at(0.22, 1.0)]],
    ],
    &[&[FIVE, &[at(-0.35, -0.9), at(0.55, -1.0)]], &[FIVE_FLAT]],
    &[&[SIX_TALL], &[SIX]],
    &[&[SEVEN, &[at(-0.2, 0.0), at(0.45, -0.08)]], &[SEVEN]],
    &[&[EIGHT_TWIST], &[EIGHT_UPPER, EIGHT_LOWER]],
    &[&[NINE_STRAIGHT], &[NINE]],
];

const ZERO: PenLine = &[
    at(0.0, -1.0),
    at(-0.45, -0.65),
    at(-0.58, 0.0),
    at(-0.45, 0.65),
    at(0.0, 1.0),
    at(0.45, 0.65),
    at(0.58, 0.0),
    at(0.45, -0.65),
    at(0.0, -1.0),
];
const ZERO_OPEN: PenLine = &[
    at(0.25, -0.95),
    at(-0.3, -0.85),
    at(-0.6, -0.1),
    at(-0.4, 0.75),
    at(0.1, 0.98),
    at(0.5, 0.45),
    at(0.5, -0.35),
    at(0.2, -0.85),
    at(-0.1, -0.8),
];
const ONE: PenLine = &[at(-0.38, -0.6), at(0.05, -1.0), at(0.05, -1.0), at(0.05, 1.0)];
const ONE_FOOT: PenLine = &[at(-0.4, 1.0), at(0.45, 1.0)];
const TWO: PenLine = &[
    at(-0.5, -0.6),
    at(-0.25, -0.93),
    at(0.25, -0.95),
    at(0.5, -0.55),
    at(0.35, -0.1),
    at(-0.1, 0.45),
    at(-0.55, 0.95),
    at(-0.55, 0.95),
    at(0.58, 0.95),
];
const TWO_LOOP: PenLine = &[
    at(-0.5, -0.65),
    at(-0.1, -0.98),
    at(0.38, -0.75),
    at(0.35, -0.2),
    at(0.0, 0.45),
    at(-0.4, 0.88),
    at(-0.55, 0.68),
    at(-0.25, 0.6),
    at(0.15, 0.85),
    at(0.6, 0.8),
];
const THREE: PenLine = &[
    at(-0.5, -0.75),
    at(-0.1, -1.0),
    at(0.38, -0.82),
    at(0.38, -0.4),
    at(-0.1, -0.07),
    at(-0.1, -0.07),
    at(0.42, 0.15),
    at(0.48, 0.65),
    at(0.05, 1.0),
    at(-0.52, 0.8),
];
const THREE_FLAT: PenLine = &[
    at(-0.5, -0.95),
    at(0.45, -0.95),
    at(0.45, -0.95),
    at(-0.05, -0.2),
    at(-0.05, -0.2),
    at(0.42, 0.05),
    at(0.48, 0.55),
    at(0.05, 0.98),
    at(-0.5, 0.8),
];
const FIVE: PenLine = &[
    at(-0.35, -0.9),
    at(-0.42, -0.15),
    at(-0.42, -0.15),
    at(0.1, -0.25),
    at(0.45, 0.1),
    at(0.4, 0.65),
    at(0.0, 0.98),
    at(-0.5, 0.85),
];
const FIVE_FLAT: PenLine = &[
    at(0.5, -0.95),
    at(-0.38, -0.95),
    at(-0.38, -0.95),
    at(-0.42, -0.15),
    at(-0.42, -0.15),
    at(0.05, -0.3),
    at(0.48, 0.02),
    at(0.46, 0.6),
    at(0.05, 0.97),
    at(-0.5, 0.8),
];
const SIX: PenLine = &[
    at(0.4, -0.93),
    at(-0.1, -0.75),
    at(-0.48, -0.1),
    at(-0.48, 0.6),
    at(0.0, 1.0),
    at(0.47, 0.65),
    at(0.4, 0.2),
    at(0.0, 0.0),
    at(-0.45, 0.3),
];
const SIX_TALL: PenLine = &[
    at(0.1, -1.0),
    at(-0.25, -0.5),
    at(-0.45, 0.2),
    at(-0.35, 0.8),
    at(0.1, 0.97),
    at(0.42, 0.65),
    at(0.25, 0.3),
    at(-0.1, 0.35),
    at(-0.35, 0.7),
];
const SEVEN: PenLine = &[at(-0.55, -0.9), at(0.5, -0.93), at(0.5, -0.93), at(0.1, 0.0), at(-0.15, 1.0)];
const EIGHT_TWIST: PenLine = &[
    at(0.38, -0.7),
    at(0.0, -1.0),
    at(-0.4, -0.7),
    at(-0.2, -0.25),
    at(0.25, 0.1),
    at(0.5, 0.55),
    at(0.0, 1.0),
    at(-0.48, 0.6),
    at(-0.2, 0.1),
    at(0.25, -0.3),
    at(0.4, -0.75),
];
const EIGHT_UPPER: PenLine = &[
    at(0.0, -0.08),
    at(-0.4, -0.3),
    at(-0.38, -0.75),
    at(0.0, -1.0),
    at(0.38, -0.75),
    at(0.4, -0.3),
    at(0.0, -0.08),
];
const EIGHT_LOWER: PenLine = &[
    at(0.0, -0.08),
    at(-0.48, 0.25),
    at(-0.45, 0.75),
    at(0.0, 1.0),
    at(0.45, 0.75),
    at(0.48, 0.25),
    at(0.0, -0.08),
];
const NINE: PenLine = &[
    at(0.45, -0.3),
    at(0.0, 0.0),
    at(-0.4, -0.2),
    at(-0.47, -0.65),
    at(0.0, -1.0),
    at(0.48, -0.6),
    at(0.48, 0.1),
    at(0.1, 0.75),
    at(-0.4, 0.93),
];
const NINE_STRAIGHT: PenLine = &[
    at(0.4, -0.6),
    at(0.1, -0.95),
    at(-0.38, -0.75),
    at(-0.38, -0.3),
    at(0.05, -0.15),
    at(0.4, -0.6),
    at(0.4, -0.6),
    at(0.35, 0.2),
    at(0.2, 1.0),
];
