//! The spring: which domains exist, which CPU acquires which, and where CPUs wait for one.
//!
//! CPUs meet only when they acquire a domain and when they release it. Between the two, the holder works on its
//! domain without a lock.
//!
//! # Source
//! \[Spring\] §III-B, figures 4 to 6.
//!
//! # Mechanism
//! A domain is in the spring while no CPU holds it. A CPU acquires the domain that it had last, by one exchange on a
//! cache line that few other CPUs touch, and releases it by a store. Only if another CPU holds that domain does it
//! search for another, under the spring's lock; see [`homes`](super::homes). With `spring=locked` CPUs take domains
//! under the spring's lock instead; see [`locked`](super::locked). The domains, ghosts and collecting are the same for
//! both.
//!
//! **Extension** (figure 5). A CPU that finds every domain held becomes a ghost: it enters a queue and waits. The
//! next CPU that releases a domain and finds a ghost hands it a part, which is a domain of its own from then on. A
//! second ghost in the queue receives all the rest. The number of domains therefore doubles with each round until no
//! CPU waits, and no CPU works for many others. A domain that is too small to be split is handed over whole.
//!
//! **Compression** (figure 6). From time to time a CPU that releases a domain *looks* for domains that are idle for
//! long. It merges the two that were idle for longest; see [`compress`](super::compress).
//!
//! For a request that no single domain can serve, see [`collect`](super::collect).
//!
//! # Invariants
//! 1. All cells here are accessed only under the lock, but for hints.
//! 2. A ghost, or the collector, waits only while its last look under the lock found every domain held, and it looks
//!    again whenever it wakes. A CPU that releases a domain looks for ghosts afterwards. No ghost is therefore
//!    forgotten: one of the two sees the other. (Where a store may pass only a later load, as on x86, both may miss
//!    each other once; the ghost then sees the domain at its next look.)
//! 3. No CPU waits for a domain while it holds one. The collector is the exception, and no CPU that holds a domain
//!    waits for it. All waiting CPUs are therefore served after a bounded number of steps of the others.
//! 4. `live` counts the roots, and the first `live` entries of `roots` name them.
//!
//! Lock order: the collector's lock, then the spring's. Nested callers only try the spring's lock, and hold it during
//! their whole operation, so that they need not wait to release a domain.
//!
//! # Design decisions
//! The paper does not say which domain is acquired. Here it is the one that the CPU had last: its lists are in this
//! CPU's cache, and no other CPU is likely to want it. The paper extends the spring only if no domain is left.
//! Splitting one for a CPU whose own is held is an addition that follows from this preference.
//!
//! # A walk: `spring`
//! 1. `PredictiveList` compares the request's task and region with those of the run, then continues as Linux's list
//!    does. If they differ, or if the list is empty, it predicts how long the run continues, and from that how much to
//!    refill or to drain.
//! 2. `Domains` takes a domain from the spring by one exchange: its own last one. If another CPU holds it, this CPU
//!    takes a free one, or a part of it while domains are fewer than CPUs. If all are held, it waits as a ghost.
//! 3. The policy works on a held domain as on any structure. A freed frame goes into whichever domain its CPU holds. A
//!    16-bit word per frame (domain_tags.rs) stores order and domain of a free block. A buddy is coalesced only if its
//!    word names the held domain; otherwise the word is a hint that is not used.
//! 4. A store puts the domain back. A CPU that puts one back and sees a ghost gives the ghost a part of it. After every
//!    N blocks per domain, a CPU checks without a lock whether the domain that it watches was in use. If domains have
//!    been idle for long, it merges two of them (compress.rs).
//! 5. A request that its domain cannot serve *collects*: it takes domains one by one, waiting for held ones, until it
//!    is served or all memory is one domain. Only then does it fail.

