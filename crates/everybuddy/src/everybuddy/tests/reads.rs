//! Which words a search reads: those of the own tree that can matter, and no other.

use super::*;
use crate::arena::ZeroCells;
use crate::platform::{
    CellValue, NativeAtomicU32, NativeAtomicU64, NativeCell, NativeCpu, SharedCell,
};

/// A cell that counts how often it was read.
struct Counted<T: CellValue> {
    value: NativeCell<T>,
    reads: NativeCell<u32>,
}

impl<T: CellValue> SharedCell<T> for Counted<T> {
    fn new(value: T) -> Self {
        Self {
            value: NativeCell::new(value),
            reads: NativeCell::new(0),
        }
    }

    fn get(&self) -> T {
        self.reads.set(self.reads.get() + 1);
        self.value.get()
    }

    fn set(&self, value: T) {
        self.value.set(value);
    }

    fn exchange(&self, current: T, new: T) -> bool {
        self.value.exchange(current, new)
    }
}

struct Counting;

// SAFETY: atomics and tokens are those of `Native`, and a cell returns what its native cell does.
#[allow(unsafe_code)]
unsafe impl Platform for Counting {
    type AtomicU32 = NativeAtomicU32;
    type AtomicU64 = NativeAtomicU64;
    type Cell<T: CellValue> = Counted<T>;
    type Cpu = Cpu;
    type Probe = NoProbe;

    fn probe(cpu: &mut NativeCpu) -> &mut NoProbe {
        cpu.probe()
    }
    fn wait(_: &NativeAtomicU32, _: u32, _: u32) {}
    fn wake(_: &NativeAtomicU32) {}
}

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
