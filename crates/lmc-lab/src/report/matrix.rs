//! The accuracy matrix as a heat map: a row after each task of the stream, a column for each task that is evaluated.

use super::escape;
use super::figure::Figure;

/// Space for the numbers of rows and columns, in pixels.
const EDGE: f64 = 20.0;

/// Draws `matrix[after][task]`; accuracies are shares of 1, and cells that were not measured stay empty.
pub fn figure(tasks: &[String], matrix: &[Vec<Option<f64>>], about: &str) -> Figure {
    let count = tasks.len().max(1);
    let cell = (260.0 / count as f64).clamp(3.0, 32.0);
    // Numbers are written where there is room to read them.
    let written = cell >= 22.0;
    let gap = if written { 2.0 } else { 0.0 };
    let side = EDGE + count as f64 * cell;
    let mut svg = String::new();
    let every = if written { 1 } else { count.div_ceil(10) };
    for number in (0..count).step_by(every) {
        let middle = EDGE + (number as f64 + 0.5) * cell;
        let (right, label) = (EDGE - 6.0, number + 1);
        svg += &format!(
            "<text x=\"{middle:.1}\" y=\"12\" class=\"axis\" text-anchor=\"middle\">{label}</text>\
             <text x=\"{right}\" y=\"{:.1}\" class=\"axis\" text-anchor=\"end\">{label}</text>",
            middle + 4.0
        );
    }
    let name = |task: usize| escape(tasks.get(task).map_or("", String::as_str));
    for (after, row) in matrix.iter().enumerate() {
        for (task, accuracy) in row.iter().enumerate().filter_map(|(task, cell)| Some((task, (*cell)?))) {
            let (x, y, size) = (EDGE + task as f64 * cell, EDGE + after as f64 * cell, cell - gap);
            let share = accuracy.clamp(0.0, 1.0);
            let (radius, percent) = (gap, 100.0 * share);
            svg += &format!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{size:.1}\" height=\"{size:.1}\" rx=\"{radius}\" class=\"heat\" fill-opacity=\"{share:.2}\">"
            );
            if written {
                svg += &format!("<title>{} after {}: {percent:.1} %</title>", name(task), name(after));
            }
            svg += "</rect>";
            if written {
                let class = if share > 0.5 { "over" } else { "on" };
                let (middle, down) = (x + size / 2.0, y + size / 2.0 + 4.0);
                svg += &format!(
                    "<text x=\"{middle:.1}\" y=\"{down:.1}\" class=\"{class}\" text-anchor=\"middle\">{percent:.0}</text>"
                );
            }
        }
    }
    Figure { width: side, height: side, about: about.to_owned(), body: svg, fluid: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_cells_counted() {
        let tasks = ["<a>".to_owned(), "b".to_owned()];
        let svg = figure(&tasks, &[vec![Some(0.9)], vec![Some(0.456), Some(0.2)]], "x").inline();
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("<title>&lt;a&gt; after b: 45.6 %</title>") && !svg.contains("<a>"));
        assert!(svg.contains("class=\"over\" text-anchor=\"middle\">90<"));
    }
}
