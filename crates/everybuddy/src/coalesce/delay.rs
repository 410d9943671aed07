//! The policies of 1989: coalescing is delayed while a class of blocks is in use.
//!
//! A freed block is likely to be requested again. Freed *locally*, it costs a list operation and its buddy is not
//! examined. Freed *globally*, it is coalesced if possible. The rule keeps each class in the *lazy space*, so that
//! everything is coalesced once all blocks are freed, and a free into a class costs at most two coalescing delays
//! there.
//!
//! # Source
//! \[BL89\]. DELAY-2: §3.2, figure 1, and §4, figure 3 (the slack variable). Watermarks: §3.1.
//!
//! # Invariants
//! With N existing blocks of a class, Fl of them locally and Fg globally free, the slack D = N - 2 Fl - Fg is the
//! number of blocks that are allocated or split, minus the number that are locally free. It is never negative.
//!
//! # Design decisions
//! The paper does not decide the following:
//! - Memory need not be a power of two: a class may have any number of blocks that can never coalesce.
//! - The usage for the watermarks counts the block that is being freed; otherwise not everything is finally
//!   coalesced.
//! - A freed piece of an allocation makes the whole a split block: its halves exist from then on.
//! - Before memory is removed, all delayed coalescing is performed; with `reclaim=on`, also before a request is
//!   refused. (The paper refuses the request, and its table 3 measures that.) A batch that is shorter than requested
//!   is not a refusal.
//! - A block in a CPU's list is allocated: the policy sees it when the list frees it.

use super::{Coalesce, debt, lazy_class, record_move};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, Tag, pieces};
use crate::platform::{Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::structure::{LocalStructure, add, free_block_at};

/// The condition for freeing a block locally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// While the slack allows it: DELAY-2.
    Slack,
    /// DELAY-2, but a call frees at most two blocks of a class globally, and owes the others: see [`debt`].
    Debt,
    /// While at most a share of the class is free.
    Watermarks {
        /// Up to this share, in thousandths, blocks are freed locally: the lazy ratio.
        lazy: u32,
        /// Above this share, each free also frees a second block globally: the speedup ratio.
        speedup: u32,
    },
}

// The two limits are watermarks, and not variants of their own: each variant costs every free and every split a test.
impl Rule {
    /// Never: every free coalesces what it can.
    pub const AT_ONCE: Rule = Rule::Watermarks {
        lazy: 0,
        speedup: u32::MAX,
    };

    /// Always: only what coalesces everything (`quiesce`, `reclaim=on`, memory that is taken out of service) merges.
    pub const NEVER: Rule = Rule::Watermarks {
        lazy: u32::MAX,
        speedup: u32::MAX,
    };

    /// Returns `true` if the rule has ratios that can be chosen.
    pub const fn has_ratios(self) -> bool {
        matches!(self, Rule::Watermarks { speedup, .. } if speedup <= 1000)
    }

    /// Returns when buddies are coalesced, in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Rule::Slack => "when a class has no slack",
            Rule::Debt => "when a class has no slack, two blocks of a class per call",
            Rule::Watermarks { lazy: u32::MAX, .. } => "only on demand",
            Rule::Watermarks { .. } if self.has_ratios() => "when much of a class is free",
            Rule::Watermarks { .. } => "at each free",
        }
    }
}

/// How a block is freed in its class.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Locally.
    Lazy,
    /// Globally.
    Reclaiming,
    /// Globally, together with a locally free block of the class.
    Accelerated,
}

/// The policy: delays coalescing by a rule.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// The rule.
    pub(crate) rule: Rule,
    /// `reclaim=on`: whether all delayed coalescing is performed before a request is refused.
    pub(crate) reclaim: bool,
}

