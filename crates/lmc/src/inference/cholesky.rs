//! Cholesky factors of covariances, and what is computed with them.

/// The lower triangle `L` of `L Lᵀ`, row by row; `None` if the matrix is not positive.
pub(crate) fn cholesky(size: usize, matrix: impl Fn(usize, usize) -> f64) -> Option<Vec<Vec<f64>>> {
    let mut factor: Vec<Vec<f64>> = Vec::with_capacity(size);
    for row in 0..size {
        let mut line: Vec<f64> = Vec::with_capacity(row + 1);
        for (column, above) in factor.iter().enumerate() {
            let known: f64 = line.iter().zip(above).map(|(a, b)| a * b).sum();
            line.push((matrix(row, column) - known) / above[column]);
        }
        let left = matrix(row, row) - line.iter().map(|number| number * number).sum::<f64>();
        if !(left.is_finite() && left > 0.0) {
            return None;
        }
        line.push(left.sqrt());
        factor.push(line);
    }
    Some(factor)
}

/// `L⁻¹ x` for a lower triangle `L`; as many numbers as both have.
pub(crate) fn solve(factor: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    let mut solved: Vec<f64> = Vec::with_capacity(factor.len());
    for (number, row) in vector.iter().zip(factor) {
        let known: f64 = row.iter().zip(&solved).map(|(a, b)| a * b).sum();
        solved.push((number - known) / row[solved.len()]);
    }
    solved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let matrix = [[4.0, 2.0], [2.0, 10.0]];
        let factor = cholesky(2, |row, column| matrix[row][column]).unwrap_or_default();
        assert_eq!(factor, [vec![2.0], vec![1.0, 3.0]]);
        assert_eq!(solve(&factor, &[2.0, 7.0]), [1.0, 2.0]);
        assert!(cholesky(2, |_, _| 1.0).is_none(), "not positive");
    }
}
