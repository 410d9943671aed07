//! What all handles of a pool and its guards share.
//!
//! A pool joins address space with a frame allocator, whose frame numbers are the pages of that space.
//!
//! # Invariants
//! 1. Frame `n` of the system is the page at offset `n` times the page size. The system has no frame that is not in the
//!    mapping.
//! 2. A page belongs to one guard, or to one caller of `into_raw`, exactly while the system has it as allocated.
//! 3. The system lies in memory that is unmapped after it: when the last handle of the pool is dropped.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Thread;

use everybuddy::systems::build;
use everybuddy::{
    AllocateError, Flags, FrameAllocator, FrameRange, FreeError, Index, Memory, Order, Pfn,
    Platform, Release, Reporting, Request, Setup, System,
};

use crate::builder::PoolBuilder;
use crate::error::PoolError;
use crate::mapping::{HUGE, HugePages, Mapping, page_size};
use crate::slots::{Call, Counters, Machine, Slots};
use crate::threads::{self, Home};

/// How often a request is repeated that failed as busy.
const MAX_RETRIES: u32 = 8;

type Built<S> = <S as System>::Built<'static, Machine>;

/// A word of marks.
type Word = <Machine as Platform>::AtomicU64;

/// A pool, without the handles that keep it.
pub(crate) struct Shared<S: System + 'static> {
    /// The generation: different for every pool of the process.
    id: u64,
    /// Lies in `_metadata`, and is not used any more when that is unmapped.
    pub(crate) system: &'static Built<S>,
    pub(crate) slots: Slots,
    pub(crate) mapping: Mapping,
    pub(crate) page_shift: u32,
    /// The blocks that were returned to the operating system. Its words lie in `_metadata`.
    pub(crate) reporting: Reporting<'static, Machine>,
    /// Whether no block goes back: then no block has marks.
    pub(crate) keeps_memory: bool,
    pub(crate) released_bytes: AtomicU64,
    /// The thread that returns memory, if there is one.
    pub(crate) timer: Timer,
    _metadata: Mapping,
}

/// A thread that has to look, when the pool is dropped, whether it ends.
#[derive(Default)]
pub(crate) struct Timer(pub(crate) OnceLock<Thread>);

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

