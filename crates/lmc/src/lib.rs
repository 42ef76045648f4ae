//! Local Module Composition.

pub mod adam;
pub mod cache;
pub mod checkpoint;
pub mod composition;
mod error;
pub mod evaluation;
pub mod events;
pub mod expansion;
pub mod functional;
pub mod head;
pub mod layer;
pub mod learner;
pub mod lesson;
pub mod merge;
pub mod module;
pub mod network;
pub mod novelty;
pub mod prediction;
pub mod presets;
pub mod projection;
mod record;
pub mod statistics;
pub mod structural;
mod tensor_file;
pub mod tensors;

pub use error::{Error, Result};
pub use learner::{Learned, Learner, LearnerConfig, Material};
