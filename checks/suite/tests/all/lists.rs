//! What the per-CPU lists move and when, held against a plain deque and against the papers' numbers.

use std::collections::VecDeque;

use everybuddy::platform::NativeCpus;
use everybuddy::{Block, Counts, CpuId, FrameRange, Index, Order, Pfn, Release, Request, Setup};
use everybuddy_suite::{Cpu, System, claim, free_frames, on, on_cpus};
use proptest::prelude::*;

/// 256 MiB: the batch is 31.
const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 1 << 16)];

/// Returns what a CPU counted so far.
fn counts(cpu: &mut Cpu) -> Counts {
    cpu.probe().counts
}

/// Runs `body` with a system of this name, one CPU's token, and what it counted so far.
fn with(
    name: &str,
    body: impl FnOnce(
        &dyn Fn(&mut Cpu, u32) -> Vec<Index>,
        &dyn Fn(&mut Cpu, &[Index]),
        &dyn Fn(&mut Cpu),
        &mut Cpu,
    ),
) {
    on_cpus(name, RANGES, |system, [cpu]| {
        let take = |cpu: &mut Cpu, count: u32| -> Vec<Index> {
            (0..count)
                .map(|_| system.allocate(cpu, Request::FRAME).unwrap())
                .collect()
        };
        let give = |cpu: &mut Cpu, frames: &[Index]| {
            free_frames(system, cpu, frames);
        };
        let park = |cpu: &mut Cpu| system.park(cpu);
        body(&take, &give, &park, cpu);
        system.check(cpu).unwrap();
    });
}

#[test]
fn lbs_31_moves_batches_of_31_at_its_marks() {
    with("lbs-31", |take, give, _, cpu| {
        // Empty: each refill brings 31, the first of which is the answer.
        let mut held = take(cpu, 1);
        assert_eq!((counts(cpu).refills, counts(cpu).frames_refilled), (1, 31));
        held.extend(take(cpu, 30));
        assert_eq!(counts(cpu).refills, 1, "30 hits");
        held.extend(take(cpu, 1));
        assert_eq!(counts(cpu).refills, 2);
        held.extend(take(cpu, 186 - 32));
        assert_eq!(held.len(), 186);
        assert_eq!(counts(cpu).refills, 6);
        assert_eq!(counts(cpu).drains, 0);
        // The release that fills the list to its high mark gives a batch back.
        give(cpu, &held[..185]);
        assert_eq!(counts(cpu).drains, 0);
        give(cpu, &held[185..]);
        assert_eq!((counts(cpu).drains, counts(cpu).frames_drained), (1, 31));
        // One lock for each batch, none for a hit.
        assert_eq!(counts(cpu).locks, 7);
        assert_eq!(counts(cpu).bypasses_order0, 0);
    });
}

#[test]
fn lists_with_bypass_are_passed_at_their_marks() {
    for name in ["lbs-1", "lis-1"] {
        with(name, |take, give, _, cpu| {
            let held = take(cpu, 200);
            assert_eq!((counts(cpu).refills, counts(cpu).bypasses_order0), (0, 200));
            give(cpu, &held[..186]);
            assert_eq!(counts(cpu).bypasses_order0, 200, "186 frames are kept");
            give(cpu, &held[186..]);
            assert_eq!((counts(cpu).drains, counts(cpu).bypasses_order0), (0, 214));
            take(cpu, 186);
            assert_eq!(counts(cpu).bypasses_order0, 214, "and serve 186 requests");
            take(cpu, 1);
            assert_eq!(counts(cpu).bypasses_order0, 215, "{name}");
        });
    }
}

/// [iBuddy] 2.1: the batch is min(memory / 4 MiB - 1, 31), and the high mark six batches.
#[test]
fn the_marks_follow_the_memory_as_in_linux() {
    for (mebibytes, batch) in [
        (4, 1),
        (8, 1),
        (16, 3),
        (76, 18),
        (124, 30),
        (128, 31),
        (1024, 31),
    ] {
        let ranges = [FrameRange::new(Pfn(0), mebibytes * 256)];
        let high = 6 * batch;
        for name in ["lbs-31", "lis-31", "lis-1", "lbs-1"] {
            on_cpus(name, &ranges, |system, [cpu]| {
                let take = |cpu: &mut Cpu| system.allocate(cpu, Request::FRAME).unwrap();
                let held: Vec<Index> = (0..high).map(|_| take(cpu)).collect();
                let bypasses = name.ends_with("-1");
                let refilled = if bypasses { 0 } else { batch };
                assert_eq!(counts(cpu).frames_refilled, counts(cpu).refills * refilled);
                assert_eq!(counts(cpu).refills, if bypasses { 0 } else { 6 });
                free_frames(system, cpu, &held);
                // At the high mark, a list without bypass returns one batch.
                let kept = if bypasses { high } else { high - batch };
                let snapshot = system.snapshot(cpu);
                assert_eq!(
                    snapshot.buffered_frames, kept,
                    "{name} with {mebibytes} MiB"
                );
            });
        }
    }
}

