//! Buddy spaces: what one CPU does wrong with a frame whose space another has.
//!
//! Such a release takes a lock that isn't its CPU's own, and changes counts of a space that it doesn't have. A wrong
//! one must be a typed error, and leave that space, the pool and everything else as it was.

use everybuddy::platform::NativeCpus;
use everybuddy::{
    AllocateError, Block, Counts, CpuId, FrameRange, FreeError, Index, Pfn, Release, Request, Setup,
};
use everybuddy_suite::{Cpu, System, claim, on, on_cpus, order};

/// Four spaces of eight frames, or one of 4 MiB and more; a hole at the end.
const RANGES: &[FrameRange] = &[FrameRange::new(Pfn(0), 32), FrameRange::new(Pfn(40), 8)];

/// Takes a block.
fn take(system: &System<'_>, cpu: &mut Cpu, size: u8) -> Block {
    let start = system.allocate(cpu, Request::order(order(size))).unwrap();
    Block::new(start, order(size))
}

/// Releases frames wrongly in all ways.
fn misuse(name: &str, system: &System<'_>) {
    use FreeError::{Foreign, Hole, NotAllocated, ZeroFrames};
    let set = NativeCpus::new(2);
    let mut cpus: Vec<Cpu> = (0..2).map(|id| claim(&set, id)).collect();
    // Each has a space now; with one space, they share it.
    let own = take(system, &mut cpus[0], 2);
    let block = take(system, &mut cpus[1], 1);
    let single = take(system, &mut cpus[1], 0);
    let freed = take(system, &mut cpus[1], 0);
    system.free(&mut cpus[1], Release::block(freed)).unwrap();
    let run = system.allocate(&mut cpus[1], Request::frames(3)).unwrap();
    let held = [
        (own.start, 4),
        (block.start, 2),
        (single.start, 1),
        (run, 2),
        (Index(run.0 + 2), 1),
    ];
    let never = (0..32)
        .rev()
        .find(|frame| {
            let has = |run: &(Index, u32)| (run.0.0..run.0.0 + run.1).contains(frame);
            *frame != freed.start.0 && !held.iter().any(has)
        })
        .unwrap();
    let state = |cpu: &mut Cpu| (system.check(cpu).unwrap(), system.snapshot(cpu));
    let before = state(&mut cpus[0]);
    let by_order = |start: u32, size| Release::block(Block::new(Index(start), order(size)));
    let run = |start: u32, frames| Release::frames(Index(start), frames);
    let (start, end) = (block.start.0, system.span().frames());
    let (pair, largest) = (order(1), system.max_order().get());
    let (wrong, inside) = (
        FreeError::WrongOrder { allocated: pair },
        FreeError::InsideBlock { order: pair },
    );
    let cases = [
        ("twice", by_order(freed.start.0, 0), NotAllocated),
        ("twice, as a run", run(freed.start.0, 1), NotAllocated),
        ("never allocated", by_order(never, 0), NotAllocated),
        ("never allocated, a run", run(never, 1), NotAllocated),
        ("too small", by_order(start, 0), wrong),
        ("too large", by_order(start, largest), wrong),
        ("inside", by_order(start + 1, 0), inside),
        ("a hole", by_order(35, 0), Hole),
        ("a run in a hole", run(33, 3), Hole),
        ("outside", by_order(end, 0), Foreign),
        ("far outside", by_order(u32::MAX, 0), Foreign),
        ("reaching out", run(end - 1, 2), Foreign),
        ("all memory", run(0, 32), NotAllocated),
        ("nothing", run(single.start.0, 0), ZeroFrames),
    ];
    for (what, release, error) in cases {
        for cpu in &mut cpus {
            assert_eq!(system.free(cpu, release), Err(error), "{name}: {what}");
            assert_eq!(before, state(cpu), "{name}: {what}");
        }
        if error != ZeroFrames {
            let nested = system.free_nested(CpuId(0), release);
            assert_eq!(nested, Err(error), "{name}: {what}, nested");
        }
    }
    // Each gives back what the other has; a second time is one too many.
    for (index, (start, frames)) in held.into_iter().enumerate() {
        let release = Release::frames(start, frames);
        system.free(&mut cpus[index % 2], release).unwrap();
        let again = system.free(&mut cpus[1 - index % 2], release);
        assert_eq!(again, Err(NotAllocated), "{name}");
    }
    system.park(&mut cpus[1]);
    system.quiesce(&mut cpus[0]).unwrap();
    assert_eq!(system.check(&mut cpus[0]).unwrap().free, 40);
    let blocks = system.snapshot(&mut cpus[0]).available_blocks(order(3));
    assert_eq!(blocks, 5, "{name}: all is coalesced");
}

