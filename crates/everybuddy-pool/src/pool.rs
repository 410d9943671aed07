//! The pool, as its users see it.
//!
//! Handles of a pool, and everything that a pool can do.
//!
//! # Invariants
//! Guards borrow from a handle, so the pool outlives them.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use everybuddy::{Block, Everybuddy, FrameAllocator, Index, Order, Progress, Report, System};

use crate::builder::PoolBuilder;
use crate::error::PoolError;
use crate::pages::Pages;
use crate::shared::Shared;
use crate::slots::Counters;
use crate::statistics::{Released, Statistics};

/// The least bytes that the pool's own thread looks at in one call, and its pause before the next one.
const STEP: usize = 64 << 20;
const PAUSE: Duration = Duration::from_millis(1);

/// A pool of pages: a handle, which can be cloned and sent to other threads.
///
/// All methods can be called by any number of threads, and by a thread while it ends. A signal handler must not call
/// them. The child of a `fork` has a copy of the pool; it must not use it if other threads were in calls at the `fork`,
/// or if the pool has a [thread of its own](crate::PoolBuilder::release_every).
///
/// ```
/// use everybuddy_pool::Pool;
///
/// let pool = Pool::new(16 << 20)?;
/// let mut pages = pool.allocate_pages(3)?;
/// pages.fill(7);
/// assert_eq!(pages.len(), 3 * pool.page_size());
/// drop(pages);
/// println!("{}", pool.statistics()?);
/// # Ok::<(), everybuddy_pool::PoolError>(())
/// ```
///
/// Guards borrow from the pool, so it cannot be dropped before them:
///
/// ```compile_fail,E0505
/// let pool = everybuddy_pool::Pool::new(16 << 20).unwrap();
/// let pages = pool.allocate_pages(3).unwrap();
/// drop(pool);
/// drop(pages);
/// ```
pub struct Pool<S: System + 'static = Everybuddy> {
    pub(crate) shared: Arc<Shared<S>>,
}

/// A reference to a pool that does not keep it: for callbacks, and for tables that outlive it.
///
/// ```
/// use everybuddy_pool::{Pool, PoolError};
///
/// let pool = Pool::new(16 << 20)?;
/// let weak = pool.downgrade();
/// assert!(weak.upgrade().is_ok());
/// drop(pool);
/// assert_eq!(weak.upgrade().err(), Some(PoolError::Dead));
/// # Ok::<(), PoolError>(())
/// ```
pub struct WeakPool<S: System + 'static = Everybuddy> {
    shared: Weak<Shared<S>>,
}

impl Pool {
    /// Builds a pool of `bytes`, rounded up to whole pages, with the system `everybuddy`.
    ///
    /// # Errors
    /// Those of [`PoolBuilder::build`].
    pub fn new(bytes: usize) -> Result<Self, PoolError> {
        Self::builder(bytes).build()
    }

    /// Describes a pool of `bytes`, rounded up to whole pages.
    pub fn builder(bytes: usize) -> PoolBuilder {
        PoolBuilder::new(bytes)
    }
}

impl<S: System + 'static> PoolBuilder<S> {
    /// Builds the pool: reserves its address space, and creates its allocator. No page is allocated yet, except with
    /// [`HugePages::Reserved`](crate::HugePages::Reserved).
    ///
    /// # Errors
    /// [`NoSize`](PoolError::NoSize), [`BadTokens`](PoolError::BadTokens), [`Map`](PoolError::Map),
    /// [`NoHugePages`](PoolError::NoHugePages), and [`Build`](PoolError::Build) for options that the system does not
    /// take; [`Thread`](PoolError::Thread) with [`release_every`](Self::release_every).
    pub fn build(self) -> Result<Pool<S>, PoolError> {
        self.check()?;
        let shared = Arc::new(Shared::new(&self)?);
        if let Some(period) = self.release_period {
            let pool = WeakPool {
                shared: Arc::downgrade(&shared),
            };
            let thread = thread::Builder::new().name("everybuddy-pool".into());
            let started = thread.spawn(move || pool.release_each(period));
            let started = started.map_err(|error| PoolError::Thread {
                // EAGAIN, where the library names none.
                errno: error.raw_os_error().unwrap_or(11),
            })?;
            let _ = shared.timer.0.set(started.thread().clone());
        }
        Ok(Pool { shared })
    }
}

