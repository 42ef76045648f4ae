//! `lmc bench --only signature`: what it costs to find the task of an image by how it looks.

use std::hint::black_box;

use anyhow::Result;
use lmc::internals::inference::signature::{Collector, Describer, Discriminant, OwnDistance, Signature};
use lmc::{Error, NetworkConfig};
use lmc_bench::{median, times};
use lmc_streams::Seed;
use serde::Serialize;

use crate::output::{print, print_json, print_text, spinner, table};

/// Numbers of tasks, with ten classes each.
const TASKS: [usize; 2] = [5, 100];
const CLASSES: usize = 10;

/// Images of each class that the statistics are of. More cost nothing more.
const IMAGES: usize = 3;

#[derive(Serialize)]
struct Row {
    tasks: usize,
    classes: usize,
    describe_us: f64,
    decide_us: f64,
    novelty_us: f64,
    /// Descriptor and decision together.
    both_us: f64,
    /// Once for a model, when the first image is classified.
    prepare_ms: f64,
}

/// Measures and prints, on one thread whatever the pool has.
pub fn run(seconds: f64, json: bool) -> Result<()> {
    let bar = spinner("measuring signatures".into());
    let size = NetworkConfig::default().size;
    let describer = Describer::of(&NetworkConfig::default());
    let mut random = Seed::root(1).random();
    // Blocks and noise: no number of the descriptor is special.
    let mut image = || -> Vec<f32> {
        let (level, width) = (random.between(0.2, 0.8), 3 + random.below(7));
        let mut pixel = |at: usize| {
            let block = (at % size / width + at / size / width) % 2;
            (level + 0.2 * block as f64 + 0.05 * random.normal()).clamp(0.0, 1.0) as f32
        };
        (0..3 * size * size).map(&mut pixel).collect()
    };
    let images: Vec<Vec<f32>> = (0..64).map(|_| image()).collect();
    let descriptors: Vec<Vec<f32>> = images.iter().map(|image| describer.describe(image)).collect();
    let per_image = |ms: f64| ms * 1e3 / images.len() as f64;
    let describe = median(times(seconds / 4.0, || {
        images.iter().for_each(|image| drop(black_box(describer.describe(image))));
        Ok::<(), Error>(())
    })?);
    let mut rows = Vec::new();
    for tasks in TASKS {
        let signatures: Vec<Signature> = (0..tasks)
            .map(|task| {
                let mut collected = Collector::new(CLASSES);
                for at in 0..CLASSES * IMAGES {
                    collected.add(at % CLASSES, &descriptors[(task * 7 + at) % descriptors.len()]);
                }
                collected.finish()
            })
            .collect();
        let all: Vec<&Signature> = signatures.iter().collect();
        let impossible = || Error::setting("bench", "these signatures cannot be compared", "report this");
        let prepare_ms =
            median(times(0.0, || black_box(Discriminant::new(&all)).map(drop).ok_or_else(impossible))?);
        let discriminant = Discriminant::new(&all).ok_or_else(impossible)?;
        let distance = OwnDistance::new(all[0]).ok_or_else(impossible)?;
        let decide = median(times(seconds / 4.0, || {
            descriptors.iter().for_each(|found| drop(black_box(discriminant.scores(found))));
            Ok::<(), Error>(())
        })?);
        let novelty = median(times(seconds / 4.0, || {
            descriptors.iter().for_each(|found| {
                black_box(distance.log_distance(found));
            });
            Ok::<(), Error>(())
        })?);
        rows.push(Row {
            tasks,
            classes: CLASSES,
            describe_us: per_image(describe),
            decide_us: per_image(decide),
            novelty_us: per_image(novelty),
            both_us: per_image(describe + decide),
            prepare_ms,
        });
    }
    bar.finish_and_clear();
    if json {
        return print_json(&rows);
    }
    let titles =
        ["tasks", "classes each", "describe µs", "decide µs", "both µs", "novelty µs", "prepare once ms"];
    let cells = |row: &Row| {
        let mut cells = vec![row.tasks.to_string(), row.classes.to_string()];
        let numbers = [row.describe_us, row.decide_us, row.both_us, row.novelty_us, row.prepare_ms];
        cells.extend(numbers.map(|number| format!("{number:.1}")));
        cells
    };
    print_text(&table(&titles, &titles, rows.iter().map(cells).collect()))?;
    print("an image of 32 pixels a side, on one thread")
}
