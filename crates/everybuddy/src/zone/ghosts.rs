//! How CPUs wait for a domain, and how they are served.
//!
//! A CPU that finds every domain held is a ghost: it enters a queue, and the next CPU that releases a domain hands it
//! the domain or a part of it. See [`spring`](super::spring) for the mechanism and its invariants.
//!
//! # Invariants
//! A ghost is in the queue until another CPU removes it, which then hands it a domain, or until it finds a domain
//! itself, under the lock. So it never receives two.

use super::Caller;
use super::domain::DomainTable;
use super::spring::Spring;
use super::spring_records::{Ghost, NO_CPU, WAITING};
use crate::frame::Order;
use crate::lock::Guard;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};

impl<'a, P: Platform> Spring<'a, P> {
    /// Counts `more` further waiting CPUs and `fewer` that no longer wait. Under the lock.
    pub(super) fn announce(&self, more: u32, fewer: u32) {
        // Relaxed: guarded by the lock. A CPU that reads it without the lock looks again, or is seen by one that looks.
        let waiting = self.notice.waiting.load(Ordering::Relaxed);
        let waiting = waiting.wrapping_add(more).wrapping_sub(fewer);
        self.notice.waiting.store(waiting, Ordering::Relaxed);
    }

    /// Adds a ghost to the queue. Under the lock.
    pub(super) fn queue(&self, cpu: u32, ghost: &Ghost<P>) {
        // Relaxed: a CPU that hands a domain over reads the queue under the lock first.
        ghost.given.store(WAITING, Ordering::Relaxed);
        ghost.next.set(NO_CPU);
        ghost.queued.set(1);
        match self.ghosts.get(self.head.last_ghost.get() as usize) {
            Some(last) => last.next.set(cpu),
            None => self.head.first_ghost.set(cpu),
        }
        self.head.last_ghost.set(cpu);
        self.announce(1, 0);
    }

    /// Removes the first ghost from the queue. Under the lock.
    pub(super) fn next_ghost(&self) -> Option<(&'a Ghost<P>, Option<Order>)> {
        let ghost = self.ghosts.get(self.head.first_ghost.get() as usize)?;
        let next = ghost.next.get();
        self.head.first_ghost.set(next);
        if next == NO_CPU {
            self.head.last_ghost.set(NO_CPU);
        }
        ghost.queued.set(0);
        self.announce(0, 1);
        let wants = u8::try_from(ghost.wants.get()).ok().and_then(Order::new);
        Some((ghost, wants))
    }

    /// Removes a ghost from any place in the queue. Under the lock. O(ghosts).
    fn leave(&self, cpu: u32, ghost: &Ghost<P>) {
        let mut before = NO_CPU;
        let mut at = self.head.first_ghost.get();
        while at != cpu {
            before = at;
            let other = self.ghosts.get(at as usize);
            at = other.map_or(cpu, |other| other.next.get());
        }
        match self.ghosts.get(before as usize) {
            Some(before) => before.next.set(ghost.next.get()),
            None => self.head.first_ghost.set(ghost.next.get()),
        }
        if self.head.last_ghost.get() == cpu {
            self.head.last_ghost.set(before);
        }
        ghost.queued.set(0);
        self.announce(0, 1);
    }

    /// Waits for a domain: until one is handed over, or one is found that no CPU holds.
    #[cold]
    pub(super) fn wait(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        ghost: &Ghost<P>,
    ) -> u32 {
        let cpu = caller.cpu.index() as u32;
        // Looks are not acquisitions, so no probe counts them.
        let quiet = &mut P::Probe::default();
        let mut attempt = 0;
        let domain = loop {
            // Acquire: pairs with the release in `hand_over`: the writes of the domain's last holder are seen.
            let given = ghost.given.load(Ordering::Acquire);
            if given != WAITING {
                break given;
            }
            // At least once, after it was announced that this CPU waits: invariant 2.
            let guard = match attempt {
                0 => Some(Guard::lock(&self.head.lock, quiet)),
                _ => Guard::try_lock(&self.head.lock, quiet),
            };
            if guard.is_some()
                && let Some(domain) = self.find_for(all, cpu, ghost)
            {
                break domain;
            }
            drop(guard);
            P::wait(&ghost.given, WAITING, attempt);
            attempt = attempt.saturating_add(1);
        };
        caller.probe.record(Event::Ghost { waits: attempt });
        domain
    }

    /// Acquires a domain for a waiting CPU, and ends its waiting, unless another CPU is about to hand it one. Under
    /// the lock.
    pub(super) fn find_for(
        &self,
        all: &DomainTable<'a, P>,
        cpu: u32,
        ghost: &Ghost<P>,
    ) -> Option<u32> {
        let collects = self.head.collector.get() == cpu;
        if !collects && ghost.queued.get() == 0 {
            return None;
        }
        let domain = self.find(all, cpu)?;
        if collects {
            self.dismiss_collector()
        } else {
            self.leave(cpu, ghost)
        }
        Some(domain)
    }

    /// Records that the collector no longer waits. Under the lock.
    pub(super) fn dismiss_collector(&self) {
        self.head.collector.set(NO_CPU);
        self.announce(0, 1);
    }

    /// Hands a domain over to a waiting CPU.
    pub(super) fn hand_over(&self, ghost: &Ghost<P>, domain: u32) {
        // Release: pairs with the acquire in `wait`.
        ghost.given.store(domain, Ordering::Release);
        P::wake(&ghost.given);
    }

    /// Acquires a domain again that was just released, if a CPU waits, and serves that CPU.
    #[inline]
    pub(super) fn serve_waiting(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        domain: u32,
    ) {
        // Relaxed: see invariant 2.
        if self.notice.waiting.load(Ordering::Relaxed) != 0 && all.records.at(domain).try_hold() {
            self.serve(caller, all, domain);
        }
    }

    /// Hands a domain, or a part of it, to a waiting CPU. Releases it if no CPU waits.
    #[cold]
    #[inline(never)]
    pub(super) fn serve(&self, caller: &mut Caller<'_, P>, all: &DomainTable<'a, P>, domain: u32) {
        let held = all.held(domain);
        let mut divided = false;
        loop {
            let guard = Guard::lock(&self.head.lock, caller.probe);
            held.take_reusable(|domain| self.vacate(domain));
            if let Some(collector) = self.ghosts.get(self.head.collector.get() as usize) {
                self.dismiss_collector();
                return self.hand_over(collector, domain);
            }
            let Some((ghost, wants)) = self.next_ghost() else {
                // Under the lock: a CPU that enters the queue after this finds the domain.
                return self.put_under_lock(all, domain);
            };
            let fresh = if divided { None } else { self.occupy() };
            drop(guard);
            let Some(fresh) = fresh else {
                return self.hand_over(ghost, domain);
            };
            let part = held.split_off(fresh, wants);
            let _guard = Guard::lock(&self.head.lock, caller.probe);
            let Some(part) = part else {
                self.vacate(fresh);
                return self.hand_over(ghost, domain);
            };
            self.enlist(part);
            _guard.probe.record(Event::Extend);
            self.hand_over(ghost, part);
            divided = true;
        }
    }
}
