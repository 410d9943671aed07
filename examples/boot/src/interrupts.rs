//! Interrupts: the local timers, interrupts between CPUs, and faults.
//!
//! # Purpose
//!
//! A timer's handler allocates a frame, and frees it at the next tick. Where it interrupted an operation, it has no
//! token, and uses the nested calls.
//!
//! # Invariants
//!
//! Handlers run with interrupts disabled. They never wait for a lock that the code below them may hold.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use everybuddy::{AllocateError, Flags, FreeError, Index, Release, Request};
use spin::Once;
use x86_64::VirtAddr;
use x86_64::instructions::port::Port;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::{Entry, InterruptDescriptorTable};

use crate::blocks::Content;
use crate::cpus::{Local, Token, local, pause};
use crate::frames::frames;

const TIMER: u8 = 0x20;
const WAKE: u8 = 0x21;
const SPURIOUS: u8 = 0xff;

/// Counts of the timer between two ticks: 200 microseconds in QEMU.
const TICK: u32 = 200_000;

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

/// Whether timer interrupts allocate.
static ALLOCATES: AtomicBool = AtomicBool::new(false);

static TABLE: Once<InterruptDescriptorTable> = Once::new();

/// The state of a CPU's timer handler. Only that CPU uses it while its timer allocates.
pub(crate) struct Handler {
    ticks: AtomicU64,
    /// The frame that the handler holds, plus one.
    held: AtomicU32,
    /// Calls inside an operation of this CPU, without a token.
    pub(crate) inside: AtomicU32,
    /// Calls with the token.
    pub(crate) direct: AtomicU32,
    /// Calls that were refused as busy, or because memory was exhausted.
    pub(crate) busy: AtomicU32,
}

impl Handler {
    pub(crate) const fn new() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            held: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            direct: AtomicU32::new(0),
            busy: AtomicU32::new(0),
        }
    }

    /// Allocates a frame, or frees the one that the last tick allocated.
    fn step(&self, local: &Local) {
        let add =
            |count: &AtomicU32| count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let cpu = local.id();
        let content = Content::of_handler(cpu);
        let mut token = Token::claim();
        add(match token {
            Some(_) => &self.direct,
            None => &self.inside,
        });
        match self.held.load(Ordering::Relaxed) {
            0 => {
                let result = match &mut token {
                    Some(token) => {
                        frames().allocate(token, Request::FRAME.with_flags(Flags::NO_WAIT))
                    }
                    None => frames().allocate_nested(cpu, Request::FRAME),
                };
                match result {
                    Ok(frame) => {
                        content.fill(frame, 1);
                        self.held.store(frame.0 + 1, Ordering::Relaxed);
                    }
                    Err(AllocateError::Busy | AllocateError::Exhausted) => add(&self.busy),
                    Err(error) => panic!("CPU {}, in an interrupt: {error}", cpu.0),
                }
            }
            held => {
                let frame = Index(held - 1);
                content.check(frame, 1);
                let release = Release::frame(frame);
                let result = match &mut token {
                    Some(token) => frames().free(token, release),
                    None => frames().free_nested(cpu, release),
                };
                match result {
                    Ok(()) => self.held.store(0, Ordering::Relaxed),
                    Err(FreeError::Busy) => add(&self.busy),
                    Err(error) => panic!("CPU {}, free in an interrupt: {error}", cpu.0),
                }
            }
        }
    }

    /// Takes the frame that the handler holds. Its timer does not allocate any more.
    pub(crate) fn take(&self) -> Option<Index> {
        self.held
            .swap(0, Ordering::Relaxed)
            .checked_sub(1)
            .map(Index)
    }
}

/// Says whether the timers' handlers allocate from now on.
pub(crate) fn let_handlers_allocate(allocates: bool) {
    ALLOCATES.store(allocates, Ordering::Relaxed);
}

/// Returns the ticks of this CPU's timer.
pub(crate) fn ticks() -> u64 {
    local().handler.ticks.load(Ordering::Relaxed)
}

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
pub(crate) fn start_all_others(page: u8) {
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

/// Enables the interrupts of this CPU, and starts its timer.
pub(crate) fn start() {
    TABLE.call_once(table).load();
    for mask in [0x21, 0xa1] {
        // SAFETY: these ports mask the old interrupt controller.
        unsafe { Port::new(mask).write(0xff_u8) };
    }
    write(SPURIOUS_VECTOR, 1 << 8 | u32::from(SPURIOUS));
    write(TIMER_DIVIDE, 0b1011);
    write(TIMER_VECTOR, 1 << 17 | u32::from(TIMER));
    write(TIMER_COUNT, TICK);
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
    let local = local();
    let handler = &local.handler;
    handler
        .ticks
        .store(handler.ticks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    if ALLOCATES.load(Ordering::Relaxed) {
        handler.step(local);
    }
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
