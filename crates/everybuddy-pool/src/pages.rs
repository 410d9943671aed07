//! Pages that a pool has allocated.
//!
//! A guard is the memory: it derefs to bytes, and frees its pages when it is dropped.
//!
//! # Invariants
//! A guard alone has its pages: the system has them as allocated, and no other guard overlaps it. It borrows from the
//! pool, or keeps it, so the memory stays mapped.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use everybuddy::{Everybuddy, System};

use crate::error::PoolError;
use crate::shared::Shared;

/// A run of pages of a [`Pool`](crate::Pool). It derefs to its bytes, and is freed when it is dropped.
///
/// Any thread can drop it.
///
/// ```
/// use everybuddy_pool::Pool;
///
/// let pool = Pool::new(16 << 20)?;
/// let pages = pool.allocate_pages(5)?;
/// let (mut head, tail) = pages.split_at(2);
/// drop(tail);
/// head[0] = 1;
/// let memory = head.into_raw();
/// // SAFETY: the memory is that of `into_raw`.
/// let head = unsafe { pool.from_raw(memory) }?;
/// assert_eq!((head[0], head.pages()), (1, 2));
/// # Ok::<(), everybuddy_pool::PoolError>(())
/// ```
pub struct Pages<'p, S: System + 'static = Everybuddy> {
    pool: &'p Arc<Shared<S>>,
    start: NonNull<u8>,
    pages: usize,
}

// SAFETY: a guard is the only owner of plain bytes, as a `Box<[u8]>` is, and any thread may call the pool.
unsafe impl<S: System + 'static> Send for Pages<'_, S> {}
// SAFETY: as above; shared guards only read.
unsafe impl<S: System + 'static> Sync for Pages<'_, S> {}

impl<'p, S: System + 'static> Pages<'p, S> {
    /// Creates the guard of pages that the caller has just allocated, or received as raw memory.
    #[inline]
    pub(crate) fn new(pool: &'p Arc<Shared<S>>, start: NonNull<u8>, pages: usize) -> Self {
        Self { pool, start, pages }
    }

    /// Returns the number of pages.
    #[inline]
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Divides the run: the first guard has `pages` pages, the second one the rest. Each of them is freed on its own.
    ///
    /// # Panics
    /// If the run has fewer than `pages` pages. Neither of the two may be empty.
    pub fn split_at(self, pages: usize) -> (Self, Self) {
        assert!(
            0 < pages && pages < self.pages,
            "a run of {} pages cannot be split at {pages}",
            self.pages
        );
        let whole = ManuallyDrop::new(self);
        let bytes = pages * whole.pool.page_size();
        // SAFETY: the result lies within the run, which has more pages.
        let middle = unsafe { whole.start.add(bytes) };
        let rest = whole.pages - pages;
        (
            Self::new(whole.pool, whole.start, pages),
            Self::new(whole.pool, middle, rest),
        )
    }

    /// Gives up the guard: the memory stays allocated until [`from_raw`](crate::Pool::from_raw) creates a guard again.
    /// It is valid for as long as the pool exists.
    pub fn into_raw(self) -> NonNull<[u8]> {
        let pages = ManuallyDrop::new(self);
        NonNull::slice_from_raw_parts(pages.start, pages.len())
    }

    /// Turns the guard into one that keeps the pool, instead of borrowing from it.
    pub fn into_owned(self) -> OwnedPages<S> {
        let pages = ManuallyDrop::new(self);
        OwnedPages {
            pool: Arc::clone(pages.pool),
            start: pages.start,
            pages: pages.pages,
        }
    }

    /// Frees the pages like a drop, and returns what the allocator found.
    ///
    /// # Errors
    /// [`Free`](PoolError::Free) if the pages are not allocated, after misuse of [`from_raw`](crate::Pool::from_raw);
    /// nothing is freed.
    pub fn free(self) -> Result<(), PoolError> {
        let pages = ManuallyDrop::new(self);
        pages.pool.free(pages.start, pages.pages)
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.pages * self.pool.page_size()
    }
}

impl<S: System + 'static> Deref for Pages<'_, S> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the pages are mapped and initialised, and belong to this guard alone (invariant).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes()) }
    }
}

impl<S: System + 'static> DerefMut for Pages<'_, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the guard is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes()) }
    }
}

impl<S: System + 'static> AsRef<[u8]> for Pages<'_, S> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<S: System + 'static> AsMut<[u8]> for Pages<'_, S> {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl<S: System + 'static> Drop for Pages<'_, S> {
    #[inline]
    fn drop(&mut self) {
        // An error is misuse of `from_raw`, which the pool counts.
        let _ = self.pool.free(self.start, self.pages);
    }
}

impl<S: System + 'static> fmt::Debug for Pages<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("start", &self.start)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

/// A run of pages that keeps its pool: for structures that cannot borrow, and for threads that outlive all handles.
///
/// It costs a shared counter when it is created and dropped; [`Pages`] does not.
///
/// ```
/// use everybuddy_pool::Pool;
///
/// let pool = Pool::new(16 << 20)?;
/// let mut pages = pool.allocate_zeroed(3)?.into_owned();
/// drop(pool);
/// std::thread::spawn(move || pages[0] = 1).join().unwrap();
/// # Ok::<(), everybuddy_pool::PoolError>(())
/// ```
pub struct OwnedPages<S: System + 'static = Everybuddy> {
    pool: Arc<Shared<S>>,
    start: NonNull<u8>,
    pages: usize,
}

// SAFETY: as for `Pages`; the pool can be kept and dropped by any thread.
unsafe impl<S: System + 'static> Send for OwnedPages<S> {}
// SAFETY: as above; shared guards only read.
unsafe impl<S: System + 'static> Sync for OwnedPages<S> {}

impl<S: System + 'static> OwnedPages<S> {
    /// Returns the number of pages.
    #[inline]
    pub fn pages(&self) -> usize {
        self.pages
    }
}

impl<S: System + 'static> Deref for OwnedPages<S> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let bytes = self.pages * self.pool.page_size();
        // SAFETY: the pages are mapped and initialised, and belong to this guard alone (invariant).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), bytes) }
    }
}

impl<S: System + 'static> DerefMut for OwnedPages<S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let bytes = self.pages * self.pool.page_size();
        // SAFETY: as in `deref`; the guard is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), bytes) }
    }
}

impl<S: System + 'static> Drop for OwnedPages<S> {
    fn drop(&mut self) {
        // An error is misuse of `from_raw`, which the pool counts. The pool is unmapped after this, if at all.
        let _ = self.pool.free(self.start, self.pages);
    }
}

impl<S: System + 'static> fmt::Debug for OwnedPages<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPages")
            .field("start", &self.start)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}
