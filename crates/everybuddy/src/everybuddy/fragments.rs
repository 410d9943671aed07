//! Movable frames in the fragments between frames that stay.
//!
//! Large requests have no use for a block of 2 MiB with a frame that stays, and moving other frames does not change
//! that. So movable frames may as well lie there: before a request for a movable frame breaks a wholly free word, the
//! CPU *fills* an area of 2 MiB in a tree for frames that stay, if much of the area is used.
//!
//! It is the fullest area of some trees, not the first one, since an area that is hardly used may become whole again.
//! The CPU's current tree and its first-fit point stay as they are: otherwise its lists would keep frames at high
//! addresses. Only single frames are served so: fragments rarely have larger blocks.
//!
//! # Invariants
//! 1. No wholly free word of a tree for frames that stay is broken here.
//! 2. While a CPU fills words, it owns their tree, unless another CPU took the tree away. Then it stops.

use crate::frame::Order;
use crate::platform::{Platform, SharedCell};

use super::OwnedTrees;
use super::filling::{Filled, areas};
use super::local::Local;
use super::word::{Header, Kind};

/// The number of trees at which one search looks.
const LOOKS_FOR_AREA: u32 = 16;
/// The least number of used frames of an area that is filled, of 512 frames.
const LEAST_USED: u32 = 160;
/// The least number of its free frames that lie in split words: fewer are not worth a claim.
const LEAST_FREE: u32 = 48;
/// The least number of slots of a CPU that fills areas: the tree that it fills takes one of them.
const LEAST_SLOTS: usize = 4;

impl<P: Platform> OwnedTrees<'_, P> {
    /// Prepares a request for a movable frame that did not hit: lets the CPU fill an area, if its current tree has no
    /// such frame in a split word.
    #[inline(never)]
    pub(super) fn choose_fragments(&self, local: &Local<'_, P>) {
        let has_any = |tree, words| {
            let header = self.shared.trees.header(tree);
            let own = header.filter(|header| local.owns(&header.owner));
            own.is_some_and(|header| header.candidates(Order::ZERO) & words != 0)
        };
        let filling = &local.filling;
        if let Some(area) = filling.area() {
            if has_any(area.tree, area.words) {
                return;
            }
            filling.stop();
        }
        let current = local.place(Kind::Movable).current.get();
        if has_any(current, u64::MAX)
            || local.slots.capacity() < LEAST_SLOTS
            || !filling.may_search()
        {
            return;
        }
        let open = self.begin(local);
        // A CPU that may not keep trees allocates by address.
        let found = open.then(|| self.fullest_area(local)).flatten();
        let filled = found.filter(|area| self.own_for_filling(local, *area));
        if let Some(area) = filled {
            filling.start(area);
        }
        filling.note(filled.is_some());
        self.end(local, open);
    }

    /// Claims the tree of an area, unless it is an own one. Returns `true` if the CPU owns it now, and has frames to
    /// allocate there.
    pub(super) fn own_for_filling(&self, local: &Local<'_, P>, area: Filled) -> bool {
        let Some(header) = self.shared.trees.header(area.tree) else {
            return false;
        };
        if local.owns(&header.owner) {
            return true;
        }
        if !self.shared.claim(header, local.id) {
            return false;
        }
        self.shared.trees.collect(area.tree, header);
        // Another CPU may have taken all of them meanwhile. It may have marked the tree as spent, and the mark of an
        // own tree would stay.
        if !header.is_for(Kind::Staying) || header.candidates(Order::ZERO) & area.words == 0 {
            self.shared.release(area.tree, header);
            return false;
        }
        local.adopt(&self.shared, area.tree, Kind::Movable);
        true
    }

    /// Returns the fullest area of some trees for frames that stay: of own trees, and of trees without an owner.
    fn fullest_area(&self, local: &Local<'_, P>) -> Option<Filled> {
        let (trees, next) = (&self.shared.trees, &local.filling.next);
        let (count, from) = (trees.count(), next.get());
        let mut fullest: Option<(u32, Filled)> = None;
        for tree in (from..count).chain(0..from).take(LOOKS_FOR_AREA as usize) {
            let Some(header) = trees.header(tree) else {
                break;
            };
            if !self.may_be_filled(local, header) {
                continue;
            }
            for words in areas(header.candidates(Order::ZERO)) {
                let area = Filled { tree, words };
                let (used, free) = trees.estimate(area, header);
                let is_fuller = fullest.is_none_or(|(most, _)| used > most);
                if used >= LEAST_USED && free >= LEAST_FREE && is_fuller {
                    fullest = Some((used, area));
                }
            }
        }
        next.set((from + LOOKS_FOR_AREA) % count);
        fullest.map(|(_, area)| area)
    }

    /// Returns `true` for a tree for frames that stay which is an own one, or has no owner.
    fn may_be_filled(&self, local: &Local<'_, P>, header: &Header<P>) -> bool {
        header.is_for(Kind::Staying)
            && (local.owns(&header.owner) || self.shared.is_unowned(header))
    }
}
