//! What `lmc learn` shows before it starts: the pictures it found, what it left out, and how long it will take.

use std::time::Duration;

use anyhow::Result;
use lmc::internals::training::estimate::TrainingPlan;
use lmc_streams::{ReadReport, Split};

use crate::output::{counted, grouped, print, print_text, table};

/// Classes that are listed one by one.
const LISTED: usize = 20;

/// Prints pictures per class and split, what was left out, and the plan. `progress` is that of a task that resumes.
pub fn show(found: &ReadReport, plan: &TrainingPlan, progress: Option<(usize, usize)>) -> Result<()> {
    let counts = |count: &dyn Fn(Split) -> usize| Split::ALL.map(|split| grouped(count(split) as u64));
    let mut rows: Vec<Vec<String>> = found
        .classes
        .iter()
        .take(LISTED)
        .map(|class| std::iter::once(class.name.clone()).chain(counts(&|split| class.count(split))).collect())
        .collect();
    if let Some(more) = found.classes.len().checked_sub(LISTED).filter(|&more| more > 0) {
        rows.push(vec![format!("and {more} more"), String::new(), String::new(), String::new()]);
    }
    let total = counts(&|split| found.pictures(split));
    rows.push(std::iter::once("all classes".to_owned()).chain(total).collect());
    let titles = ["class", "train", "val", "test"];
    print_text(&table(&titles, &titles[1..], rows))?;
    for line in found.left_out.lines() {
        print(&format!("note: {line}"))?;
    }
    let done = progress.map_or(0, |(done, _)| done);
    let resumed = if done > 0 { format!(", {done} of them done") } else { String::new() };
    print(&format!(
        "plan: {} of {}{resumed}; about {} on this machine, more if modules are added",
        counted(plan.epochs, "epoch"),
        counted(plan.steps, "step"),
        duration(plan.time)
    ))
}

/// A duration as a person says it.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=89 => format!("{} s", seconds.max(1)),
        seconds @ 90..=5399 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded() {
        let said = [0, 1, 89, 90, 149, 151, 5399, 5400, 9000].map(|s| duration(Duration::from_secs(s)));
        assert_eq!(said, ["1 s", "1 s", "89 s", "2 min", "2 min", "3 min", "90 min", "1.5 h", "2.5 h"]);
    }
}
