//! A platform of one thread that logs every write, counts accesses, and calls a hook at an access.
//!
//! # Purpose
//!
//! The log says which words an operation may have changed, so that only these are compared and restored. The hook
//! stops an operation between two accesses: another CPU goes on there, or an interrupt calls.
//!
//! # Invariants
//!
//! 1. A platform's CPUs are one thread, so no two accesses are simultaneous. Orderings of memory are not explored; the
//!    models under loom do that.
//! 2. The hook is called before the access takes effect.
#![allow(unsafe_code)]

use core::cell::{Cell, RefCell};
use std::thread_local;

use everybuddy::platform::{
    AtomicWord, CellValue, CpuToken, NativeAtomicU32, NativeAtomicU64, NativeCell, Ordering,
    Platform, SharedCell,
};
use everybuddy::{CpuId, NoProbe};

/// The most accesses of one operation. Operations on memory of a few frames take some hundreds.
pub const MOST_ACCESSES: u64 = 1 << 20;

/// What happens at an access or a wait.
struct Monitor {
    /// The accesses before the hook is called.
    left: Cell<u64>,
    /// What is called then, and at each wait with `true`.
    hook: Cell<fn(bool)>,
    /// The addresses that were written.
    written: RefCell<Vec<usize>>,
}

thread_local! {
    static MONITOR: Monitor = const {
        Monitor {
            left: Cell::new(MOST_ACCESSES),
            hook: Cell::new(no_end),
            written: RefCell::new(Vec::new()),
        }
    };
}

/// The hook of an operation that runs alone.
fn no_end(is_wait: bool) {
    if !is_wait {
        stop_after(MOST_ACCESSES);
        panic!("a wait without end");
    }
}

/// Sets the number of accesses before the hook is called.
pub fn stop_after(accesses: u64) {
    MONITOR.with(|monitor| monitor.left.set(accesses));
}

/// Returns the number of accesses before the hook is called.
pub fn left() -> u64 {
    MONITOR.with(|monitor| monitor.left.get())
}

/// Sets what is called at the access that [`stop_after`] chooses, with `false`, and at each wait, with `true`.
pub fn hook(hook: fn(bool)) {
    MONITOR.with(|monitor| monitor.hook.set(hook));
}

/// Lets operations run alone: more than [`MOST_ACCESSES`] are a panic.
pub fn alone() {
    hook(no_end);
    stop_after(MOST_ACCESSES);
}

/// Clears the log of writes.
pub fn forget_writes() {
    with_log(Vec::clear);
}

/// Passes the log of writes on.
pub(crate) fn with_log<T>(f: impl FnOnce(&mut Vec<usize>) -> T) -> T {
    MONITOR.with(|monitor| f(&mut monitor.written.borrow_mut()))
}

/// Counts an access.
#[inline]
fn access() {
    MONITOR.with(|monitor| match monitor.left.get() {
        0 => monitor.hook.get()(false),
        left => monitor.left.set(left - 1),
    });
}

/// Counts a write, after the access was counted.
#[inline]
fn wrote<T>(place: *const T) {
    MONITOR.with(|monitor| monitor.written.borrow_mut().push(place.addr()));
}

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $value:ty, $native:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name($native);

        impl AtomicWord<$value> for $name {
            fn new(value: $value) -> Self {
                Self(<$native as AtomicWord<$value>>::new(value))
            }
            fn load(&self, ordering: Ordering) -> $value {
                access();
                self.0.load(ordering)
            }
            fn store(&self, value: $value, ordering: Ordering) {
                access();
                wrote(self);
                self.0.store(value, ordering);
            }
            fn swap(&self, value: $value, ordering: Ordering) -> $value {
                access();
                wrote(self);
                self.0.swap(value, ordering)
            }
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                access();
                let result = self.0.compare_exchange(current, new, success, failure);
                if result.is_ok() {
                    wrote(self);
                }
                result
            }
            fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                access();
                wrote(self);
                self.0.fetch_add(value, ordering)
            }
            fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                access();
                wrote(self);
                self.0.fetch_sub(value, ordering)
            }
        }
    };
}
word!(
    /// A 32-bit word.
    Word32,
    u32,
    NativeAtomicU32
);
word!(
    /// A 64-bit word.
    Word64,
    u64,
    NativeAtomicU64
);

/// Plain memory.
#[repr(transparent)]
pub struct PlainCell<T: CellValue>(NativeCell<T>);

impl<T: CellValue> SharedCell<T> for PlainCell<T> {
    fn new(value: T) -> Self {
        Self(NativeCell::new(value))
    }
    fn get(&self) -> T {
        access();
        self.0.get()
    }
    fn set(&self, value: T) {
        access();
        wrote(self);
        self.0.set(value);
    }
}

/// The token of a CPU. It can be made at any time: the explorer never lets a CPU do two things at once.
pub struct Token(pub CpuId, NoProbe);

impl Token {
    /// Returns the token of a CPU.
    pub const fn of(cpu: u16) -> Self {
        Self(CpuId(cpu), NoProbe)
    }
}

impl CpuToken for Token {
    type Probe = NoProbe;
    fn id(&self) -> CpuId {
        self.0
    }
    fn probe(&mut self) -> &mut NoProbe {
        &mut self.1
    }
}

/// The platform.
pub struct Explored;

// SAFETY: words and cells are transparent wrappers of the native platform's, for which zero bytes are zero. Each
// function executes exactly the operation of its name on that memory.
unsafe impl Platform for Explored {
    const ZERO_BYTES_ARE_ZERO_CELLS: bool = true;
    // A wait that can end does so when the other CPU has run once.
    const MAX_POLLS: u32 = 8;
    const SERVICE_POLLS: u32 = 4;
    type AtomicU32 = Word32;
    type AtomicU64 = Word64;
    type Cell<T: CellValue> = PlainCell<T>;
    type Cpu = Token;
    type Probe = NoProbe;

    fn wait(_word: &Word32, _seen: u32, _attempt: u32) {
        MONITOR.with(|monitor| monitor.hook.get()(true));
    }

    fn wake(_word: &Word32) {}
}
