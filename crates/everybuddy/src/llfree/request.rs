//! How a request finds frames, and where a free counts them.
//!
//! A request looks in four places, from the cheapest to the most certain: the tree that its CPU has reserved; another
//! tree, which the CPU reserves; all children, those in reserved trees included; and all children again until no frame
//! came back meanwhile.
//!
//! # Invariants
//! Frames that were taken at the lower level are subtracted exactly once at the upper level, before or afterwards.
//! Freed frames are added there exactly once.

use super::LlFree;
use super::field::{CHILD, CHILD_WORDS};
use super::upper::{LocalTree, Reserved, TreeFill};
use crate::bit_runs::WORD;
use crate::error::{AllocateError, FreeError};
use crate::frame::Order;
use crate::platform::{AtomicWord, Ordering, Platform};
use crate::probe::{Event, Probe};

/// How often a request for a frame looks everywhere before it fails as busy, because frames came back each time.
const FRAME_SEARCHES: u32 = 256;
/// The same for a larger block: freed frames alone do not make one likely, and no attempt found one.
const BLOCK_SEARCHES: u32 = 8;

impl<P: Platform> LlFree<'_, P> {
    /// Allocates `frames` frames from a multiple of 2^order on.
    #[inline(always)]
    pub(super) fn find(
        &self,
        local: &LocalTree<P>,
        probe: &mut P::Probe,
        frames: u32,
        order: Order,
    ) -> Result<u32, AllocateError> {
        let last = local.last.load(Ordering::Relaxed) as u32;
        if let Ok(tree) = local.lower(frames) {
            // The child where the last frame was taken comes first, if it is in this tree.
            if let Some(start) = self.find_near(tree, last, frames, order) {
                local.took(start);
                return Ok(start);
            }
            self.disappoint(local, probe, tree, frames);
        }
        self.find_further(local, probe, last, frames, order)
    }

    /// Takes frames in a tree, from the place of a frame on.
    #[inline(always)]
    fn find_near(&self, tree: u32, last: u32, frames: u32, order: Order) -> Option<u32> {
        if self.upper.tree_of(last) == tree
            && let Some(start) = self.find_in_child(last / CHILD, last, frames, order)
        {
            return Some(start);
        }
        self.find_in_tree(tree, last, frames, order)
    }

    #[inline(always)]
    fn find_in_child(&self, child: u32, last: u32, frames: u32, order: Order) -> Option<u32> {
        // For a single frame the attempt to lower the counter is the same test.
        if frames > 1 && !self.lower.may_have(child, frames, order) {
            return None;
        }
        let from = last / WORD % CHILD_WORDS;
        self.lower.take(child, frames, order, from)
    }

    /// Takes frames in a tree, from the child after that of `last` on.
    #[inline(never)]
    fn find_in_tree(&self, tree: u32, last: u32, frames: u32, order: Order) -> Option<u32> {
        let children = 1 << (self.upper.shift - CHILD.trailing_zeros());
        let first = tree * children;
        let from = if self.upper.tree_of(last) == tree {
            last / CHILD + 1
        } else {
            first
        };
        (0..children)
            .map(|step| first + ((from + step) & (children - 1)))
            .find_map(|child| self.find_in_child(child, 0, frames, order))
    }

    /// Returns frames to the tree's counter that a request subtracted from the CPU's counter but did not find.
    #[cold]
    fn disappoint(&self, local: &LocalTree<P>, probe: &mut P::Probe, tree: u32, frames: u32) {
        self.upper.add_free(tree, frames);
        // The CPU's counter is too high: other CPUs took frames of this tree.
        if frames == 1 {
            self.adopt(local, probe, None);
        }
    }

    /// Exchanges what the CPU has reserved.
    fn adopt(&self, local: &LocalTree<P>, probe: &mut P::Probe, new: Option<Reserved>) {
        let frames = self.upper.adopt(local, new);
        if frames > 0 {
            probe.record(Event::Drain { frames });
        }
    }

    /// Serves a request for which the CPU's own counter does not suffice.
    #[cold]
    #[inline(never)]
    fn find_further(
        &self,
        local: &LocalTree<P>,
        probe: &mut P::Probe,
        last: u32,
        frames: u32,
        order: Order,
    ) -> Result<u32, AllocateError> {
        let mut found = self.find_in_own(local, last, frames, order);
        // A tree that has free frames, and only no block of this size, remains the one for smaller requests.
        let is_used_up = local.reserved().is_none_or(|own| own.free < frames);
        if found.is_none() && frames < CHILD && is_used_up {
            found = self.reserve_and_find(local, probe, last, frames, order);
        }
        if let Some(start) = found {
            local.took(start);
            return Ok(start);
        }
        probe.record(Event::Bypass(order));
        if frames == 1 {
            let start = self.find_anywhere(last, frames, order)?;
            local.took(start);
            return Ok(start);
        }
        // What was passed before has probably no such block now.
        let from = local.block.load(Ordering::Relaxed) as u32;
        let start = match self.find_unreserved(from, frames, order) {
            Some(start) => start,
            None => self.find_anywhere(from, frames, order)?,
        };
        local.block.store(start.into(), Ordering::Relaxed);
        Ok(start)
    }

    /// Takes over what others freed into the CPU's tree, and looks there.
    fn find_in_own(
        &self,
        local: &LocalTree<P>,
        last: u32,
        frames: u32,
        order: Order,
    ) -> Option<u32> {
        let own = local.reserved()?;
        let missing = frames.saturating_sub(own.free).max(1);
        if !self.upper.collect(local, own.tree, missing) {
            return None;
        }
        let tree = local.lower(frames).ok()?;
        let found = self.find_near(tree, last, frames, order);
        if found.is_none() {
            self.upper.add_free(tree, frames);
        }
        found
    }

    /// Reserves another tree and looks there: partly used trees first, from the last one on.
    fn reserve_and_find(
        &self,
        local: &LocalTree<P>,
        probe: &mut P::Probe,
        last: u32,
        frames: u32,
        order: Order,
    ) -> Option<u32> {
        for (fill, tree) in self.preferred(last, TreeFill::PREFERRED) {
            // Frames that are free in different children serve no block.
            if frames > 1 && !self.tree_may_have(tree, frames, order, fill) {
                continue;
            }
            let Some(free) = self.upper.reserve(tree, frames, fill) else {
                continue;
            };
            let own = Reserved {
                tree,
                free: free - frames,
            };
            self.adopt(local, probe, Some(own));
            probe.record(Event::Refill { frames: free });
            let found = self.find_near(tree, last, frames, order);
            if found.is_none() {
                self.upper.add_free(tree, frames);
            }
            return found;
        }
        None
    }

    /// Takes a block in a tree that no CPU has reserved, and reserves none: smaller requests would follow it there.
    ///
    /// The tree where the CPU took such a block last serves it until it has no more, so requests seldom search. A huge
    /// frame breaks no other one, so the next tree that has one serves it: looking for a partly used tree first would
    /// be a search of all trees while there is none.
    fn find_unreserved(&self, last: u32, frames: u32, order: Order) -> Option<u32> {
        let same = (TreeFill::Any, self.upper.tree_of(last));
        let fills = match frames {
            ..CHILD => TreeFill::PREFERRED,
            _ => &[TreeFill::Any],
        };
        let mut trees = core::iter::once(same).chain(self.preferred(last, fills));
        trees.find_map(|(fill, tree)| {
            if !self.tree_may_have(tree, frames, order, fill) {
                return None;
            }
            let start = self.find_near(tree, last, frames, order)?;
            self.upper.take(tree, frames);
            Some(start)
        })
    }

    /// Returns the trees in the order in which they are tried, each with what is required of it: all trees from that
    /// of `last` on for each of `fills`.
    fn preferred(
        &self,
        last: u32,
        fills: &'static [TreeFill],
    ) -> impl Iterator<Item = (TreeFill, u32)> {
        let trees = self.upper.trees.len() as u32;
        let first = self.upper.tree_of(last);
        fills.iter().flat_map(move |fill| {
            let trees = (first..trees).chain(0..first);
            trees.map(move |tree| (*fill, tree))
        })
    }

    /// Returns `true` if no CPU has reserved a tree, and a child of it may have a free run.
    fn tree_may_have(&self, tree: u32, frames: u32, order: Order, fill: TreeFill) -> bool {
        let children = 1 << (self.upper.shift - CHILD.trailing_zeros());
        let first = tree * children;
        let (free, is_reserved) = self.upper.state(tree);
        let fits = u32::try_from(free)
            .is_ok_and(|free| free >= frames && fill.fits(free, self.upper.shift));
        !is_reserved
            && fits
            && (first..first + children).any(|child| self.lower.may_have(child, frames, order))
    }

    /// Takes frames of any child, even if another CPU has reserved its tree.
    ///
    /// A search that finds nothing does not prove that no frame was free. A frame may be freed in a child that the
    /// search has passed, while another CPU takes one in a child that the search has not reached yet. So the versions
    /// of all children are read before and after the search. If none has changed, every child that was empty when the
    /// search visited it was still empty at the end.
    fn find_anywhere(&self, last: u32, frames: u32, order: Order) -> Result<u32, AllocateError> {
        let entries = &self.lower.entries;
        let children = entries.children();
        let first = last / CHILD;
        let searches = match frames {
            1 => FRAME_SEARCHES,
            _ => BLOCK_SEARCHES,
        };
        for _ in 0..searches {
            let before = entries.versions();
            let found = (first..children)
                .chain(0..first)
                .find_map(|child| self.find_in_child(child, 0, frames, order));
            if let Some(start) = found {
                self.upper.take(self.upper.tree_of(start), frames);
                return Ok(start);
            }
            if entries.last_versions() == before {
                return Err(AllocateError::Exhausted);
            }
        }
        Err(AllocateError::Busy)
    }

    /// Frees a run of frames that lies in the span.
    #[inline(always)]
    pub(super) fn put(
        &self,
        local: &LocalTree<P>,
        probe: &mut P::Probe,
        start: u32,
        frames: u32,
    ) -> Result<(), FreeError> {
        self.lower.free(start, frames)?;
        let tree = self.upper.tree_of(start);
        let is_in_one = self.upper.tree_of(start + (frames - 1)) == tree;
        if !(is_in_one && local.raise(tree, frames)) {
            self.put_elsewhere(local, probe, start, frames);
        }
        Ok(())
    }

    /// Counts freed frames in trees that the CPU has not reserved.
    #[inline(never)]
    fn put_elsewhere(&self, local: &LocalTree<P>, probe: &mut P::Probe, start: u32, frames: u32) {
        if let Some(order) = Order::covering(frames) {
            probe.record(Event::Bypass(order));
        }
        self.each_tree(start, frames, |tree, frames| {
            self.upper.add_free(tree, frames)
        });
        let tree = self.upper.tree_of(start);
        if local.frees_repeatedly(tree)
            && let Some(free) = self.upper.reserve(tree, 1, TreeFill::Any)
        {
            self.adopt(local, probe, Some(Reserved { tree, free }));
            probe.record(Event::Refill { frames: free });
        }
    }
}
