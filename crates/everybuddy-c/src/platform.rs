//! The platform of C programs: tokens that are lent between two calls, a pause and a clock that the program chooses.
//!
//! # Design decisions
//! A token of C is a `Slot` in the caller's memory. Its state says whether a call runs: an exchange begins the call,
//! and a store ends it. So another CPU whose request is short of memory can [exclude](CpuToken::exclude) a CPU that is
//! in no call. A handler that uses the token of the code that it interrupted finds it in a call.
//!
//! # Invariants
//! 1. A [`Token`] exists only while its slot is in a call or lent. Of one slot, there is at most one.
//! 2. Only the holder of a token ends what it began: a call, or the time for which a token is lent.

use core::mem::{self, ManuallyDrop};
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use everybuddy::platform::{Bare, CpuToken, Spin, Waiting};
use everybuddy::{CpuId, FrameAllocator};

use crate::EB_ABI_VERSION;
use crate::status::{eb_status, eb_status::*};

/// The real machine, as C programs use it.
pub type Machine = Bare<Token, Pause>;

/// A system that lives as long as the memory that the caller lent.
pub type System = &'static dyn FrameAllocator<Machine>;

/// The state of a slot: what it is, the version of the interface, and the state proper.
const SLOT: u32 = 0xeb70_0000 | (EB_ABI_VERSION & 0xff) << 8;
const SLOT_MASK: u32 = 0xffff_0000;
/// No thread has the token.
pub(crate) const UNCLAIMED: u32 = SLOT | 1;
/// A thread has the token, and is in no call.
const CLAIMED: u32 = SLOT | 2;
/// A call with the token runs.
const IN_CALL: u32 = SLOT | 3;
/// The system was destroyed.
pub(crate) const GONE: u32 = SLOT | 4;
/// As `CLAIMED`, and a call of another CPU acts as this one.
const LENT: u32 = SLOT | 5;

/// A CPU of a system: what lies behind an `eb_cpu`.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) state: AtomicU32,
    id: CpuId,
    pub(crate) system: System,
    /// The last failure, in bits.
    pub(crate) last: AtomicU64,
    /// The slot of CPU 0, which is followed by those of the others.
    first: *const Slot,
    cpus: u16,
}

// SAFETY: the pointer leads to slots, which any thread may read: their fields are atomics or never change.
unsafe impl Sync for Slot {}

impl Slot {
    /// Creates the slot of a CPU, whose token is not claimed. From the first call on, `first` leads to `cpus` slots.
    pub(crate) const fn new(id: CpuId, system: System, first: *const Slot, cpus: u16) -> Self {
        Self {
            state: AtomicU32::new(UNCLAIMED),
            id,
            system,
            last: AtomicU64::new(0),
            first,
            cpus,
        }
    }

