//! Task Gaussian: the distribution of a task's scores, which tells how likely an image is for the task.
//!
//! The paper compares heads by their raw structural losses. These are not on one scale: a head that was trained a little
//! longer, or on simpler images, has smaller losses everywhere and takes images of other tasks. But when a task is
//! learned, its validation images show which losses are usual for its head and for each layer before it. Their *score
//! profiles*, the logarithms of the head's structural loss and of each layer's (that of its modules, weighted as they
//! were), are described by a normal distribution with all covariances, in the head's own view: behind the modules that
//! were there when it was learned, so that it holds for ever. The log-likelihood of a profile then counts beside a head's
//! loss ([`HeadChoice::TaskGaussian`]), and an image that is far from all tasks is new ([`super::novelty`]).
//!
//! ```text
//! distance(p)  = | L⁻¹ (p - μ) |                    Mahalanobis distance, Σ = L Lᵀ
//! -log N(p)    = distance² / 2 + log det L + const  negative log-likelihood
//! ```
//!
//! [`HeadChoice::TaskGaussian`]: super::HeadChoice::TaskGaussian

use serde::{Deserialize, Serialize};

use super::cholesky::{cholesky, solve};
use super::signature::Reach;
use crate::error::Result;

/// Normal distribution of a task's score profiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskGaussian {
    /// μ: mean of each score of a profile, the head's first, then each layer's.
    pub means: Vec<f64>,
    /// Lower triangle `L` of the covariance `Σ = L Lᵀ`, row by row.
    pub factor: Vec<Vec<f64>>,
    /// Mahalanobis distance beyond which an image is not of this task.
    pub limit: f64,
}

/// Fewest images for one fit; the folds make it 6 for a task.
const FEWEST: usize = 5;

/// Number of folds of the images; distances in each are measured with the distribution of the others.
const FOLDS: usize = 10;

/// Smallest standard deviation of a score, a logarithm, that is believed.
const SMALLEST: f64 = 1e-3;

impl TaskGaussian {
    /// Estimates the distribution from profiles of validation images; `None` of too few.
    ///
    /// The limit is such that about the share `false_alarms` of images is beyond it; a tenth of the images at most is. An
    /// image's own distance is measured without it, as a new one's is.
    pub fn of(profiles: &[Vec<f64>], false_alarms: f64) -> Option<Self> {
        let nowhere = |far: &[usize]| Ok(vec![false; far.len()]);
        Self::of_with_others(profiles, false_alarms, nowhere).ok()?
    }

    /// The same, and images within another task's limit may be beyond this one without an alarm: `elsewhere` says which of
    /// some images those are. It is asked about the farthest tenth of the images, which alone can move the limit.
    pub fn of_with_others(
        profiles: &[Vec<f64>],
        false_alarms: f64,
        elsewhere: impl FnOnce(&[usize]) -> Result<Vec<bool>>,
    ) -> Result<Option<Self>> {
        let Some((gaussian, mut distances)) = Self::with_distances(profiles) else { return Ok(None) };
        distances.sort_by(|a, b| a.0.total_cmp(&b.0));
        let tenth = (profiles.len() * 9).div_ceil(10);
        let (least, _) = distances[tenth - 1];
        let far: Vec<usize> = distances[tenth..].iter().map(|(_, image)| *image).collect();
        let elsewhere = elsewhere(&far)?;
        let strange = distances[tenth..].iter().zip(elsewhere).filter(|(_, elsewhere)| !elsewhere);
        let strange: Vec<f64> = strange.map(|((distance, _), _)| *distance).collect();
        // The place of a new image among these: with few images the farthest of them is the limit.
        let allowed = ((profiles.len() + 1) as f64 * false_alarms) as usize;
        let limit = strange.len().checked_sub(allowed.max(1)).map_or(least, |place| strange[place]);
        Ok(Some(Self { limit, ..gaussian }))
    }

    /// The distribution, and the distance of each image from that of other images, `(distance, image)`.
    fn with_distances(profiles: &[Vec<f64>]) -> Option<(Self, Vec<(f64, usize)>)> {
        let gaussian = Self::fit(profiles.iter())?;
        let mut distances = Vec::with_capacity(profiles.len());
        for part in 0..FOLDS {
            let others = profiles.iter().enumerate().filter(|(image, _)| image % FOLDS != part);
            let without = Self::fit(others.map(|(_, profile)| profile))?;
            let images = (part..profiles.len()).step_by(FOLDS);
            distances.extend(images.map(|image| (without.distance(&profiles[image]), image)));
        }
        Some((gaussian, distances))
    }

