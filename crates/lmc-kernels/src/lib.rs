//! Fused CPU kernels for LMC's modules, as an extension of burn.
//!
//! A training step of the paper's network is convolutions on small maps with wasteful padding, each followed by batch
//! norm, ReLU and a 2x2 max-pool, and decoders that undo them. burn computes these one by one, each a pass over
//! memory. Here each block is one operation with a backward pass written by hand:
//!
//! - [`functional_train`] and [`FrozenFunctionals`]: the functional part of a module, and of many frozen modules that
//!   share an input;
//! - [`decoder_train`] and [`FrozenDecoders`]: the structural part, a decoder that reconstructs a module's input from
//!   its output, with a reconstruction loss for each sample;
//! - [`weighted_sum()`]: a layer's output, the weighted sum of its modules' outputs;
//! - [`pooled_conv()`]: the functional part without batch norm, for soft gating's controllers.
//!
//! From the outside in:
//!
//! 1. [`operations`]: the operations on burn's tensors, with their shapes checked;
//! 2. [`extension`]: the operations on burn's backends. Tensors on the CPU go to our kernels, all others to
//!    [`mod@reference`], which computes the same with burn's own operations; [`Kernels`] chooses one or the other;
//! 3. [`functional`], [`decoder`], [`mod@weighted_sum`], [`mod@pooled_conv`]: the blocks on slices of floats,
//!    channels-last, forward and backward pass;
//! 4. [`conv`], [`winograd`], [`batch_norm`], [`max_pool`], [`sigmoid`]: what blocks are made of;
//! 5. [`tile`]: the inner loops, for the best [`instruction_set`] of the machine; [`threads`]: images over threads,
//!    with results that do not depend on their number; [`scratch`]: memory that is used again.
//!
//! The crate `lmc-bench` has the networks on which `lmc bench` and `cargo bench -p lmc-bench` measure them.

pub mod batch_norm;
pub mod conv;
pub mod decoder;
pub mod extension;
pub mod functional;
pub mod instruction_set;
pub mod max_pool;
pub mod operations;
pub mod pooled_conv;
pub mod reference;
pub mod scratch;
pub mod sigmoid;
pub mod threads;
pub mod tile;
pub mod weighted_sum;
pub mod winograd;

pub use extension::Kernels;
pub use operations::{
    BatchStatistics, DecoderParameters, FrozenDecoders, FrozenFunctionals, FunctionalParameters,
    RunningStatistics, ShapeError, Trained, decoder_train, functional_train, pooled_conv, weighted_sum,
};
