//! The growth of a modular network: modules per layer after each task, as a self-contained SVG file.
//!
//! A column for each task, a row for each layer, a square for each module. Every module has the colour of the task that
//! added it, full in that task's column and faint in the columns of later tasks, where it is frozen.

use super::escape;
use crate::metrics::{Metrics, TaskMetrics};

/// Colours of the figure, for the page that it stands on. The background is transparent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Dark text, for a white page.
    Light,
    /// Light text, for a page as dark as `#0d1117`.
    Dark,
}

/// Colours of a theme.
struct Palette {
    text: &'static str,
    soft: &'static str,
    track: &'static str,
    /// Opacity of frozen modules.
    frozen: f64,
    /// Colours of the tasks, in the order of the stream.
    tasks: [&'static str; 8],
}

impl Theme {
    fn palette(self) -> Palette {
        match self {
            Self::Light => Palette {
                text: "#1f2328",
                soft: "#59636e",
                track: "#d8dee4",
                frozen: 0.26,
                tasks: [
                    "#0b62a8", "#c8500a", "#00805c", "#b8478c", "#94690a", "#1a8599", "#7b3fa0", "#6b6b6b",
                ],
            },
            Self::Dark => Palette {
                text: "#f0f6fc",
                soft: "#9198a1",
                track: "#30363d",
                frozen: 0.34,
                tasks: [
                    "#5aaef0", "#f2914a", "#3cc79c", "#e79ccb", "#d9ae4a", "#5cc8dc", "#bd95e6", "#b0b0b0",
                ],
            },
        }
    }
}

/// Width of the figure in pixels, unless there are too many tasks for it.
const WIDTH: f64 = 800.0;
/// Width of the names of layers and accuracies.
const LEFT: f64 = 88.0;
/// Smallest width of a task's column.
const NARROWEST: f64 = 60.0;
/// Height of title and task names.
const TOP: f64 = 82.0;
/// Height of one line of accuracies.
const LINE: f64 = 24.0;

/// Places of everything in the figure, in pixels.
struct Layout {
    width: f64,
    height: f64,
    layers: usize,
    /// Distance between columns.
    column: f64,
    /// Side of a square, and distance between squares.
    square: f64,
    pitch: f64,
    /// Distance between layers.
    row: f64,
}

impl Layout {
    fn new(metrics: &Metrics) -> Self {
        let layers = metrics.tasks.iter().map(|task| task.report.modules.len()).max().unwrap_or(0);
        let most = metrics.tasks.iter().flat_map(|task| &task.report.modules).copied().max().unwrap_or(0);
        let tasks = metrics.tasks.len().max(1) as f64;
        let column = ((WIDTH - LEFT) / tasks).max(NARROWEST);
        let pitch = ((column - 22.0) / most.max(1) as f64).clamp(2.0, 22.0);
        let row = pitch * 0.7 + 14.0;
        let height = TOP + layers as f64 * row + 36.0 + 2.0 * LINE;
        Self { width: LEFT + column * tasks, height, layers, column, square: pitch * 0.84, pitch, row }
    }

    fn x(&self, task: usize) -> f64 {
        LEFT + task as f64 * self.column
    }

    /// Top of a layer's row; the layer next to the input, number 0, is at the bottom.
    fn y(&self, layer: usize) -> f64 {
        TOP + (self.layers - 1 - layer) as f64 * self.row
    }

    /// Baseline of a line of accuracies.
    fn line(&self, line: usize) -> f64 {
        TOP + self.layers as f64 * self.row + 40.0 + line as f64 * LINE
    }
}

/// Draws the growth of a network over its stream, for a page of this theme.
pub fn svg(metrics: &Metrics, theme: Theme) -> String {
    let (palette, layout) = (theme.palette(), Layout::new(metrics));
    let Palette { text, soft, .. } = palette;
    let mut body = header(&palette, &layout);
    for layer in 0..layout.layers {
        let middle = layout.y(layer) + layout.square / 2.0 + 4.0;
        body += &format!("<text y=\"{middle:.1}\" fill=\"{soft}\">layer {layer}</text>");
    }
    let above = layout.line(0) - 21.0;
    body += &format!("<text y=\"{above:.1}\" font-size=\"11\" fill=\"{soft}\">test accuracy</text>");
    for (line, name) in ["right after", "at the end"].iter().enumerate() {
        body += &format!("<text y=\"{:.1}\" fill=\"{soft}\">{name}</text>", layout.line(line));
    }
    let added = added_by(metrics);
    for (number, task) in metrics.tasks.iter().enumerate() {
        body += &column(number, task, metrics.task_agnostic, &added, &palette, &layout);
    }
    let counts: Vec<String> = metrics
        .tasks
        .iter()
        .map(|task| format!("{} after {}", task.report.modules.iter().sum::<usize>(), task.task))
        .collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0} {1:.0}\" width=\"{0:.0}\" height=\"{1:.0}\" \
         role=\"img\" font-family=\"sans-serif\" font-size=\"12\" fill=\"{text}\">\
         <title>Modules per layer, task by task: {2}</title>{body}</svg>\n",
        layout.width,
        layout.height,
        escape(&counts.join(", "))
    )
}

/// Title and legend.
fn header(palette: &Palette, layout: &Layout) -> String {
    let Palette { text, soft, frozen, .. } = palette;
    let square = |x: f64, opacity: f64| {
        format!("<path d=\"M{x:.0} 12h11v11h-11z\" fill=\"{}\" opacity=\"{opacity}\"/>", palette.tasks[0])
    };
    let end = layout.width;
    format!(
        "<text y=\"23\" font-size=\"16\" font-weight=\"600\" fill=\"{text}\">modules per layer, task by task</text>\
         {}<text x=\"{:.0}\" y=\"22\" fill=\"{soft}\">added by the task</text>\
         {}<text x=\"{:.0}\" y=\"22\" fill=\"{soft}\">frozen, of an earlier task</text>",
        square(end - 312.0, 1.0),
        end - 295.0,
        square(end - 172.0, *frozen),
        end - 155.0,
    )
}

