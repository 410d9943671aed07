//! A kernel that takes its page frames from `everybuddy`, and tests the system that its command line names.
//!
//! The allocators run on bare metal here: no operating system, several CPUs, timer interrupts inside operations, and
//! frames that hold data. `ci/boot.sh` boots it in QEMU for every system.
//!
//! | file | contents |
//! |---|---|
//! | `arch` | what differs between x86-64, ARM and RISC-V |
//! | `boot_info` | the memory map and the command line of the boot loader |
//! | `frames` | the system, in memory of the map |
//! | `cpus`, `handler` | the CPUs and their tokens; timer interrupts |
//! | `blocks`, `random`, `exhaustion` | tests with frames that hold data |
//! | `conformance` | the properties of `everybuddy-suite` |
//! | `console` | the serial line |
//!
//! # Invariants
//! The machine ends with [`arch::exit`], or by a panic, which is a failure.
#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod blocks;
mod boot_info;
mod conformance;
mod console;
mod cpus;
mod exhaustion;
mod frames;
mod handler;
mod random;

use everybuddy::CpuId;
use everybuddy_adapters::map::irregular;

use console::println;

/// The first CPU arrives here, on its stack, with all memory mapped: with the address that the boot loader passed, and
/// with the number that the firmware gives to this CPU.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C" fn first_cpu(start_info: usize, number: u64) -> ! {
    // SAFETY: the boot loader passed this address, and this code runs once.
    console::open(unsafe { arch::open(start_info, number) });
    // SAFETY: the boot loader passed this address, and nothing has used memory since.
    let info = unsafe { arch::boot_info(start_info) };
    let words = info.command_line();
    let built = frames::build(&info, &words);
    // SAFETY: this is the first CPU, and this code runs once.
    unsafe { cpus::start(CpuId(0)) };
    let kernel_frames = cpus::start_others(words.cpus);
    println!(
        "boot: {} on {} CPUs, {} frames in {} ranges, {} bytes of metadata",
        words.spec, words.cpus, built.frames, built.ranges, built.metadata_bytes
    );
    println!(
        "  {:<12} {}",
        "map",
        irregular(info.regions().iter().copied())
    );
    let free = built.frames - kernel_frames;
    frames::check(free, "boot");
    random::run(words.operations);
    frames::check(free, "random");
    exhaustion::run(free);
    frames::check(free, "exhaustion");
    frames::misuse();
    frames::check(free, "misuse");
    #[cfg(target_arch = "x86_64")]
    {
        arch::paging::run();
        frames::check(free, "paging");
    }
    if let Some(extent) = words.suite {
        conformance::run(&words.spec, extent);
        frames::check(free, "conformance");
    }
    println!("  {:<12} {free} frames are free, as at first", "count");
    println!("boot: passed");
    arch::exit(console::Outcome::Passed)
}
