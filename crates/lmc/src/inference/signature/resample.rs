//! Resampling of square planes: linear interpolation, or means over what falls together.

/// How the rows and columns of one size are made from those of another.
#[derive(Clone, Debug)]
pub struct Resample {
    from: usize,
    /// For each row or column of the result, the first that it takes from, and their shares.
    shares: Vec<(usize, Vec<f32>)>,
}

impl Resample {
    /// Prepares for planes of a side, to become planes of another side.
    pub fn new(from: usize, to: usize) -> Self {
        let scale = from as f64 / to as f64;
        let reach = scale.max(1.0);
        let shares = (0..to).map(|at| {
            let centre = (at as f64 + 0.5) * scale - 0.5;
            let first = (centre - reach).ceil().max(0.0) as usize;
            let last = ((centre + reach).floor() as usize).min(from.saturating_sub(1));
            let share = |place: usize| (1.0 - (place as f64 - centre).abs() / reach).max(0.0);
            let shares: Vec<f64> = (first..=last).map(share).collect();
            let total: f64 = shares.iter().sum();
            (first, shares.iter().map(|share| (share / total) as f32).collect())
        });
        Self { from, shares: shares.collect() }
    }

    /// Resamples a plane. Values that are missing count as 0.
    pub fn apply(&self, plane: &[f32]) -> Vec<f32> {
        let side = self.shares.len();
        let mut narrow = vec![0.0_f32; self.from * side];
        for (row, narrow) in plane.chunks_exact(self.from).zip(narrow.chunks_exact_mut(side)) {
            for (value, (first, shares)) in narrow.iter_mut().zip(&self.shares) {
                *value = row[*first..].iter().zip(shares).map(|(value, share)| value * share).sum();
            }
        }
        let mut result = vec![0.0_f32; side * side];
        for (row, (first, shares)) in result.chunks_exact_mut(side).zip(&self.shares) {
            for (share, from) in shares.iter().zip(narrow[first * side..].chunks_exact(side)) {
                row.iter_mut().zip(from).for_each(|(sum, value)| *sum += share * value);
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_weighted_means_and_the_same_size_is_the_same() {
        let plane: Vec<f32> = (0..16).map(|value| value as f32).collect();
        assert_eq!(Resample::new(4, 4).apply(&plane), plane);
        let flat = Resample::new(4, 2).apply(&[0.5; 16]);
        assert!(flat.iter().all(|value| (value - 0.5).abs() < 1e-6), "{flat:?}");
        // The first of two takes from 0, 1, 2 with shares 3, 3, 1 of 7; the centre of columns is 5 / 7.
        let half = Resample::new(4, 2).apply(&plane);
        let place = (0.0 * 3.0 + 1.0 * 3.0 + 2.0) / 7.0;
        assert!((half[0] - (4.0 * place + place)).abs() < 1e-5, "{half:?}");
        let twice = Resample::new(2, 4).apply(&[0.0, 1.0, 0.0, 1.0]);
        assert_eq!(twice[..4], [0.0, 0.25, 0.75, 1.0]);
    }
}
