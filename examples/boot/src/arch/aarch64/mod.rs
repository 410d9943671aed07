//! 64-bit ARM, as QEMU's machine `virt` starts a kernel of Linux's format.
//!
//! The firmware's interface PSCI starts CPUs; the interrupt controller is a GIC of version 2, whose registers the
//! device tree names. Sources: Arm DEN 0022 (PSCI), IHI 0048 (GIC), DDI 0487 (the timer).

use core::arch::{asm, global_asm};

use spin::Once;

use super::device_tree;
use crate::console::Outcome;
use crate::cpus;
use crate::handler::{self, TICKS_PER_SECOND};

pub(crate) use device_tree::{Line, boot_info};

global_asm!(include_str!("entry.s"));

/// What entry.s does not map.
pub(crate) const UNMANAGED: [(u64, u64); 1] = [(512 << 30, u64::MAX)];

/// The interrupt of the virtual timer, which each CPU has for itself.
const TIMER: u32 = 27;
/// The lowest numbers are interrupts of other CPUs; this one lets a CPU look for a job.
const WAKE: u32 = 1;

/// Registers of the GIC.
const ENABLE: u64 = 0x100;
const TARGETS_SHIFT: u32 = 24;
const SOFTWARE: u64 = 0xf00;
const PRIORITY_MASK: u64 = 0x4;
const ACKNOWLEDGE: u64 = 0xc;
const END_OF_INTERRUPT: u64 = 0x10;

/// Firmware's call that starts a CPU.
const CPU_ON: u64 = 0xc400_0003;

/// What the device tree says.
struct Devices {
    /// The registers of the GIC that all CPUs share.
    distributor: u64,
    /// Those that each CPU has for itself.
    interface: u64,
    /// Whether the firmware is called by `hvc`, not by `smc`.
    is_hvc: bool,
}

static DEVICES: Once<Devices> = Once::new();

fn devices() -> &'static Devices {
    DEVICES.get().expect("the device tree was read")
}

/// Opens the serial line, and reads the device tree.
///
/// # Safety
/// The firmware passed this address, and nothing has used memory since.
pub(crate) unsafe fn open(address: usize, number: u64) -> Option<Line> {
    // SAFETY: as the caller says.
    let (tree, line) = unsafe { device_tree::open(address, number) }?;
    let is_gic = |compatible| matches!(compatible, Some("arm,cortex-a15-gic" | "arm,gic-400"));
    let mut nodes = tree.root().children();
    let gic = nodes.find(|node| is_gic(node.text("compatible")))?;
    let mut registers = gic.reg().map(|(start, _)| start);
    let devices = Devices {
        distributor: registers.next()?,
        interface: registers.next()?,
        is_hvc: tree.find("/psci")?.text("method") == Some("hvc"),
    };
    DEVICES.call_once(|| devices);
    // A PL011: bit 5 of its flags says that its queue is full.
    let put = |line, byte| {
        while read(line + 0x18) & 1 << 5 != 0 {}
        write(line, u32::from(byte));
    };
    Some(Line { address: line, put })
}

/// Ends the machine.
pub(crate) fn exit(outcome: Outcome) -> ! {
    device_tree::exit(outcome, |call, arguments| {
        // SAFETY: QEMU reads the arguments, and ends.
        unsafe { asm!("hlt #0xf000", in("x0") call, in("x1") arguments, options(nostack)) };
    })
}

fn read(register: u64) -> u32 {
    // SAFETY: the device tree names these registers, and reading them touches no memory.
    unsafe { (register as *const u32).read_volatile() }
}

fn write(register: u64, value: u32) {
    // SAFETY: as in `read`.
    unsafe { (register as *mut u32).write_volatile(value) };
}

/// Returns the address that `set_local` stored on this CPU.
pub(crate) fn local() -> usize {
    let address: usize;
    // SAFETY: the register is for the kernel's use.
    unsafe {
        asm!("mrs {}, tpidr_el1", out(reg) address, options(nomem, nostack, preserves_flags))
    };
    address
}

/// Stores an address for this CPU.
pub(crate) fn set_local(address: usize) {
    // SAFETY: as in `local`.
    unsafe { asm!("msr tpidr_el1, {}", in(reg) address, options(nostack, preserves_flags)) };
}

