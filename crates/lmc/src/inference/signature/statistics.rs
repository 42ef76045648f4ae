//! Statistics of a task's descriptors: for each class how many images and their mean, one covariance within classes, and
//! how descriptors move when pictures are changed a little (the nuisance).
//!
//! They are collected once, from the training images, when the task is learned, and no other task ever changes them. No
//! image is kept.

use super::descriptor::LENGTH;
use super::reach::Reach;

/// Numbers of the lower triangle of a covariance.
pub const TRIANGLE: usize = LENGTH * (LENGTH + 1) / 2;

/// Most images that a class may claim: numbers up to here are whole in f32.
const MOST_IMAGES: f32 = 16_777_216.0;

/// How the images of a task look.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Number of training images of each class.
    pub counts: Vec<f32>,
    /// Mean descriptor of each class, `[class][number]`; of a class without images, that of the task.
    pub means: Vec<Vec<f32>>,
    /// Covariance within classes: the lower triangle, row by row.
    pub within: Vec<f32>,
    /// Mean product of the differences that changes make, weighted by kind: the lower triangle, row by row.
    pub nuisance: Vec<f32>,
    /// Which distances are usual ([`super::distance`]), for novelty; `None` of too few images.
    pub reach: Option<Reach>,
}

impl Signature {
    /// Number of training images.
    pub fn images(&self) -> f64 {
        self.counts.iter().map(|&count| f64::from(count)).sum()
    }

    /// Number of classes that had images.
    pub fn classes(&self) -> usize {
        self.counts.iter().filter(|&&count| count > 0.0).count()
    }

    /// Degrees of freedom of the covariance within classes.
    pub fn freedom(&self) -> f64 {
        (self.images() - self.classes() as f64).max(1.0)
    }

    /// Mean descriptor of all images.
    pub fn mean(&self) -> Vec<f64> {
        let (images, mut mean) = (self.images().max(1.0), vec![0.0; LENGTH]);
        for (&count, class) in self.counts.iter().zip(&self.means) {
            let share = f64::from(count) / images;
            mean.iter_mut().zip(class).for_each(|(sum, &number)| *sum += share * f64::from(number));
        }
        mean
    }

    /// Covariance of images as they may come, changed or not: the lower triangle.
    pub fn spread(&self) -> impl Iterator<Item = f64> + '_ {
        self.within.iter().zip(&self.nuisance).map(|(&a, &b)| f64::from(a) + f64::from(b))
    }

    /// Whether these can be the statistics of a task with so many classes: some images, finite numbers, variances that
    /// are not negative.
    pub fn fits(&self, classes: usize) -> bool {
        let finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
        let whole = |&count: &f32| (0.0..=MOST_IMAGES).contains(&count) && count.fract() == 0.0;
        let covariance = |triangle: &[f32]| {
            triangle.len() == TRIANGLE
                && finite(triangle)
                && (0..LENGTH).all(|row| triangle[row * (row + 3) / 2] >= 0.0)
        };
        self.counts.len() == classes
            && self.means.len() == classes
            && self.counts.iter().all(whole)
            && self.images() > 0.0
            && self.means.iter().all(|mean| mean.len() == LENGTH && finite(mean))
            && covariance(&self.within)
            && covariance(&self.nuisance)
            && self.reach.is_none_or(Reach::is_sound)
    }

    /// Statistics of two sets of images of one task together. The classes of `self` are the first ones of `other`.
    pub fn pooled(&self, other: &Self) -> Self {
        let mut collected = Collector::of(self, other.counts.len());
        collected.include(&Collector::of(other, other.counts.len()));
        let reach = match (self.reach, other.reach) {
            (Some(reach), Some(other)) => Some(reach.wider(other)),
            (reach, other) => reach.or(other),
        };
        Self { reach, ..collected.finish() }
    }
}

