//! Cells of plain memory, so that ThreadSanitizer reports two unordered accesses to one of them.
//!
//! The cells of the native platform are atomics with relaxed ordering, so that a caller's misuse has no undefined
//! behaviour. Such accesses never race, and a missing acquire or release goes unnoticed. Here
//! [`get`](SharedCell::get) and [`set`](SharedCell::set) are ordinary accesses, and every access that the argument of
//! a layer forgot is a race. Loom finds these in models of a few steps; this platform is for long runs of whole
//! systems. The records of frames are atomics on every platform, and their races are not reported.
//!
//! # Invariants
//! 1. Only tests use it, and only under ThreadSanitizer: see `ci/tsan.sh`. A race is undefined behaviour here. It is
//!    the error that the run exists to find, and the first report ends the run as a failure.
//! 2. A [`peek`](SharedCell::peek) is a hint and may race. It reads a copy of the value, an atomic with relaxed
//!    ordering, which orders nothing.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::marker::PhantomData;

use everybuddy::Platform;
use everybuddy::platform::{CellValue, NativeCell, SharedCell};

/// The platform `M` with cells of plain memory.
pub struct Plain<M: Platform>(PhantomData<fn() -> M>);

/// A cell of plain memory, and a copy of its value for hints.
pub struct PlainCell<T: CellValue> {
    value: UnsafeCell<T>,
    hint: NativeCell<T>,
}

// SAFETY: the layers argue that no CPU reads a cell while another one writes to it, and this type exists to test that
// argument (invariant 1).
unsafe impl<T: CellValue> Sync for PlainCell<T> {}

impl<T: CellValue> SharedCell<T> for PlainCell<T> {
    fn new(value: T) -> Self {
        Self {
            value: UnsafeCell::new(value),
            hint: NativeCell::new(value),
        }
    }

    // The accesses are volatile, so that there is exactly one: the compiler neither omits nor repeats it.
    #[inline(always)]
    fn get(&self) -> T {
        // SAFETY: the pointer is that of a live value of a `Copy` type. No CPU writes to it now (invariant 1).
        unsafe { self.value.get().read_volatile() }
    }

    #[inline(always)]
    fn peek(&self) -> T {
        self.hint.get()
    }

    #[inline(always)]
    fn set(&self, value: T) {
        // SAFETY: as in `get`; and no CPU reads it now.
        unsafe { self.value.get().write_volatile(value) };
        self.hint.set(value);
    }

    /// In two steps: no CPU accesses the cell between them (invariant 1).
    #[inline(always)]
    fn exchange(&self, current: T, new: T) -> bool {
        let is_current = self.get() == current;
        if is_current {
            self.set(new);
        }
        is_current
    }
}

// SAFETY: words are those of `M`. A cell returns what was stored there: the two fields are written together, and an
// aligned value of at most eight bytes is read and written by one instruction. All-zero bytes are two zeros.
unsafe impl<M: Platform> Platform for Plain<M> {
    const ZERO_BYTES_ARE_ZERO_CELLS: bool = M::ZERO_BYTES_ARE_ZERO_CELLS;
    const SERVICE_POLLS: u32 = M::SERVICE_POLLS;
    type AtomicU32 = M::AtomicU32;
    type AtomicU64 = M::AtomicU64;
    type Cell<T: CellValue> = PlainCell<T>;
    type Cpu = M::Cpu;
    type Probe = M::Probe;

    fn probe(cpu: &mut M::Cpu) -> &mut M::Probe {
        M::probe(cpu)
    }

    fn wait(word: &M::AtomicU32, seen: u32, attempt: u32) {
        M::wait(word, seen, attempt);
    }

    fn wake(word: &M::AtomicU32) {
        M::wake(word);
    }
}
