//! A platform on which every access to a structure's words is counted.
//!
//! Structures as different as a queue and a bitmap are measured by the same yardstick, without a line for it in any of
//! them. A **step** is one read or one write of a word that a store keeps: a link, a head or an end, a word of bits, a
//! count, a mark. Walking past a node of a queue is one step, past a node of a tree one or two.
//!
//! # Invariants
//! A thread counts its own accesses.

use std::cell::Cell;

use everybuddy::platform::{
    AtomicWord, CellValue, NativeAtomicU32, NativeAtomicU64, NativeCell, NativeCpu, Ordering,
    Platform, SharedCell,
};
use everybuddy::{Native, NoProbe};

thread_local! {
    static ACCESSES: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many accesses this thread has made. O(1).
#[inline]
pub fn accesses() -> u64 {
    ACCESSES.get()
}

#[inline]
fn count() {
    ACCESSES.set(ACCESSES.get() + 1);
}

/// The machine, counted.
#[derive(Debug)]
pub struct Counting;

/// A word whose accesses are counted.
#[repr(transparent)]
pub struct Counted<W>(W);

impl<T: CellValue> SharedCell<T> for Counted<NativeCell<T>> {
    fn new(value: T) -> Self {
        Self(NativeCell::new(value))
    }
    #[inline]
    fn get(&self) -> T {
        count();
        self.0.get()
    }
    #[inline]
    fn set(&self, value: T) {
        count();
        self.0.set(value);
    }
    fn exchange(&self, current: T, new: T) -> bool {
        count();
        self.0.exchange(current, new)
    }
}

impl<T: CellValue, W: AtomicWord<T>> AtomicWord<T> for Counted<W> {
    fn new(value: T) -> Self {
        Self(W::new(value))
    }
    #[inline]
    fn load(&self, ordering: Ordering) -> T {
        count();
        self.0.load(ordering)
    }
    #[inline]
    fn store(&self, value: T, ordering: Ordering) {
        count();
        self.0.store(value, ordering);
    }
    fn swap(&self, value: T, ordering: Ordering) -> T {
        count();
        self.0.swap(value, ordering)
    }
    fn compare_exchange(&self, old: T, new: T, yes: Ordering, no: Ordering) -> Result<T, T> {
        count();
        self.0.compare_exchange(old, new, yes, no)
    }
    fn fetch_add(&self, value: T, ordering: Ordering) -> T {
        count();
        self.0.fetch_add(value, ordering)
    }
    fn fetch_sub(&self, value: T, ordering: Ordering) -> T {
        count();
        self.0.fetch_sub(value, ordering)
    }
}

// SAFETY: its words and cells are the native ones, counted.
#[allow(unsafe_code)]
unsafe impl Platform for Counting {
    type AtomicU32 = Counted<NativeAtomicU32>;
    type AtomicU64 = Counted<NativeAtomicU64>;
    type Cell<T: CellValue> = Counted<NativeCell<T>>;
    type Cpu = NativeCpu<NoProbe>;
    type Probe = NoProbe;

    fn probe(cpu: &mut NativeCpu) -> &mut NoProbe {
        cpu.probe()
    }

    fn wait(word: &Self::AtomicU32, seen: u32, attempt: u32) {
        <Native as Platform>::wait(&word.0, seen, attempt);
    }

    fn wake(word: &Self::AtomicU32) {
        <Native as Platform>::wake(&word.0);
    }
}