#[test]
fn a_hold_policy_decides_how_often_a_batch_acquires_the_lock() {
    for (options, locks) in [
        ("", 1),
        ("+lock=ticket", 1),
        ("+lock=queued", 1),
        ("+lock=queued+hold=iteration", 7),
        ("+lock=ticket+hold=when-contended", 1),
        ("+hold=iteration", 7),
        ("+lock=ticket+hold=iteration+line=beside", 7),
        ("+zone=spaces+hold=iteration", 7),
    ] {
        let name = format!("lbs-31+batch=7{options}");
        with(&name, |take, give, _, cpu| {
            let held = take(cpu, 42);
            assert_eq!(counts(cpu).refills, 6);
            // The first space of a CPU is one more: the pool's lock.
            let pool = u64::from(name.contains("spaces"));
            assert_eq!(counts(cpu).locks, 6 * locks + pool, "{name}");
            give(cpu, &held);
            assert_eq!((counts(cpu).drains, counts(cpu).frames_drained), (1, 7));
            assert_eq!(counts(cpu).locks, 7 * locks + pool, "{name}");
        });
    }
}

#[test]
fn a_parked_list_is_kept_for_its_cpu() {
    for name in ["lbs-31", "spring", "linux-6", "pcp-buddy", "magazines"] {
        with(name, |take, give, park, cpu| {
            let held = take(cpu, 3);
            give(cpu, &held);
            park(cpu);
            let refills = counts(cpu).refills;
            let again = take(cpu, 3);
            assert_eq!(
                counts(cpu).refills,
                refills,
                "{name}: what was freed last is given first"
            );
            assert_eq!(again.iter().rev().copied().collect::<Vec<_>>(), held);
        });
    }
}

#[test]
fn a_parked_list_with_bypass_keeps_what_its_cpu_frees() {
    for name in ["lbs-1", "lis-1"] {
        with(name, |take, give, park, cpu| {
            let held = take(cpu, 3);
            for frame in held {
                park(cpu);
                give(cpu, &[frame]);
            }
            assert_eq!(counts(cpu).bypasses_order0, 3, "the requests of {name}");
            take(cpu, 3);
            assert_eq!(counts(cpu).bypasses_order0, 3, "{name}");
        });
    }
}

/// The systems with a list for each CPU.
const LISTS: [&str; 6] = [
    "lbs-31",
    "lbs-1",
    "spring",
    "linux-6",
    "pcp-buddy",
    "magazines",
];

#[test]
fn an_empty_list_is_drained_without_the_zone() {
    for name in LISTS {
        on_cpus(name, RANGES, |system, [cpu]| {
            for _ in 0..2 {
                system.drain(cpu);
                assert_eq!(system.buffered_frames(CpuId(0)), 0);
                assert_eq!(counts(cpu).drains, 0, "{name}");
            }
        });
    }
}

/// What comes into the lists leaves them, and each block that was split is coalesced again.
#[test]
fn what_is_counted_is_balanced_when_all_is_free() {
    for name in LISTS {
        on_cpus(name, RANGES, |system, [cpu]| {
            let mut random = everybuddy_suite::Random(1);
            let mut held = Vec::new();
            for _ in 0..20_000 {
                if random.chance(52) {
                    held.push(system.allocate(cpu, Request::FRAME).unwrap());
                } else if !held.is_empty() {
                    let frame = held.swap_remove(random.below(held.len() as u64) as usize);
                    system.free(cpu, Release::frame(frame)).unwrap();
                }
            }
            free_frames(system, cpu, held);
            system.drain(cpu);
            system.quiesce(cpu).unwrap();
            let counts = counts(cpu);
            assert_eq!(counts.splits, counts.coalescings, "{name}");
            if !name.ends_with("-1") {
                assert_eq!(counts.frames_refilled, counts.frames_drained, "{name}");
            }
        });
    }
}

