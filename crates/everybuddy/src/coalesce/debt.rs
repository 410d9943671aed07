//! DELAY-2 with a debt: what a call would have to coalesce beyond two blocks of a class is left to later calls.
//!
//! Source: \[BL89\] 3.2, whose sentence "at most two coalescing delays for each release" is true of a
//! release into a class. One call may cause 2^(j+1) of them j classes up ([`delay`](super::delay)). The debt is ours.
//!
//! Why it exists: a kernel that frees under a lock, or in an interrupt, wants a bound for the call.
//!
//! A call frees at most two blocks of each class globally, so it coalesces at most two of each: 2 M in all, if M
//! classes are at least as large as its own. A block that is over is freed locally although the slack doesn't allow it:
//! the slack D = N - 2 Fl - Fg falls below zero, by what is owed. So the debt needs no memory of its own and can't get
//! lost. It is paid by calls that have something left of their two: with each locally free block that they free
//! globally it is less by one, and with each that is allocated again, by two.
//!
//! A call pays in its class and in all larger ones, from the smallest up: debts arise by coalescing, so above the class
//! that is released into, and who comes there pays.
//!
//! Invariant: after a call each class from its own up is without debt, or two of its blocks were freed globally.
//!
//! Decides: the bound is for a block that is released or allocated, so for each of a batch. Coalescing everything
//! (`quiesce`, `reclaim=on`, memory that goes) keeps to no bound. When all is returned without a debt all is
//! coalesced, as with DELAY-2; what is owed then stays locally free until somebody calls.

use super::delay::Delay;
use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::{Platform, SharedCell};
use crate::structure::LocalStructure;

/// What a call may still free globally in each class.
struct Left([u8; Order::LIMIT.index() + 1]);

impl Left {
    /// What a call begins with.
    const CALL: Left = Left([2; Order::LIMIT.index() + 1]);

    /// Takes one; tells whether there was one.
    fn take(&mut self, order: Order) -> bool {
        let left = &mut self.0[order.index()];
        let is_left = *left > 0;
        *left -= u8::from(is_left);
        is_left
    }
}

/// Returns the slack of a class, below zero by what it owes.
pub(super) fn balance<P: Platform, S: LocalStructure<P>>(structure: &S, order: Order) -> i64 {
    let class = structure.class(order);
    let count = |cell: &P::Cell<u32>| i64::from(cell.get());
    count(&class.total) - 2 * count(&class.local) - count(&class.global)
}

/// Frees a block that was released, and pays.
#[inline(never)]
pub(super) fn free<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    head: Frame,
    order: Order,
    probe: &mut P::Probe,
) {
    let mut left = Left::CALL;
    put(structure, head, order, &mut left, probe);
    pay(structure, order, &mut left, probe);
}

/// Pays after a block was allocated.
#[inline(never)]
pub(super) fn allocated<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    order: Order,
    probe: &mut P::Probe,
) {
    let mut left = Left::CALL;
    pay(structure, order, &mut left, probe);
}

/// Frees a block into its class, and what it is coalesced to into the next ones: locally where the slack allows it or
/// nothing is left. The second block that DELAY-2 then frees globally is owed.
fn put<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    head: Frame,
    order: Order,
    left: &mut Left,
    probe: &mut P::Probe,
) {
    let (mut head, mut order) = (head, order);
    while balance(structure, order) < 2 && left.take(order) {
        match Delay::mark(structure, head, order, probe) {
            Some(larger) => (head, order) = (larger, order.up()),
            None => return,
        }
    }
    Delay::free_locally(structure, head, order, probe);
}

/// Pays what is owed from a class up, as far as something is left.
fn pay<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    from: Order,
    left: &mut Left,
    probe: &mut P::Probe,
) {
    let orders = Order::up_to(structure.max_order());
    for order in orders.filter(|order| *order >= from) {
        while balance(structure, order) < 0
            && left.take(order)
            && let Some(second) = Delay::take_second(structure, order, probe)
        {
            if let Some(larger) = Delay::mark(structure, second, order, probe) {
                put(structure, larger, order.up(), left, probe);
            }
        }
    }
}
