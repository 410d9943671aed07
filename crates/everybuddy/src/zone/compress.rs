//! Compression: which domains are idle, and merging them.
//!
//! The number of domains must fall to the number that CPUs use. It must not fall below it, or each domain that was made
//! for a ghost is merged and made again. A look must cost the other CPUs nothing as long as all domains are in use.
//!
//! # Source
//! \[Spring\] §III-B3 and figure 6: a CPU that releases a domain finds two that "have been idle for a long time", and
//! merges them. The paper does not say for how long.
//!
//! # Mechanism
//! After a number of blocks a CPU **looks**. It *watches* one domain, whose record counts how often the domain was
//! released. If the count has changed, the domain is in use, and the CPU watches the next one. This reads one cache
//! line of another CPU, acquires no lock, and writes only the line of the CPU that looks.
//!
//! If the domain that a CPU watches stays idle for [`IDLE_LOOKS`] of its looks, the CPU *compares*, at this look and at
//! the following ones: under the spring's lock, it reads the counts of all domains and stores which ones have changed.
//! The spring's clock counts these comparisons. A domain that did not change during [`IDLE_LOOKS`] of them is idle for
//! long. The comparison merges the two domains that have been idle for longest. If only one is idle for long, it joins
//! the domain that the CPU releases. The number of domains therefore falls by at most one per look, until all are in
//! use, and the time of a look is bounded.
//!
//! # Invariants
//! 1. The words that a CPU reads without the lock are hints: they decide only whether it compares.
//! 2. A domain is merged only if no CPU acquired it during [`IDLE_LOOKS`] looks of another CPU. This includes a domain
//!    that was made for a ghost.
//! 3. One CPU compares at a time. A CPU compares only if no other CPU has done so since its own last look, so the clock
//!    advances by about one for each look of one CPU, however many CPUs look.
//!
//! # Design decisions
//! The number of domains needed is the number that CPUs use, not the number that they hold simultaneously. Each CPU
//! returns to its own domain, and CPUs that share one although others exist meet there again and again.

use super::Caller;
use super::domain::{DomainTable, HeldDomain};
use super::spring::Spring;
use super::spring_records::Home;
use crate::lock::Guard;
use crate::platform::{Platform, SharedCell};

/// A domain is idle for long if it was not acquired during this number of looks; during fewer if `idle=` is less than
/// twice this number, and with `idle=1` as soon as no CPU holds it.
const IDLE_LOOKS: u32 = 8;

/// Maximum number of blocks of an idle domain that a look moves.
const MIGRATE_PER_LOOK: u32 = 256;

impl<'a, P: Platform> Spring<'a, P> {
    /// Returns the number of looks after which a domain is idle for long.
    fn idle_looks(&self) -> u32 {
        (self.patience / 2).min(IDLE_LOOKS)
    }

    /// Looks, and releases a domain. With `spring=locked` each release is a look.
    #[cold]
    #[inline(never)]
    pub(super) fn look(&self, caller: &mut Caller<'_, P>, all: &DomainTable<'a, P>, domain: u32) {
        if let Some(shelf) = &self.shelf {
            self.put_locked(shelf, caller, all, domain);
            return;
        }
        let home = self.homes.all.get(caller.cpu.index());
        if home.is_some_and(|home| self.sees_idle(all, home)) {
            _ = self.compress(caller, all, domain)
        } else {
            self.put_back(caller, all, domain)
        }
    }

    /// Returns `true` if the domain that a CPU watches is idle for long, and no other CPU compares. Chooses the next
    /// domain to watch if this one is in use, and when the CPU looks again. Acquires no lock. O(1).
    fn sees_idle(&self, all: &DomainTable<'a, P>, home: &Home<P>) -> bool {
        let live = self.head.live.peek();
        home.until.set(self.patience.saturating_mul(live));
        if live <= 1 {
            return false;
        }
        let at = |place| self.roots.at(place).domain.peek();
        let mut place = home.place.get();
        let is_same = place < live && at(place) == home.watched.get();
        if is_same && all.records.at(home.watched.get()).uses() == home.uses.get() {
            home.unchanged.set(home.unchanged.get().saturating_add(1));
        } else {
            place = if place + 1 < live { place + 1 } else { 0 };
            home.place.set(place);
            home.watched.set(at(place));
            home.uses.set(all.records.at(home.watched.get()).uses());
            home.unchanged.set(0);
        }
        if home.unchanged.get() < self.idle_looks() {
            return false;
        }
        let (clock, seen) = (self.head.clock.peek(), home.clock.get());
        home.clock.set(clock);
        clock == seen
    }

