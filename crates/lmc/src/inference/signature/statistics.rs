//! Statistics of a task's descriptors: for each class how many images and their mean, and one covariance within classes.
//!
//! They are collected once, from the training images, when the task is learned, and no other task ever changes them. No
//! image is kept.

use super::descriptor::LENGTH;

/// Numbers of the lower triangle of a covariance.
pub const TRIANGLE: usize = LENGTH * (LENGTH + 1) / 2;

/// How the images of a task look.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Number of training images of each class.
    pub counts: Vec<f32>,
    /// Mean descriptor of each class, `[class][number]`; of a class without images, that of the task.
    pub means: Vec<Vec<f32>>,
    /// Covariance within classes: the lower triangle, row by row.
    pub within: Vec<f32>,
    /// Logarithm of the distance beyond which an image is not of this task ([`super::distance`]); `None` of too few
    /// validation images.
    pub limit: Option<f64>,
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

    /// Mean descriptor of all images.
    pub fn mean(&self) -> Vec<f64> {
        let (images, mut mean) = (self.images().max(1.0), vec![0.0; LENGTH]);
        for (&count, class) in self.counts.iter().zip(&self.means) {
            let share = f64::from(count) / images;
            mean.iter_mut().zip(class).for_each(|(sum, &number)| *sum += share * f64::from(number));
        }
        mean
    }

    /// Whether these can be the statistics of a task with so many classes: some images, finite numbers, variances that are
    /// not negative.
    pub fn fits(&self, classes: usize) -> bool {
        let finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
        let whole = |&count: &f32| (0.0..=16_777_216.0).contains(&count) && count.fract() == 0.0;
        self.counts.len() == classes
            && self.means.len() == classes
            && self.within.len() == TRIANGLE
            && self.counts.iter().all(whole)
            && self.images() > 0.0
            && self.means.iter().all(|mean| mean.len() == LENGTH && finite(mean))
            && finite(&self.within)
            && self.limit.is_none_or(f64::is_finite)
            && (0..LENGTH).all(|row| self.within[row * (row + 3) / 2] >= 0.0)
    }

    /// Statistics of two sets of images of one task together. The classes of `self` are the first ones of `other`.
    pub fn pooled(&self, other: &Self) -> Self {
        let mut collected = Collector::of(self, other.counts.len());
        collected.include(&Collector::of(other, other.counts.len()));
        let limit = match (self.limit, other.limit) {
            (Some(limit), Some(other)) => Some(limit.max(other)),
            (limit, other) => limit.or(other),
        };
        Self { limit, ..collected.finish() }
    }
}

/// Collects statistics, image by image.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Images of each class.
    counts: Vec<f64>,
    /// Weight of the descriptors of each class: images and their copies.
    weights: Vec<f64>,
    /// Weighted sums of descriptors, `[class][number]`.
    sums: Vec<Vec<f64>>,
    /// Weighted sums of products of descriptors' numbers: the lower triangle.
    products: Vec<f64>,
}

impl Collector {
    /// Collects nothing yet.
    pub fn new(classes: usize) -> Self {
        Self {
            counts: vec![0.0; classes],
            weights: vec![0.0; classes],
            sums: vec![vec![0.0; LENGTH]; classes],
            products: vec![0.0; TRIANGLE],
        }
    }

    /// Adds the descriptor of an image with its class.
    pub fn add(&mut self, class: usize, descriptor: &[f32]) {
        self.counts[class] += 1.0;
        self.add_copy(class, descriptor, 1.0);
    }

    /// Adds the descriptor of a changed copy of an image, which counts as this share of one.
    pub fn add_copy(&mut self, class: usize, descriptor: &[f32], weight: f64) {
        self.weights[class] += weight;
        let numbers: Vec<f64> = descriptor.iter().map(|&number| f64::from(number)).collect();
        self.sums[class].iter_mut().zip(&numbers).for_each(|(sum, number)| *sum += weight * number);
        self.add_products(&numbers, weight);
    }

    fn add_products(&mut self, numbers: &[f64], weight: f64) {
        let mut rest = self.products.as_mut_slice();
        for row in 0..numbers.len().min(LENGTH) {
            let (line, below) = rest.split_at_mut(row + 1);
            let factor = weight * numbers[row];
            line.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += factor * number);
            rest = below;
        }
    }

    /// What was collected for statistics that are known, with room for further classes.
    fn of(signature: &Signature, classes: usize) -> Self {
        let mut collected = Self::new(classes);
        let freedom = (signature.images() - signature.classes() as f64).max(1.0);
        for (sum, &within) in collected.products.iter_mut().zip(&signature.within) {
            *sum = freedom * f64::from(within);
        }
        for (class, (&count, mean)) in signature.counts.iter().zip(&signature.means).enumerate() {
            let (count, mean) = (f64::from(count), mean.iter().map(|&number| f64::from(number)));
            let mean: Vec<f64> = mean.collect();
            (collected.counts[class], collected.weights[class]) = (count, count);
            collected.sums[class] = mean.iter().map(|number| count * number).collect();
            collected.add_products(&mean, count);
        }
        collected
    }

    fn include(&mut self, other: &Self) {
        let add = |to: &mut [f64], from: &[f64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        add(&mut self.counts, &other.counts);
        add(&mut self.weights, &other.weights);
        self.sums.iter_mut().zip(&other.sums).for_each(|(to, from)| add(to, from));
        add(&mut self.products, &other.products);
    }

    /// The statistics.
    pub fn finish(mut self) -> Signature {
        let total: f64 = self.weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let overall: Vec<f64> =
            (0..LENGTH).map(|at| self.sums.iter().map(|sums| sums[at]).sum::<f64>() / total).collect();
        let mut means = Vec::with_capacity(self.sums.len());
        for class in 0..self.sums.len() {
            let weight = self.weights[class];
            if weight > 0.0 {
                let mean: Vec<f64> = self.sums[class].iter().map(|sum| sum / weight).collect();
                self.add_products(&mean, -weight);
                means.push(mean);
            } else {
                means.push(overall.clone());
            }
        }
        // As many degrees of freedom as images have; copies add none.
        let images: f64 = self.counts.iter().sum();
        let classes = self.counts.iter().filter(|&&count| count > 0.0).count() as f64;
        let scale = images / total / (images - classes).max(1.0);
        let mut within: Vec<f32> = self.products.iter().map(|sum| (sum * scale) as f32).collect();
        // Rounding can leave a variance of nothing below it.
        (0..LENGTH).for_each(|row| within[row * (row + 3) / 2] = within[row * (row + 3) / 2].max(0.0));
        let round = |numbers: Vec<f64>| numbers.into_iter().map(|number| number as f32).collect();
        Signature {
            counts: self.counts.iter().map(|&count| count as f32).collect(),
            means: means.into_iter().map(round).collect(),
            within,
            limit: None,
        }
    }
}
