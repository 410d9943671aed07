//! The state after a second, simultaneous free of the same frames by another CPU, which is misuse.

use super::*;
use crate::Block;
use crate::arena::ZeroCells;

const TREE: u32 = TREE_OF_TWO;
/// A frame that was freed twice.
const TWICE: u32 = 3;

fn frame(start: u32) -> Release {
    Release::frame(Index(start))
}

/// Frees a block although it was freed before, as if this free had read its head before the first one removed it.
fn free_again(system: &Trees<'_>, cpu: &mut Cpu, release: Release) {
    let Extent::Block(order) = release.size.extent() else {
        panic!("a block");
    };
    system
        .shared
        .heads
        .set(release.start.0, order, Kind::Staying);
    system.free(cpu, release).unwrap();
}

/// Calls `body` where both CPUs have listed the same frame.
fn with_listed_twice(body: impl FnOnce(&Trees<'_>, &mut Cpu, &mut Cpu)) {
    with_two_cpus(|system, zero, one| {
        allocate_frames(system, zero, TREE);
        allocate_frames(system, one, 1);
        singles(system, 1, Kind::Staying).point.set(TREE);
        system.free(zero, frame(TWICE)).unwrap();
        free_again(system, one, frame(TWICE));
        let lists = [0, 1].map(|cpu| system.locals[cpu].listed().any(|(at, _)| at == TWICE));
        assert_eq!(lists, [true; 2]);
        body(system, zero, one);
    });
}

#[test]
fn a_frame_that_a_cpu_listed_twice_is_allocated_once_at_a_time() {
    with_two_cpus(|system, zero, _| {
        allocate_frames(system, zero, TREE);
        system.free(zero, frame(TWICE)).unwrap();
        free_again(system, zero, frame(TWICE));
        assert_eq!(system.allocate(zero, Request::FRAME), Ok(Index(TWICE)));
        let next = system.allocate(zero, Request::FRAME).unwrap();
        assert_ne!(next, Index(TWICE));
        system.check(zero).unwrap();
    });
}

#[test]
fn a_frame_that_two_cpus_listed_is_allocated_once_at_a_time() {
    with_listed_twice(|system, zero, one| {
        assert_eq!(system.allocate(one, Request::FRAME), Ok(Index(TWICE)));
        let next = system.allocate(zero, Request::FRAME).unwrap();
        assert_ne!(next, Index(TWICE));
        system.check(zero).unwrap();
    });
}

#[test]
fn a_listed_frame_that_another_cpu_allocated_does_not_leave_the_list_as_free() {
    with_listed_twice(|system, zero, one| {
        assert_eq!(system.allocate(zero, Request::FRAME), Ok(Index(TWICE)));
        system.park(one);
        system.check(zero).unwrap();
        while let Ok(given) = system.allocate(one, Request::FRAME.with_flags(Flags::NO_WAIT)) {
            assert_ne!(given, Index(TWICE));
        }
        system.free(zero, frame(TWICE)).unwrap();
        system.check(zero).unwrap();
    });
}

/// Calls `body` with a tree of four words, whose first word has a returned frame, [`TWICE`].
fn with_returned(body: impl FnOnce(&AllTrees<'_, Native>, &Header<Native>, &word::Word<Native>)) {
    let headers = [Header::<Native>::zero()];
    let words = [(); 4].map(|()| word::Word::<Native>::zero());
    let trees = AllTrees::new(&headers, &words, 8);
    assert!(words[0].post(1 << TWICE));
    headers[0]
        .inbox
        .store(1, crate::platform::Ordering::Relaxed);
    body(&trees, &headers[0], &words[0]);
}

/// The owner freed the frame, and another CPU returned it.
#[test]
fn a_frame_that_is_free_and_returned_is_one_free_frame() {
    with_returned(|trees, header, word| {
        header.split.set(1);
        header.has_free(1);
        word.own.set(1 << TWICE);
        // The word has no frame to give before the collection.
        let taken = [(); 2].map(|()| trees.take_frame(0, header));
        assert_eq!(taken, [Some(WORD), Some(WORD + 1)]);
        header.has_free(1);
        trees.collect(0, header);
        assert_eq!(
            (word.free(), word.has_foreign(u64::MAX)),
            (1 << TWICE, false)
        );
        assert_eq!(trees.take_frame(0, header), Some(TWICE));
    });
}

/// The owner freed the last frame of the word, so that all of its frames are free, and another CPU returned the frame.
#[test]
fn what_was_returned_to_a_free_word_is_not_freed_under_the_next_holder() {
    type Take = fn(&AllTrees<'_, Native>, &Header<Native>) -> Option<u32>;
    let takes: [Take; 5] = [
        |trees, header| trees.take_words(0, header, order(6)),
        |trees, header| trees.take_words(0, header, order(8)),
        |trees, header| trees.take(0, header, 100, order(7)),
        |trees, header| trees.take(0, header, 4, order(2)),
        |trees, header| {
            let taken = trees.take_of_first(0, header, tree::Among::All, (order(2), 1));
            taken.map(|(start, blocks)| start + blocks.trailing_zeros())
        },
    ];
    for (take, number) in takes.into_iter().zip(0..) {
        with_returned(|trees, header, word| {
            assert_eq!(take(trees, header), Some(0), "{number}");
            trees.collect(0, header);
            assert_eq!(word.free() & 1 << TWICE, 0, "{number}");
        });
    }
}

#[test]
fn of_two_frees_of_a_large_block_one_removes_its_head() {
    with_two_cpus(|system, zero, one| {
        let heads = &system.shared.heads;
        let six = system.allocate(zero, Request::order(order(6))).unwrap();
        let byte = heads.of(six.0).unwrap();
        let seen = byte.get();
        assert!(byte.exchange(seen, 0) && !byte.exchange(seen, 0));
        byte.set(seen);
        // Together with the block before it, which another CPU frees meanwhile, it stays as it was.
        let other = system.allocate(zero, Request::order(order(6))).unwrap();
        assert_eq!((six, other), (Index(0), Index(WORD)));
        let claimed = heads.of(other.0).unwrap();
        claimed.set(claimed.get() | 0x40);
        assert!(!heads.take_pieces(0, 2 * WORD));
        assert_eq!(heads.take(other.0, order(6)), None);
        let release = Release::frames(six, 2 * WORD);
        assert_eq!(system.free(one, release), Err(FreeError::Busy));
        // The rightful free of the other CPU may come back.
        let own = Release::block(Block::new(other, order(6)));
        assert_eq!(system.free(zero, own), Err(FreeError::Busy));
        claimed.set(claimed.get() & !0x40);
        let block = Release::block(Block::new(six, order(6)));
        system.free(one, block).unwrap();
        assert_eq!(system.free(one, block), Err(FreeError::NotAllocated));
        system.free(zero, Release::frames(other, WORD)).unwrap();
        system.check(zero).unwrap();
    });
}
