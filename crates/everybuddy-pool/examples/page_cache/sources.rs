//! Where the buffers of the cache come from: a pool; `mmap` and `munmap`, which a program uses without one; or lists of
//! buffers that were freed.
//!
//! # Invariants
//! A buffer owns its memory until it is dropped.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{Mutex, PoisonError};

use everybuddy_pool::{Pages, Pool};

use super::store::{PAGE, Source};

/// Anonymous memory, unmapped when it is dropped.
pub(crate) struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory with one owner.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps fresh memory. Returns `None` if the operating system refuses.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses unused addresses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = NonNull::new(start.cast())?;
        Some(Self { start, bytes })
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has these bytes, all initialised, and lives as long as its owner.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Mapped {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the owner is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is owned, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Buffers of a pool.
pub(crate) struct Pooled(pub(crate) Pool);

impl Source for Pooled {
    type Buffer<'s> = Pages<'s>;

    fn buffer(&self, pages: usize) -> Option<Pages<'_>> {
        self.0.allocate_pages(pages).ok()
    }
}

/// A mapping per buffer.
pub(crate) struct Unpooled;

impl Source for Unpooled {
    type Buffer<'s> = Mapped;

    fn buffer(&self, pages: usize) -> Option<Mapped> {
        Mapped::new(pages * PAGE)
    }
}

/// Lists of mappings that were freed, one for each length, behind locks. No memory goes back.
#[derive(Default)]
pub(crate) struct Lists([Mutex<Vec<Mapped>>; 17]);

/// A mapping that returns to its list.
pub(crate) struct Listed<'s>(Option<Mapped>, &'s Mutex<Vec<Mapped>>);

impl Source for Lists {
    type Buffer<'s> = Listed<'s>;

    fn buffer(&self, pages: usize) -> Option<Listed<'_>> {
        let list = self.0.get(pages)?;
        let freed = list.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Some(Listed(freed.or_else(|| Mapped::new(pages * PAGE)), list))
    }
}

impl Deref for Listed<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Listed<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut list = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        list.extend(self.0.take());
    }
}
