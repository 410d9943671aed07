//! Runs of frames: exact requests, given frames, partial frees, adding and withdrawing memory.
//!
//! A run that is not a single block is split into blocks in the same way in every zone layer. \[Serewa\] §2.2.1 names
//! both needs: a request takes the block that covers it and frees the remnant as powers of two, and any part of an
//! allocation can be freed.
//!
//! # Invariants
//! Called under the lock of the zone that owns the frames. Every operation checks everything first and changes it
//! afterwards, so an error leaves all frames as they were. An operation that needs free frames coalesces first what was
//! delayed, even if it then fails.

use crate::coalesce::Coalesce;
use crate::error::{FreeError, RangeError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag, pieces};
use crate::platform::Platform;
use crate::snapshot::FrameState;
use crate::structure::{Structure, free_block_at};

/// Tags the pieces of a run as allocated. The records between the pieces' heads must be interior.
pub(crate) fn tag_allocated<P: Platform>(table: FrameTable<'_, P>, start: Frame, frames: u32) {
    for (head, order) in pieces(start, frames, Order::LIMIT) {
        table.set_tag(head, Tag::allocated(order));
    }
}

/// Frees the pieces of a run into the structure. O(orders).
pub(crate) fn free_pieces<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
    structure: &S,
    policy: &C,
    start: Frame,
    frames: u32,
    probe: &mut P::Probe,
) {
    for (head, order) in pieces(start, frames, structure.max_order()) {
        policy.free(structure, head, order, probe);
    }
}

/// Returns the allocated block that holds a frame, and the frame after it.
fn holder_of<P: Platform>(
    table: FrameTable<'_, P>,
    frame: Frame,
) -> Result<(Frame, u32), FreeError> {
    match table.holder(frame) {
        Some((head, FrameState::Allocated { order, .. })) => {
            Ok((head, head.index().0 + order.frames()))
        }
        Some((_, FrameState::Hole)) => Err(FreeError::Hole),
        Some((_, FrameState::Reserved)) => Err(FreeError::Reserved),
        _ => Err(FreeError::NotAllocated),
    }
}

/// Checks that [`free_run`] can free a run.
pub(crate) fn check_free_run<P: Platform>(
    table: FrameTable<'_, P>,
    start: Frame,
    frames: u32,
) -> Result<(), FreeError> {
    let end = start.index().0 + frames;
    let mut at = start;
    while at.index().0 < end {
        let (_, after) = holder_of(table, at)?;
        at = start.offset(after - start.index().0);
    }
    Ok(())
}

/// Adds the pieces of a run that was not memory before to the structure. O(orders).
pub(crate) fn adopt_pieces<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
    structure: &S,
    policy: &C,
    start: Frame,
    frames: u32,
    probe: &mut P::Probe,
) {
    for (head, order) in pieces(start, frames, structure.max_order()) {
        policy.adopt(structure, head, order, probe);
    }
}

/// Frees a run of allocated frames. The rest of the allocations that it overlaps stays allocated.
pub(crate) fn free_run<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
    structure: &S,
    policy: &C,
    start: Frame,
    frames: u32,
    probe: &mut P::Probe,
) -> Result<(), FreeError> {
    let table = structure.table();
    let end = start.index().0 + frames;
    check_free_run(table, start, frames)?;
    let mut at = start;
    while at.index().0 < end {
        let (head, after) = holder_of(table, at)?;
        let upto = after.min(end);
        let start_of_block = head.index().0;
        if let Some(order) = Order::covering(after - start_of_block) {
            let from = at.index().0 - start_of_block;
            policy.split_allocated(structure, order, from, upto - start_of_block);
        }
        // The head's record is rewritten below: it starts a kept piece or a freed one.
        tag_allocated(table, head, at.index().0 - head.index().0);
        let rest = start.offset(upto - start.index().0);
        tag_allocated(table, rest, after - upto);
        // A freed piece's own head may still be tagged as the head of the whole; inserting rewrites it,
        // coalescing makes it interior.
        free_pieces(structure, policy, at, upto - at.index().0, probe);
        at = rest;
    }
    Ok(())
}

/// Turns a run of allocated frames into separate allocations, and likewise the rest of the allocations that it
/// overlaps.
pub(crate) fn detach<P: Platform>(
    table: FrameTable<'_, P>,
    start: Frame,
    frames: u32,
) -> Result<(), FreeError> {
    check_free_run(table, start, frames)?;
    let end = start.index().0 + frames;
    let mut at = start;
    while at.index().0 < end {
        let (head, after) = holder_of(table, at)?;
        let upto = after.min(end);
        let rest = start.offset(upto - start.index().0);
        tag_allocated(table, head, at.index().0 - head.index().0);
        tag_allocated(table, rest, after - upto);
        tag_allocated(table, at, upto - at.index().0);
        at = rest;
    }
    Ok(())
}

