//! A value on cache lines of its own.
//!
//! Words that different CPUs write must not share a cache line. This wrapper says so once, at the place where the
//! memory is laid out.
//!
//! # Invariants
//! The value starts at a multiple of [`LINE`], and no other value lies on its lines.

use core::ops::Deref;

use crate::arena::LINE;

/// Pads and aligns a value to the length of a cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct CachePadded<T>(T);

const _: () =
    assert!(align_of::<CachePadded<u8>>() == LINE && size_of::<CachePadded<u8>>() == LINE);

impl<T> CachePadded<T> {
    /// Pads a value.
    #[inline(always)]
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