impl Delay {
    /// Returns the mode of a class into which a block is about to be freed.
    #[inline]
    fn mode<P: Platform, S: LocalStructure<P>>(self, structure: &S, order: Order) -> Mode {
        let class = structure.class(order);
        match self.rule {
            // Calls with a debt do not use this function. What `settle` frees locally, it frees globally later.
            Rule::Slack | Rule::Debt => match class.slack.get() {
                0 => Mode::Accelerated,
                1 => Mode::Reclaiming,
                _ => Mode::Lazy,
            },
            Rule::Watermarks { lazy, speedup } => {
                let free = u64::from(class.local.get() + class.global.get() + 1) * 1000;
                let total = u64::from(class.total.get());
                if free <= u64::from(lazy) * total {
                    Mode::Lazy
                } else if free <= u64::from(speedup) * total {
                    Mode::Reclaiming
                } else {
                    Mode::Accelerated
                }
            }
        }
    }

    /// Frees an allocated block globally. If it is coalesced, the result is freed into the next class.
    fn free_globally<P: Platform, S: LocalStructure<P>>(
        self,
        structure: &S,
        head: Frame,
        order: Order,
        probe: &mut P::Probe,
    ) {
        if let Some(larger) = lazy_class::mark(structure, head, order, probe) {
            self.free_by_rule(structure, larger, order.up(), probe);
        }
    }

    /// Frees a block according to the mode of its class.
    #[inline(always)]
    fn free_by_rule<P: Platform, S: LocalStructure<P>>(
        self,
        structure: &S,
        head: Frame,
        order: Order,
        probe: &mut P::Probe,
    ) {
        let mode = self.mode(structure, order);
        if mode == Mode::Lazy {
            return lazy_class::free_locally(structure, head, order, probe);
        }
        self.free_visibly(structure, head, order, mode, probe);
    }

    /// Frees a block in a class that is not in lazy mode. Out of line, since most frees are local.
    #[inline(never)]
    fn free_visibly<P: Platform, S: LocalStructure<P>>(
        self,
        structure: &S,
        head: Frame,
        order: Order,
        mode: Mode,
        probe: &mut P::Probe,
    ) {
        self.free_globally(structure, head, order, probe);
        if mode == Mode::Accelerated
            && let Some(second) = lazy_class::take_second(structure, order, probe)
        {
            self.free_globally(structure, second, order, probe);
        }
    }

    /// Returns `true` if all frames of a group exist: in the table, and neither holes nor reserved.
    fn is_whole<P: Platform, S: LocalStructure<P>>(
        structure: &S,
        start: u32,
        order: Order,
    ) -> bool {
        let table = structure.table();
        (start..start + order.frames()).all(|frame| {
            let tag = table.frame(Index(frame)).map(|frame| table.tag(frame));
            tag.is_some_and(|tag| tag != Tag::HOLE && tag != Tag::RESERVED)
        })
    }

    /// Calls `each` for every group larger than a frame that overlaps a run, is whole, and is split: neither free nor
    /// part of a free block.
    fn split_groups<P: Platform, S: LocalStructure<P>>(
        structure: &S,
        start: Index,
        frames: u32,
        mut each: impl FnMut(Order),
    ) {
        let end = start.0 + frames;
        for order in Order::up_to(structure.max_order()).skip(1) {
            let mut group = start.0 & !(order.frames() - 1);
            while group < end {
                let is_free = structure.table().frame(Index(group)).is_some_and(|head| {
                    Order::up_to(structure.max_order())
                        .filter(|larger| *larger >= order)
                        .any(|larger| structure.contains(head.aligned(larger), larger))
                });
                if !is_free && Self::is_whole(structure, group, order) {
                    each(order);
                }
                group += order.frames();
            }
        }
    }
}

impl<P: Platform, S: LocalStructure<P>> Coalesce<P, S> for Delay {
    const DELAYS: bool = true;

