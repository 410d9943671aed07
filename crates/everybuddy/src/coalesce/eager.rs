//! The standard buddy's policy: coalesce whenever a buddy is free.
//!
//! Source: iBuddy (000) sections 2.1, 3.1.1 and 3.1.2; Barkley and Lee (003) section 3.
//!
//! Why it exists: it keeps blocks as large as they can be, and pays a split and a coalescing for requests
//! that alternate: what every other policy wants to avoid.
//!
//! Invariant: no two buddies of an order below the largest are both free.
//!
//! Decides: a split gives the lower half and keeps the upper.

use super::Coalesce;
use crate::frame::Order;
use crate::frame_table::{Frame, Tag};
use crate::platform::Platform;
use crate::probe::{Event, Probe};
use crate::structure::Structure;

/// Coalesces at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Eager;

impl<P: Platform> Coalesce<P> for Eager {
    #[inline]
    fn allocate<S: Structure<P>>(
        &self,
        structure: &S,
        order: Order,
        probe: &mut P::Probe,
    ) -> Option<Frame> {
        let mut found = order;
        let head = loop {
            if let Some(head) = structure.take(found) {
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
        }
        Some(head)
    }

    #[inline]
    fn free<S: Structure<P>>(
        &self,
        structure: &S,
        head: Frame,
        order: Order,
        probe: &mut P::Probe,
    ) {
        let (mut head, mut order) = (head, order);
        while order < structure.max_order() && structure.contains(head.buddy(order), order) {
            let buddy = head.buddy(order);
            structure.remove(buddy, order);
            probe.record(Event::Coalesce(order));
            structure.table().set_tag(head.max(buddy), Tag::INTERIOR);
            head = head.min(buddy);
            order = order.up();
        }
        structure.insert(head, order);
    }

    fn delays(&self) -> bool {
        false
    }
}
