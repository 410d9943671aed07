//! What a CPU takes that finds its domain held.
//!
//! A CPU must not take another CPU's domain while one is unused: its owner would be the next to find its own held.
//!
//! # Invariants
//! As `spring`: one thread makes each step separately.

use std::vec::Vec;

use super::{CPUS, Rig, with_rig};
use crate::frame::Order;
use crate::platform::SharedCell;

/// Gives the first CPUs a domain each, and puts them back. The other CPUs return to the domain of CPU 0.
fn spread(rig: &Rig<'_>, cpus: u16) {
    rig.divide(0, 1);
    // CPUs return to the first domain at first, and find it held.
    let held: Vec<_> = core::iter::once(0).chain(2..cpus).collect();
    let held: Vec<_> = held.iter().map(|cpu| (*cpu, rig.take(*cpu))).collect();
    held.iter().for_each(|(cpu, domain)| rig.put(*cpu, *domain));
    assert_eq!(rig.roots().len(), usize::from(cpus));
}

/// Returns which CPU returns to which domain, as far as the spring knows, by CPU.
fn homes(rig: &Rig<'_>) -> Vec<(u32, u32)> {
    let places = 0..rig.spring.head.live.get();
    let roots = places.map(|at| rig.spring.roots.at(at));
    let mut homes: Vec<_> = roots
        .map(|root| (root.home.get(), root.domain.get()))
        .collect();
    homes.sort_unstable();
    homes
}

/// A CPU that finds its domain held takes the one to which no CPU returns, and no other CPU loses its own.
#[test]
fn a_cpu_that_collides_takes_what_no_cpu_returns_to() {
    with_rig(256, 2, u32::MAX, |rig| {
        spread(rig, CPUS);
        let last = || [0, 1, 2, 3].map(|cpu| rig.home(cpu).last.get());
        let own = last();
        for (cpu, holder) in (0..CPUS).flat_map(|cpu| (0..CPUS).map(move |other| (cpu, other))) {
            if cpu == holder {
                continue;
            }
            let held = rig.take(holder);
            rig.home(cpu).last.set(held);
            let taken = rig.take(cpu);
            assert_eq!(
                taken,
                own[usize::from(cpu)],
                "CPU {cpu}, and CPU {holder} holds"
            );
            rig.put(cpu, taken);
            rig.put(holder, held);
            assert_eq!(last(), own);
        }
        assert_eq!(rig.extensions(), 3);
        assert_eq!(homes(rig), (0..).zip(own).collect::<Vec<_>>());
        rig.assert_sound();
    });
}

/// If there are fewer domains than CPUs, a CPU that finds its domain held divides one that is large enough, although
/// it finds a smaller one first.
#[test]
fn a_cpu_that_collides_divides_a_large_domain() {
    for empty in [1, 2] {
        with_rig(256, 2, u32::MAX, |rig| {
            spread(rig, 3);
            let held = rig.take(0);
            assert_eq!(rig.home(3).last.get(), held);
            let small = rig.take(empty);
            while rig.allocate(small, Order::ZERO).is_some() {}
            rig.put(empty, small);
            let taken = rig.take(3);
            assert_eq!(rig.extensions(), 3, "the domain of CPU {empty} is empty");
            // The search has found out who returns where, except to the new part.
            let known = homes(rig)
                .into_iter()
                .filter(|(_, domain)| *domain != taken);
            let own = (0..3).map(|cpu| (u32::from(cpu), rig.home(cpu).last.get()));
            assert_eq!(known.collect::<Vec<_>>(), own.collect::<Vec<_>>());
            assert_eq!(rig.roots().len(), 4);
            assert!(!rig.blocks(taken).is_empty());
            rig.put(3, taken);
            rig.put(0, held);
            rig.assert_sound();
        });
    }
}
