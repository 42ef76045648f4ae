//! Buffers whose memory is used again in the next training step.
//!
//! A training step fills the same few dozen buffers of some megabytes each time. Taken from the system they would
//! be page-faulted in and zeroed anew every time, which costs more than some of the computations in them.

use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

/// Buffers that are not in use at the moment, oldest first.
static UNUSED: Mutex<Vec<Vec<f32>>> = Mutex::new(Vec::new());

/// How many floats are kept at most in unused buffers: a quarter of a gigabyte.
const KEPT: usize = 64 << 20;
/// How many unused buffers are kept at most.
const KEPT_BUFFERS: usize = 128;

/// Floats with arbitrary (but initialised) content, whose memory is kept for another buffer when they are dropped.
#[derive(Debug, Default)]
pub struct Scratch {
    memory: Vec<f32>,
    length: usize,
}

impl Scratch {
    /// Takes `length` floats of arbitrary content.
    pub fn take(length: usize) -> Self {
        if length == 0 {
            return Self::default();
        }
        let mut unused = UNUSED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Neither too small nor so large that a big computation later has to go to the system.
        let fits = |memory: &Vec<f32>| (length..=2 * length).contains(&memory.len());
        let found = unused
            .iter()
            .enumerate()
            .filter(|(_, memory)| fits(memory))
            .min_by_key(|(_, memory)| memory.len());
        let memory = found.map(|(at, _)| at).map(|at| unused.remove(at));
        drop(unused);
        Self { memory: memory.unwrap_or_else(|| vec![0.0; length]), length }
    }

    /// Takes `length` zeros.
    pub fn zeros(length: usize) -> Self {
        let mut scratch = Self::take(length);
        scratch.fill(0.0);
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.memory.is_empty() {
            return;
        }
        let mut unused = UNUSED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        unused.push(std::mem::take(&mut self.memory));
        // The oldest go first: they are of sizes that are no longer asked for.
        let mut kept: usize = unused.iter().map(Vec::len).sum();
        let mut gone = 0;
        while kept > KEPT || unused.len() - gone > KEPT_BUFFERS {
            kept -= unused[gone].len();
            gone += 1;
        }
        unused.drain(..gone);
    }
}

impl Deref for Scratch {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.memory[..self.length]
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_and_has_the_length_that_was_asked_for() {
        let lengths = [7001, 7000, 6999, 0];
        for length in lengths {
            let mut scratch = Scratch::take(length);
            assert_eq!(scratch.len(), length);
            scratch.fill(1.0);
        }
        assert!(Scratch::zeros(7000).iter().all(|&value| value == 0.0));
    }
}
