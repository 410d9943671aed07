//! How a batch moves between a list and a structure.
//!
//! Source: the loops of Linux's `rmqueue_bulk` and `free_pages_bulk`, and what the zone lock patch (001) makes
//! of them.
//!
//! Why it exists: for how long the lock is held, and whether a batch moves block by block, is asked of every
//! zone layer in the same way.
//!
//! Invariant: called with the lock held, and returns with it held; whatever happens in between, the guard opens
//! it once. (The published patch leaves its lock held when memory runs out in the middle of a refill.)
//!
//! Decides: block by block is the rule, as in Linux. `bulk=rows` carves what it can out of one block, and
//! merges neighbours before they reach the lists: the same blocks, the same lists, the same events, in less
//! time. It is an option, and off, because no paper's baseline had it.

use core::ops::Range;

use crate::coalesce::{AdjacentBlocks, Coalesce};
use crate::frame::Order;
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{Guard, Hold};
use crate::platform::Platform;
use crate::structure::Structure;

/// How batches move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    /// For how long the lock is held.
    pub hold: Hold,
    /// `bulk=rows`: whether neighbours move at once, which needs the lock for the whole batch.
    pub rows: bool,
}

/// Who moves a batch: by what it holds the structure.
pub(crate) trait Holder<P: Platform> {
    /// Lets others in between two blocks of a batch, as the hold policy says.
    fn between(&mut self, hold: Hold);

    /// The caller's probe.
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

/// Who holds a domain, and no lock that could be let go.
pub(crate) struct LocklessBatch<'p, P: Platform>(pub(crate) &'p mut P::Probe);

impl<P: Platform> Holder<P> for LocklessBatch<'_, P> {
    #[inline(always)]
    fn between(&mut self, _: Hold) {}

    #[inline(always)]
    fn probe(&mut self) -> &mut P::Probe {
        self.0
    }
}

/// A block that is given back, with the tag that its head must have.
pub(crate) type TaggedBlock = (Frame, Order, Tag);

impl Bulk {
    /// Takes up to `wanted` blocks out, tags their heads, and gives each to `sink`; returns how many.
    #[inline]
    pub(crate) fn allocate<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
        self,
        guard: &mut impl Holder<P>,
        (structure, policy): (&S, &C),
        order: Order,
        wanted: u32,
        tag: Tag,
        mut sink: impl FnMut(Frame),
    ) -> u32 {
        let table = structure.table();
        let mut tagged = |head| {
            table.set_tag(head, tag);
            sink(head);
        };
        if self.rows {
            return policy.allocate_bulk(structure, order, wanted, guard.probe(), tagged);
        }
        for given in 0..wanted {
            let found = if given > 0 {
                guard.between(self.hold);
                policy.allocate_more(structure, order, guard.probe())
            } else {
                policy.allocate(structure, order, guard.probe())
            };
            match found {
                Some(head) => tagged(head),
                None => return given,
            }
        }
        wanted
    }

    /// Puts blocks in until `source` ends, or yields one outside `within`, which stays in `next`, where the
    /// first one is expected. A block whose head has another tag than yielded is left alone, and `wrong` says
    /// whether to go on. Returns how many frames went in.
    #[inline]
    pub(crate) fn free<P: Platform, S: Structure<P>, C: Coalesce<P, S>>(
        self,
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
            && within.contains(&head.pfn().0)
        {
            if table.tag(head) != tag {
                *next = match wrong(head, guard.probe()) {
                    true => source(),
                    false => None,
                };
                continue;
            }
            if self.rows {
                let row = gather(table, (head, order), &within, next, &mut source);
                frames += row.frames();
                if row.blocks == 1 {
                    policy.free(structure, head, order, guard.probe());
                } else {
                    policy.free_adjacent(structure, row, guard.probe());
                }
                continue;
            }
            policy.free(structure, head, order, guard.probe());
            frames += order.frames();
            *next = source();
            if next.is_some() {
                guard.between(self.hold);
            }
        }
        frames
    }
}

/// Finds the blocks that follow the first one in memory. A block that comes twice doesn't follow itself, so its
/// second coming is looked at when the first was freed.
#[inline]
fn gather<P: Platform>(
    table: FrameTable<'_, P>,
    (head, order): (Frame, Order),
    within: &Range<u32>,
    next: &mut Option<TaggedBlock>,
    source: &mut impl FnMut() -> Option<TaggedBlock>,
) -> AdjacentBlocks {
    let mut row = AdjacentBlocks {
        head,
        order,
        blocks: 1,
    };
    loop {
        *next = source();
        match *next {
            Some((head, order, tag))
                if row.is_followed_by(head, order)
                    && within.contains(&head.pfn().0)
                    && table.tag(head) == tag =>
            {
                row.blocks += 1;
            }
            _ => return row,
        }
    }
}