/// Says whether interrupts are enabled on this CPU.
pub(crate) fn interrupts_are_enabled() -> bool {
    let flags: usize;
    // SAFETY: reading the flags changes nothing.
    unsafe { asm!("mrs {}, daif", out(reg) flags, options(nostack, preserves_flags)) };
    flags & 1 << 7 == 0
}

/// Enables interrupts.
pub(crate) fn enable_interrupts() {
    // SAFETY: `start_interrupts` prepared them.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Disables interrupts.
pub(crate) fn disable_interrupts() {
    // SAFETY: the kernel may always do this.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
}

/// Waits for an interrupt, with interrupts disabled, and enables them.
pub(crate) fn wait() {
    // SAFETY: an interrupt that is disabled also ends the wait.
    unsafe { asm!("wfi", options(nostack, preserves_flags)) };
    enable_interrupts();
}

/// Prepares the interrupts of this CPU, and starts its timer.
pub(crate) fn start_interrupts() {
    let Devices {
        distributor,
        interface,
        ..
    } = *devices();
    unsafe extern "C" {
        // entry.s defines it.
        static vectors: u8;
    }
    // SAFETY: the entries save the registers that they change, or do not return.
    unsafe { asm!("msr vbar_el1, {}", "isb", in(reg) &raw const vectors, options(nostack)) };
    write(distributor, 1);
    write(distributor + ENABLE, 1 << TIMER | 1 << WAKE);
    write(interface + PRIORITY_MASK, 0xff);
    write(interface, 1);
    start_timer();
    // SAFETY: the timer interrupts this CPU only.
    unsafe { asm!("msr cntv_ctl_el0, {:x}", in(reg) 1_u64, options(nostack)) };
}

/// Lets the timer interrupt after a tick.
fn start_timer() {
    let frequency: u64;
    // SAFETY: reading the frequency changes nothing.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack)) };
    let counts = frequency / u64::from(TICKS_PER_SECOND);
    // SAFETY: the timer interrupts this CPU only.
    unsafe { asm!("msr cntv_tval_el0, {}", in(reg) counts, options(nostack)) };
}

// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn on_interrupt() {
    let interface = devices().interface;
    let acknowledged = read(interface + ACKNOWLEDGE);
    let number = acknowledged & 0x3ff;
    if number == TIMER {
        start_timer();
    }
    // Numbers from 1020 on mean that no interrupt is pending.
    if number < 1020 {
        write(interface + END_OF_INTERRUPT, acknowledged);
    }
    if number == TIMER {
        handler::on_timer();
    }
}

// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn report_fault(syndrome: u64, code: u64, address: u64) -> ! {
    panic!(
        "fault {syndrome:#x} on CPU {}, by the code at {code:#x}, address {address:#x}",
        cpus::local().id().0
    );
}

/// Lets the other CPUs look for a job.
pub(crate) fn wake_others() {
    const ALL_OTHERS: u32 = 1;
    // What this CPU wrote is there before the interrupt is.
    // SAFETY: a barrier changes nothing.
    unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
    write(
        devices().distributor + SOFTWARE,
        ALL_OTHERS << TARGETS_SHIFT | WAKE,
    );
}

/// Starts the other CPUs. Their stacks are ready.
pub(crate) fn start_others(cpus: u16) {
    unsafe extern "C" {
        // entry.s defines it.
        fn other_start();
    }
    let start = other_start as *const () as usize;
    device_tree::start_others(cpus, |cpu, number| {
        let mut result = CPU_ON;
        macro_rules! call {
            ($instruction:literal) => {
                // SAFETY: the firmware starts a CPU that runs nothing, at code for it.
                unsafe {
                    asm!(
                        $instruction,
                        inout("x0") result, inout("x1") number => _, inout("x2") start => _,
                        inout("x3") cpu.index() => _, clobber_abi("C"), options(nostack),
                    )
                }
            };
        }
        if devices().is_hvc {
            call!("hvc #0");
        } else {
            call!("smc #0");
        }
        match result as i64 {
            0 => Ok(()),
            error => Err(error),
        }
    });
}
