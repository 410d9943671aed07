//! A platform for one thread, whose read-modify-writes are plain loads and stores.
//!
//! On one thread, a lock then costs what its instructions cost, and nothing for being atomic.
//!
//! # Invariants
//! One thread uses a system on it, by convention: the platform is private to this experiment, which gets its token from
//! [`OneThread`]. Nothing else ties it to that set of one.

use everybuddy::platform::{
    AtomicWord, CellValue, NativeAtomicU32, NativeAtomicU64, NativeCell, NativeCpu, NativeCpus,
    Ordering, Platform,
};
use everybuddy::{Native, NoProbe};
use serde::Deserialize;

/// The number of threads of the experiment, which is one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "u16")]
pub(super) struct OneThread;

impl TryFrom<u16> for OneThread {
    type Error = &'static str;

    fn try_from(threads: u16) -> Result<Self, Self::Error> {
        let refused = "threads: a lock of plain loads and stores is for one thread only";
        (threads == 1).then_some(Self).ok_or(refused)
    }
}

impl OneThread {
    /// The number of CPUs.
    pub(super) const CPUS: u16 = 1;

    /// Returns the set with the token of the one CPU.
    pub(super) fn cpus(self) -> NativeCpus {
        NativeCpus::new(Self::CPUS)
    }
}

/// The machine, with words whose read-modify-writes are plain. The exchange of a cell is still the native one.
#[derive(Debug)]
pub(super) struct Plain;

/// A word whose read-modify-writes are a load and a store.
#[repr(transparent)]
pub(super) struct PlainWord<W>(W);

/// Values that a word adds with wrap-around.
pub(super) trait Adds: CellValue + PartialEq {
    /// Returns the sum.
    fn plus(self, other: Self) -> Self;
    /// Returns the difference.
    fn minus(self, other: Self) -> Self;
}

macro_rules! adds {
    ($($value:ty),*) => {$(
        impl Adds for $value {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    )*};
}
adds!(u32, u64);

impl<T: Adds, W: AtomicWord<T>> AtomicWord<T> for PlainWord<W> {
    fn new(value: T) -> Self {
        Self(W::new(value))
    }
    #[inline(always)]
    fn load(&self, ordering: Ordering) -> T {
        self.0.load(ordering)
    }
    #[inline(always)]
    fn store(&self, value: T, ordering: Ordering) {
        self.0.store(value, ordering);
    }
    #[inline(always)]
    fn swap(&self, value: T, _: Ordering) -> T {
        update(&self.0, |_| value)
    }
    #[inline(always)]
    fn compare_exchange(&self, current: T, new: T, _: Ordering, _: Ordering) -> Result<T, T> {
        // Relaxed: no other thread accesses the word.
        let old = self.0.load(Ordering::Relaxed);
        if old != current {
            return Err(old);
        }
        self.0.store(new, Ordering::Relaxed);
        Ok(old)
    }
    #[inline(always)]
    fn fetch_add(&self, value: T, _: Ordering) -> T {
        update(&self.0, |old| old.plus(value))
    }
    #[inline(always)]
    fn fetch_sub(&self, value: T, _: Ordering) -> T {
        update(&self.0, |old| old.minus(value))
    }
}

/// Replaces the value of a word by what `change` makes of it; returns the old one.
#[inline(always)]
fn update<T: Adds>(word: &impl AtomicWord<T>, change: impl FnOnce(T) -> T) -> T {
    // Relaxed: no other thread accesses the word.
    let old = word.load(Ordering::Relaxed);
    word.store(change(old), Ordering::Relaxed);
    old
}

// SAFETY: its cells and words are the native ones, so a read returns a value that was stored, and zero bytes are zero.
#[allow(unsafe_code)]
unsafe impl Platform for Plain {
    const ZERO_BYTES_ARE_ZERO_CELLS: bool = <Native as Platform>::ZERO_BYTES_ARE_ZERO_CELLS;

    type AtomicU32 = PlainWord<NativeAtomicU32>;
    type AtomicU64 = PlainWord<NativeAtomicU64>;
    type Cell<T: CellValue> = NativeCell<T>;
    type Cpu = NativeCpu<NoProbe>;
    type Probe = NoProbe;

    #[inline(always)]
    fn probe(cpu: &mut NativeCpu) -> &mut NoProbe {
        cpu.probe()
    }

    fn wait(word: &Self::AtomicU32, seen: u32, attempt: u32) {
        <Native as Platform>::wait(&word.0, seen, attempt);
    }

    #[inline(always)]
    fn wake(word: &Self::AtomicU32) {
        <Native as Platform>::wake(&word.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everybuddy::CpuId;

    #[test]
    fn words_do_what_atomic_ones_do_on_one_thread() {
        fn results<W: AtomicWord<u64>>() -> [u64; 7] {
            let (word, relaxed) = (W::new(3), Ordering::Relaxed);
            let added = word.fetch_add(u64::MAX, relaxed);
            let subtracted = word.fetch_sub(4, relaxed);
            let wrapped = word.swap(7, relaxed);
            let refused = word.compare_exchange(8, 9, relaxed, relaxed).unwrap_err();
            let replaced = word.compare_exchange(7, 9, relaxed, relaxed).unwrap();
            let now = word.load(relaxed);
            word.store(1, relaxed);
            let last = word.load(relaxed);
            [added, subtracted, wrapped, refused, replaced, now, last]
        }
        let plain = results::<PlainWord<NativeAtomicU64>>();
        assert_eq!(plain, [3, 2, u64::MAX - 1, 7, 7, 9, 1]);
        assert_eq!(plain, results::<NativeAtomicU64>());
    }

    #[test]
    fn a_second_thread_is_refused() {
        assert!(OneThread::try_from(2).is_err());
        let cpus = OneThread::try_from(1).unwrap().cpus();
        let _first = cpus.claim(CpuId(0)).unwrap();
        assert!(cpus.claim(CpuId(0)).is_err() && cpus.claim(CpuId(1)).is_err());
    }
}
