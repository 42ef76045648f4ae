//! Growth: when a layer gets a new module ([`expansion`], by [`task_losses`] of all images for our presets), how the module
//! is fitted to those above it ([`projection`]), and whether it is worth its cost ([`gain`]).

pub mod expansion;
pub mod gain;
pub mod projection;
pub mod task_losses;
