//! Which page block serves a request of a class, and when a page block changes its type.
//!
//! Splitting and coalescing are those of the standard buddy. What differs is which free block is split: one of a page
//! block of the request's own type. If there is none, a block of another type must serve, and the frames of two classes
//! share a page block from then on, or the page block changes its type.
//!
//! # Source
//! [`Steal::Linux`] follows Linux 6.12, mm/page_alloc.c (`__rmqueue_fallback`, `steal_suitable_fallback`), with page
//! blocks of the largest order. The types are tried in Linux's order, the largest free block first. The page block
//! changes its type if the free block covers it. It also changes its type if at least half of it is free, and the
//! request is not movable or the free block is large (at least half the largest order). A movable request that may not
//! steal takes the smallest free block instead.
//!
//! [`Steal::Mixed`] is ours. A fourth type, *mixed*, collects page blocks that had to serve more than one class.
//! Unmovable and reclaimable requests use these up before they break a whole page block. Movable requests use them
//! after whole page blocks. A page block with one class becomes mixed only if no page block is whole. The policy then
//! picks the page block with the smallest sufficient free block.
//!
//! # Invariants
//! A request that any free block can serve is served, whatever the types.
//!
//! # Design decisions
//! Linux also counts the allocated frames of the request's class in the page block. The class of an allocated frame is
//! not recorded here, so only free frames count.

use super::{Coalesce, Eager};
use crate::frame::Order;
use crate::frame_table::Frame;
use crate::platform::Platform;
use crate::request::BlockType;
use crate::structure::{MobilityLists, Structure};

/// When a request takes frames of a page block of another type, and which type the page block then has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steal {
    /// `steal=linux`: by the rules of Linux 6.12.
    #[default]
    Linux,
    /// `steal=mixed`: page blocks with frames of several classes have a type of their own. Unmovable and reclaimable
    /// requests use them first, and movable requests use them after whole ones.
    Mixed,
}

/// Takes blocks by type; otherwise coalesces immediately.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByMobility {
    /// The rule.
    pub(crate) steal: Steal,
}

/// Returns the other types, in the order in which Linux tries them.
const fn fallbacks(kind: BlockType) -> [BlockType; 2] {
    match kind {
        BlockType::Movable | BlockType::Mixed => [BlockType::Reclaimable, BlockType::Unmovable],
        BlockType::Unmovable => [BlockType::Reclaimable, BlockType::Movable],
        BlockType::Reclaimable => [BlockType::Unmovable, BlockType::Movable],
    }
}

/// A free block.
type FreeBlock = (Frame, Order);

impl ByMobility {
    /// Returns the smallest free block of a type, from an order up to another one.
    fn smallest<P: Platform>(
        lists: &MobilityLists<'_, P>,
        kind: BlockType,
        order: Order,
        upto: Order,
    ) -> Option<FreeBlock> {
        Order::up_to(upto)
            .skip(order.index())
            .find_map(|order| Some((lists.first_of(kind, order)?, order)))
    }

    /// Finds the free block that serves a request, and gives its page block the type that the rule says.
    fn find<P: Platform>(self, lists: &MobilityLists<'_, P>, order: Order) -> Option<FreeBlock> {
        match self.steal {
            Steal::Linux => Self::find_as_linux(lists, order),
            Steal::Mixed => Self::find_unmixed(lists, order),
        }
    }

    fn find_as_linux<P: Platform>(lists: &MobilityLists<'_, P>, order: Order) -> Option<FreeBlock> {
        let (wanted, whole) = (lists.wanted(), lists.max_order());
        if let Some(own) = Self::smallest(lists, wanted, order, whole) {
            return Some(own);
        }
        let other = |order: Order| {
            let mut kinds = fallbacks(wanted).into_iter();
            kinds.find_map(|kind| Some((lists.first_of(kind, order)?, order)))
        };
        let may_steal =
            |found: Order| found.get() >= whole.get() / 2 || wanted != BlockType::Movable;
        let orders = || Order::up_to(whole).skip(order.index());
        let (head, found) = orders().rev().find_map(other)?;
        let (head, found) = if may_steal(found) || found == order {
            (head, found)
        } else {
            orders().find_map(other)?
        };
        let is_mostly_free = || lists.free_in_page_block(head) >= whole.frames() / 2;
        if found == whole || may_steal(found) && is_mostly_free() {
            lists.retype(head, wanted);
            return Self::smallest(lists, wanted, order, whole);
        }
        Some((head, found))
    }

    fn find_unmixed<P: Platform>(lists: &MobilityLists<'_, P>, order: Order) -> Option<FreeBlock> {
        let (wanted, whole) = (lists.wanted(), lists.max_order());
        let part = |kind| {
            if order < whole {
                Self::smallest(lists, kind, order, whole.down())
            } else {
                None
            }
        };
        let stays = wanted != BlockType::Movable;
        if let Some(own) = part(wanted) {
            return Some(own);
        }
        if stays && let Some(mixed) = part(BlockType::Mixed) {
            return Some(mixed);
        }
        // A whole page block has no frames of another class, whatever its type was.
        let [second, third] = fallbacks(wanted);
        let whole_one = [wanted, BlockType::Mixed, second, third]
            .into_iter()
            .find_map(|kind| lists.first_of(kind, whole));
        if let Some(head) = whole_one {
            lists.retype(head, wanted);
            return Some((head, whole));
        }
        if let Some(mixed) = part(BlockType::Mixed) {
            return Some(mixed);
        }
        let taken = [second, third].into_iter().filter_map(part);
        let (head, found) = taken.min_by_key(|(_, order)| *order)?;
        lists.retype(head, BlockType::Mixed);
        Some((head, found))
    }
}

impl<P: Platform> Coalesce<P, MobilityLists<'_, P>> for ByMobility {
    fn allocate(
        &self,
        lists: &MobilityLists<'_, P>,
        order: Order,
        probe: &mut P::Probe,
    ) -> Option<Frame> {
        let (head, found) = self.find(lists, order)?;
        self.carve(lists, (head, found), (head, order), probe);
        Some(head)
    }

    fn free(&self, lists: &MobilityLists<'_, P>, head: Frame, order: Order, probe: &mut P::Probe) {
        Eager.free(lists, head, order, probe);
    }
}

#[cfg(test)]
mod tests;
