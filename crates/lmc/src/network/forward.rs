//! The forward pass: the only loop over the layers (paper algorithm 2, "Forward Model").
//!
//! ```text
//! for every layer l:   L[m, i] = structural loss of module m on image i     the modules respond
//!                      w[m, i] = weighing(L)                                scores become weights
//!                      x[i]    = sum over m of w[m, i] f_m(x[i])            the layer's output
//! features = x, flattened                                                   what the heads see
//! ```
//!
//! Training, validation, prediction and batch-norm warm-up are this loop with another [`Weighing`]: which modules run and
//! in which mode, and how their losses become weights. The formulas of one layer are in [`super::composition`] (weights) and
//! [`super::layer`] (responses and their weighted sum); training adds one rule about outliers.
//!
//! | `Weighing` | modules | weights |
//! | --- | --- | --- |
//! | training (`training/step.rs`) | frozen ones, through which gradients pass down but whose parameters get none, and at most one trainable one (added by this task; in a network's first task, its first module) | composition; by default the trainable one takes all if the batch is an outlier of all frozen ones (`growth/expansion.rs`). Also collects the trainable one's score statistics, the structural objective and requests for new modules |
//! | warm-up (`training/step.rs`; only on `Model::warm_up`) | all, with parameters fixed and batch norms that follow the batch | composition |
//! | evaluation (`inference/views.rs`) | those of a view: all (the paper's) or, ours, those that were there when a head's task was learned; with running statistics | composition, with a batch prior that is shared or per image |

use burn::tensor::{Device, Tensor};

use super::composition::PerModule;
use super::layer::{CachedResponses, Responses};
use crate::error::Result;

/// Decides, layer by layer, which modules run in which mode and what weight each gets.
pub trait Weighing {
    /// Number of layers.
    fn depth(&self) -> usize;

    /// Runs the modules of a layer on its input `[batch, channel, row, column]`. `cached` holds
    /// responses of frozen modules that need not be computed.
    fn respond(&mut self, layer: usize, input: &Tensor<4>, cached: CachedResponses) -> Result<Responses>;

    /// Turns the structural losses `[module][image]` of a layer into weights of the same shape.
    fn weigh(&mut self, layer: usize, responses: &Responses, losses: &PerModule) -> PerModule;
}

/// Scores and weights of one layer in a forward pass.
#[derive(Clone, Debug, Default)]
pub struct LayerTrace {
    /// Structural losses, `[module][image]`.
    pub losses: PerModule,
    /// Weights, `[module][image]`.
    pub weights: PerModule,
}

/// A forward pass with its record.
#[derive(Clone, Debug)]
pub struct ForwardTrace {
    /// Features: the input of every head, `[batch, feature]`.
    pub features: Tensor<2>,
    /// Scores and weights, layer by layer.
    pub layers: Vec<LayerTrace>,
}

/// Passes a batch of images `[batch, channel, row, column]` through all layers. `cached` are responses of the first
/// layer's frozen modules, which see the raw images.
pub fn forward(
    images: Tensor<4>,
    cached: CachedResponses,
    weighing: &mut impl Weighing,
    device: &Device,
) -> Result<ForwardTrace> {
    let mut x = images;
    let mut cached = Some(cached);
    let mut layers = Vec::with_capacity(weighing.depth());
    for layer in 0..weighing.depth() {
        let responses = weighing.respond(layer, &x, cached.take().unwrap_or_default())?;
        let losses = responses.losses();
        let weights = weighing.weigh(layer, &responses, &losses);
        x = responses.combine(&weights, device)?;
        layers.push(LayerTrace { losses, weights });
    }
    Ok(ForwardTrace { features: x.flatten(1, 3), layers }) // [batch, width * side * side]
}
