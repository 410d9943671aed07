//! What a CPU does while another one asks for its trees.

use super::*;
use crate::platform::{AtomicWord, Ordering, SharedCell};
use crate::request::Flags;
use wanted::CLOSED_ID;

const TREE: u32 = 256;

/// Calls `body` with two CPUs, of which the first one owns the first tree. Of each word of the others but the
/// last one, eight frames are allocated. No CPU owns these trees.
fn with_two_cpus(body: impl FnOnce(&Trees<'_>, &mut Cpu, &mut Cpu)) {
    with_cpus((16 * TREE, 0), (Some(TREE), 8), |system, [zero, one]| {
        allocate_frames(system, zero, TREE);
        for word in TREE / WORD..15 * TREE / WORD {
            let range = FrameRange::new(Pfn(u64::from(word * WORD)), 8);
            system.allocate_at(one, range).unwrap();
        }
        body(system, zero, one);
        system.check(zero).unwrap();
    });
}

/// Does what the beginning of another CPU's request does.
fn ask(system: &Trees<'_>, cpu: usize) {
    system.requests.drains.count.fetch_add(1, Ordering::AcqRel);
    system.requests.drains.epoch.fetch_add(1, Ordering::AcqRel);
    system.locals[cpu].close();
}

#[test]
fn no_operation_keeps_a_tree_or_a_frame_while_a_request_is_pending() {
    type Operation = fn(&Trees<'_>, &mut Cpu);
    let operations: [Operation; 9] = [
        |system, cpu| {
            system.allocate(cpu, Request::FRAME).unwrap();
        },
        |system, cpu| {
            system.allocate(cpu, Request::frames(3)).unwrap();
        },
        |system, cpu| {
            let word = Request::order(order(6));
            system
                .allocate(cpu, word.with_flags(Flags::NO_WAIT))
                .unwrap();
        },
        |system, cpu| {
            let mut out = [Index(0); 100];
            system.allocate_bulk(cpu, Request::FRAME, &mut out).unwrap();
        },
        |system, cpu| system.free(cpu, Release::frame(Index(3))).unwrap(),
        // Into a tree without owner, often enough that the CPU would keep it.
        |system, cpu| {
            for frame in 0..8 {
                let frame = Index(9 * TREE + frame);
                system.free(cpu, Release::frames(frame, 1)).unwrap();
            }
        },
        |system, cpu| {
            for tree in 4..12 {
                let words = (0..4).map(|word| Index(tree * TREE + word * WORD));
                let freed: Vec<_> = words.map(|start| Release::frames(start, 8)).collect();
                system.free_bulk(cpu, &freed).unwrap();
            }
        },
        |system, cpu| {
            let both = [4, 5].map(|frame| Release::frame(Index(frame)));
            system.free_bulk(cpu, &both).unwrap();
        },
        |system, cpu| {
            let range = FrameRange::new(Pfn(u64::from(15 * TREE)), 8);
            system.try_allocate_at(cpu, range).unwrap();
        },
    ];
    for operation in operations {
        with_two_cpus(|system, zero, one| {
            ask(system, 0);
            let local = &system.locals[0];
            for is_first in [true, false] {
                if is_first {
                    operation(system, zero);
                } else {
                    let _ = system.allocate(zero, Request::FRAME);
                }
                assert_eq!(local.own_trees().count(), 0);
                assert_eq!(local.identity.load(Ordering::Relaxed), CLOSED_ID);
                assert!(!local.may_keep());
                let epoch = system.requests.drains.epoch.load(Ordering::Relaxed);
                let state = crate::percpu::drain::CpuState(local.state.load(Ordering::Relaxed));
                assert_eq!(state.epoch(), epoch);
            }
            system.requests.drains.count.fetch_sub(1, Ordering::AcqRel);
            system.allocate(zero, Request::FRAME).unwrap();
            assert_eq!(system.locals[0].own_trees().count(), 1);
            system.park(one);
        });
    }
}

/// A frame of a tree that another CPU owns is returned, and not kept. Further frees into a word of kept frames do not
/// pass the request by.
#[test]
fn a_cpu_that_keeps_frames_notices_a_request_when_it_returns_another_one() {
    with_two_cpus(|system, zero, one| {
        for frame in [2, 3] {
            system.free(one, Release::frame(Index(frame))).unwrap();
        }
        let gathered = || system.locals[1].gathered.get();
        assert_eq!(gathered(), 1 << 3);
        ask(system, 1);
        for frame in [4, 5] {
            system.free(one, Release::frame(Index(frame))).unwrap();
            assert_eq!(gathered(), 0);
            assert!(!system.locals[1].may_keep());
            let header = system.shared.trees.header(0).unwrap();
            assert_eq!(header.inbox.load(Ordering::Relaxed), 1);
        }
        system.requests.drains.count.fetch_sub(1, Ordering::AcqRel);
        system.park(zero);
    });
}

#[test]
fn a_free_into_a_pending_word_that_is_whole_again_is_refused() {
    with_two_cpus(|system, zero, one| {
        system.free(one, Release::frame(Index(3))).unwrap();
        for frame in (0..WORD).filter(|frame| *frame != 3) {
            system.free(zero, Release::frame(Index(frame))).unwrap();
        }
        // CPU 0 takes what CPU 1 returned, and frees it.
        let range = FrameRange::new(Pfn(3), 1);
        assert_eq!(system.try_allocate_at(zero, range), Ok(Index(3)));
        system.free(zero, Release::frames(Index(3), 1)).unwrap();
        system.drain(zero);
        assert!(system.shared.trees.part(3).unwrap().header.is_whole(1));
        assert_eq!(system.locals[1].pending.get(), 0);
        for frame in [3, 5] {
            let again = system.free(one, Release::frame(Index(frame)));
            assert_eq!(again, Err(FreeError::NotAllocated));
            system.check(zero).unwrap();
        }
    });
}
