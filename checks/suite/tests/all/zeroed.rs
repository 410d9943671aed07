//! Blocks that contain only zeros: the promise of a free, and what the next holder is told.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use everybuddy::platform::NativeCpus;
use everybuddy::{
    FrameAllocator, FrameRange, FreeError, Index, Nodes, Pfn, Platform, Release, Request, Setup,
    Visit, Zone,
};
use everybuddy_suite::{Cpu, Machine, Random, System, block, claim, on, order};

/// Two zones of 1024 frames: the order of the blocks is 3, and only the second zone remembers zeros.
const RANGES: [&[FrameRange]; 2] = [
    &[FrameRange::new(Pfn(0), 1024)],
    &[FrameRange::new(Pfn(1024), 1024)],
];
const SECOND: u32 = 1024;

type Word = <Machine as Platform>::AtomicU64;

/// Runs `body` on both zones. The CPUs have the second one as their node.
fn on_two_zones(name: &str, cpus: u16, body: impl FnOnce(&Nodes<'_, Machine, System<'_>>)) {
    on(name, &Setup::new(RANGES[0], cpus), |first| {
        on(name, &Setup::new(RANGES[1], cpus), |second| {
            let count = Zone::<Machine, System<'_>>::zeroed_words(order(3), 1024);
            let words: Vec<Word> = (0..count).map(|_| Word::new(0)).collect();
            let zones = [
                Zone::new(0, first),
                Zone::new(1, second).with_zeroed(order(3), &words),
            ];
            body(&Nodes::new(&zones, &[1, 1, 1], &[]).unwrap());
        });
    });
}

fn with_one_cpu(body: impl FnOnce(&Nodes<'_, Machine, System<'_>>, &mut Cpu)) {
    on_two_zones("bs+order=5", 1, |nodes| {
        body(nodes, &mut claim(&NativeCpus::new(1), 0));
    });
}

/// Allocates a range, and frees it with a promise.
fn fill(nodes: &Nodes<'_, Machine, System<'_>>, cpu: &mut Cpu, start: u32, frames: u32) {
    let range = FrameRange::new(Pfn(u64::from(start)), u64::from(frames));
    let start = nodes.allocate_at(cpu, range).unwrap();
    nodes
        .free_zeroed(cpu, Release::frames(start, frames))
        .unwrap();
}

#[test]
fn a_promise_lasts_until_a_part_is_freed_without_one() {
    with_one_cpu(|nodes, cpu| {
        fill(nodes, cpu, SECOND + 8, 8);
        let range = |start, frames| FrameRange::new(Pfn(u64::from(SECOND + start)), frames);
        let part = nodes.allocate_at(cpu, range(10, 2)).unwrap();
        assert!(nodes.is_zeroed(part, 2));
        // A part that is freed with a promise changes nothing.
        nodes.free_zeroed(cpu, Release::frames(part, 2)).unwrap();
        let whole = nodes.allocate_at(cpu, range(8, 8)).unwrap();
        assert!(nodes.is_zeroed(whole, 8));
        assert!(!nodes.is_zeroed(Index(whole.0 - 1), 2), "the block below");
        assert!(!nodes.is_zeroed(whole, 9), "the block above");
        nodes.free(cpu, Release::frames(whole, 1)).unwrap();
        assert!(!nodes.is_zeroed(Index(whole.0 + 1), 7));
        nodes
            .free_zeroed(cpu, Release::frames(Index(whole.0 + 1), 7))
            .unwrap();
        assert!(!nodes.is_zeroed(whole, 8), "a frame of it is not zero");
    });
}

#[test]
fn only_whole_blocks_of_a_zone_that_remembers_them_are_known() {
    with_one_cpu(|nodes, cpu| {
        fill(nodes, cpu, 0, 16);
        assert!(!nodes.is_zeroed(Index(0), 8), "this zone does not remember");
        fill(nodes, cpu, SECOND + 4, 20);
        let known: Vec<u32> = (0..8)
            .filter(|block| nodes.is_zeroed(Index(SECOND + 8 * block), 8))
            .collect();
        assert_eq!(known, [1, 2]);
        assert!(!nodes.is_zeroed(Index(5000), 8));
    });
}

