//! Growth: when a layer gets a new module ([`expansion`]), and how the module is fitted to those above it
//! ([`projection`]).

pub mod expansion;
pub mod projection;
