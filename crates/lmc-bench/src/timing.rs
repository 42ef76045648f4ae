//! How long a call takes: repeated runs and their median.

use std::time::Instant;

/// Runs `run` for about this many seconds, at least three times and after two runs that do not count, and gives the
/// milliseconds of each run.
pub fn times<E>(seconds: f64, mut run: impl FnMut() -> Result<(), E>) -> Result<Vec<f64>, E> {
    run()?;
    run()?;
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 3 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// The median (of an even number of times, the upper of the two middle ones); NaN if there are no times.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_three() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn two_runs_do_not_count() {
        let mut runs = 0;
        let counted = times(0.0, || {
            runs += 1;
            Ok::<(), ()>(())
        });
        assert_eq!((counted.map(|times| times.len()), runs), (Ok(3), 5));
    }
}
