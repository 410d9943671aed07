//! What the device tree says, on architectures whose firmware passes one.
//!
//! # Invariants
//! Everything is copied out of the tree before the first frame is allocated: the tree lies in memory that the system
//! manages later.

use core::fmt::Write;

use everybuddy::CpuId;
use everybuddy_adapters::fdt::{FdtError, Tree, total_bytes};
use spin::Once;

use crate::boot_info::BootInfo;
use crate::console::Outcome;
use crate::cpus::MAX_CPUS;

/// The numbers by which the firmware calls the CPUs.
static CPUS: Once<[Option<u64>; MAX_CPUS]> = Once::new();

/// Reads the tree at an address.
///
/// # Safety
/// The firmware passed this address, and nothing has used memory since.
unsafe fn tree(address: usize) -> Result<Tree<'static>, FdtError> {
    let start = address as *const [u8; 8];
    // SAFETY: as the caller says.
    let bytes = total_bytes(unsafe { *start })?;
    // SAFETY: as the caller says.
    Tree::new(unsafe { core::slice::from_raw_parts(start.cast(), bytes) })
}

/// Reads the tree, and returns it with the address of the serial line. The first CPU is the one with this number.
///
/// # Safety
/// As for `tree`.
pub(super) unsafe fn open(address: usize, first_cpu: u64) -> Option<(Tree<'static>, u64)> {
    // SAFETY: as the caller says.
    let tree = unsafe { tree(address) }.ok()?;
    let mut cpus = [None; MAX_CPUS];
    cpus[0] = Some(first_cpu);
    let nodes = tree.find("/cpus")?.children();
    let nodes = nodes.filter(|node| node.text("device_type") == Some("cpu") && node.is_available());
    let others = nodes.filter_map(|node| match node.number("reg") {
        Some(number) if number != first_cpu => Some(number),
        _ => None,
    });
    for (place, number) in cpus[1..].iter_mut().zip(others) {
        *place = Some(number);
    }
    CPUS.call_once(|| cpus);
    // Options of the line may follow the path.
    let path = tree
        .find("/chosen")?
        .text("stdout-path")?
        .split(':')
        .next()?;
    Some((tree, tree.find(path)?.reg().next()?.0))
}

/// Copies the memory map and the command line.
///
/// # Safety
/// As for `tree`.
pub(crate) unsafe fn boot_info(address: usize) -> BootInfo {
    // SAFETY: as the caller says.
    let tree = unsafe { tree(address) }.unwrap_or_else(|error| panic!("{error}"));
    let line = tree
        .find("/chosen")
        .and_then(|chosen| chosen.text("bootargs"));
    BootInfo::new(tree.regions(), line.unwrap_or("").as_bytes())
}

/// Starts the other CPUs one by one. `start_cpu` takes a CPU and the firmware's number of it, and returns the
/// firmware's error.
pub(super) fn start_others(cpus: u16, start_cpu: impl Fn(CpuId, u64) -> Result<(), i64>) {
    let numbers = CPUS.get().expect("the tree was read");
    for cpu in (1..cpus).map(CpuId) {
        let number = numbers[cpu.index()];
        let number = number.unwrap_or_else(|| panic!("the machine has {} of {cpus} CPUs", cpu.0));
        start_cpu(cpu, number).unwrap_or_else(|error| {
            panic!("the firmware does not start CPU {number:#x}: error {error}")
        });
    }
}

/// Ends QEMU with this code, by the interface for debuggers. `call` passes a number and an argument to the debugger.
pub(super) fn exit(outcome: Outcome, call: impl Fn(usize, *const [usize; 2])) -> ! {
    const SYS_EXIT: usize = 0x18;
    const APPLICATION_EXIT: usize = 0x2_0026;
    let arguments = [APPLICATION_EXIT, outcome as usize * 2 + 1];
    loop {
        call(SYS_EXIT, &raw const arguments);
    }
}

/// The serial line: what writes a byte to the device at an address.
pub(crate) struct Line {
    pub(super) address: u64,
    pub(super) put: fn(u64, u8),
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.bytes().for_each(|byte| (self.put)(self.address, byte));
        Ok(())
    }
}
