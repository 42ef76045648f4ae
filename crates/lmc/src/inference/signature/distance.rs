//! Distance: how far an image is from the classes of one task, in the task's own covariance. What is far is new.
//!
//! ```text
//! V = W_t with off-diagonals times n / (d + n)
//! D = min over c of (x - m_c)ᵀ V⁻¹ (x - m_c)
//! ```

use super::descriptor::LENGTH;
use super::statistics::Signature;
use crate::inference::cholesky::{cholesky, solve};

/// What is added to the diagonal, as a share of its mean.
const RIDGE: f64 = 1e-6;

/// The least that is added: of very few images no number may vary at all.
const SMALLEST: f64 = 1e-6;

/// The classes of one task, in units of its covariance.
#[derive(Clone, Debug)]
pub struct OwnDistance {
    factor: Vec<Vec<f64>>,
    /// Class means, `L⁻¹ m_c`.
    classes: Vec<Vec<f64>>,
}

impl OwnDistance {
    /// Prepares; `None` if the covariance cannot be one.
    pub fn new(signature: &Signature) -> Option<Self> {
        let images = signature.images();
        let kept = images / (LENGTH as f64 + images);
        let at = |row: usize, column: usize| f64::from(signature.within[row * (row + 1) / 2 + column]);
        let mean = (0..LENGTH).map(|row| at(row, row)).sum::<f64>() / LENGTH as f64;
        let ridge = (RIDGE * mean).max(SMALLEST);
        let covariance = |row: usize, column: usize| {
            if row == column { at(row, row) + ridge } else { kept * at(row, column) }
        };
        let factor = cholesky(LENGTH, covariance)?;
        let known = signature.counts.iter().zip(&signature.means).filter(|(count, _)| **count > 0.0);
        let classes = known.map(|(_, mean)| solve(&factor, &widened(mean))).collect();
        Some(Self { factor, classes })
    }

    /// Logarithm of the squared distance of an image from the nearest class.
    pub fn log_distance(&self, descriptor: &[f32]) -> f64 {
        let place = solve(&self.factor, &widened(descriptor));
        let distance =
            |class: &Vec<f64>| place.iter().zip(class).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
        let nearest = self.classes.iter().map(distance).fold(f64::INFINITY, f64::min);
        libm::log(nearest.max(f64::MIN_POSITIVE))
    }
}

fn widened(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&number| f64::from(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::statistics::TRIANGLE;
    use super::*;

    #[test]
    fn the_nearest_class_counts_in_units_of_the_covariance() {
        let mut within = vec![0.0; TRIANGLE];
        (0..LENGTH).for_each(|row| within[row * (row + 3) / 2] = 4.0);
        let at = |first: f32| {
            let mut numbers = vec![0.0; LENGTH];
            numbers[0] = first;
            numbers
        };
        let signature = Signature {
            counts: vec![10.0, 10.0, 0.0],
            means: vec![at(0.0), at(10.0), at(5.0)],
            within,
            nuisance: vec![0.0; TRIANGLE],
            reach: None,
        };
        let distance = OwnDistance::new(&signature).unwrap();
        // The third class had no images: 4 is four off the first class, whose deviation is 2.
        for (first, expected) in [(4.0, 4.0_f64), (7.0, 9.0 / 4.0), (-2.0, 1.0)] {
            let found = distance.log_distance(&at(first));
            assert!((found - expected.ln()).abs() < 1e-3, "{first}: {found}");
        }
    }
}