    /// Acquires a domain for a service: one that no CPU holds. Neither divides one nor waits. O(domains).
    pub(crate) fn take_free(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
    ) -> Option<u32> {
        self.ghosts.get(caller.cpu.index())?;
        let guard = Guard::lock(&self.head.lock, caller.probe);
        let domain = self.find(all, caller.cpu.index() as u32);
        drop(guard);
        domain
    }

    /// Compares the counts of all domains with those at the last comparison, merges two that are idle for long, and
    /// releases the given domain. Returns `true` if another domain was not used since. O(domains + blocks that move).
    #[cold]
    #[inline(never)]
    pub(crate) fn compress(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        domain: u32,
    ) -> bool {
        if let Some(shelf) = &self.shelf {
            return self.put_locked(shelf, caller, all, domain);
        }
        let mut held = all.held(domain);
        let home = self.homes.all.get(caller.cpu.index());
        let guard = Guard::lock(&self.head.lock, caller.probe);
        held.take_reusable(|domain| self.vacate(domain));
        let clock = self.head.clock.get().wrapping_add(1);
        self.head.clock.set(clock);
        if let Some(home) = home {
            home.clock.set(clock);
        }
        let (idle, found) = self.longest_idle(all, clock);
        let hold = |found: Option<(u32, u32)>| {
            found.filter(|(_, domain)| all.records.at(*domain).try_hold())
        };
        match idle.map(hold) {
            [Some((age, first)), Some((_, second))] => {
                let merged = all.held(first).merge(all.held(second), guard.probe);
                let root = merged.root();
                self.delist(if root == first { second } else { first });
                // It stays as old as it was.
                let uses = all.records.at(root).uses().wrapping_add(1);
                self.mark(root, uses, clock.wrapping_sub(age));
                drop(guard);
                merged.settle(MIGRATE_PER_LOOK, caller.probe);
                // This CPU held it besides its own domain, and no event says so.
                all.records.at(root).release();
                self.serve_waiting(caller, all, root);
            }
            [Some((_, one)), None] | [None, Some((_, one))] => {
                held = self.merge(all, (domain, one), guard);
                if let Some(home) = home {
                    home.last.set(held.root());
                }
            }
            [None, None] => drop(guard),
        }
        self.put_back(caller, all, held.root());
        found
    }

    /// Compares the counts of all domains with those at the last comparison. Returns the two that have been idle for
    /// longest, each with its age, if they are idle for long; and whether any domain was not used. Under the lock.
    /// O(domains).
    fn longest_idle(
        &self,
        all: &DomainTable<'a, P>,
        clock: u32,
    ) -> ([Option<(u32, u32)>; 2], bool) {
        let mut found = false;
        let mut idle = [None; 2];
        for place in 0..self.head.live.get() {
            let root = self.roots.at(place);
            let domain = root.domain.get();
            let record = all.records.at(domain);
            if !record.is_free() {
                root.since.set(clock);
                continue;
            }
            if record.uses() == root.uses.get() {
                found = true;
            } else {
                root.uses.set(record.uses());
                root.since.set(clock);
            }
            let age = clock.wrapping_sub(root.since.get());
            let one = (age >= self.idle_looks()).then_some((age, domain));
            if one > idle[0] {
                idle = [one, idle[0]];
            } else if one > idle[1] {
                idle[1] = one;
            }
        }
        (idle, found)
    }

    /// Stores since when a root was not used. Under the lock. O(domains).
    fn mark(&self, domain: u32, uses: u32, since: u32) {
        let mut places = (0..self.head.live.get()).map(|place| self.roots.at(place));
        if let Some(root) = places.find(|root| root.domain.get() == domain) {
            root.uses.set(uses);
            root.since.set(since);
        }
    }

    /// Merges two domains that the caller holds, under the lock, and then releases the lock.
    pub(super) fn merge(
        &self,
        all: &DomainTable<'a, P>,
        (one, other): (u32, u32),
        guard: Guard<'_, P>,
    ) -> HeldDomain<'a, P> {
        let merged = all.held(one).merge(all.held(other), guard.probe);
        self.delist(if merged.root() == one { other } else { one });
        merged
    }
}
