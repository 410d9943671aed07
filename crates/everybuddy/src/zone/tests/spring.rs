//! \[Spring\]'s figure 5, step by step; which parts are split off and merged.
//!
//! On one thread each step of an extension or a compression can be made separately, and everything checked after it.
//!
//! # Invariants
//! A CPU waits here only by entering the queue; the tests check that it is served. CPUs that work at the same moment
//! are not modelled; see `tests/domains.rs` here and in `everybuddy-model`.

#[path = "collide.rs"]
mod collide;
#[path = "compress.rs"]
mod compress;
#[path = "locked.rs"]
mod locked;
#[path = "programs.rs"]
mod programs;

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::{Caller, Home, NO_ORDER, Spring, WAITING};
use crate::Native;
use crate::arena::{Arena, ArenaPlan};
use crate::coalesce::{Coalesce, Eager};
use crate::frame::{Index, Order};
use crate::frame_table::{Frame, FrameTable, Record, Tag};
use crate::lock::{Guard, Locks};
use crate::platform::{AtomicWord, CpuId, Ordering, Platform, SharedCell, Spin};
use crate::probe::Counts;
use crate::structure::Structure;
use crate::structure::domain_tags::DomainTags;
use crate::testing::order;
use crate::wrapping_slice::WrappingSlice;
use crate::zone::SpringKind;
use crate::zone::domain::{AllDomains, DomainRecord, DomainTable, HeldDomain};
use crate::zone::range;

type Machine = Native<Spin, Counts>;

const DOMAINS: u32 = 8;
const CPUS: u16 = 4;

/// A block: its order and its first frame.
type Piece = (u8, u32);

/// A spring and its domains; on this thread.
struct Rig<'a> {
    all: DomainTable<'a, Machine>,
    spring: Spring<'a, Machine>,
    counts: RefCell<Counts>,
}