#[test]
fn every_way_to_free_frames_without_a_promise_is_noticed() {
    type Way<'w> = &'w dyn Fn(&Nodes<'_, Machine, System<'_>>, &mut Cpu, FrameRange);
    let ways: [(&str, Way<'_>); 6] = [
        ("free", &|nodes, cpu, range| {
            let start = nodes.allocate_at(cpu, range).unwrap();
            nodes.free(cpu, Release::frames(start, 4)).unwrap();
        }),
        ("free_nested", &|nodes, cpu, range| {
            let start = nodes.allocate_at(cpu, range).unwrap();
            let id = everybuddy::CpuId(0);
            nodes.free_nested(id, Release::frames(start, 4)).unwrap();
        }),
        ("free_bulk", &|nodes, cpu, range| {
            let start = nodes.allocate_at(cpu, range).unwrap();
            let frames = [0, 1, 2, 3].map(|frame| Release::frames(Index(start.0 + frame), 1));
            nodes.free_bulk(cpu, &frames).unwrap();
        }),
        ("add", &|nodes, cpu, range| {
            nodes.remove(cpu, range).unwrap();
            nodes.add(cpu, range).unwrap();
        }),
        ("unreserve", &|nodes, cpu, range| {
            nodes.reserve(cpu, range).unwrap();
            nodes.unreserve(cpu, range).unwrap();
        }),
        ("visit_free", &|nodes, cpu, _| {
            nodes.visit_free(cpu, order(2), &mut |_| Visit::Return);
        }),
    ];
    for (name, way) in ways {
        with_one_cpu(|nodes, cpu| {
            fill(nodes, cpu, SECOND + 8, 16);
            way(nodes, cpu, FrameRange::new(Pfn(u64::from(SECOND) + 8), 4));
            assert!(!nodes.is_zeroed(Index(SECOND + 8), 8), "{name}");
            let other = nodes.is_zeroed(Index(SECOND + 16), 8);
            assert_eq!(other, name != "visit_free", "{name}");
        });
    }
}

#[test]
fn a_visit_can_fill_free_blocks() {
    with_one_cpu(|nodes, cpu| {
        let held = nodes.allocate(cpu, Request::FRAME).unwrap();
        nodes.visit_free(cpu, order(3), &mut |_| Visit::ReturnZeroed);
        let known = (0..256).filter(|block| nodes.is_zeroed(Index(8 * block), 8));
        assert_eq!(known.count(), 127, "all of the second zone but one");
        nodes.free(cpu, Release::frame(held)).unwrap();
        assert_eq!(nodes.check(cpu).unwrap().free, 2048);
    });
}

#[test]
fn a_refused_promise_promises_nothing() {
    with_one_cpu(|nodes, cpu| {
        let free = Release::block(block(SECOND + 8, 3));
        assert_eq!(nodes.free_zeroed(cpu, free), Err(FreeError::NotAllocated));
        assert!(!nodes.is_zeroed(free.start, 8));
        let beyond = Release::block(block(2 * SECOND, 3));
        assert_eq!(nodes.free_zeroed(cpu, beyond), Err(FreeError::Foreign));
    });
}

/// Three CPUs write to what they hold, sometimes only zeros. A holder that is told of zeros finds zeros.
#[test]
fn a_holder_that_is_told_of_zeros_finds_zeros() {
    let told_of_parts = AtomicBool::new(false);
    for name in [
        "bs+order=5",
        "lbs-31+order=5+batch=2+high=3",
        "llfree",
        "everybuddy",
    ] {
        let content: Vec<AtomicU32> = (0..2048).map(|_| AtomicU32::new(1)).collect();
        let told_of_blocks = AtomicBool::new(false);
        on_two_zones(name, 3, |nodes| {
            let cpus = &NativeCpus::new(3);
            let work = |id: u16| {
                let (cpu, mut random) = (&mut claim(cpus, id), Random(u64::from(id)));
                for _ in 0..20_000 {
                    let of = if random.chance(40) {
                        3
                    } else {
                        random.below(4) as u8
                    };
                    let Ok(start) = nodes.allocate(cpu, Request::order(order(of))) else {
                        continue;
                    };
                    let frames = &content[start.0 as usize..][..1 << of];
                    let mut is_zero = nodes.is_zeroed(start, 1 << of);
                    if is_zero {
                        let told = if of == 3 {
                            &told_of_blocks
                        } else {
                            &told_of_parts
                        };
                        told.store(true, Ordering::Relaxed);
                        let all = frames
                            .iter()
                            .all(|frame| frame.load(Ordering::Relaxed) == 0);
                        assert!(all, "{name}: {start:?} of order {of}");
                    }
                    if random.chance(60) {
                        is_zero = random.chance(70);
                        for frame in frames {
                            frame.store(u32::from(!is_zero), Ordering::Relaxed);
                        }
                    }
                    let release = Release::block(everybuddy::Block::new(start, order(of)));
                    if is_zero {
                        nodes.free_zeroed(cpu, release).unwrap()
                    } else {
                        nodes.free(cpu, release).unwrap()
                    }
                }
                nodes.park(cpu);
            };
            std::thread::scope(|scope| {
                for id in 0..3 {
                    scope.spawn(move || work(id));
                }
            });
        });
        assert!(told_of_blocks.into_inner(), "{name}");
    }
    // With one system, this depends on the schedule.
    assert!(told_of_parts.into_inner());
}
