//! Magazines: what moves between CPUs in the depot, and that nothing is lost there.
//!
//! Frames in the depot belong to no CPU, so three things must still hold: they are counted, misuse of them is found,
//! and a request that needs them gets them.
//!
//! # Invariants
//! Acquisitions of locks are counted, never timed.

use everybuddy::{
    AllocateError, BuildError, CpuId, FrameRange, FrameState, FreeError, Index, Pfn, Release,
    Request, Setup, SystemSpec,
};
use everybuddy_suite::{Cpu, System, on_cpus, order};

use crate::two_cpus::{RANGES, allocate, free, with};

/// Returns the frames in the depot.
fn stored(system: &System<'_>, cpu: &mut Cpu) -> u64 {
    let own = [0, 1].map(|cpu| system.buffered_frames(CpuId(cpu)));
    system.snapshot(cpu).buffered_frames - own.iter().sum::<u64>()
}

#[test]
fn the_previous_magazine_absorbs_what_alternates_around_a_boundary() {
    with("magazines", |system, first, _| {
        let held = allocate(system, first, 62);
        free(system, first, &held);
        let before = first.probe().counts;
        assert_eq!((before.refills, before.drains), (2, 0));
        assert_eq!(before.frames_refilled, 62);
        // Two magazines full: nothing moves, wherever the boundary is.
        for frames in [1, 30, 31, 32, 61, 62] {
            for _ in 0..3 {
                let held = allocate(system, first, frames);
                free(system, first, &held);
            }
        }
        let after = first.probe().counts;
        assert_eq!(after.refills, 2);
        assert_eq!(after.drains, 0);
        assert_eq!(after.locks, before.locks);
    });
}

#[test]
fn frames_change_cpus_in_the_depot_and_not_through_the_zone() {
    let handover = |name: &str| {
        with(name, |system, first, second| {
            for _ in 0..40 {
                // At most as many as two magazines and the depot hold.
                let frames = allocate(system, first, 62);
                free(system, second, &frames);
            }
        })
    };
    // The same batch in a list moves through the zone.
    let (depot, list) = (handover("magazines"), handover("lbs-31+batch=31+high=62"));
    // Both begin with refills; then whole magazines go round.
    assert!(depot.refills <= 6 && depot.drains == 0, "{depot:?}");
    assert!(list.refills > 70 && list.drains > 70, "{list:?}");
    // An exchange is one acquisition of a lock, like a refill.
    assert!(
        depot.locks < 2 * list.locks,
        "{} of {}",
        depot.locks,
        list.locks
    );
}

#[test]
fn a_full_depot_drains_whole_magazines() {
    with("magazines", |system, first, second| {
        let held = allocate(system, first, 31 * 9);
        free(system, second, &held[..31 * 6]);
        // Two magazines of the CPU, and four in the depot.
        assert_eq!(stored(system, first), 124);
        assert_eq!(second.probe().counts.drains, 0);
        assert_eq!(system.buffered_frames(CpuId(1)), 62);
        free(system, second, &held[31 * 6..31 * 6 + 1]);
        assert_eq!(stored(system, first), 124);
        assert_eq!(second.probe().counts.drains, 1);
        assert_eq!(system.buffered_frames(CpuId(1)), 32);
        free(system, second, &held[31 * 6 + 1..]);
    });
}

#[test]
fn the_depot_has_room_for_two_magazines_of_each_cpu() {
    on_cpus::<3, _>(
        "magazines+batch=4",
        RANGES,
        |system, [first, second, ..]| {
            let held = allocate(system, first, 4 * 8 + 1);
            free(system, second, &held[..4 * 8]);
            assert_eq!(second.probe().counts.drains, 0);
            free(system, second, &held[4 * 8..]);
            assert_eq!(second.probe().counts.drains, 1);
        },
    );
}

#[test]
fn misuse_of_a_frame_in_the_depot_is_refused_and_changes_nothing() {
    with("magazines", |system, first, second| {
        let held = allocate(system, first, 31 * 4);
        free(system, second, &held[..31 * 3]);
        assert_eq!(stored(system, first), 31);
        let frame = held[0];
        assert!(matches!(
            system.frame_state(frame),
            Some(FrameState::Buffered { .. })
        ));
        for cpu in [&mut *first, &mut *second] {
            let twice = system.free(cpu, Release::frame(frame));
            assert_eq!(twice, Err(FreeError::NotAllocated));
        }
        // A free that misses the full list is refused before a magazine moves.
        let twice = system.free(second, Release::frame(held[40]));
        assert_eq!(twice, Err(FreeError::NotAllocated));
        assert_eq!(system.buffered_frames(CpuId(1)), 62);
        assert_eq!(stored(system, first), 31);
        system.check(first).unwrap();
        // The frame is handed out once, to whichever CPU empties the depot.
        let again = allocate(system, first, 31);
        assert_eq!(again.iter().filter(|own| **own == frame).count(), 1);
        free(system, first, &again);
        free(system, second, &held[31 * 3..]);
    });
}

#[test]
fn a_request_fails_only_if_the_depot_is_empty_too() {
    let ranges = &[FrameRange::new(Pfn(0), 64)];
    on_cpus(
        "magazines+batch=4+order=2",
        ranges,
        |system, [first, second]| {
            let held = allocate(system, first, 64);
            system.park(first);
            assert_eq!(
                system.allocate(second, Request::FRAME),
                Err(AllocateError::Exhausted)
            );
            free(system, second, &held[..24]);
            assert!(stored(system, first) > 0);
            system.park(second);
            // Single frames, and blocks that are made of what the depot and both CPUs have.
            let single = system.allocate(first, Request::FRAME).unwrap();
            system.free(first, Release::frame(single)).unwrap();
            let blocks: Vec<_> =
                std::iter::from_fn(|| system.allocate(first, Request::order(order(2))).ok())
                    .collect();
            assert_eq!(blocks.len(), 6);
            assert_eq!(stored(system, first), 0);
        },
    );
}

#[test]
fn a_drain_of_one_list_empties_the_depot() {
    with("magazines", |system, first, second| {
        let held = allocate(system, first, 31 * 4);
        free(system, second, &held);
        assert_eq!(stored(system, first), 62);
        system.drain(first);
        assert_eq!(stored(system, first), 0);
        assert_eq!(
            system.snapshot(first).buffered_frames,
            system.buffered_frames(CpuId(1))
        );
    });
}

#[test]
fn more_cpus_than_records_can_name_magazines_are_refused() {
    let spec: SystemSpec = "magazines".parse().unwrap();
    let parameters = |cpus| {
        spec.parameters(&Setup::new(RANGES, cpus))
            .map(|own| own.batch())
    };
    assert_eq!(parameters(16_383), Ok(Some(31)));
    assert_eq!(
        parameters(16_384),
        Err(BuildError::BadCpuCount { most: 16_383 })
    );
}

#[test]
fn a_refill_is_allocated_in_the_order_of_the_zone() {
    with("magazines", |system, first, _| {
        let held = allocate(system, first, 31);
        assert_eq!(first.probe().counts.refills, 1);
        let is_next = |pair: &[Index]| pair[1].0 == pair[0].0 + 1;
        assert!(held.windows(2).all(is_next), "{held:?}");
        free(system, first, &held);
    });
}
