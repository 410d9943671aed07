//! Memory that has been in use: blocks become whole again, since CPUs allocate from low trees.

use super::geometry::SHORT_LIST;
use super::*;

/// The frames of a tree here.
const TREE: u32 = 1024;
/// The trees.
const TREES: u32 = 64;
/// The entries of a CPU's list of each kind.
const LIST: u32 = SHORT_LIST / 2;

/// Calls `body` with a CPU that has allocated the first `used` frames. Each of seven CPUs owns at most eight of 64
/// trees.
fn with_used(used: u32, body: impl FnOnce(&Trees<'_>, &mut Cpu)) {
    with_cpus::<7>((TREES * TREE, 0), (Some(TREE), 10), |system, [cpu, ..]| {
        for frame in 0..used {
            assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(frame)));
        }
        body(system, cpu);
        system.check(cpu).unwrap();
    });
}

/// The blocks of 512 frames that are free after random replacement where 40 % of memory is in use, which was 90 % full.
/// Of the blocks that are replaced, one in `large` has 8 frames.
fn blocks_after_replacement(large: u32) -> u32 {
    let used = TREES * TREE / 10 * 9;
    let mut blocks = 0;
    with_used(used, |system, cpu| {
        let mut random = Random(5);
        let three = order(3);
        let mut held: Vec<_> = (0..used).map(|frame| (Index(frame), Order::ZERO)).collect();
        let release = |(start, order)| Release::block(crate::Block::new(start, order));
        let frames = |held: &Vec<(Index, Order)>| held.len() as u32;
        while frames(&held) > TREES * TREE / 10 * 4 {
            let index = random.below(frames(&held)) as usize;
            system.free(cpu, release(held.swap_remove(index))).unwrap();
        }
        for _ in 0..400_000 {
            let index = random.below(frames(&held)) as usize;
            system.free(cpu, release(held[index])).unwrap();
            let order = if random.below(large) == 0 {
                three
            } else {
                Order::ZERO
            };
            held[index] = (system.allocate(cpu, Request::order(order)).unwrap(), order);
        }
        system.park(cpu);
        let free = system.snapshot(cpu);
        blocks = free.available_blocks(order(9)) as u32;
    });
    blocks
}

#[test]
fn large_blocks_become_whole_where_single_frames_are_replaced() {
    assert!(blocks_after_replacement(u32::MAX) >= 72);
}

#[test]
fn large_blocks_become_whole_where_blocks_of_several_orders_are_replaced() {
    assert!(blocks_after_replacement(50) >= 50);
}

#[test]
fn a_full_list_ends_allocation_from_a_high_tree() {
    // The list has the rest of the word that was taken last: here none.
    let used = 3 * TREE + 8 * WORD;
    with_used(used, |system, cpu| {
        for frame in 0..=LIST {
            system.free(cpu, Release::frame(Index(frame))).unwrap();
        }
        for frame in (0..LIST).rev() {
            assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(frame)));
        }
        // It entered no list.
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(LIST)));
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(used)));
    });
}

#[test]
fn blocks_that_enter_no_list_end_allocation_from_a_high_tree() {
    let used = 3 * TREE + 8 * WORD;
    let free = |system: &Trees<'_>, cpu: &mut Cpu, blocks: u32| {
        for block in 0..blocks {
            system
                .free(cpu, Release::frames(Index(block * 4), 4))
                .unwrap();
        }
    };
    with_used(used, |system, cpu| {
        free(system, cpu, LIST / 4 - 1);
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(used)));
    });
    with_used(used, |system, cpu| {
        free(system, cpu, LIST / 4);
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(0)));
    });
    // The same by a bulk.
    with_used(used, |system, cpu| {
        let releases: Vec<_> = (0..LIST)
            .map(|frame| Release::frame(Index(frame)))
            .collect();
        system.free_bulk(cpu, &releases).unwrap();
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(0)));
    });
}

#[test]
fn a_low_tree_of_no_cpu_comes_before_a_high_own_tree() {
    // The CPU owns the last eight trees that it used.
    with_used(60 * TREE, |system, cpu| {
        let local = system.local(CpuId(0)).unwrap();
        assert_eq!(local.own_trees().next(), Some(52));
        for tree in [5, 55] {
            for frame in (0..TREE).step_by(2) {
                let release = Release::frame(Index(tree * TREE + frame));
                system.free_nested(CpuId(0), release).unwrap();
            }
        }
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(5 * TREE)));
    });
}
