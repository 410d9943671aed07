//! The globally locked spring: `spring=locked`.
//!
//! # Purpose
//!
//! In the paper, CPUs take domains from a global spring and put them back, and these two operations are the only
//! contention. With this option a visit does exactly that, so that the paper's design can be measured next to the
//! default, in which a CPU returns to its own domain without a lock.
//!
//! # Source
//!
//! \[Spring\] §IV-B: contention is "limited to simple operations of fetching/returning domains from/to the global
//! spring". §III-B3 and figure 6: a domain that is put back triggers the detection of two idle ones.
//!
//! # Mechanism
//!
//! The *shelf* contains the domains that lie in the spring, in the order in which they were put back. A CPU acquires
//! the lock and takes the domain on top, which was put back last; idle ones therefore sink. When a CPU puts one back,
//! it compares the age of the lowest one with the number of domains. The two lowest are merged under the lock, and
//! lie at the bottom again; their blocks move outside of it. A single idle one joins the domain that is put back.
//!
//! # Invariants
//!
//! 1. A domain is on the shelf exactly while no CPU holds it. All operations are under the spring's lock.
//! 2. No CPU has a domain of its own: there are no [`Home`](super::spring_records::Home) records.
//!
//! # Design decisions
//!
//! The paper does not say which domain is taken, nor what "a long time" is. Here a domain is idle if it was not taken
//! during 16 acquisitions per domain (`idle=`). Ghosts, parts, collecting and merging are those of the default.
//!
//! # Complexity
//!
//! Taking a domain and putting it back are O(1), apart from merging.

use super::Caller;
use super::domain::DomainTable;
use super::spring::{Spring, SpringHead};
use crate::lock::Guard;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};
use crate::wrapping_slice::WrappingSlice;

/// Maximum number of blocks of an idle domain that are moved when another one is put back.
const MIGRATE_PER_MERGE: u32 = 256;

/// A place of the shelf.
#[repr(C)]
pub(super) struct Shelved<P: Platform> {
    domain: P::Cell<u32>,
    /// The acquisition after which the domain was put back.
    since: P::Cell<u32>,
}

impl<P: Platform> Shelved<P> {
    pub(super) fn new() -> Self {
        let [domain, since] = [0, 0].map(P::Cell::new);
        Self { domain, since }
    }
}

/// The domains that no CPU holds.
pub(super) struct Locked<'a, P: Platform> {
    pub(super) head: &'a SpringHead<'a, P>,
    pub(super) shelf: WrappingSlice<'a, Shelved<P>>,
}

impl<'a, P: Platform> Locked<'a, P> {
    /// Returns the number of domains on the shelf.
    pub(super) fn shelved(&self) -> u32 {
        self.head.top.get().wrapping_sub(self.head.bottom.get())
    }

    /// Takes the domain on top.
    pub(super) fn take(&self, all: &DomainTable<'a, P>) -> Option<u32> {
        let head = self.head;
        if self.shelved() == 0 {
            return None;
        }
        head.clock.set(head.clock.get().wrapping_add(1));
        let top = head.top.get().wrapping_sub(1);
        head.top.set(top);
        let domain = self.shelf.at(top).domain.get();
        all.records.at(domain).hold();
        Some(domain)
    }

    /// Puts a domain on top, for its holder.
    pub(super) fn shelve(&self, all: &DomainTable<'a, P>, domain: u32) {
        let top = self.head.top.get();
        self.place(all, top, domain, self.head.clock.get());
        self.head.top.set(top.wrapping_add(1));
    }

    fn place(&self, all: &DomainTable<'a, P>, at: u32, domain: u32, since: u32) {
        all.records.at(domain).release();
        self.shelf.at(at).domain.set(domain);
        self.shelf.at(at).since.set(since);
    }

    /// Takes the lowest domain if it was not taken during more than `patience` acquisitions. Returns it with the
    /// acquisition after which it was put back.
    fn take_idle(&self, all: &DomainTable<'a, P>, patience: u32) -> Option<(u32, u32)> {
        let (head, bottom) = (self.head, self.head.bottom.get());
        let lowest = self.shelf.at(bottom);
        let age = head.clock.get().wrapping_sub(lowest.since.get());
        if self.shelved() == 0 || age <= patience {
            return None;
        }
        head.bottom.set(bottom.wrapping_add(1));
        let domain = lowest.domain.get();
        all.records.at(domain).hold();
        Some((domain, lowest.since.get()))
    }
}

impl<'a, P: Platform> Spring<'a, P> {
    /// Puts a domain back, and merges idle ones. Returns `true` if there may be more to do.
    pub(super) fn put_locked(
        &self,
        locked: &Locked<'a, P>,
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
        let Some((first, since)) = locked.take_idle(all, patience) else {
            locked.shelve(all, domain);
            return locked.shelved() > 1;
        };
        let Some((second, _)) = locked.take_idle(all, patience) else {
            let merged = held.merge(all.held(first), guard.probe);
            self.delist(if merged.root() == domain {
                first
            } else {
                domain
            });
            locked.shelve(all, merged.root());
            return true;
        };
        locked.shelve(all, domain);
        let merged = self.merge(all, (first, second), guard);
        merged.settle(MIGRATE_PER_MERGE, caller.probe);
        self.put_lowest(locked, caller, all, (merged.root(), since));
        true
    }

    /// Puts an idle domain back at the bottom, as old as it was.
    fn put_lowest(
        &self,
        locked: &Locked<'a, P>,
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
        locked.place(all, bottom, domain, since);
    }
}
