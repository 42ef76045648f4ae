//! The readers of number arrays keep their promises: what was written is read back, what is broken is
//! refused with file, place and cure, and nothing makes them panic.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod broken;
mod hostile;
mod located;
mod read_back;
mod real;
mod write;
