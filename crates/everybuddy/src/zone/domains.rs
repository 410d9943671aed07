//! Buddy domains: free memory in as many parts as CPUs work at the same time.
//!
//! iBuddy's spaces are ranges of addresses, so a frame must return to the space that it came from, whose lock another
//! CPU may hold. A domain is a set of blocks: a CPU acquires any domain, allocates from it or frees into it, and
//! releases it. No other CPU is in it meanwhile, and no lock is held.
//!
//! # Source
//! \[Spring\] §III-B, the spring core layer.
//!
//! # Invariants
//! A block's words and records are written by the holder of the domain that the block is in, or by the owner of its
//! allocation. An exchange of its tag passes it from one to the other.
//!
//! # Design decisions
//! [`domain`](super::domain) defines what a domain is, what a part of it is, and how merging costs nothing.
//! [`spring`](super::spring) decides when domains are split and merged, and which CPU waits for which.
//!
//! - Two CPUs may free the same block at the same moment, each into a domain of its own, under no common lock. A free
//!   therefore exchanges the tag of an allocated block, and one of the two frees is refused. (A block in a CPU's list
//!   is tagged with that CPU, and no other CPU may free it, so no exchange is needed.)
//! - Parts of allocations, and ranges that are added or withdrawn, are changed under one separate lock, the range
//!   lock. A free of a whole block that races with a free of one of its parts is a misuse that is not always
//!   detected.
//! - A request that no part of its domain can serve acquires further domains and merges them (*collects*). Memory is
//!   exhausted if the request fails when all domains are one and everything is coalesced. To withdraw a range, all
//!   domains are collected.
//! - Domains are compressed when other domains are released, so a machine on which no CPU calls stays as it was. A
//!   host may run the service `compress` when it is idle. Each step compares all domains, as looks do now and then:
//!   steps that follow each other quickly find a domain idle although its CPU is only between two calls.
//!
//! # Complexity
//! Allocating and freeing is O(orders), with two operations on the spring. A request that fails is O(blocks × orders).

use super::bulk::{self, LocklessBatch};
use super::domain::{AllDomains, DomainRecord, DomainTable, HeldDomain, MIGRATE_PER_VISIT};
use super::spring::Spring;
use super::spring_records::SpringKind;
use super::{Caller, ZoneLayer, range};
use crate::api::{Progress, Service};
use crate::arena::{Arena, ArenaPlan};
use crate::cache_padded::CachePadded;
use crate::coalesce::{Coalesce, Eager};
use crate::detail::Detail;
use crate::error::{AllocateError, BuildError, FreeError, RangeError};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Tag};
use crate::lock::{Guard, Hold, Locks, ZoneLock};
use crate::platform::{CpuId, Platform, SharedCell};
use crate::probe::{Event, Probe};
use crate::snapshot::{Census, Snapshot, Violation};
use crate::structure::domain_tags::{DomainTags, MAX_DOMAINS};
use crate::wrapping_slice::WrappingSlice;

/// All domains.
pub struct Domains<'a, P: Platform> {
    all: DomainTable<'a, P>,
    spring: Spring<'a, P>,
    range_lock: &'a CachePadded<ZoneLock<'a, P>>,
}

/// The geometry that domains are created for.
#[derive(Clone, Copy)]
pub(crate) struct DomainGeometry {
    /// Frames of the span.
    pub(crate) frames: u32,
    /// CPUs.
    pub(crate) cpus: u16,
    /// The largest order.
    pub(crate) max_order: Order,
    /// How CPUs acquire domains.
    pub(crate) spring: SpringKind,
}

impl DomainGeometry {
    /// Returns the number of records: two per CPU, one for the domain that it holds and one that was absorbed and has
    /// not moved yet. Fewer in a small memory, where that many domains would be empty.
    #[inline]
    fn domains(&self) -> u32 {
        let most = (self.frames / 256 + 4).min(MAX_DOMAINS);
        (2 * u32::from(self.cpus) + 2)
            .min(most)
            .next_power_of_two()
            .min(MAX_DOMAINS)
    }

