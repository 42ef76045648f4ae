//! Detection: how well a score tells what is new from what is known.

use serde::{Deserialize, Serialize};

/// How well a score tells new images from known ones; shares of 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detection {
    /// Probability that a new image has a higher score than a known one (area under the ROC curve).
    pub auroc: f64,
    /// Share of new images above the threshold that 1 % of the known ones are above.
    pub hits_at_1: f64,
    /// The same for 5 %.
    pub hits_at_5: f64,
}

impl Detection {
    /// Compares the scores of known and of new images; `None` without either. Scores are finite.
    pub fn of(known: &[f64], new: &[f64]) -> Option<Self> {
        if known.is_empty() || new.is_empty() {
            return None;
        }
        let mut sorted = known.to_vec();
        sorted.sort_by(f64::total_cmp);
        let below = |score: f64| sorted.partition_point(|&other| other < score) as f64;
        let equal = |score: f64| sorted.partition_point(|&other| other <= score) as f64 - below(score);
        let wins: f64 = new.iter().map(|&score| below(score) + equal(score) / 2.0).sum();
        let hits = |share: f64| {
            // As many known images as that share may be above the threshold.
            let allowed = (sorted.len() as f64 * share) as usize;
            let threshold = sorted[sorted.len() - 1 - allowed.min(sorted.len() - 1)];
            new.iter().filter(|&&score| score > threshold).count() as f64 / new.len() as f64
        };
        Some(Self {
            auroc: wins / (known.len() * new.len()) as f64,
            hits_at_1: hits(0.01),
            hits_at_5: hits(0.05),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let known: Vec<f64> = (0..100).map(f64::from).collect();
        let found = Detection::of(&known, &[98.5, 97.5, 50.0, -1.0]).unwrap();
        // 99 + 98 + 50.5 + 0 of 400 pairs; one known image may be above the threshold, 98, and five above 94.
        assert!((found.auroc - 247.5 / 400.0).abs() < 1e-12);
        assert_eq!((found.hits_at_1, found.hits_at_5), (0.25, 0.5));
        assert_eq!(Detection::of(&known, &known).unwrap().auroc, 0.5);
        assert!(Detection::of(&known, &[]).is_none() && Detection::of(&[], &known).is_none());
    }
}
