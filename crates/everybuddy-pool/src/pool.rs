//! The pool.
//!
//! # Purpose
//!
//! A pool joins address space with a frame allocator, whose frame numbers are the pages of that space.
//!
//! # Invariants
//!
//! 1. Frame `n` of the system is the page at offset `n` times the page size. The system has no frame that is not in the
//!    mapping.
//! 2. A page belongs to one guard, or to one caller of `into_raw`, exactly while the system has it as allocated.
//! 3. The system lies in memory that is unmapped after it: when the last handle of the pool is dropped.
#![allow(unsafe_code)]

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use everybuddy::systems::{build, layout};
use everybuddy::{
    AllocateError, Everybuddy, Flags, FrameAllocator, FrameRange, FreeError, Memory, Order, Pfn,
    Release, Request, Setup, System, Visit,
};

use crate::builder::PoolBuilder;
use crate::error::PoolError;
use crate::mapping::{HUGE, HugePages, Mapping, page_size};
use crate::pages::Pages;
use crate::slots::{Call, Counters, Machine, Slots};
use crate::statistics::Statistics;
use crate::threads::{self, Home};

/// How often a request is repeated that failed as busy.
const MAX_RETRIES: u32 = 8;

/// Memory that was returned to the operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// The bytes that were in memory before, and are not any more.
    pub bytes: usize,
    /// The huge blocks that contained them.
    pub blocks: usize,
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, blocks } = self;
        write!(f, "{bytes} bytes of {blocks} huge blocks")
    }
}

type Built<S> = <S as System>::Built<'static, Machine>;

/// A pool of pages: a handle, which can be cloned and sent to other threads.
///
/// All methods can be called by any number of threads, and by a thread while it ends. A signal handler must not call
/// them. The child of a `fork` has a copy of the pool; it must not use it if other threads were in calls at the `fork`.
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
    inner: Arc<Inner<S>>,
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
    inner: Weak<Inner<S>>,
}

struct Inner<S: System + 'static> {
    /// The generation: different for every pool of the process.
    id: u64,
    /// Lies in `_metadata`, and is not used any more when that is unmapped.
    system: &'static Built<S>,
    slots: Slots,
    mapping: Mapping,
    page_shift: u32,
    is_reserved: bool,
    released_bytes: AtomicU64,
    _metadata: Mapping,
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

