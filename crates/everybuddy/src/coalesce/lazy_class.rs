//! Classes of blocks with delayed coalescing: a block of a class moves, and the class's counts follow.
//!
//! The rules of [`delay`](super::delay) and of [`debt`](super::debt) decide which of these moves a call makes.
//!
//! # Source
//! \[BL89\] §4, figure 3: each move changes the slack by a constant.
//!
//! # Invariants
//! After each function, the slack of a class is N - 2 Fl - Fg: see [`delay`](super::delay). A block that is split or
//! coalesced counts in the classes of both orders.

use super::{is_free, record_move};
use crate::frame::Order;
use crate::frame_table::{Frame, Tag};
use crate::platform::{Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::structure::{LocalStructure, add};

/// Subtracts from a count.
#[inline(always)]
pub(super) fn less<P: Platform>(cell: &P::Cell<u32>, amount: u32) {
    cell.set(cell.get().wrapping_sub(amount));
}

/// Removes a block of a class: a locally free one, otherwise a globally free one.
#[inline(always)]
fn take<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    order: Order,
    probe: &mut P::Probe,
) -> Option<Frame> {
    let class = structure.class(order);
    if let Some(head) = structure.take_local(order) {
        probe.record(Event::Link);
        add::<P>(&class.slack, 2);
        return Some(head);
    }
    let head = structure.take(order)?;
    record_move::<P>(probe);
    add::<P>(&class.slack, 1);
    Some(head)
}

/// Removes half of a larger block, for a class without free blocks. Out of line, since most requests find one.
#[inline(never)]
fn halve<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    order: Order,
    probe: &mut P::Probe,
) -> Option<Frame> {
    let mut found = order;
    let head = loop {
        if found >= structure.max_order() {
            return None;
        }
        found = found.up();
        // The same rules apply to the larger block.
        if let Some(head) = take(structure, found, probe) {
            break head;
        }
    };
    while found > order {
        probe.record(Event::Split(found));
        found = found.down();
        structure.insert_local(head.offset(found.frames()), found);
        probe.record(Event::Link);
        // Two more blocks, one of them locally free: the slack is unchanged.
        add::<P>(&structure.class(found).total, 2);
    }
    Some(head)
}

/// Removes a block, or half of a larger one.
#[inline(always)]
pub(super) fn find<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    order: Order,
    probe: &mut P::Probe,
) -> Option<Frame> {
    match take(structure, order, probe) {
        Some(head) => Some(head),
        None => halve(structure, order, probe),
    }
}

/// Marks an allocated block as globally free, or coalesces it with its buddy. Returns the coalesced block, which
/// must be freed into the next class.
#[inline(always)]
pub(super) fn mark<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    head: Frame,
    order: Order,
    probe: &mut P::Probe,
) -> Option<Frame> {
    let class = structure.class(order);
    less::<P>(&class.slack, 1);
    let buddy = head.buddy(order);
    if order >= structure.max_order() || !is_free(structure, buddy, order, probe) {
        structure.insert(head, order);
        record_move::<P>(probe);
        return None;
    }
    structure.remove(buddy, order);
    record_move::<P>(probe);
    less::<P>(&class.total, 2);
    probe.record(Event::Coalesce(order));
    structure.table().set_tag(head.max(buddy), Tag::INTERIOR);
    Some(head.min(buddy))
}

/// Frees a block locally.
#[inline(always)]
pub(super) fn free_locally<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    head: Frame,
    order: Order,
    probe: &mut P::Probe,
) {
    less::<P>(&structure.class(order).slack, 2);
    structure.insert_local(head, order);
    probe.record(Event::Link);
}

/// Removes a locally free block, to free it globally.
#[inline(always)]
pub(super) fn take_second<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    order: Order,
    probe: &mut P::Probe,
) -> Option<Frame> {
    let second = structure.take_local(order)?;
    probe.record(Event::Link);
    add::<P>(&structure.class(order).slack, 2);
    Some(second)
}
