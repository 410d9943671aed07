//! The words against plain arrays, and the tree against a plain model.

use std::mem::MaybeUninit;
use std::vec::Vec;

use super::word::{VERSION, WITHDRAWN, WordBlock, WordLevel};
use crate::error::{FreeError, RegionError};
use crate::frame::{Index, Order, Pfn};
use crate::platform::{Native, NativeCpus};
use crate::region::FrameRange;
use crate::request::{Release, Request};
use crate::systems::{Nbbs, Options, System, build, layout};
use crate::testing::{Random, order};
use crate::{Block, CpuId, FrameAllocator, FrameState, Memory, Setup};

#[test]
fn an_order_belongs_to_the_level_whose_words_have_its_blocks() {
    let levels: Vec<u32> = (0..=18).map(|size| WordLevel::of(order(size)).0).collect();
    let expected = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4];
    assert_eq!(levels, expected);
    for size in (0..=18).map(order) {
        let level = WordLevel::of(size);
        let part = level.part(3 * Order::LIMIT.frames() + size.frames(), size);
        assert_eq!(level.order(part), size);
        assert!(part.size <= level.whole().size && (level.0 == 0 || part.size > 0));
    }
}

/// The blocks of a word as an array: for each unit the block that it belongs to.
struct Plain(Vec<Option<WordBlock>>);

impl Plain {
    fn put(&mut self, unit: u32, units: u32) {
        for block in Block::cover(Index(unit), units, Order::LIMIT) {
            let (unit, size) = (block.start.0, block.order.get().into());
            let part = WordBlock { unit, size };
            self.0[unit as usize..][..part.units() as usize].fill(Some(part));
        }
    }

    fn remove(&mut self, unit: u32, units: u32) -> bool {
        let run = unit..unit + units;
        if !run.clone().all(|unit| self.0[unit as usize].is_some()) {
            return false;
        }
        let mut parts: Vec<WordBlock> = run
            .clone()
            .filter_map(|unit| self.0[unit as usize])
            .collect();
        parts.dedup();
        for part in parts {
            let (start, end) = (part.unit, part.unit + part.units());
            self.0[start as usize..end as usize].fill(None);
            self.put(start, unit.saturating_sub(start));
            self.put(run.end, end.saturating_sub(run.end));
        }
        true
    }
}

#[test]
fn a_lowest_word_does_what_an_array_of_blocks_does() {
    let level = WordLevel::BOTTOM;
    let mut random = Random(1);
    let mut plain = Plain(std::vec![None; 32]);
    let mut word = 7 * VERSION;
    for step in 0..20_000 {
        let (unit, units) = (random.below(32), 1 + random.below(12));
        let units = units.min(32 - unit);
        let run = || unit as usize..(unit + units) as usize;
        if plain.0[run()].iter().all(Option::is_none) {
            assert_eq!(level.free(word) >> unit & 1, 1);
            word = level.with(word, level.run(unit, units));
            plain.put(unit, units);
        } else {
            let left = level.without_run(word, unit, units);
            assert_eq!(left.is_some(), plain.remove(unit, units), "step {step}");
            word = left.unwrap_or(word);
            if level.is_empty(word) {
                assert_eq!(word, 0);
                word = level.emptied(word, (9 * VERSION) | 0xffff);
                assert_eq!(word, 9 * VERSION);
            }
        }
        for at in 0..32 {
            assert_eq!(
                level.block_at(word, at),
                plain.0[at as usize],
                "{at} at {step}"
            );
            for size in 0..=5 {
                let part = WordBlock {
                    unit: at >> size << size,
                    size,
                };
                let is_block = plain.0[part.unit as usize] == Some(part);
                assert_eq!(level.freed(word, part).is_some(), is_block, "{part:?}");
            }
        }
    }
}

#[test]
fn a_block_is_narrowed_to_two_units_without_losing_any() {
    let level = WordLevel(2);
    for size in 1..=4 {
        for unit in 0..16 {
            let block = WordBlock {
                unit: unit >> size << size,
                size,
            };
            let word = level.block(block) | (5 * VERSION);
            assert_eq!(level.block_over(word, unit), Some(block));
            let narrow = level.narrowed(word, block, unit);
            let pair = WordBlock {
                unit: unit & !1,
                size: 1,
            };
            assert_eq!(level.block_over(narrow, unit), Some(pair));
            assert_eq!(level.occupied(narrow), level.occupied(word));
            for other in 0..16 {
                assert_eq!(
                    level.is_covered(narrow, other),
                    level.is_covered(word, other)
                );
            }
        }
    }
}

/// Runs `body` with a system of blocks up to `largest` on some CPUs.
fn with(
    ranges: &[FrameRange],
    largest: u8,
    cpus: u16,
    body: impl FnOnce(&dyn FrameAllocator<Native>, &NativeCpus),
) {
    let options = &Options {
        order: Some(order(largest)),
        ..Options::NONE
    };
    let setup = Setup::new(ranges, cpus);
    let layout = layout::<Nbbs, Native>(options, &setup).unwrap();
    let mut memory = std::vec![MaybeUninit::uninit(); Memory::room(layout)];
    let memory = Memory::new(&mut memory);
    body(
        build::<Nbbs, Native>(options, &setup, memory).unwrap(),
        &NativeCpus::new(cpus),
    );
}

