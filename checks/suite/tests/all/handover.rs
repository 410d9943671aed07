//! Frames that one CPU allocates and another frees, and many frames that are freed together.
//!
//! Two answers to the same question of the Linux kernel list, held against Linux 2.6.32's list: merging a batch before
//! it drains, and returning each frame to the CPU that owns its page block.
//!
//! # Invariants
//! Acquisitions of the zone's lock and operations under it are counted, never timed.

use std::sync::mpsc;
use std::time::Duration;

use everybuddy::platform::NativeCpus;
use everybuddy::{
    Block, Counts, CpuId, Event, FrameRange, FreeError, Index, Pfn, Release, Request, Setup,
};
use everybuddy_suite::{claim, on, on_cpus, order};

use crate::two_cpus::{allocate, free, with};

/// One CPU allocates, the other frees.
fn handover(name: &str) -> Counts {
    with(name, |system, first, second| {
        for _ in 0..40 {
            let frames = allocate(system, first, 300);
            free(system, second, &frames);
        }
    })
}

/// A CPU frees a large amount of memory that another CPU allocated.
fn exit(name: &str) -> Counts {
    with(name, |system, first, second| {
        let frames = allocate(system, first, 20_000);
        system.park(first);
        free(system, second, &frames);
    })
}

#[test]
fn frames_return_to_their_owner_without_the_zone() {
    let linux = handover("lbs-31");
    // About ten refills and ten drains each time.
    assert!(linux.locks > 700, "{}", linux.locks);
    let merged = handover("lbs-31+drain=merged");
    assert_eq!(merged.locks, linux.locks, "merging alone saves no lock");
    let owned = handover("pcp-buddy");
    // The first refill, and nothing after it.
    assert_eq!((owned.refills, owned.drains), (1, 0));
    assert_eq!(owned.locks, 1);
}

#[test]
fn a_merged_batch_takes_fewer_operations_under_the_lock() {
    for (single, merged) in [
        ("lbs-31", "lbs-31+drain=merged"),
        ("fixlazy-744", "fixlazy-744+drain=merged"),
        (
            "fixlazy-744+percpu=locked",
            "fixlazy-744+percpu=locked+drain=merged",
        ),
    ] {
        let (single, merged) = (exit(single), exit(merged));
        assert_eq!(merged.locks, single.locks);
        assert_eq!(merged.frames_drained, single.frames_drained);
        assert_eq!(
            merged.coalescings, single.coalescings,
            "the same pairs meet"
        );
        // The refills are the same; of the drains' operations a small part is left.
        let links = [single, merged].map(|counts| counts.links);
        assert!(3 * links[1] < 2 * links[0], "{links:?}");
    }
}

#[test]
fn an_exit_returns_whole_page_blocks() {
    let linux = exit("lbs-31");
    let owned = exit("pcp-buddy");
    assert!(
        20 * owned.locks < linux.locks,
        "{} of {}",
        owned.locks,
        linux.locks
    );
    assert!(
        50 * owned.links < linux.links,
        "{} of {}",
        owned.links,
        linux.links
    );
}

#[test]
fn a_frame_goes_to_the_list_of_its_page_blocks_owner() {
    with("pcp-buddy", |system, first, second| {
        let held = allocate(system, first, 100);
        let kept = |cpu| system.buffered_frames(CpuId(cpu));
        assert_eq!((kept(0), kept(1)), (412, 0));
        free(system, second, &held[..40]);
        assert_eq!((kept(0), kept(1)), (452, 0));
        // The other CPU claims a page block of its own.
        let other = allocate(system, second, 10);
        assert_eq!((kept(0), kept(1)), (452, 502));
        assert_ne!(held[0].0 >> 9, other[0].0 >> 9);
        free(system, first, &other);
        assert_eq!((kept(0), kept(1)), (452, 512));
        // Misuse is refused on both.
        for frame in [held[0], other[0]] {
            let again = Release::frame(frame);
            assert_eq!(system.free(first, again), Err(FreeError::NotAllocated));
            assert_eq!(system.free(second, again), Err(FreeError::NotAllocated));
        }
        let pair = system.allocate(second, Request::order(order(1))).unwrap();
        let allocated = order(1);
        let wrong = Err(FreeError::WrongOrder { allocated });
        assert_eq!(system.free(first, Release::frame(pair)), wrong);
        let inside = Release::frame(Index(pair.0 + 1));
        let error = FreeError::InsideBlock { order: order(1) };
        assert_eq!(system.free(first, inside), Err(error));
        system
            .free(first, Release::block(Block::new(pair, order(1))))
            .unwrap();
        // A whole page block has no owner when it returns: its frames stay where they are freed.
        system.drain(second);
        assert_eq!((kept(0), kept(1)), (452, 0));
        let unowned = system.allocate_nested(CpuId(0), Request::FRAME).unwrap();
        assert_eq!(
            unowned.0 >> 9,
            other[0].0 >> 9,
            "the smallest block that is free"
        );
        free(system, first, &[unowned]);
        assert_eq!((kept(0), kept(1)), (453, 0));
        free(system, second, &held[40..]);
    });
}

