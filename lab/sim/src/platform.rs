//! The platform `Sim`.
//!
//! This is the only interface between an allocator and the simulated machine. Every access through it takes effect
//! first, as on the native platform, and is then charged to the virtual CPU that made it.
//!
//! # Invariants
//! Cells and words have the size and alignment of native ones, so that metadata has the same layout and the same
//! false sharing. A [`SimCpu`] with a given number exists once in a run, and only while its closure runs.
//!
//! Outside a run (set-up, inspection, other threads) nothing is charged, and `Sim` behaves like the native platform
//! with spinning waiters.
//!
//! # Not modelled
//! Orderings. They are passed on to the host, which matters only if other host threads read the memory.

use core::hint::spin_loop;
use core::marker::PhantomData;
use core::ptr;

use everybuddy::platform::{
    AtomicWord, CellValue, NativeAtomicU32, NativeAtomicU64, NativeCell, Ordering, SharedCell,
};
use everybuddy::{
    BuildError, CpuId, CpuToken, FrameAllocator, Memory, Platform, Probe, Setup, SystemSpec,
    systems,
};

use crate::cost::AccessKind::{Load, ReadModifyWrite, Store};
use crate::cost::Instructions;
use crate::engine;
use crate::faults::UNCHANGED;
use crate::region::Line;
use crate::tape::Tape;

/// Returns the identity of a word among the words that exist at the same time.
#[inline(always)]
fn address<T>(word: &T) -> usize {
    ptr::from_ref(word).addr()
}

/// Plain shared memory, simulated. Each access is one load or one store.
#[repr(transparent)]
pub struct SimCell<T: CellValue>(NativeCell<T>);

impl<T: CellValue> SharedCell<T> for SimCell<T> {
    #[inline]
    fn new(value: T) -> Self {
        Self(NativeCell::new(value))
    }
    #[inline]
    fn get(&self) -> T {
        let value = self.0.get();
        engine::accessed(Load, address(self));
        value
    }
    #[inline]
    fn set(&self, value: T) {
        self.0.set(value);
        engine::accessed(Store, address(self));
    }
    #[inline]
    fn exchange(&self, current: T, new: T) -> bool {
        let is_current = self.0.exchange(current, new);
        engine::accessed(ReadModifyWrite, address(self));
        is_current
    }
}

macro_rules! atomic_word {
    ($(#[$doc:meta])* $name:ident, $value:ty, $native:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name($native);

        impl AtomicWord<$value> for $name {
            #[inline]
            fn new(value: $value) -> Self {
                Self(<$native>::new(value))
            }
            #[inline]
            fn load(&self, ordering: Ordering) -> $value {
                let value = self.0.load(ordering);
                engine::accessed(Load, address(self));
                value
            }
            #[inline]
            fn store(&self, value: $value, ordering: Ordering) {
                self.0.store(value, ordering);
                engine::accessed(Store, address(self));
            }
            #[inline]
            fn swap(&self, value: $value, ordering: Ordering) -> $value {
                let old = self.0.swap(value, ordering);
                engine::accessed(ReadModifyWrite, address(self));
                old
            }
            #[inline]
            fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let result = self.0.compare_exchange(current, new, success, failure);
                let unchanged = UNCHANGED * usize::from(result.is_err());
                engine::accessed(ReadModifyWrite, address(self) | unchanged);
                result
            }
            #[inline]
            fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                let old = self.0.fetch_add(value, ordering);
                engine::accessed(ReadModifyWrite, address(self));
                old
            }
            #[inline]
            fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                let old = self.0.fetch_sub(value, ordering);
                engine::accessed(ReadModifyWrite, address(self));
                old
            }
        }
    };
}
atomic_word!(
    /// A 32-bit atomic word, simulated. Each operation is one access.
    SimAtomicU32,
    u32,
    NativeAtomicU32
);
atomic_word!(
    /// A 64-bit atomic word, simulated. Each operation is one access.
    SimAtomicU64,
    u64,
    NativeAtomicU64
);

