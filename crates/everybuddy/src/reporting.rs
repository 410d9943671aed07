//! Giving free memory back to the monitor of a virtual machine, block by block.
//!
//! A monitor withdraws the memory behind free blocks that its guest reports. A guest should not report a block twice,
//! and should not keep much memory away from requests meanwhile. What was reported is stored here, for any system, and
//! no system knows of it.
//!
//! # Mechanism
//! Each block of the reporting order has a bit. A [`pass`](Reporting::pass) goes on where the last one ended. It
//! allocates the next free block without a bit by [`try_allocate_at`](FrameAllocator::try_allocate_at), passes it to
//! the monitor, sets the bit, and frees the block before it takes the next. A block is as large as free memory and the
//! bits allow, so that the monitor is called seldom. The host calls [`allocated`](Reporting::allocated) with what it
//! allocates, which clears bits.
//!
//! # Invariants
//! 1. Bits are set only in a block that is held. So all frames of a marked block were free since it was reported, or
//!    wait in a list, or were allocated by a CPU that has not called [`allocated`](Reporting::allocated) yet.
//! 2. `taken` counts up before a block is taken, and `put` after it was freed. If both are the same, no block is held.
//!
//! # Design decisions
//! Frames in per-CPU lists are not free blocks, and are not reported. A bit belongs to the whole block, so the first
//! frame that is allocated from a block clears it. Later frames of that block do not seem reported, although the
//! monitor may provide them only when they are accessed.
//!
//! A request that fails while a block is held might have been served by it. [`allocate`](Reporting::allocate) repeats
//! it, and no pass takes another block while it waits. A CPU in a pass may hold one block before it notices, so a
//! request waits for one block of each such CPU.

use core::fmt;

use crate::api::{FrameAllocator, Progress};
use crate::error::{AllocateError, FreeError};
use crate::frame::{Block, Index, Order};
use crate::marks::Marks;
use crate::platform::{AtomicWord, Ordering, Platform, WaitLimit};
use crate::region::FrameRange;
use crate::request::{Flags, Release, Request};
use crate::snapshot::FrameState;

/// What the monitor did with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It withdrew the memory. The frames contain what they did before, or only zeros.
    Given,
    /// It withdrew the memory, and the frames contain only zeros. They are freed as
    /// [`free_zeroed`](FrameAllocator::free_zeroed) does.
    GivenZeroed,
    /// It did not withdraw it. The block stays unreported, and the pass ends.
    Refused,
}

/// Which free blocks of a system were reported to a monitor.
///
/// # Example
///
/// ```
/// # use core::mem::MaybeUninit;
/// use everybuddy::prelude::*;
/// use everybuddy::platform::NativeAtomicU64;
/// use everybuddy::{Progress, Report, Reporting};
///
/// // A static for at most 1 GiB, in blocks of at least 2 MiB.
/// const HUGE: Order = Order::new(9).unwrap();
/// const WORDS: usize = Reporting::<Native>::words(HUGE, 1 << 18);
/// static REPORTED: [NativeAtomicU64; WORDS] = [const { NativeAtomicU64::new(0) }; WORDS];
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let ranges = [FrameRange::new(Pfn(0), 1 << 16)];
/// # let setup = Setup::new(&ranges, 1);
/// # let mut memory = vec![MaybeUninit::uninit(); Bs::room(&setup)?];
/// # let system = Bs::build(&setup, &mut memory[..])?;
/// # let cpus = NativeCpus::new(1);
/// # let mut cpu = cpus.claim(CpuId(0))?;
/// // The 256 MiB of the system.
/// let reporting = Reporting::<Native>::new(system, HUGE, &REPORTED)?;
///
/// let mut given = 0;
/// let end = reporting.pass(system, &mut cpu, 1000, &mut |block| {
///     given += block.order.frames();
///     Report::Given
/// });
/// assert_eq!((given, end), (1 << 16, Progress::Idle));
///
/// // Nothing is reported twice, until a frame of its block was allocated.
/// let frame = reporting.allocate(system, &mut cpu, Request::FRAME)?;
/// system.free(&mut cpu, Release::frame(frame))?;
/// let mut again = 0;
/// reporting.pass(system, &mut cpu, 1000, &mut |block| {
///     again += block.order.frames();
///     Report::Given
/// });
/// assert_eq!(again, 512);
/// # Ok(())
/// # }
/// ```
pub struct Reporting<'m, P: Platform> {
    reported: Marks<'m, P, 1>,
    /// The frames that have bits.
    frames: u32,
    /// The order of the largest block.
    largest: Order,
    /// Where the next block is searched. A hint: it only decides which block is next.
    cursor: P::AtomicU32,
    /// Requests that wait for a held block.
    waiting: P::AtomicU32,
    /// Attempts to take a block.
    taken: P::AtomicU32,
    /// Attempts that failed, and blocks that were put back.
    put: P::AtomicU32,
}

