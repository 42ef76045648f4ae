//! Curves over the stream, task by task: accuracies, or numbers of modules.

use super::escape;
use super::figure::{Figure, colour};

/// One curve of the figure.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name, which stands beside the end of the curve.
    pub name: String,
    /// Points `(number of the task after which it was measured, value)`; accuracies are shares of 1.
    pub points: Vec<(usize, f64)>,
    /// Number of the colour; the first eight can be distinguished by the colour-blind too, later ones are dashed.
    pub colour: usize,
    /// Whether the curve is thin, dashed and without a name, as those of baselines are.
    pub faint: bool,
}

/// Scale of the vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// A share of 1, from 0 % to a quarter above the largest.
    Percent,
    /// A number, from 0 to the largest.
    Count,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;
/// Height of a line of text.
const TEXT: f64 = 15.0;

/// Draws the curves. `tasks` are the names on the horizontal axis.
pub fn figure(tasks: &[String], series: &[Series], scale: Scale, about: &str) -> Figure {
    let named: Vec<&Series> =
        series.iter().filter(|series| !series.faint && !series.points.is_empty()).collect();
    // All names find room beside the ends of their curves.
    let height = (named.len() as f64 * TEXT + TOP + BOTTOM).max(320.0);
    let highest = series.iter().flat_map(|series| &series.points).map(|point| point.1).fold(0.0, f64::max);
    let ticks = ticks(scale, highest);
    let most = ticks.last().map_or(1.0, |tick| tick.0);
    let x = |task: usize| LEFT + (WIDTH - LEFT - RIGHT) * (task as f64 + 0.5) / tasks.len().max(1) as f64;
    let y = |value: f64| TOP + (height - TOP - BOTTOM) * (1.0 - (value / most).clamp(0.0, 1.0));
    let mut svg = String::new();
    for (value, label) in &ticks {
        let (at, end, left) = (y(*value), WIDTH - RIGHT, LEFT - 8.0);
        svg += &format!(
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{end}\" y2=\"{at:.1}\" class=\"grid\"/>\
             <text x=\"{left}\" y=\"{:.1}\" class=\"axis\" text-anchor=\"end\">{label}</text>",
            at + 4.0
        );
    }
    for (number, label) in task_labels(tasks) {
        let (at, down) = (x(number), height - BOTTOM + 18.0);
        svg +=
            &format!("<text x=\"{at:.1}\" y=\"{down}\" class=\"axis\" text-anchor=\"middle\">{label}</text>");
    }
    let (middle, down) = ((LEFT + WIDTH - RIGHT) / 2.0, height - 8.0);
    svg += &format!(
        "<text x=\"{middle}\" y=\"{down}\" class=\"axis\" text-anchor=\"middle\">after learning</text>"
    );
    for series in series {
        svg += &drawn(series, tasks, scale, &x, &y);
    }
    let ends: Vec<(usize, f64)> = named
        .iter()
        .filter_map(|series| series.points.last())
        .map(|(task, value)| (*task, y(*value)))
        .collect();
    let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
    for ((series, (task, end)), place) in named.iter().zip(&ends).zip(places(&wanted, TOP, height - BOTTOM)) {
        let (from, to, class) = (x(*task) + 6.0, WIDTH - RIGHT + 4.0, colour(series.colour));
        svg += &format!(
            "<g class=\"{class}\"><line x1=\"{from:.1}\" y1=\"{end:.1}\" x2=\"{to}\" y2=\"{place:.1}\" class=\"leader\"/>\
             <text x=\"{}\" y=\"{:.1}\" class=\"label\">{}</text></g>",
            to + 4.0,
            place + 4.0,
            escape(&shortened(&series.name, 22))
        );
    }
    Figure { width: WIDTH, height, about: about.to_owned(), body: svg, fluid: true }
}

