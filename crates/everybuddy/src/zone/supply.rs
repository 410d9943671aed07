//! What a per-CPU buddy list takes from the zone: page blocks, parts of page blocks, and smaller chunks.
//!
//! A list that splits and merges by itself wants free memory in pieces as large as possible. It takes them in four
//! phases under one acquisition of the zone's lock.
//!
//! # Source
//! Johannes Weiner, RFC "mm: page_alloc: pcp buddy allocator", linux-mm, 2026-04-03, from its description. Phase 0:
//! the free parts of page blocks that the CPU owns. Phase 1: whole page blocks. Phase 2: chunks smaller than a page
//! block, the largest first. Phase 3: blocks of the requested order, one by one.
//!
//! # Invariants
//! Called under the zone's lock. A block that is passed to the sink is no longer in the structure, and the sink tags
//! the block's head.

use crate::coalesce::{Coalesce, record_move};
use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::Platform;
use crate::snapshot::FrameState;
use crate::structure::{Structure, free_block_at};

/// What a list asks for.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    /// The order of the request: at least one block of this order or a larger one is wanted.
    pub(crate) order: Order,
    /// The number of frames wanted.
    pub(crate) frames: u32,
    /// The order of a page block.
    pub(crate) page_block: Order,
}

/// What a list receives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supplied {
    /// A free part of a page block that the list named (phase 0).
    Fragment,
    /// A whole page block (phase 1).
    PageBlock,
    /// A block that is smaller than a page block (phases 2 and 3).
    Chunk,
    /// Nothing: a page block that the list named is whole and stays in the zone.
    Whole,
}

/// The progress of a demand.
struct DemandProgress {
    demand: Demand,
    frames: u32,
    fits: bool,
}

impl DemandProgress {
    fn is_met(&self) -> bool {
        self.fits && self.frames >= self.demand.frames
    }

    fn add(&mut self, order: Order) {
        self.frames += order.frames();
        self.fits |= order >= self.demand.order;
    }
}

/// Takes blocks out of a structure until the demand is met, and passes them to `sink`. `owned` yields the first frames
/// of page blocks whose free parts are wanted. Returns the number of frames. O(frames of the named page blocks +
/// blocks × orders).
pub(crate) fn supply<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
    (structure, policy): (&S, &C),
    demand: Demand,
    probe: &mut P::Probe,
    mut owned: impl FnMut() -> Option<Frame>,
    mut sink: impl FnMut(Frame, Order, Supplied),
) -> u32 {
    let mut progress = DemandProgress {
        demand,
        frames: 0,
        fits: false,
    };
    while !progress.is_met()
        && let Some(start) = owned()
    {
        let mut taken = |head, order, supplied| {
            if supplied == Supplied::Fragment {
                progress.add(order);
            }
            sink(head, order, supplied);
        };
        fragments(structure, start, demand.page_block, probe, &mut taken);
    }
    let mut order = demand.page_block;
    loop {
        // No block of a larger order is left, except at first: then a larger block is split into page blocks.
        while !progress.is_met() {
            let Some(head) = policy.allocate(structure, order, probe) else {
                break;
            };
            progress.add(order);
            let is_whole = order == demand.page_block;
            sink(
                head,
                order,
                if is_whole {
                    Supplied::PageBlock
                } else {
                    Supplied::Chunk
                },
            );
        }
        if progress.is_met() || order <= demand.order {
            return progress.frames;
        }
        order = order.down();
    }
}

/// Takes all free blocks inside a page block.
fn fragments<P: Platform, S: Structure<P>>(
    structure: &S,
    start: Frame,
    page_block: Order,
    probe: &mut P::Probe,
    sink: &mut impl FnMut(Frame, Order, Supplied),
) {
    let table = structure.table();
    let end = start.index().0 + page_block.frames();
    let mut at = Some(start);
    while let Some(frame) = at
        && frame.index().0 < end
    {
        let step = match free_block_at(structure, frame.index()) {
            Some((_, order)) if order >= page_block => {
                return sink(start, page_block, Supplied::Whole);
            }
            Some((head, order)) => {
                structure.remove(head, order);
                record_move::<P>(probe);
                sink(head, order, Supplied::Fragment);
                head.index().0 + order.frames()
            }
            // A hint, since other CPUs allocate and free this block: it decides only how far to go.
            None => match table.holder(frame) {
                Some((
                    head,
                    FrameState::Allocated { order, .. } | FrameState::Buffered { order, .. },
                )) => (head.index().0 + order.frames()).max(frame.index().0 + 1),
                _ => frame.index().0 + 1,
            },
        };
        at = table.frame(crate::frame::Index(step));
    }
}
