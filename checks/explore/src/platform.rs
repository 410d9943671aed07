//! A platform of one thread that logs every write, counts accesses, and calls a hook at an access.
//!
//! The log says which words an operation may have changed, so that only these are compared and restored. The hook
//! stops an operation between two accesses: another CPU goes on there, or an interrupt calls.
//!
//! # Invariants
//! 1. A platform's CPUs are one thread, so no two accesses are simultaneous. Orderings of memory are not explored; the
//!    models under loom do that.
//! 2. The hook is called before the access takes effect.
#![allow(unsafe_code)]

use core::cell::{Cell, RefCell};
use std::collections::HashSet;
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
    /// The accesses that are left to the operation.
    left: Cell<u64>,
    /// The addresses that were written.
    written: RefCell<Vec<usize>>,
    /// Whether accesses are watched: then the rest is used.
    is_watched: Cell<bool>,
    /// The watched accesses: address, and whether it is a write.
    watched: RefCell<Vec<(usize, bool)>>,
    /// The words at which an operation may stop.
    shared: RefCell<HashSet<usize>>,
    /// How many of these accesses come before the hook is called.
    stop: Cell<u64>,
    /// What is called then, with `false`, and at each wait, with `true`.
    hook: Cell<fn(bool)>,
}

thread_local! {
    static MONITOR: Monitor = Monitor {
        left: Cell::new(MOST_ACCESSES),
        written: RefCell::default(),
        is_watched: Cell::new(false),
        watched: RefCell::default(),
        shared: RefCell::default(),
        stop: Cell::new(u64::MAX),
        hook: Cell::new(|_| ()),
    };
}

/// Begins an operation, which runs alone: more than [`MOST_ACCESSES`] are a panic.
pub fn alone() {
    MONITOR.with(|monitor| {
        monitor.left.set(MOST_ACCESSES);
        monitor.is_watched.set(false);
    });
}

/// Begins operations whose accesses are watched, and calls `hook` at waits, and where [`stop_after`] says.
pub fn watch(hook: fn(bool)) {
    alone();
    MONITOR.with(|monitor| {
        monitor.is_watched.set(true);
        monitor.watched.borrow_mut().clear();
        monitor.hook.set(hook);
        monitor.stop.set(u64::MAX);
    });
}

/// Calls the hook at the access of a shared word that comes after the given number of others.
pub fn stop_after(accesses: u64) {
    MONITOR.with(|monitor| monitor.stop.set(accesses));
}

/// Returns the number of accesses of the operation, or operations, that began last.
pub fn accesses() -> u64 {
    MONITOR.with(|monitor| MOST_ACCESSES - monitor.left.get())
}

/// Takes the watched accesses: the word, and whether it is a write.
pub fn take_watched() -> Vec<(usize, bool)> {
    MONITOR.with(|monitor| monitor.watched.take())
}

/// Sets the words at which an operation may stop, as addresses divided by 8.
pub fn share(words: HashSet<usize>) {
    MONITOR.with(|monitor| monitor.shared.replace(words));
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
fn access<T>(place: *const T, is_write: bool) {
    MONITOR.with(|monitor| {
        let left = monitor.left.get();
        if left == 0 {
            monitor.left.set(MOST_ACCESSES);
            panic!("a wait without end");
        }
        monitor.left.set(left - 1);
        if monitor.is_watched.get() {
            watched(monitor, place.addr() / 8, is_write);
        }
    });
}

/// Notes a watched access, and stops if it is the one that was chosen.
#[inline(never)]
fn watched(monitor: &Monitor, word: usize, is_write: bool) {
    monitor.watched.borrow_mut().push((word, is_write));
    if monitor.shared.borrow().contains(&word) {
        match monitor.stop.get() {
            0 => {
                monitor.stop.set(u64::MAX);
                monitor.hook.get()(false);
            }
            stop => monitor.stop.set(stop - 1),
        }
    }
}

/// Notes a write, after the access was counted.
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
                access(self, false);
                self.0.load(ordering)
            }
            fn store(&self, value: $value, ordering: Ordering) {
                access(self, true);
                wrote(self);
                self.0.store(value, ordering);
            }
            fn swap(&self, value: $value, ordering: Ordering) -> $value {
                access(self, true);
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
                access(self, true);
                let result = self.0.compare_exchange(current, new, success, failure);
                if result.is_ok() {
                    wrote(self);
                }
                result
            }
            fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                access(self, true);
                wrote(self);
                self.0.fetch_add(value, ordering)
            }
            fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                access(self, true);
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
        access(self, false);
        self.0.get()
    }
    fn set(&self, value: T) {
        access(self, true);
        wrote(self);
        self.0.set(value);
    }
    fn exchange(&self, current: T, new: T) -> bool {
        access(self, true);
        let is_current = self.0.exchange(current, new);
        if is_current {
            wrote(self);
        }
        is_current
    }
}

/// The token of a CPU. It can be made at any time: the explorer never lets a CPU do two things simultaneously.
pub struct Token(pub CpuId, NoProbe);

impl Token {
    /// Returns the token of a CPU.
    pub const fn of(cpu: u16) -> Self {
        Self(CpuId(cpu), NoProbe)
    }
}

impl CpuToken for Token {
    fn id(&self) -> CpuId {
        self.0
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

    fn probe(cpu: &mut Token) -> &mut NoProbe {
        &mut cpu.1
    }

    fn wait(_word: &Word32, _seen: u32, _attempt: u32) {
        MONITOR.with(|monitor| {
            if monitor.is_watched.get() {
                monitor.hook.get()(true);
            }
        });
    }

    fn wake(_word: &Word32) {}
}
