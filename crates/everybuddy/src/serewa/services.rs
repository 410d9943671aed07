//! Dividing and linking, one area at a time.
//!
//! The same steps are executed by the thread of a service, by an idle CPU, and by a request that would fail otherwise.
//!
//! # Source
//! \[Serewa\] §2.2.2: dividing breaks remnants into powers of two and adds them to the resources; linking merges
//! freed areas with their twins.
//!
//! # Invariants
//! The slot of an area accounts for what a step has not filed yet. The step updates the slot before it files each
//! piece, under the same lock.

use super::Serewa;
use super::area::Area;
use super::queue::AreaQueue;
use crate::coalesce::{Coalesce, Eager, is_free, record_move};
use crate::frame::Order;
use crate::frame_table::Tag;
use crate::lock::Guard;
use crate::platform::Platform;
use crate::probe::{Event, Probe};
use crate::structure::Structure;

impl<P: Platform, S: Structure<P>> Serewa<'_, P, S> {
    /// Divides the oldest remnant. Returns `false` if none waits. One lock per piece, O(orders).
    pub(super) fn dividing_step(&self, probe: &mut P::Probe) -> bool {
        let Some((slot, area)) = self.dividing.take(probe) else {
            return false;
        };
        let table = self.structure.table();
        let mut rest = Some(area);
        while let Some(area) = rest {
            let (next, head, order) = area.split_last();
            let guard = Guard::lock(self.lock, probe);
            self.dividing.keep(&slot, next, guard.probe);
            if let Some(next) = next {
                table.set_tag(next.start, Tag::queued(next.frames));
            }
            guard.probe.record(Event::Split(order.up()));
            Eager.free(&self.structure, head, order, guard.probe);
            rest = next;
        }
        self.dividing.release(slot, probe);
        self.notify_done();
        true
    }

    /// Merges the block that was freed first with its free buddies, and files it. Returns `false` if none waits. One
    /// lock per level, O(orders).
    pub(super) fn linking_step(&self, probe: &mut P::Probe) -> bool {
        let Some((slot, area)) = self.linking.take(probe) else {
            return false;
        };
        let table = self.structure.table();
        let (mut head, mut order) = (area.start, Order::saturating(area.frames.ilog2()));
        loop {
            let guard = Guard::lock(self.lock, probe);
            let buddy = head.buddy(order);
            if order == self.structure.max_order()
                || !is_free(&self.structure, buddy, order, guard.probe)
            {
                self.linking.keep(&slot, None, guard.probe);
                self.structure.insert(head, order);
                record_move::<P>(guard.probe);
                break;
            }
            let merged = Area::block(head.min(buddy), order.up());
            self.linking.keep(&slot, Some(merged), guard.probe);
            self.structure.remove(buddy, order);
            record_move::<P>(guard.probe);
            guard.probe.record(Event::Coalesce(order));
            table.set_tag(head.max(buddy), Tag::INTERIOR);
            table.set_tag(merged.start, Tag::queued(merged.frames));
            (head, order) = (merged.start, order.up());
        }
        self.linking.release(slot, probe);
        self.notify_done();
        true
    }

    /// Executes a whole step of either service under the lock that the caller holds. It is for callers that must not
    /// release the lock, so that no other thread takes what the step files, and for callers that must not wait for
    /// the lock.
    pub(super) fn step_within(&self, probe: &mut P::Probe) -> bool {
        let taken = |queue: &AreaQueue<'_, P>, divides: bool, probe: &mut P::Probe| {
            let (slot, area) = queue.take(probe)?;
            let mut rest = Some(area);
            while let Some(area) = rest {
                let (next, head, order) = area.split_last();
                queue.keep(&slot, next, probe);
                if let Some(next) = next {
                    let tag = Tag::queued(next.frames);
                    self.structure.table().set_tag(next.start, tag);
                }
                if divides {
                    probe.record(Event::Split(order.up()));
                }
                Eager.free(&self.structure, head, order, probe);
                rest = next;
            }
            queue.release(slot, probe);
            self.notify_done();
            Some(())
        };
        let worked =
            taken(&self.dividing, true, probe).or_else(|| taken(&self.linking, false, probe));
        worked.is_some()
    }
}