/// The simulated machine, with the probe `B` on each CPU.
///
/// - [`wait`](Platform::wait) reads the word once, which is charged as a load. If the word is unchanged, the CPU is
///   parked until another CPU wakes the waiters of this word. A parked CPU costs the host nothing. Outside a run,
///   `wait` pauses, as on the native platform.
/// - [`wake`](Platform::wake) makes all waiters of the word runnable, at the later of their own clock and the waker's
///   clock plus [`CostModel::wake`](crate::CostModel::wake). The waker pays nothing.
/// - [`work`](Platform::work) adds [`CostModel::work`](crate::CostModel::work) cycles.
/// - [`exclude`](CpuToken::exclude) lends no token. It raises a flag that the CPU's closure reads with
///   [`SimCpu::take_poke`]. It interrupts and wakes no CPU, and costs nothing.
///
/// # Panics
/// A wait panics in a destructor that runs because its CPU unwinds or because the run was aborted: no other CPU can
/// run then. (The process aborts, as for any panic in such a destructor.)
pub struct Sim<B: Probe = Tape>(PhantomData<fn() -> B>);

// SAFETY: every read of its cells and words returns a value that was stored there, in the order that the machine chose.
#[allow(unsafe_code)]
unsafe impl<B: Probe> Platform for Sim<B> {
    type AtomicU32 = SimAtomicU32;
    type AtomicU64 = SimAtomicU64;
    type Cell<T: CellValue> = SimCell<T>;
    type Cpu = SimCpu<B>;
    type Probe = B;

    #[inline]
    fn probe(cpu: &mut SimCpu<B>) -> &mut B {
        &mut cpu.probe
    }

    fn wait(word: &SimAtomicU32, seen: u32, attempt: u32) {
        let changed = word.0.load(Ordering::Relaxed) != seen;
        if !engine::wait(address(word), changed, attempt) {
            spin_loop();
        }
    }

    #[inline]
    fn wake(word: &SimAtomicU32) {
        engine::wake(address(word));
    }

    #[inline]
    fn work(instructions: u32) {
        engine::work(instructions);
    }
}

/// The token of a virtual CPU.
///
/// It cannot leave its closure:
///
/// ```compile_fail
/// use everybuddy_sim::{Machine, Region, SimCpu};
/// let mut machine = Machine::new(1);
/// machine.run(Region::NONE, |cpu: &mut SimCpu| std::thread::scope(|scope| {
///     scope.spawn(|| cpu.now());
/// }));
/// ```
pub struct SimCpu<B: Probe = Tape> {
    id: CpuId,
    probe: B,
    // A raw pointer is neither Send nor Sync.
    not_send: PhantomData<*mut ()>,
}

impl<B: Probe> SimCpu<B> {
    pub(crate) fn new(id: CpuId) -> Self {
        Self {
            id,
            probe: B::default(),
            not_send: PhantomData,
        }
    }

    /// Returns this CPU's clock, in cycles from the start of the run; zero outside a run. O(1), free of charge.
    pub fn now(&self) -> u64 {
        engine::clock().unwrap_or(0)
    }

    /// Returns the number of accesses that this CPU has made in this run; zero outside a run. O(1), free of charge.
    pub fn accesses(&self) -> u64 {
        engine::accesses().unwrap_or(0)
    }

    /// Advances the clock by `instructions` instructions without shared memory: the work between requests. O(1).
    pub fn work(&mut self, instructions: u32) {
        engine::work(instructions);
    }

    /// Sets what the accesses of this CPU [stand for](Instructions) until the next call of this function. Without
    /// effect outside a run. O(1), free of charge.
    pub fn path(&mut self, path: Instructions) {
        engine::tell(|cost, cpu, _| {
            cost.path(cpu, path);
            0
        });
    }

    /// Notes that the program of this CPU has used this many lines of its own, each of them once, in turn through
    /// `reach` bytes. Without effect outside a run. O(1), free of charge.
    pub fn foreign(&mut self, lines: u64, reach: u64) {
        engine::tell(|cost, cpu, _| {
            cost.foreign(cpu, lines, reach);
            0
        });
    }

