//! A slice that is indexed modulo its length.
//!
//! A hit reads or writes one entry of a ring at a position that counts modulo a power of two. With a plain slice that
//! takes a length, a subtraction, a mask, a comparison and a branch that is never taken: five instructions of thirty.
//! Here it takes the mask alone.
//!
//! # Invariants
//! `mask` is one less than the number of entries behind `first`.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ptr::NonNull;

/// Entries whose number is a power of two, indexed modulo that number.
pub(crate) struct WrappingSlice<'a, T> {
    first: NonNull<T>,
    mask: u32,
    entries: PhantomData<&'a [T]>,
}

impl<T> Clone for WrappingSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for WrappingSlice<'_, T> {}

// SAFETY: a wrapping slice is a shared reference to a slice, in another representation.
unsafe impl<T: Sync> Send for WrappingSlice<'_, T> {}
// SAFETY: as for `Send`.
unsafe impl<T: Sync> Sync for WrappingSlice<'_, T> {}

impl<'a, T> WrappingSlice<'a, T> {
    /// Creates a wrapping slice from entries whose number is a power of two.
    pub(crate) fn new(entries: &'a [T]) -> Self {
        assert!(
            entries.len().is_power_of_two() && entries.len() <= 1 << 31,
            "a ring is planned as a power of two"
        );
        Self {
            first: NonNull::from(entries).cast(),
            mask: entries.len() as u32 - 1,
            entries: PhantomData,
        }
    }

    /// Returns the number of entries.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.mask + 1
    }

    /// Returns the entry at a position, modulo the number of entries.
    #[inline(always)]
    pub(crate) fn at(&self, position: u32) -> &'a T {
        // SAFETY: `first` is the first of `mask + 1` entries, and a number masked by `mask` is at most `mask`.
        let entry = unsafe { self.first.add((position & self.mask) as usize) };
        // SAFETY: the entries are borrowed for `'a`, and no mutable reference to them exists.
        unsafe { entry.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_wrap_around() {
        for length in [1u32, 2, 8, 64] {
            let entries: std::vec::Vec<u32> = (0..length).collect();
            let circle = WrappingSlice::new(&entries);
            assert_eq!(circle.len(), length);
            for position in (0..3 * length).chain([u32::MAX - 1, u32::MAX]) {
                assert_eq!(*circle.at(position), position % length);
            }
        }
    }

    #[test]
    #[should_panic(expected = "power of two")]
    fn other_lengths_are_refused() {
        WrappingSlice::new(&[0; 3]);
    }
}
