//! Single steps of requests, frees and checks, which no test of whole operations would notice.

use super::*;
use crate::platform::{AtomicWord, Ordering, SharedCell};

const TREE: u32 = 128;

fn block(order: u8) -> Request {
    Request::order(Order::new(order).unwrap())
}

fn two(frames: u32, tree: u32, body: impl FnOnce(&Trees<'_>, &mut Cpu, &mut Cpu)) {
    with_cpus((frames, 0), (Some(tree), 7), |system, [zero, one]| {
        body(system, zero, one);
    });
}

/// Allocates all memory as CPU 0.
fn fill(system: &Trees<'_>, zero: &mut Cpu) {
    allocate_frames(system, zero, system.span.frames());
}

#[test]
fn a_refusal_is_remembered_only_if_no_free_was_counted_and_no_smaller_one_is_known() {
    two(4 * TREE, TREE, |system, _, _| {
        let refused = &system.requests.refused;
        let moment = refused.moment();
        refused.remember(moment, order(1), 8);
        refused.remember(moment, order(2), 8);
        assert_eq!(refused.order(), Order::new(1));
        refused.forget();
        assert_eq!(refused.order(), None);
        refused.remember(moment, order(1), 8);
        assert_eq!(refused.order(), None);
    });
}

#[test]
fn a_refusal_during_a_nested_free_is_not_remembered() {
    two(4 * TREE, TREE, |system, zero, _| {
        fill(system, zero);
        let order = || system.requests.refused.order();
        system.with_nested_free(&system.locals[1], (0, 1), || {
            assert_eq!(system.allocate(zero, block(1)), EXHAUSTED);
            assert_eq!(order(), None);
        });
        assert_eq!(system.allocate(zero, block(1)), EXHAUSTED);
        assert_eq!(order(), Order::new(1));
    });
}

#[test]
fn a_nested_free_is_counted_while_a_request_is_pending() {
    two(4 * TREE, TREE, |system, zero, _| {
        fill(system, zero);
        let moment = || system.requests.refused.moment();
        let before = moment();
        system.requests.drains.count.store(1, Ordering::Relaxed);
        system
            .free_nested(CpuId(1), Release::frame(Index(1)))
            .unwrap();
        system.requests.drains.count.store(0, Ordering::Relaxed);
        assert_eq!(moment(), before + 1);
    });
}

#[test]
fn a_remembered_refusal_begins_a_shortage() {
    two(4 * TREE, TREE, |system, zero, one| {
        fill(system, zero);
        assert_eq!(system.allocate(zero, block(1)), EXHAUSTED);
        assert!(!system.locals[1].fitting.is_on());
        assert_eq!(system.allocate(one, block(1)), EXHAUSTED);
        assert!(system.locals[1].fitting.is_on());
    });
}

/// Calls `body` where all memory is allocated, no CPU owns a tree, and CPU 0 has frame 3 in its list.
fn with_listed_only(body: impl FnOnce(&Trees<'_>, &mut Cpu, &mut Cpu)) {
    with_system((4 * TREE, 0), 2, (Some(TREE), 7), |system: &Trees<'_>| {
        let set = NativeCpus::new(2);
        let [mut zero, mut one] = [0, 1].map(|cpu| set.claim(CpuId(cpu)).unwrap());
        allocate_frames(system, &mut zero, 4 * TREE);
        system.free(&mut zero, Release::frame(Index(3))).unwrap();
        let local = &system.locals[0];
        for tree in local.own_trees().collect::<Vec<_>>() {
            local.release_own(&system.shared, tree);
        }
        assert_eq!(system.buffered_frames(CpuId(0)), 1);
        body(system, &mut zero, &mut one);
    });
}

#[test]
fn a_request_is_busy_where_only_a_running_cpus_list_has_a_frame() {
    with_listed_only(|system, _, one| {
        let nested = system.allocate_nested(CpuId(1), Request::FRAME);
        assert_eq!(nested, BUSY);
        assert_eq!(system.allocate(one, Request::FRAME), BUSY);
    });
}

#[test]
fn a_range_asks_for_lists_and_is_withdrawn_only_without_them() {
    with_listed_only(|system, _, one| {
        let epoch = || system.requests.drains.epoch.load(Ordering::Relaxed);
        let (chosen, before) = (FrameRange::new(Pfn(3), 1), epoch());
        assert_eq!(system.try_allocate_at(one, chosen), Err(RegionError::Busy));
        assert_eq!(epoch(), before);
        assert_eq!(system.allocate_at(one, chosen), Err(RegionError::Busy));
        assert_eq!(epoch(), before + 1);
        assert_eq!(system.reserve(one, chosen), Err(RegionError::Busy));
    });
}

#[test]
fn try_allocate_at_asks_no_owner() {
    two(4 * TREE, TREE, |system, zero, one| {
        system.allocate(zero, Request::FRAME).unwrap();
        let before = system.requests.drains.epoch.load(Ordering::Relaxed);
        let taken = system.try_allocate_at(one, FrameRange::new(Pfn(3), 1));
        assert_eq!(taken, Err(RegionError::Busy));
        assert_eq!(system.requests.drains.epoch.load(Ordering::Relaxed), before);
    });
}

#[test]
fn a_nested_request_is_busy_because_of_another_nested_one() {
    two(TREE, TREE, |system, _, _| {
        system.shared.trees.headers[0]
            .owner
            .store(wanted::NESTED, Ordering::Relaxed);
        let nested = system.allocate_nested(CpuId(0), Request::FRAME);
        assert_eq!(nested, BUSY);
    });
}

/// A loop over the list must end although the identity stays closed.
#[test]
fn a_request_passes_over_the_list_while_another_one_is_pending() {
    with_listed_only(|system, zero, _| {
        system.requests.drains.count.store(1, Ordering::Relaxed);
        system.locals[0].close();
        let hasty = Request::FRAME.with_flags(Flags::NO_WAIT);
        assert_eq!(system.allocate(zero, hasty), Ok(Index(3)));
        assert_eq!(system.buffered_frames(CpuId(0)), 0);
        assert_eq!(system.locals[0].own_trees().count(), 0);
        system.requests.drains.count.store(0, Ordering::Relaxed);
    });
}

#[test]
fn fit_does_not_mix_kinds() {
    two(512, 256, |system, zero, _| {
        let movable = Request::FRAME.with_class(Class::Movable);
        for _ in 0..256 {
            system.allocate(zero, Request::FRAME).unwrap();
            system.allocate(zero, movable).unwrap();
        }
        assert_eq!(system.allocate(zero, Request::FRAME), EXHAUSTED);
        let movable = system.shared.trees.headers[1].is_for(Kind::Movable);
        let [own, other] = if movable { [0, 256] } else { [256, 0] };
        system.free(zero, Release::frames(Index(other), 2)).unwrap();
        system
            .free(zero, Release::frames(Index(own + 8), 4))
            .unwrap();
        assert_eq!(system.allocate(zero, block(1)), Ok(Index(own + 8)));
    });
}

#[test]
fn only_frees_below_the_point_count_and_only_since_its_return() {
    two(64 * TREE, TREE, |system, zero, _| {
        let place = system.locals[0].place(Kind::Staying);
        let list = singles(system, 0, Kind::Staying);
        system.allocate(zero, Request::FRAME).unwrap();
        let start = system.allocate(zero, block(5)).unwrap();
        let above = crate::Block::new(start, order(5));
        system.free(zero, Release::block(above)).unwrap();
        assert_eq!(place.passed.get(), 0);
        place.passed.set(7);
        system.locals[0].start_over(list, Kind::Staying);
        assert_eq!((list.point.get(), place.passed.get()), (0, 0));
    });
}

#[test]
fn a_request_that_misses_with_empty_lists_announces_what_the_cpu_keeps() {
    two(4 * TREE, TREE, |system, zero, one| {
        allocate_frames(system, zero, TREE);
        assert_eq!(system.allocate(one, Request::FRAME), Ok(Index(TREE)));
        // Above the first-fit point, so that they enter no list.
        singles(system, 1, Kind::Staying).point.set(0);
        for frame in [3, 4] {
            system.free(one, Release::frame(Index(frame))).unwrap();
        }
        let inbox = || system.shared.trees.headers[0].inbox.load(Ordering::Relaxed);
        // The first one of a word is freed immediately.
        assert_eq!(system.allocate(zero, Request::FRAME), Ok(Index(3)));
        for _ in 1..TREE {
            system.allocate(one, Request::FRAME).unwrap();
        }
        assert_eq!(inbox(), 0);
        assert_eq!(system.allocate(one, Request::FRAME), Ok(Index(2 * TREE)));
        assert_eq!(inbox(), 1);
    });
}

#[test]
fn a_large_block_takes_no_tree_away_where_a_cpu_has_two_slots() {
    two(4 * TREE, TREE, |system, zero, _| {
        allocate_frames(system, zero, TREE + 1);
        assert_eq!(system.allocate(zero, block(7)), Ok(Index(2 * TREE)));
        assert!(system.locals[0].own_trees().eq([0, 1]));
    });
}

#[test]
fn a_small_request_prefers_partly_free_trees_and_then_whole_words() {
    const TREE: u32 = 512;
    with_cpus((4 * TREE, 0), (Some(TREE), 9), |system, [cpu]| {
        fill(system, cpu);
        let free = [
            (5, 1),
            (TREE + 64, 64),
            (2 * TREE + 5, 1),
            (2 * TREE + 69, 1),
        ];
        for (start, frames) in free {
            system
                .free(cpu, Release::frames(Index(start), frames))
                .unwrap();
        }
        system.drain(cpu);
        assert!(!system.locals[0].fitting.is_on());
        for frame in [2 * TREE + 5, 2 * TREE + 69, TREE + 64] {
            assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(frame)));
        }
    });
}