/// The elements of one curve: a line and its points.
fn drawn(
    series: &Series,
    tasks: &[String],
    scale: Scale,
    x: &dyn Fn(usize) -> f64,
    y: &dyn Fn(f64) -> f64,
) -> String {
    let points: Vec<String> =
        series.points.iter().map(|(task, value)| format!("{:.1},{:.1}", x(*task), y(*value))).collect();
    let style = match (series.faint, series.colour / 8) {
        (true, _) => "stroke-width=\"1.5\" stroke-dasharray=\"4 4\" opacity=\"0.75\"",
        (_, 0) => "stroke-width=\"2.25\"",
        (_, 1) => "stroke-width=\"2.25\" stroke-dasharray=\"7 3\"",
        _ => "stroke-width=\"2.25\" stroke-dasharray=\"2 3\"",
    };
    let mut svg = format!(
        "<g class=\"{}\"><polyline points=\"{}\" fill=\"none\" stroke=\"currentColor\" {style}/>",
        colour(series.colour),
        points.join(" ")
    );
    for (task, value) in series.points.iter().filter(|_| !series.faint) {
        let text = match scale {
            Scale::Percent => format!("{:.1} %", 100.0 * value),
            Scale::Count => format!("{value:.1}"),
        };
        svg += &format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.25\" fill=\"currentColor\"><title>{} after {}: {text}</title></circle>",
            x(*task),
            y(*value),
            escape(&series.name),
            escape(tasks.get(*task).map_or("", String::as_str)),
        );
    }
    svg + "</g>"
}

/// Values of the vertical axis, with their labels.
fn ticks(scale: Scale, highest: f64) -> Vec<(f64, String)> {
    match scale {
        Scale::Percent => {
            let (step, top) = match highest {
                low if low <= 0.25 => (5, 25),
                low if low <= 0.5 => (10, 50),
                middle if middle <= 0.75 => (25, 75),
                _ => (25, 100),
            };
            (0..=top / step).map(|tick| (f64::from(tick * step) / 100.0, (tick * step).to_string())).collect()
        }
        Scale::Count => {
            let steps = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000];
            let step = steps.into_iter().find(|step| f64::from(*step) * 5.0 >= highest).unwrap_or(5000);
            let count = (highest / f64::from(step)).ceil().max(1.0) as u32;
            (0..=count).map(|tick| (f64::from(tick * step), (tick * step).to_string())).collect()
        }
    }
}

/// Labels of the horizontal axis: names of tasks, or numbers where there is no room for names.
fn task_labels(tasks: &[String]) -> Vec<(usize, String)> {
    let room = (WIDTH - LEFT - RIGHT) / tasks.len().max(1) as f64;
    let fits = tasks.iter().all(|task| task.chars().count() as f64 * 6.2 < room);
    let every = tasks.len().div_ceil(20).max(1);
    let label = |(number, task): (usize, &String)| match fits {
        true => (number, escape(task)),
        false => (number, (number + 1).to_string()),
    };
    tasks.iter().enumerate().step_by(every).map(label).collect()
}

/// Shortens a text to so many letters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Heights near the wanted ones, in the same order, at which no line of text covers another.
fn places(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&one, &other| wanted[one].total_cmp(&wanted[other]));
    let mut places = wanted.to_vec();
    // Downwards until nothing overlaps, then upwards from the bottom.
    let mut least = top;
    for &at in &order {
        places[at] = places[at].max(least);
        least = places[at] + TEXT;
    }
    let mut most = bottom;
    for &at in order.iter().rev() {
        places[at] = places[at].min(most);
        most = places[at] - TEXT;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_cover_each_other() {
        assert_eq!(places(&[100.0, 102.0, 50.0], 14.0, 300.0), [100.0, 115.0, 50.0]);
        assert_eq!(places(&[295.0, 299.0], 14.0, 300.0), [285.0, 300.0]);
    }

    #[test]
    fn round_numbers_on_the_axis() {
        let last = |highest| ticks(Scale::Count, highest).last().map(|tick| tick.0);
        let top = |highest| ticks(Scale::Percent, highest).last().map(|tick| tick.0);
        assert_eq!([0.1, 0.25, 0.6, 0.97].map(top), [Some(0.25), Some(0.25), Some(0.75), Some(1.0)]);
        assert_eq!([4.0, 7.0, 24.0, 30.0].map(last), [Some(4.0), Some(8.0), Some(25.0), Some(30.0)]);
    }

    #[test]
    fn names_of_tasks_are_escaped() {
        let tasks = ["<a>".to_owned()];
        let series = Series { name: "x & y".into(), points: vec![(0, 0.5)], colour: 9, faint: false };
        let svg = figure(&tasks, &[series], Scale::Percent, "a \"chart\"").inline();
        assert!(
            svg.contains("&lt;a&gt;") && svg.contains("x &amp; y") && svg.contains("a &quot;chart&quot;")
        );
        assert!(!svg.contains("<a>"));
    }
}
