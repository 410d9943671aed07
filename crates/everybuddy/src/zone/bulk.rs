//! How a batch moves between a list and a structure.
//!
//! For how long the lock is held is a choice that applies to every zone layer in the same way.
//!
//! # Source
//! The loops of Linux's `rmqueue_bulk` and `free_pages_bulk`, and what the zone lock patch \[Porter\] makes of them.
//!
//! # Invariants
//! Called with the lock held, and returns with it held. Whatever happens in between, the guard releases it once. (The
//! published patch leaves its lock held if memory runs out in the middle of a refill.)

use core::ops::Range;

use crate::coalesce::Coalesce;
use crate::frame::Order;
use crate::frame_table::{Frame, Tag};
use crate::lock::{Guard, Hold};
use crate::platform::Platform;
use crate::structure::Structure;

/// The code that moves a batch, by the way in which it holds the structure.
pub(crate) trait Holder<P: Platform> {
    /// Releases and reacquires the lock between two blocks of a batch, as the hold policy requires.
    fn between(&mut self, hold: Hold);

    /// Returns the caller's probe.
    fn probe(&mut self) -> &mut P::Probe;
}

impl<P: Platform> Holder<P> for Guard<'_, P> {
    #[inline]
    fn between(&mut self, hold: Hold) {
        Guard::between(self, hold);
    }

    #[inline(always)]
    fn probe(&mut self) -> &mut P::Probe {
        self.probe
    }
}

/// The holder of a domain, which has no lock that it could release.
pub(crate) struct LocklessBatch<'p, P: Platform>(pub(crate) &'p mut P::Probe);

impl<P: Platform> Holder<P> for LocklessBatch<'_, P> {
    #[inline(always)]
    fn between(&mut self, _: Hold) {}

    #[inline(always)]
    fn probe(&mut self) -> &mut P::Probe {
        self.0
    }
}

/// A block to be freed, with the tag that its head must have.
pub(crate) type TaggedBlock = (Frame, Order, Tag);

/// Allocates up to `wanted` blocks, tags their heads, and passes each to `sink`. Returns how many.
#[inline]
pub(crate) fn allocate<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
    hold: Hold,
    guard: &mut impl Holder<P>,
    (structure, policy): (&S, &C),
    order: Order,
    wanted: u32,
    tag: Tag,
    mut sink: impl FnMut(Frame),
) -> u32 {
    let table = structure.table();
    for given in 0..wanted {
        let found = if given > 0 {
            guard.between(hold);
            policy.allocate_more(structure, order, guard.probe())
        } else {
            policy.allocate(structure, order, guard.probe())
        };
        let Some(head) = found else {
            return given;
        };
        table.set_tag(head, tag);
        sink(head);
    }
    wanted
}

/// Frees blocks until `source` ends or yields one outside `within`. That block stays in `next`, where the first
/// block is expected. A block whose head has another tag than yielded is left alone, and `wrong` returns `true`
/// to continue. Returns how many frames were freed.
#[inline]
pub(crate) fn free<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
    hold: Hold,
    guard: &mut impl Holder<P>,
    (structure, policy): (&S, &C),
    within: Range<u32>,
    next: &mut Option<TaggedBlock>,
    mut source: impl FnMut() -> Option<TaggedBlock>,
    mut wrong: impl FnMut(Frame, &mut P::Probe) -> bool,
) -> u32 {
    let table = structure.table();
    let mut frames = 0;
    while let Some((head, order, tag)) = *next
        && within.contains(&head.index().0)
    {
        if table.tag(head) != tag {
            *next = if wrong(head, guard.probe()) {
                source()
            } else {
                None
            };
            continue;
        }
        policy.free(structure, head, order, guard.probe());
        frames += order.frames();
        *next = source();
        if next.is_some() {
            guard.between(hold);
        }
    }
    frames
}
