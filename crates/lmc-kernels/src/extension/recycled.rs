//! Tensors of burn over [`Scratch`] memory: burn lets a buffer have an owner of its own.

use std::mem::MaybeUninit;

use cubecl_environment::bytes::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes};

use crate::scratch::Scratch;

/// Owns the memory until burn drops the last tensor that uses it.
struct Recycled(Scratch);

impl AllocationController for Recycled {
    fn alloc_align(&self) -> usize {
        align_of::<f32>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    unsafe fn memory_mut(&mut self, _: AccessPolicy) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let bytes = size_of_val(&self.0[..]);
        // SAFETY: floats are bytes too, and the caller promises to write only initialised ones.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), bytes) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let bytes = size_of_val(&self.0[..]);
        // SAFETY: floats are bytes too.
        Ok(unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), bytes) })
    }
}

impl Scratch {
    /// Turns the memory into a buffer of burn's, without a copy.
    pub(super) fn into_bytes(self) -> Bytes {
        let bytes = size_of_val(&self[..]);
        // SAFETY: scratch memory is always initialised, all of it.
        unsafe { Bytes::from_controller(Box::new(Recycled(self)), bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_numbers_and_copies_of_their_own() {
        let mut scratch = Scratch::take(3);
        scratch.copy_from_slice(&[1.0, 2.0, 3.0]);
        let bytes = scratch.into_bytes();
        let mut copy = bytes.clone();
        copy[0..4].copy_from_slice(&9.0_f32.to_ne_bytes());
        assert_eq!(&bytes[0..4], &1.0_f32.to_ne_bytes());
        assert_eq!(&copy[0..4], &9.0_f32.to_ne_bytes());
        assert_eq!((bytes.len(), &copy[4..]), (12, &bytes[4..]));
    }
}