impl<S: System + 'static> Pool<S> {
    /// Allocates a run of `pages` pages, which starts at a multiple of the next power of two of its length.
    ///
    /// The pages contain what their last user wrote, or zeros. The call takes no lock that another thread holds for
    /// longer than a call. If nothing suitable is found, it parks the tokens of all threads that are not in a call, and
    /// waits for the calls of the others, at most 10 ms for each. So free memory is never withheld by idle threads. The
    /// call fails as exhausted only if no suitable run was free then, and as busy if a call did not end.
    ///
    /// # Errors
    /// [`ZeroPages`](PoolError::ZeroPages), [`TooLarge`](PoolError::TooLarge), [`Exhausted`](PoolError::Exhausted),
    /// [`Busy`](PoolError::Busy).
    #[inline]
    pub fn allocate_pages(&self, pages: usize) -> Result<Pages<'_, S>, PoolError> {
        let (start, _) = self.shared.allocate_frames(pages)?;
        Ok(self.guard(start, pages))
    }

    /// Allocates like [`allocate_pages`](Self::allocate_pages), pages of zeros. O(pages), except in blocks of
    /// [`release_order`](crate::PoolBuilder::release_order) of which no page was allocated before, or since they went
    /// back to the operating system: these have zeros, and nothing is written.
    ///
    /// # Errors
    /// Those of [`allocate_pages`](Self::allocate_pages).
    pub fn allocate_zeroed(&self, pages: usize) -> Result<Pages<'_, S>, PoolError> {
        let (start, fresh) = self.shared.allocate_frames(pages)?;
        let order = self.shared.reporting.order().get();
        let last = start.as_usize() + (pages - 1);
        let blocks = (last >> order) - (start.as_usize() >> order) + 1;
        let mut pages = self.guard(start, pages);
        if fresh as usize != blocks {
            pages.fill(0);
        }
        Ok(pages)
    }

    /// Allocates like [`allocate_pages`](Self::allocate_pages), from a multiple of `alignment` bytes.
    ///
    /// # Errors
    /// Those of [`allocate_pages`](Self::allocate_pages), and [`BadAlignment`](PoolError::BadAlignment).
    pub fn allocate_aligned(
        &self,
        pages: usize,
        alignment: usize,
    ) -> Result<Pages<'_, S>, PoolError> {
        let largest = self.largest_run() << self.shared.page_shift;
        if !alignment.is_power_of_two() || alignment > largest {
            let bytes = alignment;
            return Err(PoolError::BadAlignment { bytes, largest });
        }
        let aligned = alignment >> self.shared.page_shift;
        let is_aligned = |length: usize| aligned <= length;
        if pages == 0 || pages.checked_next_power_of_two().is_none_or(is_aligned) {
            return self.allocate_pages(pages);
        }
        // A run is aligned to its length: the rest of a longer one is freed.
        let longer = self.allocate_pages(aligned).map_err(|error| match error {
            PoolError::Exhausted { .. } => PoolError::Exhausted { pages },
            error => error,
        })?;
        let (run, _) = longer.split_at(pages);
        Ok(run)
    }

    /// Turns memory of [`Pages::into_raw`] into a guard again. The pages can be a part of what was allocated, and can
    /// be adjacent runs together.
    ///
    /// # Errors
    /// [`Foreign`](PoolError::Foreign) if the memory is not a run of whole pages of this pool.
    ///
    /// # Safety
    /// The pages were allocated from this pool and turned into raw memory, and no other guard has any of them.
    pub unsafe fn from_raw(&self, memory: NonNull<[u8]>) -> Result<Pages<'_, S>, PoolError> {
        let (address, bytes) = (memory.cast::<u8>().addr().get(), memory.len());
        let foreign = PoolError::Foreign { address, bytes };
        let offset = self.shared.mapping.offset(address, bytes).ok_or(foreign)?;
        let page = self.page_size();
        if bytes == 0 || !bytes.is_multiple_of(page) || !offset.is_multiple_of(page) {
            return Err(foreign);
        }
        Ok(self.guard(Index((offset / page) as u32), bytes / page))
    }

    /// Returns free blocks of at least 2 MiB, or of
    /// [`release_order`](crate::PoolBuilder::release_order), to the operating system, and reports how much that was.
    ///
    /// A block that went back is left alone until one of its pages was allocated. The blocks stay part of the pool;
    /// their pages are zero when they are used again. The call holds one block at a time, of 2 MiB unless the order is
    /// larger, and a request that needs it waits for it. It passes over blocks near memory that threads in calls work
    /// with. A pool with [`HugePages::Reserved`](crate::HugePages::Reserved) keeps its memory: another process could
    /// take a huge page, so that the next access would end this process.
    ///
    /// # Errors
    /// [`Busy`](PoolError::Busy) if other threads release memory of this pool for too long, and nothing went back;
    /// [`Release`](PoolError::Release) if the operating system refuses a block: the call ends there, and the error says
    /// what was returned before.
    ///
    /// # Complexity
    /// O(blocks of the pool), and two system calls for each block that goes back.
    pub fn release_free(&self) -> Result<Released, PoolError> {
        let mut released = Released::default();
        // The first end is not that of a whole round, if `release_next` was called before.
        let mut ends = 0;
        while ends < 2 {
            match self.release(&mut released, u32::MAX) {
                Ok(Progress::Idle) => ends += 1,
                // Another thread is short of memory.
                Ok(Progress::More) => thread::yield_now(),
                Err(PoolError::Busy) if released.blocks > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(released)
    }

    /// Does what [`release_free`](Self::release_free) does, for the next `bytes` of the pool: for a timer. The call
    /// goes on where the last one ended, and looks at one block at least. [`Idle`](Progress::Idle) says that it came to
    /// the end of the pool, and [`More`](Progress::More) that more is left, also if another thread is short of memory.
    /// Each call drains the lists of idle threads.
    ///
    /// ```
    /// use everybuddy_pool::Pool;
    /// use everybuddy_pool::everybuddy::Progress;
    ///
    /// let pool = Pool::new(16 << 20)?;
    /// pool.allocate_pages(1024)?.fill(1);
    /// let (released, progress) = pool.release_next(2 << 20)?;
    /// assert_eq!((released.bytes, progress), (2 << 20, Progress::More));
    /// # Ok::<(), everybuddy_pool::PoolError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`release_free`](Self::release_free).
    pub fn release_next(&self, bytes: usize) -> Result<(Released, Progress), PoolError> {
        let mut released = Released::default();
        let order = self.shared.reporting.order().get();
        let blocks = bytes >> self.shared.page_shift >> order;
        let budget = u32::try_from(blocks).unwrap_or(u32::MAX).max(1);
        let progress = self.release(&mut released, budget)?;
        Ok((released, progress))
    }

    /// Returns free blocks among the next `budget` blocks of the order of release, and adds them to `released`.
    fn release(&self, released: &mut Released, mut budget: u32) -> Result<Progress, PoolError> {
        let shared = &*self.shared;
        if shared.keeps_memory {
            return Ok(Progress::Idle);
        }
        let (system, reporting) = (shared.system, &shared.reporting);
        shared.slots.drain_idle(system);
        let mut call = shared.slots.enter_maintenance().ok_or(PoolError::Busy)?;
        // Services are not run otherwise. Twice, since they pass work to each other; other threads may add some.
        let size = reporting.order().get();
        let work = system.span().frames().min(budget.saturating_mul(1 << size));
        let services = system.services().len();
        for service in (0..services).cycle().take(2 * services) {
            system.serve(&mut call.token, service, work);
        }
        let before = released.bytes;
        let mut refused = None;
        let progress = loop {
            let block = match reporting.take(system, &mut call.token, &mut budget) {
                Ok(block) => block,
                Err(progress) => break progress,
            };
            // A larger block counts as all of its blocks.
            budget = budget.saturating_sub((block.order.frames() >> size) - 1);
            let report = match self.discard(block, released) {
                Ok(()) => Report::GivenZeroed,
                Err(errno) => {
                    refused = Some(errno);
                    Report::Refused
                }
            };
            // It was taken just now, so only misuse can have freed it.
            let _ = reporting.put(system, &mut call.token, block, report);
            // A thread that is short waits for this slot.
            if refused.is_some() || shared.slots.is_short() {
                break Progress::More;
            }
        };
        // Single pages that were put back are in its list.
        system.drain(&mut call.token);
        system.park(&mut call.token);
        let bytes = (released.bytes - before) as u64;
        shared.released_bytes.fetch_add(bytes, Ordering::Relaxed);
        match refused {
            Some(errno) => Err(PoolError::Release {
                released: *released,
                errno,
            }),
            None => Ok(progress),
        }
    }

    /// Returns a block that this call took to the operating system.
    fn discard(&self, block: Block, released: &mut Released) -> Result<(), i32> {
        let (page, mapping) = (self.page_size(), &self.shared.mapping);
        let offset = block.start.as_usize() * page;
        let bytes = block.order.frames() as usize * page;
        let resident = mapping.resident(offset, bytes, page);
        // SAFETY: the caller took the block from the system, so no guard has a page of it (invariant 2).
        unsafe { mapping.discard(offset, bytes) }?;
        // If the kernel does not say what was in memory, the block counts as whole.
        let resident = resident.unwrap_or(bytes);
        released.bytes += resident;
        released.blocks += usize::from(resident > 0);
        Ok(())
    }

    /// Returns what the pool has and what happened in it. O(pages / 64) with the system `everybuddy`.
    ///
    /// The numbers describe a single moment only if no other thread calls.
    ///
    /// # Errors
    /// [`Busy`](PoolError::Busy) if all tokens were used for too long.
    pub fn statistics(&self) -> Result<Statistics, PoolError> {
        let (shared, huge) = (&*self.shared, self.shared.huge_order());
        let mut call = self.shared.enter()?;
        let snapshot = shared.system.snapshot(&mut call.token);
        shared.slots.finish(call, shared.system);
        let largest = Order::up_to(shared.system.max_order()).rev();
        let largest = { largest }.find(|order| snapshot.available_blocks(*order) > 0);
        let total = |counter: fn(&Counters) -> &AtomicU64| shared.slots.total(counter);
        Ok(Statistics {
            system: S::ROW.name,
            page_size: self.page_size(),
            pages: self.size() >> shared.page_shift,
            free_pages: snapshot.free_frames() + snapshot.buffered_frames,
            free_huge_blocks: huge.map_or(0, |order| snapshot.available_blocks(order)),
            largest_free_run: largest.map_or(0, |order| u64::from(order.frames())),
            metadata_bytes: shared.system.metadata_bytes(),
            tokens: shared.slots.tokens(),
            threads: shared.slots.threads(),
            threads_ended: shared.slots.exits.load(Ordering::Relaxed),
            allocations: total(|counters| &counters.allocations),
            frees: total(|counters| &counters.frees),
            refused: total(|counters| &counters.refused),
            refused_frees: total(|counters| &counters.refused_frees),
            shortages: total(|counters| &counters.shortages),
            borrowed: total(|counters| &counters.borrowed),
            released_bytes: shared.released_bytes.load(Ordering::Relaxed),
        })
    }

    /// Returns the bytes of the pool that are in memory at this moment. Returns `None` if the kernel does not say.
    /// O(pages).
    pub fn resident_bytes(&self) -> Option<usize> {
        let mapping = &self.shared.mapping;
        mapping.resident(0, mapping.bytes(), self.page_size())
    }

    /// Returns a reference that does not keep the pool.
    pub fn downgrade(&self) -> WeakPool<S> {
        let shared = Arc::downgrade(&self.shared);
        WeakPool { shared }
    }

    /// Returns the bytes of the pool. O(1).
    pub fn size(&self) -> usize {
        self.shared.mapping.bytes()
    }

    /// Returns the bytes of a page. O(1).
    #[inline]
    pub fn page_size(&self) -> usize {
        self.shared.page_size()
    }

    /// Returns the pages of the largest run that can be allocated. O(1).
    pub fn largest_run(&self) -> usize {
        self.shared.largest_run()
    }

    /// Returns `true` if the byte at this address belongs to the pool. O(1).
    pub fn contains<T>(&self, address: *const T) -> bool {
        self.shared.mapping.offset(address.addr(), 1).is_some()
    }

    fn guard(&self, start: Index, pages: usize) -> Pages<'_, S> {
        let start = self
            .shared
            .mapping
            .at(start.as_usize() << self.shared.page_shift);
        Pages::new(&self.shared, start, pages)
    }

    /// Checks every invariant of the allocator, and that exactly `allocated` pages are allocated; for tests, while no
    /// other thread calls. O(pages).
    #[doc(hidden)]
    pub fn check(&self, allocated: u64) -> Result<(), String> {
        let shared = &*self.shared;
        shared.slots.drain_idle(shared.system);
        let mut call = self.shared.enter().map_err(|error| error.to_string())?;
        let quiet = shared.system.quiesce(&mut call.token);
        quiet.map_err(|error| error.to_string())?;
        let census = shared.system.check(&mut call.token);
        let census = census.map_err(|violation| violation.to_string())?;
        match census.allocated {
            found if found == allocated => Ok(()),
            found => Err(format!("{found} pages are allocated, not {allocated}")),
        }
    }
}

