//! The standard buddy's policy: coalesce whenever a buddy is free.
//!
//! It keeps blocks as large as possible, and pays a split and a coalescing for alternating requests. Every other
//! policy tries to avoid that cost.
//!
//! # Source
//! \[iBuddy\] §2.1, §3.1.1 and §3.1.2; \[BL89\] §3.
//!
//! # Invariants
//! No two buddies of an order below the largest are both free.
//!
//! # Design decisions
//! A split allocates the lower half and keeps the upper.

use super::{Coalesce, is_free, record_move};
use crate::frame::Order;
use crate::frame_table::{Frame, Tag};
use crate::platform::Platform;
use crate::probe::{Event, Probe};
use crate::structure::Structure;

/// Coalesces immediately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Eager;

impl<P: Platform, S: Structure<P>> Coalesce<P, S> for Eager {
    #[inline(always)]
    fn allocate(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame> {
        let mut found = order;
        let head = loop {
            if let Some(head) = structure.take(found) {
                record_move::<P>(probe);
                break head;
            }
            if found >= structure.max_order() {
                return None;
            }
            found = found.up();
        };
        while found > order {
            probe.record(Event::Split(found));
            found = found.down();
            structure.insert(head.offset(found.frames()), found);
            record_move::<P>(probe);
        }
        Some(head)
    }

    #[inline]
    fn free(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
        let (mut head, mut order) = (head, order);
        while order < structure.max_order() && is_free(structure, head.buddy(order), order, probe) {
            let buddy = head.buddy(order);
            structure.remove(buddy, order);
            record_move::<P>(probe);
            probe.record(Event::Coalesce(order));
            let (lower, upper) = head.merged(order);
            structure.table().set_tag(upper, Tag::INTERIOR);
            head = lower;
            order = order.up();
        }
        structure.insert(head, order);
        record_move::<P>(probe);
    }
}
