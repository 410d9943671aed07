//! The spring: where domains lie that nobody holds, and where CPUs wait for one.
//!
//! Source: Spring Buddy (002) III-B, figures 4 to 6.
//!
//! Why it exists: CPUs meet only here, for a few instructions under the spring's lock, when they take a domain and
//! when they put it back. What is done with a domain is done by its holder, under no lock.
//!
//! **Extension** (figure 5). A CPU that finds no domain becomes a ghost: it queues up and waits. Whoever puts a domain
//! back and finds a ghost passes it a part, which is a domain of its own from then on. A second ghost in the queue
//! gets all the rest: so domains double with each round until nobody waits, and no CPU works for many others.
//! A domain too small to be divided is handed over whole.
//!
//! **Compression** (figure 6). Whoever puts a domain back looks at the one that lies there longest. If it is idle
//! (nobody took it while the spring was asked [`PATIENCE`] times as often as there are domains) and has absorbed blocks
//! that did not move yet, some of them move. If it is idle and settled, it is merged with the next longest idle one;
//! or, if that is the only idle one, with the domain that comes back. So the number of domains sinks to the
//! number that is needed, one at a time, and the time of a single step is bounded.
//!
//! **Collecting.** A request that its domain can't serve must not fail while another domain could serve it. The CPU puts
//! its own back, and takes one domain after the other, merging them, until the request can be served or all are
//! merged. It waits for those that others hold: these hand them over when they put them back. One CPU collects at
//! a time.
//!
//! Invariants:
//! 1. All cells here are touched only under the lock, but a ghost's `given` (release and acquire) and `last` (its CPU's).
//! 2. No ghost waits while a domain lies in the spring; no collector does.
//! 3. Nobody waits for a domain while holding one, but the collector, for whom nobody waits who holds one. So all
//!    who wait are served after a bounded number of steps of those who don't.
//! 4. `live` counts the roots: those that lie here and those that are held.
//!
//! Lock order: the collector's lock, then the spring's. Nested callers only try the spring's, and keep it for all of their
//! operation, so that they need not wait to put anything back.
//!
//! Decides (the paper doesn't say): the domain put back last is taken first, so that idle ones sink; but of the four on
//! top the one that this CPU had last, whose lists are in its cache.

use super::Caller;
use super::domain::{Held, NONE, Numbers, check_unused};
use crate::arena::{Arena, ArenaPlan};
use crate::circle::Circle;
use crate::error::BuildError;
use crate::frame::{Order, Pfn};
use crate::lock::{Guard, LockKind, ZoneLock};
use crate::platform::{AtomicWord, Ordering, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::snapshot::Violation;

/// A domain is idle when the spring was asked for so many domains, times the number of domains, since it was put back.
pub(crate) const PATIENCE: u32 = 64;

/// Blocks that move in one step of a compression.
const STEP: u32 = 32;

/// How deep a CPU looks for the domain that it had last.
const NEAR: u32 = 4;

/// What a ghost reads while it waits.
const WAITING: u32 = u32::MAX;

/// Says that the collector has a domain already, with which the next one will be merged.
const HAS: u32 = 1 << 31;

/// All that a visit needs beside the ring, on one line.
#[repr(C, align(64))]
struct Head<P: Platform> {
    lock: ZoneLock<P>,
    /// Domains that were asked for, modulo 2^32.
    clock: P::Cell<u32>,
    /// Positions in the ring: longest there, and after the last.
    bottom: P::Cell<u32>,
    top: P::Cell<u32>,
    /// CPUs that wait as ghosts.
    first_ghost: P::Cell<u32>,
    last_ghost: P::Cell<u32>,
    /// The CPU that collects and waits.
    collector: P::Cell<u32>,
    /// Domains.
    live: P::Cell<u32>,
    /// The first number that is not in use.
    vacant: P::Cell<u32>,
}

/// A CPU's place to wait, on a line of its own.
#[repr(C, align(64))]
struct Ghost<P: Platform> {
    /// The domain that it was given.
    given: P::AtomicU32,
    /// The next in the queue.
    next: P::Cell<u32>,
    /// The order that it wants, or nothing.
    wants: P::Cell<u32>,
    /// The domain that this CPU had last.
    last: P::Cell<u32>,
}

/// A lock on a line of its own.
#[repr(C, align(64))]
struct Alone<P: Platform>(ZoneLock<P>);

/// The spring.
pub(crate) struct Spring<'a, P: Platform> {
    head: &'a Head<P>,
    collecting: &'a Alone<P>,
    /// Domains that nobody holds: the number below, above it when it was put back.
    ring: Circle<'a, P::Cell<u64>>,
    /// Numbers that are not in use: the next one.
    vacant: Circle<'a, P::Cell<u32>>,
    ghosts: &'a [Ghost<P>],
    patience: u32,
}

