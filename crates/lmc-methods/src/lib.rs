//! Rivals of LMC, one file each.
//!
//! - [`finetune`]: one network, trained on every task in turn.

pub mod finetune;

pub use finetune::Finetune;