#[test]
fn blocks_of_all_levels_are_divided_and_coalesced() {
    // Two largest blocks, of which the second has a hole at its end.
    let frames = 2 * u64::from(Order::LIMIT.frames());
    let ranges = [FrameRange::new(Pfn(0), frames - 5)];
    with(&ranges, 18, 1, |system, cpus| {
        let cpu = &mut cpus.claim(CpuId(0)).unwrap();
        let as_new = system.snapshot(cpu);
        assert_eq!(as_new.free_blocks[18], 1);
        let mut random = Random(2);
        let mut held: Vec<(u32, u32)> = Vec::new();
        for step in 0..3000 {
            if random.below(10) < 5 {
                let size = order(random.below(19) as u8);
                let frames = size.frames() - random.below(size.frames().div_ceil(2));
                if let Ok(start) = system.allocate(cpu, Request::frames(frames)) {
                    assert!(start.is_aligned(size));
                    held.push((start.0, frames));
                }
            } else if !held.is_empty() {
                let (start, frames) = held.swap_remove(random.below(held.len() as u32) as usize);
                let offset = random.below(frames);
                let length = 1 + random.below(frames - offset);
                let part = Release::frames(Index(start + offset), length);
                system.free(cpu, part).unwrap();
                assert_eq!(system.free(cpu, part), Err(FreeError::NotAllocated));
                let rest = [
                    (start, offset),
                    (start + offset + length, frames - offset - length),
                ];
                held.extend(rest.into_iter().filter(|(_, frames)| *frames > 0));
            }
            if step % 100 == 0 {
                let allocated: u64 = held.iter().map(|(_, frames)| u64::from(*frames)).sum();
                assert_eq!(system.check(cpu).unwrap().allocated, allocated);
            }
        }
        for (start, frames) in held {
            system
                .free(cpu, Release::frames(Index(start), frames))
                .unwrap();
        }
        assert_eq!(system.check(cpu).unwrap().allocated, 0);
        assert_eq!(system.snapshot(cpu), as_new);
    });
}

#[test]
fn a_part_of_a_block_leaves_blocks_that_can_be_freed_by_their_orders() {
    with(
        &[FrameRange::new(Pfn(0), 1 << 14)],
        14,
        1,
        |system, cpus| {
            let cpu = &mut cpus.claim(CpuId(0)).unwrap();
            let all = system.allocate(cpu, Request::order(order(14))).unwrap();
            assert_eq!(all, Index(0));
            system.free(cpu, Release::frames(Index(0), 1)).unwrap();
            for size in 0..14 {
                let head = Index(1 << size);
                let order = order(size);
                let state = Some(FrameState::Allocated { head, order });
                assert_eq!(system.frame_state(Index(2 * head.0 - 1)), state);
                let wrong = Release::block(Block::new(head, order.down()));
                let error = Err(FreeError::WrongOrder { allocated: order });
                if size > 0 {
                    assert_eq!(system.free(cpu, wrong), error);
                }
                system.check(cpu).unwrap();
                system
                    .free(cpu, Release::block(Block::new(head, order)))
                    .unwrap();
                let free = FrameState::Free { head: Index(0) };
                assert_eq!(system.frame_state(head), Some(free), "coalesced");
            }
            assert_eq!(system.snapshot(cpu).free_blocks[14], 1);
        },
    );
}

#[test]
fn the_lowest_place_after_the_start_is_taken_first() {
    with(&[FrameRange::new(Pfn(0), 4096)], 10, 1, |system, cpus| {
        let cpu = &mut cpus.claim(CpuId(0)).unwrap();
        let mut frame = || system.allocate(cpu, Request::FRAME).unwrap();
        let frames: Vec<u32> = (0..200).map(|_| frame().0).collect();
        assert_eq!(frames, (0..200).collect::<Vec<_>>());
        for freed in [150, 7, 90] {
            system.free(cpu, Release::frame(Index(freed))).unwrap();
        }
        let mut frame = || system.allocate(cpu, Request::FRAME).unwrap();
        let frames: Vec<u32> = (0..4).map(|_| frame().0).collect();
        assert_eq!(frames, [7, 90, 150, 200]);
    });
}

#[test]
fn cpus_start_far_from_each_other() {
    with(
        &[FrameRange::new(Pfn(0), 1 << 14)],
        10,
        3,
        |system, cpus| {
            let starts = [0, 1, 2].map(|id| {
                let cpu = &mut cpus.claim(CpuId(id)).unwrap();
                system.allocate(cpu, Request::FRAME).unwrap().0
            });
            assert_eq!(starts, [0, 4096, 8192]);
        },
    );
}

