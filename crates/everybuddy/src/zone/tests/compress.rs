//! \[Spring\]'s figure 6, step by step; which domains are merged, and when.
//!
//! A domain that CPUs use must stay, however rarely they hold it simultaneously with others; one that no CPU uses must
//! go. Both are tested by counts of visits.
//!
//! CPUs that work at the same moment are not modelled.

use std::vec;
use std::vec::Vec;

use super::super::BLOCKS_PER_LOOK;
use super::{Rig, coalesced, frames_of, with_rig};
use crate::frame::Order;
use crate::platform::SharedCell;
use crate::probe::Counts;

impl Rig<'_> {
    /// Acquires the domain that a CPU had last, moves blocks, and releases it.
    fn visit(&self, cpu: u16, domain: u32, blocks: u32) {
        self.home(cpu).last.set(domain);
        assert_eq!(self.take(cpu), domain);
        self.put_blocks(cpu, domain, blocks);
    }

    /// Lets a CPU visit its domain until domains are merged; returns the number of visits.
    fn visits_until_merge(&self, cpu: u16, blocks: u32) -> u32 {
        let merges = self.merges();
        let mut visits = 0;
        while self.merges() == merges {
            let domain = self.take(cpu);
            self.put_blocks(cpu, domain, blocks);
            self.assert_sound();
            visits += 1;
            assert!(visits < 10_000, "no CPU looked");
        }
        visits
    }

    /// Compares the counts of all domains, as CPU 0 does now and then.
    fn compare(&self) {
        let domain = self.take(0);
        self.on(0, |caller| self.spring.compress(caller, &self.all, domain));
        self.assert_sound();
    }

    /// Extends the spring until it has a number of domains, each split off the one before. Returns them, the first one
    /// first, all released.
    fn extend(&self, domains: usize) -> Vec<u32> {
        let mut held = vec![self.take(0)];
        while held.len() < domains {
            let last = held[held.len() - 1];
            self.become_ghost(1, Some(Order::ZERO));
            self.on(0, |caller| self.spring.put_back(caller, &self.all, last));
            held.push(self.given(1).unwrap());
            assert!(self.all.records.at(last).try_hold());
        }
        for domain in &held {
            self.all.records.at(*domain).release();
        }
        held
    }
}

#[test]
fn figure_6_the_spring_is_compressed() {
    // Every fourth visit looks, times the number of domains. A domain is idle for long after two looks of each kind.
    with_rig(16, 4, 4, |rig| {
        let held = rig.extend(3);
        let idle = [held[1], held[2]];
        let apart: Vec<_> = idle.iter().flat_map(|root| rig.blocks(*root)).collect();
        let of_first = rig.blocks(held[0]);
        // a: CPU 0 alone works on; a domain comes back and triggers the detection.
        let visits = rig.visits_until_merge(0, 1);
        // The first look, at the fourth visit, begins to watch a domain. The next two find it idle. The second of these
        // compares for the first time, and two looks later nothing has changed: four more looks.
        assert_eq!(visits, 4 + 4 * (4 * 3));
        // b, c: two that were idle are found, and merged.
        assert_eq!(rig.merges(), 1);
        let left = rig.roots();
        assert_eq!(left.len(), 2);
        let merged = *left.iter().find(|root| **root != held[0]).unwrap();
        assert!(idle.contains(&merged));
        assert_eq!(
            rig.blocks(held[0]),
            of_first,
            "the looking CPU keeps its own"
        );
        // d: one domain with more blocks of high order.
        let mut free = frames_of(&apart);
        free.sort_unstable();
        assert_eq!(rig.blocks(merged), coalesced(&free, rig.all.max_order));
        assert!(rig.blocks(merged).len() < apart.len());
        // e: it is back in the spring. f: which is compressed.
        assert!(!rig.is_held(merged) && !rig.is_held(held[0]));
        rig.assert_sound();
        // This continues until as many are left as CPUs that work: the last idle one joins the other.
        rig.visits_until_merge(0, 1);
        assert_eq!(rig.roots().len(), 1);
        let domain = rig.take(0);
        let probe = &mut Counts::default();
        assert!(rig.all.held(domain).settle(u32::MAX, probe));
        assert_eq!(rig.blocks(domain), [(4, 0)]);
        rig.put(0, domain);
        rig.assert_sound();
    });
}

