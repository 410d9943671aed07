//! The platform of C programs: tokens by number, and a pause and a clock that the program chooses.
//!
//! # Invariants
//! A [`Token`] lives for one call. That two calls do not use one number at a time is what the caller promises; see
//! [`handle`](crate::handle) for what is detected.

use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use everybuddy::platform::{Bare, CpuToken, Spin, Waiting};
use everybuddy::{CpuId, FrameAllocator};

/// The real machine, as C programs use it.
pub type Machine = Bare<Token, Pause>;

/// A system that lives as long as the memory that the caller lent.
pub type System = &'static dyn FrameAllocator<Machine>;

/// The right to act as a CPU, for the length of a call.
pub struct Token {
    id: CpuId,
}

impl Token {
    /// Creates the token of a CPU that the caller has claimed.
    #[inline(always)]
    pub(crate) const fn new(id: CpuId) -> Self {
        Self { id }
    }
}

impl CpuToken for Token {
    #[inline(always)]
    fn id(&self) -> CpuId {
        self.id
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
/// With a clock, a CPU waits at most 2 ms for those that neither call nor were released. At first, and after NULL, it
/// polls 512 times, about a millisecond, or longer if the pause gives the processor away. The function must return, and
/// must not call this library. It is called only by a CPU that has polled 64 times.
#[unsafe(no_mangle)]
pub extern "C" fn eb_set_clock(clock: eb_clock) {
    let clock = clock.map_or(ptr::null_mut(), |clock| clock as *mut ());
    CLOCK.store(clock, Ordering::Relaxed);
}
