//! `lmc learn --more`: a task that is learned already gets more pictures or classes.

use anyhow::Result;
use lmc::{Error, ExtensionReport, Model, ModelFile, TaskData};

use crate::interrupt;
use crate::learn::Arguments;
use crate::output::{percent, print, print_json};
use crate::progress::Progress;

/// Trains a new version of the task's head and saves it, if it is at least as good as the old one or may replace it.
pub fn run(
    arguments: &Arguments,
    file: &mut ModelFile,
    mut model: Model,
    data: TaskData<'_>,
    epochs: Option<usize>,
) -> Result<()> {
    interrupt::listen()?;
    let mut progress = Progress::new(arguments.json);
    let data = data.until(interrupt::flag());
    let extended = model.extend(data, epochs, arguments.replace, &mut |event| {
        progress.show(&event);
        data.check_stop()
    });
    let report = extended.map_err(|error| match error {
        // It takes seconds, so that nothing of it is kept.
        Error::Stopped { .. } => Error::Stopped { done: "nothing: the task begins anew".into() },
        error => error,
    })?;
    if report.adopted {
        file.save(&model)?;
    }
    if arguments.json { print_json(&report) } else { show(arguments, &report) }
}

fn show(arguments: &Arguments, report: &ExtensionReport) -> Result<()> {
    let ExtensionReport { task, new_classes, absent_classes, .. } = report;
    if !new_classes.is_empty() {
        print(&format!("new classes of '{task}': {}", new_classes.join(", ")))?;
    }
    if !absent_classes.is_empty() {
        print(&format!(
            "note: there are no pictures of {} here; the old version of the head taught them, and how well could not be \
             measured",
            absent_classes.join(", ")
        ))?;
    }
    let share = |accuracy: Option<f64>| accuracy.map_or("not measured".to_owned(), percent);
    print(&format!(
        "validation accuracy of '{task}' on these pictures: {} before, {} now",
        share(report.accuracy_before),
        share(report.accuracy)
    ))?;
    if !report.adopted {
        let why = match (report.known, report.known_before) {
            (Some(known), Some(before)) if known < before => &format!(
                "on pictures of the classes that both know the new one has {}, the old one {}",
                percent(known),
                percent(before)
            ),
            _ if !absent_classes.is_empty() => {
                "without pictures of every class that it knows, they cannot be compared"
            }
            (Some(_), Some(_)) => "the new version is less accurate",
            _ => "without validation pictures of the classes that both know, they cannot be compared",
        };
        return print(&format!(
            "kept version {} of the head: {why}; --replace takes the new one all the same",
            report.version
        ));
    }
    print(&format!("'{task}' has version {} of its head now", report.version))?;
    print(&format!("written: {}", arguments.model.display()))
}
