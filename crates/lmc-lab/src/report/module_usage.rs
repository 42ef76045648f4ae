//! Module usage of a task: a square for each module, fuller where its weight is larger (as in the paper's figure).

use super::figure::Figure;

/// Side of a square in pixels.
const CELL: f64 = 22.0;
/// Space between squares in pixels.
const GAP: f64 = 3.0;

/// Draws the module usage of one task: columns are layers from the input on, rows are modules from the oldest on. `weights`
/// are `[layer][module]`; `modules` is the number of rows, which is equal for all tasks of a stream.
pub fn figure(task: &str, weights: &[Vec<f64>], modules: usize) -> Figure {
    let (width, height) = (weights.len() as f64 * (CELL + GAP) + 20.0, modules as f64 * (CELL + GAP) + 19.0);
    let mut svg = String::new();
    for module in 0..modules {
        let down = module as f64 * (CELL + GAP) + CELL * 0.7;
        svg += &format!("<text x=\"0\" y=\"{down:.1}\" class=\"axis\">{module}</text>");
    }
    for (layer, weights) in weights.iter().enumerate() {
        let x = 16.0 + layer as f64 * (CELL + GAP);
        for (module, weight) in weights.iter().enumerate() {
            let y = 1.0 + module as f64 * (CELL + GAP);
            svg += &format!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" rx=\"3\" class=\"module\" fill-opacity=\"{:.3}\"><title>layer {layer}, module {module}: {:.0} %</title></rect>",
                weight.clamp(0.0, 1.0),
                100.0 * weight
            );
        }
        let (middle, down) = (x + CELL / 2.0, height - 3.0);
        svg += &format!(
            "<text x=\"{middle}\" y=\"{down}\" class=\"axis\" text-anchor=\"middle\">{layer}</text>"
        );
    }
    Figure { width, height, about: format!("modules used by {task}"), body: svg, fluid: false }
}
