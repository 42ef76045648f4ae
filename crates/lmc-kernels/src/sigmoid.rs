//! The logistic function, written so that the compiler computes many at once, and the squared error after it.

use pulp::{Simd, WithSimd};

use crate::instruction_set::InstructionSet;

/// The logistic function `1 / (1 + exp(-x))`, to a relative error of 3e-7; NaN gives NaN.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    // exp(-x) = 2^whole e^rest with |rest| <= ln 2 / 2. Beyond 87 the exponential leaves the normal numbers.
    let x = if x > 87.0 { 87.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest whole number.
    const ROUND: f32 = 12_582_912.0;
    let shifted = -x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    // ln 2 in two parts: the first has few digits, so that its product with a whole number is exact.
    let rest = (-x - whole * 0.693_359_4) - whole * -2.121_944_4e-4;
    let mut series = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * rest + coefficient;
    }
    // The low bits of the rounded number are the exponent.
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    1.0 / (1.0 + series * power)
}

/// For one image: the mean squared error of `sigmoid(z)` against `target`, and in the place of `z` its derivative by
/// `z`.
pub fn error(set: InstructionSet, z: &mut [f32], target: &[f32]) -> f32 {
    struct Error<'a>(&'a mut [f32], &'a [f32]);
    impl WithSimd for Error<'_> {
        type Output = f32;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> f32 {
            const SUMS: usize = 64;
            let count = self.0.len() as f32;
            // Several sums side by side: a single one would have to be added up in order.
            let mut sums = [0.0_f32; SUMS];
            for (z, target) in self.0.chunks_mut(SUMS).zip(self.1.chunks(SUMS)) {
                for ((z, target), sum) in z.iter_mut().zip(target).zip(&mut sums) {
                    let value = sigmoid(*z);
                    let difference = value - target;
                    *sum += difference * difference;
                    *z = difference * (value * (1.0 - value)) * (2.0 / count);
                }
            }
            sums.iter().sum::<f32>() / count
        }
    }
    assert_eq!(z.len(), target.len(), "a target for every value");
    set.run(Error(z, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_to_the_exact_function_everywhere() {
        for step in -1_000_000..=1_000_000 {
            let x = step as f32 * 1e-4;
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            let wrong = (f64::from(sigmoid(x)) - exact).abs() / exact;
            assert!(wrong < 3e-7 || x < -87.0, "{x}: {} instead of {exact}", sigmoid(x));
        }
    }

    #[test]
    fn ends_and_nan() {
        assert_eq!(sigmoid(0.0), 0.5);
        assert_eq!(sigmoid(f32::INFINITY), 1.0);
        assert!((0.0..1e-37).contains(&sigmoid(f32::NEG_INFINITY)));
        assert!(sigmoid(f32::NAN).is_nan());
    }

    #[test]
    fn error_by_hand() {
        // sigmoid(0) = 1/2: errors 1/2 and -1/4 squared are 1/4 and 1/16; derivatives 2/2 * error * 1/4.
        let mut z = [0.0, 0.0];
        assert_eq!(error(InstructionSet::best(), &mut z, &[0.0, 0.75]), 5.0 / 32.0);
        assert_eq!(z, [0.125, -0.0625]);
    }
}