impl<S: System + 'static> Pool<S> {
    pub(crate) fn from_builder(builder: PoolBuilder<S>) -> Result<Self, PoolError> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let page = page_size();
        let unit = match builder.huge_pages {
            HugePages::Default => page,
            HugePages::Advised | HugePages::Reserved => HUGE,
        };
        let too_large = PoolError::Map {
            bytes: builder.bytes,
            errno: libc::ENOMEM,
        };
        let bytes = builder.bytes.checked_next_multiple_of(unit);
        let bytes = bytes.ok_or(too_large)?;
        let frames = (bytes / page) as u64;
        let ranges = [FrameRange::new(0, frames)];
        let setup = Setup::new(&ranges, builder.tokens + 1);
        let options = builder.options_for(frames);
        let layout = layout::<S, Machine>(&options, &setup)?;
        let metadata_bytes = layout.size().next_multiple_of(page);
        let metadata = Mapping::new(metadata_bytes, page, HugePages::Default)?;
        let start = metadata.start().as_ptr().cast::<MaybeUninit<u8>>();
        // SAFETY: the mapping has this length, nothing else refers to its bytes, and it lives in `Inner` as long as
        // anything that is built in it (invariant 3).
        let memory = unsafe { std::slice::from_raw_parts_mut(start, metadata_bytes) };
        // SAFETY: fresh pages of the kernel are zero.
        let memory = unsafe { Memory::zeroed(memory) };
        let system = build::<S, Machine>(&options, &setup, memory)?;
        // Blocks are then aligned to their size also by address.
        let alignment = (system.max_order().frames() as usize * page).max(HUGE);
        let mapping = Mapping::new(bytes, alignment, builder.huge_pages)?;
        Ok(Self {
            inner: Arc::new(Inner {
                id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
                system,
                slots: Slots::new(builder.tokens),
                mapping,
                page_shift: page.trailing_zeros(),
                is_reserved: builder.huge_pages == HugePages::Reserved,
                released_bytes: AtomicU64::new(0),
                _metadata: metadata,
            }),
        })
    }

    /// Allocates a run of `pages` pages, which starts at a multiple of the next power of two of its length.
    ///
    /// The pages contain what their last user wrote, or zeros. The call takes no lock that another thread holds for
    /// longer than a call. If nothing suitable is found, it parks the tokens of all threads that are not in a call, and
    /// waits for those that are, so that free memory is never withheld by idle threads.
    ///
    /// # Errors
    /// [`ZeroPages`](PoolError::ZeroPages), [`TooLarge`](PoolError::TooLarge), [`Exhausted`](PoolError::Exhausted),
    /// [`Busy`](PoolError::Busy).
    #[inline]
    pub fn allocate_pages(&self, pages: usize) -> Result<Pages<'_, S>, PoolError> {
        let pfn = self.allocate_frames(pages)?;
        Ok(self.guard(pfn, pages))
    }

    /// Allocates like [`allocate_pages`](Self::allocate_pages), and fills the pages with zeros. O(pages).
    ///
    /// # Errors
    /// Those of [`allocate_pages`](Self::allocate_pages).
    pub fn allocate_zeroed(&self, pages: usize) -> Result<Pages<'_, S>, PoolError> {
        let mut pages = self.allocate_pages(pages)?;
        pages.fill(0);
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
        let largest = self.largest_run() << self.inner.page_shift;
        if !alignment.is_power_of_two() || alignment > largest {
            let bytes = alignment;
            return Err(PoolError::BadAlignment { bytes, largest });
        }
        let aligned = alignment >> self.inner.page_shift;
        if pages == 0 || aligned <= pages.next_power_of_two() {
            return self.allocate_pages(pages);
        }
        // A run is aligned to its length: the rest of a longer one is freed.
        let longer = self.allocate_pages(aligned)?;
        let (run, _) = longer.split_at(pages);
        Ok(run)
    }

    /// Turns memory of [`Pages::into_raw`] into a guard again. The pages can be a part of what was allocated.
    ///
    /// # Errors
    /// [`Foreign`](PoolError::Foreign) if the memory is not a run of whole pages of this pool.
    ///
    /// # Safety
    /// The pages were allocated from this pool and turned into raw memory, and no other guard has any of them.
    pub unsafe fn from_raw(&self, memory: NonNull<[u8]>) -> Result<Pages<'_, S>, PoolError> {
        let (address, bytes) = (memory.cast::<u8>().addr().get(), memory.len());
        let foreign = PoolError::Foreign { address, bytes };
        let offset = self.inner.mapping.offset(address, bytes).ok_or(foreign)?;
        let page = self.page_size();
        if bytes == 0 || !bytes.is_multiple_of(page) || !offset.is_multiple_of(page) {
            return Err(foreign);
        }
        Ok(self.guard(Pfn((offset / page) as u32), bytes / page))
    }

    /// Returns all free huge blocks, of 2 MiB, to the operating system, and reports how much that was.
    ///
    /// The blocks stay part of the pool; their pages are zero when they are used again. The call holds one block at a
    /// time, stops no thread, and passes over blocks near memory that threads in calls work with. A pool with
    /// [`HugePages::Reserved`] keeps its memory: another process could take a huge page, and the next access would end
    /// this process.
    ///
    /// # Errors
    /// [`Busy`](PoolError::Busy) if another thread releases memory of this pool for too long; [`Map`](PoolError::Map)
    /// if the operating system refuses.
    ///
    /// # Complexity
    /// O(pages of the pool), and two system calls per free huge block.
    pub fn release_free(&self) -> Result<Released, PoolError> {
        let inner = &*self.inner;
        let mut released = Released::default();
        let Some(order) = self.huge_order().filter(|_| !inner.is_reserved) else {
            return Ok(released);
        };
        inner.slots.park_idle(inner.system);
        let mut call = inner.slots.enter_maintenance().ok_or(PoolError::Busy)?;
        let (mut refused, page) = (None, self.page_size());
        let system = inner.system;
        system.visit_free(&mut call.token, order, &mut |block| {
            let offset = block.start.index() * page;
            let resident = inner.mapping.resident(offset, HUGE, page);
            // SAFETY: this call allocated the block, so no guard has a page of it (invariant 2).
            match unsafe { inner.mapping.discard(offset, HUGE) } {
                Ok(()) => {
                    // If the kernel does not say what was in memory, the block counts as whole.
                    let bytes = resident.unwrap_or(HUGE);
                    released.bytes += bytes;
                    released.blocks += usize::from(bytes > 0);
                }
                Err(errno) => refused = Some(errno),
            }
            Visit::Return
        });
        system.park(&mut call.token);
        let bytes = released.bytes as u64;
        inner.released_bytes.fetch_add(bytes, Ordering::Relaxed);
        match refused {
            Some(errno) => Err(PoolError::Map { bytes: HUGE, errno }),
            None => Ok(released),
        }
    }

    /// Returns what the pool has and what happened in it. O(pages / 64) with the system `everybuddy`.
    ///
    /// The numbers describe a single moment only if no other thread calls.
    ///
    /// # Errors
    /// [`Busy`](PoolError::Busy) if all tokens were used for too long.
    pub fn statistics(&self) -> Result<Statistics, PoolError> {
        let (inner, huge) = (&*self.inner, self.huge_order());
        let mut call = self.enter()?;
        let snapshot = inner.system.snapshot(&mut call.token);
        inner.slots.finish(call, inner.system);
        let largest = Order::up_to(inner.system.max_order()).rev();
        let largest = { largest }.find(|order| snapshot.available_blocks(*order) > 0);
        let total = |counter: fn(&Counters) -> &AtomicU64| inner.slots.total(counter);
        Ok(Statistics {
            system: S::ROW.name,
            page_size: self.page_size(),
            pages: self.size() >> inner.page_shift,
            free_pages: snapshot.free_frames() + snapshot.buffered_frames,
            free_huge_blocks: huge.map_or(0, |order| snapshot.available_blocks(order)),
            largest_free_run: largest.map_or(0, |order| u64::from(order.frames())),
            metadata_bytes: inner.system.metadata_bytes(),
            tokens: inner.slots.tokens(),
            threads: inner.slots.threads(),
            threads_ended: inner.slots.exits.load(Ordering::Relaxed),
            allocations: total(|counters| &counters.allocations),
            frees: total(|counters| &counters.frees),
            refused: total(|counters| &counters.refused),
            refused_frees: total(|counters| &counters.refused_frees),
            shortages: total(|counters| &counters.shortages),
            borrowed: total(|counters| &counters.borrowed),
            released_bytes: inner.released_bytes.load(Ordering::Relaxed),
        })
    }

    /// Returns the bytes of the pool that are in memory at this moment. Returns `None` if the kernel does not say.
    /// O(pages).
    pub fn resident_bytes(&self) -> Option<usize> {
        let mapping = &self.inner.mapping;
        mapping.resident(0, mapping.bytes(), self.page_size())
    }

    /// Returns a reference that does not keep the pool.
    pub fn downgrade(&self) -> WeakPool<S> {
        let inner = Arc::downgrade(&self.inner);
        WeakPool { inner }
    }

    /// Returns the bytes of the pool. O(1).
    pub fn size(&self) -> usize {
        self.inner.mapping.bytes()
    }

    /// Returns the bytes of a page. O(1).
    #[inline]
    pub fn page_size(&self) -> usize {
        1 << self.inner.page_shift
    }

    /// Returns the pages of the largest run that can be allocated. O(1).
    pub fn largest_run(&self) -> usize {
        self.inner.system.max_order().frames() as usize
    }

    /// Returns `true` if the byte at this address belongs to the pool. O(1).
    pub fn contains<T>(&self, address: *const T) -> bool {
        self.inner.mapping.offset(address.addr(), 1).is_some()
    }

    /// Returns the order of a huge block, if the system has blocks of this size.
    fn huge_order(&self) -> Option<Order> {
        let order = Order::covering((HUGE >> self.inner.page_shift) as u32)?;
        (order <= self.inner.system.max_order()).then_some(order)
    }

    fn guard(&self, start: Pfn, pages: usize) -> Pages<'_, S> {
        let start = self
            .inner
            .mapping
            .at(start.index() << self.inner.page_shift);
        Pages::new(self, start, pages)
    }

    /// Takes the slot of this thread, or another one.
    #[inline]
    fn enter(&self) -> Result<Call<'_>, PoolError> {
        let inner = &self.inner;
        let slot = threads::slot(inner.id, || {
            let home: Weak<Inner<S>> = Arc::downgrade(inner);
            (inner.slots.join(), home)
        });
        inner.slots.enter(slot).ok_or(PoolError::Busy)
    }

    #[inline]
    fn allocate_frames(&self, pages: usize) -> Result<Pfn, PoolError> {
        let request = match pages {
            1 => Request::FRAME,
            _ => Request::frames(u32::try_from(pages).unwrap_or(u32::MAX)),
        };
        let inner = &*self.inner;
        let mut call = self.enter()?;
        let no_wait = request.with_flags(Flags::NO_WAIT);
        match inner.system.allocate(&mut call.token, no_wait) {
            Ok(pfn) => {
                Counters::count(&call.counters().allocations);
                inner.slots.finish(call, inner.system);
                Ok(pfn)
            }
            Err(error) => self.allocate_short(call, request, pages, error),
        }
    }

    /// Goes on with a request that found nothing without waiting for other tokens.
    #[cold]
    #[inline(never)]
    fn allocate_short(
        &self,
        call: Call<'_>,
        request: Request,
        pages: usize,
        error: AllocateError,
    ) -> Result<Pfn, PoolError> {
        let (system, slots) = (self.inner.system, &self.inner.slots);
        let error = match error {
            AllocateError::Busy | AllocateError::Exhausted => {
                Counters::count(&call.counters().shortages);
                // Otherwise two threads that are short would wait for the slots of each other.
                drop(call);
                let result = slots.while_short(system, || self.retry(request));
                match result {
                    Ok(pfn) => return Ok(pfn),
                    Err(error) => error,
                }
            }
            error => {
                Counters::count(&call.counters().refused);
                error
            }
        };
        let largest = self.largest_run();
        Err(match error {
            AllocateError::Exhausted => PoolError::Exhausted { pages },
            AllocateError::TooLarge { .. } => PoolError::TooLarge { pages, largest },
            AllocateError::ZeroFrames => PoolError::ZeroPages,
            // All slots have tokens for which the system was set up.
            AllocateError::Busy | AllocateError::NoSuchCpu => PoolError::Busy,
        })
    }

    /// Repeats a request that may wait, as long as it fails as busy.
    fn retry(&self, request: Request) -> Result<Pfn, AllocateError> {
        let inner = &*self.inner;
        let mut retries = 0;
        loop {
            let mut call = self.enter().map_err(|_| AllocateError::Busy)?;
            let result = inner.system.allocate(&mut call.token, request);
            retries += 1;
            let is_last = result != Err(AllocateError::Busy) || retries == MAX_RETRIES;
            if is_last {
                let counters = call.counters();
                Counters::count(match result {
                    Ok(_) => &counters.allocations,
                    Err(_) => &counters.refused,
                });
            }
            inner.slots.finish(call, inner.system);
            if is_last {
                return result;
            }
        }
    }

    /// Frees pages of a guard. Waits if all slots are taken.
    #[inline]
    pub(crate) fn free(&self, start: NonNull<u8>, pages: usize) -> Result<(), PoolError> {
        let inner = &*self.inner;
        let (address, bytes) = (start.addr().get(), pages << inner.page_shift);
        let offset = inner.mapping.offset(address, bytes);
        let offset = offset.ok_or(PoolError::Foreign { address, bytes })?;
        let pfn = Pfn((offset >> inner.page_shift) as u32);
        let release = match pages {
            1 => Release::frame(pfn),
            _ => Release::frames(pfn, pages as u32),
        };
        let mut call = loop {
            if let Ok(call) = self.enter() {
                break call;
            }
        };
        let mut freed = inner.system.free(&mut call.token, release);
        if let Err(FreeError::InsideBlock { .. } | FreeError::WrongOrder { .. }) = freed {
            // A single page that was split off: a system that records orders frees it by count only.
            let part = Release::frames(pfn, pages as u32);
            freed = inner.system.free(&mut call.token, part);
        }
        let counters = call.counters();
        Counters::count(match freed {
            Ok(()) => &counters.frees,
            Err(_) => &counters.refused_frees,
        });
        inner.slots.finish(call, inner.system);
        freed.map_err(PoolError::Free)
    }

    /// Checks every invariant of the allocator, and that exactly `allocated` pages are allocated; for tests, while no
    /// other thread calls. O(pages).
    #[doc(hidden)]
    pub fn check(&self, allocated: u64) -> Result<(), String> {
        let inner = &*self.inner;
        inner.slots.park_idle(inner.system);
        let mut call = self.enter().map_err(|error| error.to_string())?;
        let quiet = inner.system.quiesce(&mut call.token);
        quiet.map_err(|error| error.to_string())?;
        let census = inner.system.check(&mut call.token);
        let census = census.map_err(|violation| violation.to_string())?;
        match census.allocated {
            found if found == allocated => Ok(()),
            found => Err(format!("{found} pages are allocated, not {allocated}")),
        }
    }
}