    /// Returns the slots of all CPUs of this system.
    pub(crate) fn all(&self) -> &'static [Slot] {
        // SAFETY: `eb_build` wrote that many slots there before it passed the first one on, and they live as long as
        // the system.
        unsafe { slice::from_raw_parts(self.first, usize::from(self.cpus)) }
    }

    /// Claims the token.
    pub(crate) fn claim(&self) -> Result<(), eb_status> {
        // Acquire: pairs with the releases in `leave`: what the last holder did on this CPU is seen.
        let claimed =
            self.state
                .compare_exchange(UNCLAIMED, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        match claimed {
            Ok(_) => Ok(()),
            Err(IN_CALL | LENT) => Err(EB_ERROR_CLAIMED),
            Err(state) => Err(refusal(state)),
        }
    }

    /// Begins a call, unless one runs. `state` is that of this slot, or of what may be none.
    #[inline(always)]
    pub(crate) fn enter(state: &AtomicU32) -> Result<(), eb_status> {
        match Self::try_enter(state) {
            Ok(_) => Ok(()),
            Err(seen) => Self::wait(state, seen),
        }
    }

    #[inline(always)]
    fn try_enter(state: &AtomicU32) -> Result<u32, u32> {
        // Acquire: pairs with the releases in `leave` and in the drop of a `Token`: what the last holder did as this
        // CPU is seen. A handler that interrupts the call finds this state.
        state.compare_exchange(CLAIMED, IN_CALL, Ordering::Acquire, Ordering::Relaxed)
    }

    /// Waits while another CPU acts as this one, which does not take long, and begins the call then.
    #[cold]
    #[inline(never)]
    fn wait(state: &AtomicU32, mut seen: u32) -> Result<(), eb_status> {
        let mut attempt = 0;
        while seen == LENT {
            Pause::pause(attempt);
            attempt = attempt.saturating_add(1);
            match Self::try_enter(state) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
        Err(refusal(seen))
    }

    /// Returns the token of the call that has begun. [`leave`](Self::leave) ends the call, and not its drop.
    #[inline(always)]
    pub(crate) const fn token(&'static self) -> ManuallyDrop<Token> {
        ManuallyDrop::new(Token { slot: self })
    }

    /// Ends a call. If it `is_last`, no thread has the token then.
    #[inline(always)]
    pub(crate) fn leave(&self, is_last: bool) {
        let end = if is_last { UNCLAIMED } else { CLAIMED };
        // Release: pairs with the acquires in `claim`, `try_enter` and `exclude`, and in `eb_destroy`.
        self.state.store(end, Ordering::Release);
    }

    /// Succeeds if a thread has the token, whether or not a call runs.
    pub(crate) fn is_claimed(state: u32) -> Result<(), eb_status> {
        match state {
            CLAIMED | IN_CALL | LENT => Ok(()),
            state => Err(refusal(state)),
        }
    }
}

/// Returns why a token in this state cannot be used.
#[cold]
fn refusal(state: u32) -> eb_status {
    match state {
        UNCLAIMED => EB_ERROR_NOT_CLAIMED,
        IN_CALL => EB_ERROR_IN_CALL,
        CLAIMED | LENT => EB_ERROR_CLAIMED,
        GONE => EB_ERROR_DESTROYED,
        _ if state & SLOT_MASK == SLOT & SLOT_MASK => EB_ERROR_VERSION,
        _ => EB_ERROR_NOT_A_HANDLE,
    }
}

/// The right to act as a CPU: of the call that runs there, or lent to the call of another CPU until it is dropped.
pub struct Token {
    slot: &'static Slot,
}

impl CpuToken for Token {
    #[inline(always)]
    fn id(&self) -> CpuId {
        self.slot.id
    }

    /// Lends the token of a CPU of the same system that is in no call.
    #[cold]
    fn exclude(&self, cpu: CpuId) -> Option<Self> {
        let slot = self.slot.all().get(cpu.index())?;
        // Acquire: pairs with the releases in `leave` and in the drop below: what that CPU did in its last call is
        // seen.
        let lent = slot
            .state
            .compare_exchange(CLAIMED, LENT, Ordering::Acquire, Ordering::Relaxed);
        lent.ok().map(|_| Self { slot })
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // Release: pairs with the acquires in `try_enter` and `exclude`: what was done as this CPU is seen.
        self.slot.state.store(CLAIMED, Ordering::Release);
    }
}
/// The function that a CPU calls while it waits. `attempt` counts the calls of one wait from zero.
pub type eb_pause = Option<extern "C" fn(attempt: u32)>;

/// The function that returns the time in nanoseconds, from any moment on. It never goes back.
pub type eb_clock = Option<extern "C" fn() -> u64>;

/// What `eb_set_pause` stored; null at first.
static PAUSE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// What `eb_set_clock` stored; null at first.
static CLOCK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// The pause of a CPU that waits for another one.
pub struct Pause;

impl Waiting for Pause {
    fn pause(attempt: u32) {
        let pause = PAUSE.load(Ordering::Relaxed);
        // SAFETY: `eb_set_pause` stored the bits of an `eb_pause`, or null, which is `None`.
        match unsafe { mem::transmute::<*mut (), eb_pause>(pause) } {
            Some(pause) => pause(attempt),
            None => Spin::pause(attempt),
        }
    }

    fn now() -> Option<u64> {
        let clock = CLOCK.load(Ordering::Relaxed);
        // SAFETY: `eb_set_clock` stored the bits of an `eb_clock`, or null, which is `None`.
        unsafe { mem::transmute::<*mut (), eb_clock>(clock) }.map(|clock| clock())
    }
}

/// Sets what a CPU does while it waits for another one, in all systems of this copy of the library.
///
/// At first, and after NULL, it spins, as a kernel does with preemption disabled. A program whose threads can be
/// preempted sets a function that gives the processor away, for example by `sched_yield`. The function must return,
/// and must not call this library.
#[unsafe(no_mangle)]
pub extern "C" fn eb_set_pause(pause: eb_pause) {
    let pause = pause.map_or(ptr::null_mut(), |pause| pause as *mut ());
    PAUSE.store(pause, Ordering::Relaxed);
}

/// Sets the clock of all systems of this copy of the library.
///
/// With a clock, a CPU waits at most 2 ms for those that are in a call. At first, and after NULL, it polls 512 times,
/// about a millisecond, or longer if the pause gives the processor away. The function must return, and must not call
/// this library. It is called only by a CPU that has polled 64 times.
#[unsafe(no_mangle)]
pub extern "C" fn eb_set_clock(clock: eb_clock) {
    let clock = clock.map_or(ptr::null_mut(), |clock| clock as *mut ());
    CLOCK.store(clock, Ordering::Relaxed);
}