#[test]
fn a_cpu_owns_at_most_4096_trees() {
    let max_order = Order::TEN;
    let ranges = [FrameRange::new(Pfn(0), 1 << 30)];
    let span = Span::covering(&ranges, max_order).unwrap();
    let geometry = Geometry {
        span,
        cpus: 1,
        max_order,
        tree: None,
    };
    assert_eq!(geometry.dimensions().owned(), 4096);
}

#[test]
fn searches_are_not_rare_for_ever() {
    with_cpus((200 * 128, 0), (Some(128), 6), |system, [cpu]| {
        fill(system, cpu);
        let refused = system.allocate(cpu, Request::FRAME);
        assert_eq!(refused, EXHAUSTED);
        // All in one tree, which the CPU then owns: it always has a suitable block.
        for pair in 0..30 {
            system
                .free(cpu, Release::frames(Index(4 * pair), 2))
                .unwrap();
        }
        let mut pauses = Vec::new();
        for _ in 0..60 {
            system.allocate(cpu, Request::FRAME).unwrap();
            pauses.push(system.locals[0].fitting.paused());
        }
        // While it pauses, the CPU does not look at trees of others.
        let is_over = |pair: &[u16]| pair[0] > 1 && pair[1] == pair[0] - 1;
        assert!(pauses.windows(2).any(is_over), "{pauses:?}");
    });
}