/// What a drain returned in parts comes back to the owner of the page block with the next refill.
#[test]
fn parts_of_owned_page_blocks_are_recovered() {
    with("pcp-buddy", |system, first, second| {
        let held = allocate(system, first, 512);
        let kept = |cpu| system.buffered_frames(CpuId(cpu));
        assert_eq!((kept(0), kept(1)), (0, 0));
        // One frame of four stays allocated, so the rest is in three hundred parts.
        for frame in held.iter().filter(|frame| frame.0 % 4 != 0) {
            system.free(second, Release::frame(*frame)).unwrap();
        }
        assert_eq!((kept(0), kept(1)), (384, 0));
        system.drain(first);
        assert_eq!((kept(0), kept(1)), (0, 0));
        let before = first.probe().counts;
        let again = allocate(system, first, 384);
        assert_eq!(first.probe().counts.since(&before).refills, 1);
        assert!(again.iter().all(|frame| frame.0 >> 9 == held[0].0 >> 9));
        free(system, second, &again);
        let rest: Vec<Index> = held.into_iter().filter(|frame| frame.0 % 4 == 0).collect();
        free(system, second, &rest);
        assert_eq!((kept(0), kept(1)), (512, 0));
    });
}

/// Without a free page block, smaller chunks are taken, which belong to no CPU.
#[test]
fn chunks_are_taken_without_ownership() {
    let ranges = [FrameRange::new(Pfn(0), 511)];
    on_cpus("pcp-buddy+batch=16", &ranges, |system, [first, second]| {
        let frame = allocate(system, first, 1);
        let kept = |cpu| system.buffered_frames(CpuId(cpu));
        assert_eq!((kept(0), kept(1)), (255, 0), "the largest chunk");
        free(system, second, &frame);
        assert_eq!((kept(0), kept(1)), (255, 1), "it stays where it is freed");
        system.quiesce(first).unwrap();
        assert_eq!(system.check(first).unwrap().free, 511);
    });
}

/// A chunk that another CPU took from an owned page block is in that CPU's list, and the owner does not merge it.
#[test]
fn a_frame_in_another_list_is_not_merged() {
    let ranges = [FrameRange::new(Pfn(0), 512)];
    on_cpus("pcp-buddy+batch=2", &ranges, |system, [first, second]| {
        let mut held = allocate(system, first, 512);
        held.sort_unstable();
        free(system, first, &[held[1], held[3]]);
        system.drain(first);
        // The zone has these two frames only. The other CPU takes both, and keeps one.
        let taken = allocate(system, second, 1);
        let kept = |cpu| system.buffered_frames(CpuId(cpu));
        assert_eq!((kept(0), kept(1)), (0, 1));
        let cached = held[if taken[0] == held[1] { 3 } else { 1 }];
        let buddy = Index(cached.0 - 1);
        free(system, first, &[buddy]);
        assert_eq!((kept(0), kept(1)), (1, 1));
        system.drain(first);
        assert_eq!((kept(0), kept(1)), (0, 1));
        let census = system.check(first).unwrap();
        assert_eq!((census.free, census.buffered), (1, 1));
        free(system, second, &taken);
        let gone = [held[1], held[3], buddy];
        held.retain(|frame| !gone.contains(frame));
        free(system, second, &held);
        system.quiesce(first).unwrap();
        assert_eq!(system.check(first).unwrap().free, 512);
        assert_eq!(system.snapshot(first).free_blocks[9], 1);
    });
}

/// While a CPU looks for frames in all lists, another CPU's free goes to the zone, and the last try finds it.
#[test]
fn a_free_during_a_drain_of_all_cpus_goes_to_the_zone() {
    let ranges = [FrameRange::new(Pfn(0), 1)];
    on("pcp-buddy+order=0", &Setup::new(&ranges, 2), |system| {
        let cpus = NativeCpus::new(2);
        let (now, is_time) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        let mut first = claim(&cpus, 0);
        let frame = allocate(system, &mut first, 1)[0];
        let mut drains = false;
        first.probe().listener = Some(Box::new(move |event| match event {
            Event::Reclaim => drains = true,
            // All lists are empty; the last try begins.
            Event::LockWanted if drains => {
                drains = false;
                now.send(()).unwrap();
                is_done.recv().unwrap();
            }
            _ => {}
        }));
        std::thread::scope(|scope| {
            let cpus = &cpus;
            scope.spawn(move || {
                let mut second = claim(cpus, 1);
                is_time.recv_timeout(Duration::from_secs(20)).unwrap();
                free(system, &mut second, &[frame]);
                done.send(()).unwrap();
            });
            assert_eq!(system.allocate(&mut first, Request::FRAME), Ok(frame));
        });
    });
}
