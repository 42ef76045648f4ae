//! Discriminant: which task an image is of, from the signatures of all tasks (linear discriminant analysis over classes).
//!
//! ```text
//! W     = mean over tasks of W_t                    covariance within classes and of the changes of `changes`, pooled
//! S     = W with off-diagonals times 1 - l,         l = d/4 / (d/4 + N): the fewer images, the less they say of covariances
//! e_t   = tr(S⁻¹ W_t) / d                           how wide the task is in units of S
//! B_t   = variance of class means beyond what e_t alone would give
//! ρ_t   = B_t / (B_t + e_t mean(1/n_c))             how far class means are believed
//! m'_c  = m_t + ρ_t (m_c - m_t)
//! s_t(x) = log sum over c of n_c/n_t exp(-(|x - m'_c|² - d ρ_t e_t / n_c) / 2)        distances in units of S
//! ```
//!
//! `N` is the number of images that the pooled covariance is worth. The term `|x|²` is the same for all tasks and left out,
//! so that a class is one linear function of the descriptor.

use super::descriptor::LENGTH;
use super::planes::dot;
use super::statistics::Signature;
use crate::inference::cholesky::cholesky;

/// Length of a descriptor with zeros behind it.
const PADDED: usize = LENGTH.next_multiple_of(16);

/// Images that a pooled covariance must be worth before its off-diagonals count for half.
const HALF: f64 = LENGTH as f64 / 4.0;

/// What is added to the diagonal, as a share of its mean: numbers that never vary have no variance.
const RIDGE: f64 = 1e-6;

/// The least that is added: of very few images no number may vary at all.
const SMALLEST: f64 = 1e-6;

/// Compares tasks by their signatures.
#[derive(Clone, Debug)]
pub struct Discriminant {
    /// Subtracted from every descriptor.
    centre: Vec<f32>,
    /// The classes of each task.
    tasks: Vec<std::ops::Range<usize>>,
    /// Linear function of each class, row by row.
    weights: Vec<f32>,
    /// Constant of each class.
    constants: Vec<f64>,
}

impl Discriminant {
    /// Prepares the comparison; `None` without signatures, or if their numbers cannot be those of images.
    pub fn new(signatures: &[&Signature]) -> Option<Self> {
        if signatures.is_empty() {
            return None;
        }
        let inverse = inverse(&pooled(signatures))?;
        let apply = |vector: &[f64]| -> Vec<f64> {
            let row = |row: &[f64]| row.iter().zip(vector).map(|(a, b)| a * b).sum();
            inverse.chunks_exact(LENGTH).map(row).collect()
        };
        let means: Vec<Vec<f64>> = signatures.iter().map(|signature| signature.mean()).collect();
        let centre: Vec<f32> = (0..LENGTH)
            .map(|at| (means.iter().map(|mean| mean[at]).sum::<f64>() / means.len() as f64) as f32)
            .collect();
        let mut found = Self { centre, tasks: Vec::new(), weights: Vec::new(), constants: Vec::new() };
        for (signature, mean) in signatures.iter().zip(&means) {
            let first = found.constants.len();
            found.add_task(signature, mean, &inverse, &apply);
            found.tasks.push(first..found.constants.len());
        }
        let finite = found.weights.iter().all(|number| number.is_finite())
            && found.constants.iter().all(|number| number.is_finite());
        finite.then_some(found)
    }

