//! The parts of the method, for baselines, experiments and tools of this workspace. Unlike the facade at the root of the
//! crate they may change in any version.

/// The model file and what belongs to it.
pub mod file {
    pub use crate::file::{dates, history, lock, model_file, partial, verify};
}

/// Expansion and projection: when modules are added, and how they are fitted.
pub mod growth {
    pub use crate::growth::*;
}

/// Which modules and which head classify an image, novelty, and the evaluator.
pub mod inference {
    pub use crate::inference::*;
}

/// The local module: functional component, structural component, score statistics.
pub mod module {
    pub use crate::module::*;
}

/// Layers, heads, composition and the forward pass.
pub mod network {
    pub use crate::network::*;
}

/// Walks over the tensors of a component: saved, loaded, counted, trained.
pub mod tensors {
    pub use crate::tensors::*;
}

/// One task while it is trained: steps, epochs, optimiser, checkpoints.
pub mod training {
    pub use crate::training::*;
}
