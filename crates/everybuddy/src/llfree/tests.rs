//! The bit fields and the lower level against plain models.

use std::boxed::Box;
use std::mem::MaybeUninit;
use std::vec::Vec;

use super::entry::Entries;
use super::field::{CHILD, CHILD_WORDS, Fields, Polarity};
use super::lower::Lower;
use crate::bit_runs::{find, first, first_block, part};
use crate::error::{FreeError, RegionError};
use crate::frame::{Index, Order, Pfn};
use crate::platform::{AtomicWord, Native, NativeAtomicU64, NativeCpus, Ordering};
use crate::region::FrameRange;
use crate::request::{Release, Request};
use crate::systems::{LlFree, System};
use crate::testing::{Random, order};
use crate::withdrawn::{Withdrawn, WithdrawnFrames};
use crate::{Block, CpuId, FrameAllocator, FrameState, Setup};

mod loads;

#[test]
fn runs_in_a_word_are_found_as_by_looking_at_each_place() {
    let mut random = Random(1);
    let mut words: Vec<u64> = (0..400)
        .map(|round| {
            let words = [(); 3].map(|()| random.next() << 31 ^ random.next() ^ random.next() << 62);
            // Few, half, or most bits are set.
            match round % 4 {
                0 => words[0] & words[1],
                1 => words[0],
                2 => words[0] | words[1],
                _ => words[0] | words[1] | words[2],
            }
        })
        .collect();
    words.extend([0, u64::MAX, 1, 1 << 63, !1, u64::MAX >> 1]);
    for word in words {
        for size in (0..=6).map(order) {
            for frames in size.frames() / 2 + 1..=size.frames() {
                let places = (0..64).step_by(size.frames() as usize);
                let fits = |at: &usize| word >> at & first(frames) == first(frames);
                let expected = places.clone().find(fits).map(|at| at as u32);
                assert_eq!(find(word, frames, size), expected, "{word:#x} {frames}");
            }
            let whole = find(word, size.frames(), size);
            assert_eq!(first_block(word, size), whole, "{word:#x} {size}");
        }
    }
}

#[test]
fn parts_of_a_run_are_its_bits() {
    let mut random = Random(2);
    for _ in 0..2000 {
        let offset = random.below(CHILD);
        let frames = 1 + random.below(CHILD - offset);
        for word in 0..CHILD_WORDS {
            let is_in = |bit: u32| (offset..offset + frames).contains(&(word * 64 + bit));
            let expected = (0..64).fold(0, |all, bit| all | u64::from(is_in(bit)) << bit);
            assert_eq!(part(word, offset, frames), expected, "{offset} {frames}");
        }
    }
}

/// A child whose bits are compared with a plain array.
#[test]
fn a_field_does_what_a_plain_array_does() {
    for polarity in [Polarity::SET, Polarity::CLEAR] {
        let words: Vec<_> = (0..CHILD_WORDS)
            .map(|_| NativeAtomicU64::new(!polarity.0))
            .collect();
        let fields: Fields<'_, Native> = Fields { words: &words };
        let mut free = [true; CHILD as usize];
        let mut random = Random(3);
        let mut held: Vec<(u32, u32)> = Vec::new();
        for step in 0..4000 {
            let fill = if step % 800 < 500 { 6 } else { 3 };
            if random.below(10) < fill {
                let size = order(random.below(10) as u8);
                let frames = size.frames() - random.below(size.frames().div_ceil(2));
                let from = random.below(CHILD_WORDS);
                let can = (0..CHILD).step_by(size.frames() as usize).any(|at| {
                    free[at as usize..][..frames as usize]
                        .iter()
                        .all(|free| *free)
                });
                let candidate = fields.candidate(0, polarity, (frames, size), from);
                let taken = fields.take(0, polarity, (frames, size), from);
                assert_eq!((candidate.is_some(), taken.is_some()), (can, can));
                if let Some(at) = taken {
                    assert!(at.is_multiple_of(size.frames()));
                    for free in &mut free[at as usize..][..frames as usize] {
                        assert!(core::mem::take(free), "a frame was taken twice");
                    }
                    held.push((at, frames));
                }
            } else if !held.is_empty() {
                let (at, frames) = held.swap_remove(random.below(held.len() as u32) as usize);
                let offset = random.below(frames);
                let length = 1 + random.below(frames - offset);
                let nothing = |_| panic!("no other CPU took a frame");
                assert!(fields.free(0, polarity, (at + offset, length), nothing));
                free[(at + offset) as usize..][..length as usize].fill(true);
                // A run of which a part is free already.
                assert!(!fields.free(0, polarity, (at, frames), nothing));
                let rest = [
                    (at, offset),
                    (at + offset + length, frames - offset - length),
                ];
                held.extend(rest.into_iter().filter(|(_, frames)| *frames > 0));
            }
            for (at, free) in free.iter().enumerate() {
                let word = fields.free_bits(0, at as u32 / 64, polarity);
                assert_eq!(
                    word >> (at % 64) & 1 != 0,
                    *free,
                    "frame {at} at step {step}"
                );
            }
        }
    }
}