/// Creates one domain of `frames` frames.
fn with_rig<R>(frames: u32, largest: u8, patience: u32, test: impl FnOnce(&Rig<'_>) -> R) -> R {
    with_rig_of(SpringKind::Own, frames, largest, patience, test)
}

/// The same, with a spring of any kind.
fn with_rig_of<R>(
    kind: SpringKind,
    frames: u32,
    largest: u8,
    patience: u32,
    test: impl FnOnce(&Rig<'_>) -> R,
) -> R {
    let max_order = order(largest);
    let words = frames.next_multiple_of(max_order.frames()) as usize;
    let plan = ArenaPlan::default()
        .slice::<Record<Machine>>(frames as usize)
        .slice::<<Machine as Platform>::Cell<u16>>(words)
        .slice::<DomainRecord<Machine>>(DOMAINS as usize);
    let plan = Spring::<Machine>::plan(plan, DOMAINS, CPUS, kind);
    let mut memory = vec![MaybeUninit::uninit(); plan.bytes().unwrap() + crate::LINE];
    let mut arena = Arena::new(crate::arena::Memory::new(&mut memory));
    let frame_records = arena.slice("record", frames as usize, |_| Record::new(Tag::INTERIOR));
    let words = arena.slice("word", words, |_| DomainTags::<Machine>::clear_word());
    let records = arena.slice("domain", DOMAINS as usize, |domain| {
        DomainRecord::new(domain as u32)
    });
    let rig = Rig {
        all: DomainTable {
            table: FrameTable::new(frame_records.unwrap()),
            tags: DomainTags::new(words.unwrap()),
            records: WrappingSlice::new(records.unwrap()),
            max_order,
        },
        spring: Spring::new(&mut arena, DOMAINS, CPUS, Locks::Spin, (patience, kind)).unwrap(),
        counts: RefCell::default(),
    };
    let first = rig.all.table.frame(Index(0)).unwrap();
    let probe = &mut Counts::default();
    range::adopt_pieces(&rig.all.held(0), &Eager, first, frames, probe);
    test(&rig)
}

impl<'a> Rig<'a> {
    /// Does something as a CPU.
    fn on<R>(&self, cpu: u16, work: impl FnOnce(&mut Caller<'_, Machine>) -> R) -> R {
        let probe = &mut *self.counts.borrow_mut();
        let (cpu, nested) = (CpuId(cpu), false);
        work(&mut Caller {
            cpu,
            probe,
            nested,
            found_held: false,
            class: crate::Class::Unmovable,
        })
    }

    fn extensions(&self) -> u64 {
        self.counts.borrow().extensions
    }

    fn merges(&self) -> u64 {
        self.counts.borrow().merges
    }

    fn is_held(&self, domain: u32) -> bool {
        self.all.records.at(domain).is_held()
    }

    /// Returns `true` if a domain lies in the spring.
    fn has_one(&self) -> bool {
        self.spring.roots().any(|root| !self.is_held(root))
    }

    fn roots(&self) -> Vec<u32> {
        let mut roots: Vec<_> = self.spring.roots().collect();
        roots.sort_unstable();
        roots
    }

    /// Takes a domain that lies in the spring.
    fn take(&self, cpu: u16) -> u32 {
        assert!(self.has_one());
        self.on(cpu, |caller| self.spring.take(caller, &self.all, None))
            .unwrap()
    }

    fn put(&self, cpu: u16, domain: u32) {
        self.on(cpu, |caller| self.spring.put(caller, &self.all, domain, 1));
    }

    fn put_blocks(&self, cpu: u16, domain: u32, blocks: u32) {
        self.on(cpu, |caller| {
            self.spring.put(caller, &self.all, domain, blocks);
        });
    }

    fn home(&self, cpu: u16) -> &Home<Machine> {
        &self.spring.homes.all[usize::from(cpu)]
    }

    /// Finds every domain held, and enters the queue.
    fn become_ghost(&self, cpu: u16, wants: Option<Order>) {
        let ghost = &self.spring.ghosts[usize::from(cpu)];
        let probe = &mut Counts::default();
        let _guard = Guard::lock(&self.spring.head.lock, probe);
        assert_eq!(self.spring.find(&self.all, u32::from(cpu)), None);
        let wants = wants.map_or(NO_ORDER, |order| u32::from(order.get()));
        ghost.wants.set(wants);
        self.spring.queue(u32::from(cpu), ghost);
    }

    /// Returns the domain that a ghost was given, if it was.
    fn given(&self, cpu: u16) -> Option<u32> {
        let ghost = &self.spring.ghosts[usize::from(cpu)];
        if ghost.given.load(Ordering::Relaxed) == WAITING {
            return None;
        }
        let domain = self.on(cpu, |caller| self.spring.wait(caller, &self.all, ghost));
        if let Some(home) = self.spring.homes.all.get(usize::from(cpu)) {
            home.last.set(domain);
        }
        Some(domain)
    }

    fn allocate(&self, root: u32, order: Order) -> Option<Frame> {
        let probe = &mut Counts::default();
        let head = Eager.allocate(&self.all.held(root), order, probe)?;
        self.all.table.set_tag(head, Tag::allocated(order));
        Some(head)
    }

    fn free(&self, root: u32, head: Frame, order: Order) {
        let allocated = Tag::allocated(order);
        assert!(self.all.table.exchange(head, allocated, Tag::INTERIOR));
        let probe = &mut Counts::default();
        Eager.free(&self.all.held(root), head, order, probe);
    }

    /// Splits a part off a domain, and releases both into the spring.
    fn divide(&self, cpu: u16, other: u16) {
        let own = self.take(cpu);
        self.become_ghost(other, Some(Order::ZERO));
        self.put(cpu, own);
        let part = self.given(other).unwrap();
        assert_ne!(own, part);
        self.put(other, part);
    }

    /// Returns the blocks of a number's lists, as they lie in them, the smallest first.
    fn list(&self, domain: u32) -> Vec<Piece> {
        let lists = self.all.lists(domain);
        let orders = Order::up_to(self.all.max_order);
        let pieces = orders.flat_map(|order| {
            let heads: Vec<_> = lists.iter(order).collect();
            heads
                .into_iter()
                .map(move |head| (order.get(), head.index().0))
        });
        pieces.collect()
    }

    /// Returns the blocks of a domain.
    fn blocks(&self, root: u32) -> Vec<Piece> {
        let domains = core::iter::once(root).chain(self.all.absorbed(root));
        let mut blocks: Vec<_> = domains.flat_map(|domain| self.list(domain)).collect();
        blocks.sort_unstable();
        blocks
    }

    /// Checks everything that must hold while CPUs hold domains or wait.
    fn assert_sound(&self) {
        let frames = self.all.table.frames();
        let census = crate::check::walk(&AllDomains(self.all), 0..frames).unwrap();
        assert_eq!(census.free + census.allocated, u64::from(frames));
        let waiting = self.spring.notice.waiting.load(Ordering::Relaxed) != 0;
        if !waiting && !self.spring.roots().any(|root| self.is_held(root)) {
            return self.spring.check(&self.all).unwrap();
        }
        for root in self.spring.roots() {
            Structure::check(&self.all.held(root)).unwrap();
        }
    }
}

/// Returns the frames of blocks.
fn frames_of(blocks: &[Piece]) -> Vec<u32> {
    let frames = blocks
        .iter()
        .flat_map(|(order, start)| *start..*start + (1 << *order));
    let mut frames: Vec<_> = frames.collect();
    frames.sort_unstable();
    frames
}

/// Returns the blocks of a standard buddy in which these frames are free, by the definition.
fn coalesced(free: &[u32], largest: Order) -> Vec<Piece> {
    let mut free = free.to_vec();
    let mut blocks = Vec::new();
    for order in Order::up_to(largest).rev() {
        let mut at = 0;
        while at < free.len() {
            let (start, count) = (free[at], order.frames());
            let last = at + count as usize - 1;
            // Sorted and without repetition: this number of frames within a block of that size is all of them.
            if start.is_multiple_of(count) && free.get(last) == Some(&(start + count - 1)) {
                free.drain(at..=last);
                blocks.push((order.get(), start));
            } else {
                at += 1;
            }
        }
    }
    blocks.sort_unstable();
    blocks
}

#[test]
fn figure_5_the_spring_is_extended() {
    with_rig(16, 4, 64, |rig| {
        // a: the only domain is used by CPU 0.
        assert_eq!(rig.roots(), [0]);
        let domain = rig.take(0);
        let first = rig.allocate(domain, Order::ZERO).unwrap();
        // b: CPU 1 asks, and no domain is left.
        assert!(!rig.has_one());
        // c: a ghost is created, and CPU 1 waits.
        rig.become_ghost(1, Some(Order::ZERO));
        assert_eq!(rig.given(1), None);
        assert_eq!((rig.roots(), rig.extensions()), (vec![0], 0));
        // d: CPU 0 puts its domain back, finds the ghost, and passes a part.
        let before = frames_of(&rig.blocks(domain));
        rig.put(0, domain);
        assert_eq!(rig.extensions(), 1);
        // e: the ghost is a domain now, and serves CPU 1.
        let part = rig.given(1).unwrap();
        assert_ne!(part, domain);
        assert!(rig.is_held(part));
        let (passed, rest) = (rig.blocks(part), rig.blocks(domain));
        assert!(!passed.is_empty() && !rest.is_empty());
        let mut both = [frames_of(&passed), frames_of(&rest)].concat();
        both.sort_unstable();
        assert_eq!(both, before, "what is passed is no longer in the other");
        let second = rig.allocate(part, Order::ZERO).unwrap();
        assert!(passed.iter().any(|(order, start)| {
            (*start..*start + (1 << *order)).contains(&second.index().0)
        }));
        // f: the rest is back in the spring.
        assert!(!rig.is_held(domain));
        assert_eq!(rig.roots().len(), 2);
        // g: so is CPU 1's.
        rig.put(1, part);
        rig.assert_sound();
        // From now on both can be held simultaneously, and nothing is split.
        let held = [rig.take(0), rig.take(1)];
        assert_eq!(held, [domain, part], "each CPU gets what it had last");
        rig.free(held[1], first, Order::ZERO);
        rig.free(held[0], second, Order::ZERO);
        rig.put(0, held[0]);
        rig.put(1, held[1]);
        rig.assert_sound();
        assert_eq!((rig.extensions(), rig.merges()), (1, 0));
    });
}

#[test]
fn a_second_ghost_gets_all_the_rest() {
    with_rig(16, 4, 64, |rig| {
        let domain = rig.take(0);
        rig.become_ghost(1, None);
        rig.become_ghost(2, None);
        rig.become_ghost(3, None);
        rig.put(0, domain);
        let part = rig.given(1).unwrap();
        assert_eq!(rig.given(2), Some(domain));
        assert_eq!(rig.given(3), None);
        assert_eq!(rig.extensions(), 1);
        // The CPU that received a part serves the next ghost.
        rig.put(1, part);
        let third = rig.given(3).unwrap();
        assert_eq!((rig.extensions(), rig.roots().len()), (2, 3));
        rig.put(2, domain);
        rig.put(3, third);
        rig.assert_sound();
    });
}

/// A ghost that finds a domain by itself leaves the queue, wherever it is in it; the others keep their turns.
#[test]
fn a_ghost_leaves_the_queue_from_any_place() {
    for leaver in 1..4 {
        with_rig(64, 4, 64, |rig| {
            let domain = rig.take(0);
            (1..4).for_each(|cpu| rig.become_ghost(cpu, None));
            let ghost = &rig.spring.ghosts[usize::from(leaver)];
            let probe = &mut Counts::default();
            let guard = Guard::lock(&rig.spring.head.lock, probe);
            // As if a CPU that sees no ghost yet released the domain.
            rig.all.records.at(domain).release();
            let found = rig.spring.find_for(&rig.all, u32::from(leaver), ghost);
            drop(guard);
            assert_eq!(found, Some(domain));
            assert_eq!(rig.given(leaver), None);
            // It may queue up again, and is the last then.
            rig.put(leaver, domain);
            let mut others: Vec<_> = (1..4).filter(|cpu| *cpu != leaver).collect();
            let last = others.pop().unwrap();
            let part = rig.given(others[0]).unwrap();
            assert_eq!(
                rig.given(last),
                Some(domain),
                "the second gets all the rest"
            );
            rig.become_ghost(leaver, None);
            rig.put(others[0], part);
            assert!(rig.given(leaver).is_some());
            let own = rig.home(leaver).last.get();
            rig.put(last, domain);
            rig.put(leaver, own);
            rig.assert_sound();
        });
    }
}

/// Holds the domain 0, of which a random part is allocated.
fn crumble(rig: &Rig<'_>, steps: &[(u8, bool)]) -> u32 {
    let root = rig.take(0);
    let mut held = Vec::new();
    for (size, keep) in steps {
        let size = order(*size);
        if let Some(head) = rig.allocate(root, size) {
            held.push((head, size, *keep));
        }
    }
    for (head, size, _) in held.into_iter().filter(|(_, _, keep)| !keep) {
        rig.free(root, head, size);
    }
    root
}

fn crumbs() -> impl Strategy<Value = Vec<(u8, bool)>> {
    prop::collection::vec((0u8..4, any::<bool>()), 0..300)
}

fn wants() -> impl Strategy<Value = Option<u8>> {
    prop::option::weighted(0.8, 0u8..=5)
}

/// Checks which part a domain of one record splits off: see [`HeldDomain::split_off`].
fn passes(rig: &Rig<'_>, root: u32, wants: Option<u8>) {
    let before = rig.list(root);
    let fresh = rig.spring.occupy().unwrap();
    let part = rig.all.held(root).split_off(fresh, wants.map(order));
    let rest = rig.list(root);
    let least = wants.unwrap_or(0);
    let reach = before.iter().map(|piece| piece.0).max();
    let Some(part) = part else {
        assert_eq!(rest, before, "nothing has changed");
        let divisible = before.len() >= 2 || reach > Some(least);
        assert!(wants.is_some() && (reach < Some(least) || !divisible));
        rig.spring.vacate(fresh);
        return;
    };
    assert_eq!(part, fresh);
    let passed = rig.list(part);
    // Nothing lost, nothing twice.
    let mut both = [frames_of(&passed), frames_of(&rest)].concat();
    both.sort_unstable();
    let mut all = frames_of(&before);
    all.sort_unstable();
    assert_eq!(both, all);
    // Both can go on.
    if wants.is_some() {
        assert!(passed.iter().any(|piece| piece.0 >= least));
        assert!(!rest.is_empty());
    }
    // Blocks stay whole, but one at most, if no other could serve.
    let broken: Vec<_> = before
        .iter()
        .filter(|piece| !passed.contains(piece) && !rest.contains(piece))
        .collect();
    assert!(broken.len() <= 1);
    if let [broken] = broken[..] {
        let serving = before.iter().filter(|piece| piece.0 >= least);
        assert!(serving.count() == 1 && broken.0 > least);
    }
    // Half of the blocks of each order, the largest first, as many as a bounded time allows.
    let count = |pieces: &[Piece], size: u8| pieces.iter().filter(|piece| piece.0 == size).count();
    let mut left = 64;
    let mut more = 0;
    for size in (0..=rig.all.max_order.get()).rev() {
        let share = (count(&before, size) / 2).min(left);
        left -= share;
        more += count(&passed, size)
            .checked_sub(share)
            .expect("at least its share");
    }
    assert!(more <= 1, "and one more, if none of these served");
    rig.spring.enlist(part);
    rig.all.records.at(part).release();
}

#[test]
fn a_domain_keeps_its_only_block_if_no_half_of_it_would_serve() {
    for (frames, wants, parts) in [(1, 0, None), (2, 1, None), (2, 0, Some(vec![(0, 1)]))] {
        with_rig(frames, 4, 64, |rig| {
            let root = rig.take(0);
            let fresh = rig.spring.occupy().unwrap();
            let part = rig.all.held(root).split_off(fresh, Some(order(wants)));
            assert_eq!(part.map(|part| rig.list(part)), parts, "{frames} frames");
        });
    }
}

#[test]
fn the_domain_with_fewer_blocks_becomes_a_part_of_the_other() {
    for small_first in [false, true] {
        with_rig(64, 4, 64, |rig| {
            rig.divide(0, 1);
            let [large, small] = [rig.take(0), rig.take(1)];
            rig.allocate(small, order(4)).unwrap();
            assert_eq!((rig.list(large).len(), rig.list(small).len()), (2, 1));
            let [large_domain, small_domain] = [large, small].map(|root| rig.all.held(root));
            let probe = &mut Counts::default();
            let merged = if small_first {
                small_domain.merge(large_domain, probe)
            } else {
                large_domain.merge(small_domain, probe)
            };
            assert_eq!(merged.root(), large);
        });
    }
}

proptest! {
    #[test]
    fn a_part_serves_who_waits_and_leaves_a_rest(
        frames in 1u32..600,
        steps in crumbs(),
        wants in wants(),
    ) {
        with_rig(frames, 5, 64, |rig| {
            let root = crumble(rig, &steps);
            passes(rig, root, wants);
            rig.put(0, root);
            rig.assert_sound();
        });
    }

    #[test]
    fn what_was_merged_last_is_passed_back_untouched(
        frames in 64u32..300,
        steps in crumbs(),
        wants in wants(),
    ) {
        with_rig(frames, 5, u32::MAX, |rig| {
            let root = crumble(rig, &steps);
            rig.put(0, root);
            rig.divide(0, 1);
            let held = [rig.take(0), rig.take(1)];
            let lists = held.map(|domain| rig.list(domain));
            let probe = &mut Counts::default();
            let [one, other] = held.map(|domain| rig.all.held(domain));
            let guard = Guard::lock(&rig.spring.head.lock, probe);
            let merged = rig.spring.merge(&rig.all, (one.root(), other.root()), guard);
            // The one with more blocks keeps its number; no block moved.
            let small = usize::from(merged.root() == held[0]);
            assert!(lists[small].len() <= lists[1 - small].len());
            let mut all = [frames_of(&lists[0]), frames_of(&lists[1])].concat();
            all.sort_unstable();
            let mut now = frames_of(&rig.blocks(merged.root()));
            now.sort_unstable();
            assert_eq!(now, all);
            assert_eq!(held.map(|domain| rig.list(domain)), lists);
            let fresh = rig.spring.occupy().unwrap();
            let serves = |blocks: &[Piece]| blocks.iter().any(|piece| wants.is_none_or(|wants| piece.0 >= wants));
            let part = merged.split_off(fresh, wants.map(order));
            if wants.is_none() || serves(&lists[small]) {
                assert_eq!(part, Some(held[small]));
                assert_eq!(held.map(|domain| rig.list(domain)), lists);
                assert!(rig.all.is_settled(merged.root()));
                assert_eq!(rig.all.reusable(merged.root()).collect::<Vec<_>>(), [fresh]);
            } else if part.is_none() {
                rig.spring.vacate(fresh);
            }
            if let Some(part) = part {
                rig.spring.enlist(part);
                rig.all.records.at(part).release();
            }
            rig.put(0, merged.root());
            rig.assert_sound();
        });
    }

    #[test]
    fn settled_is_coalesced_block_for_block(
        frames in 64u32..300,
        steps in crumbs(),
        parts in 1usize..4,
        budget in 1u32..20,
    ) {
        with_rig(frames, 5, u32::MAX, |rig| {
            let root = crumble(rig, &steps);
            let free = frames_of(&rig.blocks(root));
            rig.put(0, root);
            // Parts of parts, each CPU holding its own.
            let mut held = vec![rig.take(0)];
            for cpu in 1..=parts {
                rig.become_ghost(cpu as u16, None);
                let from = held[cpu - 1];
                rig.put(cpu as u16 - 1, from);
                held.push(rig.given(cpu as u16).unwrap());
                let again = rig.take(cpu as u16 - 1);
                assert_eq!(again, from);
            }
            let probe = &mut Counts::default();
            let mut merged: Option<HeldDomain<'_, Machine>> = None;
            for domain in held {
                merged = Some(match merged {
                    Some(merged) => {
                        let guard = Guard::lock(&rig.spring.head.lock, probe);
                        rig.spring.merge(&rig.all, (merged.root(), domain), guard)
                    }
                    None => rig.all.held(domain),
                });
            }
            let merged = merged.unwrap();
            let mut now = frames_of(&rig.blocks(merged.root()));
            now.sort_unstable();
            assert_eq!(&now, &free);
            // A few at a time, each of which moves.
            let mut steps = 0;
            while !merged.settle(budget, probe) {
                steps += 1;
                let mut now = frames_of(&rig.blocks(merged.root()));
                now.sort_unstable();
                assert_eq!(&now, &free);
                assert!(steps <= frames / budget + 1);
            }
            assert!(rig.all.is_settled(merged.root()));
            assert_eq!(rig.blocks(merged.root()), coalesced(&free, rig.all.max_order));
            rig.put(0, merged.root());
            rig.assert_sound();
        });
    }
}
