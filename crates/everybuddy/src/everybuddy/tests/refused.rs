//! What is refused without a search, and until when.

use super::*;
use crate::platform::{AtomicWord, Ordering, SharedCell};
use crate::request::Flags;
use wanted::CLOSED_ID;

const FRAMES: u32 = 512;

fn block(order: u8) -> Request {
    Request::order(Order::new(order).unwrap())
}

/// Calls `body` where the frames with even numbers are free and a pair was refused to CPU 0. CPU 1 has not called.
fn with_refused_pair(body: impl FnOnce(&Trees<'_>, &mut Cpu, &mut Cpu)) {
    with_cpus((FRAMES, 0), (Some(128), 7), |system, [zero, one]| {
        allocate_frames(system, zero, FRAMES);
        for frame in (0..FRAMES).step_by(2) {
            system.free(zero, Release::frame(Index(frame))).unwrap();
        }
        assert_eq!(system.requests.refused.order(), None);
        let refused = system.allocate(zero, block(1));
        assert_eq!(refused, EXHAUSTED);
        assert_eq!(system.requests.refused.order(), Order::new(1));
        body(system, zero, one);
        system.check(zero).unwrap();
    });
}

/// Returns which of a CPU's identities are not closed: that for allocations, and that for frees.
fn open(system: &Trees<'_>, cpu: usize) -> [bool; 2] {
    let local = &system.locals[cpu];
    [&local.identity, &local.free_identity].map(|word| word.load(Ordering::Relaxed) != CLOSED_ID)
}

#[test]
fn what_was_refused_is_refused_without_a_search() {
    with_refused_pair(|system, zero, one| {
        let epoch = || system.requests.drains.epoch.load(Ordering::Relaxed);
        let before = epoch();
        for request in [block(1), block(2), Request::frames(2), Request::frames(3)] {
            let refused = system.allocate(zero, request);
            assert_eq!(refused, EXHAUSTED);
        }
        assert_eq!(epoch(), before);
        // CPU 0 owns a tree, so a search would find that CPU 1 cannot know.
        system.allocate(zero, Request::FRAME).unwrap();
        let hasty = block(1).with_flags(Flags::NO_WAIT);
        assert_eq!(system.allocate(one, hasty), EXHAUSTED);
        let nested = system.allocate_nested(CpuId(1), block(1));
        assert_eq!(nested, EXHAUSTED);
    });
}

#[test]
fn the_smallest_block_is_remembered() {
    with_cpus((FRAMES, 0), (Some(128), 7), |system, [cpu]| {
        let all = system.allocate(cpu, block(7)).unwrap();
        while system.allocate(cpu, Request::FRAME).is_ok() {}
        for (freed, refused) in [(Index(all.0 + 1), 1), (Index(all.0 + 8), 1)] {
            system.free(cpu, Release::frames(freed, 1)).unwrap();
            for order in [4, 2, refused, 3] {
                let result = system.allocate(cpu, block(order));
                assert_eq!(result, Err(AllocateError::Exhausted));
            }
            assert_eq!(system.requests.refused.order(), Order::new(refused));
        }
        allocate_frames(system, cpu, 2);
        let refused = system.allocate(cpu, Request::FRAME);
        assert_eq!(refused, EXHAUSTED);
        assert_eq!(system.requests.refused.order(), Some(Order::ZERO));
        system.check(cpu).unwrap();
    });
}

#[test]
fn allocations_hit_while_a_refusal_is_remembered_and_frees_do_not() {
    with_refused_pair(|system, zero, one| {
        assert_eq!(open(system, 0), [true, false]);
        let frame = system.allocate(zero, Request::FRAME).unwrap();
        let other = system.allocate(one, Request::FRAME).unwrap();
        assert_eq!([open(system, 0), open(system, 1)], [[true, false]; 2]);
        // The other half of its pair is allocated.
        system.free(zero, Release::frame(frame)).unwrap();
        assert_eq!(system.requests.refused.order(), Order::new(1));
        assert_eq!(open(system, 0), [true, false]);
        system
            .free(zero, Release::frame(Index(frame.0 + 1)))
            .unwrap();
        assert_eq!(system.requests.refused.order(), None);
        assert_eq!(open(system, 0), [true; 2]);
        assert_eq!(open(system, 1), [true, false]);
        system.free(one, Release::frame(other)).unwrap();
        assert_eq!(open(system, 1), [true; 2]);
    });
}

/// The trees that CPU 1 owns are the same before and after a request of CPU 0 that is refused.
#[test]
fn a_free_into_a_block_that_stays_in_use_makes_no_refusal_expensive() {
    with_refused_pair(|system, zero, one| {
        let epoch = || system.requests.drains.epoch.load(Ordering::Relaxed);
        let frame = system.allocate(one, Request::FRAME).unwrap();
        let before = epoch();
        let owned = || system.locals[1].own_trees().collect::<Vec<_>>();
        let trees = owned();
        assert!(!trees.is_empty());
        for freed in [frame, system.allocate(zero, Request::FRAME).unwrap()] {
            system.free(zero, Release::frame(freed)).unwrap();
            for flags in [Flags::NONE, Flags::NO_WAIT] {
                let refused = system.allocate(zero, block(1).with_flags(flags));
                assert_eq!(refused, EXHAUSTED, "{flags:?}");
            }
        }
        assert_eq!((epoch(), owned()), (before, trees));
    });
}

/// A block of 64 frames was refused. Since then a list has most frames of a word, and the others are freed.
#[test]
fn a_block_of_which_a_list_has_frames_is_not_refused() {
    with_cpus((FRAMES, 0), (Some(128), 7), |system, [zero, one]| {
        allocate_frames(system, zero, FRAMES);
        for frame in (0..FRAMES).filter(|frame| frame % 64 > 1) {
            system.free(zero, Release::frame(Index(frame))).unwrap();
        }
        system.park(zero);
        assert_eq!(system.allocate(one, block(6)), EXHAUSTED);
        // The second one refills the list.
        let taken = [(); 2].map(|()| system.allocate(zero, Request::FRAME).unwrap());
        assert_eq!(system.buffered_frames(CpuId(0)), 60);
        let word = taken[0].0 / WORD * WORD;
        for frame in [Index(word), Index(word + 1), taken[0], taken[1]] {
            assert_eq!(system.requests.refused.order(), Order::new(6));
            system.free(one, Release::frame(frame)).unwrap();
        }
        assert_eq!(system.requests.refused.order(), None);
        // CPU 0 does not answer.
        assert_eq!(system.allocate(one, block(6)), BUSY);
        system.park(zero);
        assert_eq!(system.allocate(one, block(6)), Ok(Index(word)));
        system.check(one).unwrap();
    });
}

/// Otherwise all frees would miss as long as such a block is in use.
#[test]
fn a_refusal_is_forgotten_after_more_frees_than_there_are_trees() {
    with_refused_pair(|system, zero, _| {
        for count in 0..=4 {
            assert_eq!(open(system, 0), [true, false], "{count} frees");
            assert_eq!(system.requests.refused.order(), Order::new(1));
            let frame = system.allocate(zero, Request::FRAME).unwrap();
            system.free(zero, Release::frame(frame)).unwrap();
        }
        assert_eq!(system.requests.refused.order(), None);
        assert_eq!(open(system, 0), [true; 2]);
    });
}

/// Of a block of 128 frames, what is left is a frame at either end, a hole, or a reserved frame.
#[test]
fn a_block_with_any_other_frame_in_use_stays_refused() {
    for left in [0, 5, 64, 127] {
        for is_reserved in [false, true] {
            with_cpus((FRAMES, 0), (Some(128), 7), |system, [cpu, _]| {
                for _ in 0..4 {
                    system.allocate(cpu, block(7)).unwrap();
                }
                let others = [(0, left), (left + 2, 126_u32.saturating_sub(left))];
                for (start, frames) in others.into_iter().filter(|(_, frames)| *frames > 0) {
                    let end = (start + frames).min(128);
                    let run = Release::frames(Index(start), end - start);
                    system.free(cpu, run).unwrap();
                }
                if is_reserved {
                    system.free(cpu, Release::frames(Index(left), 1)).unwrap();
                    let one = FrameRange::new(Pfn(u64::from(left)), 1);
                    system.reserve(cpu, one).unwrap();
                }
                assert_eq!(system.allocate(cpu, block(7)), EXHAUSTED);
                if left < 127 {
                    system
                        .free(cpu, Release::frames(Index(left + 1), 1))
                        .unwrap();
                    assert_eq!(system.requests.refused.order(), Order::new(7));
                }
                system.check(cpu).unwrap();
            });
        }
    }
}

#[test]
fn every_free_of_a_whole_block_ends_a_refusal() {
    type Way = fn(&Trees<'_>, &mut Cpu, &mut Cpu);
    let ways: [Way; 6] = [
        |system, zero, _| system.free(zero, Release::frame(Index(1))).unwrap(),
        |system, _, one| system.free(one, Release::frame(Index(1))).unwrap(),
        |system, zero, _| system.free(zero, Release::frames(Index(1), 1)).unwrap(),
        |system, _, _| {
            let freed = system.free_nested(CpuId(1), Release::frame(Index(1)));
            freed.unwrap();
        },
        |system, zero, _| {
            let both = [1, 3].map(|frame| Release::frame(Index(frame)));
            system.free_bulk(zero, &both).unwrap();
        },
        |system, zero, _| {
            let range = FrameRange::new(Pfn(0), 1);
            system.reserve(zero, range).unwrap();
            system.free(zero, Release::frame(Index(1))).unwrap();
            let refused = system.allocate(zero, block(1));
            assert_eq!(refused, EXHAUSTED);
            system.unreserve(zero, range).unwrap();
        },
    ];
    for way in ways {
        with_refused_pair(|system, zero, one| {
            way(system, zero, one);
            assert_eq!(system.requests.refused.order(), None);
            system.park(one);
            assert_eq!(system.allocate(zero, block(1)), Ok(Index(0)));
        });
    }
}

#[test]
fn a_search_reads_only_words_into_which_frames_were_freed() {
    with_refused_pair(|system, zero, _| {
        let headers = system.shared.trees.headers;
        let two = order(1);
        for header in headers {
            let of = [Order::ZERO, two].map(|order| header.candidates(order));
            assert_eq!(of, [3, 0]);
        }
        free_into_tree(system, zero, 131, 1);
        let found = headers.iter().map(|header| header.candidates(two));
        assert!(found.eq([0, 1, 0, 0]));
        assert_eq!(system.allocate(zero, block(2)), EXHAUSTED);
        let four = order(2);
        assert_eq!(headers[1].candidates(four), 0);
        assert_eq!(system.allocate(zero, block(1)), Ok(Index(130)));
    });
}

#[test]
fn a_run_that_failed_excludes_words_without_a_block_as_large_as_its_largest_part() {
    with_system((FRAMES, 0), 1, (Some(128), 7), |system| {
        let mut cpu = NativeCpus::new(1).claim(CpuId(0)).unwrap();
        for _ in 0..FRAMES {
            system.allocate(&mut cpu, Request::FRAME).unwrap();
        }
        // Of eight frames two are free in the first word of a tree, and four in the second one.
        for start in (0..FRAMES).step_by(8) {
            free_into_tree(system, &mut cpu, start, 2 + start / 64 % 2 * 2);
        }
        let refused = system.allocate(&mut cpu, Request::frames(5));
        assert_eq!(refused, Err(AllocateError::Exhausted));
        for header in system.shared.trees.headers {
            let of = [1, 2].map(|order| header.candidates(Order::new(order).unwrap()));
            assert_eq!(of, [0b11, 0b10]);
        }
        system.check(&mut cpu).unwrap();
        assert_eq!(system.allocate(&mut cpu, block(2)), Ok(Index(64)));
    });
}

#[test]
fn a_header_remembers_the_last_order_that_failed() {
    let header = <Header<Native> as crate::arena::ZeroCells<Native>>::zero();
    let orders = [0, 1, 2, 3, 4].map(order);
    let [_, two, four, eight, _] = orders;
    header.any.set(0xff);
    let candidates = || orders.map(|order| header.candidates(order));
    assert_eq!(candidates(), [0xff; 5]);
    header.note_failed(four, 0b0011);
    assert_eq!(candidates(), [0xff, 0xff, 0xfc, 0xfc, 0xfc]);
    header.note_failed(four, 0b0100);
    assert_eq!(candidates(), [0xff, 0xff, 0xf8, 0xf8, 0xf8]);
    // Words without four frames have no eight, and may have two.
    header.note_failed(eight, 0b1000);
    assert_eq!(candidates(), [0xff, 0xff, 0xff, 0xf0, 0xf0]);
    header.note_failed(two, 0b1000);
    assert_eq!(candidates(), [0xff, 0xf7, 0xf7, 0xf7, 0xf7]);
    header.has_free(0b1000);
    assert_eq!(candidates(), [0xff; 5]);
}
