//! A platform that counts: reads of each cell, exchanges of each word, and all loads of words by a thread.

use core::cell::Cell;
use std::thread_local;

use crate::NoProbe;
use crate::platform::{
    AtomicWord, CellValue, NativeAtomicU32, NativeAtomicU64, NativeCell, NativeCpu, Ordering,
    Platform, SharedCell,
};

thread_local! {
    static LOADS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of loads of words by this thread so far.
pub(crate) fn loads() -> u64 {
    LOADS.get()
}

/// A cell that counts how often it was read.
pub(crate) struct Counted<T: CellValue> {
    value: NativeCell<T>,
    pub(crate) reads: NativeCell<u32>,
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

/// A word that counts how often it was exchanged. Loads are counted by thread.
pub(crate) struct CountedWord<A> {
    value: A,
    pub(crate) exchanges: NativeCell<u32>,
}

impl<A> CountedWord<A> {
    fn count(&self) -> &A {
        self.exchanges.set(self.exchanges.get() + 1);
        &self.value
    }
}

impl<T: CellValue, A: AtomicWord<T>> AtomicWord<T> for CountedWord<A> {
    fn new(value: T) -> Self {
        Self {
            value: A::new(value),
            exchanges: NativeCell::new(0),
        }
    }

    fn load(&self, ordering: Ordering) -> T {
        LOADS.set(LOADS.get() + 1);
        self.value.load(ordering)
    }

    fn store(&self, value: T, ordering: Ordering) {
        self.value.store(value, ordering);
    }

    fn swap(&self, value: T, ordering: Ordering) -> T {
        self.count().swap(value, ordering)
    }

    fn compare_exchange(
        &self,
        current: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T> {
        self.count()
            .compare_exchange(current, new, success, failure)
    }

    fn fetch_add(&self, value: T, ordering: Ordering) -> T {
        self.count().fetch_add(value, ordering)
    }

    fn fetch_sub(&self, value: T, ordering: Ordering) -> T {
        self.count().fetch_sub(value, ordering)
    }
}

pub(crate) struct Counting;

// SAFETY: tokens are those of `Native`, and cells and words return what the native ones do.
#[allow(unsafe_code)]
unsafe impl Platform for Counting {
    type AtomicU32 = CountedWord<NativeAtomicU32>;
    type AtomicU64 = CountedWord<NativeAtomicU64>;
    type Cell<T: CellValue> = Counted<T>;
    type Cpu = NativeCpu;
    type Probe = NoProbe;

    fn probe(cpu: &mut NativeCpu) -> &mut NoProbe {
        cpu.probe()
    }
    fn wait(_: &Self::AtomicU32, _: u32, _: u32) {}
    fn wake(_: &Self::AtomicU32) {}
}