fn lower(children: usize, frames: u32) -> Lower<'static, Native> {
    let leak = |count: usize, value: u64| -> &'static [NativeAtomicU64] {
        let words: Vec<_> = (0..count).map(|_| NativeAtomicU64::new(value)).collect();
        Box::leak(words.into_boxed_slice())
    };
    let words = children * CHILD_WORDS as usize;
    let lower = Lower {
        fields: Fields {
            words: leak(words, u64::MAX),
        },
        entries: Entries {
            pairs: leak(children / 2, super::entry::ABSENT_PAIR),
        },
        withdrawn: WithdrawnFrames::of(leak(words, 0), leak(words, 0)),
    };
    lower.restore(0, frames, Withdrawn::Hole).unwrap();
    lower
}

#[test]
fn huge_frames_are_split_by_partial_frees() {
    let lower = lower(2, 1024);
    let entry = |child| lower.entries.load(child);
    assert!(!entry(0).has_withdrawn() && entry(1).free() == CHILD);
    assert_eq!(lower.take(1, 512, order(9), 0), Some(512));
    assert_eq!(lower.take(0, 1024, Order::TEN, 0), None);
    assert!(entry(1).is_huge());
    assert_eq!(lower.free(1000, 10), Ok(()));
    assert!(!entry(1).is_huge());
    assert_eq!(entry(1).free(), 10);
    assert_eq!(lower.free(512, 512), Err(FreeError::NotAllocated));
    assert_eq!(lower.free(995, 30), Err(FreeError::NotAllocated));
    assert_eq!(entry(1).free(), 10, "nothing has changed");
    let taken: Vec<_> = (0..10).map(|_| lower.take(1, 1, Order::ZERO, 0)).collect();
    assert_eq!(taken, (1000..1010).map(Some).collect::<Vec<_>>());
    assert_eq!(lower.take(1, 1, Order::ZERO, 0), None);
    assert_eq!(lower.free(512, 512), Ok(()));
    // Now the bits mean the opposite; a huge frame turns them back.
    assert_eq!(entry(1).polarity(), Polarity::CLEAR);
    assert_eq!(lower.take(0, 1024, Order::TEN, 0), Some(0));
    assert_eq!(entry(1).polarity(), Polarity::SET);
    assert_eq!(lower.free(0, 1024), Ok(()));
    assert_eq!(lower.free(0, 1024), Err(FreeError::NotAllocated));
    // More than one huge frame, and not two.
    assert_eq!(lower.take(0, 700, Order::TEN, 0), Some(0));
    assert_eq!((entry(0).is_huge(), entry(1).free()), (true, 324));
    assert_eq!(lower.free(0, 1024), Err(FreeError::NotAllocated));
    assert_eq!(lower.free(511, 2), Ok(()));
    assert_eq!(lower.free(0, 511), Ok(()));
    assert_eq!(lower.free(513, 187), Ok(()));
    assert_eq!((entry(0).free(), entry(1).free()), (CHILD, CHILD));
}

#[test]
fn withdrawn_frames_are_named_and_the_flag_goes_with_the_last() {
    let lower = lower(4, 1500);
    let entry = |child| lower.entries.load(child);
    assert!(entry(2).has_withdrawn() && !entry(1).has_withdrawn());
    assert_eq!(lower.free(1499, 2), Err(FreeError::Hole));
    assert_eq!(lower.free(1500, 1), Err(FreeError::Hole));
    assert_eq!(lower.withdraw(500, 30, Withdrawn::Reserved), Ok(()));
    assert_eq!(lower.free(505, 1), Err(FreeError::Reserved));
    assert_eq!(lower.free(490, 30), Err(FreeError::Reserved));
    assert_eq!((entry(0).free(), entry(1).free()), (500, 494));
    let in_use = RegionError::NotFree(Index(500));
    assert_eq!(lower.withdraw(0, 501, Withdrawn::Hole), Err(in_use));
    assert_eq!(lower.withdraw(0, 1500, Withdrawn::Hole), Err(in_use));
    assert_eq!(entry(0).free(), 500, "what was taken before is free again");
    let managed = RegionError::AlreadyManaged(Index(1499));
    assert!(lower.restore(1490, 100, Withdrawn::Hole).is_err());
    assert_eq!(lower.restore(1499, 1, Withdrawn::Hole), Err(managed));
    let not_reserved = RegionError::NotReserved(Index(530));
    assert_eq!(
        lower.restore(520, 20, Withdrawn::Reserved),
        Err(not_reserved)
    );
    assert_eq!(
        lower.withdrawn.reason(512),
        Some(Withdrawn::Reserved),
        "undone"
    );
    assert_eq!(lower.restore(500, 30, Withdrawn::Reserved), Ok(()));
    assert!(!entry(0).has_withdrawn() && !entry(1).has_withdrawn());
    assert_eq!(lower.restore(1500, 36, Withdrawn::Hole), Ok(()));
    assert!(!entry(2).has_withdrawn());
}

