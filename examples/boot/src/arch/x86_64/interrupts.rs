//! The local timers, interrupts between CPUs, and faults.

use core::arch::naked_asm;

use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::port::Port;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::{Entry, InterruptDescriptorTable};

use crate::cpus::{local, pause};
use crate::handler::{self, TICKS_PER_SECOND, ticks};

const TIMER: u8 = 0x20;
const WAKE: u8 = 0x21;
const SPURIOUS: u8 = 0xff;

/// Counts of the timer in a second, in QEMU.
const FREQUENCY: u32 = 1_000_000_000;

/// Registers of the local APIC. Source: Intel SDM, volume 3, section 12.4.1.
const APIC: usize = 0xfee0_0000;
const END_OF_INTERRUPT: usize = 0xb0;
const SPURIOUS_VECTOR: usize = 0xf0;
const COMMAND_LOW: usize = 0x300;
const TIMER_VECTOR: usize = 0x320;
const TIMER_COUNT: usize = 0x380;
const TIMER_DIVIDE: usize = 0x3e0;

const TO_ALL_OTHERS: u32 = 0b11 << 18;
const ASSERT: u32 = 1 << 14;
const INIT: u32 = 0b101 << 8;
const START_UP: u32 = 0b110 << 8;

static TABLE: Once<InterruptDescriptorTable> = Once::new();

fn write(register: usize, value: u32) {
    // SAFETY: these registers are mapped to themselves, and writing those of this file touches no memory.
    unsafe { ((APIC + register) as *mut u32).write_volatile(value) };
}

/// Sends an interrupt to all other CPUs.
fn send(command: u32) {
    write(COMMAND_LOW, TO_ALL_OTHERS | ASSERT | command);
}

/// Lets the other CPUs look for a job.
pub(crate) fn wake_others() {
    send(u32::from(WAKE));
}

/// Starts all other CPUs at a page below 1 MiB. Source: Intel SDM, volume 3, section 10.4.4.
pub(super) fn start_all_others(page: u8) {
    send(INIT);
    let start = ticks();
    while ticks() < start + 100 {
        pause(u32::MAX);
    }
    send(START_UP | u32::from(page));
    while ticks() < start + 110 {
        pause(u32::MAX);
    }
    send(START_UP | u32::from(page));
}

/// Prepares the interrupts of this CPU, and starts its timer.
pub(crate) fn start_interrupts() {
    TABLE.call_once(table).load();
    for mask in [0x21, 0xa1] {
        // SAFETY: these ports mask the old interrupt controller.
        unsafe { Port::new(mask).write(0xff_u8) };
    }
    write(SPURIOUS_VECTOR, 1 << 8 | u32::from(SPURIOUS));
    write(TIMER_DIVIDE, 0b1011);
    write(TIMER_VECTOR, 1 << 17 | u32::from(TIMER));
    write(TIMER_COUNT, FREQUENCY / TICKS_PER_SECOND);
}

fn table() -> InterruptDescriptorTable {
    fn set<F>(entry: &mut Entry<F>, handler: unsafe extern "C" fn()) {
        let address = VirtAddr::new(handler as usize as u64);
        // SAFETY: the functions of this file save the registers that they change, or do not return.
        unsafe { entry.set_handler_addr(address) };
    }
    let mut table = InterruptDescriptorTable::new();
    set(&mut table.divide_error, fault::<0>);
    set(&mut table.invalid_opcode, fault::<6>);
    set(&mut table.double_fault, fault::<8>);
    set(&mut table.stack_segment_fault, fault::<12>);
    set(&mut table.general_protection_fault, fault::<13>);
    set(&mut table.page_fault, fault::<14>);
    set(&mut table[TIMER], enter_timer);
    set(&mut table[WAKE], enter_wake);
    set(&mut table[SPURIOUS], enter_spurious);
    table
}

/// Defines the entry of a handler: it saves what a function may change.
///
/// The CPU aligned the stack to 16 bytes and pushed 5 words, and 9 follow.
macro_rules! entry {
    ($name:ident, $handler:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "push rax", "push rcx", "push rdx", "push rsi", "push rdi",
                "push r8", "push r9", "push r10", "push r11",
                "cld",
                "call {handler}",
                "pop r11", "pop r10", "pop r9", "pop r8",
                "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
                "iretq",
                handler = sym $handler,
            )
        }
    };
}

entry!(enter_timer, on_timer);
entry!(enter_wake, on_wake);
entry!(enter_spurious, on_spurious);

extern "C" fn on_timer() {
    write(END_OF_INTERRUPT, 0);
    handler::on_timer();
}

extern "C" fn on_wake() {
    write(END_OF_INTERRUPT, 0);
}

/// A spurious interrupt has no end.
extern "C" fn on_spurious() {}

#[unsafe(naked)]
unsafe extern "C" fn fault<const VECTOR: u32>() {
    naked_asm!(
        "mov edi, {vector}",
        "mov rsi, rsp",
        "and rsp, -16",
        "call {report}",
        "ud2",
        vector = const VECTOR,
        report = sym report_fault,
    )
}

extern "C" fn report_fault(vector: u32, stack: *const u64) -> ! {
    // SAFETY: the CPU pushed the error code, for some vectors, and the address of the instruction.
    let pushed = unsafe { stack.cast::<[u64; 2]>().read() };
    let address = Cr2::read_raw();
    panic!(
        "fault {vector} on CPU {}, pushed {pushed:x?}, CR2 {address:#x}",
        local().id().0
    );
}
