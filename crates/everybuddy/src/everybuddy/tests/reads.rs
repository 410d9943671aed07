//! Which words a search reads, those of the own tree that can matter and no other, and which trees a refusal claims.

use super::*;
use crate::arena::ZeroCells;
use crate::request::Flags;
use crate::testing::counting::Counting;

/// Requests a run of the first of two trees of four words, whose split words are `split`, without free frames. Returns
/// the words that were read.
fn words_read(split: u64, frames: u32) -> Vec<usize> {
    let headers = [(); 2].map(|()| Header::<Counting>::zero());
    let words = [(); 8].map(|()| word::Word::<Counting>::zero());
    headers[0].split.set(split);
    let trees = AllTrees::new(&headers, &words, 8);
    let order = Order::covering(frames).unwrap();
    assert_eq!(trees.take(0, &headers[0], frames, order), None);
    let read = |index: &usize| words[*index].own.reads.get() > 0;
    (0..8).filter(read).collect()
}

#[test]
fn a_search_for_whole_words_reads_no_word() {
    // The last word is free. The word after it is of another tree, which another CPU may own.
    for frames in [64, 128, 192, 256] {
        assert_eq!(
            words_read(0b0111 | u64::from(frames == 64) << 3, frames),
            []
        );
    }
}

/// All words of the first trees are in use.
#[test]
fn a_search_looks_once_at_a_tree_that_does_not_serve() {
    let headers = [(); 4].map(|()| Header::<Counting>::zero());
    let words = [(); 16].map(|()| word::Word::<Counting>::zero());
    headers[..3]
        .iter()
        .for_each(|header| header.split.set(0b1111));
    let shared = Shared {
        trees: AllTrees::new(&headers, &words, 8),
        spent: &[AtomicWord::<u64>::new(0)],
        heads: Heads::new(&[], Order::ZERO),
        windows: foreign::Windows::new(4, 1),
    };
    let wanted = Wanted {
        frames: 1,
        order: Order::ZERO,
        kind: Kind::Staying,
    };
    let found = shared.search(1, (0, 0), wanted, false);
    assert!(matches!(found, foreign::Found::Taken(3, 768)));
    let reads = headers[..3].iter().map(|header| header.split.reads.get());
    assert!(reads.eq([1; 3]));
}

#[test]
fn a_search_for_a_run_reads_the_words_that_can_end_it() {
    // Words 0 and 2 begin runs of an aligned word and a part; only 0 is whole.
    assert_eq!(words_read(0b1110, 100), [1]);
    // No aligned word is whole.
    assert_eq!(words_read(0b0101, 100), []);
    assert_eq!(words_read(0b1111, 100), []);
    // Three words and a part begin with the tree.
    assert_eq!(words_read(0b1000, 200), [3]);
    assert_eq!(words_read(0b1001, 200), []);
}

/// All frames but one of each tree are free, and the other CPU is parked.
#[test]
fn a_block_of_whole_words_is_refused_without_a_claim() {
    const TREE: u32 = 128;
    for flags in [Flags::NONE, Flags::NO_WAIT] {
        for order in [6, 7] {
            with_system_on::<Counting>((16 * TREE, 0), 2, (Some(TREE), 7), |system| {
                let set = NativeCpus::new(2);
                let [mut zero, mut one] = [0, 1].map(|cpu| set.claim(CpuId(cpu)).unwrap());
                for _ in 0..16 * TREE {
                    system.allocate(&mut one, Request::FRAME).unwrap();
                }
                let is_kept = |frame: &u32| frame % TREE == 7 || frame % TREE == 70;
                for frame in (0..16 * TREE).filter(|frame| !is_kept(frame)) {
                    system.free(&mut one, Release::frame(Index(frame))).unwrap();
                }
                system.park(&mut one);
                let headers = system.shared.trees.headers.iter();
                let claims = || headers.clone().map(|header| header.owner.exchanges.get());
                let before: Vec<u32> = claims().collect();
                let request = Request::order(Order::new(order).unwrap()).with_flags(flags);
                assert_eq!(system.allocate(&mut zero, request), EXHAUSTED, "{flags:?}");
                assert_eq!(system.requests.refused.order(), Order::new(order));
                assert!(claims().eq(before), "{flags:?}");
                system.check(&mut zero).unwrap();
            });
        }
    }
}

#[test]
fn a_bulk_reads_the_planes_of_a_word_and_the_header_of_a_tree_few_times() {
    with_system_on::<Counting>((4096, 0), 1, (Some(2048), 11), |system| {
        let mut cpu = NativeCpus::new(1).claim(CpuId(0)).unwrap();
        // The tree is the current one afterwards, and its first word is split.
        let first = system.allocate(&mut cpu, Request::FRAME).unwrap();
        for order in [1, 2, 6, 7] {
            let order = Order::new(order).unwrap();
            let one = Request::order(order);
            let start = system.allocate(&mut cpu, one).unwrap();
            let mut out = [Index(0); 14];
            let trees = &system.shared.trees;
            let reads = || {
                let split = trees.headers.iter().map(|header| header.split.reads.get());
                let own = trees.words.iter().map(|word| word.own.reads.get());
                split.chain(own).max().unwrap()
            };
            let reset = || {
                trees
                    .headers
                    .iter()
                    .for_each(|header| header.split.reads.set(0));
                trees.words.iter().for_each(|word| word.own.reads.set(0));
            };
            reset();
            assert_eq!(system.allocate_bulk(&mut cpu, one, &mut out), Ok(14));
            assert!(reads() < 10, "{} reads for {order:?}", reads());
            let block = |start: Index| Release::block(crate::Block::new(start, order));
            system.free(&mut cpu, block(start)).unwrap();
            reset();
            system.free_bulk(&mut cpu, &out.map(block)).unwrap();
            // Each block of whole words is looked up in the header.
            let most = if order.get() < 6 { 6 } else { 14 + 6 };
            assert!(reads() < most, "{} reads to free {order:?}", reads());
        }
        system.free(&mut cpu, Release::frame(first)).unwrap();
        system.check(&mut cpu).unwrap();
    });
}