#[test]
fn misuse_of_a_frame_in_another_cpus_space_is_an_error_and_changes_nothing() {
    for spec in [
        "is+order=3+space=32KiB",
        "is+order=3+space=32KiB+lock=ticket",
        "is+order=3+space=32KiB+lock=queued",
        "is+order=3+space=64KiB+select=fresh",
        "is+order=3",
        "bs+order=3+zone=spaces+space=32KiB",
        "lis-1+order=3+space=32KiB",
        "lis-31+batch=2+high=4+order=3+space=32KiB",
    ] {
        on(spec, &Setup::new(RANGES, 2), |system| misuse(spec, system));
    }
}

/// Returns what a CPU counted so far.
fn counts(cpu: &mut Cpu) -> Counts {
    cpu.probe().counts
}

/// Returns the number of a frame's space, of eight frames.
fn space(frame: Index) -> u32 {
    frame.0 / 8
}

#[test]
fn only_with_exchange_any_does_a_larger_block_cost_a_cpu_its_space() {
    for (option, twice) in [
        ("", [1, 2]),
        ("+exchange=any", [1, 2]),
        ("+exchange=single", [0, 0]),
    ] {
        let spec = format!("is+order=3+space=32KiB{option}");
        on_cpus(&spec, RANGES, |system, [cpu]| {
            let first = take(system, cpu, 0);
            // The CPU's own space has seven frames left.
            let whole = take(system, cpu, 3);
            assert_eq!(counts(cpu).exchanges, twice[0], "{spec}");
            // The block has used up the space for which the CPU's was exchanged.
            let next = take(system, cpu, 0);
            assert_eq!(counts(cpu).exchanges, twice[1], "{spec}");
            // For a single frame the CPU's space is exchanged all the same.
            let rest: Vec<Block> = (0..7).map(|_| take(system, cpu, 0)).collect();
            assert!(counts(cpu).exchanges > 0, "{spec}");
            system.check(cpu).unwrap();
            for block in rest.into_iter().chain([first, whole, next]) {
                system.free(cpu, Release::block(block)).unwrap();
            }
            assert_eq!(system.check(cpu).unwrap().free, 40, "{spec}");
        });
    }
}

#[test]
fn a_partly_used_space_is_taken_before_one_that_is_whole() {
    on_cpus("is+order=3+space=32KiB", RANGES, |system, [cpu]| {
        let first: Vec<Block> = (0..8).map(|_| take(system, cpu, 0)).collect();
        let second = take(system, cpu, 0);
        assert_ne!(space(second.start), space(first[0].start));
        for block in &first[..2] {
            system.free(cpu, Release::block(*block)).unwrap();
        }
        let rest = (0..7).map(|_| take(system, cpu, 0));
        assert!(
            rest.into_iter()
                .all(|block| space(block.start) == space(second.start))
        );
        let next = take(system, cpu, 0);
        assert_eq!(space(next.start), space(first[0].start));
    });
}

/// \[iBuddy\] 5: an unassigned space has three states, so it changes them twice while all of it is freed.
#[test]
fn the_pools_lock_is_acquired_twice_while_a_space_is_freed() {
    for spec in ["is", "bs+zone=spaces"] {
        // Two spaces for one CPU.
        let ranges = [FrameRange::new(Pfn(0), 2048)];
        on_cpus(spec, &ranges, |system, [cpu]| {
            let all: Vec<Block> = (0..1024).map(|_| take(system, cpu, 0)).collect();
            // This exchanges the space.
            take(system, cpu, 0);
            let before = counts(cpu);
            for block in all {
                system.free(cpu, Release::block(block)).unwrap();
            }
            let locks = counts(cpu).since(&before).locks;
            assert_eq!(locks - 1024, 2, "{spec}");
            system.check(cpu).unwrap();
        });
    }
}