    /// Returns the number of words: whole largest blocks, so that a buddy's word exists even if the buddy does not.
    fn words(&self) -> usize {
        (self.frames as usize).next_multiple_of(self.max_order.frames() as usize)
    }
}

/// What serves a request from a domain, if the domain has what it needs.
type Work<'w, 'a, P, T> =
    &'w mut dyn FnMut(&HeldDomain<'a, P>, &mut <P as Platform>::Probe) -> Option<T>;

impl<'a, P: Platform> Domains<'a, P> {
    /// Plans the memory of [`new`](Self::new).
    pub(crate) fn plan(plan: ArenaPlan, geometry: DomainGeometry) -> ArenaPlan {
        let domains = geometry.domains();
        let plan = plan
            .slice::<P::Cell<u16>>(geometry.words())
            .slice::<DomainRecord<P>>(domains as usize)
            .slice::<CachePadded<ZoneLock<'_, P>>>(1);
        Spring::<P>::plan(plan, domains, geometry.cpus, geometry.spring)
    }

    /// Creates one domain without frames. O(frames).
    pub(crate) fn new(
        arena: &mut Arena<'a>,
        table: FrameTable<'a, P>,
        geometry: DomainGeometry,
        (locks, patience): (Locks<'a, P>, u32),
    ) -> Result<Self, BuildError> {
        let words = arena.slice("tags of domains", geometry.words(), |_| {
            DomainTags::<P>::clear_word()
        })?;
        let count = geometry.domains();
        let records = arena.slice("domain", count as usize, |domain| {
            DomainRecord::new(domain as u32)
        })?;
        Ok(Self {
            all: DomainTable {
                table,
                tags: DomainTags::new(words),
                records: WrappingSlice::new(records),
                max_order: geometry.max_order,
            },
            range_lock: arena.one("lock of ranges", CachePadded::new(ZoneLock::new(locks)))?,
            spring: Spring::new(
                arena,
                count,
                geometry.cpus,
                locks,
                (patience, geometry.spring),
            )?,
        })
    }

    /// Adds a run of interior frames as free, before the domain is in use. O(frames / largest block + orders).
    pub(crate) fn seed(&self, start: Index, frames: u32) {
        if let Some(start) = self.all.table.frame(start) {
            let probe = &mut P::Probe::default();
            range::adopt_pieces(&self.all.held(0), &Eager, start, frames, probe);
        }
    }

    /// Acquires a domain, calls `work` on it, and releases it. `work` also returns the number of blocks that it
    /// moved. Returns `None` if the caller cannot wait and would have to.
    #[inline]
    fn with_domain<T>(
        &self,
        caller: &mut Caller<'_, P>,
        wants: Option<Order>,
        work: impl FnOnce(&HeldDomain<'a, P>, &mut P::Probe) -> (T, u32),
    ) -> Option<T> {
        if caller.nested {
            let done = self.spring.nested(caller, &self.all, work);
            return done.map(|(result, _)| result);
        }
        self.with_own_domain(caller, wants, work)
    }

    /// Does the same for a caller who can wait.
    #[inline]
    fn with_own_domain<T>(
        &self,
        caller: &mut Caller<'_, P>,
        wants: Option<Order>,
        work: impl FnOnce(&HeldDomain<'a, P>, &mut P::Probe) -> (T, u32),
    ) -> Option<T> {
        let root = self.spring.take(caller, &self.all, wants)?;
        let held = self.all.held(root);
        let (result, blocks) = work(&held, caller.probe);
        if !self.all.is_settled(root) {
            held.settle(MIGRATE_PER_VISIT + blocks / 4, caller.probe);
        }
        self.spring.put(caller, &self.all, root, blocks);
        Some(result)
    }

    /// Serves a request for `blocks` blocks from one domain, or from as many as it needs.
    #[inline]
    fn serve<T>(
        &self,
        caller: &mut Caller<'_, P>,
        (order, blocks): (Order, u32),
        mut work: impl FnMut(&HeldDomain<'a, P>, &mut P::Probe) -> Option<T>,
    ) -> Result<T, AllocateError> {
        if caller.nested {
            return self.serve_nested(caller, &mut work);
        }
        let served = self.with_own_domain(caller, Some(order), |held, probe| {
            (work(held, probe), blocks)
        });
        match served.ok_or(AllocateError::Busy)? {
            Some(result) => Ok(result),
            None => self.serve_from_all(caller, &mut work),
        }
    }

    // What is not frequent calls `work` indirectly, so that there is one place where it is inlined.

    #[cold]
    #[inline(never)]
    fn serve_nested<T>(
        &self,
        caller: &mut Caller<'_, P>,
        work: Work<'_, 'a, P, T>,
    ) -> Result<T, AllocateError> {
        let served = self.spring.nested(caller, &self.all, |held, probe| {
            // Another domain, or one merged with it, might serve the request; but a CPU that acquires several must
            // wait. The domains are counted while this one is held: the lock of the spring is held, too.
            let is_all = || self.all.is_settled(held.root()) && self.spring.domains() == 1;
            work(held, probe).ok_or_else(is_all)
        });
        let refused = |is_all| {
            if is_all {
                AllocateError::Exhausted
            } else {
                AllocateError::Busy
            }
        };
        served.ok_or(AllocateError::Busy)?.map_err(refused)
    }

    #[cold]
    #[inline(never)]
    fn serve_from_all<T>(
        &self,
        caller: &mut Caller<'_, P>,
        work: Work<'_, 'a, P, T>,
    ) -> Result<T, AllocateError> {
        let mut result = None;
        let enough = |held: &HeldDomain<'a, P>, probe: &mut P::Probe| {
            result = work(held, probe);
            result.is_some()
        };
        let held = self.spring.collect(caller, &self.all, enough);
        let held = held.ok_or(AllocateError::Busy)?;
        if result.is_none() {
            result = work(&held, caller.probe);
        }
        self.spring.put(caller, &self.all, held.root(), 1);
        result.ok_or(AllocateError::Exhausted)
    }

    /// Calls `work` on all free memory as one domain in which everything is coalesced.
    fn with_merged<T>(
        &self,
        caller: &mut Caller<'_, P>,
        work: impl FnOnce(&HeldDomain<'a, P>, &mut P::Probe) -> T,
    ) -> Option<T> {
        let held = self.spring.collect(caller, &self.all, |_, _| false)?;
        let result = work(&held, caller.probe);
        self.spring.put(caller, &self.all, held.root(), 1);
        Some(result)
    }

    /// Calls `work` on a domain, under the lock for operations on ranges and parts of allocations.
    fn with_range_lock<T>(
        &self,
        caller: &mut Caller<'_, P>,
        work: impl FnOnce(&HeldDomain<'a, P>, &mut P::Probe) -> T,
    ) -> Option<T> {
        let nested = caller.nested;
        let guard = if nested {
            Guard::try_lock(self.range_lock, caller.probe)?
        } else {
            Guard::lock(self.range_lock, caller.probe)
        };
        let inner = &mut Caller {
            cpu: caller.cpu,
            probe: guard.probe,
            nested,
            found_held: false,
            class: caller.class,
        };
        self.with_domain(inner, None, |held, probe| (work(held, probe), 1))
    }

    /// Calls `work` on all free memory as one domain, under that lock.
    fn with_range_lock_merged<T>(
        &self,
        caller: &mut Caller<'_, P>,
        work: impl FnOnce(&HeldDomain<'a, P>, &mut P::Probe) -> T,
    ) -> Option<T> {
        let guard = Guard::lock(self.range_lock, caller.probe);
        let inner = &mut Caller {
            cpu: caller.cpu,
            probe: guard.probe,
            nested: false,
            found_held: false,
            class: caller.class,
        };
        self.with_merged(inner, work)
    }

    /// Takes a block of a domain.
    #[inline(always)]
    fn take(&self, held: &HeldDomain<'_, P>, order: Order, probe: &mut P::Probe) -> Option<Frame> {
        let head = Eager.allocate(held, order, probe)?;
        self.all.table.set_tag(head, Tag::allocated(order));
        Some(head)
    }

    /// Claims a block that is tagged as allocated.
    fn claim(&self, head: Frame, tag: Tag) -> Result<(), FreeError> {
        if self.all.table.exchange(head, tag, Tag::INTERIOR) {
            Ok(())
        } else {
            Err(self.all.table.diagnose(head))
        }
    }
}

/// Takes the block that covers a run. Inlined into the rest of a request for a run, it takes 200 instructions more.
#[inline(never)]
fn covering<P: Platform>(
    held: &HeldDomain<'_, P>,
    order: Order,
    probe: &mut P::Probe,
) -> Option<Frame> {
    Eager.allocate(held, order, probe)
}

impl<P: Platform> ZoneLayer<P> for Domains<'_, P> {
    // Without nesting, only a CPU without a place in the spring gets no domain.
    const UNKNOWN_CPUS_ARE_BUSY: bool = true;

    #[inline(always)]
    fn table(&self) -> FrameTable<'_, P> {
        self.all.table
    }

    #[inline(always)]
    fn max_order(&self) -> Order {
        self.all.max_order
    }

    #[inline]
    fn allocate(&self, caller: &mut Caller<'_, P>, order: Order) -> Result<Frame, AllocateError> {
        // As `serve` does, with a closure of its own for the frequent path: one that is called in one place is inlined,
        // and the domain is not passed through memory.
        let mut again =
            |held: &HeldDomain<'_, P>, probe: &mut P::Probe| self.take(held, order, probe);
        if caller.nested {
            return self.serve_nested(caller, &mut again);
        }
        let served = self.with_own_domain(caller, Some(order), |held, probe| {
            (self.take(held, order, probe), 1)
        });
        match served.ok_or(AllocateError::Busy)? {
            Some(head) => Ok(head),
            None => self.serve_from_all(caller, &mut again),
        }
    }

    fn allocate_run(
        &self,
        caller: &mut Caller<'_, P>,
        frames: u32,
    ) -> Result<Frame, AllocateError> {
        let order = Order::covering(frames)
            .filter(|order| *order <= self.all.max_order)
            .ok_or(AllocateError::TooLarge {
                largest: self.all.max_order,
            })?;
        self.serve(caller, (order, 1), |held, probe| {
            let head = covering(held, order, probe)?;
            range::tag_allocated(self.all.table, head, frames);
            let (rest, remnant) = (head.offset(frames), order.frames() - frames);
            range::free_pieces(held, &Eager, rest, remnant, probe);
            Some(head)
        })
    }

    fn allocate_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        order: Order,
        wanted: u32,
        tag: Tag,
        mut sink: impl FnMut(Frame),
    ) -> u32 {
        let served = self.serve(caller, (order, wanted), |held, probe| {
            let parts = (held, &Eager);
            let given = bulk::allocate(
                Hold::Batch,
                &mut LocklessBatch::<P>(probe),
                parts,
                order,
                wanted,
                tag,
                &mut sink,
            );
            (given > 0).then_some(given)
        });
        served.unwrap_or(0)
    }

    #[inline]
    fn free(
        &self,
        caller: &mut Caller<'_, P>,
        head: Frame,
        order: Order,
        tag: Tag,
    ) -> Result<(), FreeError> {
        if self.all.table.tag(head) != tag {
            return Err(self.all.table.diagnose(head));
        }
        self.with_domain(caller, None, |held, probe| {
            let claimed = self.claim(head, tag);
            if claimed.is_ok() {
                Eager.free(held, head, order, probe);
            }
            (claimed, 1)
        })
        .ok_or(FreeError::Busy)?
    }

    #[inline]
    fn free_bulk(
        &self,
        caller: &mut Caller<'_, P>,
        mut source: impl FnMut() -> Option<(Frame, Order, Tag)>,
    ) {
        let mut next = source();
        // A CPU that the system was not set up for has no list, so it has nothing to free here.
        self.with_domain(caller, None, |held, probe| {
            let parts = (held, &Eager);
            let batch = &mut LocklessBatch::<P>(probe);
            let all = 0..u32::MAX;
            let given = bulk::free(Hold::Batch, batch, parts, all, &mut next, source, |_, p| {
                p.record(Event::RacedDoubleFree);
                true
            });
            ((), given)
        });
    }

    fn free_each(
        &self,
        caller: &mut Caller<'_, P>,
        mut source: impl FnMut() -> Option<(Frame, Order)>,
    ) -> Result<(), FreeError> {
        self.with_domain(caller, None, |held, probe| {
            let mut blocks = 0;
            while let Some((head, order)) = source() {
                if let Err(error) = self.claim(head, Tag::allocated(order)) {
                    return (Err(error), blocks);
                }
                Eager.free(held, head, order, probe);
                blocks += 1;
            }
            (Ok(()), blocks)
        })
        .ok_or(FreeError::Busy)?
    }

    fn free_run(
        &self,
        caller: &mut Caller<'_, P>,
        start: Frame,
        frames: u32,
    ) -> Result<(), FreeError> {
        self.with_range_lock(caller, |held, probe| {
            range::free_run(held, &Eager, start, frames, probe)
        })
        .ok_or(FreeError::Busy)?
    }

    fn add(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
        from: Tag,
    ) -> Result<(), RangeError> {
        self.with_range_lock(caller, |held, probe| {
            range::add(held, &Eager, start, frames, from, probe)
        })
        .ok_or(RangeError::Busy)?
    }

    fn withdraw(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
        to: Tag,
    ) -> Result<(), RangeError> {
        self.with_range_lock_merged(caller, |held, probe| {
            range::withdraw(held, &Eager, start, frames, to, probe)
        })
        .ok_or(RangeError::Busy)?
    }

    fn allocate_at(
        &self,
        caller: &mut Caller<'_, P>,
        start: Index,
        frames: u32,
    ) -> Result<Frame, RangeError> {
        self.with_range_lock_merged(caller, |held, probe| {
            range::allocate_at(held, &Eager, start, frames, probe)
        })
        .ok_or(RangeError::Busy)?
    }

    fn settle(&self, caller: &mut Caller<'_, P>) -> bool {
        self.with_merged(caller, |_, _| ());
        true
    }

    fn services(&self) -> &'static [Service] {
        &[Service {
            name: "compress",
            own_thread: false,
        }]
    }

    fn serve(&self, caller: &mut Caller<'_, P>, _: usize, budget: u32) -> Progress {
        let Some(root) = self.spring.take_free(caller, &self.all) else {
            return Progress::Idle;
        };
        let settled = self.all.held(root).settle(budget, caller.probe);
        let more = self.spring.compress(caller, &self.all, root);
        if settled && !more {
            Progress::Idle
        } else {
            Progress::More
        }
    }

    fn snapshot(&self, _: &mut Caller<'_, P>) -> Snapshot {
        let mut blocks = Snapshot::NONE.free_blocks;
        for order in Order::up_to(self.all.max_order) {
            blocks[order.index()] = self.all.blocks_of_all(order);
        }
        Snapshot {
            domains: self.spring.domains(),
            ..Snapshot::of_blocks(blocks)
        }
    }

    fn free_frames(&self) -> u64 {
        let frames =
            |order: Order| u64::from(self.all.blocks_of_all(order)) * u64::from(order.frames());
        Order::up_to(self.all.max_order).map(frames).sum()
    }

    fn inspect(&self, see: &mut dyn FnMut(Detail)) {
        for domain in 0..self.all.records.len() {
            let part = self.all.owner(domain);
            self.all
                .lists(domain)
                .inspect(part, self.all.max_order, see);
        }
        for (cpu, home) in (0..).zip(self.spring.homes.all) {
            let (cpu, part) = (CpuId(cpu), self.all.owner(home.last.peek()));
            see(Detail::Assigned { cpu, part });
        }
    }

    fn check(&self, _: &mut Caller<'_, P>) -> Result<Census, Violation> {
        self.spring.check(&self.all)?;
        crate::check::walk(&AllDomains(self.all), 0..self.all.table.frames())
    }
}
