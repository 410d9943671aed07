//! PCs, as QEMU starts a 64-bit kernel: by the PVH protocol of Xen.
//!
//! A note in the file has the address of the entry, and a register has that of a structure with the memory map and the
//! command line. Source: xen/include/public/arch-x86/hvm/start_info.h.

mod interrupts;
pub(crate) mod paging;

use core::arch::{asm, global_asm};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};

use everybuddy_adapters::FRAME_BYTES;
use everybuddy_adapters::e820::{Form, Map};
use uart_16550::backend::PioBackend;
use uart_16550::{Config, Uart16550Tty};
use x86_64::VirtAddr;
use x86_64::instructions::interrupts as flag;
use x86_64::instructions::port::Port;
use x86_64::registers::model_specific::GsBase;

use crate::boot_info::BootInfo;
use crate::console::Outcome;

pub(crate) use interrupts::{start_interrupts, wake_others};

global_asm!(include_str!("entry.s"));

/// Memory that the system does not manage: that of firmware, with the code that starts CPUs, and what is not mapped.
pub(crate) const UNMANAGED: [(u64, u64); 2] = [(0, 0x1_0000), (512 << 30, u64::MAX)];

/// Where the code that starts CPUs is copied to. Its page number is the vector of the start-up interrupt.
const TRAMPOLINE: u64 = 0x8000;

/// The first serial port.
const SERIAL: u16 = 0x3f8;

/// The port of QEMU's device isa-debug-exit. QEMU ends with twice the value plus one.
const EXIT: u16 = 0xf4;

/// The CPUs that have arrived in long mode, with the first one. Each takes its number here.
// SAFETY: no other symbol has this name.
#[unsafe(export_name = "arrived_cpus")]
static ARRIVED: AtomicU32 = AtomicU32::new(1);
/// The number of CPUs. Those that arrive beyond it stop.
// SAFETY: no other symbol has this name.
#[unsafe(export_name = "expected_cpus")]
static EXPECTED: AtomicU32 = AtomicU32::new(1);

// entry.s defines these.
unsafe extern "C" {
    static trampoline: u8;
    static trampoline_end: u8;
}

const MAGIC: u32 = 0x336e_c578;
/// The start information, up to the fields that the kernel reads.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

/// The serial line.
pub(crate) type Line = Uart16550Tty<PioBackend>;

/// Opens the serial line.
///
/// # Safety
/// The first CPU calls this once.
pub(crate) unsafe fn open(_: usize, _: u64) -> Option<Line> {
    // SAFETY: the port is that of a PC's first serial line, and nothing else uses it.
    unsafe { Uart16550Tty::new_port(SERIAL, Config::default()) }.ok()
}

/// Ends the machine.
pub(crate) fn exit(outcome: Outcome) -> ! {
    let mut port = Port::new(EXIT);
    loop {
        // SAFETY: the device ends the machine; without it, the port is not connected.
        unsafe { port.write(outcome as u32) };
    }
}

/// Copies the memory map and the command line.
///
/// # Safety
/// The address is the one that the boot loader passed, and its memory was not used since.
pub(crate) unsafe fn boot_info(address: usize) -> BootInfo {
    // SAFETY: the boot loader's structure is there, as the caller says, and memory is mapped to itself.
    let info = unsafe { &*(address as *const StartInfo) };
    assert!(
        info.magic == MAGIC && info.version >= 1,
        "the kernel needs a boot loader that speaks PVH and passes a memory map"
    );
    let bytes = info.memory_map_entries as usize * Form::Pvh.bytes();
    // SAFETY: the map has that many entries, as the structure says.
    let map = unsafe { core::slice::from_raw_parts(info.memory_map as *const u8, bytes) };
    let map = Map::new(map, Form::Pvh).unwrap_or_else(|error| panic!("{error}"));
    let mut line: &[u8] = &[];
    if info.command_line != 0 {
        // SAFETY: the structure says that a text that ends with zero is there.
        line = unsafe { CStr::from_ptr(info.command_line as *const _) }.to_bytes();
    }
    BootInfo::new(map.regions(), line)
}

/// Returns the address that `set_local` stored on this CPU.
pub(crate) fn local() -> usize {
    let address: usize;
    // SAFETY: GS leads to a structure whose first word is its address.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) address, options(nostack, readonly, preserves_flags))
    };
    address
}

/// Stores the address of a structure whose first word is this address, for this CPU.
pub(crate) fn set_local(address: usize) {
    GsBase::write(VirtAddr::new(address as u64));
}

/// Says whether interrupts are enabled on this CPU.
pub(crate) fn interrupts_are_enabled() -> bool {
    flag::are_enabled()
}

/// Enables interrupts.
pub(crate) fn enable_interrupts() {
    flag::enable();
}

/// Disables interrupts.
pub(crate) fn disable_interrupts() {
    flag::disable();
}

/// Waits for an interrupt, with interrupts enabled. None is missed between the two.
pub(crate) fn wait() {
    flag::enable_and_hlt();
}

/// Starts the other CPUs. Their stacks are ready.
pub(crate) fn start_others(cpus: u16) {
    EXPECTED.store(u32::from(cpus), Ordering::Relaxed);
    let bytes = (&raw const trampoline_end).addr() - (&raw const trampoline).addr();
    // SAFETY: the code lies in the kernel, and the frame that it is copied to is not managed.
    unsafe {
        core::ptr::copy_nonoverlapping(&raw const trampoline, TRAMPOLINE as *mut u8, bytes);
    }
    interrupts::start_all_others((TRAMPOLINE / FRAME_BYTES) as u8);
}
