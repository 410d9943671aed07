//! A block that two CPUs free simultaneously: the second free comes at each access of the first one. It is misuse.
//!
//! # Invariants
//! `SECOND` is what the hook calls once.

use std::cell::Cell;

use everybuddy::{
    Block, FrameAllocator, FrameRange, FreeError, Index, Order, Pfn, Release, Request, Setup,
};
use everybuddy_explore::platform::{
    Explored, Token, alone, share, stop_after, take_watched, watch,
};
use everybuddy_explore::world::World;

use crate::step::frames_of;

type System = dyn FrameAllocator<Explored>;

thread_local! {
    /// The free by CPU 1.
    static SECOND: Cell<Option<(&'static System, Release)>> = const { Cell::new(None) };
    /// What it returned.
    static RETURNED: Cell<Option<Result<(), FreeError>>> = const { Cell::new(None) };
}

fn free_second(is_wait: bool) {
    if !is_wait && let Some((system, release)) = SECOND.take() {
        RETURNED.set(Some(system.free(&mut Token::of(1), release)));
    }
}

/// The frames that have a holder.
struct Held(Vec<bool>);

impl Held {
    /// Notes frames that a CPU was given. Returns the number of those that another one holds.
    fn take(&mut self, start: Index, frames: u32) -> u32 {
        let given = self.0[start.as_usize()..][..frames as usize].iter_mut();
        given
            .map(|held| u32::from(core::mem::replace(held, true)))
            .sum()
    }

    fn give(&mut self, start: Index, frames: u32) {
        self.0[start.as_usize()..][..frames as usize].fill(false);
    }
}

/// What happened at all accesses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// The accesses at which both frees succeeded, and at which none did.
    both: u32,
    none: u32,
    /// The frames that were given to a second holder.
    twice: u32,
    /// The frees by rightful holders that were refused.
    refused: u32,
    /// The states in which `check` found something.
    broken: u32,
}

/// A block that both CPUs free, as CPU 0 and CPU 1 name it.
struct Case {
    name: &'static str,
    frames: u64,
    order: u8,
    releases: fn(Block) -> [Release; 2],
    /// Whether the next holder frees the first half of the block by its count.
    halves: bool,
}

fn by_order(block: Block) -> [Release; 2] {
    [Release::block(block); 2]
}

fn by_count(block: Block) -> [Release; 2] {
    [
        Release::block(block),
        Release::frames(block.start, block.order.frames()),
    ]
}

fn half_by_count(block: Block) -> [Release; 2] {
    [
        Release::frames(block.start, block.order.frames() / 2),
        Release::block(block),
    ]
}

fn world(name: &str, ranges: &[FrameRange]) -> World {
    let spec = name.parse().expect("a system");
    World::new(&spec, &Setup::new(ranges, 2)).expect("a memory")
}

/// Lets CPU 0 do the first free, and CPU 1 the second one at each access of that. Calls `judge` with what both returned
/// each time, and restores the present state afterwards. Returns the number of accesses.
fn race(
    world: &mut World,
    releases: [Release; 2],
    mut judge: impl FnMut([Result<(), FreeError>; 2]),
) -> u64 {
    let system = world.system;
    let state = world.state();
    world.load(&state);
    let mut words = std::collections::HashSet::new();
    let mut stop = 0;
    loop {
        share(words.clone());
        watch(free_second);
        stop_after(stop);
        SECOND.set(Some((system, releases[1])));
        let first = system.free(&mut Token::of(0), releases[0]);
        alone();
        let watched = take_watched().into_iter().map(|(word, _)| word);
        let (known, _) = (words.len(), words.extend(watched));
        if SECOND.take().is_some() {
            world.undo();
            // The first time, no word was known.
            if words.len() == known {
                return stop;
            }
            continue;
        }
        stop += 1;
        judge([first, RETURNED.take().expect("the hook was called")]);
        world.undo();
    }
}

