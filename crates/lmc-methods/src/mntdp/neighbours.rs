//! How well features tell a task: by the nearest neighbours among its own images.

use burn::tensor::{Device, Tensor, TensorData};

/// Maps of images, row by row, with their labels.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) values: Vec<f32>,
    pub(super) shape: [usize; 3],
    pub(super) labels: Vec<u32>,
}

impl Kept {
    /// The maps and labels at these places.
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

/// Share of `asked` whose label most of the nearest of `known` have, by the cosine of standardised features.
pub(super) fn neighbour_accuracy(known: &Kept, asked: &Kept, neighbours: usize) -> f64 {
    let length: usize = known.shape.iter().product();
    let count = known.labels.len().max(1) as f64;
    let mut mean = vec![0.0_f64; length];
    known.values.chunks(length.max(1)).for_each(|row| {
        mean.iter_mut().zip(row).for_each(|(mean, &value)| *mean += f64::from(value) / count);
    });
    let mut deviation = vec![0.0_f64; length];
    known.values.chunks(length.max(1)).for_each(|row| {
        let terms = deviation.iter_mut().zip(row).zip(&mean);
        terms.for_each(|((sum, &value), mean)| *sum += (f64::from(value) - mean).powi(2) / count);
    });
    let standardised = |kept: &Kept| -> Vec<Vec<f32>> {
        kept.values
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
    let (base, asked_rows) = (standardised(known), standardised(asked));
    let classes = known.labels.iter().chain(&asked.labels).max().map_or(0, |&label| label as usize + 1);
    let right = asked_rows.iter().zip(&asked.labels).filter(|(row, label)| {
        let mut near: Vec<(f32, u32)> = base
            .iter()
            .zip(&known.labels)
            .map(|(other, &label)| (row.iter().zip(other).map(|(a, b)| a * b).sum::<f32>(), label))
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut votes = vec![0_u32; classes];
        near.iter().take(neighbours).for_each(|(_, label)| votes[*label as usize] += 1);
        let best = (0..classes).rev().max_by_key(|&class| votes[class]).unwrap_or(0);
        best == **label as usize
    });
    right.count() as f64 / asked.labels.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_by_hand() {
        let kept = |values: &[f32], labels: &[u32]| Kept {
            values: values.to_vec(),
            shape: [2, 1, 1],
            labels: labels.to_vec(),
        };
        let known = kept(&[1.0, 0.9, 1.1, 1.0, -1.0, -1.0, -0.9, -1.1], &[0, 0, 1, 1]);
        let asked = kept(&[2.0, 2.0, -3.0, -2.0, -1.0, -2.0], &[0, 1, 0]);
        assert!((neighbour_accuracy(&known, &asked, 1) - 2.0 / 3.0).abs() < 1e-12);
    }

    /// The first feature is a thousand times as large and says nothing; three neighbours outvote the nearest one.
    #[test]
    fn neighbours_vote_in_standardised_features() {
        let kept = |rows: &[[f32; 2]], labels: &[u32]| Kept {
            values: rows.concat(),
            shape: [2, 1, 1],
            labels: labels.to_vec(),
        };
        let known = kept(
            &[[1000.0, 1.0], [-1000.0, 1.1], [1000.0, 0.9], [-1000.0, -1.0], [1000.0, -1.1], [-1000.0, -0.9]],
            &[0, 0, 0, 1, 1, 1],
        );
        let asked = kept(&[[100.0, 0.8], [-100.0, -0.8]], &[0, 1]);
        assert_eq!(neighbour_accuracy(&known, &asked, 3), 1.0);
        let known = kept(&[[0.0, 1.0], [0.4, 1.0], [-0.4, 1.0], [0.0, -1.0]], &[1, 0, 0, 1]);
        let asked = kept(&[[0.0, 1.0]], &[0]);
        assert_eq!([1, 3].map(|neighbours| neighbour_accuracy(&known, &asked, neighbours)), [0.0, 1.0]);
    }
}
