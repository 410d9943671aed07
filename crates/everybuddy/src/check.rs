//! The invariant walker: every frame is in exactly one state, and the sums agree.
//!
//! A test that only checks answers finds a corruption long after it happened. This walk finds it immediately.
//!
//! # Invariants
//! It only reads, under the zone's lock, while no other CPU works.
//!
//! # Conditions
//! 1. A frame is in exactly one state: hole, reserved, free in the zone, buffered by one CPU, or allocated. Its record,
//!    or that of the head of its block, states which (frame_table.rs).
//! 2. A block's bit is set exactly when its head is in the list of its order (iBuddy's bits).
//! 3. With `eager`, no two buddies below the largest order are both free. With `delay`, each class of blocks stays in
//!    the lazy space (delay.rs).
//! 4. A structure is accessed only under the lock of its zone or space, a domain only by its holder. A CPU's list is
//!    accessed only by the holder of its token, or by another CPU while the CPU's state word permits it.
//! 5. After an error everything is as before, unless two CPUs free the same frames simultaneously.

use crate::frame::{Index, Order};
use crate::frame_table::Tag;
use crate::platform::Platform;
use crate::snapshot::{Census, FrameState, Violation};
use crate::structure::Structure;

/// Walks the frames of a structure from the lowest, block by block. O(frames).
pub(crate) fn walk<P: Platform, S: Structure<P>>(
    structure: &S,
    frames: core::ops::Range<u32>,
) -> Result<Census, Violation> {
    walk_divided(structure, frames, false)
}

/// The same, for memory that may have been initially divided (`divided`): two buddies may then be free. O(frames).
pub(crate) fn walk_divided<P: Platform, S: Structure<P>>(
    structure: &S,
    frames: core::ops::Range<u32>,
    divided: bool,
) -> Result<Census, Violation> {
    structure.check()?;
    let table = structure.table();
    let mut census = Census::default();
    let mut at = frames.start;
    while at < frames.end {
        let fail = |what| {
            Err(Violation {
                index: Index(at),
                what,
            })
        };
        let Some(head) = table.frame(Index(at)) else {
            return fail("beyond the table");
        };
        let Some(state) = table.tag(head).state(head) else {
            return fail("a frame is interior to no block");
        };
        if let Some(waiting) = table.tag(head).waiting() {
            if waiting == 0 || u64::from(at) + u64::from(waiting) > u64::from(frames.end) {
                return fail("an area that waits reaches beyond the memory");
            }
            if (1..waiting).any(|offset| table.tag(head.offset(offset)) != Tag::INTERIOR) {
                return fail("a frame inside an area that waits is not tagged as interior");
            }
            census.queued += u64::from(waiting);
            at += waiting;
            continue;
        }
        let order = match state {
            FrameState::Hole | FrameState::Reserved | FrameState::Queued => Order::ZERO,
            FrameState::Allocated { order, .. } | FrameState::Buffered { order, .. } => order,
            FrameState::Free { .. } => match structure.order_at(head) {
                Some(order) => order,
                None => return fail("a frame is linked, but no bit says that it is free"),
            },
        };
        let count = u64::from(order.frames());
        match state {
            FrameState::Hole => census.holes += count,
            FrameState::Reserved => census.reserved += count,
            FrameState::Allocated { .. } => census.allocated += count,
            FrameState::Buffered { .. } => census.buffered += count,
            FrameState::Queued => census.queued += count,
            FrameState::Free { .. } => {
                census.free += count;
                let buddy = head.buddy(order);
                if !S::INDIVIDUAL
                    && !divided
                    && structure.contains(head, order)
                    && order < structure.max_order()
                    && structure.contains(buddy, order)
                {
                    return fail("two buddies are free and not coalesced");
                }
            }
        }
        if !head.index().is_aligned(order) || u64::from(at) + count > u64::from(frames.end) {
            return fail("a block is not aligned, or reaches beyond the memory");
        }
        if (1..order.frames()).any(|offset| table.tag(head.offset(offset)) != Tag::INTERIOR) {
            return fail("a frame inside this block is not tagged as interior");
        }
        at += order.frames();
    }
    let free: u64 = Order::up_to(structure.max_order())
        .map(|order| u64::from(structure.blocks(order)) * u64::from(order.frames()))
        .sum();
    if free != census.free {
        return Err(Violation {
            index: Index(frames.start),
            what: "the free blocks of an order are miscounted",
        });
    }
    Ok(census)
}
