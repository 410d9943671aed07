//! Reporting: the blocks of a system whose free blocks are known, requests that wait, zeros, and ends of memory.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everybuddy::platform::NativeCpus;
use everybuddy::{
    AllocateError, Block, Flags, FrameRange, Index, Nodes, Pfn, Platform, Progress, Release,
    Report, Reporting, Request, Setup, Zone,
};
use everybuddy_suite::{Machine, System, all_at_once, block, claim, on, on_cpus, order};

type Word = <Machine as Platform>::AtomicU64;

fn words(size: u8, frames: u32) -> Vec<Word> {
    let words = Reporting::<Machine>::words(order(size), frames);
    (0..words).map(|_| Word::new(0)).collect()
}

/// Runs `body` with a system of 64 frames.
fn with(name: &str, cpus: u16, size: u8, body: impl FnOnce(&System<'_>, &Reporting<'_, Machine>)) {
    let ranges = [FrameRange::new(Pfn(0), 64)];
    on(name, &Setup::new(&ranges, cpus), |system| {
        let words = words(size, 64);
        let reporting = Reporting::new(system, order(size), &words).unwrap();
        body(system, &reporting);
    });
}

#[test]
fn a_block_is_as_large_as_free_memory_and_marks_allow() {
    with("bs+order=4", 1, 1, |system, reporting| {
        let cpu = &mut claim(&NativeCpus::new(1), 0);
        let mut pass = |budget| {
            let mut seen = Vec::new();
            let progress = reporting.pass(system, cpu, budget, &mut |block| {
                seen.push(block);
                Report::Given
            });
            (seen, progress)
        };
        assert_eq!(pass(1), (vec![block(0, 4)], Progress::More));
        let rest = [16, 32, 48].map(|start| block(start, 4)).to_vec();
        assert_eq!(pass(9), (rest, Progress::Idle));
        // 22 and 23 are allocated: their block of two is taken away from the larger ones around it.
        assert_eq!(reporting.allocated(Index(23), 1), 1);
        assert_eq!(reporting.allocated(Index(22), 1), 0);
        assert_eq!(reporting.allocated(Index(25), 10), 6);
        let again = [block(22, 1), block(24, 3), block(32, 2)];
        assert_eq!(pass(99), (again.to_vec(), Progress::Idle));
        assert_eq!(
            pass(32),
            (vec![], Progress::More),
            "a step for each block of two"
        );
        assert_eq!(pass(1), (vec![], Progress::Idle));
    });
}

#[test]
fn a_block_is_not_larger_than_a_host_wants_it() {
    for (largest, size) in [(0, 1), (2, 2), (9, 4)] {
        with("bs+order=4", 1, 1, |system, reporting| {
            let words = words(1, 64);
            let limited = Reporting::new(system, order(1), &words).unwrap();
            let limited = limited.up_to(order(largest));
            let cpu = &mut claim(&NativeCpus::new(1), 0);
            let mut blocks = 0;
            let visit = &mut |block: Block| {
                assert_eq!(block.order, order(size));
                blocks += 1;
                Report::Given
            };
            assert_eq!(limited.pass(system, cpu, 99, visit), Progress::Idle);
            assert_eq!(blocks << size, 64);
            assert_eq!(reporting.order(), limited.order());
        });
    }
}

#[test]
fn blocks_that_are_marked_at_first_are_reported_after_they_were_allocated() {
    with("bs+order=4", 1, 1, |system, _| {
        let words = [Word::new(u64::MAX)];
        let reporting = Reporting::new(system, order(1), &words).unwrap();
        let cpu = &mut claim(&NativeCpus::new(1), 0);
        let mut seen = Vec::new();
        let mut visit = |block| {
            seen.push(block);
            Report::Given
        };
        let end = reporting.pass(system, cpu, 99, &mut visit);
        assert_eq!(reporting.allocated(Index(21), 1), 1);
        reporting.pass(system, cpu, 99, &mut visit);
        assert_eq!((seen, end), (vec![block(20, 1)], Progress::Idle));
    });
}

#[test]
fn an_order_beyond_the_largest_is_refused_and_missing_marks_are_not_used() {
    let ranges = [FrameRange::new(Pfn(0), 1024)];
    on_cpus("bs+order=4", &ranges, |system, [cpu]| {
        let largest = order(4);
        let refused = Reporting::new(system, order(5), &[]).err();
        assert_eq!(refused, Some(AllocateError::TooLarge { largest }));
        // A word is for 64 blocks of four, so for 256 frames.
        let words = words(2, 200);
        let reporting = Reporting::new(system, order(2), &words).unwrap();
        let mut last = None;
        let visit = &mut |block| {
            last = Some(block);
            Report::Given
        };
        assert_eq!(reporting.pass(system, cpu, 999, visit), Progress::Idle);
        assert_eq!(last, Some(block(240, 4)));
        assert_eq!(reporting.allocated(Index(1000), 24), 0);
    });
}