use super::Caller;
use super::domain::{DomainTable, HeldDomain, NO_DOMAIN};
use super::homes::Homes;
use super::shelf::{Shelf, Shelved};
use super::spring_records::{Ghost, Home, NO_CPU, NO_ORDER, Root, SpringHead, SpringKind, WAITING};
use crate::arena::{Arena, ArenaPlan};
use crate::cache_padded::CachePadded;
use crate::error::BuildError;
use crate::frame::Order;
use crate::lock::{Guard, Locks, ZoneLock};
use crate::platform::{AtomicWord, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::wrapping_slice::WrappingSlice;

/// A CPU looks after it has moved this number of blocks, times the number of domains.
pub(crate) const BLOCKS_PER_LOOK: u32 = 16;

/// A visit counts as at most this number of blocks.
const MAX_COUNTED: u32 = 64;

/// The word that every visit reads, and that CPUs write only when one waits.
#[repr(C, align(64))]
pub(super) struct Notice<P: Platform> {
    /// Number of waiting CPUs: ghosts and the collector.
    pub(super) waiting: P::AtomicU32,
}

/// The spring.
pub(crate) struct Spring<'a, P: Platform> {
    pub(super) notice: &'a Notice<P>,
    pub(super) head: &'a SpringHead<'a, P>,
    pub(super) collecting: &'a CachePadded<ZoneLock<'a, P>>,
    /// The roots, `live` of them.
    pub(super) roots: WrappingSlice<'a, Root<P>>,
    /// For each unused record: the next one.
    pub(super) vacant: WrappingSlice<'a, P::Cell<u32>>,
    pub(super) ghosts: &'a [Ghost<P>],
    /// After how many blocks, or acquisitions with `spring=locked`, times the number of domains, idle ones are found.
    pub(super) patience: u32,
    pub(super) homes: Homes<'a, P>,
    /// With `spring=locked`, where no CPU has a domain of its own.
    pub(super) shelf: Option<Shelf<'a, P>>,
}