/// The bit of the withdrawn frames goes when the last frame of the word is free, and not with the withdrawn frames.
#[test]
fn a_word_with_withdrawn_frames_serves_the_others() {
    with(&[FrameRange::new(Pfn(0), 64)], 6, 1, |system, cpus| {
        let cpu = &mut cpus.claim(CpuId(0)).unwrap();
        system.reserve(cpu, FrameRange::new(Pfn(3), 1)).unwrap();
        let block = system.allocate(cpu, Request::order(order(4))).unwrap();
        assert_eq!(block, Index(16));
        let frames: Vec<u32> = (0..15)
            .map(|_| system.allocate(cpu, Request::FRAME).unwrap().0)
            .collect();
        assert!(!frames.contains(&3) && frames.iter().all(|frame| *frame < 16));
        let refused = |cpu: &mut _, frame, error| {
            assert_eq!(system.free(cpu, Release::frame(Index(frame))), Err(error));
            let run = Release::frames(Index(frame), 1);
            assert_eq!(system.free(cpu, run), Err(error));
        };
        refused(cpu, 3, FreeError::Reserved);
        system.check(cpu).unwrap();
        system.unreserve(cpu, FrameRange::new(Pfn(3), 1)).unwrap();
        refused(cpu, 3, FreeError::NotAllocated);
        system
            .free(cpu, Release::block(Block::new(block, order(4))))
            .unwrap();
        for frame in frames {
            system.free(cpu, Release::frame(Index(frame))).unwrap();
        }
        system.check(cpu).unwrap();
        assert_eq!(system.snapshot(cpu).free_blocks[6], 1);
        assert_eq!(WITHDRAWN & VERSION, 0);
    });
}

#[test]
fn a_range_that_is_partly_in_use_is_neither_allocated_nor_withdrawn() {
    with(&[FrameRange::new(Pfn(0), 256)], 6, 1, |system, cpus| {
        let cpu = &mut cpus.claim(CpuId(0)).unwrap();
        system
            .allocate_at(cpu, FrameRange::new(Pfn(150), 1))
            .unwrap();
        let census = system.check(cpu).unwrap();
        let range = FrameRange::new(Pfn(3), 200);
        let in_use = RegionError::NotFree(Pfn(150));
        assert_eq!(system.allocate_at(cpu, range), Err(in_use));
        assert_eq!(system.reserve(cpu, range), Err(in_use));
        assert_eq!(system.remove(cpu, range), Err(in_use));
        assert_eq!(system.check(cpu).unwrap(), census);
        assert_eq!(system.snapshot(cpu).free_blocks[6], 3);
        // A block that is free in all its parts, and one that is free as a whole.
        let start = system
            .allocate_at(cpu, FrameRange::new(Pfn(64), 64))
            .unwrap();
        let block = Release::block(Block::new(start, order(6)));
        assert_eq!(system.free(cpu, block), Ok(()));
    });
}

#[test]
fn a_search_goes_on_right_after_a_large_block() {
    with(&[FrameRange::new(Pfn(0), 8192)], 13, 1, |system, cpus| {
        let cpu = &mut cpus.claim(CpuId(0)).unwrap();
        let mut block = |size| {
            let block = system.allocate(cpu, Request::order(order(size)));
            block.unwrap().0
        };
        assert_eq!([block(11), block(6), block(0)], [0, 2048, 2112]);
        assert_eq!([block(5), block(7), block(10)], [2144, 2176, 3072]);
    });
}

#[test]
fn a_free_counts_for_larger_blocks_if_it_empties_a_word() {
    let ranges = [FrameRange::new(Pfn(0), 256)];
    let setup = Setup::new(&ranges, 1);
    let mut memory = std::vec![MaybeUninit::uninit(); Nbbs::room(&setup).unwrap()];
    let system = Nbbs::build(&setup, &mut memory[..]).unwrap();
    let cpus = NativeCpus::new(1);
    let cpu = &mut cpus.claim(CpuId(0)).unwrap();
    let counts = || [false, true].map(|large| system.search.counted(large));
    let mut before = counts();
    let mut rise = || {
        let now = counts();
        let rise = [now[0] - before[0], now[1] - before[1]];
        before = now;
        rise
    };
    let [a, b] = [(); 2].map(|()| system.allocate(cpu, Request::FRAME).unwrap());
    let large = system.allocate(cpu, Request::order(order(7))).unwrap();
    assert_eq!(rise(), [0, 0]);
    system.free(cpu, Release::frame(a)).unwrap();
    assert_eq!(rise(), [1, 0]);
    system.free_nested(CpuId(0), Release::frame(b)).unwrap();
    assert_eq!(rise(), [1, 1]);
    let large = Release::block(Block::new(large, order(7)));
    system.free(cpu, large).unwrap();
    assert_eq!(rise(), [1, 1]);
    assert_eq!(system.free(cpu, large), Err(FreeError::NotAllocated));
    assert_eq!(rise(), [0, 0]);
}
