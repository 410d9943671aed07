//! The state of memory, computed from the bits.
//!
//! What `free_bits` counts is the lower level's bits. The checks compare them with all counters.
//!
//! # Invariants
//! Nothing here changes anything. While other CPUs work, the results are hints.

use super::LlFree;
use super::field::{CHILD, CHILD_WORDS};
use crate::bit_runs::{WORD, first};
use crate::detail::Detail;
use crate::frame::{Index, Order};
use crate::free_bits::FreeBits;
use crate::platform::{CpuId, Platform};
use crate::snapshot::{Census, FrameState, Violation};
use crate::withdrawn::Withdrawn;

impl<P: Platform> FreeBits for LlFree<'_, P> {
    /// Those of a huge frame are allocated in their bits, too.
    fn free_bits(&self, word: u32) -> u64 {
        self.lower.free_bits(word)
    }

    fn words(&self) -> u32 {
        self.span.frames().div_ceil(WORD)
    }
}

impl<P: Platform> LlFree<'_, P> {
    /// Returns the use of a frame. O(frames of the largest block / 64).
    pub(super) fn state_of(&self, index: Index) -> Option<FrameState> {
        if index.0 >= self.span.frames() {
            return None;
        }
        match self.lower.withdrawn.reason(index.0) {
            Some(Withdrawn::Hole) => return Some(FrameState::Hole),
            Some(Withdrawn::Reserved) => return Some(FrameState::Reserved),
            None => {}
        }
        if self.lower.entries.load(index.0 / CHILD).is_huge() {
            return Some(FrameState::Allocated {
                head: Index(index.0 & !(CHILD - 1)),
                order: Order::saturating(CHILD.trailing_zeros()),
            });
        }
        if !self.lower.is_free(index.0) {
            return Some(FrameState::Allocated {
                head: index,
                order: Order::ZERO,
            });
        }
        let head = self.free_block_of(index, self.max_order);
        Some(FrameState::Free { head })
    }

    /// Passes all trees, and the CPUs that reserve them, to `see`.
    pub(super) fn inspect_trees(&self, see: &mut dyn FnMut(Detail)) {
        let shift = self.upper.shift;
        for part in 0..self.upper.trees.len() as u32 {
            let start = Index(part << shift);
            let frames = self.span.frames().saturating_sub(start.0);
            let frames = frames.min(1 << shift);
            see(Detail::Part {
                part,
                start,
                frames,
            });
        }
        for (cpu, local) in (0..).zip(self.upper.locals) {
            if let Some(reserved) = local.reserved() {
                see(Detail::Assigned {
                    cpu: CpuId(cpu),
                    part: reserved.tree,
                });
            }
        }
    }

    /// Checks all counters against the bits, and counts the frames. O(frames).
    pub(super) fn check_all(&self) -> Result<Census, Violation> {
        let mut census = Census::default();
        let mut trees = 0u64;
        for tree in 0..self.upper.trees.len() as u32 {
            let children = 1 << (self.upper.shift - CHILD.trailing_zeros());
            let first = tree * children;
            let fail = |what| {
                let index = Index(first * CHILD);
                Err(Violation { index, what })
            };
            let mut free = 0;
            for child in first..(first + children).min(self.lower.entries.children()) {
                free += self.check_child(child, &mut census)?;
            }
            let (own, is_reserved) = self.upper.state(tree);
            let locals = self
                .upper
                .locals
                .iter()
                .filter_map(|local| local.reserved());
            let mut holders = locals.filter(|reserved| reserved.tree == tree);
            let held = holders.next();
            if holders.next().is_some() {
                return fail("two CPUs have reserved this tree");
            }
            if held.is_some() != is_reserved {
                return fail("the flag of a tree differs from the reservations of the CPUs");
            }
            let counted = own + held.map_or(0, |held| i64::from(held.free));
            if counted != i64::from(free) {
                return fail(
                    "the counters of a tree and its CPU differ from those of its children",
                );
            }
            trees += u64::from(free);
        }
        if trees == census.free {
            Ok(census)
        } else {
            Err(Violation::overall("children belong to no tree"))
        }
    }

    /// Checks a child, and returns the number of its free frames.
    fn check_child(&self, child: u32, census: &mut Census) -> Result<u32, Violation> {
        let entry = self.lower.entries.load(child);
        let mut counted = 0;
        for word in child * CHILD_WORDS..(child + 1) * CHILD_WORDS {
            let index = Index(word * WORD);
            let free = self.free_bits(word);
            counted += free.count_ones();
            let (present, reserved) = self.lower.withdrawn.bits(word as usize);
            let withdrawn = !present | reserved;
            if withdrawn & free != 0 || withdrawn != 0 && !entry.has_withdrawn() {
                let what = "a hole or a reserved frame is free, or its child does not know it";
                return Err(Violation { index, what });
            }
            if reserved & !present != 0 {
                let what = "a hole is reserved";
                return Err(Violation { index, what });
            }
            // The last children reach beyond the span.
            let inside = first(self.span.frames().saturating_sub(index.0));
            let count = |bits: u64| u64::from((bits & inside).count_ones());
            census.holes += count(!present);
            census.reserved += count(reserved);
            census.free += count(free);
            census.allocated += count(!free & !withdrawn);
        }
        let index = Index(child * CHILD);
        if counted != entry.free() {
            let what = "the counter of a child differs from its bits";
            return Err(Violation { index, what });
        }
        if entry.is_huge() && (counted > 0 || entry.has_withdrawn()) {
            let what = "a huge frame has free frames, holes or reserved frames";
            return Err(Violation { index, what });
        }
        Ok(counted)
    }
}
