//! Frozen decoders: batch norm folded into the first deconvolution, many modules at once.

use std::sync::OnceLock;

use super::{Convs, Decoder, DecoderShape, errors_and_losses, scale_errors};
use crate::batch_norm::{Affine, Statistics};
use crate::conv::PackedWeights;
use crate::instruction_set::InstructionSet;
use crate::max_pool::relu;
use crate::scratch::Scratch;
use crate::threads::{Images, over_images, slice_of};

/// Frozen decoders of the same shape that share their target, packed once.
#[derive(Debug)]
pub struct FrozenDecoder {
    shape: DecoderShape,
    set: InstructionSet,
    modules: Vec<Folded>,
}

/// A decoder with batch norm folded into its first deconvolution.
#[derive(Debug)]
struct Folded {
    first: Vec<f32>,
    first_bias: Vec<f32>,
    second: Vec<f32>,
    second_bias: Vec<f32>,
    /// Weights of the two deconvolutions, packed for the forward pass.
    packed: [PackedWeights; 2],
    /// Weights of the two deconvolutions, packed for the backward pass, which only projection phases need.
    packed_backward: OnceLock<[PackedWeights; 2]>,
}

impl FrozenDecoder {
    /// Folds and packs decoders of one shape with their running statistics.
    pub fn new(shape: DecoderShape, set: InstructionSet, decoders: &[(Decoder<'_>, Statistics)]) -> Self {
        let convs = Convs::new(&shape, set);
        let fold = |(decoder, statistics): &(Decoder<'_>, Statistics)| {
            let affine = Affine::new(decoder.gamma, decoder.beta, statistics);
            let mut first = decoder.first.to_vec();
            // `[input, hidden, row, column]`
            for (at, taps) in first.chunks_exact_mut(4).enumerate() {
                taps.iter_mut().for_each(|weight| *weight *= affine.scale[at % shape.hidden]);
            }
            let bias = decoder.first_bias.iter().zip(&affine.scale).zip(&affine.shift);
            Folded {
                packed: [convs.first.pack_transposed(&first), convs.second.pack_transposed(decoder.second)],
                first,
                first_bias: bias.map(|((bias, scale), shift)| bias * scale + shift).collect(),
                second: decoder.second.to_vec(),
                second_bias: decoder.second_bias.to_vec(),
                packed_backward: OnceLock::new(),
            }
        };
        Self { shape, set, modules: decoders.iter().map(fold).collect() }
    }

    /// How many decoders there are, one for each module.
    pub fn modules(&self) -> usize {
        self.modules.len()
    }

    /// Reconstruction losses, `[module, image]`, from the outputs of all modules,
    /// `[module, image, row, column, channel]`, with `side` rows and columns; and, if `keep`, their derivatives by `z`
    /// for the backward pass.
    pub fn losses(
        &self,
        side: [usize; 2],
        inputs: &[f32],
        target: &[f32],
        images: usize,
        keep: bool,
    ) -> (Vec<f32>, Scratch) {
        let set = self.set;
        let convs = Convs::new(&DecoderShape { side, ..self.shape }, set);
        let [in_size, hidden_size, target_size] = convs.sizes();
        let count = self.modules.len() * images;
        let all = Images { count, group: convs.group, per_module: images };
        let mut losses = vec![0.0; count];
        let mut errors = Scratch::take(if keep { count * target_size } else { 0 });
        over_images(all, [&mut losses, &mut errors], 0, |at, [losses, errors], _| {
            let module = &self.modules[at.start / images];
            let start = at.start % images;
            let mut v = Scratch::take(at.len() * hidden_size);
            module.hidden(&convs, slice_of(inputs, &at, in_size), &mut v);
            let mut own = Scratch::take(if keep { 0 } else { at.len() * target_size });
            let z = if keep { errors } else { &mut own[..] };
            convs.second.transposed(&v, &module.packed[1], Some(&module.second_bias), z);
            errors_and_losses(set, z, slice_of(target, &(start..start + at.len()), target_size), losses);
        });
        (losses, errors)
    }

    /// The backward pass: the gradient of all modules' outputs from that of all losses, `[module, image]`.
    pub fn backward(&self, side: [usize; 2], inputs: &[f32], errors: &[f32], gradient: &[f32]) -> Scratch {
        let convs = Convs::new(&DecoderShape { side, ..self.shape }, self.set);
        let [in_size, hidden_size, target_size] = convs.sizes();
        let images = gradient.len() / self.modules.len().max(1);
        let all = Images { count: gradient.len(), group: convs.group, per_module: images };
        let (hidden_zeros, zeros) = (vec![0.0; self.shape.hidden], vec![0.0; self.shape.inputs]);
        let mut into = Scratch::take(gradient.len() * in_size);
        over_images(all, [&mut into], 0, |at, [into], _| {
            let module = &self.modules[at.start / images];
            let packed = module
                .packed_backward
                .get_or_init(|| [convs.first.pack(&module.first), convs.second.pack(&module.second)]);
            let mut dz = Scratch::take(at.len() * target_size);
            scale_errors(&gradient[at.clone()], slice_of(errors, &at, target_size), &mut dz);
            let mut v = Scratch::take(at.len() * hidden_size);
            module.hidden(&convs, slice_of(inputs, &at, in_size), &mut v);
            let mut dv = Scratch::take(v.len());
            convs.second.forward(&dz, &packed[1], &hidden_zeros, &mut dv);
            dv.iter_mut().zip(v.iter()).for_each(|(dv, &v)| *dv = if v <= 0.0 { 0.0 } else { *dv });
            convs.first.forward(&dv, &packed[0], &zeros, into);
        });
        into
    }
}

impl Folded {
    /// Computes `v = relu(u)`, batch norm being folded into the weights.
    fn hidden(&self, convs: &Convs, input: &[f32], v: &mut [f32]) {
        convs.first.transposed(input, &self.packed[0], Some(&self.first_bias), v);
        v.iter_mut().for_each(|value| *value = relu(*value));
    }
}
