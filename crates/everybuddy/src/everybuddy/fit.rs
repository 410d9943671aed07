//! How a request finds the smallest block that suffices.
//!
//! In a shortage, a small request looks at some of the CPU's own trees and at some trees that no CPU owns, and takes
//! the smallest block that suffices. [`fitting`](super::fitting) says when.
//!
//! # Invariants
//! A search by fit is a hint. It reads trees that other CPUs may change, looks at a bounded number of trees and words,
//! and is followed by the search by address.

use crate::frame::Order;
use crate::platform::{Platform, SharedCell};
use crate::probe::{Event, Probe};

use super::OwnedTrees;
use super::fitting::Fitting;
use super::local::Local;
use super::slots::LOOKS_AT_OWN;
use super::wanted::Wanted;

/// The number of trees, other than the CPU's own, at which a request looks. It passes over those with an owner.
const LOOKS_FOR_FIT: u32 = 64;
/// The number of words that one request reads, of own trees and others. Searches rarely need as many: each one begins
/// at the tree where an earlier one found a block.
const MAX_READS: u32 = 1024;
/// The smallest block that a search has seen.
struct Best {
    size: Order,
    tree: u32,
    is_own: bool,
}

impl<P: Platform> OwnedTrees<'_, P> {
    /// Serves a request by fit. Returns `None` if address decides, or if nothing was found.
    #[inline]
    pub(super) fn find_smallest(
        &self,
        cpu: &mut P::Cpu,
        local: &Local<'_, P>,
        wanted: Wanted,
    ) -> Option<u32> {
        if wanted.is_large() {
            return None;
        }
        if local.fitting.look(&self.shared.trees) {
            local.choose_by_fit(&self.shared);
        }
        if local.fitting.is_on() {
            self.take_smallest(cpu, local, wanted)
        } else {
            None
        }
    }

    #[inline(never)]
    fn take_smallest(&self, cpu: &mut P::Cpu, local: &Local<'_, P>, wanted: Wanted) -> Option<u32> {
        if !wanted.is_part_of_word() {
            return None;
        }
        let found = local.pop(&self.shared, wanted.order, wanted.kind);
        if found.is_some() {
            return found;
        }
        let Best { tree, is_own, .. } = self.smallest_of_some(local, wanted)?;
        let trees = &self.shared.trees;
        let header = trees.header(tree)?;
        if !is_own {
            if !self.shared.claim(header, local.id) {
                return None;
            }
            trees.collect(tree, header);
        }
        let start = if trees.suits(header, wanted.kind) {
            trees.take_smallest(tree, header, wanted.order)
        } else {
            None
        };
        match start {
            Some(start) if is_own => local.moved(tree, header, wanted, start),
            Some(start) => {
                P::probe(cpu).record(Event::Bypass(wanted.order));
                self.keep_found(local, tree, wanted, start);
            }
            None if is_own => (),
            None => self.shared.release(tree, header),
        }
        start
    }

    /// Returns where the smallest block is that suffices: in an own tree, or in one of some trees without owner.
    fn smallest_of_some(&self, local: &Local<'_, P>, wanted: Wanted) -> Option<Best> {
        let mut reads = MAX_READS;
        let Fitting { next, last, .. } = &local.fitting;
        // The trees before it were searched in vain.
        let own = local.slots.beginning_at(last.get()).take(LOOKS_AT_OWN);
        let own = self.smallest_of(own, (true, &mut reads), wanted);
        if let Some(best) = &own {
            last.set(best.tree as u16);
        }
        let is_exact = |best: &Best| best.size == wanted.order;
        if own.as_ref().is_some_and(is_exact) || own.is_some() && !local.fitting.may_look() {
            return own;
        }
        let count = self.shared.trees.count();
        let from = if count <= LOOKS_FOR_FIT {
            // Lower trees first: blocks of higher ones stay.
            0
        } else {
            next.get()
        };
        let others = (from..count).chain(0..from).take(LOOKS_FOR_FIT as usize);
        let other = self.smallest_of(others, (false, &mut reads), wanted);
        let best = match (own, other) {
            (Some(own), Some(other)) if own.size <= other.size => Some(own),
            (own, other) => other.or(own),
        };
        let has_exact = best.as_ref().is_some_and(is_exact);
        // If a request finds no block at all, this does not show how smaller requests would fare, so it is not noted.
        if best.is_some() {
            local.fitting.note(has_exact);
        }
        if !has_exact && count > LOOKS_FOR_FIT {
            next.set((from + LOOKS_FOR_FIT) % count);
        }
        best
    }

    /// Returns where the smallest block is that suffices, of own trees or of trees without owner. Subtracts the words
    /// that it reads.
    fn smallest_of(
        &self,
        some: impl Iterator<Item = u32>,
        (is_own, reads): (bool, &mut u32),
        wanted: Wanted,
    ) -> Option<Best> {
        let trees = &self.shared.trees;
        let mut best: Option<Best> = None;
        for tree in some {
            let Some(header) = trees.header(tree).filter(|_| *reads > 0) else {
                break;
            };
            if !trees.suits(header, wanted.kind) || !is_own && !self.shared.is_unowned(header) {
                continue;
            }
            if let Some((size, _)) = trees.smallest(tree, header, wanted.order, reads)
                && best.as_ref().is_none_or(|best| size < best.size)
            {
                best = Some(Best { size, tree, is_own });
                if size == wanted.order {
                    break;
                }
            }
        }
        best
    }
}
