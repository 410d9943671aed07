//! The CPUs: their tokens, how they are started, and how they run code together.
//!
//! # Invariants
//! A CPU has at most one token. It is the CPU's flag `is_working`, which only this CPU reads and writes: an interrupt
//! handler that finds it set interrupted an operation, and has no token.

use core::marker::PhantomData;
use core::sync::atomic::{
    AtomicBool, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
};

use everybuddy::CpuId;
use everybuddy::platform::{Bare, CpuToken, Spin, Waiting};
use everybuddy_adapters::FRAME_BYTES;
use spin::Mutex;

use crate::handler::{Handler, ticks};
use crate::{arch, frames};

/// CPUs that the kernel can start.
pub(crate) const MAX_CPUS: usize = 16;

/// Frames of a stack: 256 KiB.
const STACK_FRAMES: u32 = 64;

/// Waits of one kind before a CPU sleeps until its next interrupt.
const SPINS: u32 = 64;

/// The machine that the systems are compiled for.
pub(crate) type Machine = Bare<Token, Sleep>;

/// What a CPU has for itself. `arch::local` returns its address.
#[repr(C, align(64))]
pub(crate) struct Local {
    /// The address of this structure.
    address: AtomicUsize,
    id: AtomicU16,
    is_working: AtomicBool,
    /// The state of the timer's handler.
    pub(crate) handler: Handler,
}

static LOCALS: [Local; MAX_CPUS] = [const {
    Local {
        address: AtomicUsize::new(0),
        id: AtomicU16::new(0),
        is_working: AtomicBool::new(false),
        handler: Handler::new(),
    }
}; MAX_CPUS];

/// The number of CPUs.
static COUNT: AtomicU16 = AtomicU16::new(1);
/// The end of each CPU's stack.
// SAFETY: no other symbol has this name.
#[unsafe(export_name = "stack_ends")]
static STACK_ENDS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];
/// The CPUs that are ready to run code.
static READY: AtomicU32 = AtomicU32::new(1);

/// Returns what this CPU has for itself.
pub(crate) fn local() -> &'static Local {
    // SAFETY: `start` stored the address of a static.
    unsafe { &*(arch::local() as *const Local) }
}

impl Local {
    /// Returns the number of this CPU.
    pub(crate) fn id(&self) -> CpuId {
        CpuId(self.id.load(Ordering::Relaxed))
    }
}

/// Returns what every CPU has for itself.
pub(crate) fn locals() -> &'static [Local] {
    &LOCALS[..usize::from(count())]
}

/// Returns the number of CPUs.
pub(crate) fn count() -> u16 {
    COUNT.load(Ordering::Relaxed)
}

/// The right to act as a CPU. No other code of that CPU has it while it exists.
pub(crate) struct Token {
    local: &'static Local,
    /// A raw pointer is neither `Send` nor `Sync`: the token stays on its CPU.
    not_send: PhantomData<*mut ()>,
}

impl Token {
    /// Returns the token of this CPU, or `None` if the caller interrupted code that has it.
    pub(crate) fn claim() -> Option<Self> {
        let local = local();
        if local.is_working.load(Ordering::Relaxed) {
            return None;
        }
        // An interrupt between the two has set and cleared the flag before it returned.
        local.is_working.store(true, Ordering::Relaxed);
        // A handler on this CPU sees the stores in the order of the program, if the compiler keeps it.
        compiler_fence(Ordering::SeqCst);
        Some(Self {
            local,
            not_send: PhantomData,
        })
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.local.is_working.store(false, Ordering::Relaxed);
    }
}

impl CpuToken for Token {
    #[inline(always)]
    fn id(&self) -> CpuId {
        self.local.id()
    }
}

/// Runs code with the token of this CPU, outside of interrupt handlers.
pub(crate) fn with_token<T>(then: impl FnOnce(&mut Token) -> T) -> T {
    let mut token = Token::claim().expect("only interrupt handlers interrupt code with a token");
    then(&mut token)
}

/// The pause of a CPU that waits: it spins first, and then sleeps until its next interrupt, so that a machine with more
/// virtual CPUs than real ones makes progress.
pub(crate) struct Sleep;

impl Waiting for Sleep {
    // A virtual CPU can be stopped in a call.
    const MAX_POLLS: u32 = 1 << 16;

    fn pause(attempt: u32) {
        pause(attempt);
    }
}

/// Waits a moment.
pub(crate) fn pause(attempt: u32) {
    if attempt >= SPINS && arch::interrupts_are_enabled() {
        arch::disable_interrupts();
        arch::wait();
    } else {
        Spin::pause(attempt);
    }
}

