//! The owners of page blocks.
//!
//! A frame is freed into the list of the CPU that owns its page block, so the freeing CPU must find the owner by the
//! frame's number alone.
//!
//! # Invariants
//! The owner of a page block changes only while no other CPU can access any of its frames. There are three cases: a CPU
//! claims the whole block under the zone's lock; the whole block is about to return to the zone; or the block is free
//! in the zone and the CPU holds the zone's lock. While a frame of the block is allocated or cached, the owner
//! therefore stays the same, and a CPU that frees the frame sees the owner that it had at the allocation. Relaxed loads
//! and stores suffice, because every transfer of a frame between CPUs orders them.

use crate::arena::{Arena, ArenaPlan};
use crate::error::BuildError;
use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::{AtomicWord, CpuId, Ordering, Platform};

/// The order of Linux's page blocks: 2 MiB in frames of 4 KiB.
const LINUX_PAGE_BLOCK: Order = Order::saturating(9);

/// Returns the order of a page block: 2 MiB, or the largest order if that is smaller.
#[inline]
pub(crate) fn page_block(max_order: Order) -> Order {
    max_order.min(LINUX_PAGE_BLOCK)
}

/// What is known about a page block.
#[repr(C)]
pub(crate) struct PageBlock<P: Platform> {
    /// The owner's number plus one, or zero.
    owner: P::AtomicU32,
    /// The number plus one of the CPU that remembers the block for its next refill, or zero.
    remembered: P::AtomicU32,
}

/// All page blocks of a span.
pub(crate) struct PageBlockTable<'a, P: Platform> {
    blocks: &'a [PageBlock<P>],
    order: Order,
}

impl<P: Platform> Clone for PageBlockTable<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Platform> Copy for PageBlockTable<'_, P> {}

impl<'a, P: Platform> PageBlockTable<'a, P> {
    fn count(frames: u32, max_order: Order) -> usize {
        frames.div_ceil(page_block(max_order).frames()) as usize
    }

    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, frames: u32, max_order: Order) -> ArenaPlan {
        plan.slice::<PageBlock<P>>(Self::count(frames, max_order))
    }

    /// Creates the page blocks of a span, without owners.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        frames: u32,
        max_order: Order,
    ) -> Result<Self, BuildError> {
        let count = Self::count(frames, max_order);
        let blocks = arena.slice("page block", count, |_| PageBlock {
            owner: P::AtomicU32::new(0),
            remembered: P::AtomicU32::new(0),
        })?;
        let order = page_block(max_order);
        Ok(Self { blocks, order })
    }

    /// Returns the order of a page block.
    #[inline(always)]
    pub(crate) fn order(&self) -> Order {
        self.order
    }

    #[inline(always)]
    fn of(&self, frame: Frame) -> Option<&'a PageBlock<P>> {
        self.blocks
            .get(frame.index().as_usize() >> self.order.get())
    }

    /// Returns the owner of a frame's page block.
    #[inline(always)]
    pub(crate) fn owner(&self, frame: Frame) -> Option<CpuId> {
        let word = self.of(frame)?.owner.load(Ordering::Relaxed);
        Some(CpuId(word.checked_sub(1)? as u16))
    }

    /// Sets the owner of a page block. The caller has all its frames in its hands.
    pub(crate) fn set_owner(&self, frame: Frame, owner: Option<CpuId>) {
        if let Some(block) = self.of(frame) {
            block.owner.store(Self::word(owner), Ordering::Relaxed);
        }
    }

    fn word(cpu: Option<CpuId>) -> u32 {
        cpu.map_or(0, |cpu| u32::from(cpu.0) + 1)
    }

    /// Notes that a CPU no longer remembers a page block.
    pub(crate) fn forget(&self, frame: Frame, cpu: CpuId) {
        if let Some(block) = self.of(frame)
            && block.remembered.load(Ordering::Relaxed) == Self::word(Some(cpu))
        {
            block.remembered.store(0, Ordering::Relaxed);
        }
    }

    /// Notes whether a CPU remembers a page block. Returns `false` if it was noted before.
    pub(crate) fn remember(&self, frame: Frame, cpu: Option<CpuId>) -> bool {
        let Some(block) = self.of(frame) else {
            return false;
        };
        let word = Self::word(cpu);
        // A hint: at worst a CPU remembers a block twice.
        let differs = block.remembered.load(Ordering::Relaxed) != word;
        if differs {
            block.remembered.store(word, Ordering::Relaxed);
        }
        differs
    }
}
