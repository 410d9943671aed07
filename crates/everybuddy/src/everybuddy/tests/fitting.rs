//! Which blocks small requests take after one was refused.

use super::*;

/// Calls `body` with a system of `trees` trees of `tree` frames, all of which are allocated frame by frame, but not the
/// runs of `free`, which were freed after a request was refused.
fn with_free_runs(
    (trees, tree): (u32, u32),
    free: &[(u32, u32)],
    body: impl FnOnce(&Trees<'_>, &mut Cpu),
) {
    with_cpus((trees * tree, 0), (Some(tree), 6), |system, [cpu]| {
        allocate_frames(system, cpu, trees * tree);
        let refused = system.allocate(cpu, Request::FRAME);
        assert_eq!(refused, EXHAUSTED);
        for (start, frames) in free {
            free_into_tree(system, cpu, *start, *frames);
        }
        body(system, cpu);
        system.check(cpu).unwrap();
    });
}

#[test]
fn the_smallest_block_is_taken_wherever_it_lies() {
    let free = [(0, 8), (64, 4), (266, 2), (600, 1)];
    with_free_runs((4, 256), &free, |system, cpu| {
        let mut take = |size| system.allocate(cpu, Request::order(order(size)));
        assert_eq!(take(1), Ok(Index(266)));
        assert_eq!(take(0), Ok(Index(600)));
        assert_eq!(take(1), Ok(Index(64)));
        assert_eq!(take(0), Ok(Index(66)));
        assert_eq!(take(0), Ok(Index(67)));
        assert_eq!(take(3), Ok(Index(0)));
        assert_eq!(take(0), Err(AllocateError::Exhausted));
    });
}

/// A request that may not wait releases no tree when it is refused while another CPU runs.
#[test]
fn a_cpu_has_no_current_tree_in_a_shortage() {
    with_cpus((4 * 256, 0), (Some(256), 6), |system, [cpu, other]| {
        allocate_frames(system, cpu, 4 * 256);
        let hasty = Request::FRAME.with_flags(Flags::NO_WAIT);
        let refused = system.allocate(other, hasty);
        assert_eq!(refused, Err(AllocateError::Busy));
        for (start, frames) in [(768, 2), (838, 1)] {
            let run = Release::frames(Index(start), frames);
            system.free(cpu, run).unwrap();
        }
        let hasty = Request::order(order(5)).with_flags(Flags::NO_WAIT);
        let refused = system.allocate(cpu, hasty);
        assert_eq!(refused, Err(AllocateError::Busy));
        assert!(system.locals[0].own_trees().any(|own| own == 3));
        // Address would choose the pair.
        for expected in [838, 768] {
            let frame = system.allocate(cpu, Request::FRAME);
            assert_eq!(frame, Ok(Index(expected)));
        }
    });
}

#[test]
fn address_decides_again_when_there_is_room() {
    let free = [(0, 2), (70, 1), (130, 1), (640, 64)];
    with_free_runs((4, 256), &free, |system, cpu| {
        system.local(CpuId(0)).unwrap().fitting.look_from(0);
        // The third request sees the word that is wholly free.
        for expected in [70, 130, 0, 1] {
            let frame = system.allocate(cpu, Request::FRAME);
            assert_eq!(frame, Ok(Index(expected)));
        }
    });
}

/// What counts are free frames, and blocks of 16 more, wherever they lie.
#[test]
fn a_shortage_ends_by_many_frames_or_by_few_blocks() {
    let spread = |every: u32, count: u32| {
        let words = (0..1024 / every).map(move |word| word * every);
        words.flat_map(move |word| (0..count).map(move |frame| (word + 2 * frame, 1)))
    };
    let blocks = |every: u32| (0..1024 / every).map(move |word| (word * every + 16, 16));
    let cases = [
        (spread(64, 11).collect::<Vec<(u32, u32)>>(), false),
        (spread(64, 12).collect(), true),
        (blocks(1024).collect(), false),
        (blocks(128).collect(), true),
    ];
    for (free, is_over) in cases {
        with_free_runs((4, 256), &free, |system, _| {
            let fitting = &system.local(CpuId(0)).unwrap().fitting;
            for _ in 0..2000 {
                fitting.look(&system.shared.trees);
            }
            assert_eq!(!fitting.is_on(), is_over, "{} runs", free.len());
        });
    }
}

#[test]
fn holes_are_neither_room_nor_a_shortage() {
    // Of 64 trees, two are present. All of their frames but 8 words, or but half a word, are allocated.
    let (tree, trees) = (1024, 64);
    let holes = (trees - 2) * tree / 2;
    for (allocated, is_short) in [(2 * tree - 8 * WORD, false), (2 * tree - WORD / 2, true)] {
        with_cpus((trees * tree, holes), (Some(tree), 10), |system, [cpu]| {
            allocate_frames(system, cpu, allocated);
            let fitting = &system.local(CpuId(0)).unwrap().fitting;
            let look = |looks| {
                (0..looks)
                    .map(|_| fitting.look(&system.shared.trees))
                    .last()
            };
            fitting.begin();
            look(2000);
            assert_eq!(fitting.is_on(), is_short);
            assert_eq!(look(2000), Some(false), "it is on, or does not begin");
        });
    }
}

/// Where trees are single words, what a division drops would be room for as many frames as end a shortage.
#[test]
fn a_shortage_goes_on_where_a_quarter_of_the_words_is_full() {
    for tree in [64, 128, 256] {
        let words = (0..64 * tree).step_by(64);
        let free: Vec<_> = words
            .filter(|word| word / tree % 4 != 0)
            .map(|word| (word + 5, 1))
            .collect();
        with_free_runs((64, tree), &free, |system, _| {
            let fitting = &system.local(CpuId(0)).unwrap().fitting;
            assert!(fitting.is_on());
            for _ in 0..2000 {
                fitting.look(&system.shared.trees);
            }
            assert!(fitting.is_on(), "trees of {tree} frames");
        });
    }
}

/// Blocks that are wholly allocated, and requests for other runs of frames, do not prolong a shortage.
#[test]
fn a_shortage_ends_beside_large_blocks_and_for_odd_runs() {
    // Trees of 64 words: the first eight stay allocated, others are wholly free or have a free frame.
    let words = |from: u32, to: u32| (from..to).map(|word| (word * 64, 64));
    let free: Vec<_> = words(8, 72)
        .chain((72..128).map(|word| (word * 64, 1)))
        .collect();
    for frames in [1, 3] {
        with_free_runs((2, 4096), &free, |system, cpu| {
            let fitting = &system.local(CpuId(0)).unwrap().fitting;
            assert!(fitting.is_on());
            for _ in 0..64 {
                system.allocate(cpu, Request::frames(frames)).unwrap();
            }
            assert!(!fitting.is_on(), "{frames} frames");
        });
    }
}

#[test]
fn a_request_looks_at_some_trees_and_the_next_one_at_others() {
    let pairs = (0..8).map(|tree| (tree * 128, 2));
    let free: Vec<_> = pairs.chain([(70 * 128 + 9, 1)]).collect();
    with_free_runs((200, 128), &free, |system, cpu| {
        system.local(CpuId(0)).unwrap().fitting.look_from(0);
        for expected in [0, 1, 70 * 128 + 9] {
            let frame = system.allocate(cpu, Request::FRAME);
            assert_eq!(frame, Ok(Index(expected)));
        }
    });
}

/// Where only pairs are free, requests for frames search in vain every other time.
#[test]
fn searches_that_find_no_block_of_the_size_become_rare() {
    let free: Vec<_> = (0..200).map(|tree| (tree * 128, 2)).collect();
    with_free_runs((200, 128), &free, |system, cpu| {
        let fitting = &system.local(CpuId(0)).unwrap().fitting;
        let mut pauses = Vec::new();
        for _ in 0..60 {
            system.allocate(cpu, Request::FRAME).unwrap();
            pauses.push(fitting.paused());
        }
        assert!(pauses.iter().take(14).all(|pause| *pause == 0));
        assert!(pauses.iter().any(|pause| *pause >= 4), "{pauses:?}");
        // With the next shortage, they are frequent again.
        fitting.begin();
        for _ in 0..14 {
            assert_eq!(fitting.paused(), 0);
            system.allocate(cpu, Request::FRAME).unwrap();
        }
    });
}

#[test]
fn a_pause_has_at_most_1024_requests() {
    // Ten pairs in every other word.
    let pairs = (0..400 * 10).map(|pair| (pair / 10 * 128 + pair % 10 * 4, 2));
    let free: Vec<_> = pairs.collect();
    with_free_runs((400, 128), &free, |system, cpu| {
        let fitting = &system.local(CpuId(0)).unwrap().fitting;
        let pauses = (0..8000).map(|_| {
            system.allocate(cpu, Request::FRAME).unwrap();
            fitting.paused()
        });
        assert_eq!(pauses.max(), Some(1024));
    });
}

#[test]
fn searches_that_find_nothing_do_not_become_rare() {
    with_free_runs((4, 256), &[], |system, cpu| {
        for frame in 0..20 {
            // The last refusal is forgotten, but no four frames are a block.
            let release = Release::frames(Index(2 * frame + 1), 1);
            system.free(cpu, release).unwrap();
            let refused = system.allocate(cpu, Request::order(order(2)));
            assert_eq!(refused, EXHAUSTED);
        }
        let fitting = &system.local(CpuId(0)).unwrap().fitting;
        assert_eq!((fitting.is_on(), fitting.paused()), (true, 0));
    });
}

#[test]
fn returned_frames_are_found_by_fit() {
    with_free_runs((4, 128), &[(0, 4)], |system, cpu| {
        // The tree has no owner, so the next search by fit can claim and collect it.
        system.drain(cpu);
        let nested = system.free_nested(CpuId(0), Release::frame(Index(20)));
        nested.unwrap();
        assert_eq!(system.allocate(cpu, Request::FRAME), Ok(Index(20)));
        assert_eq!(system.allocate(cpu, Request::order(order(2))), Ok(Index(0)));
    });
}

/// Of 31 requests, 16 are for a frame, and one is for 16 frames.
fn even(random: &mut Random) -> usize {
    4 - (1 + random.below(31)).ilog2() as usize
}

/// Of 1,000 requests, 16 are for several frames.
fn mostly_single(random: &mut Random) -> usize {
    match random.below(1000) {
        0..16 => 1 + random.below(4) as usize,
        _ => 0,
    }
}

/// Blocks of 1 to 16 frames replace each other at random. Returns the share of requests of each order that are refused,
/// in percent.
fn refused_when_full(percent: u32, order_of: fn(&mut Random) -> usize) -> [u32; 5] {
    const FRAMES: u32 = 1 << 16;
    let mut shares = [0; 5];
    with_cpus::<2>((FRAMES, 0), (None, 10), |system, [cpu, ..]| {
        let (mut held, mut free, mut random) = (Vec::new(), FRAMES, Random(1));
        let (mut requests, mut refused) = ([0_u32; 5], [0_u32; 5]);
        let mut must_free = false;
        for step in 0..5 * FRAMES {
            while must_free || (FRAMES - free) * 100 >= FRAMES * percent {
                let index = random.below(held.len() as u32) as usize;
                let block: crate::Block = held.swap_remove(index);
                system.free(cpu, Release::block(block)).unwrap();
                free += block.order.frames();
                must_free = false;
            }
            let size = order_of(&mut random);
            let is_counted = u32::from(step >= 3 * FRAMES);
            requests[size] += is_counted;
            match system.allocate(cpu, Request::order(order(size as u8))) {
                Ok(start) => {
                    let block = crate::Block::new(start, order(size as u8));
                    held.push(block);
                    free -= block.order.frames();
                }
                Err(error) => {
                    assert_eq!(error, AllocateError::Exhausted);
                    refused[size] += is_counted;
                    must_free = true;
                }
            }
        }
        system.check(cpu).unwrap();
        for ((share, refused), requests) in shares.iter_mut().zip(refused).zip(requests) {
            *share = (refused * 100).div_ceil(requests);
        }
    });
    shares
}

#[test]
fn requests_for_a_few_frames_are_served_in_nearly_full_memory() {
    let [zero, one, two, three, four] = refused_when_full(90, even);
    assert_eq!([zero, one, two, three], [0; 4]);
    assert!(four <= 1, "{four} % refused");
    let [zero, one, two, three, four] = refused_when_full(99, even);
    assert_eq!([zero, one, two], [0; 3]);
    // By address, nearly all of them are refused.
    assert!(three <= 2 && four <= 40, "{three} % and {four} % refused");
    // Frames do not use up the blocks, although no request was refused yet.
    for percent in [90, 98] {
        let [zero, one, two, three, four] = refused_when_full(percent, mostly_single);
        assert_eq!([zero, one, two, three], [0; 4]);
        // Frames in the list are in use for the others.
        assert!(four <= 1, "{four} % refused");
    }
}

#[test]
fn the_smallest_block_of_a_word_is_what_a_naive_search_finds() {
    let naive = |free: u64, least: u32| {
        let is_free = |at: u32, size: u32| {
            let block = crate::bit_runs::first(1 << size);
            size <= 6 && free >> at & block == block
        };
        (least..=6).find_map(|size| {
            let mut starts = (0..WORD).step_by(1 << size);
            let is_single = |at: &u32| {
                let larger = at & !((2 << size) - 1);
                is_free(*at, size) && (size == 6 || !is_free(larger, size + 1))
            };
            starts.find(is_single).map(|at| (order(size as u8), at))
        })
    };
    let mut random = Random(3);
    let mut word = || (0..4).fold(0, |word, _| word << 16 | u64::from(random.below(1 << 16)));
    let mut words = vec![0, u64::MAX, u64::MAX >> 32, 1, 1 << 63];
    for _ in 0..500 {
        let (one, other) = (word(), word());
        // Sparse words, dense ones, and runs.
        words.extend([one, one & other, one | other, one | one << 1 | one << 2]);
        words.extend([u64::MAX << (one % 64) & u64::MAX >> (other % 64)]);
    }
    for free in words {
        for least in 0..=6 {
            let found = crate::bit_runs::smallest_block(free, order(least as u8));
            assert_eq!(found, naive(free, least), "{free:#x}, order {least}");
        }
    }
}