/// Runs `body` with a system on one CPU.
fn with(frames: u64, cpus: u16, body: impl FnOnce(&dyn FrameAllocator<Native>, &NativeCpus)) {
    let ranges = [FrameRange::new(Pfn(0), frames)];
    let setup = Setup::new(&ranges, cpus);
    let mut memory = std::vec![MaybeUninit::uninit(); LlFree::room(&setup).unwrap()];
    let system = LlFree::build(&setup, &mut memory[..]).unwrap();
    body(system, &NativeCpus::new(cpus));
}

#[test]
fn cpus_allocate_from_trees_of_their_own() {
    with(4 * 4096, 2, |system, cpus| {
        let mut tokens = [0, 1].map(|id| cpus.claim(CpuId(id)).unwrap());
        let mut trees = [[0; 4]; 2];
        for _ in 0..1000 {
            for (cpu, trees) in tokens.iter_mut().zip(&mut trees) {
                let frame = system.allocate(cpu, Request::FRAME).unwrap();
                trees[frame.as_usize() / 4096] += 1;
            }
        }
        assert!(trees.iter().all(|trees| trees.contains(&1000)), "{trees:?}");
        assert_ne!(trees[0], trees[1]);
        let [cpu, _] = &mut tokens;
        system.check(cpu).unwrap();
        system.quiesce(cpu).unwrap();
        assert_eq!(system.check(cpu).unwrap().allocated, 2000);
    });
}

#[test]
fn repeated_frees_reserve_the_tree() {
    with(4 * 4096, 2, |system, cpus| {
        let mut cpu = cpus.claim(CpuId(0)).unwrap();
        let mut other = cpus.claim(CpuId(1)).unwrap();
        let frames = [(); 4].map(|()| system.allocate(&mut cpu, Request::FRAME).unwrap());
        system.park(&mut cpu);
        let own = system.allocate(&mut other, Request::FRAME).unwrap();
        let tree = |frame: Index| frame.0 / 4096;
        // The last tree is not reserved, and not the first choice of another CPU that is new.
        system.park(&mut other);
        let _ = own;
        for frame in frames {
            system.free(&mut cpu, Release::frame(frame)).unwrap();
        }
        let next = system.allocate(&mut cpu, Request::FRAME).unwrap();
        assert_eq!(tree(next), tree(frames[0]));
        system.check(&mut cpu).unwrap();
    });
}

#[test]
fn the_state_of_a_huge_frame_names_its_head() {
    with(8192, 1, |system, cpus| {
        let mut cpu = cpus.claim(CpuId(0)).unwrap();
        let huge = system.allocate(&mut cpu, Request::order(order(9))).unwrap();
        let state = |order, head| Some(FrameState::Allocated { head, order });
        assert_eq!(system.frame_state(Index(huge.0 + 3)), state(order(9), huge));
        system.free(&mut cpu, Release::frame(huge)).unwrap();
        let rest = Index(huge.0 + 3);
        assert_eq!(system.frame_state(rest), state(Order::ZERO, rest));
        let head = FrameState::Free { head: huge };
        assert_eq!(system.frame_state(huge), Some(head));
        system.check(&mut cpu).unwrap();
        system
            .free(&mut cpu, Release::frames(Index(huge.0 + 1), 511))
            .unwrap();
        let two = system
            .allocate(&mut cpu, Request::order(Order::TEN))
            .unwrap();
        system.check(&mut cpu).unwrap();
        system
            .free(&mut cpu, Release::block(Block::new(two, Order::TEN)))
            .unwrap();
        let census = system.check(&mut cpu).unwrap();
        assert_eq!(census.free, 8192);
        assert_eq!(system.snapshot(&mut cpu).free_blocks[10], 8);
    });
}

#[test]
fn a_free_changes_the_version() {
    let lower = lower(2, 1024);
    let before = lower.entries.versions();
    assert_eq!(lower.take(0, 1, Order::ZERO, 0), Some(0));
    assert_eq!(lower.entries.last_versions(), before);
    lower.free(0, 1).unwrap();
    assert_ne!(lower.entries.last_versions(), before);
    let pair = &lower.entries.pairs[0];
    assert_eq!(pair.load(Ordering::Relaxed) as u32, CHILD | CHILD << 16);
}
