//! The globally locked spring: which domain is taken, and when idle ones are merged.
//!
//! CPUs that work at the same moment are not modelled.

use std::vec;

use super::programs::run_random_program;
use super::{Rig, order, with_rig_of};
use crate::zone::SpringKind;

fn locked(patience: u32, test: impl FnOnce(&Rig<'_>)) {
    with_rig_of(SpringKind::Locked, 256, 4, patience, test);
}

/// Extends the spring to three domains; returns them, in the order in which they lie on the shelf, the lowest first.
fn three(rig: &Rig<'_>) -> [u32; 3] {
    let first = rig.take(0);
    rig.become_ghost(1, Some(order(0)));
    rig.put(0, first);
    let second = rig.given(1).unwrap();
    assert_eq!(rig.take(0), first);
    rig.become_ghost(2, Some(order(0)));
    rig.put(0, first);
    let third = rig.given(2).unwrap();
    assert_eq!(rig.take(0), first);
    [third, second, first].map(|domain| {
        rig.put(0, domain);
        domain
    })
}

#[test]
fn the_domain_that_was_put_back_last_is_taken_by_whichever_cpu() {
    locked(64, |rig| {
        let [low, middle, top] = three(rig);
        assert_eq!([rig.take(3), rig.take(0), rig.take(3)], [top, middle, low]);
        [top, middle, low]
            .into_iter()
            .for_each(|domain| rig.put(1, domain));
        assert_eq!(rig.take(2), low);
        rig.put(2, low);
        rig.assert_sound();
    });
}

/// One critical section takes a domain, another puts it back; nothing else is acquired.
#[test]
fn a_visit_acquires_the_lock_twice() {
    locked(64, |rig| {
        for visits in 1..20 {
            let domain = rig.take(visits % 4);
            rig.put(visits % 4, domain);
            assert_eq!(rig.counts.borrow().locks, 2 * u64::from(visits));
        }
    });
}

#[test]
fn the_two_lowest_are_merged_after_a_number_of_acquisitions_per_domain() {
    locked(4, |rig| {
        let [low, middle, top] = three(rig);
        let mut visits = 0;
        while rig.merges() == 0 {
            assert_eq!(rig.take(0), top);
            rig.put(0, top);
            rig.assert_sound();
            visits += 1;
            assert!(visits < 100);
        }
        // Acquisitions are counted from the time when the second one was put back, or a little earlier.
        assert!((4 * 3 - 1..=4 * 3 + 3).contains(&visits), "{visits}");
        assert_eq!(rig.roots().len(), 2);
        assert!(rig.roots().contains(&top));
        assert!(rig.roots().contains(&low) || rig.roots().contains(&middle));
        // The merged one lies at the bottom, as old as it was: it joins the domain on top at one of the next visits.
        let mut visits = 0;
        while rig.merges() == 1 {
            assert_eq!(rig.take(0), top);
            rig.put(0, top);
            rig.assert_sound();
            visits += 1;
            assert!(visits <= 4, "{visits}");
        }
        assert_eq!(rig.roots().len(), 1);
        assert_eq!(vec![rig.take(1)], rig.roots());
    });
}

/// A service that merged nothing has more to do while there are domains that may become idle.
#[test]
fn a_service_is_done_when_one_domain_is_left() {
    locked(4, |rig| {
        let step = || {
            let domain = rig.take(0);
            rig.on(0, |caller| rig.spring.compress(caller, &rig.all, domain))
        };
        assert!(!step(), "there is only one domain");
        three(rig);
        let mut steps = 0;
        while rig.roots().len() > 1 {
            assert!(step());
            steps += 1;
            assert!(steps < 100);
        }
        assert!(!step());
    });
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 200, ..Default::default() })]

    #[test]
    fn whatever_is_done_everything_is_in_one_place(
        frames in 1u32..200,
        patience in 1u32..8,
        steps in super::programs::steps(),
    ) {
        run_random_program(SpringKind::Locked, frames, patience, &steps);
    }
}