impl<'m, P: Platform> Reporting<'m, P> {
    /// Returns the number of words that a span of `frames` frames needs, holes included: one bit for each block.
    pub const fn words(order: Order, frames: u32) -> usize {
        Marks::<P, 1>::words(order, frames)
    }

    /// Begins to report blocks of at least `order`.
    ///
    /// The `words` belong to this value alone. If they are zero, no block is reported yet. If all of their bits are
    /// set, all blocks are: for a host whose memory is provided when it is first accessed. A block without a bit is
    /// never reported. Each call on this value takes the same system.
    ///
    /// # Errors
    /// [`TooLarge`](AllocateError::TooLarge) if the system has no block of that order.
    pub fn new(
        system: &dyn FrameAllocator<P>,
        order: Order,
        words: &'m [P::AtomicU64],
    ) -> Result<Self, AllocateError> {
        let largest = system.max_order();
        if order > largest {
            return Err(AllocateError::TooLarge { largest });
        }
        let reported = Marks::new(order, words);
        let span = system.span().frames();
        let blocks = u64::from(reported.touched(0, span).end);
        Ok(Self {
            reported,
            frames: (blocks << order.get()).min(span.into()) as u32,
            largest,
            cursor: P::AtomicU32::new(0),
            waiting: P::AtomicU32::new(0),
            taken: P::AtomicU32::new(0),
            put: P::AtomicU32::new(0),
        })
    }

    /// Reports no larger blocks than those of `largest`, or of [`order`](Self::order) if that is larger: a request
    /// waits as long as the monitor needs for one block. The default is the largest order of the system.
    #[must_use]
    pub fn up_to(self, largest: Order) -> Self {
        let largest = largest.clamp(self.order(), self.largest);
        Self { largest, ..self }
    }

    /// Returns the order of the smallest block that is reported. O(1).
    pub const fn order(&self) -> Order {
        self.reported.order()
    }

    /// Reports free blocks that were not reported, by address, and looks at `budget` blocks at most: the next call goes
    /// on from there. [`Idle`](Progress::Idle) says that it came to the end of memory, so the next one begins from the
    /// start. [`More`](Progress::More) says that the budget was used up, that the monitor refused, or that a request
    /// waits.
    ///
    /// `visit` calls the monitor. It is called with one block at a time, which nothing else holds. The block is free
    /// again before the next one is taken, and blocks that were known to contain only zeros still are. A block that
    /// another CPU takes first is passed over, and so are what lists cache and trees of `everybuddy` that other CPUs
    /// own. Several CPUs may report.
    pub fn pass(
        &self,
        system: &dyn FrameAllocator<P>,
        cpu: &mut P::Cpu,
        budget: u32,
        visit: &mut dyn FnMut(Block) -> Report,
    ) -> Progress {
        let mut left = budget;
        loop {
            let block = match self.take(system, cpu, &mut left) {
                Ok(block) => block,
                Err(progress) => return progress,
            };
            let report = visit(block);
            // It was allocated just now, so only misuse can have freed it.
            let _ = self.put(system, cpu, block, report);
            if report == Report::Refused {
                return Progress::More;
            }
        }
    }