impl<'a, P: Platform> Spring<'a, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, domains: u32, cpus: u16, kind: SpringKind) -> ArenaPlan {
        let plan = plan
            .slice::<Notice<P>>(1)
            .slice::<SpringHead<'_, P>>(1)
            .slice::<CachePadded<ZoneLock<'_, P>>>(1)
            .slice::<Root<P>>(domains as usize)
            .slice::<P::Cell<u32>>(domains as usize)
            .slice::<Ghost<P>>(usize::from(cpus));
        match kind {
            SpringKind::Own => plan.slice::<Home<P>>(usize::from(cpus)),
            SpringKind::Locked => plan.slice::<Shelved<P>>(domains as usize),
        }
    }

    /// Creates a spring that contains domain 0; `domains` is a power of two.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        domains: u32,
        cpus: u16,
        locks: Locks<'a, P>,
        (patience, kind): (u32, SpringKind),
    ) -> Result<Self, BuildError> {
        let homes = match kind {
            SpringKind::Own => usize::from(cpus),
            SpringKind::Locked => 0,
        };
        let cell = |value| P::Cell::new(value);
        let head = arena.one(
            "head of the spring",
            SpringHead {
                lock: ZoneLock::new(locks),
                first_ghost: cell(NO_CPU),
                last_ghost: cell(NO_CPU),
                collector: cell(NO_CPU),
                live: cell(1),
                vacant: cell(NO_DOMAIN),
                clock: cell(0),
                bottom: cell(0),
                // Domain 0.
                top: cell(1),
            },
        )?;
        let spring = Self {
            notice: arena.one(
                "count of waiting CPUs",
                Notice {
                    waiting: P::AtomicU32::new(0),
                },
            )?,
            head,
            collecting: arena.one(
                "lock of the collector",
                CachePadded::new(ZoneLock::new(locks)),
            )?,
            roots: WrappingSlice::new(arena.slice("root of a domain", domains as usize, |_| {
                Root {
                    domain: cell(0),
                    uses: cell(0),
                    since: cell(0),
                    home: cell(NO_CPU),
                }
            })?),
            vacant: WrappingSlice::new(arena.slice("vacant domain", domains as usize, |_| {
                P::Cell::new(NO_DOMAIN)
            })?),
            ghosts: arena.slice("waiting CPU", usize::from(cpus), |_| Ghost {
                given: P::AtomicU32::new(WAITING),
                next: cell(NO_CPU),
                queued: cell(0),
                wants: cell(NO_ORDER),
            })?,
            homes: Homes {
                all: arena.slice("last domain of a CPU", homes, |_| Home {
                    last: cell(0),
                    until: cell(patience),
                    watched: cell(NO_DOMAIN),
                    place: cell(0),
                    uses: cell(0),
                    unchanged: cell(0),
                    clock: cell(0),
                })?,
            },
            shelf: match kind {
                SpringKind::Own => None,
                SpringKind::Locked => {
                    let shelf = arena.slice("idle domain", domains as usize, |_| Shelved::new())?;
                    let places = WrappingSlice::new(shelf);
                    Some(Shelf { head, places })
                }
            },
            patience,
        };
        (1..domains).rev().for_each(|domain| spring.vacate(domain));
        Ok(spring)
    }

    /// Returns the number of domains; a hint while other CPUs work.
    pub(crate) fn domains(&self) -> u32 {
        self.head.live.peek()
    }

    /// Returns the roots. Under the lock.
    pub(super) fn roots(&self) -> impl Iterator<Item = u32> + use<'_, 'a, P> {
        (0..self.head.live.get()).map(|at| self.roots.at(at).domain.get())
    }

    /// Marks a record as unused.
    pub(super) fn vacate(&self, domain: u32) {
        self.vacant.at(domain).set(self.head.vacant.get());
        self.head.vacant.set(domain);
    }

    /// Removes a record from the unused ones.
    pub(super) fn occupy(&self) -> Option<u32> {
        let domain = self.head.vacant.get();
        (domain != NO_DOMAIN).then(|| {
            self.head.vacant.set(self.vacant.at(domain).get());
            domain
        })
    }

    /// Adds a new root, which the caller holds: it is in use. Under the lock.
    pub(super) fn enlist(&self, domain: u32) {
        let live = self.head.live.get();
        let root = self.roots.at(live);
        root.domain.set(domain);
        root.home.set(NO_CPU);
        root.uses.set(0);
        root.since.set(self.head.clock.get());
        self.head.live.set(live + 1);
    }

    /// Removes a root. O(domains).
    pub(super) fn delist(&self, domain: u32) {
        let last = self.head.live.get() - 1;
        let place = (0..last).find(|at| self.roots.at(*at).domain.get() == domain);
        if let Some(place) = place {
            let (free, moved) = (self.roots.at(place), self.roots.at(last));
            free.domain.set(moved.domain.get());
            free.uses.set(moved.uses.get());
            free.since.set(moved.since.get());
            free.home.set(moved.home.get());
        }
        self.head.live.set(last);
    }

    /// Acquires a domain, and waits as a ghost if all are held. Returns `None` for a CPU that the system was not set
    /// up for.
    #[inline]
    pub(crate) fn take(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        wants: Option<Order>,
    ) -> Option<u32> {
        if let Some(home) = self.homes.all.get(caller.cpu.index()) {
            let last = home.last.get();
            caller.probe.record(Event::LockWanted);
            if all.records.at(last).try_hold() {
                caller.probe.record(Event::Lock {
                    contended: false,
                    waits: 0,
                });
                return Some(last);
            }
        }
        let ghost = self.ghosts.get(caller.cpu.index())?;
        Some(self.take_another(caller, all, ghost, wants))
    }

    /// Acquires a domain when the one that this CPU had last is held or no longer a root, or if it has none.
    #[cold]
    #[inline(never)]
    fn take_another(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        ghost: &Ghost<P>,
        wants: Option<Order>,
    ) -> u32 {
        let home = self.homes.all.get(caller.cpu.index());
        let cpu = caller.cpu.index() as u32;
        // Otherwise it was merged with another domain.
        let collides = home.is_some_and(|home| all.records.at(home.last.get()).is_held());
        let guard = Guard::lock(&self.head.lock, caller.probe);
        let unused = collides.then(|| self.find_unused(all, cpu)).flatten();
        let domain = match unused.or_else(|| self.find(all, cpu)) {
            Some(domain) => {
                let held = all.held(domain);
                held.take_reusable(|domain| self.vacate(domain));
                let divides = collides && self.has_fewer_than_cpus() && held.is_large();
                let fresh = if divides { self.occupy() } else { None };
                drop(guard);
                match fresh {
                    Some(fresh) => self.divide(caller, all, domain, (fresh, wants)),
                    None => domain,
                }
            }
            None => {
                let order = wants.map_or(NO_ORDER, |order| u32::from(order.get()));
                ghost.wants.set(order);
                self.queue(cpu, ghost);
                drop(guard);
                self.wait(caller, all, ghost)
            }
        };
        // Otherwise a CPU acquires a lock and nothing else.
        if let Some(home) = home {
            caller.probe.record(Event::Lock {
                contended: true,
                waits: 0,
            });
            home.last.set(domain);
        }
        domain
    }

    /// Returns `true` if there are fewer domains than CPUs. Under the lock.
    fn has_fewer_than_cpus(&self) -> bool {
        (self.head.live.get() as usize) < self.ghosts.len()
    }

    /// Splits a part off a domain that the caller holds, as the unused record `fresh`, and releases the rest. Returns
    /// the part, which the caller holds.
    fn divide(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        domain: u32,
        (fresh, wants): (u32, Option<Order>),
    ) -> u32 {
        let part = all.held(domain).split_off(fresh, wants);
        let guard = Guard::lock(&self.head.lock, caller.probe);
        let Some(part) = part else {
            self.vacate(fresh);
            return domain;
        };
        self.enlist(part);
        guard.probe.record(Event::Extend);
        drop(guard);
        all.records.at(domain).release();
        self.serve_waiting(caller, all, domain);
        part
    }

    /// Returns all roots. CPUs start at different places, so that they do not all share the first domain. Under the
    /// lock.
    fn roots_from(&self, cpu: u32) -> impl Iterator<Item = &'a Root<P>> + use<'_, 'a, P> {
        let live = self.head.live.get();
        let start = cpu & (live.next_power_of_two() / 2).saturating_sub(1);
        (start..live).chain(0..start).map(|at| self.roots.at(at))
    }

    /// Acquires any domain that no CPU holds. Under the lock. O(domains), O(1) with `spring=locked`.
    pub(super) fn find(&self, all: &DomainTable<'a, P>, cpu: u32) -> Option<u32> {
        match &self.shelf {
            None => self.find_free(all, cpu),
            Some(shelf) => shelf.take(all),
        }
    }

    /// Acquires any domain that no CPU holds. Under the lock. O(domains).
    fn find_free(&self, all: &DomainTable<'a, P>, cpu: u32) -> Option<u32> {
        let mut domains = self.roots_from(cpu).map(|root| root.domain.get());
        domains.find(|domain| {
            let record = all.records.at(*domain);
            record.is_free() && record.try_hold()
        })
    }

    /// Acquires a domain to which no CPU returns, for a CPU that found its own held. If there is none, and there are
    /// fewer domains than CPUs, acquires one that is large enough to be divided. Under the lock. O(domains), and
    /// O(CPUs) more for each domain of which it is not known who returns to it.
    fn find_unused(&self, all: &DomainTable<'a, P>, cpu: u32) -> Option<u32> {
        let divides = self.has_fewer_than_cpus();
        let mut large = None;
        for root in self.roots_from(cpu) {
            let domain = root.domain.get();
            let record = all.records.at(domain);
            if !self.homes.is_home(root) {
                if record.is_free() && record.try_hold() {
                    root.home.set(cpu);
                    return Some(domain);
                }
            } else if divides && large.is_none() && all.has_large_blocks(domain) && record.is_free()
            {
                large = Some(domain);
            }
        }
        large.filter(|domain| all.records.at(*domain).try_hold())
    }

    /// Releases a domain, into or out of which `blocks` blocks were moved: into the spring, or to a waiting CPU.
    #[inline]
    pub(crate) fn put(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        domain: u32,
        blocks: u32,
    ) {
        if let Some(home) = self.homes.all.get(caller.cpu.index()) {
            let until = home.until.get();
            let blocks = blocks.min(MAX_COUNTED);
            if until > blocks {
                home.until.set(until - blocks);
                return self.put_back(caller, all, domain);
            }
        }
        self.look(caller, all, domain);
    }

    /// Releases a domain.
    #[inline]
    pub(super) fn put_back(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        domain: u32,
    ) {
        all.records.at(domain).release();
        caller.probe.record(Event::Unlock);
        self.serve_waiting(caller, all, domain);
    }

    /// Releases a domain, under the lock.
    pub(super) fn put_under_lock(&self, all: &DomainTable<'a, P>, domain: u32) {
        match &self.shelf {
            None => all.records.at(domain).release(),
            Some(shelf) => shelf.put(all, domain),
        }
    }

    /// Calls `work` on a domain that no CPU holds, under the lock: for nested callers. Returns `None` if the lock is
    /// held, or all domains are.
    pub(crate) fn nested<T>(
        &self,
        caller: &mut Caller<'_, P>,
        all: &DomainTable<'a, P>,
        work: impl FnOnce(&HeldDomain<'a, P>, &mut P::Probe) -> T,
    ) -> Option<T> {
        let guard = Guard::try_lock(&self.head.lock, caller.probe)?;
        let domain = self.find(all, caller.cpu.index() as u32)?;
        let result = work(&all.held(domain), guard.probe);
        if let Some(collector) = self.ghosts.get(self.head.collector.get() as usize) {
            self.dismiss_collector();
            self.hand_over(collector, domain);
        } else if let Some((ghost, _)) = self.next_ghost() {
            self.hand_over(ghost, domain);
        } else {
            self.put_under_lock(all, domain);
        }
        Some(result)
    }
}

#[cfg(test)]
#[path = "tests/spring.rs"]
mod tests;
