//! A figure in SVG, as part of a page or in a file of its own.

use super::escape;

/// Colours of all figures, on light and on dark pages. They are not CSS variables, which some viewers of files ignore.
pub(super) const STYLE: &str = "
.grid { stroke: #d8dde4; } .leader { stroke: currentColor; stroke-width: 1; opacity: .4; }
.axis { fill: #5b6675; font-size: 12px; } .label { fill: currentColor; font-size: 13px; }
.title { fill: #1d2430; font-size: 14px; font-weight: 600; }
.module { fill: #0b4f8a; stroke: #0b4f8a; stroke-width: 1; } .heat { fill: #0b4f8a; stroke: #0b4f8a; stroke-opacity: .25; }
.on { fill: #1d2430; font-size: 11px; } .over { fill: #fff; font-size: 11px; }
.c0 { color: #0b62a8; } .c1 { color: #c8500a; } .c2 { color: #00805c; } .c3 { color: #b8478c; }
.c4 { color: #94690a; } .c5 { color: #1a8599; } .c6 { color: #7b3fa0; } .c7 { color: #6b6b6b; }
@media (prefers-color-scheme: dark) {
  .grid { stroke: #2d343e; } .axis { fill: #9aa5b4; } .title { fill: #e6e9ee; }
  .module { fill: #6db3f2; stroke: #6db3f2; } .heat { fill: #6db3f2; stroke: #6db3f2; }
  .on { fill: #e6e9ee; } .over { fill: #14181e; }
  .c0 { color: #5aaef0; } .c1 { color: #f2914a; } .c2 { color: #3cc79c; } .c3 { color: #e79ccb; }
  .c4 { color: #d9ae4a; } .c5 { color: #5cc8dc; } .c6 { color: #bd95e6; } .c7 { color: #b0b0b0; }
}
";

/// Background of a file. It is painted, because some viewers follow a dark system without being dark themselves.
const GROUND: &str = "
text { font-family: system-ui, sans-serif; } .ground { fill: #fff; }
@media (prefers-color-scheme: dark) { .ground { fill: #14181e; } }
";

/// Space around each figure of a file, in pixels.
const GAP: f64 = 16.0;
/// Largest width of a row of figures, in pixels.
const WIDEST: f64 = 1040.0;
/// Height of a figure's title, in pixels.
const TITLE: f64 = 24.0;

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
    /// Description for readers who do not see the figure.
    pub about: String,
    /// SVG elements of the figure.
    pub body: String,
    /// Whether the figure is as wide as its place on the page.
    pub fluid: bool,
}

impl Figure {
    /// Writes the figure as part of a page.
    pub fn inline(&self) -> String {
        let Self { width, height, about, body, .. } = self;
        let size = match self.fluid {
            true => "class=\"chart\"".to_owned(),
            false => format!("width=\"{width:.0}\" height=\"{height:.0}\""),
        };
        format!(
            "<svg viewBox=\"0 0 {width:.1} {height:.1}\" {size} role=\"img\" aria-label=\"{}\">{body}</svg>",
            escape(about)
        )
    }

    /// Writes figures as a file, beside and beneath each other, each with its title above.
    pub fn file(figures: &[(String, Self)]) -> String {
        let (mut body, mut x, mut y) = (String::new(), GAP, GAP);
        let (mut width, mut height) = (0.0_f64, 0.0_f64);
        for (title, figure) in figures {
            // A letter takes about 9 pixels: neighbours shall not run into each other.
            let wide = figure.width.max(title.chars().count() as f64 * 9.0);
            if x > GAP && x + wide > WIDEST {
                (x, y, height) = (GAP, y + height + GAP, 0.0);
            }
            body += &format!(
                "<text x=\"{x:.1}\" y=\"{:.1}\" class=\"title\">{}</text>\
                 <g transform=\"translate({x:.1} {:.1})\">{}</g>",
                y + 12.0,
                escape(title),
                y + TITLE,
                figure.body
            );
            x += wide + GAP;
            (width, height) = (width.max(x), height.max(figure.height + TITLE));
        }
        let height = y + height + GAP;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" width=\"{width:.0}\" \
             height=\"{height:.0}\"><style>{STYLE}{GROUND}</style>\
             <rect class=\"ground\" width=\"100%\" height=\"100%\"/>{body}</svg>\n"
        )
    }
}

/// The CSS class of the colour with this number.
pub(super) fn colour(number: usize) -> String {
    const COLOURS: usize = 8;
    format!("c{}", number % COLOURS)
}