/// Lets CPU 0 free the block, and CPU 1 at each access of that. Then CPU 0 allocates a block, frees a half of it if the
/// case says so, and both CPUs allocate further.
fn explore(case: &Case) -> (u64, Outcome) {
    let ranges = [FrameRange::new(Pfn(0), case.frames)];
    let mut world = world(case.name, &ranges);
    let system = world.system;
    let (zero, one) = (&mut Token::of(0), &mut Token::of(1));
    let size = Order::new(case.order).expect("an order");
    let allocate = |cpu: &mut Token| {
        system
            .allocate(cpu, Request::order(size))
            .expect("free memory")
    };
    // Both CPUs have allocated above the block.
    let block = Block::new(allocate(zero), size);
    let more = [0, 0, 0, 1, 1, 1, 1].map(|cpu| allocate(&mut Token::of(cpu)));
    let releases = (case.releases)(block);
    let mut outcome = Outcome::default();
    let stop = race(&mut world, releases, |[first, second]| {
        outcome.both += u32::from(first.is_ok() && second.is_ok());
        outcome.none += u32::from(first.is_err() && second.is_err());
        outcome.broken += u32::from(system.check(zero).is_err());
        let mut held = Held(vec![false; case.frames as usize]);
        for start in more.iter().chain([&block.start]) {
            held.take(*start, size.frames());
        }
        for (freed, release) in [(first, releases[0]), (second, releases[1])] {
            if freed.is_ok() {
                held.give(release.start, frames_of(release.size));
            }
        }
        let start = allocate(zero);
        outcome.twice += held.take(start, size.frames());
        if case.halves {
            let half = size.frames() / 2;
            let freed = system.free(zero, Release::frames(start, half));
            outcome.refused += u32::from(freed.is_err());
            held.give(start, half);
        }
        for cpu in [&mut *one, &mut *zero] {
            let requests = [Request::order(size); 3].into_iter();
            for request in requests.chain([Request::FRAME; 100]) {
                if let Ok(start) = system.allocate(cpu, request) {
                    outcome.twice += held.take(start, frames_of(request.size));
                }
            }
        }
        let half = size.frames() / 2;
        let left = if case.halves {
            Release::frames(Index(start.0 + half), half)
        } else {
            Release::block(Block::new(start, size))
        };
        outcome.refused += u32::from(system.free(zero, left).is_err());
    });
    (stop, outcome)
}

/// No CPU has lists for large blocks.
const SMALL: u64 = 1 << 14;
/// Two CPUs have lists for blocks of 2^6 frames, and of 2^8.
const LISTS_OF_6: u64 = 1 << 16;
const LISTS_OF_8: u64 = 1 << 18;

#[test]
fn of_two_frees_of_a_large_block_one_is_refused() {
    for (order, frames) in [(6, SMALL), (6, LISTS_OF_6), (9, SMALL), (8, LISTS_OF_8)] {
        for releases in [by_order, by_count, half_by_count] {
            for name in ["everybuddy", "everybuddy+tree=1MiB"] {
                let case = Case {
                    name,
                    frames,
                    order,
                    releases,
                    halves: true,
                };
                let (accesses, outcome) = explore(&case);
                assert!(accesses > 1);
                assert_eq!(
                    outcome,
                    Outcome::default(),
                    "{name}, order {order}, {frames} frames"
                );
            }
        }
    }
}

/// The run has a small piece, which nothing claims, before two large ones. The second free is of the small piece alone,
/// which is misuse. If the first free is then refused, the large pieces are either allocated as before or lost, but no
/// CPU claims them for ever.
#[test]
fn a_run_whose_small_piece_is_freed_meanwhile_leaves_no_piece_claimed() {
    let ranges = [FrameRange::new(Pfn(0), 512)];
    let mut world = world("everybuddy", &ranges);
    let system = world.system;
    let zero = &mut Token::of(0);
    let (start, frames) = (60, 132);
    let run = FrameRange::new(Pfn(u64::from(start)), u64::from(frames));
    system.allocate_at(zero, run).unwrap();
    let block = |at, order| Release::block(Block::new(Index(at), Order::new(order).unwrap()));
    let releases = [Release::frames(Index(start), frames), block(start, 2)];
    let mut refused = 0;
    let accesses = race(&mut world, releases, |[first, _]| {
        refused += u32::from(first.is_err());
        let again = [64, 128].map(|at| system.free(zero, block(at, 6)));
        assert!(
            !again.contains(&Err(FreeError::Busy)),
            "after {first:?}: {again:?}"
        );
        let is_free = first.is_ok() || again == [Ok(()); 2];
        let mut held = Held(vec![false; 512]);
        let mut large = 0;
        while let Ok(given) = system.allocate(zero, Request::FRAME) {
            large += u32::from((64..192).contains(&given.0) && held.take(given, 1) == 0);
        }
        assert_eq!(
            large,
            u32::from(is_free) * 128,
            "after {first:?}: {again:?}"
        );
    });
    assert!(accesses > 1 && refused > 0);
}

/// Where both CPUs list the block, the one that allocates it first has it, while it holds all of it.
#[test]
fn of_two_frees_of_a_small_block_at_least_one_succeeds() {
    for order in 0..6 {
        let case = Case {
            name: "everybuddy",
            frames: LISTS_OF_6,
            order,
            releases: by_order,
            halves: false,
        };
        let (accesses, outcome) = explore(&case);
        assert!(accesses > 1 && outcome.both > 0);
        // The check finds a block of two lists.
        assert!(outcome.broken <= outcome.both, "order {order}");
        let Outcome { both, broken, .. } = outcome;
        let harmless = Outcome {
            both,
            broken,
            ..Outcome::default()
        };
        assert_eq!(outcome, harmless, "order {order}");
    }
}

#[test]
fn systems_without_lists_notice_both_frees() {
    for name in ["llfree", "nbbs"] {
        for order in [0, 1, 3, 6, 9] {
            let case = Case {
                name,
                frames: SMALL,
                order,
                releases: by_order,
                halves: order > 0,
            };
            let (_, outcome) = explore(&case);
            assert_eq!(outcome, Outcome::default(), "{name}, order {order}");
        }
    }
}
