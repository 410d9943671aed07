//! Tests of the rules by which requests of one class take frames of page blocks of another one.
//!
//! The conformance suite sees that every request is served that can be. These tests see by which page block.
//!
//! # Invariants
//! Page blocks of 64 frames; the first requests take the page blocks in the order in which the list returns them.

use std::mem::MaybeUninit;
use std::vec;
use std::vec::Vec;

use crate::platform::{CpuId, NativeCpu, NativeCpus};
use crate::systems::{MobilityBuddy, Setup, build_as};
use crate::{
    Class, FrameAllocator, FrameRange, Index, Native, NoProbe, Order, Pfn, Release, Request,
};

type System<'s> = dyn FrameAllocator<Native> + 's;
type Cpu = NativeCpu<NoProbe>;

/// Frames of a page block.
const WHOLE: u32 = 64;

fn on(text: &str, page_blocks: u64, body: impl FnOnce(&System<'_>, &mut Cpu)) {
    let ranges = [FrameRange::new(Pfn(0), page_blocks * u64::from(WHOLE))];
    let setup = Setup::new(&ranges, 1);
    let spec = text.parse().unwrap();
    let layout = crate::metadata_layout::<Native>(&spec, &setup).unwrap();
    let mut memory = vec![MaybeUninit::uninit(); crate::Memory::room(layout)];
    let memory = (&mut memory[..]).into();
    let system: &MobilityBuddy<'_, Native> = build_as(&spec, &setup, memory).unwrap();
    let cpus = NativeCpus::new(1);
    body(system, &mut cpus.claim(CpuId(0)).unwrap());
}

fn take(system: &System<'_>, cpu: &mut Cpu, class: Class, order: u8) -> Index {
    let request = Request::order(Order::new(order).unwrap()).with_class(class);
    let index = system.allocate(cpu, request).unwrap();
    system.check(cpu).unwrap();
    index
}

fn page_block(index: Index) -> u32 {
    index.0 / WHOLE
}

/// Takes `frames` frames of a class, one by one.
fn fill(system: &System<'_>, cpu: &mut Cpu, class: Class, frames: u32) -> Vec<Index> {
    (0..frames).map(|_| take(system, cpu, class, 0)).collect()
}

const RULES: [&str; 2] = ["mobility+order=6", "mobility+order=6+steal=mixed"];

#[test]
fn classes_lie_in_page_blocks_of_their_own_while_there_are_enough() {
    for rule in RULES {
        on(rule, 6, |system, cpu| {
            let mut blocks = vec![Vec::new(); 3];
            for _ in 0..80 {
                for (own, class) in blocks.iter_mut().zip(Class::ALL) {
                    own.push(page_block(take(system, cpu, class, 0)));
                }
            }
            for (own, class) in blocks.iter_mut().zip(Class::ALL) {
                own.dedup();
                assert_eq!(own.len(), 2, "{rule}: {class:?} in {own:?}");
            }
            let mut all = blocks.concat();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 6, "{rule}: no page block has two classes");
            // What is never freed lies with what stays.
            let never = take(system, cpu, Class::NeverFreed, 0);
            assert!(blocks[0].contains(&page_block(never)), "{rule}");
        });
    }
}

#[test]
fn by_the_rules_of_linux_a_page_block_that_is_half_free_changes_its_type() {
    on(RULES[0], 1, |system, cpu| {
        // Half of the only page block is free: all of it becomes unmovable.
        fill(system, cpu, Class::Movable, 32);
        let first = take(system, cpu, Class::Unmovable, 0);
        assert_eq!(first.0, 32);
        // A movable request has no list of its own any more. It may take a part of a large block.
        assert_eq!(take(system, cpu, Class::Movable, 0).0, 48);
        assert_eq!(take(system, cpu, Class::Unmovable, 0).0, 49);
    });
    on(RULES[0], 1, |system, cpu| {
        // Less than half: the page block stays movable, and the frame comes from its largest block. The rest of that
        // block is movable, too.
        fill(system, cpu, Class::Movable, 33);
        assert_eq!(take(system, cpu, Class::Unmovable, 0).0, 48);
        assert_eq!(take(system, cpu, Class::Movable, 0).0, 49);
        assert_eq!(take(system, cpu, Class::Unmovable, 0).0, 56);
    });
}