/// Collects statistics, image by image.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Images of each class.
    counts: Vec<f64>,
    /// Sums of descriptors, `[class][number]`.
    sums: Vec<Vec<f64>>,
    /// Sums of products of descriptors' numbers: the lower triangle.
    products: Vec<f64>,
    /// Weighted sums of products of differences that changes made: the lower triangle.
    differences: Vec<f64>,
}

impl Collector {
    /// Collects nothing yet.
    pub fn new(classes: usize) -> Self {
        Self {
            counts: vec![0.0; classes],
            sums: vec![vec![0.0; LENGTH]; classes],
            products: vec![0.0; TRIANGLE],
            differences: vec![0.0; TRIANGLE],
        }
    }

    /// Adds the descriptor of an image with its class.
    pub fn add(&mut self, class: usize, descriptor: &[f32]) {
        self.counts[class] += 1.0;
        let numbers: Vec<f64> = descriptor.iter().map(|&number| f64::from(number)).collect();
        add_scaled(&mut self.sums[class], &numbers, 1.0);
        add_products(&mut self.products, &numbers, 1.0);
    }

    /// Adds what a change of an image that was added did to its descriptor; the kind of change has this weight.
    pub fn add_change(&mut self, descriptor: &[f32], changed: &[f32], weight: f64) {
        let difference = changed.iter().zip(descriptor).map(|(&a, &b)| f64::from(a) - f64::from(b));
        add_products(&mut self.differences, &difference.collect::<Vec<f64>>(), weight);
    }

    /// What was collected for statistics that are known, with room for further classes.
    fn of(signature: &Signature, classes: usize) -> Self {
        let mut collected = Self::new(classes);
        let (freedom, images) = (signature.freedom(), signature.images());
        let scaled = |to: &mut [f64], from: &[f32], by: f64| {
            to.iter_mut().zip(from).for_each(|(to, &from)| *to = by * f64::from(from));
        };
        scaled(&mut collected.products, &signature.within, freedom);
        scaled(&mut collected.differences, &signature.nuisance, images);
        for (class, (&count, mean)) in signature.counts.iter().zip(&signature.means).enumerate() {
            let count = f64::from(count);
            let mean: Vec<f64> = mean.iter().map(|&number| f64::from(number)).collect();
            collected.counts[class] = count;
            collected.sums[class] = mean.iter().map(|number| count * number).collect();
            add_products(&mut collected.products, &mean, count);
        }
        collected
    }

    /// Adds what was collected from other images, with as many classes.
    pub fn include(&mut self, other: &Self) {
        add_scaled(&mut self.counts, &other.counts, 1.0);
        self.sums.iter_mut().zip(&other.sums).for_each(|(to, from)| add_scaled(to, from, 1.0));
        add_scaled(&mut self.products, &other.products, 1.0);
        add_scaled(&mut self.differences, &other.differences, 1.0);
    }

    /// Whether anything was collected.
    pub fn has_images(&self) -> bool {
        self.counts.iter().any(|&count| count > 0.0)
    }

    /// The statistics.
    pub fn finish(mut self) -> Signature {
        let images = self.counts.iter().sum::<f64>();
        let total = images.max(1.0);
        let overall: Vec<f64> =
            (0..LENGTH).map(|at| self.sums.iter().map(|sums| sums[at]).sum::<f64>() / total).collect();
        let mut means = Vec::with_capacity(self.sums.len());
        for (&count, sums) in self.counts.iter().zip(&self.sums) {
            if count > 0.0 {
                let mean: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
                add_products(&mut self.products, &mean, -count);
                means.push(mean);
            } else {
                means.push(overall.clone());
            }
        }
        let classes = self.counts.iter().filter(|&&count| count > 0.0).count() as f64;
        let covariance = |products: &[f64], freedom: f64| {
            let mut triangle: Vec<f32> = products.iter().map(|sum| (sum / freedom) as f32).collect();
            // Rounding can leave a variance of nothing below it.
            (0..LENGTH).map(|row| row * (row + 3) / 2).for_each(|at| triangle[at] = triangle[at].max(0.0));
            triangle
        };
        let round = |numbers: Vec<f64>| numbers.into_iter().map(|number| number as f32).collect();
        Signature {
            within: covariance(&self.products, (images - classes).max(1.0)),
            nuisance: covariance(&self.differences, total),
            reach: None,
            counts: self.counts.iter().map(|&count| count as f32).collect(),
            means: means.into_iter().map(round).collect(),
        }
    }
}

