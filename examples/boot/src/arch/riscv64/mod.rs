//! 64-bit RISC-V, in supervisor mode, on firmware with the interface SBI.
//!
//! The firmware starts CPUs, sets their timers, and sends interrupts between them. Source: RISC-V Supervisor Binary
//! Interface 1.0.

use core::arch::{asm, global_asm};

use spin::Once;

use super::device_tree;
use crate::console::Outcome;
use crate::cpus;
use crate::handler::{self, TICKS_PER_SECOND};

pub(crate) use device_tree::{Line, boot_info};

global_asm!(include_str!("entry.s"));

/// All memory can be used, since addresses are not translated.
pub(crate) const UNMANAGED: [(u64, u64); 0] = [];

/// Extensions of SBI, and one function of each.
const SET_TIMER: (usize, usize) = (0x5449_4d45, 0);
const SEND_INTERRUPT: (usize, usize) = (0x73_5049, 0);
const START_CPU: (usize, usize) = (0x48_534d, 0);

/// Bits of `sie` and `sip`, and numbers of causes.
const SOFTWARE: usize = 1;
const TIMER: usize = 5;

/// Counts of the clock in a tick.
static TICK: Once<u64> = Once::new();

/// Opens the serial line, and reads the device tree.
///
/// # Safety
/// The firmware passed this address, and nothing has used memory since.
pub(crate) unsafe fn open(address: usize, number: u64) -> Option<Line> {
    // SAFETY: as the caller says.
    let (tree, line) = unsafe { device_tree::open(address, number) }?;
    let frequency = tree.find("/cpus")?.number("timebase-frequency")?;
    TICK.call_once(|| frequency / u64::from(TICKS_PER_SECOND));
    // A 16550: bit 5 of its status says that there is room.
    let put = |line, byte| {
        let (data, status) = (line as *mut u8, (line + 5) as *const u8);
        // SAFETY: the device tree names these registers, and reading them touches no memory.
        while unsafe { status.read_volatile() } & 1 << 5 == 0 {}
        // SAFETY: as above.
        unsafe { data.write_volatile(byte) };
    };
    Some(Line { address: line, put })
}

/// Ends the machine.
pub(crate) fn exit(outcome: Outcome) -> ! {
    device_tree::exit(outcome, |call, arguments| {
        // SAFETY: these instructions call the debugger: QEMU reads the arguments, and ends.
        unsafe {
            asm!(
                ".balign 16", ".option push", ".option norvc",
                "slli x0, x0, 0x1f", "ebreak", "srai x0, x0, 7",
                ".option pop",
                in("a0") call, in("a1") arguments, options(nostack),
            );
        }
    })
}

/// Calls the firmware.
fn sbi(call: (usize, usize), arguments: [usize; 3]) -> Result<(), i64> {
    let [first, second, third] = arguments;
    let error: i64;
    // SAFETY: the calls of this file change nothing of the caller.
    unsafe {
        asm!(
            "ecall",
            in("a7") call.0, in("a6") call.1,
            inout("a0") first => error, inout("a1") second => _, in("a2") third,
            options(nostack),
        );
    }
    match error {
        0 => Ok(()),
        error => Err(error),
    }
}

/// Returns the address that `set_local` stored on this CPU.
pub(crate) fn local() -> usize {
    let address: usize;
    // SAFETY: no thread-local variables use the register.
    unsafe { asm!("mv {}, tp", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}

/// Stores an address for this CPU.
pub(crate) fn set_local(address: usize) {
    // SAFETY: as in `local`.
    unsafe { asm!("mv tp, {}", in(reg) address, options(nostack, preserves_flags)) };
}

/// Says whether interrupts are enabled on this CPU.
pub(crate) fn interrupts_are_enabled() -> bool {
    let status: usize;
    // SAFETY: reading the flags changes nothing.
    unsafe { asm!("csrr {}, sstatus", out(reg) status, options(nostack, preserves_flags)) };
    status & 2 != 0
}

/// Enables interrupts.
pub(crate) fn enable_interrupts() {
    // SAFETY: `start_interrupts` prepared them.
    unsafe { asm!("csrsi sstatus, 2", options(nostack, preserves_flags)) };
}

/// Disables interrupts.
pub(crate) fn disable_interrupts() {
    // SAFETY: the kernel may always do this.
    unsafe { asm!("csrci sstatus, 2", options(nostack, preserves_flags)) };
}

/// Waits for an interrupt, with interrupts disabled, and enables them.
pub(crate) fn wait() {
    // SAFETY: an interrupt that is disabled also ends the wait.
    unsafe { asm!("wfi", options(nostack, preserves_flags)) };
    enable_interrupts();
}

/// Prepares the interrupts of this CPU, and starts its timer.
pub(crate) fn start_interrupts() {
    unsafe extern "C" {
        // entry.s defines it.
        static vectors: u8;
    }
    // SAFETY: the entry saves the registers that it changes.
    unsafe { asm!("csrw stvec, {}", in(reg) &raw const vectors, options(nostack)) };
    start_timer();
    let enabled = 1 << SOFTWARE | 1 << TIMER;
    // SAFETY: `on_trap` handles these interrupts.
    unsafe { asm!("csrw sie, {}", in(reg) enabled, options(nostack)) };
}

/// Lets the timer interrupt after a tick.
fn start_timer() {
    let now: u64;
    // SAFETY: reading the clock changes nothing.
    unsafe { asm!("csrr {}, time", out(reg) now, options(nomem, nostack)) };
    let tick = TICK.get().expect("the device tree was read");
    sbi(SET_TIMER, [(now + tick) as usize, 0, 0]).expect("the firmware has timers");
}

// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn on_trap(cause: isize, code: usize, address: usize) {
    // The highest bit of an interrupt is set.
    const AN_INTERRUPT: isize = isize::MIN;
    const AT_TIMER: isize = AN_INTERRUPT + TIMER as isize;
    const BY_SOFTWARE: isize = AN_INTERRUPT + SOFTWARE as isize;
    match cause {
        AT_TIMER => {
            start_timer();
            handler::on_timer();
        }
        // SAFETY: the interrupt is over.
        BY_SOFTWARE => unsafe { asm!("csrci sip, 2", options(nostack)) },
        _ => panic!(
            "fault {cause:#x} on CPU {}, by the code at {code:#x}, address {address:#x}",
            cpus::local().id().0
        ),
    }
}

/// Lets the other CPUs look for a job. The interrupt also reaches this CPU.
pub(crate) fn wake_others() {
    const ALL: usize = usize::MAX;
    sbi(SEND_INTERRUPT, [0, ALL, 0]).expect("the firmware sends interrupts");
}

/// Starts the other CPUs. Their stacks are ready.
pub(crate) fn start_others(cpus: u16) {
    unsafe extern "C" {
        // entry.s defines it.
        fn start();
    }
    let start = start as *const () as usize;
    device_tree::start_others(cpus, |_, number| {
        sbi(START_CPU, [number as usize, start, 0])
    });
}
