//! Means of classes and the covariance around them, image by image, as streaming LDA has it.

/// Running means and covariance of features, in 64 bits.
pub struct Moments {
    /// Number of features.
    pub length: usize,
    /// Mean of each class, `[class, feature]`.
    pub means: Vec<f64>,
    /// Number of images of each class.
    pub counts: Vec<u64>,
    /// Covariance around the means, `[feature, feature]`; empty if it is not needed.
    pub covariance: Vec<f64>,
}

impl Moments {
    /// Adds the features of an image of a class. With t images before it and the mean μ of its class before it, 0 for the
    /// first: `Σ ← (t Σ + t / (t + 1) (x - μ)(x - μ)ᵀ) / (t + 1)`.
    pub fn add(&mut self, class: usize, row: &[f32]) {
        let seen = self.counts.iter().sum::<u64>() as f64;
        let mean = &mut self.means[class * self.length..(class + 1) * self.length];
        let apart: Vec<f64> = row.iter().zip(&*mean).map(|(x, mean)| f64::from(*x) - mean).collect();
        for (entries, a) in self.covariance.chunks_mut(self.length.max(1)).zip(&apart) {
            let scaled = a * seen / (seen + 1.0);
            for (entry, b) in entries.iter_mut().zip(&apart) {
                *entry = (seen * *entry + scaled * b) / (seen + 1.0);
            }
        }
        self.counts[class] += 1;
        let share = 1.0 / self.counts[class] as f64;
        mean.iter_mut().zip(&apart).for_each(|(mean, apart)| *mean += apart * share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_covariance_by_hand() {
        let mut moments =
            Moments { length: 2, means: vec![0.0; 4], counts: vec![0; 2], covariance: vec![0.0; 4] };
        // t = 0: nothing. t = 1: (0 + 1/2 · 2²) / 2 = 1. t = 2: (2 · 1) / 3 and (2/3 · 2²) / 3.
        for (class, row) in [(0, [1.0, 0.0]), (0, [3.0, 0.0]), (1, [0.0, 2.0])] {
            moments.add(class, &row);
        }
        assert_eq!((moments.means, moments.counts), (vec![2.0, 0.0, 0.0, 2.0], vec![2, 1]));
        for (found, wanted) in moments.covariance.iter().zip([2.0 / 3.0, 0.0, 0.0, 8.0 / 9.0]) {
            assert!((found - wanted).abs() < 1e-12, "{:?}", moments.covariance);
        }
    }
}