/// One that is idle for long joins the domain of the CPU that looks, if all others are in use.
#[test]
fn a_single_idle_domain_joins_another() {
    with_rig(64, 4, 4, |rig| {
        let held = rig.extend(3);
        let mut visits = 0;
        while rig.merges() == 0 {
            for (cpu, domain) in (0..).zip(&held[..2]) {
                rig.visit(cpu, *domain, 1);
            }
            visits += 1;
            assert!(visits < 1000, "no CPU looked");
        }
        assert_eq!(rig.roots().len(), 2);
        assert!(!rig.roots().contains(&held[2]) || rig.all.absorbed(held[2]).count() == 1);
    });
}

#[test]
fn the_two_domains_that_were_idle_for_longest_are_merged() {
    with_rig(256, 4, 4, |rig| {
        // Four idle ones; three of them have been idle since one comparison before the fourth.
        let held = rig.extend(5);
        let (own, old, young) = (held[0], &held[1..4], held[4]);
        rig.home(0).last.set(own);
        rig.home(1).last.set(young);
        rig.compare();
        rig.visit(1, young, 1);
        rig.compare();
        rig.compare();
        // The first comparison that finds any idle for long finds three; two of them become one.
        assert_eq!((rig.roots().len(), rig.merges()), (4, 1));
        assert!(rig.roots().contains(&young));
        // Now the fourth has been idle for long, too, but not for as long as the others.
        rig.compare();
        assert_eq!((rig.roots().len(), rig.merges()), (3, 2));
        let left: Vec<_> = old
            .iter()
            .filter(|root| rig.roots().contains(root))
            .collect();
        assert_eq!(left.len(), 1, "the three old ones are one");
        assert!(rig.all.is_settled(young) && rig.roots().contains(&young));
    });
}

/// Two domains that are idle for long are merged with each other also if one was found idle later, and the CPU that
/// compares keeps its own.
#[test]
fn idle_domains_of_different_ages_are_merged_with_each_other() {
    with_rig(256, 4, 4, |rig| {
        let held = rig.extend(4);
        let (own, young) = (held[0], held[3]);
        rig.home(0).last.set(own);
        rig.home(1).last.set(young);
        rig.compare();
        rig.visit(1, young, 1);
        rig.compare();
        rig.compare();
        // The two that were idle since the first comparison.
        assert_eq!((rig.roots().len(), rig.merges()), (3, 1));
        let of_own = rig.blocks(own);
        rig.compare();
        assert_eq!((rig.roots().len(), rig.merges()), (2, 2));
        assert_eq!(rig.blocks(own), of_own);
    });
}

/// A CPU that watches one domain after the other acquires no lock while all are in use.
#[test]
fn domains_in_use_are_not_merged() {
    for blocks in [1, 31, 512] {
        with_rig(64, 4, BLOCKS_PER_LOOK, |rig| {
            let held = rig.extend(4);
            let locks = rig.counts.borrow().locks;
            for _ in 0..1000 {
                for (cpu, domain) in (0..).zip(&held) {
                    rig.visit(cpu, *domain, blocks);
                }
            }
            assert_eq!((rig.roots().len(), rig.merges()), (4, 0));
            // One exchange for each visit.
            assert_eq!(rig.counts.borrow().locks, locks + 4000);
        });
    }
}

/// Two CPUs that meet now and then, in batches: one extension serves them for ever.
#[test]
fn a_domain_that_was_made_for_a_ghost_outlives_the_meeting() {
    with_rig(256, 4, BLOCKS_PER_LOOK, |rig| {
        let mut ghosts = 0;
        for pair in 0..10_000 {
            let own = rig.take(0);
            match (pair % 10, rig.has_one()) {
                (0, true) => rig.visit(1, rig.home(1).last.get(), 31),
                (0, false) => {
                    ghosts += 1;
                    rig.become_ghost(1, Some(Order::ZERO));
                    rig.put_blocks(0, own, 31);
                    let part = rig.given(1).unwrap();
                    rig.put_blocks(1, part, 31);
                    continue;
                }
                _ => {}
            }
            rig.put_blocks(0, own, 31);
            let other = rig.take(1);
            rig.put_blocks(1, other, 31);
        }
        assert_eq!((ghosts, rig.extensions(), rig.merges()), (1, 1, 0));
    });
}

