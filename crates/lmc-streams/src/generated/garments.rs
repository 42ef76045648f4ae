//! `generated-garments`, for Fashion-MNIST: clothes laid out on black, in grey, with cloth and light.

use super::canvas::{Canvas, Colour, Noise, grey};
use super::mask::{Map, Mask, Point, SIDE, at, curve, ellipse, jitter};
use crate::picture::Picture;
use crate::seed::Random;

/// Class names in label order.
pub const CLASSES: [&str; 10] =
    ["t-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"];

/// Draws one garment of the class `label`; an unknown label does no harm.
pub fn draw(label: u32, random: &mut Random) -> Picture {
    let middle = SIDE as f64 / 2.0;
    let centre = at(middle + 1.0 * random.normal(), middle + 1.0 * random.normal());
    let size = (random.between(10.5, 15.5), random.between(11.0, 15.5));
    let map = Map::new(centre, size, 0.08 * random.normal(), 0.08 * random.normal());
    let mut work = Work { map, cloth: Cloth::any(random), canvas: Canvas::plain(grey(0.0)) };
    match label {
        0 => work.top(&Cut { sleeve: (0.3, 0.8), length: (0.65, 1.0), ..Cut::any(random) }, random),
        1 => work.trousers(random),
        2 => work.top(&Cut { sleeve: (1.0, 1.6), cuffs: true, ..Cut::any(random) }, random),
        3 => work.dress(random),
        4 => {
            let length = (0.75, 1.0);
            work.top(
                &Cut { sleeve: (1.25, 1.6), length, open: true, collar: true, ..Cut::any(random) },
                random,
            );
        }
        5 => work.sandal(random),
        6 => {
            let sleeve = if random.chance(0.6) { (1.0, 1.6) } else { (0.3, 0.8) };
            work.top(&Cut { sleeve, buttons: true, collar: true, ..Cut::any(random) }, random);
        }
        7 => work.sneaker(random),
        8 => work.bag(random),
        _ => work.boot(random),
    }
    let mut canvas = work.canvas;
    canvas.light(random.between(0.0, 6.3), random.between(0.6, 0.95), 1.0);
    canvas.blur(random.between(0.1, 0.45));
    canvas.into_grey()
}

/// How a top is cut; the ranges are drawn from per image.
struct Cut {
    sleeve: (f64, f64),
    length: (f64, f64),
    open: bool,
    buttons: bool,
    collar: bool,
    cuffs: bool,
}

impl Cut {
    fn any(random: &mut Random) -> Self {
        let collar = random.chance(0.35);
        Self { sleeve: (0.5, 1.0), length: (0.7, 0.95), open: false, buttons: false, collar, cuffs: false }
    }
}

/// How the cloth looks: tone, print and folds.
struct Cloth {
    tone: f64,
    second: f64,
    print: usize,
    pitch: f64,
    noise: Noise,
    folds: f64,
}

impl Cloth {
    fn any(random: &mut Random) -> Self {
        Self {
            tone: random.between(0.3, 0.95),
            second: random.between(0.1, 1.0),
            print: random.below(8),
            pitch: random.between(2.5, 5.0),
            noise: Noise::new(random),
            folds: random.between(0.05, 0.4),
        }
    }

    fn colour(&self, x: f64, y: f64) -> Colour {
        let band = |t: f64| (t / self.pitch).rem_euclid(1.0) < 0.5;
        let second = match self.print {
            0 => band(y),
            1 => band(x),
            2 => band(x) != band(y),
            3 => (x - 16.0).abs() < 4.5 && (y - 14.0).abs() < 3.5 && self.noise.at(x * 0.6, y * 0.6) > 0.45,
            4 => self.noise.at(x * 0.45, y * 0.45) > 0.55,
            _ => false,
        };
        let tone = if second { 0.5 * (self.tone + self.second) } else { self.tone };
        // Folds run mostly down the cloth.
        grey(
            (tone * (1.0 + self.folds * (self.noise.rough(x * 0.35, y * 0.12) - 0.5) * 2.0)).clamp(0.08, 1.0),
        )
    }
}

/// One garment while it is made.
struct Work {
    map: Map,
    cloth: Cloth,
    canvas: Canvas,
}

