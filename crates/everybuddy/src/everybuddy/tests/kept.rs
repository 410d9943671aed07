//! Frames that a CPU gathered: they entered no list, and are not freed yet.

use super::*;
use crate::platform::SharedCell;
use crate::request::Flags;

const BUSY_RANGE: Result<Index, RegionError> = Err(RegionError::Busy);

/// The frames of a tree here.
const TREE: u32 = 128;

/// Calls `body` where CPU 0 has allocated the first tree, whose frame 3 CPU 1 has freed and keeps: it freed another one
/// of that word before, which CPU 0 allocated again. CPU 1 allocated the first frame of the second tree last.
fn with_kept(class: Class, body: impl FnOnce(&Trees<'_>, &mut Cpu, &mut Cpu)) {
    with_cpus((4 * TREE, 0), (Some(TREE), 8), |system, [zero, one]| {
        let request = Request::FRAME.with_class(class);
        for _ in 0..TREE {
            system.allocate(zero, request).unwrap();
        }
        assert_eq!(system.allocate(one, request), Ok(Index(TREE)));
        // Above the first-fit points, so that it enters no list.
        for kind in Kind::ALL {
            singles(system, 1, kind).point.set(0);
        }
        system.free(one, Release::frame(Index(2))).unwrap();
        assert_eq!(inbox(system, 0), 1);
        assert_eq!(system.allocate(zero, request), Ok(Index(2)));
        system.free(one, Release::frame(Index(3))).unwrap();
        assert!(is_pending(system, 1, 3));
        assert_eq!(inbox(system, 0), 0);
        system.check(zero).unwrap();
        body(system, zero, one);
        system.check(zero).unwrap();
    });
}

fn inbox(system: &Trees<'_>, tree: usize) -> u64 {
    let header = &system.shared.trees.headers[tree];
    header.inbox.load(crate::platform::Ordering::Relaxed)
}

/// Returns `true` if a CPU has gathered a frame, which the planes call allocated.
fn is_pending(system: &Trees<'_>, cpu: usize, frame: u32) -> bool {
    let local = &system.locals[cpu];
    let is_gathered = local.gathered.get() >> (frame % WORD) & 1 != 0;
    let part = system.shared.trees.part(frame).unwrap();
    is_gathered && local.pending.get() == frame / WORD && part.is_allocated()
}

/// Allocates until a request fails, and returns the number of frames and the error.
fn exhaust(system: &Trees<'_>, cpu: &mut Cpu, flags: Flags) -> (u32, AllocateError) {
    let request = Request::FRAME.with_flags(flags);
    let mut given = 0;
    loop {
        match system.allocate(cpu, request) {
            Ok(_) => given += 1,
            Err(error) => return (given, error),
        }
    }
}

#[test]
fn a_kept_frame_is_free_and_is_not_the_cpus_own() {
    with_kept(Class::Movable, |system, zero, one| {
        let state = FrameState::Buffered {
            cpu: CpuId(1),
            order: Order::ZERO,
        };
        assert_eq!(system.frame_state(Index(3)), Some(state));
        let free = system.count_free();
        assert_eq!((free, system.buffered_frames(CpuId(1))), (3 * 128, 1));
        for cpu in [&mut *zero, &mut *one] {
            for release in [Release::frame(Index(3)), Release::frames(Index(3), 1)] {
                let again = system.free(cpu, release);
                assert_eq!(again, Err(FreeError::NotAllocated));
                assert!(is_pending(system, 1, 3));
            }
            let pair = Release::block(crate::Block::new(Index(2), order(1)));
            let allocated = Order::ZERO;
            let wrong = Err(FreeError::WrongOrder { allocated });
            assert_eq!(system.free(cpu, pair), wrong);
        }
        assert_eq!(system.count_free(), free);
        let movable = Request::FRAME.with_class(Class::Movable);
        assert_eq!(system.allocate(one, movable), Ok(Index(TREE + 1)));
    });
}

#[test]
fn what_a_cpu_keeps_is_found_when_it_parks_and_busy_before() {
    with_kept(Class::Unmovable, |system, zero, one| {
        system.drain(zero);
        // Of the two other trees and CPU 1's tree, of which one frame is allocated, CPU 1 keeps the latter.
        let (given, error) = exhaust(system, zero, Flags::NO_WAIT);
        assert_eq!((given, error), (2 * TREE, AllocateError::Busy));
        let nested = system.allocate_nested(CpuId(0), Request::FRAME);
        assert_eq!(nested, BUSY);
        system.park(one);
        let (given, error) = exhaust(system, zero, Flags::NONE);
        assert_eq!((given, error), (TREE, AllocateError::Exhausted));
    });
}

#[test]
fn a_request_finds_what_its_own_cpu_keeps_for_another_kind() {
    with_kept(Class::Movable, |system, zero, one| {
        system.park(zero);
        let (given, error) = exhaust(system, one, Flags::NO_WAIT);
        assert_eq!((given, error), (3 * TREE - 1 + 1, AllocateError::Exhausted));
    });
}

#[test]
fn a_cpu_is_not_busy_because_of_what_it_keeps_itself() {
    with_kept(Class::Unmovable, |system, zero, one| {
        system.park(zero);
        let tree = Request::order(order(7)).with_flags(Flags::NO_WAIT);
        assert_eq!(system.allocate(one, tree), Ok(Index(2 * TREE)));
        assert_eq!(system.allocate(one, tree), Ok(Index(3 * TREE)));
        assert!(system.locals[1].may_keep());
        let refused = system.allocate(one, tree);
        assert_eq!(refused, EXHAUSTED);
    });
}

#[test]
fn a_frame_that_only_this_cpu_keeps_makes_others_busy() {
    with_kept(Class::Unmovable, |system, zero, one| {
        let (given, _) = exhaust(system, zero, Flags::NO_WAIT);
        assert_eq!(given, 2 * TREE);
        // CPU 1 fills its tree, and then has no tree with a free frame, but still keeps frames.
        system.free(one, Release::frame(Index(TREE))).unwrap();
        let mut out = [Index(0); TREE as usize];
        let given = system.allocate_bulk(one, Request::FRAME, &mut out);
        assert_eq!(given, Ok(TREE as usize));
        // CPU 0 owns two trees.
        let frame = 2 * TREE + 5;
        for frame in [frame - 1, frame] {
            system.free(one, Release::frame(Index(frame))).unwrap();
        }
        assert!(is_pending(system, 1, frame));
        let hasty = Request::FRAME.with_flags(Flags::NO_WAIT);
        // With the frame of another word, frame 3 was freed.
        for free in [3, frame - 1] {
            assert_eq!(system.allocate(zero, hasty), Ok(Index(free)));
        }
        assert_eq!(system.allocate(zero, hasty), BUSY);
        let nested = system.allocate_nested(CpuId(0), Request::FRAME);
        assert_eq!(nested, BUSY);
        system.drain(one);
        assert!(system.allocate(zero, hasty).is_ok());
    });
}

#[test]
fn a_block_of_which_a_frame_is_returned_is_not_freed_whole() {
    with_cpus((4 * TREE, 0), (Some(TREE), 8), |system, [zero, one]| {
        let six = order(6);
        assert_eq!(system.allocate(zero, Request::order(six)), Ok(Index(0)));
        assert_eq!(system.allocate(one, Request::FRAME), Ok(Index(TREE)));
        let part = Release::frames(Index(20), 1);
        system.free(one, part).unwrap();
        assert_eq!(inbox(system, 0), 1);
        let block = Release::block(crate::Block::new(Index(0), six));
        let allocated = order(4);
        let refused = Err(FreeError::WrongOrder { allocated });
        assert_eq!(system.free(zero, block), refused);
        let parts = [(0, 20), (21, 43)];
        for (start, frames) in parts {
            let part = Release::frames(Index(start), frames);
            assert_eq!(system.free(zero, part), Ok(()));
        }
        system.park(one);
        system.quiesce(zero).unwrap();
        // The tree is whole again.
        let block = Request::order(order(7));
        assert_eq!(system.allocate(zero, block), Ok(Index(0)));
    });
}

#[test]
fn a_range_takes_kept_frames_when_they_are_drained_and_is_withdrawn_only_without_lists() {
    with_kept(Class::Unmovable, |system, zero, one| {
        let range = FrameRange::new(Pfn(3), 1);
        assert_eq!(system.try_allocate_at(zero, range), BUSY_RANGE);
        system.drain(one);
        assert_eq!(system.try_allocate_at(zero, range), Ok(Index(3)));
        assert_eq!(system.allocate(one, Request::FRAME), Ok(Index(TREE + 1)));
        system.free(one, Release::frame(Index(4))).unwrap();
        let range = FrameRange::new(Pfn(4), 1);
        assert_eq!(system.reserve(zero, range), Err(RegionError::Busy));
        system.park(one);
        assert_eq!(system.reserve(zero, range), Ok(()));
        assert_eq!(system.allocate(one, Request::FRAME), Ok(Index(TREE + 2)));
    });
}

/// No CPU parks, so all lists live, and requests may not wait.
#[test]
fn random_operations_of_running_cpus_agree_with_a_naive_model() {
    for (seed, (frames, cpus, tree)) in
        (0..).zip([(256, 2, 64), (1000, 3, 128), (4096, 2, 256), (640, 5, 64)])
    {
        with_system((frames, 0), cpus, (Some(tree), 7), |system| {
            let set = NativeCpus::new(cpus);
            let mut run = Checked {
                system,
                cpus: (0..cpus)
                    .map(|cpu| set.claim(CpuId(cpu)).unwrap())
                    .collect(),
                model: vec![Is::Free; frames as usize],
                held: Vec::new(),
            };
            let mut random = Random(100 + seed);
            let mut kept = 0;
            for step in 0..8000 {
                let fill = if step % 1000 < 600 { 6 } else { 4 };
                match random.below(16) {
                    0 => run.misuse(&mut random),
                    1 if step % 50 == 0 => system.drain(&mut run.cpus[0]),
                    2 => run.allocate_bulk(&mut random),
                    3 => run.free_bulk(&mut random),
                    _ if random.below(10) < fill || run.held.is_empty() => {
                        run.allocate_now(&mut random);
                    }
                    _ => run.free(&mut random),
                }
                kept += u32::from(system.locals.iter().any(Local::may_keep));
                run.check();
            }
            assert!(kept > 1000, "{kept} of 8000 steps with kept frames");
            for cpu in &mut run.cpus {
                system.park(cpu);
            }
            run.check();
            let left = run.model.iter().filter(|is| **is == Is::Free).count() as u32;
            let given = exhaust(system, &mut run.cpus[0], Flags::NONE);
            assert_eq!(given, (left, AllocateError::Exhausted));
        });
    }
}

#[test]
fn frames_of_a_word_are_freed_together() {
    with_cpus((4 * TREE, 0), (Some(TREE), 8), |system, [zero, one]| {
        allocate_frames(system, zero, TREE);
        let returned = || {
            let word = &system.shared.trees.words[0];
            word.foreign.load(crate::platform::Ordering::Relaxed)
        };
        for frame in 0..5 {
            system.free(one, Release::frame(Index(frame))).unwrap();
            // The first one of a word is freed immediately.
            assert_eq!(is_pending(system, 1, frame), frame != 0);
            let again = system.free(one, Release::frame(Index(frame)));
            assert_eq!(again, Err(FreeError::NotAllocated));
            assert_eq!((inbox(system, 0), returned()), (1, 1));
            assert_eq!(system.count_free(), u64::from(3 * TREE + 1 + frame));
            system.check(zero).unwrap();
        }
        // A frame of another word.
        system.free(one, Release::frame(Index(WORD))).unwrap();
        assert_eq!((inbox(system, 0), returned()), (3, 0b1_1111));
        for frame in 5..8 {
            system.free(one, Release::frame(Index(frame))).unwrap();
        }
        assert_eq!(returned(), 0b11_1111);
        // CPU 0 needs more than its own trees have, and asks CPU 1 for what it keeps.
        let (given, error) = exhaust(system, zero, Flags::NO_WAIT);
        assert_eq!((given, error), (3 * TREE + 7, AllocateError::Busy));
        system.free(one, Release::frame(Index(9))).unwrap();
        system.park(one);
        let (given, error) = exhaust(system, zero, Flags::NONE);
        assert_eq!((given, error), (3, AllocateError::Exhausted));
    });
}

/// A word is whole, and then a block, while a CPU may gather its frames.
#[test]
fn a_block_of_whole_words_is_not_gathered() {
    with_cpus((4 * TREE, 0), (Some(TREE), 8), |system, [zero, one]| {
        allocate_frames(system, zero, WORD);
        for frame in (0..WORD).rev() {
            let cpu = if frame == 3 { &mut *one } else { &mut *zero };
            system.free(cpu, Release::frame(Index(frame))).unwrap();
        }
        assert_eq!(system.locals[1].pending.get(), 0);
        system.drain(zero);
        let block = crate::Block::new(Index(0), order(6));
        assert_eq!(
            system.allocate(zero, Request::order(order(6))),
            Ok(Index(0))
        );
        system.free(one, Release::block(block)).unwrap();
        assert_eq!(system.locals[1].gathered.get(), 0);
        system.check(zero).unwrap();
    });
}

/// Also in the word whose frames the CPU keeps.
#[test]
fn a_run_is_announced_at_once() {
    for (start, words) in [(8, 1), (WORD + 8, 2)] {
        with_kept(Class::Unmovable, |system, zero, one| {
            let run = Release::frames(Index(start), 2);
            system.free(one, run).unwrap();
            assert_eq!(inbox(system, 0), words);
            let hasty = Request::frames(2).with_flags(Flags::NO_WAIT);
            assert_eq!(system.allocate(zero, hasty), Ok(Index(start)));
        });
    }
}

/// Two frees of a frame at the same time are misuse. The other frames are not lost.
#[test]
fn what_is_gathered_is_freed_one_by_one_if_another_cpu_freed_a_part() {
    with_kept(Class::Unmovable, |system, zero, one| {
        system.free(one, Release::frame(Index(5))).unwrap();
        assert!(is_pending(system, 1, 5));
        // As if CPU 0 had read the byte of frame 3 before CPU 1 wrote it.
        system.shared.heads.set(3, Order::ZERO, Kind::Staying);
        system.free(zero, Release::frame(Index(3))).unwrap();
        system.drain(zero);
        system.drain(one);
        assert_eq!(system.count_free(), u64::from(3 * TREE + 1));
    });
}

#[test]
fn blocks_of_a_word_are_gathered_with_all_their_frames() {
    for size in 1..=4 {
        with_cpus((4 * TREE, 0), (Some(TREE), 8), |system, [zero, one]| {
            let request = Request::order(order(size));
            let blocks: Vec<Index> = (0..4)
                .map(|_| system.allocate(zero, request).unwrap())
                .collect();
            for start in &blocks {
                let block = crate::Block::new(*start, order(size));
                system.free(one, Release::block(block)).unwrap();
                assert_eq!(
                    system.free(one, Release::block(block)),
                    Err(FreeError::NotAllocated)
                );
            }
            // The first one is freed immediately.
            let frames = system.locals[1].gathered.get();
            assert_eq!(frames.count_ones(), 3 << size);
            assert_eq!(system.count_free(), u64::from(4 * TREE));
            system.check(zero).unwrap();
            system.park(one);
            assert_eq!(system.locals[1].gathered.get(), 0);
            system.quiesce(zero).unwrap();
            assert_eq!(
                system.allocate(zero, Request::order(order(7))),
                Ok(Index(0))
            );
        });
    }
}

#[test]
fn a_shortage_frees_what_is_gathered_and_nothing_is_gathered_in_it() {
    with_kept(Class::Unmovable, |system, _, one| {
        let local = &system.locals[1];
        local.choose_by_fit(&system.shared);
        assert_eq!(
            (local.gathered.get(), local.pending.get()),
            (0, local::NO_WORD)
        );
        assert_eq!(inbox(system, 0), 1);
        for frame in [4, 5] {
            system.free(one, Release::frame(Index(frame))).unwrap();
            assert_eq!(local.gathered.get(), 0);
        }
    });
}

#[test]
fn a_tree_is_kept_after_two_words_were_freed_into_it() {
    with_cpus((4 * TREE, 0), (Some(TREE), 8), |system, [zero, one]| {
        allocate_frames(system, zero, TREE);
        system.park(zero);
        let owner = || {
            let header = &system.shared.trees.headers[0];
            header.owner.load(crate::platform::Ordering::Relaxed)
        };
        for kind in Kind::ALL {
            singles(system, 1, kind).point.set(0);
        }
        for (frame, is_kept) in [(0, false), (1, false), (64, false), (65, false), (2, true)] {
            system.free(one, Release::frame(Index(frame))).unwrap();
            assert_eq!(owner() == 2, is_kept, "{frame}");
        }
    });
}

#[test]
fn an_owner_gathers_what_another_cpu_has_freed() {
    with_cpus((4 * TREE, 0), (Some(TREE), 8), |system, [zero, one]| {
        allocate_frames(system, zero, TREE);
        let leave = |cpu| Kind::ALL.map(|kind| singles(system, cpu, kind).point.set(0));
        leave(0);
        system.free(zero, Release::frame(Index(2))).unwrap();
        assert_eq!(system.allocate(zero, Request::FRAME), Ok(Index(2)));
        leave(0);
        system.free(zero, Release::frame(Index(3))).unwrap();
        assert!(is_pending(system, 0, 3));
        // As if CPU 1 had read the byte before CPU 0 wrote it.
        system.shared.heads.set(3, Order::ZERO, Kind::Staying);
        leave(1);
        system.free(one, Release::frame(Index(3))).unwrap();
        system.locals[0].free_gathered(&system.shared, false);
        system.check(zero).unwrap();
        assert_eq!(system.count_free(), u64::from(3 * TREE + 1));
    });
}

/// What is gathered is passed over like what is freed by itself.
#[test]
fn gathered_frames_below_the_point_are_counted() {
    with_cpus((4 * TREE, 0), (Some(TREE), 8), |system, [zero, _]| {
        allocate_frames(system, zero, TREE);
        let place = system.locals[0].place(Kind::Staying);
        for kind in Kind::ALL {
            singles(system, 0, kind).point.set(0);
        }
        for frame in 1..4 {
            system.free(zero, Release::frame(Index(frame))).unwrap();
        }
        let list = singles(system, 0, Kind::Staying);
        list.point.set(TREE);
        let before = place.passed.get();
        system.locals[0].free_gathered(&system.shared, false);
        assert_eq!(place.passed.get(), before + 2);
        list.point.set(0);
    });
}