/// A CPU that stops working: its domain is merged after the others have looked for a while, and not before.
#[test]
fn a_domain_that_no_cpu_uses_any_more_is_merged() {
    with_rig(64, 4, BLOCKS_PER_LOOK, |rig| {
        let held = rig.extend(2);
        rig.visit(1, held[1], 1);
        let visits = rig.visits_until_merge(0, 1);
        assert!(visits > 8 * 2 * BLOCKS_PER_LOOK && visits < 32 * 2 * BLOCKS_PER_LOOK);
        assert_eq!(rig.roots().len(), 1);
    });
}

/// A CPU that finds its domain held, but another one free, has one of its own from then on.
#[test]
fn a_collision_divides_the_domain_that_is_found() {
    with_rig(256, 4, 64, |rig| {
        let held = rig.extend(2);
        rig.home(2).last.set(held[0]);
        assert_eq!(rig.take(0), held[0]);
        let part = rig.take(2);
        assert!(!held.contains(&part) && !rig.is_held(held[1]));
        assert_eq!((rig.roots().len(), rig.extensions()), (3, 2));
        rig.put(2, part);
        rig.put(0, held[0]);
        rig.assert_sound();
        // As many domains as CPUs: the domain that is found is not divided.
        let held = rig.extend(1);
        rig.home(3).last.set(held[0]);
        assert_eq!(rig.take(0), held[0]);
        let fourth = rig.take(3);
        rig.put(3, fourth);
        assert_eq!(rig.roots().len(), 4);
        rig.home(3).last.set(held[0]);
        let other = rig.take(3);
        assert_eq!((rig.roots().len(), rig.extensions()), (4, 3));
        rig.put(3, other);
        rig.put(0, held[0]);
        rig.assert_sound();
    });
}

/// One block of the largest order stays in one piece.
#[test]
fn a_collision_divides_no_domain_that_is_small() {
    with_rig(32, 4, 64, |rig| {
        let held = rig.extend(2);
        assert_eq!(rig.blocks(held[1]).len(), 1);
        rig.home(2).last.set(held[0]);
        assert_eq!(rig.take(0), held[0]);
        assert_eq!(rig.take(2), held[1]);
        assert_eq!((rig.roots().len(), rig.extensions()), (2, 1));
        rig.put(2, held[1]);
        rig.put(0, held[0]);
        rig.assert_sound();
    });
}

/// A CPU whose domain is used up returns to the domain that served it, and does not collect for each request.
#[test]
fn a_cpu_that_collected_returns_to_what_it_collected() {
    with_rig(64, 4, 64, |rig| {
        let held = rig.extend(3);
        let mut found = 0;
        let served = rig.on(1, |caller| {
            rig.spring.collect(caller, &rig.all, |_, _| {
                found += 1;
                found == 2
            })
        });
        let root = served.unwrap().root();
        rig.put(1, root);
        let locks = rig.counts.borrow().locks;
        assert_eq!(rig.take(1), root);
        assert_eq!(rig.counts.borrow().locks, locks + 1);
        rig.put(1, root);
        assert!(rig.roots().len() < held.len());
        rig.assert_sound();
    });
}

/// A service takes only what no CPU holds: it neither divides a domain nor waits.
#[test]
fn a_service_takes_a_domain_that_no_cpu_holds() {
    with_rig(256, 4, 64, |rig| {
        let held = rig.extend(2);
        let take_free = || rig.on(2, |caller| rig.spring.take_free(caller, &rig.all));
        for (cpu, domain) in (0..).zip(&held) {
            rig.home(cpu).last.set(*domain);
            assert_eq!(rig.take(cpu), *domain);
        }
        assert_eq!(take_free(), None);
        assert_eq!((rig.roots().len(), rig.extensions()), (2, 1));
        rig.put(1, held[1]);
        assert_eq!(take_free(), Some(held[1]));
        assert_eq!((rig.roots().len(), rig.extensions()), (2, 1));
        rig.put(2, held[1]);
        rig.put(0, held[0]);
        rig.assert_sound();
    });
}