/// Prepares the CPU that runs this code.
///
/// # Safety
/// This code runs once on each CPU, with another number on each.
pub(crate) unsafe fn start(cpu: CpuId) {
    let local = &LOCALS[cpu.index()];
    let address = core::ptr::from_ref(local).addr();
    local.address.store(address, Ordering::Relaxed);
    local.id.store(cpu.0, Ordering::Relaxed);
    arch::set_local(address);
    arch::start_interrupts();
    arch::enable_interrupts();
}

/// Starts the other CPUs, with stacks from the frame allocator. Returns the frames of the stacks.
pub(crate) fn start_others(cpus: u16) -> u64 {
    assert!(
        (1..=MAX_CPUS).contains(&usize::from(cpus)),
        "cpus={cpus}: the kernel starts 1 to {MAX_CPUS} CPUs"
    );
    COUNT.store(cpus, Ordering::Relaxed);
    for end in &STACK_ENDS[1..usize::from(cpus)] {
        let stack = frames::allocate_adjacent(STACK_FRAMES);
        let bytes = u64::from(STACK_FRAMES) * FRAME_BYTES;
        end.store(frames::address(stack) + bytes, Ordering::Relaxed);
    }
    if cpus > 1 {
        arch::start_others(cpus);
    }
    // Acquire: pairs with the release of each CPU that is ready.
    let is_ready = || READY.load(Ordering::Acquire) == u32::from(cpus);
    let deadline = ticks() + 50_000;
    while !is_ready() {
        assert!(
            ticks() < deadline,
            "{} of {cpus} CPUs started: does the machine have so many?",
            READY.load(Ordering::Relaxed)
        );
        pause(SPINS);
    }
    u64::from(cpus - 1) * u64::from(STACK_FRAMES)
}

/// Another CPU arrives here, on its stack.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn other_cpu(number: usize) -> ! {
    let cpu = CpuId(number as u16);
    // SAFETY: entry.s counts the CPUs.
    unsafe { start(cpu) };
    // Release: pairs with the acquire in `start_others`.
    READY.fetch_add(1, Ordering::Release);
    let mut seen = 0;
    loop {
        // An interrupt after the look at the job wakes the CPU.
        arch::disable_interrupts();
        let job = *JOB.lock();
        if job.number == seen {
            arch::wait();
            continue;
        }
        arch::enable_interrupts();
        seen = job.number;
        if cpu.0 < job.cpus {
            let body = job.body.expect("a job has code");
            // SAFETY: `run` keeps the code alive until this CPU is done.
            unsafe { (*body)(cpu) };
            // Release: pairs with the acquire in `run`.
            RUNNING.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Code that CPUs run together.
#[derive(Clone, Copy)]
struct Job {
    number: u32,
    cpus: u16,
    body: Option<*const (dyn Fn(CpuId) + Sync)>,
}

// SAFETY: the code that the pointer leads to is `Sync`.
unsafe impl Send for Job {}

static JOB: Mutex<Job> = Mutex::new(Job {
    number: 0,
    cpus: 0,
    body: None,
});

/// The other CPUs that run the job.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Runs `body` once on each of the first CPUs, simultaneously. Only the first CPU calls this.
pub(crate) fn run(cpus: u16, body: &(dyn Fn(CpuId) + Sync)) {
    assert!(
        cpus <= count(),
        "this needs {cpus} CPUs, and the kernel has {}: pass cpus={cpus}",
        count()
    );
    RUNNING.store(u32::from(cpus - 1), Ordering::Relaxed);
    let body: *const (dyn Fn(CpuId) + Sync + '_) = body;
    // SAFETY: only the lifetime changes. No CPU uses the pointer after this function returned.
    let erased = unsafe {
        core::mem::transmute::<*const (dyn Fn(CpuId) + Sync + '_), *const (dyn Fn(CpuId) + Sync)>(
            body,
        )
    };
    // With interrupts enabled, the lock could be kept for long while others wait.
    arch::disable_interrupts();
    let mut job = JOB.lock();
    job.number += 1;
    job.cpus = cpus;
    job.body = Some(erased);
    drop(job);
    arch::enable_interrupts();
    if cpus > 1 {
        arch::wake_others();
    }
    // SAFETY: it is the reference that was passed.
    unsafe { (*body)(CpuId(0)) };
    let mut attempt = 0;
    // Acquire: pairs with the release of each CPU that is done.
    while RUNNING.load(Ordering::Acquire) > 0 {
        pause(attempt);
        attempt += 1;
    }
}