/// Writes marks of all blocks: as long as no page of a block was allocated, the operating system has its memory.
fn marked(memory: &'static mut [MaybeUninit<u8>], words: usize) -> &'static [Word] {
    // SAFETY: every bit pattern of the bytes is one of `MaybeUninit`.
    let (_, marks, _) = unsafe { memory.align_to_mut::<MaybeUninit<Word>>() };
    let marks = marks.get_mut(..words).unwrap_or_default();
    for word in marks.iter_mut() {
        word.write(Word::new(u64::MAX));
    }
    // SAFETY: the loop above wrote all words, which are borrowed as long as the memory is.
    unsafe { std::slice::from_raw_parts(marks.as_ptr().cast::<Word>(), marks.len()) }
}

impl<S: System + 'static> Shared<S> {
    pub(crate) fn new(builder: &PoolBuilder<S>) -> Result<Self, PoolError> {
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
        let ranges = [FrameRange::new(Pfn(0), frames)];
        let setup = Setup::new(&ranges, builder.tokens + 1);
        let (options, layout) = builder.fit(&setup, frames)?;
        let huge = Order::covering((HUGE / page) as u32).unwrap_or_default();
        let order = match (builder.release_order, builder.huge_pages) {
            (Some(order), HugePages::Default) => order,
            (order, _) => order.unwrap_or(huge).max(huge),
        };
        let system_bytes = layout.size().next_multiple_of(align_of::<Word>());
        let words = Reporting::<Machine>::words(order, u32::try_from(frames).unwrap_or(u32::MAX));
        let metadata_bytes = (system_bytes + words * size_of::<Word>()).next_multiple_of(page);
        let metadata = Mapping::new(metadata_bytes, page, HugePages::Default)?;
        let start = metadata.start().as_ptr().cast::<MaybeUninit<u8>>();
        // SAFETY: the mapping has this length, nothing else refers to its bytes, and it lives in `Shared` as long as
        // anything that is built in it (invariant 3).
        let memory = unsafe { std::slice::from_raw_parts_mut(start, metadata_bytes) };
        let (memory, marks) = memory.split_at_mut(system_bytes);
        // SAFETY: fresh pages of the kernel are zero.
        let memory = unsafe { Memory::zeroed(memory) };
        let system = build::<S, Machine>(&options, &setup, memory)?;
        let largest = system.max_order();
        // Without marks, no block goes back.
        let keeps = builder.huge_pages == HugePages::Reserved
            || builder.release_order.is_none() && order > largest;
        let marks = if keeps { &[] } else { marked(marks, words) };
        let order = if keeps { order.min(largest) } else { order };
        let reporting = Reporting::new(system, order, marks).map_err(|_| PoolError::TooLarge {
            pages: order.frames() as usize,
            largest: largest.frames() as usize,
        })?;
        // Blocks are then aligned to their size also by address.
        let alignment = (largest.frames() as usize * page).max(HUGE);
        let mapping = Mapping::new(bytes, alignment, builder.huge_pages)?;
        if !keeps && order < huge {
            mapping.avoid_huge_pages();
        }
        Ok(Self {
            id: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            system,
            slots: Slots::new(builder.tokens),
            mapping,
            page_shift: page.trailing_zeros(),
            reporting: reporting.up_to(huge),
            keeps_memory: keeps,
            released_bytes: AtomicU64::new(0),
            timer: Timer::default(),
            _metadata: metadata,
        })
    }

    /// Returns the bytes of a page.
    #[inline]
    pub(crate) fn page_size(&self) -> usize {
        1 << self.page_shift
    }

    /// Returns the pages of the largest run.
    pub(crate) fn largest_run(&self) -> usize {
        self.system.max_order().frames() as usize
    }

    /// Returns the order of a huge block, if the system has blocks of this size.
    pub(crate) fn huge_order(&self) -> Option<Order> {
        let order = Order::covering((HUGE >> self.page_shift) as u32)?;
        (order <= self.system.max_order()).then_some(order)
    }

    /// Takes the slot of this thread, or another one.
    #[inline]
    pub(crate) fn enter(self: &Arc<Self>) -> Result<Call<'_>, PoolError> {
        let slot = threads::slot(self.id, || {
            let home: Weak<Self> = Arc::downgrade(self);
            (self.slots.join(), home)
        });
        self.slots.enter(slot).ok_or(PoolError::Busy)
    }

    /// Allocates a run. Also returns how many of the blocks of the order of release that it touches no page was
    /// allocated of before, or since they went back.
    #[inline]
    pub(crate) fn allocate_frames(
        self: &Arc<Self>,
        pages: usize,
    ) -> Result<(Index, u32), PoolError> {
        let request = match pages {
            1 => Request::FRAME,
            _ => Request::frames(u32::try_from(pages).unwrap_or(u32::MAX)),
        };
        let mut call = self.enter()?;
        let no_wait = request.with_flags(Flags::NO_WAIT);
        match self.system.allocate(&mut call.token, no_wait) {
            Ok(start) => {
                let fresh = self.reporting.allocated(start, pages as u32);
                Counters::count(&call.counters().allocations);
                self.slots.finish(call, self.system);
                Ok((start, fresh))
            }
            Err(error) => {
                let start = self.allocate_short(call, request, pages, error)?;
                Ok((start, 0))
            }
        }
    }

    /// Goes on with a request that found nothing without waiting for other tokens.
    #[cold]
    #[inline(never)]
    fn allocate_short(
        self: &Arc<Self>,
        call: Call<'_>,
        request: Request,
        pages: usize,
        error: AllocateError,
    ) -> Result<Index, PoolError> {
        let (system, slots) = (self.system, &self.slots);
        let error = match error {
            AllocateError::Busy | AllocateError::Exhausted => {
                Counters::count(&call.counters().shortages);
                // Otherwise two threads that are short would wait for the slots of each other.
                drop(call);
                match slots.while_short(system, || self.retry(request)) {
                    (Ok(start), _) => return Ok(start),
                    (Err(AllocateError::Exhausted), false) => AllocateError::Busy,
                    (Err(error), _) => error,
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
    fn retry(self: &Arc<Self>, request: Request) -> Result<Index, AllocateError> {
        let mut retries = 0;
        loop {
            let mut call = self.enter().map_err(|_| AllocateError::Busy)?;
            // It waits for a block that goes back at this moment.
            let result = self
                .reporting
                .allocate(self.system, &mut call.token, request);
            retries += 1;
            let is_last = result != Err(AllocateError::Busy) || retries == MAX_RETRIES;
            if is_last {
                let counters = call.counters();
                Counters::count(match result {
                    Ok(_) => &counters.allocations,
                    Err(_) => &counters.refused,
                });
            }
            self.slots.finish(call, self.system);
            if is_last {
                return result;
            }
        }
    }

    /// Frees pages of a guard. Waits if all slots are taken.
    #[inline]
    pub(crate) fn free(
        self: &Arc<Self>,
        start: NonNull<u8>,
        pages: usize,
    ) -> Result<(), PoolError> {
        let (address, bytes) = (start.addr().get(), pages << self.page_shift);
        let offset = self.mapping.offset(address, bytes);
        let offset = offset.ok_or(PoolError::Foreign { address, bytes })?;
        let start = Index((offset >> self.page_shift) as u32);
        let release = match pages {
            1 => Release::frame(start),
            _ => Release::frames(start, pages as u32),
        };
        let mut call = loop {
            if let Ok(call) = self.enter() {
                break call;
            }
        };
        let mut freed = self.system.free(&mut call.token, release);
        if let Err(FreeError::InsideBlock { .. } | FreeError::WrongOrder { .. }) = freed {
            // A single page that was split off: a system that records orders frees it by count only.
            let part = Release::frames(start, pages as u32);
            freed = self.system.free(&mut call.token, part);
        }
        let counters = call.counters();
        Counters::count(match freed {
            Ok(()) => &counters.frees,
            Err(_) => &counters.refused_frees,
        });
        self.slots.finish(call, self.system);
        freed.map_err(PoolError::Free)
    }
}

impl<S: System + 'static> Home for Shared<S> {
    fn leave(&self, slot: u32) {
        self.slots.leave(slot, self.system);
    }
}