/// Returns the order of the allocated block that starts here.
pub(crate) fn block_at<P: Platform>(
    table: FrameTable<'_, P>,
    head: Frame,
) -> Result<Order, FreeError> {
    match table.tag(head).state(head) {
        Some(FrameState::Allocated { order, .. }) => Ok(order),
        _ => Err(table.diagnose(head)),
    }
}

/// Validates a run of frame numbers.
pub(crate) fn run<P: Platform>(
    table: FrameTable<'_, P>,
    start: Index,
    frames: u32,
) -> Result<Frame, RangeError> {
    if frames == 0 {
        return Err(RangeError::Empty);
    }
    start
        .0
        .checked_add(frames - 1)
        .and_then(|last| table.frame(Index(last)))
        .and_then(|_| table.frame(start))
        .ok_or(RangeError::OutsideSpan)
}

/// Checks that [`add`] can make a run free, and returns its first frame.
pub(crate) fn check_add<P: Platform>(
    table: FrameTable<'_, P>,
    start: Index,
    frames: u32,
    from: Tag,
) -> Result<Frame, RangeError> {
    let first = run(table, start, frames)?;
    for offset in 0..frames {
        let frame = first.offset(offset);
        if table.tag(frame) != from {
            return Err(match from {
                Tag::RESERVED => RangeError::NotReserved(frame.index()),
                _ => RangeError::AlreadyManaged(frame.index()),
            });
        }
    }
    Ok(first)
}

/// Frees a run whose frames all have the tag `from`.
pub(crate) fn add<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
    structure: &S,
    policy: &C,
    start: Index,
    frames: u32,
    from: Tag,
    probe: &mut P::Probe,
) -> Result<(), RangeError> {
    let table = structure.table();
    let first = check_add(table, start, frames, from)?;
    for (head, order) in pieces(first, frames, structure.max_order()) {
        // Not the head: a list that merges under its own lock must not take it for the inside of a block.
        for offset in 1..order.frames() {
            table.set_tag(head.offset(offset), Tag::INTERIOR);
        }
    }
    policy.settle(structure, probe);
    adopt_pieces(structure, policy, first, frames, probe);
    policy.on_added(structure, start, frames);
    Ok(())
}

/// Checks that [`withdraw`] can remove a run, and returns its first frame.
pub(crate) fn check_withdraw<P: Platform, S: Structure<P>>(
    structure: &S,
    start: Index,
    frames: u32,
) -> Result<Frame, RangeError> {
    let first = run(structure.table(), start, frames)?;
    let end = start.0 + frames;
    let mut at = first;
    while at.index().0 < end {
        let (head, order) =
            free_block_at(structure, at.index()).ok_or(RangeError::NotFree(at.index()))?;
        at = first.offset(head.index().0 + order.frames() - start.0);
    }
    Ok(first)
}

/// Removes a run of free frames and tags them with `to`.
pub(crate) fn withdraw<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
    structure: &S,
    policy: &C,
    start: Index,
    frames: u32,
    to: Tag,
    probe: &mut P::Probe,
) -> Result<(), RangeError> {
    let table = structure.table();
    policy.settle(structure, probe);
    let first = check_withdraw(structure, start, frames)?;
    policy.on_withdraw(structure, start, frames);
    let end = start.0 + frames;
    let mut at = first;
    while at.index().0 < end {
        let Some((head, order)) = free_block_at(structure, at.index()) else {
            break;
        };
        // The head's record is rewritten below: by the piece that is kept, or by the tag.
        structure.remove(head, order);
        let (from, after) = (head.index().0, head.index().0 + order.frames());
        let upto = after.min(end);
        for (kept, order) in pieces(head, at.index().0 - from, structure.max_order()) {
            structure.insert(kept, order);
        }
        let rest = first.offset(upto - start.0);
        for (kept, order) in pieces(rest, after - upto, structure.max_order()) {
            structure.insert(kept, order);
        }
        for frame in at.index().0..upto {
            table.set_tag(first.offset(frame - start.0), to);
        }
        at = rest;
    }
    Ok(())
}

/// Allocates exactly this run of free frames, in aligned blocks. O(frames).
pub(crate) fn allocate_at<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
    structure: &S,
    policy: &C,
    start: Index,
    frames: u32,
    probe: &mut P::Probe,
) -> Result<Frame, RangeError> {
    let table = structure.table();
    policy.settle(structure, probe);
    let first = check_withdraw(structure, start, frames)?;
    for (head, order) in pieces(first, frames, structure.max_order()) {
        let mut taken = 0;
        // A piece consists of several free blocks only where memory was initially divided so.
        while taken < order.frames() {
            let at = head.offset(taken);
            let Some((whole, found)) = free_block_at(structure, at.index()) else {
                break;
            };
            let least = found.min(order);
            policy.carve(structure, (whole, found), (at, least), probe);
            // Not the head of the piece: see `add`.
            if taken > 0 {
                table.set_tag(at, Tag::INTERIOR);
            }
            taken += least.frames();
        }
        table.set_tag(head, Tag::allocated(order));
    }
    Ok(first)
}