impl Work {
    fn top(&mut self, cut: &Cut, random: &mut Random) {
        let wide = random.between(0.36, 0.52);
        let length = random.between(cut.length.0, cut.length.1);
        let neck = random.between(0.02, 0.22);
        let sleeve = random.between(cut.sleeve.0, cut.sleeve.1);
        let shoulder = at(wide + random.between(0.0, 0.1), -0.72);
        // Long sleeves hang, short ones stand off.
        let angle = random.between(0.15, 0.4) + if sleeve < 0.75 { 0.45 } else { 0.0 };
        let (out, down) = (libm::sin(angle) * sleeve, libm::cos(angle) * sleeve);
        let cuff = random.between(0.13, 0.2);
        for side in [-1.0, 1.0] {
            let arm = [
                at(side * (shoulder.x - 0.1), shoulder.y),
                at(side * (shoulder.x + out), shoulder.y + down),
                at(side * (shoulder.x + out - cuff * 1.1), shoulder.y + down + cuff * 0.5),
                at(side * (wide - 0.05), -0.3),
            ];
            self.cover(&arm);
            if cut.cuffs {
                self.seam(&[arm[1], arm[2]], 0.8, 0.6);
            }
            self.seam(&[at(side * wide * 0.97, -0.55), at(side * wide * 0.98, 0.0)], 0.45, 0.55);
        }
        let hem = wide * random.between(0.9, 1.15);
        self.cover(&[
            at(-0.2, -0.85),
            at(0.0, -0.85 + neck),
            at(0.2, -0.85),
            shoulder,
            at(wide, -0.25),
            at(wide * 0.95, 0.3),
            at(hem, length),
            at(-hem, length),
            at(-wide * 0.95, 0.3),
            at(-wide, -0.25),
            at(-shoulder.x, shoulder.y),
        ]);
        if cut.open {
            let dark = random.between(0.3, 0.8);
            self.seam(
                &[at(0.0, -0.8), at(random.between(-0.08, 0.08), length)],
                random.between(0.25, 1.0),
                dark,
            );
        }
        if cut.buttons {
            for i in 0..6 {
                let y = -0.6 + 0.24 * f64::from(i);
                if y < length {
                    self.seam(&[at(0.02, y), at(0.02, y + 0.03)], 0.6, 0.35);
                }
            }
            self.seam(&[at(-0.06, -0.8), at(-0.06, length)], 0.25, 0.7);
        }
        if cut.collar {
            self.seam(&[at(-0.22, -0.88), at(-0.02, -0.6), at(0.22, -0.88)], 0.8, 1.5);
        }
    }

    fn trousers(&mut self, random: &mut Random) {
        let (waist, hip) = (random.between(0.26, 0.36), random.between(0.34, 0.44));
        let (inner, outer) = (random.between(0.02, 0.14), random.between(0.3, 0.48));
        let end = random.between(0.8, 0.98);
        let crotch = random.between(-0.35, -0.1);
        self.cover(&[
            at(-waist, -0.95),
            at(waist, -0.95),
            at(hip, -0.45),
            at(outer, end),
            at(inner, end),
            at(0.0, crotch),
            at(-inner, end),
            at(-outer, end),
            at(-hip, -0.45),
        ]);
        self.seam(&[at(-waist, -0.85), at(waist, -0.85)], 0.4, 0.6);
    }

    fn dress(&mut self, random: &mut Random) {
        let (chest, waist) = (random.between(0.22, 0.34), random.between(0.17, 0.3));
        let hem = random.between(0.25, 0.62);
        let strap = random.between(0.08, 0.2);
        self.cover(&[
            at(-strap - 0.06, -0.97),
            at(-strap + 0.06, -0.97),
            at(0.0, -0.7),
            at(strap - 0.06, -0.97),
            at(strap + 0.06, -0.97),
            at(chest, -0.6),
            at(waist, -0.15),
            at(hem, 0.95),
            at(-hem, 0.95),
            at(-waist, -0.15),
            at(-chest, -0.6),
        ]);
        if random.chance(0.4) {
            let sleeve = random.between(0.3, 0.9);
            for side in [-1.0, 1.0] {
                let end = at(side * (chest + 0.1 + 0.25 * sleeve), -0.7 + sleeve);
                let inner = at(end.x - side * 0.14, end.y + 0.05);
                self.cover(&[at(side * strap, -0.95), end, inner, at(side * (chest - 0.05), -0.45)]);
            }
        }
        if random.chance(0.5) {
            self.seam(&[at(-waist, -0.13), at(waist, -0.13)], 0.6, 0.5);
        }
    }

    fn sneaker(&mut self, random: &mut Random) {
        let tall = random.between(-0.35, -0.05);
        let toe = random.between(0.05, 0.25);
        let low = 0.5;
        let upper = [
            at(-0.95, low),
            at(-0.95, low - 0.25),
            at(-0.6, toe),
            at(-0.1, tall + 0.15),
            at(0.25, tall),
            at(0.35, tall + 0.12),
            at(0.75, tall),
            at(0.92, tall + 0.05),
            at(0.95, low),
        ];
        self.cover(&jitter(&upper, 0.02, random));
        let (thick, tone) = (random.between(0.6, 1.4), random.between(0.3, 1.8));
        self.seam(&[at(-0.95, low), at(0.95, low)], thick, tone);
        let tone = random.between(0.3, 1.6);
        for i in 0..random.below(4) {
            let x = -0.35 + 0.18 * i as f64;
            self.seam(&[at(x, 0.1), at(x + 0.2, 0.25)], 0.5, tone);
        }
    }

