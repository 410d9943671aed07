//! The allocators inside a kernel that is written in C: one object file and one header.
//!
//! A kernel links one object, includes `include/everybuddy_kernel.h`, and selects any system by its name and options.
//! `ci/linux.sh object` builds the object; the folder `linux` of the repository uses it in Linux.
//!
//! | file | contents |
//! |---|---|
//! | `gate` | the token of a CPU whose preemption is disabled, and the counters of that CPU |
//! | `interrupts` | disables the interrupts of a CPU |
//! | `frames` | a system in the memory that the kernel provides, and the operations on it |
//! | `reporting` | free blocks that are reported to the monitor of a virtual machine |
//! | `codes` | errors as numbers, and their texts |
//! | `calls` | the functions of the header |
//! | `panic` | a panic calls the kernel; only in the object |
//!
//! # Design decisions
//! - A token stands for disabled preemption and not for disabled interrupts. An interrupt handler that arrives during
//!   an operation finds its CPU's gate closed. It uses the nested operations of the allocators, which take no per-CPU
//!   list and only try locks.
//! - Interrupts are disabled while a CPU may hold the lock of a zone. Otherwise a handler could wait for a lock of a
//!   driver whose holder, on another CPU, allocates and waits for that zone. A hit in a list without a lock
//!   disables nothing.
//! - A system is called indirectly, because it is chosen at boot. An allocation or a free is one such call, of a
//!   function that is compiled for the system.
//!
//! # Invariants
//! The allocators are those of the crate `everybuddy`, without any change. Nothing here allocates memory, uses floating
//! point, or waits for anything except what the allocators wait for.
#![no_std]
#![allow(unsafe_code)]

mod calls;
mod codes;
mod frames;
mod gate;
mod interrupts;
#[cfg(target_os = "none")]
mod panic;
mod reporting;
#[cfg(test)]
extern crate std;
#[cfg(test)]
mod tests;

pub use calls::*;
pub use frames::{Frames, Operations};
pub use gate::{Gate, Machine, PreemptionDisabled, SlowPaths};
pub use reporting::Reports;
