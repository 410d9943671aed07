//! Collecting: acquiring many domains for one request, and checking all of them.
//!
//! A request that its domain cannot serve must not fail while another domain could serve it, or while two together
//! could. The CPU releases its own domain, then acquires one domain after the other and merges them, until the
//! request can be served or all domains are one. It waits for domains that other CPUs hold. These CPUs hand them over
//! when they release them, before any ghost receives one.
//!
//! # Source
//! \[Spring\] does not mention this case.
//!
//! # Invariants
//! One CPU collects at a time, under the collector's lock, and no CPU holds a domain while it waits for that lock.
//! The collector therefore receives every domain after a bounded number of steps of the holders.

use super::Caller;
use super::domain::{DomainTable, HeldDomain, NO_DOMAIN, check_unused};
use super::spring::Spring;
use super::spring_records::{NO_CPU, WAITING};
use crate::lock::Guard;
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};
use crate::snapshot::Violation;
use crate::structure::Structure;

impl<'a, P: Platform> Spring<'a, P> {
    /// Acquires and merges domains until `enough` returns `true` for one, or until all are one in which everything is
    /// coalesced. The caller releases it. Returns `None` for a CPU that the system was not set up for.
    ///
    /// Waits for domains that other CPUs hold. O(domains); at worst O(blocks × orders).
    #[cold]
    #[inline(never)]
    pub(crate) fn collect(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        mut enough: impl FnMut(&HeldDomain<'a, P>, &mut P::Probe) -> bool,
    ) -> Option<HeldDomain<'a, P>> {
        let ghost = self.ghosts.get(caller.cpu.index())?;
        let cpu = caller.cpu.index() as u32;
        let collecting = Guard::lock(self.collecting, caller.probe);
        let inner = &mut Caller {
            cpu: caller.cpu,
            probe: &mut *collecting.probe,
            nested: false,
            found_held: false,
            class: caller.class,
        };
        let mut own: Option<HeldDomain<'a, P>> = None;
        loop {
            let guard = Guard::lock(&self.head.lock, inner.probe);
            let domain = match (self.find(all, cpu), &own) {
                (Some(domain), _) => {
                    drop(guard);
                    domain
                }
                (None, Some(own)) if self.head.live.get() == 1 => {
                    drop(guard);
                    own.settle(u32::MAX, inner.probe);
                    break;
                }
                (None, _) => {
                    self.head.collector.set(cpu);
                    self.announce(1, 0);
                    // Relaxed: as in `queue`.
                    ghost.given.store(WAITING, Ordering::Relaxed);
                    drop(guard);
                    self.wait(inner, all, ghost)
                }
            };
            let merged = match own.take() {
                Some(own) => {
                    let guard = Guard::lock(&self.head.lock, inner.probe);
                    self.merge(all, (own.root(), domain), guard)
                }
                None => all.held(domain),
            };
            let stop = enough(&merged, inner.probe);
            own = Some(merged);
            if stop {
                break;
            }
        }
        // Otherwise it would return to a domain that cannot serve it, and collect again for each request.
        if let (Some(own), Some(home)) = (&own, self.homes.all.get(cpu as usize)) {
            home.last.set(own.root());
        }
        own
    }

    /// Checks that each record is in exactly one place, while no CPU works.
    pub(crate) fn check(&self, all: &DomainTable<'a, P>) -> Result<(), Violation> {
        let fail = |what| Err(Violation::overall(what));
        let head = self.head;
        let waiting = self.notice.waiting.load(Ordering::Relaxed);
        if head.first_ghost.get() & head.last_ghost.get() & head.collector.get() != NO_CPU
            || waiting != 0
        {
            return fail("a CPU waits for a domain");
        }
        let domains = self.roots.len();
        let mut found = 0;
        let mut at = head.vacant.get();
        while at != NO_DOMAIN && found <= domains {
            check_unused(all, at)?;
            found += 1;
            at = self.vacant.at(at).get();
        }
        for root in self.roots() {
            if all.records.at(root).is_held() {
                return fail("a domain is held");
            }
            let held = all.held(root);
            held.check()?;
            for domain in all.reusable(root) {
                check_unused(all, domain)?;
                found += 1;
            }
            found += 1 + all.absorbed(root).count() as u32;
        }
        let shelf = self.shelf.as_ref();
        if shelf.is_some_and(|shelf| shelf.length() != head.live.get()) {
            return fail("a domain is not on the shelf, or twice");
        }
        if found == domains {
            Ok(())
        } else {
            fail("a domain is lost, or is in two places")
        }
    }
}