/// None of the partly used spaces is refused because others, that have no such block, are before it in the list.
#[test]
fn a_large_block_is_found_in_the_last_of_many_partly_used_spaces() {
    for option in ["", "+shards=4", "+exchange=single"] {
        for system in ["is+order=3", "bs+order=3+zone=spaces"] {
            let spec = format!("{system}+space=32KiB{option}");
            let ranges = [FrameRange::new(Pfn(0), 8 * 32)];
            on_cpus(&spec, &ranges, |system, [cpu]| {
                let all: Vec<Block> = (0..8 * 32).map(|_| take(system, cpu, 0)).collect();
                let mut free = |wanted: &dyn Fn(u32) -> bool| {
                    for block in all.iter().filter(|block| wanted(block.start.0)) {
                        system.free(cpu, Release::block(*block)).unwrap();
                    }
                };
                // Four frames of one space, then one frame of each other space.
                let last = space(all[20].start);
                free(&|frame| frame / 8 == last && frame % 8 < 4);
                free(&|frame| frame / 8 != last && frame % 8 == 1);
                let block = take(system, cpu, 2);
                assert_eq!(space(block.start), last, "{spec}");
                let refused = system.allocate(cpu, Request::order(order(1)));
                assert_eq!(refused, Err(AllocateError::Exhausted), "{spec}");
                system.check(cpu).unwrap();
            });
        }
    }
}

#[test]
fn a_cpu_that_keeps_its_space_is_served_by_an_unassigned_one_before_a_peers() {
    let spec = "is+order=3+space=32KiB+exchange=single";
    // Two CPUs, and three spaces.
    let ranges = [FrameRange::new(Pfn(0), 24)];
    on_cpus(spec, &ranges, |system, [first, second]| {
        let own: Vec<Block> = (0..8).map(|_| take(system, first, 0)).collect();
        let theirs = take(system, second, 0);
        let pair = take(system, first, 1);
        let taken = [own[0], theirs].map(|block| space(block.start));
        assert!(!taken.contains(&space(pair.start)), "{pair:?}, {taken:?}");
        assert_eq!(counts(first).exchanges, 0);
    });
}

#[test]
fn a_space_of_another_shard_is_exchanged_for_the_own_one() {
    // Four spaces in two shards.
    let spec = "is+order=3+space=32KiB+shards=2";
    let ranges = [FrameRange::new(Pfn(0), 32)];
    on_cpus(spec, &ranges, |system, [cpu]| {
        for (exchanges, shard) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
            for _ in 0..8 {
                let frame = take(system, cpu, 0).start;
                assert_eq!(space(frame) / 2, shard);
            }
            assert_eq!(counts(cpu).exchanges, exchanges);
        }
    });
}

#[test]
fn a_nested_request_leaves_its_cpu_the_space_that_it_has() {
    let spec = "is+order=3+space=32KiB";
    // Two spaces for two CPUs.
    let ranges = [FrameRange::new(Pfn(0), 16)];
    on_cpus(spec, &ranges, |system, [first, second]| {
        let own: Vec<Block> = (0..8).map(|_| take(system, first, 0)).collect();
        let theirs = take(system, second, 0);
        let nested = system.allocate_nested(CpuId(0), Request::FRAME).unwrap();
        assert_eq!(space(nested), space(theirs.start));
        system.free(first, Release::block(own[0])).unwrap();
        assert_eq!(take(system, first, 0), own[0]);
    });
}

#[test]
fn a_space_is_shared_for_single_frames_and_the_share_is_counted() {
    for (option, order, shares) in [
        ("", 0, 1),
        ("", 1, 1),
        ("+exchange=single", 0, 1),
        ("+exchange=single", 1, 0),
    ] {
        let spec = format!("is+order=3+space=32KiB{option}");
        // Two spaces for two CPUs.
        let ranges = [FrameRange::new(Pfn(0), 16)];
        on(&spec, &Setup::new(&ranges, 2), |system| {
            let set = NativeCpus::new(2);
            let mut cpus: Vec<Cpu> = (0..2).map(|id| claim(&set, id)).collect();
            let theirs = take(system, &mut cpus[1], 0);
            for _ in 0..8 {
                take(system, &mut cpus[0], 0);
            }
            assert_eq!(counts(&mut cpus[0]).shares, 0, "{spec}");
            let other = take(system, &mut cpus[0], order);
            assert_eq!(space(other.start), space(theirs.start), "{spec}");
            let counts = counts(&mut cpus[0]);
            assert_eq!(counts.shares, shares, "{spec}");
            assert_eq!(counts.exchanges, shares, "{spec}");
            system.check(&mut cpus[0]).unwrap();
        });
    }
}

