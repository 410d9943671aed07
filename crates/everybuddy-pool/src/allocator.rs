//! A pool as an allocator of collections.
//!
//! Large vectors and tables can live in a pool. Each allocation has whole pages, so small ones waste memory.
//!
//! # Invariants
//! The pages of an allocation follow from its size alone, and are the same for every size that fits it.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use everybuddy::System;

use crate::pool::Pool;

impl<S: System + 'static> Pool<S> {
    /// Returns the pages of an allocation.
    fn pages_of(&self, layout: Layout) -> usize {
        layout.size().div_ceil(self.page_size())
    }
}

// SAFETY: allocated pages stay allocated and mapped until they are freed, as long as any handle of the pool exists. A
// handle can be moved, and a clone of it is the same pool. The pages of an allocation belong to it alone.
unsafe impl<S: System + 'static> Allocator for Pool<S> {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            // SAFETY: an alignment is not zero.
            let dangling =
                unsafe { NonNull::new_unchecked(std::ptr::without_provenance_mut(layout.align())) };
            return Ok(NonNull::slice_from_raw_parts(dangling, 0));
        }
        let pages = self.pages_of(layout);
        let run = if layout.align() <= self.page_size() {
            self.allocate_pages(pages)
        } else {
            self.allocate_aligned(pages, layout.align())
        };
        Ok(run.map_err(|_| AllocError)?.into_raw())
    }

    unsafe fn deallocate(&self, start: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // An error is misuse, which the pool counts.
            let _ = self.shared.free(start, self.pages_of(layout));
        }
    }

    unsafe fn grow(
        &self,
        start: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let (before, after) = (self.pages_of(old), self.pages_of(new));
        if before == after && start.addr().get().is_multiple_of(new.align()) {
            // The last page has room, or both are empty.
            let bytes = after * self.page_size();
            return Ok(NonNull::slice_from_raw_parts(start, bytes));
        }
        let moved = self.allocate(new)?;
        // SAFETY: both have at least `old.size()` bytes, and the new one is not part of the old one.
        unsafe { start.copy_to_nonoverlapping(moved.cast(), old.size()) };
        // SAFETY: by the contract of this function, the old one fits.
        unsafe { self.deallocate(start, old) };
        Ok(moved)
    }

    unsafe fn shrink(
        &self,
        start: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let page = self.page_size();
        let (before, after) = (self.pages_of(old), self.pages_of(new));
        if after == 0 || !start.addr().get().is_multiple_of(new.align()) {
            let moved = self.allocate(new)?;
            // SAFETY: both have at least `new.size()` bytes, and the new one is not part of the old one.
            unsafe { start.copy_to_nonoverlapping(moved.cast(), new.size()) };
            // SAFETY: by the contract of this function, the old one fits.
            unsafe { self.deallocate(start, old) };
            return Ok(moved);
        }
        if after < before {
            // SAFETY: the result lies within the old allocation, which has more pages.
            let rest = unsafe { start.add(after * page) };
            let _ = self.shared.free(rest, before - after);
        }
        Ok(NonNull::slice_from_raw_parts(start, after * page))
    }
}