#[test]
fn the_check_finds_what_is_wrong() {
    type Break = fn(&Trees<'_>);
    let breaks: [(&str, Break); 6] = [
        ("refused", |system| {
            assert!(system.requests.refused.remember(0, Order::ZERO, 8));
        }),
        ("places", |system| {
            system.locals[0].place(Kind::Staying).current.set(3)
        }),
        ("returned", |system| {
            assert!(system.shared.trees.words[0].post(1))
        }),
        ("remembered", |system| {
            system.shared.trees.headers[1].note_failed(order(1), 1);
        }),
        ("marked", |system| {
            system.shared.spent[0].store(1 << 2, Ordering::Relaxed);
            system.shared.trees.headers[2].marked.set(1);
        }),
        ("says marked", |system| {
            system.shared.spent[0].store(1, Ordering::Relaxed)
        }),
    ];
    for (name, make) in breaks {
        with_cpus((4 * TREE, 0), (Some(TREE), 7), |system, [cpu]| {
            allocate_frames(system, cpu, TREE + 1);
            system.check(cpu).unwrap();
            make(system);
            assert!(system.check(cpu).is_err(), "{name}");
        });
    }
}

#[test]
fn the_tree_from_which_a_cpu_allocates_small_blocks_is_kept_when_it_is_whole() {
    const TREE: u32 = 512;
    with_cpus((64 * TREE, 0), (Some(TREE), 9), |system, [cpu]| {
        allocate_frames(system, cpu, 10 * TREE);
        let order = order(5);
        let start = system.allocate(cpu, block(5)).unwrap();
        assert_eq!(start, Index(10 * TREE));
        let freed = Release::block(crate::Block::new(start, order));
        system.free(cpu, freed).unwrap();
        assert!(system.locals[0].own_trees().any(|own| own == 10));
    });
}

#[test]
fn a_tree_for_large_blocks_replaces_the_one_before_although_it_is_lower() {
    // 64 trees for seven CPUs, each of which owns at most eight.
    with_cpus::<7>((1 << 18, 0), (None, 10), |system, [cpu, ..]| {
        let mut blocks: Vec<_> = (0..12)
            .map(|_| system.allocate(cpu, block(10)).unwrap().0)
            .collect();
        allocate_frames(system, cpu, 8 * 4096);
        let small = || system.locals[0].own_trees().filter(|own| *own >= 3).count();
        assert_eq!(small(), 8);
        // One of each tree in turn, so that the CPU does not become the owner.
        blocks.sort_by_key(|start| start % 4096);
        for start in blocks {
            let freed = crate::Block::new(Index(start), Order::TEN);
            system.free(cpu, Release::block(freed)).unwrap();
        }
        for start in (0..12).map(|block| block * 1024) {
            assert_eq!(system.allocate(cpu, block(10)), Ok(Index(start)));
        }
        assert_eq!(small(), 7);
    });
}

#[test]
fn a_run_of_a_tree_and_a_part_leaves_what_is_known_of_the_rest() {
    const TREE: u32 = 256;
    with_cpus((4 * TREE, 0), (Some(TREE), 9), |system, [zero, one]| {
        fill(system, zero);
        // The other CPU returns this frame, in the last tree of the run, which the CPU owns.
        let kept = Release::frame(Index(3 * TREE + 69));
        system.free(one, kept).unwrap();
        let frames = TREE + 64;
        let run = Release::frames(Index(2 * TREE), frames);
        system.free(zero, run).unwrap();
        let movable = Request::frames(frames).with_class(Class::Movable);
        assert_eq!(system.allocate(zero, movable), Ok(Index(2 * TREE)));
        let [first, last] = [2, 3].map(|tree| &system.shared.trees.headers[tree]);
        assert!(first.is_for(Kind::Movable) && last.is_for(Kind::Staying));
    });
}

/// In the search while a CPU owns all trees.
#[test]
fn a_block_of_several_own_trees_may_be_the_last_one() {
    with_system((6 * TREE, 0), 1, (Some(TREE), 8), |system| {
        let (shared, order) = (&system.shared, order(8));
        let last = shared.trees.count() - 1;
        assert!(shared.claim_all(1, 0, last, false));
        let take = |frames| {
            let kind = Kind::Staying;
            shared.take_own_trees(Wanted {
                frames,
                order,
                kind,
            })
        };
        let taken = [2 * TREE, TREE + 1, 2 * TREE, TREE + 1].map(take);
        assert_eq!(taken, [Some(0), Some(2 * TREE), Some(4 * TREE), None]);
        shared.release_all(0, last);
    });
}

#[test]
fn a_request_that_waits_is_busy_where_a_tree_stays_claimed() {
    two(TREE, TREE, |system, zero, _| {
        let owner = &system.shared.trees.headers[0].owner;
        owner.store(wanted::NESTED, Ordering::Relaxed);
        let busy = system.allocate(zero, Request::FRAME);
        assert_eq!(busy, Err(AllocateError::Busy));
        assert_eq!(system.requests.refused.order(), None);
        owner.store(0, Ordering::Relaxed);
        assert_eq!(system.allocate(zero, Request::FRAME), Ok(Index(0)));
    });
}

/// Otherwise it would own them while another request, whose epoch it acknowledged, is still pending.
#[test]
fn a_cpu_that_asked_keeps_no_tree_that_it_claimed_meanwhile() {
    two(4 * TREE, TREE, |system, cpu, _| {
        let (local, shared) = (&system.locals[0], &system.shared);
        system.with_all_drained(cpu, local, true, |all_drained| {
            assert!(all_drained);
            let header = &shared.trees.headers[2];
            assert!(shared.claim(header, local.id));
            local.adopt(shared, 2, Kind::Staying);
        });
        assert_eq!(local.own_trees().count(), 0);
        assert!(shared.is_unowned(&shared.trees.headers[2]));
    });
}

#[test]
fn a_hit_looks_at_all_split_words_before_whole_ones() {
    with_own_tree(|system, cpu| {
        for frame in 0..2 * WORD {
            assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(frame)));
        }
        assert_eq!(system.allocate(cpu, block(1)), Ok(Index(2 * WORD)));
        // The first word has a free frame, but no pair.
        for (start, frames) in [(1, 1), (WORD + 4, 2)] {
            free_into_tree(system, cpu, start, frames);
        }
        for start in [WORD + 4, 2 * WORD + 2] {
            assert_eq!(system.allocate(cpu, block(1)), Ok(Index(start)));
        }
    });
}

/// A guide says what the metadata take, and a CPU reads its state in each operation.
#[test]
fn the_state_of_a_cpu_is_four_cache_lines_and_its_lists() {
    let lists = core::mem::offset_of!(Local<'_, Native>, lists);
    assert_eq!(lists, 4 * 64);
    assert_eq!(size_of::<Local<'_, Native>>(), lists + 32 * HEADS_WITH_LIST);
}