/// One CPU holds one of two blocks, and the other one needs both: it finds them after that block. In `everybuddy`, such
/// a request waits for the CPU that owns the trees, so it does not fail before.
#[test]
fn a_request_waits_for_one_block() {
    for name in ["bs+order=6", "lbs-31+order=6", "llfree+order=6"] {
        with(name, 2, 5, |system, reporting| {
            let cpus = NativeCpus::new(2);
            let [held, done] = [const { AtomicBool::new(false) }; 2];
            let whole = Request::order(order(6));
            all_at_once(2, |id| {
                let cpu = &mut claim(&cpus, id);
                let is_held = || held.load(Ordering::Relaxed);
                let is_done = || done.load(Ordering::Relaxed);
                let _stop = Stop(&done);
                if id == 0 {
                    while !is_done() {
                        let block = reporting.take(system, cpu, &mut 8);
                        // A request of the other CPU may want what this one lists.
                        system.park(cpu);
                        let Ok(block) = block else {
                            continue;
                        };
                        held.store(true, Ordering::Relaxed);
                        while is_held() && !is_done() {
                            std::thread::yield_now();
                        }
                        // The other CPU may begin to wait now.
                        (0..20).for_each(|_| std::thread::yield_now());
                        reporting.put(system, cpu, block, Report::Given).unwrap();
                        // A host that forgets what it gave: all is reported again.
                        reporting.allocated(Index(0), 64);
                        system.park(cpu);
                    }
                    return;
                }
                for _ in 0..200 {
                    while !is_held() && !is_done() {
                        std::thread::yield_now();
                    }
                    if is_done() {
                        return;
                    }
                    assert!(system.allocate(cpu, whole).is_err(), "{name}: not held");
                    let hasty = whole.with_flags(Flags::NO_WAIT);
                    let refused = reporting.allocate(system, cpu, hasty);
                    assert_eq!(refused, Err(AllocateError::Busy), "{name}");
                    held.store(false, Ordering::Relaxed);
                    let start = reporting.allocate(system, cpu, whole);
                    let start = start.unwrap_or_else(|error| panic!("{name}: {error}"));
                    let block = Block::new(start, order(6));
                    system.free(cpu, Release::block(block)).unwrap();
                }
            });
        });
    }
}

/// While one CPU holds a block and another one waits for it, a third one takes none.
#[test]
fn no_block_is_taken_while_a_request_waits() {
    with("bs+order=6", 3, 5, |system, reporting| {
        let cpus = NativeCpus::new(3);
        let [held, done] = [const { AtomicBool::new(false) }; 2];
        let tries = AtomicU32::new(0);
        let until = |flag: &AtomicBool| {
            while !flag.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        all_at_once(3, |id| {
            let cpu = &mut claim(&cpus, id);
            match id {
                0 => {
                    let block = reporting.take(system, cpu, &mut 9).unwrap();
                    held.store(true, Ordering::Relaxed);
                    until(&done);
                    reporting.put(system, cpu, block, Report::Refused).unwrap();
                }
                1 => {
                    until(&held);
                    let whole = Request::order(order(6));
                    while !done.load(Ordering::Relaxed) {
                        tries.fetch_add(1, Ordering::Relaxed);
                        if let Ok(start) = reporting.allocate(system, cpu, whole) {
                            let block = Block::new(start, order(6));
                            system.free(cpu, Release::block(block)).unwrap();
                        }
                    }
                }
                _ => {
                    let _stop = Stop(&done);
                    until(&held);
                    let mut is_stopped = false;
                    // A request gives up after a while, and is made again.
                    while !is_stopped && tries.load(Ordering::Relaxed) < 4 {
                        let mut budget = 9;
                        match reporting.take(system, cpu, &mut budget) {
                            Ok(block) => {
                                reporting.put(system, cpu, block, Report::Refused).unwrap();
                            }
                            Err(progress) => is_stopped = progress == Progress::More && budget > 0,
                        }
                        std::thread::yield_now();
                    }
                    assert!(is_stopped, "blocks are taken although a request waits");
                }
            }
        });
    });
}

/// Stops the other thread, also when a test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn blocks_that_were_known_to_be_zero_stay_so() {
    let ranges = [FrameRange::new(Pfn(0), 64)];
    on("bs+order=4", &Setup::new(&ranges, 1), |system| {
        let zero_words: Vec<Word> = (0..Zone::<Machine, System<'_>>::zeroed_words(order(3), 64))
            .map(|_| Word::new(0))
            .collect();
        let zones = [Zone::new(0, system).with_zeroed(order(3), &zero_words)];
        let nodes = Nodes::new(&zones, &[0], &[]).unwrap();
        let nodes: &System<'_> = &nodes;
        let cpu = &mut claim(&NativeCpus::new(1), 0);
        let filled = nodes.allocate_at(cpu, FrameRange::new(Pfn(8), 8)).unwrap();
        nodes.free_zeroed(cpu, Release::frames(filled, 8)).unwrap();
        let marks = words(3, 64);
        let reporting = Reporting::new(nodes, order(3), &marks).unwrap();
        let zeroed = || -> Vec<u32> {
            let zeroed = |block: &u32| nodes.is_zeroed(Index(8 * block), 8);
            (0..8).filter(zeroed).collect()
        };
        let mut calls = 0;
        let visit = &mut |block: Block| {
            calls += 1;
            match block.start.0 {
                32.. => Report::GivenZeroed,
                _ => Report::Given,
            }
        };
        assert_eq!(zeroed(), [1]);
        reporting.pass(nodes, cpu, 99, visit);
        assert_eq!((zeroed(), calls), (vec![1, 4, 5, 6, 7], 5));
    });
}
