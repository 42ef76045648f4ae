//! Classification by a linear rule over the classes of all tasks: the nearest mean in some metric.

use burn::tensor::Tensor;
use lmc::internals::inference::evaluation::{Classification, Classify};
use lmc::internals::tensors::values;
use lmc::{Error, Protocol, Result};

use crate::method::{given_task, unknown_task};
use crate::trunk::FrozenTrunk;

/// `Λ μ` for each mean, where Λ is the inverse of `(1 - shrinkage) Σ + shrinkage I`, by Cholesky's factors.
pub fn solve(covariance: &[f32], length: usize, shrinkage: f64, means: &[f64]) -> Result<Vec<Vec<f64>>> {
    let mut factor = vec![0.0_f64; length * length];
    for row in 0..length {
        for column in 0..=row {
            let mut entry = (1.0 - shrinkage) * f64::from(covariance[row * length + column]);
            if row == column {
                entry += shrinkage;
            }
            let (above, left) = (&factor[column * length..][..column], &factor[row * length..][..column]);
            let rest = entry - above.iter().zip(left).map(|(a, b)| a * b).sum::<f64>();
            factor[row * length + column] = if row == column {
                if rest <= 0.0 {
                    let problem = "the covariance of the features is not positive";
                    return Err(Error::setting("slda", problem, "use a larger shrinkage"));
                }
                rest.sqrt()
            } else {
                rest / factor[column * length + column]
            };
        }
    }
    let solved = means.chunks(length.max(1)).map(|mean| {
        let mut x = mean.to_vec();
        for row in 0..length {
            let known: f64 = factor[row * length..][..row].iter().zip(&x).map(|(a, b)| a * b).sum();
            x[row] = (x[row] - known) / factor[row * length + row];
        }
        for row in (0..length).rev() {
            let known: f64 = (row + 1..length).map(|below| factor[below * length + row] * x[below]).sum();
            x[row] = (x[row] - known) / factor[row * length + row];
        }
        x
    });
    Ok(solved.collect())
}

/// A linear rule over the classes of all tasks.
pub struct LinearClassifier {
    /// The trunk that computes the features.
    pub trunk: FrozenTrunk,
    /// A row of weights for each class.
    pub rows: Vec<Vec<f64>>,
    /// A bias for each class.
    pub biases: Vec<f64>,
    /// Whether there were training images of each class.
    pub seen: Vec<bool>,
    /// Classes of each list of classes.
    pub ranges: Vec<std::ops::Range<usize>>,
    /// The list of classes of each task.
    pub list_of: Vec<usize>,
}

impl LinearClassifier {
    /// The class among these with the largest score, the first of equals, as task and label.
    fn nearest(&self, features: &[f32], among: &mut dyn Iterator<Item = usize>) -> Classification {
        let score = |class: usize| {
            let products = self.rows[class].iter().zip(features).map(|(a, b)| a * f64::from(*b));
            products.sum::<f64>() + self.biases[class]
        };
        let scored = among.filter(|&class| self.seen[class]).map(|class| (class, score(class)));
        let best = scored.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let Some((class, _)) = best else { return Classification::default() };
        let list = self.ranges.iter().position(|range| range.contains(&class)).unwrap_or(0);
        let task = self.list_of.iter().position(|&other| other == list).unwrap_or(0);
        Classification { task, label: (class - self.ranges[list].start) as u32, weights: Vec::new() }
    }
}

impl Classify for LinearClassifier {
    fn classify(
        &self,
        images: &Tensor<4>,
        task: Option<usize>,
        protocols: &[Protocol],
    ) -> Result<Vec<Vec<Classification>>> {
        let features = self.trunk.features(images.clone())?;
        let length = features.dims()[1];
        let features = values(&features);
        let classify = |&protocol: &Protocol| -> Result<Vec<Classification>> {
            let rows = features.chunks(length.max(1));
            if protocol != Protocol::TaskGiven {
                return Ok(rows.map(|row| self.nearest(row, &mut (0..self.rows.len()))).collect());
            }
            let task = given_task("method", protocol, task)?;
            let &list = self.list_of.get(task).ok_or_else(|| unknown_task(task))?;
            let classes = || self.ranges[list].clone();
            Ok(rows.map(|row| Classification { task, ..self.nearest(row, &mut classes()) }).collect())
        };
        protocols.iter().map(classify).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A covariance of 2 and 0.5 without correlation: means are divided by it.
    #[test]
    fn solving_by_hand() {
        let rows = solve(&[2.0, 0.0, 0.0, 0.5], 2, 1e-9, &[1.0, 1.0, 4.0, -1.0]).unwrap();
        for (found, wanted) in rows.concat().iter().zip([0.5, 2.0, 2.0, -2.0]) {
            assert!((found - wanted).abs() < 1e-6, "{rows:?}");
        }
    }
}