    /// Takes the next free block that was not reported, for a host that calls the monitor elsewhere: a
    /// [`pass`](Self::pass) in steps. [`put`](Self::put) must follow; a host that takes several keeps all of them away
    /// from requests. Each block that is looked at takes one from `budget`: O(orders), and one
    /// [`try_allocate_at`](FrameAllocator::try_allocate_at) if it seems free.
    ///
    /// # Errors
    /// What the pass would return: [`Idle`](Progress::Idle) at the end of memory, [`More`](Progress::More) if nothing
    /// is left of the budget, or while a request waits.
    pub fn take(
        &self,
        system: &dyn FrameAllocator<P>,
        cpu: &mut P::Cpu,
        budget: &mut u32,
    ) -> Result<Block, Progress> {
        let size = self.order().frames();
        let mut at = self.cursor.load(Ordering::Relaxed);
        let outcome = loop {
            if *budget == 0 || self.waiting.load(Ordering::Relaxed) > 0 {
                break Err(Progress::More);
            }
            if at >= self.frames || self.frames - at < size {
                at = 0;
                break Err(Progress::Idle);
            }
            *budget -= 1;
            if self.is_reported(at) {
                at += size;
                continue;
            }
            let mut next = at + size;
            match system.frame_state(Index(at)) {
                Some(FrameState::Free { head }) => {
                    let order = self.extent(system, at, head);
                    if let Some(block) = self.try_take(system, cpu, Block::new(Index(at), order)) {
                        at += order.frames();
                        break Ok(block);
                    }
                }
                // No frame of an allocated block is free.
                Some(FrameState::Allocated { head, order }) if order > self.order() => {
                    next = next.max(head.0 + order.frames());
                }
                _ => {}
            }
            at = next;
        };
        self.cursor.store(at, Ordering::Relaxed);
        outcome
    }

    /// Returns how large a free block without bits may be that starts at a frame. A hint: the frames are not held.
    fn extent(&self, system: &dyn FrameAllocator<P>, at: u32, head: Index) -> Order {
        let mut order = self.order();
        while order < self.largest {
            let frames = order.frames();
            let upper = at + frames;
            let is_aligned = Index(at).is_aligned(order.up());
            if !is_aligned || upper >= self.frames || self.frames - upper < frames {
                break;
            }
            let is_free = system.frame_state(Index(upper)) == Some(FrameState::Free { head });
            if !is_free || self.any_reported(Block::new(Index(upper), order)) {
                break;
            }
            // Halves of which only one has zeros stay apart, so that this stays known.
            if system.is_zeroed(Index(at), frames) != system.is_zeroed(Index(upper), frames) {
                break;
            }
            order = order.up();
        }
        order
    }

    /// Takes a block if it is still free and unreported.
    fn try_take(
        &self,
        system: &dyn FrameAllocator<P>,
        cpu: &mut P::Cpu,
        block: Block,
    ) -> Option<Block> {
        let start = system.span().physical(block.start);
        let range = FrameRange::new(start, block.order.frames().into());
        // Acquire and release: pairs with the exchange in `held_since`. A request that saw the frames taken counts this
        // attempt.
        self.taken.fetch_add(1, Ordering::AcqRel);
        if system.try_allocate_at(cpu, range).is_ok() {
            if !self.any_reported(block) {
                return Some(block);
            }
            // Another CPU reported it meanwhile. It was allocated just now, so only misuse can have freed it.
            let _ = free(system, cpu, block, false);
        }
        self.end();
        None
    }

    /// Puts back a block that [`take`](Self::take) returned, and marks it as reported if the monitor took it. A block
    /// that was known to contain only zeros still is.
    ///
    /// # Errors
    /// Those of [`free`](FrameAllocator::free), if the block was not held. It then counts as unreported.
    pub fn put(
        &self,
        system: &dyn FrameAllocator<P>,
        cpu: &mut P::Cpu,
        block: Block,
        report: Report,
    ) -> Result<(), FreeError> {
        let (start, frames) = (block.start, block.order.frames());
        if report != Report::Refused {
            for block in self.reported.covered(start.0, frames) {
                self.reported.change(block, |bits| bits == 0, 1);
            }
        }
        let freed = free(system, cpu, block, report == Report::GivenZeroed);
        match freed {
            Ok(()) => self.end(),
            // The block was not held.
            Err(_) => {
                self.reported.clear(start.0, frames);
            }
        }
        freed
    }

    /// Returns the number of blocks that are held, for a host whose request failed: one that is put back can serve it.
    /// A hint while other CPUs report. O(1), no lock.
    pub fn held(&self) -> u32 {
        // In this order, so that a block that is taken in between does not seem to be put back before.
        // Acquire: pairs with the release in `end`: what was put back was taken before.
        let put = self.put.load(Ordering::Acquire);
        self.taken.load(Ordering::Relaxed).wrapping_sub(put)
    }

