//! One buddy space.
//!
//! It groups what a space's lock guards, and computes the state that the pool records.
//!
//! # Source
//! \[iBuddy\] §5: one free area per space.
//!
//! # Invariants
//! Everything except the lock is touched only under the lock, and the pool's record as [`pool`](super::pool) describes.
//! Without the lock, the counts may be out of date: they are while a batch moves.
//!
//! # Design decisions
//! The lock lies with what it guards, so a request with iBuddy's structure touches two or three lines of a space: the
//! first two, and one more for levels from 8 on. CPUs that wait for the lock poll the first of them. With an older
//! layout, a lock on a line of its own changed the times of `handover` and `burst:random`, simulated on 8 to 32 CPUs of
//! `epyc-7763`, by at most 0.7 %. This layout was not simulated.

use super::pool::{SpaceRecord, State};
use crate::lock::ZoneLock;
use crate::platform::{Platform, SharedCell};
use crate::structure::{Placed, StructurePlace};

/// A space: everything that its lock guards, and the lock.
#[repr(C, align(64))]
pub(crate) struct Space<'a, P: Platform, S> {
    /// The lock of everything here.
    pub(crate) lock: ZoneLock<'a, P>,
    record: SpaceRecord<P>,
    /// Frames that came so far, modulo 2^32. If two reads return the same, nothing was freed in between.
    given: P::Cell<u32>,
    /// Frames that left so far, modulo 2^32.
    taken: P::Cell<u32>,
    /// Its free area.
    pub(crate) structure: S,
    /// Frames that are neither holes nor reserved. Behind the rest: only a space that may be all free needs it.
    pub(crate) managed: P::Cell<u32>,
}

impl<P: Platform, S> AsRef<SpaceRecord<P>> for Space<'_, P, S> {
    #[inline(always)]
    fn as_ref(&self) -> &SpaceRecord<P> {
        &self.record
    }
}

impl<'a, P: Platform, S: Placed<'a, P>> Space<'a, P, S> {
    /// Creates a space without frames.
    pub(crate) fn new(
        lock: ZoneLock<'a, P>,
        record: SpaceRecord<P>,
        place: StructurePlace<'a, P>,
    ) -> Self {
        Self {
            lock,
            record,
            given: P::Cell::new(0),
            taken: P::Cell::new(0),
            structure: S::new(place),
            managed: P::Cell::new(0),
        }
    }

    /// Returns `true` if the space is assigned. Under the space's lock.
    #[inline(always)]
    pub(crate) fn is_assigned(&self) -> bool {
        self.record.word() == State::Assigned.word()
    }

    /// Returns `true` if the pool need not be told about the space: it is assigned, or was and is partly used, with
    /// the same largest block. For any other space it may return `false`. Under the space's lock.
    #[inline(always)]
    pub(crate) fn is_settled(&self) -> bool {
        let word = self.record.word();
        if word == State::Assigned.word() {
            return true;
        }
        // Only now, since some structures search for it.
        let level = self.structure.level();
        let has_largest = level > self.structure.max_order().index() as u32;
        // A space without a largest block is not all free.
        word == level && !(has_largest && self.free() == self.managed.get())
    }

    /// Returns `true` if the pool's record is this state. Under the space's lock.
    pub(crate) fn is_recorded_as(&self, state: State) -> bool {
        self.record.word() == state.word()
    }

    /// Returns the state that the space has while it is unassigned.
    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.structure.largest() {
            Some(order)
                if order == self.structure.max_order() && self.free() == self.managed.get() =>
            {
                State::Free
            }
            Some(order) => State::Partly(order),
            None => State::Used,
        }
    }

    /// Returns the number of free frames.
    pub(crate) fn free(&self) -> u32 {
        self.given.get().wrapping_sub(self.taken.get())
    }

    /// Returns the same without the lock: a hint.
    pub(crate) fn free_hint(&self) -> u32 {
        // In this order, what comes and leaves in between makes the difference larger.
        let taken = self.taken.peek();
        let free = self.given.peek().wrapping_sub(taken);
        (free as i32).max(0) as u32
    }

    /// Returns the number of frames that came so far, without the lock.
    pub(crate) fn given_hint(&self) -> u32 {
        self.given.peek()
    }

    /// Counts frames that came.
    #[inline(always)]
    pub(crate) fn give(&self, frames: u32) {
        self.given.set(self.given.get().wrapping_add(frames));
    }

    /// Counts frames that left. While a batch moves and the lock is released in between, other CPUs see counts that are
    /// out of date.
    #[inline(always)]
    pub(crate) fn take(&self, frames: u32) {
        self.taken.set(self.taken.get().wrapping_add(frames));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::Native;
    use crate::structure::Inverse;
    use core::mem::offset_of;

    type Own<'a> = Space<'a, Native, Inverse<'a, Native>>;

    /// Everything that each request reads or writes, but the list of its level, is on the first two lines of a space.
    #[test]
    fn a_request_touches_two_lines_of_a_space_besides_its_list() {
        assert!(offset_of!(Own<'_>, structure) < crate::LINE);
        let list = offset_of!(Own<'_>, structure) + Inverse::<Native>::LISTS;
        assert!((crate::LINE..2 * crate::LINE).contains(&list), "{list}");
        // The heads of levels up to 7 are there, too: four bytes each.
        assert!(list + 8 * 4 <= 2 * crate::LINE);
        assert_eq!(size_of::<Own<'_>>(), 4 * crate::LINE);
    }
}
