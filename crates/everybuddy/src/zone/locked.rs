//! The globally locked spring: `spring=locked`.
//!
//! In the paper, CPUs take domains from a global spring and put them back, and these two operations are the only
//! contention. With this option a visit does exactly that, so that the paper's design can be measured next to the
//! default, in which a CPU returns to its own domain without a lock.
//!
//! # Source
//! \[Spring\] §IV-B: contention is "limited to simple operations of fetching/returning domains from/to the global
//! spring". §III-B3 and figure 6: a domain that is put back triggers the detection of two idle ones.
//!
//! # Mechanism
//! The [`shelf`](super::shelf) contains the domains that lie in the spring, in the order in which they were put back.
//! A CPU acquires the lock and takes the domain on top, which was put back last; idle ones therefore sink. When a CPU
//! puts one back, it compares the age of the lowest one with the number of domains. The two lowest are merged under
//! the lock, and lie at the bottom again; their blocks move outside of it. A single idle one joins the domain that is
//! put back.
//!
//! # Invariants
//! 1. A domain is on the shelf exactly while no CPU holds it. All operations are under the spring's lock.
//! 2. No CPU has a domain of its own: the spring has no [`homes`](super::homes).
//!
//! # Design decisions
//! The paper does not say which domain is taken, nor what "a long time" is. Here a domain is idle if it was not taken
//! during 16 acquisitions per domain (`idle=`). Ghosts, parts, collecting and merging are those of the default.
//!
//! # Complexity
//! Taking a domain and putting it back are O(1), apart from merging.

use super::Caller;
use super::domain::DomainTable;
use super::shelf::Shelf;
use super::spring::Spring;
use crate::lock::Guard;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};

/// Maximum number of blocks of an idle domain that are moved when another one is put back.
const MIGRATE_PER_MERGE: u32 = 256;

impl<'a, P: Platform> Spring<'a, P> {
    /// Puts a domain back, and merges idle ones. Returns `true` if there may be more to do.
    pub(super) fn put_locked(
        &self,
        shelf: &Shelf<'a, P>,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        domain: u32,
    ) -> bool {
        let guard = Guard::lock(&self.head.lock, caller.probe);
        // Relaxed: written under the lock.
        if self.notice.waiting.load(Ordering::Relaxed) != 0 {
            drop(guard);
            self.serve(caller, all, domain);
            return true;
        }
        let patience = self.patience.saturating_mul(self.head.live.get());
        let held = all.held(domain);
        held.take_reusable(|domain| self.vacate(domain));
        let Some((first, since)) = shelf.take_idle(all, patience) else {
            shelf.put(all, domain);
            return shelf.length() > 1;
        };
        let Some((second, _)) = shelf.take_idle(all, patience) else {
            let merged = held.merge(all.held(first), guard.probe);
            self.delist(if merged.root() == domain {
                first
            } else {
                domain
            });
            shelf.put(all, merged.root());
            return true;
        };
        shelf.put(all, domain);
        let merged = self.merge(all, (first, second), guard);
        merged.settle(MIGRATE_PER_MERGE, caller.probe);
        self.put_lowest(shelf, caller, all, (merged.root(), since));
        true
    }

    /// Puts an idle domain back at the bottom, as old as it was.
    fn put_lowest(
        &self,
        shelf: &Shelf<'a, P>,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        (domain, since): (u32, u32),
    ) {
        let guard = Guard::lock(&self.head.lock, caller.probe);
        // Relaxed: written under the lock.
        if self.notice.waiting.load(Ordering::Relaxed) != 0 {
            drop(guard);
            return self.serve(caller, all, domain);
        }
        let bottom = self.head.bottom.get().wrapping_sub(1);
        self.head.bottom.set(bottom);
        shelf.place(all, bottom, domain, since);
    }
}
