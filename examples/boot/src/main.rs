//! A kernel that takes its page frames from `everybuddy`, and tests the system that its command line names.
//!
//! # Purpose
//!
//! The allocators run on bare metal here: no operating system, several CPUs, timer interrupts inside operations, and
//! frames that hold data. `ci/boot.sh` boots it in QEMU for every system.
//!
//! | file | contents |
//! |---|---|
//! | `entry.s`, `boot_info` | the way into long mode; the memory map and the command line of the boot loader |
//! | `frames` | the system, in memory of the map |
//! | `cpus`, `interrupts` | the CPUs and their tokens; timer interrupts |
//! | `blocks`, `random`, `exhaustion` | tests with frames that hold data |
//! | `paging` | pages and page tables of the crate `x86_64` |
//! | `conformance` | the properties of `everybuddy-suite` |
//! | `console` | the serial line, and the exit code |
//!
//! # Invariants
//!
//! The machine ends with [`console::exit`], or by a panic, which is a failure.
#![no_std]
#![no_main]

extern crate alloc;

mod blocks;
mod boot_info;
mod conformance;
mod console;
mod cpus;
mod exhaustion;
mod frames;
mod interrupts;
mod paging;
mod random;

use core::arch::global_asm;

use everybuddy::CpuId;

use boot_info::BootInfo;
use console::println;

global_asm!(include_str!("entry.s"));

/// The first CPU arrives here, on its stack, with all memory mapped.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn first_cpu(start_info: u64) -> ! {
    console::open();
    // SAFETY: the boot loader passed this address, and nothing has used memory since.
    let info = unsafe { BootInfo::read(start_info) };
    let words = info.command_line();
    let built = frames::build(&info, &words);
    // SAFETY: this is the first CPU, and this code runs once.
    unsafe { cpus::start(CpuId(0)) };
    let kernel_frames = cpus::start_others(words.cpus);
    println!(
        "boot: {} on {} CPUs, {} frames in {} ranges, {} bytes of metadata",
        words.spec, words.cpus, built.frames, built.ranges, built.metadata_bytes
    );
    let free = built.frames - kernel_frames;
    frames::check(free, "boot");
    random::run(words.operations);
    frames::check(free, "random");
    exhaustion::run(free);
    frames::check(free, "exhaustion");
    frames::misuse();
    frames::check(free, "misuse");
    paging::run();
    frames::check(free, "paging");
    if let Some(extent) = words.suite {
        conformance::run(&words.spec, extent);
        frames::check(free, "conformance");
    }
    println!("  {:<12} {free} frames are free, as at first", "count");
    println!("boot: passed");
    console::exit(console::Outcome::Passed)
}