/// The task that added each module, `[layer][module]`.
fn added_by(metrics: &Metrics) -> Vec<Vec<usize>> {
    let mut added: Vec<Vec<usize>> = Vec::new();
    for (number, task) in metrics.tasks.iter().enumerate() {
        added.resize(added.len().max(task.report.modules.len()), Vec::new());
        for (layer, &modules) in added.iter_mut().zip(&task.report.modules) {
            layer.resize(layer.len().max(modules), number);
        }
    }
    added
}

/// The column of a task: its name, its modules, and its accuracies.
fn column(
    number: usize,
    task: &TaskMetrics,
    task_agnostic: bool,
    added: &[Vec<usize>],
    palette: &Palette,
    layout: &Layout,
) -> String {
    let colour = |task: usize| palette.tasks[task % palette.tasks.len()];
    let (x, soft) = (layout.x(number), palette.soft);
    // A letter takes about 7 pixels.
    let name = shortened(&task.task, ((layout.column - 8.0) / 7.0) as usize);
    let total: usize = task.report.modules.iter().sum();
    let new = total - task.report.modules_before.iter().sum::<usize>().min(total);
    let count = match layout.column < 100.0 {
        true => format!("{total} (+{new})"),
        false => format!("{total} modules, {new} new"),
    };
    let mut svg = format!(
        "<text x=\"{x:.1}\" y=\"52\" font-weight=\"600\" fill=\"{}\">{}</text>\
         <text x=\"{x:.1}\" y=\"69\" font-size=\"11\" fill=\"{soft}\">{count}</text>",
        colour(number),
        escape(&name)
    );
    for (layer, &modules) in task.report.modules.iter().enumerate() {
        let before = task.report.modules_before.get(layer).copied().unwrap_or(0);
        for (module, &by) in added[layer].iter().enumerate().take(modules) {
            let state = if module < before { "frozen" } else { "new" };
            let opacity = if module < before { palette.frozen } else { 1.0 };
            svg += &format!(
                "<rect class=\"{state}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{2:.1}\" height=\"{2:.1}\" rx=\"{3:.1}\" \
                 fill=\"{4}\" opacity=\"{opacity}\"/>",
                x + module as f64 * layout.pitch,
                layout.y(layer),
                layout.square,
                (layout.square * 0.2).min(3.0),
                colour(by),
            );
        }
    }
    let accuracies = [task.after, task.end].map(|accuracy| accuracy.headline(task_agnostic).clamp(0.0, 1.0));
    let length = (layout.column - 62.0).max(0.0);
    for (line, accuracy) in accuracies.iter().enumerate() {
        let y = layout.line(line);
        svg += &format!(
            "<path d=\"M{0:.1} {1:.1}h{length:.1}\" stroke=\"{2}\" stroke-width=\"5\"/>\
             <path d=\"M{0:.1} {1:.1}h{3:.1}\" stroke=\"{4}\" stroke-width=\"5\"/>\
             <text x=\"{5:.1}\" y=\"{y:.1}\">{6:.0} %</text>",
            x,
            y - 4.0,
            palette.track,
            length * accuracy,
            colour(number),
            if length > 0.0 { x + length + 7.0 } else { x },
            100.0 * accuracy,
        );
    }
    svg
}

/// Shortens a text to so many letters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use lmc::{Accuracy, TaskReport};

    use super::*;
    use crate::metrics::OwnHead;

    fn task(name: &str, modules_before: &[usize], modules: &[usize]) -> TaskMetrics {
        let accuracy = Accuracy { task_given: 0.87, ..Accuracy::default() };
        let (modules_before, modules) = (modules_before.to_vec(), modules.to_vec());
        TaskMetrics {
            task: name.into(),
            report: TaskReport { modules_before, modules, ..TaskReport::default() },
            after: accuracy,
            end: accuracy,
            after_by_name: None,
            end_by_name: None,
            own_head: OwnHead::default(),
            weights: Vec::new(),
        }
    }

    #[test]
    fn a_square_for_every_module() {
        let tasks = vec![
            task("<a> & co", &[0, 0], &[1, 1]),
            task("b", &[1, 1], &[1, 2]),
            task("c", &[1, 2], &[3, 2]),
        ];
        let metrics = Metrics { tasks, ..Metrics::default() };
        assert_eq!(added_by(&metrics), [vec![0, 2, 2], vec![0, 1]]);
        for theme in [Theme::Light, Theme::Dark] {
            let svg = svg(&metrics, theme);
            let count = |class: &str| svg.matches(&format!("<rect class=\"{class}\"")).count();
            // New: 2 + 1 + 2. Frozen: 0 + 2 + 3.
            assert_eq!((svg.matches("<rect").count(), count("new"), count("frozen")), (10, 5, 5));
            assert!(svg.contains("role=\"img\"") && svg.contains("<title>Modules per layer"));
            assert!(svg.contains("modules per layer, task by task</text>") && svg.contains(">87 %<"));
            assert!(svg.contains("&lt;a&gt; &amp; co") && !svg.contains("<a>"));
            assert!(svg.contains(theme.palette().text));
        }
    }

    #[test]
    fn many_tasks_and_no_modules() {
        let tasks = (0..100).map(|number| task(&format!("a task of number {number}"), &[], &[])).collect();
        let svg = svg(&Metrics { tasks, ..Metrics::default() }, Theme::Light);
        assert!(svg.contains("width=\"6088\"") && !svg.contains("NaN") && !svg.contains("<rect"));
    }
}
