//! A layer's output: the sum of its modules' outputs, each sample with its own weights.

use pulp::{Simd, WithSimd};

use crate::instruction_set::InstructionSet;
use crate::scratch::Scratch;
use crate::threads::{Images, over_images};

/// Computes `out[image] = sum over modules of weights[module][image] modules[module][image]`, where all images have the
/// same number of floats.
pub fn weighted_sum(set: InstructionSet, modules: &[&[f32]], weights: &[f32], images: usize) -> Scratch {
    let size = modules.first().map_or(0, |module| module.len() / images.max(1));
    let mut out = Scratch::zeros(images * size);
    over_images(Images::new(images, 1), [&mut out], 0, |at, [out], _| {
        for (module, outputs) in modules.iter().enumerate() {
            let from = &outputs[at.start * size..at.end * size];
            set.run(AddScaled { from, factor: weights[module * images + at.start], to: &mut *out });
        }
    });
    out
}

/// Gradient of all modules' outputs, from that of the sum: `weights[module][image] gradient[image]`.
pub fn outputs_gradient(set: InstructionSet, weights: &[f32], gradient: &[f32], images: usize) -> Scratch {
    let size = gradient.len() / images.max(1);
    let mut out = Scratch::zeros(weights.len() * size);
    over_images(Images::new(weights.len(), 1), [&mut out], 0, |at, [out], _| {
        let image = at.start % images;
        set.run(AddScaled { from: &gradient[image * size..][..size], factor: weights[at.start], to: out });
    });
    out
}

/// Gradient of the weights, `[module, image]`: scalar products of each module's output with the gradient of the sum.
pub fn weights_gradient(modules: &[&[f32]], gradient: &[f32], images: usize) -> Vec<f32> {
    let size = gradient.len() / images.max(1);
    let mut out = vec![0.0; modules.len() * images];
    over_images(Images::new(out.len(), 1), [&mut out], 0, |at, [out], _| {
        let (module, image) = (at.start / images, at.start % images);
        let place = image * size..(image + 1) * size;
        let products = modules[module][place.clone()].iter().zip(&gradient[place]);
        out[0] = products.map(|(output, gradient)| f64::from(output * gradient)).sum::<f64>() as f32;
    });
    out
}

/// Computes `to += factor from`.
struct AddScaled<'a> {
    from: &'a [f32],
    factor: f32,
    to: &'a mut [f32],
}

impl WithSimd for AddScaled<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.to.iter_mut().zip(self.from).for_each(|(to, from)| *to += self.factor * from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let set = InstructionSet::best();
        // Two modules, two images of two numbers.
        let modules: [&[f32]; 2] = [&[1.0, 2.0, 3.0, 4.0], &[10.0, 20.0, 30.0, 40.0]];
        let weights = [1.0, 0.5, 0.0, 2.0];
        assert_eq!(weighted_sum(set, &modules, &weights, 2)[..], [1.0, 2.0, 61.5, 82.0]);
        let gradient = [1.0, 0.0, 1.0, 1.0];
        assert_eq!(
            outputs_gradient(set, &weights, &gradient, 2)[..],
            [1.0, 0.0, 0.5, 0.5, 0.0, 0.0, 2.0, 2.0]
        );
        assert_eq!(weights_gradient(&modules, &gradient, 2), [1.0, 7.0, 10.0, 70.0]);
    }
}
