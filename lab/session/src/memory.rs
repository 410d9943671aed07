//! The metadata of a session's system, which can be copied and put back.
//!
//! All that a system stores lies in the memory that it was given. So an earlier copy of these bytes is the system as it
//! was earlier.
//!
//! # Invariants
//! The memory is not moved, and freed only after the system in it was last used.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::rc::Rc;

/// The bytes of a system.
#[derive(Clone)]
pub(crate) struct Metadata(Rc<Bytes>);

struct Bytes {
    start: NonNull<MaybeUninit<u8>>,
    length: usize,
    is_lent: Cell<bool>,
}

impl Metadata {
    /// Creates memory of `length` bytes that are zero.
    pub(crate) fn new(length: usize) -> Self {
        let bytes = vec![MaybeUninit::new(0u8); length].into_boxed_slice();
        Self(Rc::new(Bytes {
            start: NonNull::from(Box::leak(bytes)).cast(),
            length,
            is_lent: Cell::new(false),
        }))
    }

    /// Lends the memory, once. The owner of what is built in it also keeps this.
    pub(crate) fn lend(&self) -> Option<&'static mut [MaybeUninit<u8>]> {
        if self.0.is_lent.replace(true) {
            return None;
        }
        // SAFETY: the bytes were allocated with this length. They are lent only once. The session, which alone keeps
        // what is built in them, drops this memory last.
        Some(unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.length) })
    }

    /// Returns a copy of all bytes.
    pub(crate) fn copy(&self) -> Vec<MaybeUninit<u8>> {
        let mut copy = vec![MaybeUninit::uninit(); self.0.length];
        // SAFETY: both have this length, and do not overlap. No other thread knows the memory.
        unsafe {
            self.0
                .start
                .as_ptr()
                .copy_to_nonoverlapping(copy.as_mut_ptr(), self.0.length);
        }
        copy
    }

    /// Puts back a copy. The system is then as it was when the copy was made.
    pub(crate) fn restore(&self, copy: &[MaybeUninit<u8>]) {
        let length = self.0.length.min(copy.len());
        // SAFETY: as in `copy`. What a system changes after it was built are atomics; everything else has the same
        // bytes in every copy. One thread runs all calls, and none of them reads while this writes.
        unsafe {
            self.0
                .start
                .as_ptr()
                .copy_from_nonoverlapping(copy.as_ptr(), length);
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        let bytes = NonNull::slice_from_raw_parts(self.start, self.length);
        // SAFETY: the bytes come from `Box::leak` of a slice of this length. Nothing that was built in them is used any
        // more (invariant), and elements in it are never dropped.
        drop(unsafe { Box::from_raw(bytes.as_ptr()) });
    }
}