/// What is to be done when a domain is put back and nobody waits.
enum Compression {
    Nothing,
    /// Move blocks of this idle domain.
    Settle(u64),
    /// Merge these two idle domains.
    Merge(u64, u64),
    /// Merge this idle domain with the one that comes back.
    Join(u64),
}

impl<'a, P: Platform> Spring<'a, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, numbers: u32, cpus: u16) -> ArenaPlan {
        plan.slice::<Head<P>>(1)
            .slice::<Alone<P>>(1)
            .slice::<P::Cell<u64>>(numbers as usize)
            .slice::<P::Cell<u32>>(numbers as usize)
            .slice::<Ghost<P>>(usize::from(cpus))
    }

    /// Makes a spring in which the domain 0 lies; `numbers` is a power of two.
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        numbers: u32,
        cpus: u16,
        lock: LockKind,
        patience: u32,
    ) -> Result<Self, BuildError> {
        let cell = |value| P::Cell::new(value);
        let spring = Self {
            head: arena.one(Head {
                lock: ZoneLock::new(lock),
                clock: cell(0),
                bottom: cell(0),
                top: cell(0),
                first_ghost: cell(NONE),
                last_ghost: cell(NONE),
                collector: cell(NONE),
                live: cell(1),
                vacant: cell(NONE),
            })?,
            collecting: arena.one(Alone(ZoneLock::new(lock)))?,
            ring: Circle::new(arena.slice(numbers as usize, |_| P::Cell::new(0))?),
            vacant: Circle::new(arena.slice(numbers as usize, |_| P::Cell::new(NONE))?),
            ghosts: arena.slice(usize::from(cpus), |_| Ghost {
                given: P::AtomicU32::new(WAITING),
                next: cell(NONE),
                wants: cell(NONE),
                last: cell(NONE),
            })?,
            patience,
        };
        (1..numbers).rev().for_each(|number| spring.vacate(number));
        spring.push(0);
        Ok(spring)
    }

    /// Returns how many domains there are; a hint while others work.
    pub(crate) fn domains(&self) -> u32 {
        self.head.live.peek()
    }

    fn length(&self) -> u32 {
        self.head.top.get().wrapping_sub(self.head.bottom.get())
    }

    /// Puts a domain on top.
    fn push(&self, number: u32) {
        let top = self.head.top.get();
        let entry = u64::from(self.head.clock.get()) << 32 | u64::from(number);
        self.ring.at(top).set(entry);
        self.head.top.set(top.wrapping_add(1));
    }

    /// Takes a domain from the top, `last` if it is near.
    fn pop(&self, last: u32) -> Option<u32> {
        let (top, length) = (self.head.top.get(), self.length());
        if length == 0 {
            return None;
        }
        let steps = 1..=length.min(NEAR);
        let near = steps.map(|step| top.wrapping_sub(step));
        let is_last = |at: &u32| self.ring.at(*at).get() as u32 == last;
        let mut at = { near }.find(is_last).unwrap_or(top.wrapping_sub(1));
        let number = self.ring.at(at).get() as u32;
        loop {
            let above = at.wrapping_add(1);
            if above == top {
                break;
            }
            self.ring.at(at).set(self.ring.at(above).get());
            at = above;
        }
        self.head.top.set(top.wrapping_sub(1));
        Some(number)
    }

    /// Takes the domain that lies there longest.
    fn pop_bottom(&self) -> u64 {
        let bottom = self.head.bottom.get();
        self.head.bottom.set(bottom.wrapping_add(1));
        self.ring.at(bottom).get()
    }

    /// Makes a number one that is not in use.
    fn vacate(&self, number: u32) {
        self.vacant.at(number).set(self.head.vacant.get());
        self.head.vacant.set(number);
    }

    /// Takes a number that is not in use.
    fn occupy(&self) -> Option<u32> {
        let number = self.head.vacant.get();
        (number != NONE).then(|| {
            self.head.vacant.set(self.vacant.at(number).get());
            number
        })
    }

    fn count(&self, more: u32, fewer: u32) {
        let live = self.head.live.get();
        self.head
            .live
            .set(live.wrapping_add(more).wrapping_sub(fewer));
    }

    /// Takes a domain, waiting as a ghost if there is none. Nothing for a caller that may not wait: a CPU that the
    /// system was not set up for.
    #[inline]
    pub(crate) fn take(&self, caller: &mut Caller<'_, P>, wants: Option<Order>) -> Option<u32> {
        let ghost = self.ghosts.get(caller.cpu.index())?;
        let guard = Guard::lock(&self.head.lock, caller.probe);
        self.head.clock.set(self.head.clock.get().wrapping_add(1));
        if let Some(number) = self.pop(ghost.last.get()) {
            ghost.last.set(number);
            return Some(number);
        }
        ghost
            .wants
            .set(wants.map_or(NONE, |order| u32::from(order.get())));
        self.queue(caller.cpu.index() as u32, ghost);
        drop(guard);
        let number = self.wait(ghost, caller.probe);
        ghost.last.set(number);
        Some(number)
    }

    /// Queues a ghost.
    #[cold]
    fn queue(&self, cpu: u32, ghost: &Ghost<P>) {
        // Relaxed: who gives reads the queue under the lock first.
        ghost.given.store(WAITING, Ordering::Relaxed);
        ghost.next.set(NONE);
        match self.ghosts.get(self.head.last_ghost.get() as usize) {
            Some(last) => last.next.set(cpu),
            None => self.head.first_ghost.set(cpu),
        }
        self.head.last_ghost.set(cpu);
    }

    /// Takes the first ghost out of the queue.
    fn next_ghost(&self) -> Option<(&'a Ghost<P>, Option<Order>)> {
        let ghost = self.ghosts.get(self.head.first_ghost.get() as usize)?;
        let next = ghost.next.get();
        self.head.first_ghost.set(next);
        if next == NONE {
            self.head.last_ghost.set(NONE);
        }
        let wants = u8::try_from(ghost.wants.get()).ok().and_then(Order::new);
        Some((ghost, wants))
    }

    /// Waits for a domain.
    #[cold]
    fn wait(&self, ghost: &Ghost<P>, probe: &mut P::Probe) -> u32 {
        let mut attempt = 0;
        loop {
            // Acquire: pairs with the release in `give`: what the domain's last holder did is seen.
            let given = ghost.given.load(Ordering::Acquire);
            if given != WAITING {
                probe.record(Event::Ghost { waits: attempt });
                return given;
            }
            P::wait(&ghost.given, WAITING, attempt);
            attempt = attempt.saturating_add(1);
        }
    }

    /// Gives a domain to a CPU that waits.
    fn give(&self, ghost: &Ghost<P>, number: u32) {
        // Release: pairs with the acquire in `wait`.
        ghost.given.store(number, Ordering::Release);
        P::wake(&ghost.given);
    }

    /// Puts a domain back: to whoever waits, or into the spring.
    #[inline]
    pub(crate) fn put(&self, caller: &mut Caller<'_, P>, all: &Numbers<'a, P>, number: u32) {
        let guard = Guard::lock(&self.head.lock, caller.probe);
        let head = self.head;
        let waiting = head.first_ghost.get() & head.collector.get() != NONE;
        if waiting || self.is_idle(self.ring.at(head.bottom.get()).get()) || all.has_spent(number) {
            drop(guard);
            return self.put_slowly(caller, all, number);
        }
        self.push(number);
    }

    /// Tells whether the domain of an entry at the bottom is idle.
    #[inline]
    fn is_idle(&self, entry: u64) -> bool {
        let since = self.head.clock.get().wrapping_sub((entry >> 32) as u32);
        self.length() > 0 && since > self.head.live.get().saturating_mul(self.patience)
    }

    /// Decides what the longest idle domains are due for, and takes them.
    fn compression(&self, all: &Numbers<'a, P>) -> Compression {
        let bottom = self.head.bottom.get();
        if !self.is_idle(self.ring.at(bottom).get()) {
            return Compression::Nothing;
        }
        let first = self.pop_bottom();
        if !all.is_settled(first as u32) {
            return Compression::Settle(first);
        }
        self.count(0, 1);
        if self.is_idle(self.ring.at(bottom.wrapping_add(1)).get()) {
            return Compression::Merge(first, self.pop_bottom());
        }
        Compression::Join(first)
    }

    /// Puts a domain back where somebody waits, or something is to be compressed.
    #[cold]
    #[inline(never)]
    fn put_slowly(&self, caller: &mut Caller<'_, P>, all: &Numbers<'a, P>, number: u32) {
        let mut held = all.held(number);
        let (mut divided, mut compresses) = (false, true);
        loop {
            let guard = Guard::lock(&self.head.lock, caller.probe);
            held.take_spent(|number| self.vacate(number));
            if let Some(collector) = self.ghosts.get((self.head.collector.get() & !HAS) as usize) {
                self.count(0, u32::from(self.head.collector.get() & HAS != 0));
                self.head.collector.set(NONE);
                return self.give(collector, held.root());
            }
            if let Some((ghost, wants)) = self.next_ghost() {
                let fresh = if divided { None } else { self.occupy() };
                self.count(u32::from(fresh.is_some()), 0);
                drop(guard);
                let Some(fresh) = fresh else {
                    return self.give(ghost, held.root());
                };
                if let Some(part) = held.pass(fresh, wants) {
                    caller.probe.record(Event::Extend);
                    self.give(ghost, part);
                    divided = true;
                    continue;
                }
                let _guard = Guard::lock(&self.head.lock, caller.probe);
                self.vacate(fresh);
                self.count(0, 1);
                return self.give(ghost, held.root());
            }
            let compression = match compresses {
                true => self.compression(all),
                false => Compression::Nothing,
            };
            let (idle, entry) = match compression {
                Compression::Nothing => return self.push(held.root()),
                Compression::Join(entry) => {
                    drop(guard);
                    held = held.merge(all.held(entry as u32), caller.probe);
                    compresses = false;
                    continue;
                }
                Compression::Settle(entry) => {
                    self.push(held.root());
                    drop(guard);
                    (all.held(entry as u32), entry)
                }
                Compression::Merge(entry, other) => {
                    self.push(held.root());
                    drop(guard);
                    let merged = all
                        .held(entry as u32)
                        .merge(all.held(other as u32), caller.probe);
                    (merged, entry)
                }
            };
            idle.settle(STEP, caller.probe);
            return self.put_below(caller, all, &idle, entry);
        }
    }

    /// Puts an idle domain back to the bottom, as long idle as it was.
    fn put_below(
        &self,
        caller: &mut Caller<'_, P>,
        all: &Numbers<'a, P>,
        held: &Held<'a, P>,
        entry: u64,
    ) {
        let guard = Guard::lock(&self.head.lock, caller.probe);
        held.take_spent(|number| self.vacate(number));
        if self.head.first_ghost.get() & self.head.collector.get() != NONE {
            drop(guard);
            return self.put_slowly(caller, all, held.root());
        }
        let bottom = self.head.bottom.get().wrapping_sub(1);
        let entry = entry & !u64::from(u32::MAX) | u64::from(held.root());
        self.ring.at(bottom).set(entry);
        self.head.bottom.set(bottom);
    }

    /// Does `work` on the domain on top, without taking it: for nested callers. Nothing if the lock is taken, or
    /// no domain is there.
    pub(crate) fn nested<T>(
        &self,
        caller: &mut Caller<'_, P>,
        all: &Numbers<'a, P>,
        work: impl FnOnce(&Held<'a, P>, &mut P::Probe) -> T,
    ) -> Option<T> {
        let guard = Guard::try_lock(&self.head.lock, caller.probe)?;
        if self.length() == 0 {
            return None;
        }
        let top = self.ring.at(self.head.top.get().wrapping_sub(1)).get() as u32;
        Some(work(&all.held(top), guard.probe))
    }

    /// Takes and merges domains until one has `enough`, or until all are one, in which everything is coalesced. The
    /// caller puts it back. Nothing for a CPU that the system was not set up for.
    ///
    /// Waits for domains that others hold. O(domains), in the end O(blocks x orders).
    #[cold]
    #[inline(never)]
    pub(crate) fn collect(
        &self,
        caller: &mut Caller<'_, P>,
        all: &Numbers<'a, P>,
        mut enough: impl FnMut(&Held<'a, P>, &mut P::Probe) -> bool,
    ) -> Option<Held<'a, P>> {
        let ghost = self.ghosts.get(caller.cpu.index())?;
        let cpu = caller.cpu.index() as u32;
        let collecting = Guard::lock(&self.collecting.0, caller.probe);
        let mut own: Option<Held<'a, P>> = None;
        loop {
            let guard = Guard::lock(&self.head.lock, collecting.probe);
            let number = match (self.pop(NONE), &own) {
                (Some(number), own) => {
                    self.count(0, u32::from(own.is_some()));
                    drop(guard);
                    number
                }
                (None, Some(own)) if self.head.live.get() == 1 => {
                    drop(guard);
                    own.settle(u32::MAX, collecting.probe);
                    break;
                }
                (None, own) => {
                    let has = if own.is_some() { HAS } else { 0 };
                    self.head.collector.set(cpu | has);
                    // Relaxed: as in `queue`.
                    ghost.given.store(WAITING, Ordering::Relaxed);
                    drop(guard);
                    self.wait(ghost, collecting.probe)
                }
            };
            let held = all.held(number);
            let merged = match own.take() {
                Some(own) => own.merge(held, collecting.probe),
                None => held,
            };
            let stop = enough(&merged, collecting.probe);
            own = Some(merged);
            if stop {
                break;
            }
        }
        own
    }

    /// Checks that each number is in exactly one place, while nobody works.
    pub(crate) fn check(&self, all: &Numbers<'a, P>) -> Result<(), Violation> {
        let fail = |what| Err(Violation { pfn: Pfn(0), what });
        let head = self.head;
        if head.first_ghost.get() & head.last_ghost.get() & head.collector.get() != NONE {
            return fail("a CPU waits for a domain");
        }
        if self.length() != head.live.get() {
            return fail("the domains are miscounted, or one is held");
        }
        let numbers = self.ring.len();
        let mut found = 0;
        let mut at = head.vacant.get();
        while at != NONE && found <= numbers {
            check_unused(all, at)?;
            found += 1;
            at = self.vacant.at(at).get();
        }
        for step in 0..self.length() {
            let entry = self.ring.at(head.bottom.get().wrapping_add(step)).get();
            let held = all.held(entry as u32);
            crate::structure::Structure::check(&held)?;
            for number in all.spent(held.root()) {
                check_unused(all, number)?;
                found += 1;
            }
            found += 1 + all.absorbed(held.root()).count() as u32;
        }
        match found == numbers {
            true => Ok(()),
            false => fail("a domain's number is lost, or in two places"),
        }
    }
}