    /// Adds the linear functions of a task's classes.
    fn add_task(
        &mut self,
        signature: &Signature,
        mean: &[f64],
        inverse: &[f64],
        apply: &dyn Fn(&[f64]) -> Vec<f64>,
    ) {
        let (images, length) = (signature.images(), LENGTH as f64);
        let classes: Vec<(f64, Vec<f64>)> = (signature.counts.iter().zip(&signature.means))
            .filter(|(count, _)| **count > 0.0)
            .map(|(&count, class)| {
                let offset = class.iter().zip(mean).map(|(&number, mean)| f64::from(number) - mean);
                (f64::from(count), offset.collect())
            })
            .collect();
        let width = trace_of_product(inverse, signature) / length;
        let scarcity = classes.iter().map(|(count, _)| 1.0 / count).sum::<f64>() / classes.len() as f64;
        let applied: Vec<Vec<f64>> = classes.iter().map(|(_, offset)| apply(offset)).collect();
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let spread = classes.iter().zip(&applied).map(|((_, offset), applied)| product(offset, applied));
        let spread = spread.sum::<f64>() / classes.len() as f64 / length;
        let between = (spread - width * (1.0 - 1.0 / classes.len() as f64) * scarcity).max(0.0);
        let belief = match between + width * scarcity {
            sum if sum > 0.0 => between / sum,
            _ => 0.0,
        };
        let centred: Vec<f64> =
            mean.iter().zip(&self.centre).map(|(mean, &centre)| mean - f64::from(centre)).collect();
        let towards = apply(&centred);
        for ((count, offset), applied) in classes.iter().zip(&applied) {
            let weights: Vec<f64> = towards.iter().zip(applied).map(|(a, b)| a + belief * b).collect();
            let place: Vec<f64> = centred.iter().zip(offset).map(|(a, b)| a + belief * b).collect();
            let square = product(&weights, &place);
            let correction = length * belief * width / count;
            self.constants.push((correction - square) / 2.0 + libm::log(count / images));
            self.weights.extend(weights.iter().map(|&weight| weight as f32));
            self.weights.resize(self.weights.len().next_multiple_of(PADDED), 0.0);
        }
    }

    /// Log-likelihood of each task for an image, up to a constant that all share.
    pub fn scores(&self, descriptor: &[f32]) -> Vec<f64> {
        let mut centred = [0.0_f32; PADDED];
        for ((to, from), centre) in centred.iter_mut().zip(descriptor).zip(&self.centre) {
            *to = from - centre;
        }
        let score = |class: usize| {
            let weights = &self.weights[class * PADDED..(class + 1) * PADDED];
            self.constants[class] + f64::from(dot(weights, &centred))
        };
        self.tasks
            .iter()
            .map(|classes| log_sum_exp(&classes.clone().map(score).collect::<Vec<_>>()))
            .collect()
    }
}

/// Covariance within classes of all tasks, its off-diagonals shrunk: the lower triangle.
fn pooled(signatures: &[&Signature]) -> Vec<f64> {
    let tasks = signatures.len() as f64;
    let worth = tasks * tasks / signatures.iter().map(|signature| 1.0 / signature.freedom()).sum::<f64>();
    let kept = worth / (HALF + worth);
    let mut triangle = vec![0.0; signatures[0].within.len()];
    for signature in signatures {
        triangle.iter_mut().zip(signature.spread()).for_each(|(sum, number)| *sum += number / tasks);
    }
    let diagonal = |row: usize| row * (row + 3) / 2;
    let ridge = RIDGE * (0..LENGTH).map(|row| triangle[diagonal(row)]).sum::<f64>() / LENGTH as f64;
    let ridge = ridge.max(SMALLEST);
    for row in 0..LENGTH {
        let end = diagonal(row);
        triangle[end - row..end].iter_mut().for_each(|number| *number *= kept);
        triangle[end] += ridge;
    }
    triangle
}

/// The inverse of a symmetric matrix, from its lower triangle; row by row. `None` if it is not positive.
fn inverse(triangle: &[f64]) -> Option<Vec<f64>> {
    let factor = cholesky(LENGTH, |row, column| triangle[row * (row + 1) / 2 + column])?;
    // L⁻¹, transposed: row by row the columns of the inverse of the factor.
    let mut columns: Vec<Vec<f64>> = Vec::with_capacity(LENGTH);
    for start in 0..LENGTH {
        let mut column = vec![0.0; LENGTH];
        column[start] = 1.0 / factor[start][start];
        for row in start + 1..LENGTH {
            let known: f64 =
                factor[row][start..row].iter().zip(&column[start..row]).map(|(a, b)| a * b).sum();
            column[row] = -known / factor[row][row];
        }
        columns.push(column);
    }
    let mut inverse = vec![0.0; LENGTH * LENGTH];
    for row in 0..LENGTH {
        for column in 0..=row {
            let (a, b) = (&columns[row][row..], &columns[column][row..]);
            let product: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            inverse[row * LENGTH + column] = product;
            inverse[column * LENGTH + row] = product;
        }
    }
    Some(inverse)
}