    fn boot(&mut self, random: &mut Random) {
        let heel = random.between(0.0, 0.3);
        let (front, top) = (random.between(-0.05, 0.2), random.between(-0.95, -0.6));
        let shaft = [
            at(-0.9, 0.85),
            at(-0.9, 0.6),
            at(-0.5, 0.4),
            at(front - 0.05, 0.1),
            at(front, top),
            at(0.8, top + random.between(-0.05, 0.1)),
            at(0.72, 0.2),
            at(0.82, 0.9),
            at(0.5, 0.9),
            at(0.45, 0.9 - heel),
            at(-0.1, 0.88 - heel * 0.4),
        ];
        self.cover(&jitter(&shaft, 0.02, random));
        let tone = random.between(0.3, 1.5);
        if random.chance(0.6) {
            self.seam(&[at(front + 0.2, top), at(0.35, 0.3)], 0.5, tone);
        }
    }

    fn sandal(&mut self, random: &mut Random) {
        let heel = random.between(-0.5, 0.3);
        let thick = random.between(0.9, 1.9);
        let sole = curve(&[at(-0.95, 0.6), at(-0.4, 0.6), at(0.3, 0.5 + heel * 0.5), at(0.9, heel)], false);
        self.strap(&sole, thick);
        if heel < 0.1 {
            // A high heel stands on a thin post or on a wedge.
            if random.chance(0.5) {
                self.strap(&[at(0.85, heel), at(0.8, 0.68)], random.between(0.6, 1.2));
            } else {
                self.cover(&[at(-0.1, 0.62), at(0.3, 0.5 + heel * 0.5), at(0.95, heel), at(0.9, 0.68)]);
            }
        }
        for _ in 0..2 + random.below(3) {
            let from = random.between(-0.8, 0.3);
            let rise = random.between(0.25, 0.6);
            let line = [at(from, 0.55), at(from + 0.2, 0.5 - rise), at(from + 0.45, 0.5 + heel * 0.3)];
            self.strap(&curve(&line, false), random.between(0.5, 1.1));
        }
        if random.chance(0.5) {
            let line = [at(0.55, heel + 0.2), at(0.6, heel - 0.35), at(0.95, heel - 0.3), at(0.9, heel)];
            self.strap(&curve(&line, false), random.between(0.5, 0.9));
        }
    }

    fn bag(&mut self, random: &mut Random) {
        let (top, low) = (random.between(-0.35, 0.0), random.between(0.6, 0.9));
        let (narrow, wide) = (random.between(0.55, 0.9), random.between(0.7, 0.95));
        let rise = random.between(0.2, 0.75);
        let handle =
            [at(-narrow * 0.6, top), at(-0.35, top - rise), at(0.35, top - rise), at(narrow * 0.6, top)];
        self.strap(&curve(&handle, false), random.between(0.5, 1.2));
        let corner = 0.12;
        self.cover(&[
            at(-narrow, top),
            at(narrow, top),
            at(wide, low - corner),
            at(wide - corner, low),
            at(corner - wide, low),
            at(-wide, low - corner),
        ]);
        if random.chance(0.6) {
            let fold = top + random.between(0.1, 0.4);
            self.seam(&[at(-narrow, fold), at(narrow, fold)], 0.4, 0.5);
        }
        if random.chance(0.5) {
            let buckle = self.map.apply_all(&ellipse(at(0.0, top + 0.3), 0.1, 0.1));
            self.canvas.paint(&Mask::filled(&buckle), grey(random.unit()));
        }
    }

    /// Adds a closed piece of cloth.
    fn cover(&mut self, outline: &[Point]) {
        self.lay(&Mask::filled(&self.map.apply_all(outline)));
    }

    /// Adds a band of cloth along a line.
    fn strap(&mut self, line: &[Point], radius: f64) {
        self.lay(&Mask::stroked(&self.map.apply_all(line), radius));
    }

    fn lay(&mut self, mask: &Mask) {
        let cloth = &self.cloth;
        self.canvas.paint_with(mask, |x, y| cloth.colour(x, y));
    }

    /// Draws a line on the cloth, darker (`tone` below 1) or brighter than it.
    fn seam(&mut self, line: &[Point], radius: f64, tone: f64) {
        let cloth = &self.cloth;
        let mask = Mask::stroked(&self.map.apply_all(line), radius);
        self.canvas.paint_with(&mask, |x, y| cloth.colour(x, y).map(|value| (value * tone).min(1.0)));
    }
}