impl<S: System + 'static> WeakPool<S> {
    /// Returns free memory after each period, until the pool is dropped.
    fn release_each(&self, period: Duration) {
        let mut wait = period;
        loop {
            thread::park_timeout(wait);
            let Ok(pool) = self.upgrade() else {
                return;
            };
            // In steps: memory that is dropped lasts, and `release_free` of others is busy, for a step only.
            wait = match pool.release_next((pool.size() / 16).max(STEP)) {
                Ok((_, Progress::More)) | Err(PoolError::Busy) => PAUSE,
                // What the operating system does not take now, it may take later.
                Ok((_, Progress::Idle)) | Err(_) => period,
            };
        }
    }

    /// Returns the pool.
    ///
    /// # Errors
    /// [`Dead`](PoolError::Dead) if the last handle of the pool was dropped.
    pub fn upgrade(&self) -> Result<Pool<S>, PoolError> {
        let shared = self.shared.upgrade().ok_or(PoolError::Dead)?;
        Ok(Pool { shared })
    }
}

impl<S: System + 'static> Clone for Pool<S> {
    fn clone(&self) -> Self {
        let shared = Arc::clone(&self.shared);
        Self { shared }
    }
}

impl<S: System + 'static> Clone for WeakPool<S> {
    fn clone(&self) -> Self {
        let shared = Weak::clone(&self.shared);
        Self { shared }
    }
}

impl<S: System + 'static> fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("system", &S::ROW.name)
            .field("bytes", &self.size())
            .field("tokens", &self.shared.slots.tokens())
            .finish_non_exhaustive()
    }
}

impl<S: System + 'static> fmt::Debug for WeakPool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakPool")
            .field("is_dead", &(self.shared.strong_count() == 0))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While a token is in use for longer than a request waits, its free pages are not searched.
    #[test]
    fn a_request_fails_as_exhausted_only_if_every_token_was_searched() {
        let pool = Pool::builder(4 << 20).tokens(2).build().unwrap();
        let all = pool.allocate_pages(1024).unwrap();
        let refused = || pool.allocate_pages(1).unwrap_err();
        assert_eq!(refused(), PoolError::Exhausted { pages: 1 });
        let maintenance = pool.shared.slots.enter_maintenance().unwrap();
        assert_eq!(refused(), PoolError::Busy);
        drop(maintenance);
        let other = pool.shared.slots.enter(1).unwrap();
        assert_eq!(refused(), PoolError::Busy);
        drop(other);
        assert_eq!(refused(), PoolError::Exhausted { pages: 1 });
        drop(all);
        assert!(pool.allocate_pages(1).is_ok());
    }
}