    #[inline]
    fn allocate(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame> {
        let found = self.allocate_more(structure, order, probe);
        if found.is_some() || !self.reclaim {
            return found;
        }
        self.settle(structure, probe);
        lazy_class::find(structure, order, probe)
    }

    #[inline]
    fn allocate_more(&self, structure: &S, order: Order, probe: &mut P::Probe) -> Option<Frame> {
        let found = lazy_class::find(structure, order, probe);
        if self.rule == Rule::Debt {
            debt::allocated(structure, order, probe);
        }
        found
    }

    #[inline]
    fn free(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
        match self.rule {
            Rule::Debt => debt::free(structure, head, order, probe),
            _ => self.free_by_rule(structure, head, order, probe),
        }
    }

    fn check(&self, structure: &S) -> Result<(), &'static str> {
        // Condition (ii) of the lazy space; D is its slack. A class in debt is outside and frees locally only; a class
        // that is never coalesced may be outside.
        let is_owed = |order| debt::balance(structure, order) < 0;
        let may_owe = self.rule == Rule::Debt || self.rule == Rule::NEVER;
        if Order::up_to(structure.max_order()).any(is_owed) && !may_owe {
            Err("a class has left the lazy space")
        } else {
            Ok(())
        }
    }

    fn adopt(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
        let (mut head, mut order) = (head, order);
        while order < structure.max_order() && structure.contains(head.buddy(order), order) {
            let buddy = head.buddy(order);
            structure.remove(buddy, order);
            lazy_class::less::<P>(&structure.class(order).total, 1);
            probe.record(Event::Coalesce(order));
            structure.table().set_tag(head.max(buddy), Tag::INTERIOR);
            (head, order) = (head.min(buddy), order.up());
        }
        add::<P>(&structure.class(order).total, 1);
        structure.insert(head, order);
    }

    fn split_allocated(&self, structure: &S, order: Order, from: u32, upto: u32) {
        for level in Order::up_to(order).skip(1) {
            let within = |at: u32| !at.is_multiple_of(level.frames());
            let group = |at: u32| at >> level.get();
            let first = within(from);
            let second = within(upto) && !(first && group(from) == group(upto));
            let halves = 2 * (u32::from(first) + u32::from(second));
            let class = structure.class(level.down());
            add::<P>(&class.total, halves);
            add::<P>(&class.slack, halves);
        }
    }

    fn on_carve(&self, structure: &S, order: Order) {
        // The block was globally free: everything is settled before a block is carved.
        add::<P>(&structure.class(order).slack, 1);
    }

    fn keep_half(&self, structure: &S, head: Frame, order: Order, probe: &mut P::Probe) {
        structure.insert(head, order);
        record_move::<P>(probe);
        // Two more blocks, one of them globally free: the next piece of the run is found in it.
        add::<P>(&structure.class(order).total, 2);
        add::<P>(&structure.class(order).slack, 1);
    }

    fn settle(&self, structure: &S, probe: &mut P::Probe) {
        for order in Order::up_to(structure.max_order()) {
            while let Some(head) = lazy_class::take_second(structure, order, probe) {
                self.free_globally(structure, head, order, probe);
            }
        }
    }

    fn on_added(&self, structure: &S, start: Index, frames: u32) {
        Self::split_groups(structure, start, frames, |order| {
            add::<P>(&structure.class(order).total, 1);
            add::<P>(&structure.class(order).slack, 1);
        });
    }

    fn on_withdraw(&self, structure: &S, start: Index, frames: u32) {
        Self::split_groups(structure, start, frames, |order| {
            lazy_class::less::<P>(&structure.class(order).total, 1);
            lazy_class::less::<P>(&structure.class(order).slack, 1);
        });
        // The free blocks that the run overlaps in part: their remaining pieces become blocks.
        let end = start.0 + frames;
        let mut at = start.0;
        while at < end {
            let Some((head, order)) = free_block_at(structure, Index(at)) else {
                return;
            };
            lazy_class::less::<P>(&structure.class(order).total, 1);
            let (from, after) = (head.index().0, head.index().0 + order.frames());
            let upto = after.min(end);
            let kept = pieces(head, at - from, structure.max_order());
            let rest = head.offset(upto - from);
            let kept = kept.chain(pieces(rest, after - upto, structure.max_order()));
            for (_, order) in kept {
                add::<P>(&structure.class(order).total, 1);
            }
            at = upto;
        }
    }
}