impl<S: System + 'static> Home for Inner<S> {
    fn leave(&self, slot: u32) {
        self.slots.leave(slot, self.system);
    }
}

impl<S: System + 'static> WeakPool<S> {
    /// Returns the pool.
    ///
    /// # Errors
    /// [`Dead`](PoolError::Dead) if the last handle of the pool was dropped.
    pub fn upgrade(&self) -> Result<Pool<S>, PoolError> {
        let inner = self.inner.upgrade().ok_or(PoolError::Dead)?;
        Ok(Pool { inner })
    }
}

impl<S: System + 'static> Clone for Pool<S> {
    fn clone(&self) -> Self {
        let inner = Arc::clone(&self.inner);
        Self { inner }
    }
}

impl<S: System + 'static> Clone for WeakPool<S> {
    fn clone(&self) -> Self {
        let inner = Weak::clone(&self.inner);
        Self { inner }
    }
}

impl<S: System + 'static> fmt::Debug for Pool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("system", &S::ROW.name)
            .field("bytes", &self.size())
            .field("tokens", &self.inner.slots.tokens())
            .finish_non_exhaustive()
    }
}

impl<S: System + 'static> fmt::Debug for WeakPool<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakPool")
            .field("is_dead", &(self.inner.strong_count() == 0))
            .finish_non_exhaustive()
    }
}
