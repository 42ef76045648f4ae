//! Module usage of a task: a square for each module, fuller where its weight is larger (as in the paper's figure).

use super::figure::Figure;
use crate::metrics::{Metrics, TaskMetrics};

/// Side of a square in pixels.
const CELL: f64 = 22.0;
/// Space between squares in pixels.
const GAP: f64 = 3.0;

/// Draws the module usage of one task: columns are layers from the input on, rows are modules from the oldest on. `weights`
/// are `[layer][module]`; `modules` is the number of rows, which is equal for all tasks of a stream.
fn figure(task: &str, weights: &[Vec<f64>], modules: usize) -> Figure {
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

/// Mean weights of all modules that were there when a task was learned. Modules that its route leaves out have none.
fn weights_of_all(task: &TaskMetrics) -> Vec<Vec<f64>> {
    let mut weights = task.weights.clone();
    for (weights, &modules) in weights.iter_mut().zip(&task.report.modules) {
        weights.resize(modules.max(weights.len()), 0.0);
    }
    weights
}

/// A figure for each task; none if the method has no module weights.
pub fn figures(metrics: &Metrics) -> Vec<(String, Figure)> {
    let weighted = metrics.tasks.iter().filter(|task| !task.weights.is_empty());
    let weights: Vec<_> = weighted.map(|task| (task, weights_of_all(task))).collect();
    let height = weights.iter().flat_map(|(_, weights)| weights.iter().map(Vec::len)).max().unwrap_or(0);
    let named = |(task, weights): (&TaskMetrics, Vec<Vec<f64>>)| {
        (task.task.clone(), figure(&task.task, &weights, height))
    };
    if height == 0 { Vec::new() } else { weights.into_iter().map(named).collect() }
}

#[cfg(test)]
mod tests {
    use lmc::TaskReport;

    use super::*;

    #[test]
    fn modules_that_are_not_asked_have_a_square_too() {
        let report = TaskReport { modules: vec![3, 1], ..TaskReport::default() };
        let task = |weights| TaskMetrics { report: report.clone(), weights, ..TaskMetrics::default() };
        assert_eq!(weights_of_all(&task(vec![vec![1.0], vec![1.0]])), [vec![1.0, 0.0, 0.0], vec![1.0]]);
        let tasks = vec![task(vec![vec![1.0], vec![1.0]]), task(Vec::new())];
        let found = figures(&Metrics { tasks, ..Metrics::default() });
        assert_eq!(found.len(), 1, "a method without weights has no figure");
        assert_eq!(found[0].1.body.matches("<rect").count(), 4);
    }
}