/// Returns the operations on lists and on the map during a call.
fn operations<R>(cpu: &mut Cpu, call: impl FnOnce(&mut Cpu) -> R) -> (R, [u64; 2]) {
    let before = counts(cpu);
    let result = call(cpu);
    let own = counts(cpu).since(&before);
    (result, [own.links, own.marks])
}

/// \[iBuddy\] 3.1.1 to 3.1.3: a single frame is one operation on a list, a block of m frames is m of them. The standard
/// buddy splits and coalesces.
#[test]
fn one_list_operation_for_a_single_frame_and_m_for_a_block_of_m() {
    const FRAMES: &[FrameRange] = &[FrameRange::new(Pfn(0), 64)];
    on_cpus("is+order=3+zone=one", FRAMES, |system, [cpu]| {
        for size in 0..=3u8 {
            let (block, [links, marks]) = operations(cpu, |cpu| take(system, cpu, size));
            assert_eq!(links, 1 << size);
            assert!(size > 0 || marks == 1);
            let release = Release::block(block);
            let (_, [links, marks]) = operations(cpu, |cpu| system.free(cpu, release).unwrap());
            assert_eq!(links, 1 << size);
            // Each frame looks at one bit for each level that it ascends, at most at three, and sets one.
            assert!((2 << size..=4 << size).contains(&marks), "{size}: {marks}");
        }
    });
    on_cpus("bs+order=3", FRAMES, |system, [cpu]| {
        let (block, [links, _]) = operations(cpu, |cpu| take(system, cpu, 0));
        assert_eq!(links, 1 + 3, "three splits");
        let release = Release::block(block);
        let (_, [links, _]) = operations(cpu, |cpu| system.free(cpu, release).unwrap());
        assert_eq!(links, 3 + 1, "three coalescings");
    });
}

#[test]
fn each_cpu_prefers_its_instance_of_the_zone_and_never_loses_it() {
    // Four instances of 32 frames, and six CPUs.
    const FRAMES: &[FrameRange] = &[FrameRange::new(Pfn(0), 128)];
    let setup = Setup::new(FRAMES, 6);
    let instance = |block: Block| block.start.0 / 32;
    let without_list = "bs+order=3+zone=spaces+space=128KiB+exchange=never";
    for name in ["zones-4+order=3", without_list] {
        on(name, &setup, |system| {
            let set = NativeCpus::new(6);
            let mut cpus: Vec<Cpu> = (0..6).map(|id| claim(&set, id)).collect();
            for (cpu, expected) in cpus.iter_mut().zip([0, 1, 2, 3, 0, 1]) {
                assert_eq!(instance(take(system, cpu, 2)), expected, "{name}");
            }
        });
    }
    on(without_list, &setup, |system| {
        let set = NativeCpus::new(6);
        let cpu = &mut claim(&set, 2);
        // What its own instance lacks comes from the next ones.
        let blocks: Vec<Block> = (0..32).map(|_| take(system, cpu, 2)).collect();
        let numbers: Vec<u32> = blocks.iter().map(|block| instance(*block)).collect();
        let expected = [2, 3, 0, 1].map(|number| [number].repeat(8)).concat();
        assert_eq!(numbers, expected);
        assert!(system.allocate(cpu, Request::FRAME).is_err());
        // The CPU returns to its own.
        for at in [blocks[20], blocks[10], blocks[0]] {
            system.free(cpu, Release::block(at)).unwrap();
        }
        let again = [2, 3, 0].map(|_| instance(take(system, cpu, 2)));
        assert_eq!(again, [2, 3, 0]);
        system.check(cpu).unwrap();
    });
}