fn add_scaled(to: &mut [f64], from: &[f64], by: f64) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += by * from);
}

/// Adds the products of a vector's numbers to a lower triangle.
fn add_products(triangle: &mut [f64], numbers: &[f64], weight: f64) {
    let mut rest = triangle;
    for row in 0..numbers.len().min(LENGTH) {
        let (line, below) = rest.split_at_mut(row + 1);
        add_scaled(line, &numbers[..=row], weight * numbers[row]);
        rest = below;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor whose first two numbers are these.
    fn point(first: f32, second: f32) -> Vec<f32> {
        let mut numbers = vec![0.0; LENGTH];
        (numbers[0], numbers[1]) = (first, second);
        numbers
    }

    fn collected(points: &[(usize, f32, f32)]) -> Collector {
        let mut collector = Collector::new(3);
        for &(class, first, second) in points {
            collector.add(class, &point(first, second));
            collector.add_change(&point(first, second), &point(first + 1.0, second - 2.0), 0.5);
        }
        collector
    }

    const POINTS: [(usize, f32, f32); 5] =
        [(0, 1.0, 1.0), (0, 3.0, 5.0), (1, 0.0, 4.0), (1, 2.0, 2.0), (1, 4.0, 0.0)];

    #[test]
    fn by_hand() {
        let found = collected(&POINTS).finish();
        assert_eq!(found.counts, [2.0, 3.0, 0.0]);
        assert_eq!(found.means[0][..3], [2.0, 3.0, 0.0]);
        assert_eq!(found.means[1][..2], [2.0, 2.0]);
        assert_eq!(found.means[2][..2], [2.0, 2.4], "a class without images has the mean of the task");
        // Sums of squares (2 + 8, 8 + 8) and of products (4 - 8), three degrees of freedom.
        let expected = [10.0 / 3.0, -4.0 / 3.0, 16.0 / 3.0];
        assert!(
            found.within.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6),
            "{:?}",
            &found.within[..3]
        );
        assert_eq!(found.nuisance[..3], [0.5, -1.0, 2.0]);
        assert!(found.fits(3) && !found.fits(2));
    }

    #[test]
    fn sets_pool_in_either_order_to_what_all_give() {
        let (a, b) = (collected(&POINTS[..3]), collected(&POINTS[3..]));
        let all = collected(&POINTS).finish();
        let [a, b] = [a, b].map(Collector::finish);
        assert_eq!(a.pooled(&b), b.pooled(&a));
        let pooled = a.pooled(&b);
        assert_eq!(pooled.counts, all.counts);
        let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close(&pooled.nuisance, &all.nuisance) && close(&pooled.means[1], &all.means[1]));
        // One image of its class has no covariance of its own but takes a degree of freedom of 1 at least.
        assert!(
            close(&pooled.within[..3], &all.within[..3]),
            "{:?} {:?}",
            &pooled.within[..3],
            &all.within[..3]
        );
    }

    #[test]
    fn damaged_numbers_do_not_fit() {
        let good = collected(&POINTS).finish();
        let spoil: [fn(&mut Signature); 7] = [
            |signature| signature.counts[0] = f32::NAN,
            |signature| signature.counts[0] = 1.5,
            |signature| signature.counts = vec![0.0; 3],
            |signature| signature.means[1][7] = f32::INFINITY,
            |signature| signature.within[2] = -1.0,
            |signature| signature.nuisance[9] = f32::NAN,
            |signature| signature.nuisance.truncate(5),
        ];
        for (number, spoil) in spoil.iter().enumerate() {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert!(!bad.fits(3), "{number}");
        }
    }
}
