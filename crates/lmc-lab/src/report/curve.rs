//! The accuracy of each task over the stream, as an SVG picture.

use super::escape;

/// One line of the picture.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name, beside its end.
    pub name: String,
    /// Points `(task after which it was measured, accuracy as a share)`.
    pub points: Vec<(usize, f64)>,
    /// Of another method: thin and dashed.
    pub faint: bool,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// Colours that are told apart by the colour-blind too.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7b3fa0", "#707070"];

/// The colour of a task.
pub fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

/// The picture. `tasks` are the names on the horizontal axis.
pub fn svg(tasks: &[String], lines: &[Line], title: &str) -> String {
    let x = |task: usize| LEFT + (WIDTH - LEFT - RIGHT) * (task as f64 + 0.5) / tasks.len().max(1) as f64;
    let y = |accuracy: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - accuracy.clamp(0.0, 1.0));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" class=\"chart\">",
        escape(title)
    );
    for percent in [0, 25, 50, 75, 100] {
        let at = y(f64::from(percent) / 100.0);
        let end = WIDTH - RIGHT;
        svg += &format!("<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\" class=\"grid\"/>");
        let (left, down) = (LEFT - 8.0, at + 4.0);
        svg += &format!(
            "<text x=\"{left}\" y=\"{down:.1}\" class=\"axis\" text-anchor=\"end\">{percent}</text>"
        );
    }
    for (number, task) in tasks.iter().enumerate() {
        let (at, down) = (x(number), HEIGHT - BOTTOM + 18.0);
        svg += &format!(
            "<text x=\"{at:.1}\" y=\"{down}\" class=\"axis\" text-anchor=\"middle\">{}</text>",
            escape(task)
        );
    }
    let (middle, down) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0);
    svg += &format!(
        "<text x=\"{middle}\" y=\"{down}\" class=\"axis\" text-anchor=\"middle\">after learning</text>"
    );
    let mut taken: Vec<f64> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let colour = colour(number % tasks.len().max(1));
        let points: Vec<String> = line
            .points
            .iter()
            .map(|(task, accuracy)| format!("{:.1},{:.1}", x(*task), y(*accuracy)))
            .collect();
        let style = if line.faint {
            "stroke-width=\"1.5\" stroke-dasharray=\"4 4\" opacity=\"0.75\""
        } else {
            "stroke-width=\"2.5\""
        };
        svg +=
            &format!("<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" {style}/>", points.join(" "));
        for (task, accuracy) in line.points.iter().filter(|_| !line.faint) {
            svg += &format!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"><title>{} after {}: {:.1} %</title></circle>",
                x(*task),
                y(*accuracy),
                escape(&line.name),
                escape(tasks.get(*task).map_or("", String::as_str)),
                100.0 * accuracy
            );
        }
        let Some((_, last)) = line.points.last().filter(|_| !line.faint) else { continue };
        let down = free_place(&taken, y(*last) + 4.0);
        taken.push(down);
        let at = WIDTH - RIGHT + 6.0;
        svg += &format!(
            "<text x=\"{at}\" y=\"{down:.1}\" class=\"name\" fill=\"{colour}\">{}</text>",
            escape(&line.name)
        );
    }
    svg + "</svg>"
}

/// The place nearest to `wanted` where a line of text covers no other.
fn free_place(taken: &[f64], wanted: f64) -> f64 {
    const LINE: f64 = 15.0;
    let free = |place: f64| taken.iter().all(|other| (other - place).abs() >= LINE);
    let steps = (0..60).flat_map(|step| [wanted + f64::from(step) * 3.0, wanted - f64::from(step) * 3.0]);
    steps.filter(|place| (10.0..HEIGHT).contains(place)).find(|&place| free(place)).unwrap_or(wanted)
}