#[test]
fn linux_takes_the_largest_block_for_what_stays_and_the_smallest_for_what_moves() {
    // Two page blocks: seven frames are left of one, in blocks of one, two and four frames.
    for (left, taker, is_smallest) in [
        (Class::Unmovable, Class::Movable, true),
        (Class::Movable, Class::Unmovable, false),
    ] {
        on(RULES[0], 2, |system, cpu| {
            let held = fill(system, cpu, left, 57);
            fill(system, cpu, taker, 64);
            let taken = take(system, cpu, taker, 0);
            assert_eq!(page_block(taken), page_block(held[0]));
            let expected = if is_smallest { 57 } else { 60 };
            assert_eq!(taken.0 % WHOLE, expected, "{taker:?}");
        });
    }
}

#[test]
fn unmovable_requests_use_mixed_page_blocks_first_and_movable_ones_last() {
    on(RULES[1], 3, |system, cpu| {
        let moves = fill(system, cpu, Class::Movable, 2 * WHOLE + 32);
        // No page block is whole. The one with the smallest sufficient block becomes mixed.
        let stays = fill(system, cpu, Class::Unmovable, 2);
        let mixed = page_block(stays[0]);
        assert_eq!(page_block(stays[1]), mixed);
        // A page block becomes whole again: requests that stay still use the mixed one, movable ones do not.
        let other = (0..3).find(|block| *block != mixed).unwrap();
        for frame in moves.iter().filter(|frame| page_block(**frame) == other) {
            system.free(cpu, Release::frame(*frame)).unwrap();
        }
        assert_eq!(page_block(take(system, cpu, Class::Reclaimable, 0)), mixed);
        assert_eq!(page_block(take(system, cpu, Class::Movable, 0)), other);
        fill(system, cpu, Class::Movable, WHOLE - 1);
        assert_eq!(
            page_block(take(system, cpu, Class::Movable, 0)),
            mixed,
            "at last"
        );
    });
}

#[test]
fn a_mixed_page_block_that_is_whole_again_serves_one_class_alone() {
    on(RULES[1], 2, |system, cpu| {
        let moves = fill(system, cpu, Class::Movable, WHOLE + 32);
        let stays = fill(system, cpu, Class::Unmovable, 32);
        for frame in moves.iter().chain(&stays) {
            system.free(cpu, Release::frame(*frame)).unwrap();
        }
        // Were it still mixed, both would lie in it.
        let reclaimable = take(system, cpu, Class::Reclaimable, 0);
        let unmovable = take(system, cpu, Class::Unmovable, 0);
        assert_ne!(page_block(reclaimable), page_block(unmovable));
    });
}

#[test]
fn the_smallest_sufficient_block_of_all_other_classes_becomes_mixed() {
    for (reclaimable, movable, expected) in [(60, 63, Class::Movable), (63, 60, Class::Reclaimable)]
    {
        on(RULES[1], 2, |system, cpu| {
            // A block of one frame is left of one page block, and a block of four of the other.
            let first = fill(system, cpu, Class::Reclaimable, reclaimable)[0];
            let second = fill(system, cpu, Class::Movable, movable)[0];
            let taken = take(system, cpu, Class::Unmovable, 0);
            let victim = match expected {
                Class::Movable => second,
                _ => first,
            };
            assert_eq!(page_block(taken), page_block(victim), "{expected:?}");
            assert_eq!(taken.0 % WHOLE, 63);
        });
    }
}

#[test]
fn the_class_of_a_bulk_request_counts() {
    for rule in RULES {
        on(rule, 3, |system, cpu| {
            let mut blocks = Vec::new();
            for class in [Class::Unmovable, Class::Movable, Class::Reclaimable] {
                let mut out = [Index(0); 5];
                let request = Request::FRAME.with_class(class);
                assert_eq!(system.allocate_bulk(cpu, request, &mut out), Ok(5));
                assert!(
                    out.iter()
                        .all(|index| page_block(*index) == page_block(out[0]))
                );
                blocks.push(page_block(out[0]));
            }
            blocks.sort_unstable();
            assert_eq!(blocks, [0, 1, 2], "{rule}");
        });
    }
}