    /// Ends an attempt to take a block: it failed, or the block is free again.
    fn end(&self) {
        // Release: pairs with the acquires in `allocate` and `allocate_again`: a CPU that knows that nothing is
        // held finds the frames free.
        self.put.fetch_add(1, Ordering::Release);
        P::wake(&self.put);
    }

    /// Records that frames were allocated, before anything is written to them, and returns how many of the blocks that
    /// they touch had been reported. A monitor provides such memory again when it is accessed. 0 does not say that it
    /// has it already: another frame of the block may have been allocated before.
    ///
    /// A host calls this after each call by which it obtains frames: requests, bulk requests, ranges that it allocates,
    /// reserves or removes. One load for each block that was not reported.
    #[inline]
    pub fn allocated(&self, start: Index, frames: u32) -> u32 {
        self.reported.clear(start.0, frames)
    }

    /// Allocates as the system does, and records it as [`allocated`](Self::allocated) does. A request that fails while
    /// a block is held is made again after that block was put back, and no further block is taken until then. It waits
    /// for one block of each CPU that reports.
    ///
    /// # Errors
    /// Those of [`allocate`](FrameAllocator::allocate). [`Busy`](AllocateError::Busy) if a block is held and was not
    /// put back in time, or if the request has [`NO_WAIT`](Flags::NO_WAIT).
    #[inline]
    pub fn allocate<S: FrameAllocator<P> + ?Sized>(
        &self,
        system: &S,
        cpu: &mut P::Cpu,
        request: Request,
    ) -> Result<Index, AllocateError> {
        // Acquire: pairs with the release in `end`.
        let put = self.put.load(Ordering::Acquire);
        let mut allocated = system.allocate(cpu, request);
        if let Err(failure @ (AllocateError::Exhausted | AllocateError::Busy)) = allocated {
            let again = &mut || system.allocate(cpu, request);
            allocated = self.allocate_again(put, failure, request.flags, again);
        }
        let start = allocated?;
        self.allocated(start, request.size.extent().frames());
        Ok(start)
    }

    /// Returns `true` if a block may have been held since `put` was read.
    fn held_since(&self, put: u32) -> bool {
        // Acquire and release, and an exchange: pairs with the one in `try_take`. Either this one counts that attempt,
        // or the request before it saw the frames free.
        self.taken.fetch_add(0, Ordering::AcqRel) != put
    }

    #[cold]
    fn allocate_again(
        &self,
        mut put: u32,
        mut failure: AllocateError,
        flags: Flags,
        allocate: &mut dyn FnMut() -> Result<Index, AllocateError>,
    ) -> Result<Index, AllocateError> {
        if !self.held_since(put) {
            return Err(failure);
        }
        if flags.contains(Flags::NO_WAIT) {
            return Err(AllocateError::Busy);
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let (mut polls, mut limit) = (0, WaitLimit::<P>::new());
        let outcome = loop {
            // Acquire: pairs with the release in `end`.
            put = self.put.load(Ordering::Acquire);
            if self.held_since(put) {
                if limit.is_over(polls) {
                    break Err(AllocateError::Busy);
                }
                P::wait(&self.put, put, polls);
                polls = polls.saturating_add(1);
                continue;
            }
            match allocate() {
                Err(error) => failure = error,
                Ok(start) => break Ok(start),
            }
            if !self.held_since(put) {
                break Err(failure);
            }
        };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        outcome
    }

    fn is_reported(&self, frame: u32) -> bool {
        self.reported.get(frame >> self.order().get()) != 0
    }

    fn any_reported(&self, block: Block) -> bool {
        let mut blocks = self.reported.covered(block.start.0, block.order.frames());
        blocks.any(|block| self.reported.get(block) != 0)
    }
}

/// Frees a block that was held. If it was known to contain only zeros, it still is.
fn free<P: Platform>(
    system: &dyn FrameAllocator<P>,
    cpu: &mut P::Cpu,
    block: Block,
    is_zeroed: bool,
) -> Result<(), FreeError> {
    let release = Release::block(block);
    if is_zeroed || system.is_zeroed(block.start, block.order.frames()) {
        system.free_zeroed(cpu, release)
    } else {
        system.free(cpu, release)
    }
}

impl<P: Platform> fmt::Debug for Reporting<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporting")
            .field("order", &self.order())
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}
