//! Variation across seeds: mean and standard deviation of a number over several runs.

use serde::Serialize;

/// Mean ± standard deviation over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Mean over the runs.
    pub mean: f64,
    /// Standard deviation of the sample, by n - 1; `None` for one run.
    pub deviation: Option<f64>,
    /// Number of runs.
    pub runs: usize,
}

impl Spread {
    /// Mean and deviation of some numbers; `None` if there are none.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        if numbers.is_empty() {
            return None;
        }
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let deviation = (numbers.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Some(Self { mean, deviation, runs: numbers.len() })
    }

    /// Writes `64.8 ± 0.7`, with a true minus sign and without a negative zero.
    pub fn text(&self) -> String {
        match self.deviation {
            Some(deviation) => format!("{} ± {deviation:.1}", decimal(self.mean)),
            None => decimal(self.mean),
        }
    }

    /// Writes the mean alone, without `.0`: `17` or `15.7`.
    pub fn short(&self) -> String {
        let text = decimal(self.mean);
        text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
    }
}

/// Our number beside the paper's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// Our number, if there is a finished run.
    pub ours: Option<Spread>,
    /// The paper's number, if it reports one.
    pub paper: Option<Spread>,
    /// Our mean less the paper's.
    pub difference: Option<f64>,
}

impl Compared {
    /// Puts two numbers side by side.
    pub fn new(ours: Option<Spread>, paper: Option<Spread>) -> Self {
        let difference = ours.zip(paper).map(|(ours, paper)| ours.mean - paper.mean);
        Self { ours, paper, difference }
    }
}

/// Writes one decimal, with a true minus sign; a number that rounds to zero has no sign.
pub fn decimal(number: f64) -> String {
    let text = format!("{number:.1}");
    if text == "-0.0" { "0.0".to_owned() } else { text.replace('-', "−") }
}

/// Writes one decimal with a sign: `+2.4`, `−2.4`, `0.0`.
pub fn signed(number: f64) -> String {
    let text = decimal(number);
    if text == "0.0" || text.starts_with('−') { text } else { format!("+{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_by_hand() {
        // Squares of the distances to 64: 4 + 0 + 4 = 8; 8 / 2 = 4.
        let spread = Spread::of(&[62.0, 64.0, 66.0]).unwrap();
        assert_eq!((spread.mean, spread.deviation, spread.runs), (64.0, Some(2.0), 3));
        assert_eq!(spread.text(), "64.0 ± 2.0");
        assert_eq!(spread.short(), "64");
        assert_eq!(Spread::of(&[62.5]).unwrap().text(), "62.5");
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn differences_and_signs() {
        let compared = Compared::new(Spread::of(&[64.0]), Spread::of(&[67.25]));
        assert_eq!(compared.difference, Some(-3.25));
        assert_eq!(Compared::new(None, Spread::of(&[1.0])).difference, None);
        assert_eq!([-3.25, 2.44, -0.04, 0.0].map(signed), ["−3.2", "+2.4", "0.0", "0.0"]);
    }
}
