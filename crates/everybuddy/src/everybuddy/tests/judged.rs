//! What `check` finds: each fault that it can name, put into the metadata by hand. And what answers name.

use super::tree::Part;
use super::*;
use crate::Block;
use crate::platform::{AtomicWord, Ordering, SharedCell};
use crate::shortage::Kept;

type Trees<'m> = OwnedTrees<'m, Native>;

/// The word of the allocated frames, and one that is wholly free, of the same tree.
const USED: u32 = 0;
const WHOLE: u32 = WORD;

fn header<'m>(system: &Trees<'m>, tree: u32) -> &'m Header<Native> {
    system.shared.trees.header(tree).unwrap()
}

fn part<'m>(system: &Trees<'m>, frame: u32) -> Part<'m, Native> {
    system.shared.trees.part(frame).unwrap()
}

/// Returns what `check` finds in four trees after a change. The first six frames are allocated, and no list has one.
fn found_after(change: impl FnOnce(&Trees<'_>)) -> Result<(), &'static str> {
    found_with(6, change)
}

/// The same with other numbers of allocated frames.
fn found_with(frames: u64, change: impl FnOnce(&Trees<'_>)) -> Result<(), &'static str> {
    let mut found = Ok(());
    with_two_cpus(|system, zero, _| {
        for frame in 0..frames {
            let range = FrameRange::new(Pfn(frame), 1);
            system.allocate_at(zero, range).unwrap();
        }
        system.check(zero).unwrap();
        change(system);
        let census = system.check(zero);
        found = census.map(|_| ()).map_err(|violation| violation.what);
    });
    found
}

#[test]
fn check_finds_faults_of_words() {
    let whole = "a word that is not split is not empty";
    // A plane of a word that has none in use, and each mask that names it.
    let found = found_after(|system| part(system, WHOLE).word.own.set(1 << 9));
    assert_eq!(found, Err(whole));
    let foreign = |system: &Trees<'_>, frame: u32, bits| {
        let word = part(system, frame).word;
        word.foreign.store(bits, Ordering::Relaxed);
    };
    let found = found_after(|system| foreign(system, WHOLE, 1 << 9));
    assert_eq!(found, Err(whole));
    for mask in [
        |header: &Header<Native>| header.any.set(header.any.get() | 2),
        |header: &Header<Native>| header.absent.set(2),
    ] {
        assert_eq!(found_after(|system| mask(header(system, 0))), Err(whole));
    }
    // The word whose planes are in use.
    let found = found_after(|system| part(system, USED).word.own.set(u64::MAX));
    assert_eq!(found, Err("a word that is wholly free is split"));
    let found = found_after(|system| header(system, 0).any.set(0));
    let differs = "the mask of words with free frames differs from the planes";
    assert_eq!(found, Err(differs));
    let found = found_after(|system| {
        header(system, 0).failed.set(1);
        header(system, 0).fresh.set(0);
    });
    let lacks = "a word is remembered to lack a block that it has";
    assert_eq!(found, Err(lacks));
    let absent = "the mask of words with absent frames differs from the planes";
    let found = found_after(|system| header(system, 0).absent.set(1));
    assert_eq!(found, Err(absent));
    let found = found_after(|system| foreign(system, USED, 1 << 9));
    assert_eq!(found, Err(absent));
    // A frame that is allocated. The inbox does not name its word.
    let found = found_after(|system| foreign(system, USED, 1 << 5));
    let nowhere = "a returned frame is not in the inbox";
    assert_eq!(found, Err(nowhere));
    let found = found_after(|system| {
        foreign(system, USED, 1 << 5);
        header(system, 0).inbox.store(1, Ordering::Relaxed);
    });
    assert_ne!(found, Err(nowhere));
    for word in [USED, WHOLE] {
        let found = found_after(|system| system.shared.heads.reserve(word, 1 << 9, true));
        assert_eq!(found, Err("a frame is reserved that is not absent"));
    }
}

#[test]
fn check_finds_faults_of_trees() {
    let differs = "the owner of a tree differs from the trees of the CPUs";
    let found = found_after(|system| header(system, 3).owner.store(2, Ordering::Relaxed));
    assert_eq!(found, Err(differs));
    for (marked, fault) in [
        (0, "a tree does not say that it is marked as spent"),
        (1, "a tree with free frames is marked as spent"),
    ] {
        let found = found_after(|system| {
            let tree = header(system, 3);
            let split = tree.split.get();
            // While it looks wholly allocated.
            tree.split.set(u64::MAX);
            system.shared.mark(3, tree);
            tree.split.set(split);
            assert!(system.shared.is_marked(3));
            tree.marked.set(marked);
        });
        assert_eq!(found, Err(fault));
    }
    let found = found_after(|system| system.locals[0].places[0].current.set(3));
    assert_eq!(
        found,
        Err("a CPU allocates from a tree that it does not own")
    );
    let found = found_after(|system| {
        let refused = &system.requests.refused;
        refused.remember(refused.moment(), Order::ZERO, 8);
    });
    assert_eq!(found, Err("a block is free that is remembered as refused"));
}

#[test]
fn check_finds_faults_of_lists_and_of_pieces() {
    let list = |system: &Trees<'_>, cpu: usize, frames: &[u32]| {
        let list = singles(system, cpu, Kind::Staying);
        list.count.set(frames.len() as u32);
        for (entry, frame) in list.entries.iter().zip(frames) {
            entry.set(*frame);
        }
    };
    let remove = |system: &Trees<'_>, frame| system.shared.heads.of(frame).unwrap().set(0);
    let found = found_after(|system| list(system, 0, &[200]));
    let free = "the planes do not call a listed frame allocated";
    assert_eq!(found, Err(free));
    let found = found_after(|system| {
        remove(system, 5);
        list(system, 0, &[5, 5]);
    });
    assert_eq!(found, Err("a CPU's lists have a frame twice"));
    let found = found_after(|system| list(system, 0, &[5]));
    assert_eq!(found, Err("a listed frame is a part of an allocation"));
    let found = found_with(1, |system| {
        remove(system, 0);
        list(system, 0, &[0]);
        list(system, 1, &[0]);
    });
    let more = "the lists have more frames than the planes call allocated";
    assert_eq!(found, Err(more));
    let heads = |system: &Trees<'_>, frame, order| {
        let order = Order::new(order).unwrap();
        system.shared.heads.set(frame, order, Kind::Staying);
    };
    let overlaps = "a piece of an allocation overlaps another one";
    let found = found_after(|system| heads(system, 2, 1));
    assert_eq!(found, Err(overlaps));
    let found = found_after(|system| {
        remove(system, 2);
        heads(system, 1, 1);
    });
    assert_eq!(found, Err(overlaps), "not aligned");
    let found = found_after(|system| heads(system, 100, 0));
    let free = "a piece of an allocation has a frame that is not allocated";
    assert_eq!(found, Err(free));
    let found = found_after(|system| remove(system, 5));
    let lost = "the pieces of the allocations are not the allocated frames";
    assert_eq!(found, Err(lost));
}

#[test]
fn a_free_by_an_order_that_cannot_start_there_names_the_block() {
    with_two_cpus(|system, cpu, _| {
        let order = |size| Order::new(size).unwrap();
        let four = FrameRange::new(Pfn(0), 4);
        assert_eq!(system.allocate_at(cpu, four), Ok(Index(0)));
        for frame in [5, 7] {
            let frame = FrameRange::new(Pfn(frame), 1);
            system.allocate_at(cpu, frame).unwrap();
        }
        let mut free = |start| {
            let pair = Release::block(Block::new(Index(start), order(1)));
            system.free(cpu, pair)
        };
        let allocated = order(0);
        for start in [5, 7] {
            assert_eq!(free(start), Err(FreeError::WrongOrder { allocated }));
        }
        for start in [1, 3] {
            assert_eq!(free(start), Err(FreeError::InsideBlock { order: order(2) }));
        }
        assert_eq!(free(9), Err(FreeError::NotAllocated));
        system.check(cpu).unwrap();
    });
}

#[test]
fn trees_of_others_stay_theirs_if_not_all_of_a_run_can_be_claimed() {
    with_two_cpus(|system, zero, _| {
        let owners = || {
            let owner = |tree| header(system, tree).owner.load(Ordering::Relaxed);
            [0, 1, 2, 3].map(owner)
        };
        // By CPU 1, whose number as an owner is 2.
        assert!(system.shared.claim_all(2, 2, 2, false));
        assert!(!system.shared.claim_all(1, 0, 3, false));
        assert_eq!(owners(), [0, 0, 2, 0]);
        system.shared.release_all(2, 2);
        assert!(system.shared.claim_all(1, 0, 3, false));
        assert_eq!(owners(), [1; 4]);
        system.shared.release_all(0, 3);
        system.check(zero).unwrap();
    });
}

#[test]
fn a_shortage_names_the_cpu_that_keeps_a_block_or_else_most_frames() {
    let block = order(6);
    // Three trees, one of each CPU.
    with_system((3 * TREE_OF_TWO, 0), 3, (Some(TREE_OF_TWO), 7), |system| {
        let set = NativeCpus::new(3);
        let mut cpus = [0, 1, 2].map(|cpu| set.claim(CpuId(cpu)).unwrap());
        let starts = [0, 1, 2].map(|cpu| {
            let start = system.allocate(&mut cpus[cpu], Request::FRAME).unwrap();
            start.0 / TREE_OF_TWO * TREE_OF_TWO
        });
        assert_eq!(
            starts.iter().map(|start| start / TREE_OF_TWO).sum::<u32>(),
            3
        );
        // CPU 0 has nothing, CPU 1 a block of one word, CPU 2 the frames with odd numbers, some of them in its list.
        let odd: Vec<u32> = (0..TREE_OF_TWO).filter(|frame| frame % 2 == 1).collect();
        for (cpu, frames) in [(0, TREE_OF_TWO), (1, WORD), (2, TREE_OF_TWO)] {
            for _ in 1..frames {
                let next = system.allocate(&mut cpus[cpu], Request::FRAME).unwrap();
                assert_eq!(next.0 / TREE_OF_TWO * TREE_OF_TWO, starts[cpu]);
            }
        }
        assert_eq!(system.keeper(CpuId(1), Order::ZERO), None, "its own");
        let kept = |cpu, frames| {
            Some(Kept {
                cpu: CpuId(cpu),
                frames,
            })
        };
        assert_eq!(system.keeper(CpuId(0), block), kept(1, 64));
        for frame in &odd {
            let free = Release::frame(Index(starts[2] + frame));
            system.free(&mut cpus[2], free).unwrap();
        }
        let listed = system.buffered_frames(CpuId(2));
        assert!(listed > 0 && listed < 64, "{listed} frames in the list");
        assert_eq!(system.keeper(CpuId(0), block), kept(1, 64), "a block");
        system.allocate(&mut cpus[1], Request::FRAME).unwrap();
        assert_eq!(system.keeper(CpuId(0), block), kept(2, 64), "most frames");
        assert_eq!(system.keeper(CpuId(0), Order::ZERO), kept(2, 64));
        system.check(&mut cpus[0]).unwrap();
    });
}

/// CPU 1 has the only free block of 2 MiB in its list, and CPU 2 has more free frames.
#[test]
fn the_cpu_that_lists_the_only_block_keeps_it() {
    with_cpus((3 << 16, 0), (None, 9), |system, [_, one, two]| {
        let block = order(9);
        for _ in 0..LARGEST_TREE {
            system.allocate(two, Request::FRAME).unwrap();
        }
        let rest = (3 << 16) - LARGEST_TREE;
        let last = (0..rest / 512).map(|_| system.allocate(one, Request::order(block)).unwrap());
        let last = last.last().unwrap();
        for frame in (0..LARGEST_TREE).step_by(2) {
            system.free(two, Release::frame(Index(frame))).unwrap();
        }
        let release = Release::block(crate::Block::new(last, block));
        system.free(one, release).unwrap();
        assert_eq!(system.buffered_frames(CpuId(1)), 512);
        let keeper = |order| system.keeper(CpuId(0), order).map(|kept| kept.cpu);
        assert_eq!(keeper(Order::ZERO), Some(CpuId(2)));
        assert_eq!(keeper(block), Some(CpuId(1)));
    });
}
