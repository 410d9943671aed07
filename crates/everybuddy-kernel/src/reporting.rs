//! Free blocks that a kernel reports to the monitor of its virtual machine.
//!
//! # Invariants
//! Marks and state lie in the memory that was given to [`Reports::build`], and nowhere else. Frame numbers are physical
//! here.

use core::mem::MaybeUninit;

use everybuddy::{Block, CpuId, Order, Platform, Progress, Report, Reporting};

use crate::codes;
use crate::frames::{Frames, place};
use crate::gate::Machine;

/// A word of marks.
type Word = <Machine as Platform>::AtomicU64;

/// Which blocks of a system were reported.
pub struct Reports {
    frames: &'static Frames,
    reporting: Reporting<'static, Machine>,
}

impl Reports {
    /// Returns the number of words of marks. `None` if the system has no block of that order.
    fn words(frames: &Frames, order: u8) -> Option<(Order, usize)> {
        let system = frames.system();
        let order = Order::new(order).filter(|order| *order <= system.max_order())?;
        let words = Reporting::<Machine>::words(order, system.span().frames());
        Some((order, words))
    }

    /// Returns the bytes that [`build`](Self::build) takes, wherever they start. `None` if the system has no block of
    /// that order.
    pub fn bytes(frames: &Frames, order: u8) -> Option<usize> {
        let (_, words) = Self::words(frames, order)?;
        // Either part may start at any byte.
        Some(size_of::<Self>() + align_of::<Self>() + (words + 1) * size_of::<Word>())
    }

    /// Begins to report blocks of at least an order. `None` if the system has no such block, or the memory is too
    /// small.
    pub fn build(
        frames: &'static Frames,
        order: u8,
        memory: &'static mut [MaybeUninit<u8>],
    ) -> Option<&'static Reports> {
        let (order, count) = Self::words(frames, order)?;
        let (reports, memory) = place::<Reports>(memory, 1)?;
        let (words, _) = place::<Word>(memory, count)?;
        for word in words.iter_mut() {
            word.write(Word::new(0));
        }
        // SAFETY: the loop above wrote all words, which are borrowed for ever.
        let words = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<Word>(), count) };
        let reporting = Reporting::new(frames.system(), order, words).ok()?;
        let reports = reports.first_mut()?;
        Some(reports.write(Reports { frames, reporting }))
    }

    /// Takes the next block, as a physical frame and an order. The error is a code.
    pub(crate) fn take(&self, cpu: CpuId, budget: &mut u32) -> Result<(i64, Order), i32> {
        let system = self.frames.system();
        let taken = self
            .frames
            .with(cpu, |token| self.reporting.take(system, token, budget));
        match taken {
            Some(Ok(block)) => Ok((self.frames.physical(block.start), block.order)),
            Some(Err(Progress::Idle)) => Err(codes::EXHAUSTED),
            Some(Err(Progress::More)) | None => Err(codes::BUSY),
        }
    }

    /// Puts a block back. Returns 0, or an error as a negative number.
    pub(crate) fn put(&self, cpu: CpuId, frame: u64, order: u8, report: Report) -> i32 {
        let system = self.frames.system();
        let Some(order) = Order::new(order) else {
            return -codes::BAD_ORDER;
        };
        let Some(start) = self.frames.index(frame) else {
            return -codes::FOREIGN;
        };
        let block = Block::new(start, order);
        let put = self.frames.with(cpu, |token| {
            self.reporting.put(system, token, block, report)
        });
        match put {
            Some(Ok(())) => 0,
            Some(Err(error)) => -codes::of_free(error),
            None => -codes::BUSY,
        }
    }

    /// Records an allocation of 2^order frames, and returns how many blocks of it had been reported.
    #[inline]
    pub(crate) fn allocated(&self, frame: u64, order: u8) -> u32 {
        let frames = Order::new(order).map_or(0, Order::frames);
        let start = self.frames.index(frame);
        start.map_or(0, |start| self.reporting.allocated(start, frames))
    }

    /// Returns the number of blocks that are held.
    pub(crate) fn held(&self) -> u32 {
        self.reporting.held()
    }
}
