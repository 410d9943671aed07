//! The platform: everything a layer may ask of the machine it runs on.
//!
//! The very same allocator source is measured natively, model-checked under loom and
//! shuttle, simulated on machines with hundreds of CPUs, and linked into a kernel. The platform is
//! therefore a *type parameter* and never a feature or a run-time flag: one program can hold a native
//! and a simulated instance of the same system side by side, and neither pays for the other.
//!
//! # Invariants
//! Layers (`structure`, `coalesce`, `zone`, `percpu`) keep all shared memory in
//! [`Platform::AtomicU32`], [`Platform::AtomicU64`] and [`Platform::Cell`]. Plain links and counters
//! under a lock go through [`Cell`](Platform::Cell) too, because they are where most coherence misses of
//! a buddy allocator happen: a seam over atomics alone would make a simulator blind to them.
//!
//! Neighbours: [`Bare`] is the only platform this crate knows; [`Native`] is the same with threads as CPUs.
//! `Sim` lives in `everybuddy-sim`, `Loom` and `Shuttle` in `everybuddy-model`.

mod bare;
mod calls;
pub(crate) mod native;
mod wait_limit;

pub(crate) use wait_limit::WaitLimit;

pub use bare::{Bare, Hosted, InToken, Native, ProbeOf};
pub use calls::{Call, Calls};
pub use native::{ClaimError, NativeAtomicU32, NativeAtomicU64, NativeCell, NativeCpu, NativeCpus};
pub use native::{Spin, Waiting};

pub use core::sync::atomic::Ordering;

use crate::probe::Probe;

/// The number of a CPU, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuId(pub u16);

impl CpuId {
    /// Returns the number as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Proof that the holder runs on this CPU and that no other holder does.
///
/// A token is neither `Clone` nor `Send`, and every operation takes it by `&mut`: two operations on one
/// CPU can't overlap, so what a CPU keeps for itself needs no atomic read-modify-write. In a kernel the
/// token stands for disabled preemption. Code that interrupts an operation has no token and uses
/// [`allocate_nested`](crate::FrameAllocator::allocate_nested).
pub trait CpuToken {
    /// Returns the number of this CPU. O(1), no lock.
    fn id(&self) -> CpuId;

    /// Excludes another CPU of the set that this token belongs to, since a request of this CPU needs what the other one
    /// keeps: returns its token if it executes no operation, and it begins none until the token is dropped. The caller
    /// then acts as that CPU, and parks it.
    ///
    /// A platform whose tokens exist during single operations can lend them, as by [`Calls`]. The caller is in an
    /// operation itself and may be excluded by another CPU, so this never waits for an operation to end. What the CPU
    /// did in its last operation must be visible to the caller, and what the caller did must be visible to its next
    /// operation.
    ///
    /// If the token is in use or cannot be lent, returns `None`. The platform may then ask the CPU to call
    /// [`drain`](crate::FrameAllocator::drain) soon, as a kernel does by an interrupt. A request excludes a CPU again
    /// while it waits, less and less often. By default no token is lent: then a request waits for each CPU that is idle
    /// and not parked, in vain, and fails as busy.
    #[inline(always)]
    fn exclude(&self, cpu: CpuId) -> Option<Self>
    where
        Self: Sized,
    {
        let _ = cpu;
        None
    }

    /// Disables interrupts, before this CPU acquires a lock, or a domain of Spring Buddy, for which other CPUs wait
    /// without a bound. Returns the value to pass to [`restore_interrupts`](Self::restore_interrupts). Such sections
    /// can be nested.
    ///
    /// In a kernel, an interrupt handler may wait for a lock whose holder, on another CPU, is allocating. If interrupts
    /// were enabled in a section, both CPUs could wait for each other for ever. A kernel whose tokens leave interrupts
    /// enabled must implement both functions. The default does nothing.
    ///
    /// Hits in per-CPU lists without locks, and operations of systems without locks, run outside of sections.
    #[inline(always)]
    fn disable_interrupts() -> usize {
        0
    }

    /// Enables interrupts if they were enabled before [`disable_interrupts`](Self::disable_interrupts), which returned
    /// `before`.
    #[inline(always)]
    fn restore_interrupts(before: usize) {
        let _ = before;
    }
}

/// A value that fits a shared cell.
pub trait CellValue: Copy + Default + PartialEq + core::fmt::Debug + Send + Sync + 'static {
    /// The native storage: an atomic used with relaxed ordering, which compiles to plain moves and is
    /// still free of undefined behaviour when a caller's misuse makes two CPUs race.
    type NativeStorage: native::RelaxedStorage<Self>;
}

/// Plain shared memory: read and written by one CPU at a time, by the argument of the layer that owns it.
pub trait SharedCell<T: CellValue>: Send + Sync {
    /// Creates a cell that holds `value`.
    fn new(value: T) -> Self;

    /// Returns the value. One access, no ordering.
    fn get(&self) -> T;

