//! DELAY-2 with a debt: a call coalesces at most two blocks of a class and leaves the rest to later calls.
//!
//! A kernel that frees under a lock, or in an interrupt, needs a bound for the call.
//!
//! # Source
//! \[BL89\] §3.2, whose sentence "at most two coalescing delays for each release" is true of a free into a class. One
//! call may cause 2^(j+1) of them j classes up ([`delay`](super::delay)). The debt is ours.
//!
//! # Mechanism
//! A call frees at most two blocks of each class globally, so it coalesces at most two of each: 2 M in all, if M
//! classes are at least as large as its own. A further block is freed locally although the slack does not allow it.
//! The slack D = N - 2 Fl - Fg then falls below zero by the amount owed, so the debt needs no memory of its own and
//! cannot be lost. Calls that have not used both of their blocks pay it: each locally free block that they free
//! globally reduces it by one, and each one that is allocated again reduces it by two.
//!
//! A call pays in its own class and in all larger ones, from the smallest up. Debts arise by coalescing, so they
//! arise above the class of a free, and the calls that reach those classes pay.
//!
//! # Invariants
//! After a call, each class from its own up has no debt, or two of its blocks were freed globally.
//!
//! # Design decisions
//! The bound holds for one freed or allocated block, so for each block of a batch. Coalescing everything (`quiesce`,
//! `reclaim=on`, memory that is removed) has no bound. When all blocks were freed without a debt, everything is
//! coalesced, as with DELAY-2; what is owed then stays locally free until the next call.

use super::lazy_class;
use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::{Platform, SharedCell};
use crate::structure::LocalStructure;

/// The number of blocks of each class that a call may still free globally.
struct Left([u8; Order::LIMIT.index() + 1]);

impl Left {
    /// The initial numbers of a call.
    const CALL: Left = Left([2; Order::LIMIT.index() + 1]);

    /// Subtracts one. Returns `true` if there was one.
    fn take(&mut self, order: Order) -> bool {
        let left = &mut self.0[order.index()];
        let is_left = *left > 0;
        *left -= u8::from(is_left);
        is_left
    }
}

/// Returns the slack of a class, below zero by what it owes.
pub(super) fn balance<P: Platform, S: LocalStructure<P>>(structure: &S, order: Order) -> i64 {
    // The slack wraps below zero.
    i64::from(structure.class(order).slack.get() as i32)
}

/// Frees a block, and pays.
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

/// Pays after an allocation.
#[inline(never)]
pub(super) fn allocated<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    order: Order,
    probe: &mut P::Probe,
) {
    let mut left = Left::CALL;
    pay(structure, order, &mut left, probe);
}

/// Frees a block into its class, and what it is coalesced to into the next ones: locally if the slack allows it, or
/// if no further global free is allowed. The second block that DELAY-2 then frees globally is owed.
fn put<P: Platform, S: LocalStructure<P>>(
    structure: &S,
    head: Frame,
    order: Order,
    left: &mut Left,
    probe: &mut P::Probe,
) {
    let (mut head, mut order) = (head, order);
    while balance(structure, order) < 2 && left.take(order) {
        match lazy_class::mark(structure, head, order, probe) {
            Some(larger) => (head, order) = (larger, order.up()),
            None => return,
        }
    }
    lazy_class::free_locally(structure, head, order, probe);
}

/// Pays what is owed, from a class up, as far as the call may.
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
            && let Some(second) = lazy_class::take_second(structure, order, probe)
        {
            if let Some(larger) = lazy_class::mark(structure, second, order, probe) {
                put(structure, larger, order.up(), left, probe);
            }
        }
    }
}
