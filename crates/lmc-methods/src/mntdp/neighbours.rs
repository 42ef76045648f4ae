//! How well features separate the classes of a task: by the nearest neighbours among its own images.

use burn::tensor::{Device, Tensor, TensorData};
use lmc::Result;

/// Feature maps of images that frozen layers computed once, with labels.
#[derive(Clone, Debug)]
pub(super) struct CachedMaps {
    /// The maps, image by image.
    pub(super) values: Vec<f32>,
    /// Channels, rows and columns of a map.
    pub(super) shape: [usize; 3],
    /// Label of each image.
    pub(super) labels: Vec<u32>,
}

impl CachedMaps {
    /// Maps `[image, channel, row, column]` and labels of the images at these positions.
    pub(super) fn batch(&self, positions: &[u32], device: &Device) -> (Tensor<4>, Vec<u32>) {
        let [channels, height, width] = self.shape;
        let each = channels * height * width;
        let row = |&at: &u32| &self.values[at as usize * each..(at as usize + 1) * each];
        let values: Vec<f32> = positions.iter().flat_map(row).copied().collect();
        let labels = positions.iter().map(|&at| self.labels[at as usize]).collect();
        let data = TensorData::new(values, [positions.len(), channels, height, width]);
        (Tensor::from_data(data, device), labels)
    }
}

/// Share of `queries` whose label most of their nearest `neighbours` in `base` have, by the cosine of standardised features.
/// An error of `go_on`, which every query asks, ends it.
pub(super) fn neighbour_accuracy(
    base: &CachedMaps,
    queries: &CachedMaps,
    neighbours: usize,
    go_on: impl Fn() -> Result<()>,
) -> Result<f64> {
    let length: usize = base.shape.iter().product();
    let count = base.labels.len().max(1) as f64;
    let mut mean = vec![0.0_f64; length];
    base.values.chunks(length.max(1)).for_each(|row| {
        mean.iter_mut().zip(row).for_each(|(mean, &value)| *mean += f64::from(value) / count);
    });
    let mut deviation = vec![0.0_f64; length];
    base.values.chunks(length.max(1)).for_each(|row| {
        let terms = deviation.iter_mut().zip(row).zip(&mean);
        terms.for_each(|((sum, &value), mean)| *sum += (f64::from(value) - mean).powi(2) / count);
    });
    let standardised = |maps: &CachedMaps| -> Vec<Vec<f32>> {
        maps.values
            .chunks(length.max(1))
            .map(|row| {
                let numbers = row.iter().zip(mean.iter().zip(&deviation));
                let row: Vec<f64> = numbers
                    .map(|(&value, (mean, variance))| (f64::from(value) - mean) / variance.sqrt().max(1e-6))
                    .collect();
                let norm = row.iter().map(|value| value * value).sum::<f64>().sqrt().max(1e-12);
                row.into_iter().map(|value| (value / norm) as f32).collect()
            })
            .collect()
    };
    let (base_rows, query_rows) = (standardised(base), standardised(queries));
    let classes = base.labels.iter().chain(&queries.labels).max().map_or(0, |&label| label as usize + 1);
    let mut correct = 0;
    for (row, label) in query_rows.iter().zip(&queries.labels) {
        go_on()?;
        let mut near: Vec<(f32, u32)> = base_rows
            .iter()
            .zip(&base.labels)
            .map(|(other, &label)| (row.iter().zip(other).map(|(a, b)| a * b).sum::<f32>(), label))
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut votes = vec![0_u32; classes];
        near.iter().take(neighbours).for_each(|(_, label)| votes[*label as usize] += 1);
        let best = (0..classes).rev().max_by_key(|&class| votes[class]).unwrap_or(0);
        correct += usize::from(best == *label as usize);
    }
    Ok(correct as f64 / queries.labels.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_by_hand() {
        let maps = |values: &[f32], labels: &[u32]| CachedMaps {
            values: values.to_vec(),
            shape: [2, 1, 1],
            labels: labels.to_vec(),
        };
        let base = maps(&[1.0, 0.9, 1.1, 1.0, -1.0, -1.0, -0.9, -1.1], &[0, 0, 1, 1]);
        let queries = maps(&[2.0, 2.0, -3.0, -2.0, -1.0, -2.0], &[0, 1, 0]);
        assert!((neighbour_accuracy(&base, &queries, 1, || Ok(())).unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }

    /// The first feature is a thousand times as large and says nothing; three neighbours outvote the nearest one.
    #[test]
    fn neighbours_vote_in_standardised_features() {
        let maps = |rows: &[[f32; 2]], labels: &[u32]| CachedMaps {
            values: rows.concat(),
            shape: [2, 1, 1],
            labels: labels.to_vec(),
        };
        let base = maps(
            &[[1000.0, 1.0], [-1000.0, 1.1], [1000.0, 0.9], [-1000.0, -1.0], [1000.0, -1.1], [-1000.0, -0.9]],
            &[0, 0, 0, 1, 1, 1],
        );
        let queries = maps(&[[100.0, 0.8], [-100.0, -0.8]], &[0, 1]);
        assert_eq!(neighbour_accuracy(&base, &queries, 3, || Ok(())).unwrap(), 1.0);
        let base = maps(&[[0.0, 1.0], [0.4, 1.0], [-0.4, 1.0], [0.0, -1.0]], &[1, 0, 0, 1]);
        let queries = maps(&[[0.0, 1.0]], &[0]);
        assert_eq!(
            [1, 3].map(|neighbours| neighbour_accuracy(&base, &queries, neighbours, || Ok(())).unwrap()),
            [0.0, 1.0]
        );
    }
}
