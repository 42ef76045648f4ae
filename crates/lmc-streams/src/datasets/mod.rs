//! The data sets that we know by name: what they are, where they come from, where they lie.

mod fetch;
pub mod get;
pub mod known;
pub mod locate;
mod transfer;
mod unpack;
pub mod verify;