#[test]
fn larger_orders_go_straight_through() {
    let larger = |system: &System<'_>| {
        let mut cpu = claim(&NativeCpus::new(1), 0);
        for order in 1..=10 {
            let order = Order::new(order).unwrap();
            let start = system.allocate(&mut cpu, Request::order(order)).unwrap();
            system
                .free(&mut cpu, Release::block(Block::new(start, order)))
                .unwrap();
        }
        counts(&mut cpu)
    };
    let setup = Setup::new(RANGES, 1);
    for name in ["lbs-31", "lbs-1", "fixlazy-744", "spring", "magazines"] {
        let counts = on(name, &setup, larger);
        assert_eq!((counts.bypasses_larger, counts.refills), (20, 0), "{name}");
    }
    // Today's lists keep orders 1 to 3 and 9.
    let counts = on("linux-6", &setup, larger);
    assert_eq!((counts.bypasses_larger, counts.refills), (12, 4));
    // Owned page blocks serve the same orders: parts of one, and a whole one.
    let counts = on("pcp-buddy", &setup, larger);
    assert_eq!((counts.bypasses_larger, counts.refills), (12, 2));
}

#[test]
fn linux_6_refills_double_and_drains_follow_the_run() {
    with("linux-6", |take, give, _, cpu| {
        let mut moved = Vec::new();
        let mut held = Vec::new();
        while moved.len() < 4 {
            let before = counts(cpu).frames_refilled;
            held.extend(take(cpu, 1));
            let refilled = counts(cpu).frames_refilled - before;
            if refilled > 0 {
                moved.push(refilled);
            }
        }
        assert!(moved.windows(2).all(|pair| pair[1] >= pair[0]), "{moved:?}");
        assert!(
            moved[3] >= 4 * moved[0],
            "{moved:?}: doubling while nothing is freed"
        );
        held.extend(take(cpu, 20_000));
        give(cpu, &held);
        let counts = counts(cpu);
        assert!(counts.drains > 0);
        assert!(
            counts.frames_drained / counts.drains > moved[0],
            "a long run drains more than a batch"
        );
    });
}

proptest! {
    /// The list is Linux's: a deque that is refilled at its cold end and drained from there.
    #[test]
    fn the_list_is_a_deque(runs in prop::collection::vec((any::<bool>(), 1u32..300), 1..40)) {
        with("lbs-31+batch=7+high=20", |take, give, _, cpu| {
            let mut list = VecDeque::new();
            let mut held = Vec::new();
            for (allocate, count) in runs {
                for _ in 0..count {
                    if allocate {
                        let refills = counts(cpu).refills;
                        let frame = take(cpu, 1)[0];
                        let refilled = counts(cpu).refills - refills;
                        match list.pop_back() {
                            Some(Some(expected)) => assert_eq!((frame, refilled), (expected, 0)),
                            // One of those that a refill brought in: which, only the zone knows.
                            Some(None) => assert_eq!(refilled, 0),
                            None => {
                                assert_eq!(refilled, 1);
                                list.extend([None; 6]);
                            }
                        }
                        held.push(frame);
                    } else if let Some(frame) = held.pop() {
                        let drains = counts(cpu).drains;
                        give(cpu, &[frame]);
                        list.push_back(Some(frame));
                        let full = list.len() >= 20;
                        assert_eq!(counts(cpu).drains, drains + u64::from(full));
                        if full {
                            list.drain(..7);
                        }
                    }
                }
            }
        });
    }
}

#[test]
fn each_cpu_knows_what_it_keeps() {
    let kept = |name: &str| {
        on_cpus(name, RANGES, |system, [first, second]| {
            for _ in 0..40 {
                system.allocate(first, Request::FRAME).unwrap();
            }
            let frame = system.allocate(second, Request::FRAME).unwrap();
            system.free(second, Release::frame(frame)).unwrap();
            let kept = [0, 1].map(|cpu| system.buffered_frames(CpuId(cpu)));
            let sum = system.snapshot(first).buffered_frames;
            assert_eq!(kept.iter().sum::<u64>(), sum);
            assert_eq!(system.buffered_frames(CpuId(2)), 0, "there is no such CPU");
            kept
        })
    };
    // Two batches less 40 frames, and one batch.
    assert_eq!(kept("lbs-31"), [22, 31]);
    assert_eq!(kept("bs"), [0, 0]);
    kept("linux-6");
    // What is left of the second magazine, and the whole of one.
    assert_eq!(kept("magazines"), [22, 31]);
    // Each has claimed a page block.
    assert_eq!(kept("pcp-buddy"), [472, 512]);
}