    /// Waits until all loads of this CPU are done, as one does who times a single call. Without effect outside a run.
    pub fn fence(&mut self) {
        engine::tell(|cost, cpu, now| cost.fence(cpu, now));
    }

    /// Stores to a line outside of calls. Without effect outside a run. O(1), free of charge.
    pub fn touch(&mut self, line: Line) {
        engine::tell(|cost, cpu, now| {
            cost.touch(cpu, line, now);
            0
        });
    }

    /// Waits until every CPU is here that has neither ended nor [stood aside](Self::stand_aside). Then all continue at
    /// the same time, that of the last one. Free of charge otherwise, and without effect outside a run.
    pub fn barrier(&mut self) {
        engine::barrier();
    }

    /// Makes [barriers](Self::barrier) stop waiting for this CPU, which must not call `barrier` afterwards: for a CPU
    /// that serves the others until they have ended. Without effect outside a run.
    pub fn stand_aside(&mut self) {
        engine::stand_aside();
    }

    /// Lets this CPU keep its [core](crate::Cores) until preemption is enabled, also while it waits for a word and
    /// spins. Does not nest. Without effect outside a run, or if CPUs do not share cores. O(1), free of charge.
    pub fn disable_preemption(&mut self) {
        engine::keep_core(true);
    }

    /// Lets other CPUs take turns with this one again. If its slice has ended meanwhile and another CPU waits for the
    /// core, that one is next. Without effect outside a run. O(1), free of charge.
    pub fn enable_preemption(&mut self) {
        engine::keep_core(false);
        // Lets the engine switch.
        engine::work(0);
    }

    /// Returns what counts events on this CPU. O(1), free of charge.
    #[inline]
    pub fn probe(&mut self) -> &mut B {
        &mut self.probe
    }

    /// Notes that the run makes progress, for the [watchdog](crate::Machine::patience). Without effect outside a run.
    /// O(1), free of charge.
    pub fn progress(&mut self) {
        engine::progress();
    }

    /// Tells the cost model that counting begins: what it counted before is forgotten, on all CPUs. O(lines).
    pub fn mark(&mut self) {
        engine::tell(|cost, _, _| {
            cost.mark();
            0
        });
    }

    /// Returns `true` if another CPU has poked this one since the last call; always `false` outside a run. A closure
    /// that makes no request for a long time checks this, and calls
    /// [`drain`](everybuddy::FrameAllocator::drain). O(1), free of charge.
    pub fn take_poke(&mut self) -> bool {
        engine::take_poke(self.id)
    }
}

impl<B: Probe> CpuToken for SimCpu<B> {
    #[inline]
    fn id(&self) -> CpuId {
        self.id
    }
    fn exclude(&self, cpu: CpuId) -> Option<Self> {
        engine::poke(cpu);
        None
    }
}

/// Builds a system on the plain virtual machine.
///
/// The function is not generic, so the systems are compiled into this crate, and not into each crate that uses it.
///
/// # Errors
/// Any [`BuildError`].
#[inline(never)]
pub fn build_any<'m>(
    spec: &SystemSpec,
    setup: &Setup<'_>,
    memory: Memory<'m>,
) -> Result<&'m dyn FrameAllocator<Sim>, BuildError> {
    systems::build_erased(spec, setup, memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_native() {
        assert_eq!(size_of::<SimCell<u8>>(), size_of::<NativeCell<u8>>());
        assert_eq!(size_of::<SimCell<u64>>(), size_of::<NativeCell<u64>>());
        assert_eq!(align_of::<SimCell<u64>>(), align_of::<NativeCell<u64>>());
        assert_eq!(size_of::<SimAtomicU32>(), size_of::<NativeAtomicU32>());
        assert_eq!(size_of::<SimAtomicU64>(), size_of::<NativeAtomicU64>());
        assert_eq!(align_of::<SimAtomicU64>(), align_of::<NativeAtomicU64>());
    }
}