/// Trace of the product of a symmetric matrix and the covariance of a task.
fn trace_of_product(matrix: &[f64], signature: &Signature) -> f64 {
    let mut spread = signature.spread();
    let mut trace = 0.0;
    for row in 0..LENGTH {
        for (column, number) in spread.by_ref().take(row + 1).enumerate() {
            let twice = if column == row { 1.0 } else { 2.0 };
            trace += twice * matrix[row * LENGTH + column] * number;
        }
    }
    trace
}

/// Logarithm of the sum of exponentials; minus infinity of nothing.
fn log_sum_exp(terms: &[f64]) -> f64 {
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !largest.is_finite() {
        return largest;
    }
    largest + libm::log(terms.iter().map(|term| libm::exp(term - largest)).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::super::statistics::TRIANGLE;
    use super::*;

    /// A task of one class about a point of the first two numbers, with the same variance in every number.
    fn task(place: [f32; 2], variance: f32) -> Signature {
        let mut mean = vec![0.0; LENGTH];
        mean[..2].copy_from_slice(&place);
        let mut within = vec![0.0; TRIANGLE];
        (0..LENGTH).for_each(|row| within[row * (row + 3) / 2] = variance);
        Signature {
            counts: vec![100.0],
            means: vec![mean],
            within,
            nuisance: vec![0.0; TRIANGLE],
            reach: None,
        }
    }

    fn descriptor(place: [f32; 2]) -> Vec<f32> {
        let mut numbers = vec![0.0; LENGTH];
        numbers[..2].copy_from_slice(&place);
        numbers
    }

    #[test]
    fn by_hand() {
        let (a, b) = (task([0.0, 0.0], 4.0), task([6.0, 2.0], 4.0));
        let found = Discriminant::new(&[&a, &b]).unwrap();
        for (place, squares) in
            [([0.0, 0.0], [0.0, 40.0]), ([3.0, 1.0], [10.0, 10.0]), ([1.0, -1.0], [2.0, 34.0])]
        {
            let scores = found.scores(&descriptor(place));
            // Log-likelihoods differ by half the difference of the squared distances over the variance.
            let expected = (squares[1] - squares[0]) / 2.0 / 4.0;
            assert!((scores[0] - scores[1] - expected).abs() < 1e-3, "{place:?}: {scores:?}, {expected}");
        }
        let turned = Discriminant::new(&[&b, &a]).unwrap().scores(&descriptor([1.0, -1.0]));
        let scores = found.scores(&descriptor([1.0, -1.0]));
        assert!((scores[0] - scores[1] - (turned[1] - turned[0])).abs() < 1e-6);
    }

    #[test]
    fn what_changes_make_of_a_picture_counts_little() {
        let (mut a, b) = (task([0.0, 0.0], 1.0), task([4.0, 0.0], 1.0));
        let sure = Discriminant::new(&[&a, &b]).unwrap().scores(&descriptor([1.0, 0.0]));
        // The first number is what changes move: the mean of both tasks' nuisance is 10 there.
        a.nuisance[0] = 20.0;
        let unsure = Discriminant::new(&[&a, &b]).unwrap().scores(&descriptor([1.0, 0.0]));
        assert!(unsure[0] - unsure[1] < (sure[0] - sure[1]) / 5.0, "{sure:?} {unsure:?}");
    }

    #[test]
    fn a_task_whose_images_are_all_the_same_can_be_compared() {
        let found = Discriminant::new(&[&task([0.0, 0.0], 0.0), &task([1.0, 0.0], 0.0)]).unwrap();
        let scores = found.scores(&descriptor([0.1, 0.0]));
        assert!(scores.iter().all(|score| score.is_finite()) && scores[0] > scores[1]);
        assert!(Discriminant::new(&[]).is_none());
    }
}