    /// Returns the value, or an older one, while another CPU may be writing: a hint, which is used only if
    /// something else shows that no CPU was. One access, no ordering. Not a race to a model checker.
    #[inline(always)]
    fn peek(&self) -> T {
        self.get()
    }

    /// Replaces the value. One access, no ordering.
    fn set(&self, value: T);

    /// Replaces the value if it is `current`, and returns whether it was, in one step: of several CPUs that do so
    /// simultaneously, one replaces it. One access, no ordering.
    fn exchange(&self, current: T, new: T) -> bool;
}

/// An atomic word. The ordering stands at the call site, so that the reader sees which pairs matter.
pub trait AtomicWord<T: CellValue>: Send + Sync {
    /// Creates a word that holds `value`.
    fn new(value: T) -> Self;

    /// Returns the value.
    fn load(&self, ordering: Ordering) -> T;

    /// Replaces the value.
    fn store(&self, value: T, ordering: Ordering);

    /// Replaces the value and returns the old one.
    fn swap(&self, value: T, ordering: Ordering) -> T;

    /// Replaces the value if it is `current`; returns the old one, as an error when it was another.
    fn compare_exchange(
        &self,
        current: T,
        new: T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<T, T>;

    /// Adds with wrap-around and returns the old value.
    fn fetch_add(&self, value: T, ordering: Ordering) -> T;

    /// Subtracts with wrap-around and returns the old value.
    fn fetch_sub(&self, value: T, ordering: Ordering) -> T;
}

/// A machine for the allocators to run on.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a platform for buddy systems",
    note = "use `everybuddy::Native`, or `Sim`, `Loom`, `Shuttle` from the crates of those names"
)]
///
/// # Safety
/// The allocators index their metadata by frame numbers that they stored before. So cells and words of a platform must
/// behave as memory does: a read returns a value that was stored there (by [`new`](SharedCell::new), or by a later
/// operation), and never anything else; with concurrent accesses, one of the values stored. If
/// [`ZERO_BYTES_ARE_ZERO_CELLS`](Self::ZERO_BYTES_ARE_ZERO_CELLS) is `true`, all-zero bytes are a valid
/// [`Cell`](Self::Cell) of every value type, and a valid [`AtomicU32`](Self::AtomicU32) and
/// [`AtomicU64`](Self::AtomicU64), equal to `new(0)`.
#[allow(unsafe_code)]
pub unsafe trait Platform: Sized + Send + Sync + 'static {
    /// Whether all-zero bytes are valid cells and words that hold zero. A system in
    /// [zeroed memory](crate::Memory::zeroed) does not write them then.
    const ZERO_BYTES_ARE_ZERO_CELLS: bool = false;

    /// How many nanoseconds a request waits for other CPUs, all of them together, after 64 polls: then it fails as
    /// busy. Where the platform has no [clock](Self::now), [`MAX_POLLS`](Self::MAX_POLLS) stands for this time.
    ///
    /// CPUs wait for locks, and for domains of Spring Buddy, without a bound.
    const MAX_WAIT: u64 = <Spin as Waiting>::MAX_WAIT;

    /// How often a request polls for other CPUs at most, without a [clock](Self::now). What one poll takes depends on
    /// the platform, and on the machine's load if waiting gives the processor away. The default suits platforms on
    /// which no time passes.
    const MAX_POLLS: u32 = 1 << 16;

    /// How often a request polls for a service that takes it before it serves itself. A request that was taken polls
    /// twice as often for the answer, and is then refused. Small under model checkers, which otherwise never see a
    /// request that leaves.
    const SERVICE_POLLS: u32 = 1 << 12;

    /// A 32-bit atomic word.
    type AtomicU32: AtomicWord<u32>;

    /// A 64-bit atomic word.
    type AtomicU64: AtomicWord<u64>;

    /// Plain shared memory.
    type Cell<T: CellValue>: SharedCell<T>;

    /// The token of a CPU.
    type Cpu: CpuToken;

    /// What counts events; a zero-sized type when nothing is counted.
    type Probe: Probe;

    /// Returns the probe of a CPU. O(1), no lock.
    fn probe(cpu: &mut Self::Cpu) -> &mut Self::Probe;

    /// Waits a moment for `word` to differ from `seen`; may return early for no reason.
    ///
    /// `attempt` counts the calls of one wait from zero, so that a host can spin first and give the
    /// processor away later. Natively one pause or yield; parks the virtual CPU under a simulator; yields
    /// under model checkers. The caller tests its condition again after every return.
    fn wait(word: &Self::AtomicU32, seen: u32, attempt: u32);

    /// Wakes all CPUs that wait for `word`. Called after the word was changed. Natively nothing.
    fn wake(word: &Self::AtomicU32);

    /// Returns the time in nanoseconds, from any moment on, or `None` without a clock.
    ///
    /// Only a CPU that has already waited for another one for some time reads it, at every further poll.
    #[inline(always)]
    fn now() -> Option<u64> {
        None
    }

    /// Charges `instructions` that touch no memory. Natively nothing.
    #[inline(always)]
    fn work(instructions: u32) {
        let _ = instructions;
    }
}