#[test]
fn an_allocated_frame_is_not_free_whatever_other_cpus_do() {
    use everybuddy::RegionError;
    use everybuddy::prelude::*;

    let ranges = [FrameRange::new(Pfn(0), 1 << 14)];
    let setup = Setup::new(&ranges, 2);
    let mut memory = vec![std::mem::MaybeUninit::uninit(); Lbs31::room(&setup).unwrap()];
    let system = Lbs31::build(&setup, &mut memory[..]).unwrap();
    let cpus = NativeCpus::new(2);
    let mut own = cpus.claim(CpuId(0)).unwrap();
    let mut other = cpus.claim(CpuId(1)).unwrap();
    // The other CPU runs, and does not answer.
    let frame = system.allocate(&mut other, Request::FRAME).unwrap();
    let block = system.allocate(&mut own, Request::frames(4)).unwrap();
    let range = FrameRange::new(system.span().physical(block), 1);
    assert_eq!(
        system.reserve(&mut own, range),
        Err(RegionError::NotFree(range.start))
    );
    // What its list holds may be free soon.
    system.free(&mut other, Release::frame(frame)).unwrap();
    let range = FrameRange::new(system.span().physical(frame), 1);
    assert_eq!(system.reserve(&mut own, range), Err(RegionError::Busy));
}

#[test]
fn a_refused_free_bypasses_no_list() {
    for name in [
        "bs",
        "is",
        "lbs-1",
        "lbs-31",
        "lbs-31+percpu=locked",
        "linux-6",
        "pcp-buddy",
        "spring",
        "magazines",
        "nbbs",
    ] {
        on_cpus(name, RANGES, |system, [cpu]| {
            let large = Request::order(everybuddy_suite::order(5));
            let start = system.allocate(cpu, large).unwrap();
            let bypasses = |cpu: &mut Cpu| {
                let counts = counts(cpu);
                (counts.bypasses_order0, counts.bypasses_larger)
            };
            let before = bypasses(cpu);
            for size in [0, 3, 5] {
                let at = if size == 5 {
                    Index(start.0 + 32)
                } else {
                    start
                };
                let wrong = Block::new(at, everybuddy_suite::order(size));
                assert!(system.free(cpu, Release::block(wrong)).is_err(), "{name}");
                assert_eq!(bypasses(cpu), before, "{name}");
            }
            let block = Block::new(start, everybuddy_suite::order(5));
            system.free(cpu, Release::block(block)).unwrap();
            assert_eq!(bypasses(cpu), (before.0, before.1 + 1), "{name}");
        });
    }
}

#[test]
fn never_coalesces_only_on_demand() {
    on_cpus(
        "never",
        &[FrameRange::new(Pfn(0), 1024)],
        |system, [cpu]| {
            let held = [(); 1024].map(|()| system.allocate(cpu, Request::FRAME).unwrap());
            free_frames(system, cpu, held);
            assert_eq!(system.snapshot(cpu).free_blocks[0], 1024);
            // It is reclaimed before a request is refused, also without quiescing.
            let all = Request::order(Order::TEN);
            assert_eq!(system.allocate(cpu, all), Ok(Index(0)));
        },
    );
}

#[test]
fn a_call_that_own_trees_serve_is_no_miss() {
    // Trees of 64 frames, of which the CPU may keep two.
    let ranges = [FrameRange::new(Pfn(0), 1024)];
    on_cpus("everybuddy+tree=256KiB", &ranges, |system, [cpu]| {
        let misses = |cpu: &mut Cpu, calls: u32| {
            let before = counts(cpu).bypasses_order0;
            let frame = |_| system.allocate(cpu, Request::FRAME).unwrap();
            let frames: Vec<Index> = (0..calls).map(frame).collect();
            (counts(cpu).bypasses_order0 - before, frames)
        };
        let (claims, first) = misses(cpu, 64);
        assert_eq!(claims, 1);
        assert_eq!(misses(cpu, 1).0, 1, "the second tree");
        let before = counts(cpu).bypasses_order0;
        system.free(cpu, Release::frame(first[5])).unwrap();
        assert!(system.free(cpu, Release::frame(first[5])).is_err());
        assert_eq!(counts(cpu).bypasses_order0, before);
        assert_eq!(
            misses(cpu, 64).0,
            0,
            "63 frames of one tree, one of the other"
        );
        assert_eq!(misses(cpu, 1).0, 1, "the third tree");
    });
}
