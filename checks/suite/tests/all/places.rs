//! Requests for certain frames, while lists cache frames and other CPUs work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everybuddy::platform::NativeCpus;
use everybuddy::{
    AllocateError, Colours, CpuId, CpuToken, Event, Flags, FrameAllocator, FrameRange, FreeError,
    Index, Nodes, Pfn, Place, Release, Request, Setup, Visit, Zone,
};
use everybuddy_suite::{Cpu, allocate_frames, claim, free_frames, on, on_cpus, order};

/// Rounds of two CPUs against each other: a few seconds.
const ROUNDS: u32 = 300_000;

type System<'s> = dyn FrameAllocator<everybuddy_suite::Machine> + 's;

/// Calls `body` on CPU 0, while the list of CPU 1, which neither parks nor calls again, caches frames.
fn beside_a_silent_cpu(body: impl Fn(&System<'_>, &mut Cpu)) {
    let ranges = [FrameRange::new(Pfn(0), 512)];
    for spec in [
        "lbs-31+batch=31+high=186",
        "linux-6",
        "spring-fixlazy-186",
        "pcp-buddy+order=3",
    ] {
        on(spec, &Setup::new(&ranges, 2), |system| {
            let cpus = NativeCpus::new(2);
            let mut silent = claim(&cpus, 1);
            let held: Vec<_> = allocate_frames(system, &mut silent, 40);
            // Every second frame is free in the zone, and the others are in the list.
            for frame in held {
                match frame.0 % 2 {
                    0 => system.free_nested(CpuId(0), Release::frame(frame)).unwrap(),
                    _ => system.free(&mut silent, Release::frame(frame)).unwrap(),
                }
            }
            assert!(system.buffered_frames(CpuId(1)) > 0, "{spec}");
            let mut cpu = claim(&cpus, 0);
            body(system, &mut cpu);
            assert_eq!(
                cpu.probe().counts.reclaims,
                0,
                "{spec}: no list was drained"
            );
        });
    }
}

#[test]
fn a_visit_of_free_blocks_drains_no_list() {
    beside_a_silent_cpu(|system, cpu| {
        let kept = system.visit_free(cpu, order(2), &mut |_| Visit::Keep);
        assert!(kept > 0);
    });
}

#[test]
fn a_request_for_a_place_that_does_not_wait_drains_no_list() {
    beside_a_silent_cpu(|system, cpu| {
        // Of the whole blocks only the last one stays free, which is not in the place.
        let mut blocks = Vec::new();
        system.visit_free(cpu, order(2), &mut |block| {
            blocks.push(block);
            Visit::Keep
        });
        let last = blocks.pop().unwrap();
        system.free_nested(CpuId(0), Release::block(last)).unwrap();
        let request = Request::frames(4).with_flags(Flags::NO_WAIT);
        let place = Place::ANYWHERE.below(Pfn(last.start.0.into()));
        assert_eq!(
            system.allocate_in(cpu, request, &place),
            Err(AllocateError::Busy)
        );
    });
}

/// Frames 0 and 1 wait in a queue, and are the only pair below frame 8. The search sees them there, tries the frames 6
/// and 7, of which one is in use, and thereby empties the queue. Outside of the place, 14 and 15 are free.
fn with_a_pair_in_a_queue(system: &System<'_>, cpu: &mut Cpu) {
    let frames = system.allocate_bulk(cpu, Request::FRAME, &mut [Index(0); 16]);
    assert_eq!(frames, Ok(16));
    let mut free = |range: std::ops::RangeInclusive<u32>| {
        range.for_each(|frame| system.free(cpu, Release::frame(Index(frame))).unwrap());
    };
    free(6..=6);
    free(14..=15);
    system.quiesce(cpu).unwrap();
    (0..=1).for_each(|frame| system.free(cpu, Release::frame(Index(frame))).unwrap());
    let waiting = system.snapshot(cpu).buffered_frames;
    assert_eq!(waiting, 2);
}

#[test]
fn a_search_that_empties_the_queues_does_not_make_memory_exhausted() {
    let ranges = [FrameRange::new(Pfn(0), 16)];
    let place = Place::ANYWHERE.below(Pfn(8));
    let pair = Request::frames(2);
    on_cpus("serewa", &ranges, |system, [cpu]| {
        with_a_pair_in_a_queue(system, cpu);
        let hasty = pair.with_flags(Flags::NO_WAIT);
        let answer = system.allocate_in(cpu, hasty, &place);
        assert_eq!(answer, Err(AllocateError::Busy));
        assert_eq!(system.allocate_in(cpu, hasty, &place), Ok(Index(0)));
    });
    // `Nodes` asks each zone without waiting first.
    on("serewa", &Setup::new(&ranges, 1), |system| {
        let zones = [Zone::new(0, system)];
        let nodes = Nodes::new(&zones, &[], &[]).unwrap();
        let cpu = &mut claim(&NativeCpus::new(1), 0);
        with_a_pair_in_a_queue(system, cpu);
        assert_eq!(nodes.allocate_in(cpu, pair, &place), Ok(Index(0)));
    });
}

/// A CPU drains its list into the zone just after the zone refused the request of another CPU, which does not wait.
#[test]
fn a_list_that_is_drained_beside_a_request_does_not_make_memory_exhausted() {
    let ranges = [FrameRange::new(Pfn(0), 16)];
    for spec in ["lbs-31+order=4+batch=4+high=8", "magazines+order=4+batch=4"] {
        on(spec, &Setup::new(&ranges, 2), |system| {
            let cpus = NativeCpus::new(2);
            let [is_refused, is_drained] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let mut cpu = claim(&cpus, 0);
            let moments = (is_refused.clone(), is_drained.clone());
            cpu.probe().listener = Some(Box::new(move |event| {
                if matches!(event, Event::Unlock) {
                    moments.0.store(true, Ordering::Relaxed);
                    while !moments.1.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                }
            }));
            std::thread::scope(|scope| {
                let mut other = claim(&cpus, 1);
                let mut held = [Index(0); 16];
                let taken = system.allocate_bulk(&mut other, Request::FRAME, &mut held);
                assert_eq!(taken, Ok(16));
                for frame in [0, 1] {
                    system
                        .free(&mut other, Release::frame(Index(frame)))
                        .unwrap();
                }
                assert_eq!(system.buffered_frames(CpuId(1)), 2, "{spec}");
                cpus.release(other);
                scope.spawn(|| {
                    let mut other = claim(&cpus, 1);
                    while !is_refused.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                    system.drain(&mut other);
                    is_drained.store(true, Ordering::Relaxed);
                });
                let pair = Request::order(order(1)).with_flags(Flags::NO_WAIT);
                let answer = system.allocate(&mut cpu, pair);
                is_refused.store(true, Ordering::Relaxed);
                assert_eq!(answer, Ok(Index(0)), "{spec}");
            });
        });
    }
}

#[test]
fn a_place_may_end_where_frame_numbers_do() {
    let ranges = [FrameRange::new(Pfn(u64::MAX - 2047), 2047)];
    on_cpus("bs", &ranges, |system, [cpu]| {
        let no_colour = Colours::new(1, 0).unwrap();
        let place = Place::ANYWHERE.coloured(no_colour);
        for frames in [1, 512, 1024] {
            let refused = system.allocate_in(cpu, Request::frames(frames), &place);
            assert_eq!(refused, Err(AllocateError::Exhausted));
        }
    });
}

/// The owner of a page block frees, drains and takes back the upper one of two frames; another CPU takes the lower one
/// in and out of the zone. A drain merges under the list's lock alone, and must not merge a frame that the other has.
fn owner_against_zone(
    take: fn(&System<'_>, &mut Cpu, FrameRange) -> bool,
    give: fn(&System<'_>, &mut Cpu, Index),
) {
    let ranges = [FrameRange::new(Pfn(0), 64)];
    on("pcp-buddy+order=2", &Setup::new(&ranges, 3), |system| {
        let cpus = NativeCpus::new(3);
        let mut owner = claim(&cpus, 0);
        let mut held: Vec<_> = allocate_frames(system, &mut owner, 4);
        held.sort();
        let lower = held[0];
        let upper = Index(lower.0 + 1);
        system.free_nested(CpuId(0), Release::frame(lower)).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut other = claim(&cpus, 1);
                while !done.load(Ordering::Relaxed) {
                    if take(system, &mut other, FrameRange::new(Pfn(lower.0.into()), 1)) {
                        give(system, &mut other, lower);
                    }
                }
            });
            for _ in 0..ROUNDS {
                system.free(&mut owner, Release::frame(upper)).unwrap();
                system.drain(&mut owner);
                while system
                    .allocate_at(&mut owner, FrameRange::new(Pfn(upper.0.into()), 1))
                    .is_err()
                {}
            }
            done.store(true, Ordering::Relaxed);
        });
        system.check(&mut owner).unwrap();
        system.free(&mut owner, Release::frame(upper)).unwrap();
        free_frames(system, &mut owner, &held[2..]);
        system.park(&mut owner);
        let mut last = claim(&cpus, 2);
        system.quiesce(&mut last).unwrap();
        assert_eq!(system.check(&mut last).unwrap().free, 64);
    });
}

#[test]
fn a_drain_merges_no_frame_that_is_being_allocated() {
    owner_against_zone(
        |system, cpu, range| system.allocate_at(cpu, range).is_ok(),
        |system, cpu, frame| {
            while system.free_nested(cpu.id(), Release::frame(frame)) == Err(FreeError::Busy) {}
        },
    );
}

#[test]
fn a_drain_merges_no_frame_that_is_being_added() {
    owner_against_zone(
        |system, cpu, range| system.reserve(cpu, range).is_ok(),
        |system, cpu, frame| {
            system
                .unreserve(cpu, FrameRange::new(Pfn(frame.0.into()), 1))
                .unwrap()
        },
    );
}
