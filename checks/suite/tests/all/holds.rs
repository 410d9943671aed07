//! Memory that runs out in the middle of a batch, under every way to hold the zone's lock.
//!
//! The published patch of \[Porter\] leaves its lock held on that exit path. Here the lock must be free: a request or
//! free that follows neither waits nor fails.
//!
//! # Invariants
//! Nothing is timed. A nested free, which only tries the lock, shows that it is free. A waiting CPU gives up after very
//! many polls.

use everybuddy::platform::NativeCpus;
use everybuddy::{
    AllocateError, Block, CpuId, FrameRange, Index, Order, Pfn, Release, Request, Setup,
};
use everybuddy_suite::{Cpu, Shadow, System, claim, free_frames, on, order};

const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 20)];
const FRAMES: u32 = 20;

/// Batches that are larger than the memory, under every hold and lock, in one zone and in spaces.
fn specs() -> Vec<String> {
    let mut specs = Vec::new();
    for system in [
        "lbs-31+batch=64+high=128+order=3",
        "lbs-31+batch=64+high=128+order=3+zone=spaces+space=32KiB",
        "lis-31+batch=64+high=128+order=3+zone=one",
        "lis-31+batch=64+high=128+order=3+space=32KiB",
        "linux-6+order=3",
    ] {
        for hold in [
            "hold=batch",
            "hold=iteration",
            "lock=ticket+hold=iteration",
            "lock=ticket+hold=when-contended",
            "lock=queued+hold=when-contended",
        ] {
            specs.push(format!("{system}+{hold}"));
        }
    }
    specs
}

fn is_whole(system: &System<'_>, cpu: &mut Cpu) {
    system.quiesce(cpu).unwrap();
    assert_eq!(system.check(cpu).unwrap().free, u64::from(FRAMES));
    let snapshot = system.snapshot(cpu);
    let by_order: Vec<_> = snapshot.free_blocks[..4].to_vec();
    assert_eq!(by_order, [0, 0, 1, 2], "all is coalesced");
}

/// One CPU's refill takes the last frame and wants more.
fn runs_out(name: &str, system: &System<'_>) {
    let set = NativeCpus::new(2);
    let mut own = claim(&set, 0);
    // A block that no list keeps, to be released later.
    let pair = Block::new(
        system.allocate(&mut own, Request::order(order(2))).unwrap(),
        order(2),
    );
    let mut held = vec![system.allocate(&mut own, Request::FRAME).unwrap()];
    // Linux 6's lists keep the pair too.
    if !name.contains("linux-6") {
        let counts = &own.probe().counts;
        assert_eq!((counts.refills, counts.frames_refilled), (1, 16));
    }
    // Another CPU releases: a nested release waits for nothing.
    let release = Release::block(pair);
    assert_eq!(system.free_nested(CpuId(1), release), Ok(()), "{name}");
    // Requests and releases that wait, by another thread; the first CPU's frames are asked for too.
    system.park(&mut own);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut cpu = claim(&set, 1);
            let mut taken = Vec::new();
            let error = loop {
                match system.allocate(&mut cpu, Request::FRAME) {
                    Ok(frame) => taken.push(frame),
                    Err(error) => break error,
                }
            };
            assert_eq!(error, AllocateError::Exhausted);
            assert_eq!(
                taken.len(),
                19,
                "{name}: all but the one that the first has"
            );
            taken
                .iter()
                .for_each(|frame| system.free(&mut cpu, Release::frame(*frame)).unwrap());
            system.park(&mut cpu);
        });
        other.join().unwrap();
    });
    // The first goes on.
    held.push(system.allocate(&mut own, Request::FRAME).unwrap());
    held.iter()
        .for_each(|frame| system.free(&mut own, Release::frame(*frame)).unwrap());
    is_whole(system, &mut own);
}

#[test]
fn a_refill_that_takes_the_last_frame_leaves_the_lock_open() {
    for spec in specs() {
        on(&spec, &Setup::new(RANGES, 2), |system| {
            runs_out(&spec, system)
        });
    }
}

/// Refills a list of 8 frames and drains it, and returns how often each took the zone's lock.
fn acquisitions(system: &System<'_>) -> [u64; 2] {
    let mut cpu = claim(&NativeCpus::new(1), 0);
    let mut taken = vec![system.allocate(&mut cpu, Request::FRAME).unwrap()];
    let refill = cpu.probe().counts;
    assert_eq!((refill.refills, refill.frames_refilled), (1, 8));
    // The high watermark is reached by as many frees as the list has no frames.
    taken.extend((0..8).map(|_| system.allocate(&mut cpu, Request::FRAME).unwrap()));
    let before = cpu.probe().counts;
    assert_eq!(before.frames_refilled, 16);
    free_frames(system, &mut cpu, taken);
    let drain = cpu.probe().counts.since(&before);
    assert_eq!((drain.drains, drain.frames_drained), (1, 8));
    [refill.locks, drain.locks]
}

#[test]
fn a_batch_takes_the_lock_as_often_as_its_hold_policy_says() {
    for system in ["lbs-31", "lis-31+zone=one"] {
        for (hold, locks) in [
            ("hold=batch", 1),
            ("hold=iteration", 8),
            ("lock=ticket+hold=batch", 1),
            ("lock=ticket+hold=iteration", 8),
            // No other CPU waits.
            ("lock=ticket+hold=when-contended", 1),
            ("lock=queued+hold=iteration", 8),
            ("lock=queued+hold=when-contended", 1),
        ] {
            let spec = format!("{system}+batch=8+high=16+order=3+{hold}");
            let ranges = [FrameRange::new(Pfn(0), 16)];
            on(&spec, &Setup::new(&ranges, 1), |system| {
                assert_eq!(acquisitions(system), [locks; 2], "{spec}");
            });
        }
    }
}

/// Two threads refill and drain all there is, over and over.
fn both_run_out(name: &str, system: &System<'_>) {
    let (set, shadow) = (NativeCpus::new(2), Shadow::new(FRAMES));
    std::thread::scope(|scope| {
        for id in 0..2 {
            let (set, shadow) = (&set, &shadow);
            scope.spawn(move || {
                let mut cpu = claim(set, id);
                for round in 0..2000 {
                    let mut taken: Vec<Index> = Vec::new();
                    // To the end, or a few.
                    let most = if round % 3 == 0 { FRAMES + 1 } else { 5 };
                    for _ in 0..most {
                        match system.allocate(&mut cpu, Request::FRAME) {
                            Ok(frame) => {
                                shadow.take(frame, 1, u32::from(id));
                                taken.push(frame);
                            }
                            Err(AllocateError::Exhausted | AllocateError::Busy) => break,
                            Err(error) => panic!("{name}: {error}"),
                        }
                    }
                    for frame in taken {
                        shadow.give(frame, 1, u32::from(id));
                        system.free(&mut cpu, Release::frame(frame)).unwrap();
                    }
                    system.drain(&mut cpu);
                }
                system.park(&mut cpu);
                set.release(cpu);
            });
        }
    });
    let mut cpu = claim(&set, 0);
    assert_eq!(system.max_order(), Order::new(3).unwrap());
    is_whole(system, &mut cpu);
}

#[test]
fn two_cpus_that_run_out_over_and_over_never_stop_each_other() {
    for spec in specs() {
        on(&spec, &Setup::new(RANGES, 2), |system| {
            both_run_out(&spec, system)
        });
    }
}