    /// Mean and covariance, without a limit.
    fn fit<'a>(profiles: impl Iterator<Item = &'a Vec<f64>>) -> Option<Self> {
        let profiles: Vec<&Vec<f64>> = profiles.collect();
        let length = profiles.first().map_or(0, |profile| profile.len());
        let usable =
            |profile: &&Vec<f64>| profile.len() == length && profile.iter().all(|number| number.is_finite());
        if length == 0 || profiles.len() < FEWEST || !profiles.iter().all(usable) {
            return None;
        }
        let mean = |number: &dyn Fn(&Vec<f64>) -> f64| {
            profiles.iter().map(|profile| number(profile)).sum::<f64>() / profiles.len() as f64
        };
        let means: Vec<f64> = (0..length).map(|at| mean(&|profile| profile[at])).collect();
        // Few images determine variances better than covariances.
        let shrink = profiles.len() as f64 / (profiles.len() + length) as f64;
        let covariance = |row: usize, column: usize| {
            let product = mean(&|profile| (profile[row] - means[row]) * (profile[column] - means[column]));
            if row == column { product + SMALLEST * SMALLEST } else { product * shrink }
        };
        let factor = cholesky(length, covariance)?;
        Some(Self { means, factor, limit: f64::INFINITY })
    }

    /// The distribution of two sets of images together, from the distribution and the number of images of each. The
    /// limit is the wider one.
    pub fn pooled(&self, count: usize, other: &Self, other_count: usize) -> Option<Self> {
        let total = (count + other_count).max(1) as f64;
        let parts = [(self, count as f64 / total), (other, other_count as f64 / total)];
        let length = self.means.len();
        if other.means.len() != length {
            return None;
        }
        let means: Vec<f64> =
            (0..length).map(|at| parts.iter().map(|(part, share)| share * part.means[at]).sum()).collect();
        let covariance = |row: usize, column: usize| -> f64 {
            let within = |part: &Self| -> f64 {
                part.factor[row].iter().zip(&part.factor[column]).map(|(a, b)| a * b).sum()
            };
            let between = |part: &Self| (part.means[row] - means[row]) * (part.means[column] - means[column]);
            parts.iter().map(|(part, share)| share * (within(part) + between(part))).sum()
        };
        let factor = cholesky(length, covariance)?;
        Some(Self { means, factor, limit: self.limit.max(other.limit) })
    }

    /// Mahalanobis distance of a profile from the task: the length of `L⁻¹ (profile - μ)`.
    pub fn distance(&self, profile: &[f64]) -> f64 {
        let offset: Vec<f64> = profile.iter().zip(&self.means).map(|(number, mean)| number - mean).collect();
        let solved = solve(&self.factor, &offset);
        solved.iter().map(|number| number * number).sum::<f64>().sqrt()
    }

    /// Minus the log-likelihood of a profile, up to a constant that all tasks share.
    pub fn negative_log_likelihood(&self, profile: &[f64]) -> f64 {
        let log_determinant: f64 = self.factor.iter().enumerate().map(|(at, row)| row[at].ln()).sum();
        let distance = self.distance(profile);
        distance * distance / 2.0 + log_determinant
    }

    /// Whether an image with this profile may be of the task: it is not beyond the limit.
    pub fn includes(&self, profile: &[f64]) -> bool {
        self.distance(profile) <= self.limit
    }

    /// How unusual a profile is for the task: 0 is typical, 1 the limit.
    pub fn novelty(&self, profile: &[f64]) -> f64 {
        let log = |distance: f64| libm::log(distance.max(f64::MIN_POSITIVE));
        // The median of what a normal distribution of as many numbers gives.
        let numbers = self.means.len() as f64;
        let typical = log(numbers) / 2.0 + 1.5 * log(1.0 - 2.0 / (9.0 * numbers));
        Reach { typical, limit: log(self.limit) }.novelty(log(self.distance(profile)))
    }

    /// Whether the distribution can be that of a head behind so many layers.
    pub fn fits(&self, depth: usize) -> bool {
        let row_fits = |(at, row): (usize, &Vec<f64>)| {
            row.len() == at + 1 && row[at] > 0.0 && row.iter().all(|number| number.is_finite())
        };
        self.means.len() == depth + 1
            && self.factor.len() == depth + 1
            && self.means.iter().all(|number| number.is_finite())
            && self.factor.iter().enumerate().all(row_fits)
            && self.limit >= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_the_share_asked_for_is_beyond_the_limit() {
        let mut random = lmc_streams::Seed::root(1).random();
        let mut draw = |count: usize| -> Vec<Vec<f64>> {
            (0..count).map(|_| (0..5).map(|_| random.normal()).collect()).collect()
        };
        let gaussian = TaskGaussian::of(&draw(2000), 0.05).unwrap();
        let fresh = draw(4000);
        let alarms = fresh.iter().filter(|profile| !gaussian.includes(profile)).count();
        assert!((120..280).contains(&alarms), "{alarms} of 4000 at a rate of 5 %");
        assert!(TaskGaussian::of(&draw(3), 0.01).is_none(), "too few");
    }

    #[test]
    fn images_at_home_elsewhere_leave_room_for_a_closer_limit() {
        let profiles: Vec<Vec<f64>> = (0..99).map(|at| vec![f64::from(at)]).collect();
        let alone = TaskGaussian::of(&profiles, 0.01).unwrap();
        assert!(profiles.iter().all(|profile| alone.includes(profile)), "the farthest is the limit");
        let with = |elsewhere: &dyn Fn(usize) -> bool| {
            let asked = |far: &[usize]| {
                assert!(far.len() < 10 && far.iter().all(|at| !(6..93).contains(at)), "{far:?}");
                Ok(far.iter().map(|&at| elsewhere(at)).collect())
            };
            TaskGaussian::of_with_others(&profiles, 0.01, asked).unwrap().unwrap()
        };
        let shared = with(&|at| !(3..96).contains(&at));
        assert!(
            shared.includes(&[94.0]) && !shared.includes(&[97.0]),
            "the farthest of the others is the limit"
        );
        let all = with(&|_| true);
        assert!(all.limit < shared.limit);
        let beyond = profiles.iter().filter(|profile| !all.includes(profile)).count();
        assert!((5..10).contains(&beyond), "a tenth at most: {beyond}");
    }

    /// Six points on a line, worked out on paper.
    #[test]
    fn by_hand() {
        let points: [[f64; 2]; 6] =
            [[0.0, -2.0], [1.0, -1.0], [2.0, 0.0], [3.0, 1.0], [4.0, 2.0], [2.0, 0.0]];
        let profiles: Vec<Vec<f64>> = points.iter().map(|point| point.to_vec()).collect();
        let gaussian = TaskGaussian::of(&profiles, 0.01).unwrap();
        assert_eq!(gaussian.means, [2.0, 0.0]);
        // Both variances are 10 / 6 (+ 1e-6), the covariance 10 / 6 * 6 / 8 = 1.25.
        let variance = 10.0 / 6.0 + 1e-6;
        let first = f64::sqrt(variance);
        assert!((gaussian.factor[0][0] - first).abs() < 1e-12);
        assert!((gaussian.factor[1][0] - 1.25 / first).abs() < 1e-12);
        let second = (variance - 1.25 * 1.25 / variance).sqrt();
        assert!((gaussian.factor[1][1] - second).abs() < 1e-12);
        // (1, 1) off the mean: (v + v - 2c) / (v² - c²).
        let square = (2.0 * variance - 2.5) / (variance * variance - 1.25 * 1.25);
        assert!((gaussian.distance(&[3.0, 1.0]).powi(2) - square).abs() < 1e-12);
        let determinant = variance * variance - 1.25 * 1.25;
        let expected = square / 2.0 + determinant.ln() / 2.0;
        assert!((gaussian.negative_log_likelihood(&[3.0, 1.0]) - expected).abs() < 1e-12);
        assert!(gaussian.fits(1) && !gaussian.fits(2));
    }

    /// Pooling is what a fit of all images together would give, but for the shrinkage of covariances.
    #[test]
    fn pooled_moments_are_those_of_all_images() {
        let [a, b] = [(0, 40, 0.0), (40, 100, 3.0)].map(|(from, to, shift)| -> Vec<Vec<f64>> {
            (from..to).map(|at| vec![f64::from(at % 7) + shift]).collect()
        });
        let fit = |profiles: &[Vec<f64>]| TaskGaussian::of(profiles, 0.01).unwrap();
        let pooled = fit(&a).pooled(a.len(), &fit(&b), b.len()).unwrap();
        let together = fit(&[a, b].concat());
        assert!((pooled.means[0] - together.means[0]).abs() < 1e-12);
        assert!((pooled.factor[0][0] - together.factor[0][0]).abs() < 1e-9);
        assert!(pooled.fits(0));
    }

    #[test]
    fn correlated_numbers_are_unusual_when_they_part() {
        let mut random = lmc_streams::Seed::root(2).random();
        let profiles: Vec<Vec<f64>> = (0..500)
            .map(|_| {
                let common = random.normal();
                vec![common, common + 0.1 * random.normal()]
            })
            .collect();
        let gaussian = TaskGaussian::of(&profiles, 0.01).unwrap();
        assert!(gaussian.distance(&[1.0, 1.0]) < 2.0 && gaussian.distance(&[1.0, -1.0]) > 8.0);
    }
}
